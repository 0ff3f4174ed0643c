//! The suite that every store passes: one macro call, one test per case.
//!
//! ```ignore
//! struct InMyDatabase(tempfile::TempDir);
//! impl backstop_store::conformance::StorePlace for InMyDatabase { /* fresh, open */ }
//! backstop_store::conformance!(InMyDatabase);
//! ```
//!
//! Each case gets a fresh store and a clock that stands, and names the rules it proves. A bug found in one store
//! becomes a case here, so that no other store has it. Cases speak to the store through the contract only; they must
//! not know what is behind it.
//!
//! # Layout
//! - `place`, `fixture`, `build`, `told`: where the store lives, and short ways to say what happens.
//! - One module per noun with its cases. `doctor`: what stores on servers say of their connections.
//! - `property`, `script`, `people`, `draft`, `dice`, `command`, `snapshot`: random commands, played on the model and
//!   on another store.

pub mod again;
pub mod archive;
pub mod callbacks;
pub mod children;
pub mod claim;
pub mod code;
pub mod depth;
pub mod document;
pub mod events;
pub mod expiry;
pub mod growth;
pub mod incident;
pub mod keys;
pub mod leadership;
pub mod lines;
pub mod lists;
pub mod operate;
pub mod outbox;
pub mod purge;
pub mod query;
pub mod rejects;
pub mod run;
pub mod run_limits;
pub mod sharing;
pub mod signals;
pub mod steps;
pub mod submit;
pub mod summary;
pub mod text;
pub mod workers;
pub mod workflows;

mod build;
mod command;
mod dice;
mod doctor;
mod draft;
mod fixture;
mod people;
mod place;
mod property;
mod script;
mod snapshot;
mod told;

pub use doctor::{connection_finding, refusal_text};
pub use fixture::Fixture;
pub use place::{MemoryPlace, StorePlace, block_on};
pub use property::{Divergence, compare, property};

/// Plays one case on a fresh store of this place.
pub fn play<P: StorePlace, C: FnOnce(Fixture) -> F, F: Future<Output = ()>>(case: C) {
    P::block_on(async { case(Fixture::fresh::<P>().await).await });
}

/// Makes one test of each case, and the property test, for the stores of a [`StorePlace`].
#[macro_export]
macro_rules! conformance {
    ($place:ty) => {
        $crate::conformance_cases! {
            $place;
            submit: [
                every_field_of_a_job_reads_back
                provenance_travels_with_the_job
                absent_fields_stay_absent
                start_times_are_resolved_by_the_store
                patience_counts_from_the_due_time
                a_repeated_id_is_deduplicated
                a_repeated_id_tells_where_the_job_is
                the_id_comes_before_the_keys
                later_items_see_earlier_ones
                an_atomic_batch_is_all_or_nothing
                a_refused_batch_leaves_no_trace
                a_partial_batch_stores_what_it_can
                a_batch_over_the_limit_is_refused
                an_empty_batch_is_fine
                jobs_survive_a_reopened_store
            ]
            keys: [
                an_idempotency_key_makes_one_job
                an_idempotency_key_outlives_its_job
                idempotency_keys_differ_in_case_and_space
                racing_clients_make_one_job
                an_idempotency_key_survives_a_reopened_store
                a_business_key_conflict_names_the_holder
                running_and_paused_jobs_hold_their_key
                an_ended_job_frees_its_key
                skip_answers_with_the_holder
                a_skipped_submit_uses_no_idempotency_key
                replace_takes_the_place_of_the_holder
                replace_takes_the_place_of_a_paused_holder
                idempotency_comes_before_the_business_key
                racing_clients_share_one_business_key
                a_job_supersedes_an_unstarted_one
                only_an_unstarted_job_is_superseded
                a_successor_inherits_the_business_key
                a_refused_item_supersedes_nothing
                one_job_may_take_two_places
                a_dead_letter_waits_for_its_key
            ]
            claim: [
                a_job_is_taken_when_it_is_due
                without_aging_the_level_goes_first
                all_five_levels_are_in_order
                waiting_is_worth_levels
                an_old_job_is_not_starved
                what_is_stored_behind_the_last_claim_is_found
                order_follows_the_current_due_time
                a_worker_takes_what_it_knows
                a_queue_may_give_any_kind
                paused_and_ended_jobs_are_passed_by
                a_paused_queue_gives_nothing
                a_claim_takes_no_more_than_its_limit
                queues_are_served_in_the_order_asked_for
                the_last_of_many_queues_is_served
                prefetched_jobs_are_not_started
                each_queue_starts_its_own
                a_claim_stores_worker_time_and_fence
                fences_only_grow
                fences_survive_a_reopened_store
                fences_that_went_back_are_raised
                fences_that_went_back_are_raised_on_opening
                no_job_is_held_twice
                only_a_live_worker_claims
                an_overdue_job_is_passed_by
                a_peek_passes_by_what_is_overdue
                a_peek_says_when_there_is_work
                a_peek_looks_where_the_claim_would
                an_offer_takes_what_a_claim_would_or_nothing
            ]
            run: [
                a_start_is_counted_once
                a_stale_lease_changes_nothing
                an_earlier_hold_is_stale
                a_silent_worker_may_not_write
                each_ending_stands_for_itself
                success_stores_times_and_result
                a_warning_is_kept
                a_result_is_shown_once_the_job_has_ended
                a_failure_is_retried_later
                n_retries_are_n_plus_one_runs
                every_cause_draws_on_its_own_budget
                a_dead_letter_keeps_its_evidence
                every_terminal_reason_is_kept
                a_run_may_cancel_its_job
                a_snoozed_job_comes_back_uncharged
                an_unstarted_job_goes_back_without_blame
                an_unstarted_hold_leaves_no_incident
                success_forgets_the_last_failure
                patience_counts_anew_after_a_retry
                output_is_kept_with_its_run
                progress_is_kept
                lines_of_a_run_are_kept
                runs_survive_a_reopened_store
            ]
            steps: [
                a_step_is_stored_once_and_read_by_the_next_run
                a_stale_lease_stores_no_step
                a_stored_success_is_not_written_again
                a_step_in_the_place_of_another_is_refused
                an_effect_is_unknown_until_its_outcome_is_stored
                steps_of_a_success_are_told
                a_redrive_keeps_the_steps
                steps_go_with_their_job
                steps_of_many_runs_are_stored_together
                steps_survive_a_crash_and_a_reopening
            ]
            signals: [
                a_parked_job_goes_on_when_its_signal_comes
                a_signal_before_the_end_of_the_run_is_not_lost
                a_signal_is_delivered_to_all_or_nothing_is_written
                a_signal_for_an_earlier_hold_changes_nothing
                a_paused_job_keeps_what_came
                a_parked_head_keeps_its_line
            ]
            rejects: [
                rejects_are_stored_with_their_counts
                a_stale_lease_stores_no_reject
                a_batch_of_rejects_is_stored_once
                rejects_of_many_runs_are_stored_together
                rejects_outlive_their_run
                an_item_is_kept_as_it_was_given
            ]
            outbox: [
                ends_are_sent_with_their_transitions
                a_dead_letter_is_sent_as_its_envelope
                a_success_is_handed_off_with_its_transition
                nothing_is_written_that_nobody_takes
                messages_of_one_commit_are_one_document
                an_end_that_is_told_again_is_sent_once
                rejects_are_sent_once
                events_are_sent_in_order_per_job
                a_sink_is_sent_the_events_that_it_wants
                a_batch_that_is_refused_sends_nothing
                what_a_full_sink_does_not_get_is_counted
                a_backlog_is_measured_for_each_sink
                messages_stay_until_they_are_removed
            ]
            again: [
                the_same_ending_is_answered_as_the_first_time
                another_ending_of_the_same_run_is_stale
                an_old_lease_speaks_of_its_own_run
                the_same_and_other_endings_in_one_batch
                an_answer_outlives_its_worker
                what_others_ended_is_stale
                a_repeated_ending_leaves_no_trace
                endings_are_known_after_a_reopening
            ]
            callbacks: [
                a_callback_is_a_job_of_its_own
                only_the_final_outcome_fires
                a_callback_is_stored_exactly_once
                a_redrive_fires_anew
                a_canceled_job_fires_nothing
                failures_are_counted_as_incidents
                a_stale_ending_is_no_incident
                a_reported_failure_is_no_incident
            ]
            children: [
                children_are_stored_with_the_completion
                a_stale_completion_stores_no_children
                a_repeated_completion_stores_its_children_once
                children_of_many_runs_are_stored_together
            ]
            workflows: [
                ends_of_parts_are_noted
                ends_together_are_one_document
                parts_with_a_past_are_noted
                ends_of_a_changed_claim_are_noted
                a_part_that_ends_again_says_so
                a_step_waits_until_it_is_released
                a_paused_step_is_released_into_its_pause
                a_step_that_cannot_run_is_called_off
                jobs_are_stored_with_a_change
                a_refused_job_undoes_the_change
                documents_are_read_by_name
            ]
            workers: [
                a_worker_is_shown_as_it_is
                workers_come_by_name
                a_renewal_keeps_what_is_held
                a_renewal_tells_what_was_lost
                a_late_renewal_is_refused
                silence_makes_orphans
                runs_that_were_handed_out_are_told
                orphans_come_oldest_first
                orphans_come_up_to_a_limit
                a_retired_worker_leaves_orphans
                a_started_orphan_is_a_crash
                a_prefetched_orphan_goes_back_without_blame
                the_eleventh_crash_poisons
                a_suspect_is_held_and_started_by_itself
                only_orphans_are_rescued
                a_canceled_orphan_is_not_rescued
                enlisting_again_replaces_the_row
                workers_survive_a_reopened_store
            ]
            leadership: [
                one_node_leads
                each_duty_has_its_own_leader
                renewing_keeps_the_term
                a_term_that_ran_out_is_followed_by_the_next
                racing_nodes_make_one_leader
                terms_are_told_with_their_ends
                a_term_that_ran_out_is_told_until_the_next
                a_store_that_nobody_led_has_no_terms
                terms_survive_a_reopened_store
                a_deposed_leader_rescues_nothing
                a_deposed_leader_expires_nothing
                a_late_leader_may_not_write
                a_renewed_term_counts_until_its_new_end
            ]
            operate: [
                cancel_in_every_state
                pause_in_every_state
                resume_in_every_state
                retry_in_every_state
                canceling_ends_the_run
                canceling_a_prefetched_job_ends_no_run
                canceling_twice_changes_nothing
                resume_restores_the_earlier_state
                a_retry_starts_over_and_keeps_the_lineage
                a_retried_job_has_its_budget_again
                operations_come_in_order
                pausing_a_queue_answers_whether_it_changed
                a_paused_queue_survives_a_reopened_store
            ]
            expiry: [
                an_overdue_job_is_failed
                the_longest_overdue_go_first
                what_is_overdue_is_told_in_pages
                what_changed_meanwhile_does_not_expire
                running_and_paused_jobs_do_not_expire
                jobs_expire_wherever_they_wait
                a_job_waits_no_longer_than_its_patience
                an_expired_job_fires_its_callback
                an_expired_job_can_be_driven_again
                an_expired_job_is_no_incident
            ]
            archive: [
                a_job_leaves_when_its_retention_is_over
                no_retention_keeps_jobs_for_ever
                the_longest_ended_go_first
                what_has_not_ended_stays_whatever_its_age
                a_paused_dead_letter_stays
                a_retried_job_counts_anew
                a_deposed_leader_archives_nothing
                an_idempotency_key_outlives_archival
                an_archived_job_holds_nothing
                an_archived_job_is_out_of_sight
                the_document_holds_the_ledger
                a_long_ledger_is_kept_whole
                archiving_again_changes_nothing
                an_archived_id_may_come_again
            ]
            incident: [
                open_follows_the_dead_letters
                a_dead_letter_is_open_in_one_incident
                versions_are_kept
                what_people_say_is_kept
                only_fixed_code_regresses
                a_batch_regresses_by_its_latest_version
                a_new_incident_is_told
                a_death_is_noticed_once_an_hour
                an_expired_job_is_noticed
                without_listeners_nothing_is_noticed
                a_plan_drives_a_job_once
                surroundings_know_the_code_it_needs
            ]
            document: [
                a_document_is_kept
                a_change_rests_on_a_revision
                documents_are_read_in_pages
                too_much_is_refused
                bodies_come_back
                of_two_writers_one_wins
                operations_go_with_the_change
                a_conflict_touches_no_job
                a_held_key_refuses_its_job_alone
                a_deposed_leader_amends_nothing
            ]
            growth: [
                queues_are_read_by_name
                holdings_are_of_one_tenant
                empty_lanes_are_retired
                a_job_brings_its_lane_back
                incidents_that_are_over_are_retired
                only_the_leader_retires
            ]
            purge: [
                only_what_has_ended_is_purged
                a_state_can_be_asked_for
                nothing_is_left_of_a_purged_job
                an_idempotency_key_outlives_a_purge
                pruning_takes_the_oldest_and_leaves_what_never_ran
                a_deposed_leader_prunes_nothing
                the_archive_is_listed_in_pages
                a_survey_counts_by_group
                endings_bound_a_list
                a_pause_keeps_its_note
            ]
            code: [
                an_unknown_kind_waits
                a_newer_version_waits
                an_unserved_queue_holds_nothing
                a_worker_with_the_code_releases_it
                the_last_worker_with_the_code_holds_it_again
                held_lanes_are_summed
                a_waiting_job_is_a_pending_one_to_people
                any_kind_takes_from_a_held_lane
                the_oldest_due_job_is_not_a_waiting_one
            ]
            depth: [
                a_full_queue_takes_no_more
                running_and_ended_jobs_do_not_count
                what_is_known_already_is_answered_by_a_full_queue
                a_batch_gets_what_places_there_are
                a_job_whose_turn_has_just_come_is_replaced
                an_atomic_batch_needs_a_place_for_each
                a_tenant_is_counted_over_all_its_queues
                racing_clients_never_exceed_a_depth
                children_and_callbacks_find_a_place
            ]
            run_limits: [
                no_more_run_at_once_than_the_limit
                whatever_ends_a_run_makes_room
                a_limited_kind_lets_others_pass
                all_limits_hold_together
                no_more_start_in_a_time_than_the_rate
                the_room_of_the_dead_comes_back
                a_job_that_nobody_takes_holds_no_room
                a_limit_that_is_lowered_takes_effect_at_the_next_claim
                racing_claims_never_exceed_a_limit
                what_is_claimed_ahead_counts
                limits_show_what_is_used_of_them
                a_look_tells_the_revision_of_limits
            ]
            sharing: [
                each_key_has_its_own_room
                each_key_has_its_own_rate
                one_run_of_a_name_at_a_time
                a_pool_lends_no_more_permits_than_it_has
                whatever_ends_a_run_gives_back_what_it_held
                what_the_dead_held_comes_back
                nobody_but_its_owner_gives_a_name_back
                keys_take_turns_whoever_waits_longer
                a_weight_gives_a_key_more_starts_in_its_turn
                jobs_that_share_nothing_take_their_turn
                a_key_takes_its_best_job_first
                a_shared_job_that_nobody_takes_holds_nothing
                racing_claims_never_exceed_what_is_shared
                what_waits_can_be_paused_and_canceled
                a_retried_job_waits_for_its_time_and_its_room
                a_deferral_that_lasts_too_long_ends_the_job
                many_keys_without_room_do_not_hide_one_with_room
                what_keeps_a_job_back_is_told
                what_could_start_of_jobs_that_share_is_told
                jobs_that_share_are_not_claimed_ahead
            ]
            lines: [
                jobs_of_one_key_run_one_after_the_other
                lines_do_not_wait_for_each_other
                a_line_goes_across_queues_and_kinds
                the_order_of_submits_counts_and_nothing_else
                the_head_keeps_its_turn_until_it_has_ended_well
                a_crashed_head_keeps_its_turn
                a_prefetched_head_keeps_its_turn
                a_failed_head_blocks_its_line_until_it_is_retried
                a_head_that_is_given_up_lets_the_next_one_go
                a_paused_head_blocks_its_line
                a_waiting_job_can_leave_its_line
                a_waiting_job_can_be_paused
                a_paused_job_gets_its_turn_and_keeps_the_line_waiting
                a_head_that_is_not_there_any_more_lets_the_next_one_go
                a_waiting_job_expires_when_its_turn_has_come
                a_job_tells_where_it_stands_in_its_line
                lines_are_listed_in_pages
                lines_survive_a_reopened_store
                racing_clients_make_one_line
                children_join_lines_too
                a_refused_batch_leaves_no_line
            ]
            lists: [
                names_and_states_agree_with_the_whole
                ids_between_two_are_found
                the_oldest_jobs_of_many_lanes_are_found
            ]
            query: [
                every_filter_filters
                a_tenant_sees_only_its_own
                pages_have_no_gaps
                the_last_page_has_no_next
                a_filtered_list_is_paged_too
                a_page_over_the_limit_is_refused
                a_ledger_is_paged
                jobs_are_looked_up_in_order
                queue_counts_match_a_recount
                queues_are_shown_by_name
                the_oldest_due_job_is_shown
                incidents_come_latest_first
                incidents_are_found_behind_others
                a_waiting_job_is_explained
                a_running_job_is_explained
                the_last_decision_is_explained
                surroundings_count_live_workers
                reading_changes_nothing
            ]
            summary: [
                a_summary_agrees_with_the_job_in_every_state
                a_summary_tells_nothing_of_who_is_gone
            ]
            events: [
                a_life_is_told_in_order
                events_say_which_job_and_when
                nothing_is_told_of_what_was_refused
                operations_are_told_when_they_move_the_job
                a_replaced_job_is_told_first
                a_prefetched_start_is_told_once
                an_expired_job_is_told_as_dead
                a_callback_is_told_after_the_end
                deferrals_are_told_as_such
                observers_are_replaced_and_asked
                expired_jobs_are_told_of_whoever_listens
                work_that_arrives_gives_a_hint
            ]
            text: [
                texts_of_a_run_come_back
                nul_comes_back
                long_texts_come_back
                json_is_kept_as_it_was_written
                names_are_compared_as_they_are
            ]
        }

        #[test]
        fn property() {
            $crate::conformance::property::<$place>();
        }
    };
}

/// The modules and tests of [`conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($place:ty; $($noun:ident: [$($case:ident)*])*) => {
        $(
            mod $noun {
                #[allow(unused_imports, reason = "the place may be named by a path of its own")]
                use super::*;

                $(
                    #[test]
                    fn $case() {
                        $crate::conformance::play::<$place, _, _>($crate::conformance::$noun::$case);
                    }
                )*
            }
        )*
    };
}
