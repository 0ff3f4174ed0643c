//! How a call that failed is tried again (W12): its jobs are split in halves until the bad one stands alone. Pure.

/// What follows from a failed call for those of its jobs that have no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FailedCall<T> {
    /// It was alone in the call: the failure is its own.
    Alone(T),
    /// Nobody can tell whose failure it is: they are called again, in these groups.
    Again(Vec<Vec<T>>),
}

/// Decides about `unanswered`, the rest of a failed call of `called` jobs. Every group is smaller than the call was, so
/// this ends; and only who was alone is ever blamed.
pub(super) fn after_failure<T>(called: usize, mut unanswered: Vec<T>) -> FailedCall<T> {
    match (called, unanswered.pop()) {
        (_, None) => FailedCall::Again(Vec::new()),
        (1, Some(only)) => FailedCall::Alone(only),
        (_, Some(last)) => {
            unanswered.push(last);
            let second = unanswered.split_off(unanswered.len().div_ceil(2));
            let halves = [unanswered, second];
            FailedCall::Again(halves.into_iter().filter(|half| !half.is_empty()).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a handler meets its bad jobs.
    #[derive(Debug, Clone, Copy)]
    enum Manner {
        /// One statement for all: nothing is answered when it fails.
        AllOrNothing,
        /// One after the other, answered one by one, up to the first bad one.
        OneByOne,
    }

    /// What a whole search came to.
    #[derive(Debug, Default)]
    struct Search {
        calls: usize,
        blamed: Vec<usize>,
        /// How often each job was answered.
        answers: Vec<u32>,
    }

    fn search(jobs: usize, bad: impl Fn(usize) -> bool, manner: Manner) -> Search {
        let mut search = Search { answers: vec![0; jobs], ..Search::default() };
        let mut waiting = vec![(0..jobs).collect::<Vec<_>>()];
        while let Some(group) = waiting.pop() {
            search.calls += 1;
            let first_bad = group.iter().position(|job| bad(*job));
            let answered = match (manner, first_bad) {
                (_, None) => group.len(),
                (Manner::AllOrNothing, Some(_)) => 0,
                (Manner::OneByOne, Some(place)) => place,
            };
            group[..answered].iter().for_each(|job| search.answers[*job] += 1);
            if first_bad.is_none() {
                continue;
            }
            match after_failure(group.len(), group[answered..].to_vec()) {
                FailedCall::Alone(job) => search.blamed.push(job),
                FailedCall::Again(groups) => waiting.extend(groups.into_iter().rev()),
            }
        }
        search.blamed.sort_unstable();
        search
    }

    /// W12: whichever jobs are bad, those are blamed, and every other is answered once.
    #[test]
    fn exactly_the_bad_jobs_are_found_whichever_they_are() {
        for jobs in 1..=8_usize {
            for set in 0..1_u32 << jobs {
                for manner in [Manner::AllOrNothing, Manner::OneByOne] {
                    let bad = |job: usize| set & (1 << job) != 0;
                    let found = search(jobs, bad, manner);
                    let expected: Vec<usize> = (0..jobs).filter(|job| bad(*job)).collect();
                    assert_eq!(found.blamed, expected, "{jobs} jobs, {set:b}, {manner:?}");
                    for (job, answers) in found.answers.iter().enumerate() {
                        assert_eq!(
                            *answers,
                            u32::from(!bad(job)),
                            "job {job} of {jobs}, {set:b}, {manner:?}"
                        );
                    }
                    let levels = jobs.next_power_of_two().trailing_zeros() as usize;
                    let most = (1 + 2 * levels * expected.len()).min(2 * jobs - 1).max(1);
                    assert!(found.calls <= most, "{} calls, {jobs} jobs, {set:b}, {manner:?}", found.calls);
                }
            }
        }
    }

    /// W12: one bad job among many costs about two calls for each halving.
    #[test]
    fn one_bad_job_among_a_thousand_is_found_in_twenty_calls_more() {
        for bad in [0, 1, 499, 500, 998, 999] {
            let found = search(1_000, |job| job == bad, Manner::AllOrNothing);
            assert_eq!(found.blamed, [bad]);
            assert!(found.calls <= 1 + 2 * 10, "{} calls for {bad}", found.calls);
        }
    }

    /// W12: a job that is left over from a larger call has not been alone.
    #[test]
    fn the_last_one_without_an_answer_is_called_again_before_it_is_blamed() {
        assert_eq!(after_failure(5, vec!['e']), FailedCall::Again(vec![vec!['e']]));
        assert_eq!(after_failure(1, vec!['e']), FailedCall::Alone('e'));
        assert_eq!(after_failure::<char>(5, vec![]), FailedCall::Again(vec![]));
    }
}
