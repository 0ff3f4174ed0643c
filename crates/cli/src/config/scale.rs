//! What `[workers]` says of how many worker processes there are to be (H9).

use std::collections::BTreeMap;

use backstop_core::scale::{ProcessRangeError, ProcessSlots, ScaleSettings};

use super::read::PlainValue;

/// Takes one value over.
pub(super) fn take(settings: &mut ScaleSettings, word: &str, value: &PlainValue) -> Result<(), String> {
    match (word, value) {
        ("processes", PlainValue::Text(range)) => {
            settings.processes = range.parse().map_err(|problem: ProcessRangeError| problem.to_string())?;
        }
        ("scale_up_after", PlainValue::Span(span)) => settings.up_after = *span,
        ("scale_down_after", PlainValue::Span(span)) => settings.down_after = *span,
        _ => {}
    }
    Ok(())
}

/// Runs of one process at once, by queue. A queue without any here is left to other workers, of which nothing is known.
pub(super) fn slots(queues: &BTreeMap<String, usize>) -> ProcessSlots {
    let served = queues.iter().filter(|(_, concurrency)| **concurrency > 0);
    let slots = |(queue, concurrency): (&String, &usize)| {
        (queue.clone(), u64::try_from(*concurrency).unwrap_or(u64::MAX))
    };
    ProcessSlots { queues: served.map(slots).collect(), ..ProcessSlots::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_cannot_be_is_refused_in_one_sentence() {
        // H9
        for (range, told) in [
            ("0", "`0` allows no process at all: the minimum is 1"),
            ("5..2", "`5..2` begins above its end: the minimum comes first, as in 1..8"),
            ("1..1000", "`1..1000` is over the limit of 256 processes"),
        ] {
            let given = PlainValue::Text(range.to_owned());
            let problem = take(&mut ScaleSettings::default(), "processes", &given);
            assert_eq!(problem, Err(told.to_owned()));
        }
    }
}
