//! Jobs of fires: made from their schedule, and submitted under a key that no other fire has.

use backstop_core::admit::admit;
use backstop_core::job::{FiredBy, JobDetail, NewJob, OnConflict};
use backstop_core::schedule::{Fire, Schedule, fire_key};
use backstop_core::{Refusal, Timestamp};
use backstop_store::{Error as StoreError, Submit, Submitted};

use crate::config::Config;
use crate::parts::EngineParts;
use crate::{sealing, signing};

/// The job of one fire. One of a fire time has its key; one by hand has none.
pub(crate) fn job_of(
    config: &Config,
    (name, schedule): (&str, &Schedule),
    fire: Fire,
    by_hand: bool,
    now: Timestamp,
) -> Result<NewJob, Refusal> {
    let mut job = schedule.job.clone();
    let due = job.start.run_at(now).max(now);
    let spec = &mut job.spec;
    spec.id = fire.job;
    spec.idempotency_key = (!by_hand).then(|| fire_key(name, fire.fire_time));
    spec.expires_at = schedule.expires_in.map(|span| due.after(span));
    spec.provenance_mut().schedule = Some(FiredBy { name: name.into(), fire_time: fire.fire_time });
    admit(&job, &config.limits, &config.gate(&job.spec.queue))?;
    job.depth_limits = config.depth_limits(&job.spec.queue);
    // Sealed first: what is signed is what is stored.
    sealing::close(config, &mut job.spec)?;
    signing::vouch(config, &mut job.spec);
    Ok(job)
}

/// Stores jobs of fires; one answer each, in order.
pub(crate) async fn submit(
    parts: &EngineParts,
    jobs: Vec<Result<NewJob, Refusal>>,
) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
    let (mut accepted, mut answers) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for job in jobs {
        match job {
            Ok(job) => {
                accepted.push(job);
                answers.push(None);
            }
            Err(refusal) => answers.push(Some(refusal)),
        }
    }
    let mut stored = parts.store.submit(Submit { jobs: accepted, atomic: false }).await?.into_iter();
    let answer = |refusal: Option<Refusal>| match refusal {
        Some(refusal) => Err(refusal),
        None => stored.next().unwrap_or(Err(Refusal::BatchRefused { index: 0 })),
    };
    Ok(answers.into_iter().map(answer).collect())
}

/// Of the job of a fire that is skipped while another one holds its business key: its own key, and the business key.
pub(crate) fn skip_keys(job: &NewJob) -> Option<(String, String)> {
    let key = job.spec.business_key.clone().filter(|_| job.on_conflict == OnConflict::Skip)?;
    Some((job.spec.idempotency_key.clone()?, key))
}

/// The same answers, where one for which a job that is not its own was answered counts as refused: that job holds its
/// business key, and `on_conflict` is `skip`. `keys` has those of each job by [`skip_keys`].
pub(crate) async fn without_skipped(
    parts: &EngineParts,
    keys: Vec<Option<(String, String)>>,
    mut answers: Vec<Result<Submitted, Refusal>>,
) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
    let mut doubtful = Vec::new();
    for (place, (keys, answer)) in keys.into_iter().zip(&answers).enumerate() {
        if let (Some(keys), Ok(submitted)) = (keys, answer)
            && submitted.deduplicated
        {
            doubtful.push((place, *submitted, keys));
        }
    }
    if doubtful.is_empty() {
        return Ok(answers);
    }
    let ids = doubtful.iter().map(|(_, submitted, _)| submitted.id).collect();
    let found = parts.store.jobs(ids).await?;
    for ((place, Submitted { id: holder, state, .. }, (own_key, key)), detail) in
        doubtful.into_iter().zip(found)
    {
        // One that is not there any more has ended long ago: nothing is skipped for it, so it is that of the fire.
        let is_another = |job: JobDetail| job.view.job.spec.idempotency_key.as_ref() != Some(&own_key);
        if detail.is_some_and(is_another) {
            answers[place] = Err(Refusal::BusinessKeyConflict { key, holder, state });
        }
    }
    Ok(answers)
}
