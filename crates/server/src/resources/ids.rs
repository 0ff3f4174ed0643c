//! Job ids as callers write them: whole, or as many of their first characters as tell them apart. A prefix finds only
//! what its caller may see, so it tells nothing of others' jobs (E13).

use axum::http::StatusCode;
use backstop::archive::Archived;
use backstop::{JobId, State};
use backstop_core::JobIdPrefix;
use backstop_store::{JobFilter, PageRequest};
use serde::Serialize;
use serde_json::{Value, json};

use super::names;
use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::error::ApiError;

/// Jobs that are named when a prefix is not enough.
const CANDIDATES: usize = 10;

/// Archived jobs that are looked at for one prefix: those of others lie between a tenant's own.
const ARCHIVE_PAGE: usize = 100;
const ARCHIVE_PAGES: usize = 10;

/// A job that a prefix may mean.
#[derive(Debug, Clone, Serialize)]
struct Candidate {
    id: JobId,
    kind: String,
    queue: String,
    status: State,
    archived: bool,
}

/// The id that `text` is, or that it alone begins.
///
/// # Errors
/// `no_such_job` when it is neither, `ambiguous_id` with the candidates when several ids begin so.
pub(super) async fn job_id(api: &Api, caller: &Caller, text: &str) -> Result<JobId, ApiError> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let prefix: JobIdPrefix = text.parse().map_err(|_| {
        let text: String = text.chars().take(60).collect();
        ApiError::not_found("no_such_job", format!("there is no job `{text}`: that is not a job id"))
            .hint("give the whole id, or its first 6 or more characters; `backstop job list` shows ids")
    })?;
    // Candidates are told of, and a token may operate on jobs without reading them.
    if !caller.may(Scope::Read) {
        return Err(no_job(&prefix).hint("without the scope `read`, a token needs whole ids"));
    }
    let mut found = hot(api, caller, &prefix).await?;
    let whole = found.len() > CANDIDATES || archived(api, caller, &prefix, &mut found).await?;
    match &found[..] {
        [] if whole => Err(no_job(&prefix)),
        [one] if whole => Ok(one.id),
        [] | [_] => Err(too_short(&prefix)),
        _ => Err(ambiguous(&prefix, &found)),
    }
}

/// Jobs in the hot tables, newest first: one more than can be named.
async fn hot(api: &Api, caller: &Caller, prefix: &JobIdPrefix) -> Result<Vec<Candidate>, ApiError> {
    let (tenant, queues, _) = caller.view();
    let page = PageRequest { limit: CANDIDATES + 1, after: prefix.beyond() };
    let narrow = |queue: Option<String>| JobFilter {
        tenant: tenant.map(str::to_owned),
        queue,
        id_from: Some(prefix.first()),
        ..JobFilter::default()
    };
    let filters: Vec<JobFilter> = match queues {
        None => vec![narrow(None)],
        Some(queues) => queues
            .iter()
            .map(|queue| caller.queue(queue).map(|queue| narrow(Some(queue))))
            .collect::<Result<_, _>>()?,
    };
    let mut found = Vec::new();
    for filter in filters {
        for view in api.engine().jobs(filter, page).await?.items {
            let spec = &view.job.spec;
            let Some(queue) = caller.sees(&spec.queue) else { continue };
            let (kind, queue) = (spec.kind.to_string(), queue.to_owned());
            found.push(Candidate { id: spec.id, kind, queue, status: view.state(), archived: false });
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.id));
    Ok(found)
}

/// Adds archived jobs; false when there are more between them than are looked at.
async fn archived(
    api: &Api,
    caller: &Caller,
    prefix: &JobIdPrefix,
    found: &mut Vec<Candidate>,
) -> Result<bool, ApiError> {
    let mut page = PageRequest { limit: ARCHIVE_PAGE, after: prefix.beyond() };
    for _ in 0..ARCHIVE_PAGES {
        let archive = api.engine().archive().page(page).await?;
        for (id, archived) in archive.items {
            if id < prefix.first() || found.len() > CANDIDATES {
                return Ok(true);
            }
            let hot = found.iter().any(|one| one.id == id);
            found.extend(candidate(caller, id, &archived).filter(|_| !hot));
        }
        match archive.next {
            Some(next) if next >= prefix.first() => page.after = Some(next),
            _ => return Ok(true),
        }
    }
    Ok(false)
}

fn candidate(caller: &Caller, id: JobId, archived: &Archived) -> Option<Candidate> {
    let mut document: Value = serde_json::from_str(&archived.document).unwrap_or_default();
    let job = &mut document["job"];
    if !names::document(caller, job) {
        return None;
    }
    let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
    Some(Candidate { id, kind: text("kind"), queue: text("queue"), status: archived.state, archived: true })
}

fn no_job(prefix: &JobIdPrefix) -> ApiError {
    ApiError::not_found("no_such_job", format!("there is no job whose id begins with {prefix}"))
        .hint("check the id with `backstop job list`")
}

fn too_short(prefix: &JobIdPrefix) -> ApiError {
    let message = format!("{prefix} is too short to find one job among the archived ones");
    ApiError::new(StatusCode::BAD_REQUEST, "ambiguous_id", message).hint("give more of the id")
}

fn ambiguous(prefix: &JobIdPrefix, found: &[Candidate]) -> ApiError {
    let named = &found[..found.len().min(CANDIDATES)];
    let many = if found.len() > CANDIDATES {
        format!("more than {CANDIDATES} jobs")
    } else {
        format!("{} jobs", found.len())
    };
    ApiError::new(
        StatusCode::BAD_REQUEST,
        "ambiguous_id",
        format!("{prefix} is ambiguous: {many} begin with it"),
    )
    .hint("give more of the id; details.candidates lists them")
    .details(json!({ "prefix": prefix.to_string(), "candidates": named, "more": found.len() > CANDIDATES }))
}
