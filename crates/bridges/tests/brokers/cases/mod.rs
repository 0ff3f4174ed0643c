//! The cases of the suite, in the order in which they run.

mod admission;
pub(crate) mod b6;
mod bodies;
mod connections;
mod consumers;
mod sessions;
mod sinks;

use std::future::Future;
use std::pin::Pin;

use crate::stage::Stage;

type Case = for<'a> fn(&'a mut Stage) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        [$((stringify!($name), (|stage| Box::pin($module::$name(stage))) as Case)),*]
    };
}

/// Runs every case on one broker.
pub(crate) async fn all(mut stage: Stage) {
    let cases = cases![
        sessions::messages_are_published_received_and_settled,
        sessions::a_message_given_back_comes_again_after_its_delay,
        sessions::an_abandoned_message_is_kept_by_its_broker,
        b6::b6_forged_envelopes_are_left_to_the_broker,
        admission::every_message_is_one_job_in_order,
        admission::the_same_id_is_one_job,
        admission::messages_without_an_id_of_their_own,
        admission::a_store_that_is_away_leaves_messages_with_the_broker,
        admission::a_full_queue_stops_the_source_until_there_is_room,
        admission::a_paused_queue_and_a_paused_source_take_nothing,
        admission::an_open_circuit_stops_the_source,
        admission::the_store_fails_on_one_message_and_takes_the_others,
        bodies::hostile_bodies_are_kept_with_their_bytes,
        bodies::a_body_at_the_limit_is_a_job_and_one_over_it_is_not,
        connections::no_more_is_held_than_prefetched,
        connections::a_connection_that_breaks_loses_nothing,
        connections::a_missing_queue_is_named_and_found_later,
        connections::a_broker_that_is_killed_comes_back_and_nothing_is_lost,
        consumers::several_consumers_take_messages_at_the_same_time,
        consumers::several_consumers_make_one_job_of_each_message,
        consumers::a_pause_and_a_cut_reach_every_consumer,
        sinks::results_and_dead_letters_reach_the_broker,
        sinks::events_of_a_job_stay_in_order_through_cuts,
        sinks::one_process_publishes_at_a_time,
        sinks::a_sink_that_is_away_delays_no_job,
        sinks::a_slow_broker_keeps_its_publisher,
        sinks::what_is_sealed_is_published_by_who_has_the_keys,
    ];
    for (name, case) in cases {
        let begin = std::time::Instant::now();
        case(&mut stage).await;
        eprintln!("{name}: {:?}", begin.elapsed());
    }
}

/// Cut between admit and ack, a hundred times: one job each (B1).
pub(crate) async fn cuts(stage: &Stage, engine: &crate::stage::TestEngine) {
    connections::a_hundred_cuts_before_the_ack(stage, engine).await;
}

pub(crate) use admission::a_circuit_of_a_dependency_in_code_stops_the_source;

/// Ten minutes without a broker, by a manual clock (B5).
pub(crate) use connections::ten_minutes_without_a_broker;
