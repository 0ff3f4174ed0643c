//! What becomes of a message, and when a source stops taking messages. Pure: everything comes in as values.

use backstop::sinks::SinkView;
use backstop_core::Refusal;
use backstop_core::circuit::CircuitState;
use backstop_core::health::{DependencyReport, WorkerReport};
use backstop_store::Error as StoreError;

use crate::message::BrokerMessage;

/// Bytes of a message, with its headers, that the invalid channel keeps. Databases take a row of that size in their
/// usual settings, also when its bytes are written as text; a larger message stays with its broker, as abandoned.
pub const MOST_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// What becomes of a message that the engine did not make a job of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageDecision {
    /// It can never be a job: it goes to the invalid channel, and is acknowledged when it is there.
    Invalid,
    /// It is too large even for that: its broker keeps it among its dead letters, and the channel says so.
    Abandon,
    /// It may be a job later: it goes back to its broker, and the source takes no more for a while.
    GiveBack,
}

/// What follows when the store failed on a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitDecision {
    /// The store is away: all messages go back, and the source takes no more for a while.
    GiveBack,
    /// One message may be the reason: each half is tried alone.
    Split,
    /// This message is the reason.
    Invalid,
}

/// What a refusal of the engine means for a message.
pub(crate) const fn of_refusal(refusal: &Refusal) -> MessageDecision {
    match refusal {
        // The message is fine: there is no room, or the configuration does not let its kind in yet.
        Refusal::QueueFull { .. } | Refusal::BatchRefused { .. } | Refusal::KindNotAllowed { .. } => {
            MessageDecision::GiveBack
        }
        _ => MessageDecision::Invalid,
    }
}

/// Where a message goes that cannot be a job.
pub(crate) fn of_invalid(message: &BrokerMessage) -> MessageDecision {
    let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if message.body.len() + headers > MOST_KEPT_BYTES {
        MessageDecision::Abandon
    } else {
        MessageDecision::Invalid
    }
}

/// What follows when the store failed on so many messages.
pub(crate) const fn of_store_error(error: &StoreError, messages: usize) -> SubmitDecision {
    match error {
        // Only here can a single value be what the database stumbles over.
        StoreError::Backend { .. } | StoreError::TooMany { .. } if messages > 1 => SubmitDecision::Split,
        StoreError::Backend { .. } => SubmitDecision::Invalid,
        _ => SubmitDecision::GiveBack,
    }
}

/// What a source knows of where its jobs go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QueueCondition {
    pub(crate) paused: bool,
    pub(crate) pending: u64,
    pub(crate) max_depth: Option<u64>,
    /// The dependency of the jobs' kind, and how its circuit stands.
    pub(crate) circuit: Option<(String, CircuitState)>,
    /// The dependency for which no worker claims jobs of that kind.
    pub(crate) red: Option<String>,
    /// Why the messages of these jobs could not be answered.
    pub(crate) unanswered: Option<String>,
}

/// Why a sink that answers messages cannot be trusted with the answers to more of them: it is stuck, or half of what it
/// may hold waits. The other half is for the jobs that there are already (B2, B3).
pub(crate) fn unanswered(view: &SinkView) -> Option<String> {
    let SinkView { sink, limits, backlog, full_since, last_error, .. } = view;
    let (name, messages) = (&sink.name, backlog.messages);
    let is_half = |waiting: u64, most: u64| waiting >= (most / 2).max(1);
    if full_since.is_some()
        || is_half(backlog.documents, limits.documents)
        || is_half(backlog.bytes, limits.bytes)
    {
        return Some(format!(
            "too much waits for sink `{name}`, which answers messages ({messages} messages)"
        ));
    }
    let problem = last_error.as_ref().filter(|_| messages > 0)?;
    Some(format!("sink `{name}`, which answers messages, does not publish: {problem}"))
}

/// The dependency for which no worker claims jobs of a kind: one finds it away, and none that needs it too finds it
/// there (H1).
pub(crate) fn red_for<'a>(
    kind: &str,
    reports: impl Iterator<Item = &'a WorkerReport> + Clone,
) -> Option<String> {
    let red = reports.clone().find_map(|report| report.red_for(kind))?.dependency.clone();
    let is_green =
        |one: &DependencyReport| one.ok && one.dependency == red && one.kinds.iter().any(|k| k == kind);
    let claimed = reports.flat_map(|report| &report.dependencies).any(is_green);
    (!claimed).then_some(red)
}

/// The dependency that workers need for jobs of a kind: it may be named in their code alone (H1).
pub(crate) fn dependency_of<'a>(
    kind: &str,
    mut reports: impl Iterator<Item = &'a WorkerReport>,
) -> Option<String> {
    let needs = |one: &&DependencyReport| one.kinds.iter().any(|needing| needing == kind);
    reports.find_map(|report| report.dependencies.iter().find(needs)).map(|one| one.dependency.clone())
}

/// Why a source takes no messages now, if it should not (B1).
pub(crate) fn closed_by(queue: &str, condition: &QueueCondition) -> Option<String> {
    let QueueCondition { paused, pending, max_depth, circuit, red, unanswered } = condition;
    if *paused {
        return Some(format!("queue `{queue}` is paused"));
    }
    if let Some((dependency, CircuitState::Open)) = circuit {
        return Some(format!("the circuit of dependency `{dependency}` is open"));
    }
    if let Some(dependency) = red {
        return Some(format!("dependency `{dependency}` is unavailable to every worker that needs it"));
    }
    if let Some(reason) = unanswered {
        return Some(reason.clone());
    }
    let most = max_depth.filter(|most| pending >= most)?;
    Some(format!("queue `{queue}` is full ({pending} waiting, the limit is {most})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{DeliveryTag, MessageId};
    use backstop_core::depth::DepthScope;

    #[test]
    fn a_refusal_is_about_the_message_or_about_the_moment() {
        // B1, B4
        let full = Refusal::QueueFull { scope: DepthScope::Queue("q".into()), depth: 1, limit: 1 };
        let large = Refusal::TooLarge { field: "payload", actual: 2, limit: 1, unit: "bytes" };
        let gate = Refusal::KindNotAllowed { kind: "k".into(), queue: "q".into() };
        for (refusal, fate) in [
            (full, MessageDecision::GiveBack),
            (Refusal::BatchRefused { index: 0 }, MessageDecision::GiveBack),
            (gate, MessageDecision::GiveBack),
            (large, MessageDecision::Invalid),
            (Refusal::invalid("payload", "it is not valid JSON"), MessageDecision::Invalid),
            (Refusal::invalid("idempotency_key", "it contains U+0000"), MessageDecision::Invalid),
        ] {
            assert_eq!(of_refusal(&refusal), fate, "{refusal}");
        }
    }

    #[test]
    fn only_a_failure_of_the_database_itself_can_be_about_one_message() {
        let location = || "here".to_owned();
        let away = StoreError::Unavailable { location: location(), problem: "gone".into(), source: None };
        let unknown = StoreError::Unknown { location: location(), source: None };
        let corrupt = StoreError::Corrupt { location: location(), problem: "odd".into() };
        let backend = StoreError::Backend { location: location(), problem: "bad text".into(), source: None };
        for (error, messages, fate) in [
            (&away, 1, SubmitDecision::GiveBack),
            (&away, 9, SubmitDecision::GiveBack),
            (&unknown, 9, SubmitDecision::GiveBack),
            (&corrupt, 1, SubmitDecision::GiveBack),
            (&backend, 2, SubmitDecision::Split),
            (&backend, 1, SubmitDecision::Invalid),
        ] {
            assert_eq!(of_store_error(error, messages), fate, "{error} with {messages}");
        }
    }

    #[test]
    fn a_message_that_no_row_can_hold_stays_with_its_broker() {
        let message = |bytes: usize| BrokerMessage {
            body: vec![b'x'; bytes],
            headers: vec![("name".into(), "value".into())],
            ..BrokerMessage::new(MessageId::broker("1"), DeliveryTag::new("1"))
        };
        assert_eq!(of_invalid(&message(MOST_KEPT_BYTES - 9)), MessageDecision::Invalid);
        assert_eq!(of_invalid(&message(MOST_KEPT_BYTES - 8)), MessageDecision::Abandon);
    }

    #[test]
    fn a_source_stops_for_a_paused_or_full_queue_and_an_open_circuit() {
        // B1
        let open = QueueCondition { pending: 5, max_depth: Some(6), ..QueueCondition::default() };
        let circuit = |state| Some(("smtp".to_owned(), state));
        for (condition, reason) in [
            (QueueCondition::default(), None),
            (open.clone(), None),
            (
                QueueCondition { pending: 6, ..open.clone() },
                Some("queue `q` is full (6 waiting, the limit is 6)"),
            ),
            (QueueCondition { paused: true, ..open.clone() }, Some("queue `q` is paused")),
            (
                QueueCondition { circuit: circuit(CircuitState::Open), ..open.clone() },
                Some("the circuit of dependency `smtp` is open"),
            ),
            (
                QueueCondition { red: Some("smtp".to_owned()), ..open.clone() },
                Some("dependency `smtp` is unavailable to every worker that needs it"),
            ),
            (
                QueueCondition { unanswered: Some("nobody is answered".to_owned()), ..open.clone() },
                Some("nobody is answered"),
            ),
            // A half-open circuit needs jobs to find out whether the dependency is back.
            (QueueCondition { circuit: circuit(CircuitState::HalfOpen), ..open.clone() }, None),
            (QueueCondition { circuit: circuit(CircuitState::Closed), ..open }, None),
        ] {
            assert_eq!(closed_by("q", &condition).as_deref(), reason, "{condition:?}");
        }
    }

    #[test]
    fn a_kind_is_red_while_no_worker_claims_it() {
        // B1, H1
        let report = |kind: &str, ok: bool| WorkerReport {
            dependencies: vec![DependencyReport {
                dependency: "smtp".to_owned(),
                kinds: vec![kind.to_owned()],
                ok,
                since: backstop_core::Timestamp::EPOCH,
                last: None,
                next_at: None,
                failed_tries: 0,
            }],
            ..WorkerReport::default()
        };
        for (reports, red) in [
            (vec![], None),
            (vec![report("mail", true)], None),
            (vec![report("mail", false)], Some("smtp")),
            (vec![report("mail", false), report("mail", true)], None),
            (vec![report("mail", false), report("other", true)], Some("smtp")),
            (vec![report("other", false)], None),
        ] {
            assert_eq!(red_for("mail", reports.iter()).as_deref(), red, "{reports:?}");
        }
    }
}
