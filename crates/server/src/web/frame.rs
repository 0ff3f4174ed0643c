//! What is around every view: where one is, where one can go, who one is.

use maud::{DOCTYPE, Markup, html};

use super::actions;
use super::assets::{ICON_PATH, SCRIPT_PATH, STYLE_PATH};
use super::call::{LOOKS_EVERY_MS, PageProblem};
use super::visit::PageVisit;

/// A place of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PagePlace {
    Overview,
    Incidents,
    Redrives,
    Rejects,
    Parked,
    Jobs,
    Queues,
    Workflows,
    Batches,
    Signals,
    Schedules,
    Workers,
    Bridges,
    Handoffs,
    Circuits,
    Archive,
    Alerts,
    Webhooks,
    Rules,
    RetryBudgets,
    Limits,
    Retention,
    Tokens,
    Audit,
    /// Found by searching, and in no list.
    None,
}

/// A line of the navigation: where it leads and which route of the API it shows.
struct NavLine {
    place: PagePlace,
    name: &'static str,
    path: &'static str,
    route: &'static str,
}

const fn line(place: PagePlace, name: &'static str, path: &'static str, route: &'static str) -> NavLine {
    NavLine { place, name, path, route }
}

/// The groups of the navigation: trouble first, for that is what people come for.
const GROUPS: [(&str, &[NavLine]); 6] = [
    ("", &[line(PagePlace::Overview, "Overview", "/", "GET /api/v1/queues")]),
    (
        "Trouble",
        &[
            line(PagePlace::Incidents, "Incidents", "/incidents", "GET /api/v1/incidents"),
            line(PagePlace::Redrives, "Drive again", "/redrives", "GET /api/v1/redrives"),
            line(PagePlace::Rejects, "Rejected items", "/rejects", "GET /api/v1/reject-groups"),
            line(PagePlace::Parked, "Parked", "/parked", "GET /api/v1/ordering-keys"),
        ],
    ),
    (
        "Work",
        &[
            line(PagePlace::Jobs, "Jobs", "/jobs", "GET /api/v1/jobs"),
            line(PagePlace::Queues, "Queues", "/queues", "GET /api/v1/queues"),
            line(PagePlace::Workflows, "Workflows", "/workflows", "GET /api/v1/workflows"),
            line(PagePlace::Batches, "Batches", "/batches", "GET /api/v1/batches"),
            line(PagePlace::Signals, "Signals", "/signals", "GET /api/v1/signals"),
            line(PagePlace::Schedules, "Schedules", "/schedules", "GET /api/v1/schedules"),
        ],
    ),
    (
        "Machine",
        &[
            line(PagePlace::Workers, "Workers", "/workers", "GET /api/v1/workers"),
            line(PagePlace::Bridges, "Bridges", "/bridges", "GET /api/v1/bridges"),
            line(PagePlace::Handoffs, "Hand-off", "/handoffs", "GET /api/v1/handoffs"),
            line(PagePlace::Circuits, "Circuits", "/circuits", "GET /api/v1/circuits"),
        ],
    ),
    (
        "Records",
        &[
            line(PagePlace::Archive, "Archive", "/archive", "GET /api/v1/archive"),
            line(PagePlace::Alerts, "Alerts", "/alerts", "GET /api/v1/alerts"),
            line(PagePlace::Webhooks, "Webhooks", "/webhooks", "GET /api/v1/webhooks"),
        ],
    ),
    (
        "Settings",
        &[
            line(PagePlace::Rules, "Rules", "/rules", "GET /api/v1/rules"),
            line(PagePlace::RetryBudgets, "Retry budgets", "/retry-budgets", "GET /api/v1/retry-budgets"),
            line(PagePlace::Limits, "Limits", "/limits", "GET /api/v1/limits"),
            line(PagePlace::Retention, "Retention", "/retention", "GET /api/v1/retention"),
            line(PagePlace::Tokens, "Tokens", "/tokens", "GET /api/v1/tokens"),
            line(PagePlace::Audit, "Audit", "/audit", "GET /api/v1/audit"),
        ],
    ),
];

/// A whole page. One that answers a form is not looked for again: its address may not be asked for without the form.
pub(super) fn page(visit: &PageVisit, place: PagePlace, title: &str, body: &Markup) -> Markup {
    let every = (!visit.is_form).then_some(LOOKS_EVERY_MS);
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body data-every=[every] {
                a.skip href="#main" { "To the content" }
                header.bar {
                    a.brand href="/" { "Backstop" }
                    form.find role="search" action="/find" method="get" {
                        input type="search" name="q" aria-label="Find a job, key, tag or error"
                            placeholder="Find a job, key, tag or error" maxlength="300";
                        kbd aria-hidden="true" { "Ctrl K" }
                    }
                    (whoami(visit))
                }
                div.columns {
                    (navigation(visit, place))
                    main id="main" tabindex="-1" {
                        p.connection role="status" hidden {
                            "The connection is lost. The figures below are old; trying again."
                        }
                        @if let Some(done) = visit.asked("done").as_deref().and_then(actions::said) {
                            p.done role="status" data-said="" { (done) }
                        }
                        (body)
                    }
                }
                (palette(visit))
            }
        }
    }
}

/// A page for somebody who is not known yet.
pub(super) fn bare(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body.bare { main id="main" { p.brand { "Backstop" } (body) } }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Backstop" }
            link rel="stylesheet" href=(*STYLE_PATH);
            link rel="icon" href=(*ICON_PATH);
            script src=(*SCRIPT_PATH) defer {}
        }
    }
}

fn whoami(visit: &PageVisit) -> Markup {
    html! {
        div.who {
            @if visit.is_open() {
                span.open
                    title="Everybody on this machine may do everything. `backstop token new` closes it." {
                    "Open: no tokens"
                }
            } @else {
                span { (visit.caller.name()) @if let Some(tenant) = visit.caller.tenant() { " of " (tenant) } }
                @if visit.session.is_some() {
                    form action="/logout" method="post" {
                        input type="hidden" name="proof" value=(visit.proof());
                        button.plain { "Log out" }
                    }
                }
            }
        }
    }
}

fn navigation(visit: &PageVisit, place: PagePlace) -> Markup {
    html! {
        nav.places aria-label="Views" {
            @for (name, lines) in &GROUPS {
                @let shown: Vec<&NavLine> = lines.iter().filter(|line| visit.allows(line.route)).collect();
                @if !shown.is_empty() {
                    div.group {
                        @if !name.is_empty() { p { (name) } }
                        @for line in shown {
                            a href=(line.path) aria-current=[(line.place == place).then_some("page")] {
                                (line.name)
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What Ctrl-K opens: every view, and a search.
fn palette(visit: &PageVisit) -> Markup {
    html! {
        dialog.palette aria-label="Go to" {
            form action="/find" method="get" {
                input type="search" name="q" aria-label="Go to a view, or find a job, key, tag or error"
                    placeholder="A view, or a job, key, tag or error" autocomplete="off" maxlength="300";
            }
            ul {
                @for line in GROUPS.iter().flat_map(|(_, lines)| lines.iter()).filter(|line| visit.allows(line.route)) {
                    li { a href=(line.path) { (line.name) } }
                }
                @if visit.allows("POST /api/v1/jobs") { li { a href="/jobs/new" { "Submit a job" } } }
                @if visit.allows("POST /api/v1/redrives") {
                    li { a href="/redrives/new" { "Drive dead letters again" } }
                }
            }
        }
    }
}

/// What the API said instead of an answer.
pub(super) fn problem(problem: &PageProblem) -> Markup {
    html! {
        h1 { (sentence(&problem.message)) }
        @if let Some(hint) = &problem.hint { p.lead { (sentence(hint)) } }
        p { a href="/" { "To the overview" } }
    }
}

/// A message of the API as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let end = if text.ends_with(['.', '!', '?', ')']) { "" } else { "." };
    format!("{}{}{end}", first.to_uppercase(), letters.as_str())
}

/// The heading of a view, with what can be done there.
pub(super) fn heading(title: &str, lead: &Markup, actions: &Markup) -> Markup {
    html! {
        header.heading {
            div data-live="heading" { h1 { (title) } p.lead { (lead) } }
            @if !actions.0.is_empty() { div.actions { (actions) } }
        }
    }
}

/// What is said where there is nothing.
pub(super) fn empty(text: &str) -> Markup {
    html! { p.empty { (text) } }
}

/// The same where a list has no rows yet: the list takes its place as soon as there are some.
pub(super) fn no_rows(rows: &str, text: &str) -> Markup {
    html! { p.empty data-empty=(rows) { (text) } }
}

/// The links to the next page of a list, and back to its beginning.
pub(super) fn pages(visit: &PageVisit, path: &str, kept: &[&str], next_cursor: Option<&str>) -> Markup {
    html! {
        nav.pages aria-label="Pages" {
            @if visit.asked("cursor").is_some() { a href=(visit.path(path, kept, &[])) { "To the beginning" } }
            @if let Some(cursor) = next_cursor {
                a href=(visit.path(path, kept, &[("cursor", cursor)])) rel="next" { "Next page" }
            }
        }
    }
}
