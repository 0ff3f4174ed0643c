//! `backstop rule add|list|test|enable|disable|remove`: what becomes of failures, without a deploy (F18).

use std::time::Duration;

use backstop::{Backoff, Cause, Growth, Timestamp};
use backstop_core::failure::{Rule, RuleAction, RuleId, RuleMatch};
use backstop_server::shape::{NewRule, OperationNote, RuleRehearsal, RuleTest};
use clap::{Args, Subcommand, ValueEnum, value_parser};

use crate::app::{App, who};
use crate::client::Client;
use crate::output::clean;
use crate::output::figures::grouped;
use crate::output::paint::Colour;
use crate::output::span::{length, parse, relative};
use crate::output::table::{TextTable, inked, short, text};
use crate::problem::{Exit, Problem};

/// Past failures that a test looks at unless it is told otherwise.
const LOOK_BACK: u32 = 1_000;

const RULES: &str = "/api/v1/rules";

/// Commands about failure rules.
#[derive(Debug, Subcommand)]
pub(crate) enum RuleCommand {
    /// Add a rule; all workers apply it within a second.
    Add(AddRuleOptions),
    /// List rules, in the order in which they are applied.
    List,
    /// Test a rule on past failures; nothing is changed.
    Test(TestRuleOptions),
    /// Enable a rule.
    Enable {
        /// Its name.
        id: RuleId,
    },
    /// Disable a rule without removing it.
    Disable {
        /// Its name.
        id: RuleId,
    },
    /// Remove a rule.
    Remove {
        /// Its name.
        id: RuleId,
    },
}

/// Which failures a rule is about; all that is given must hold.
#[derive(Debug, Args)]
struct About {
    /// Of this kind; `*` stands for anything.
    #[arg(long)]
    kind: Option<String>,
    /// On this queue; `*` stands for anything.
    #[arg(long)]
    queue: Option<String>,
    /// With this error type; `*` stands for anything.
    #[arg(long, value_name = "TYPE")]
    error_type: Option<String>,
    /// Ended by this cause: error, permanent, invalid, timeout, panic, crash …
    #[arg(long)]
    cause: Option<Cause>,
    /// Whose sanitized text matches this regular expression.
    #[arg(long, value_name = "REGEX")]
    text: Option<String>,
}

/// What becomes of them.
#[derive(Debug, Args)]
struct Becomes {
    /// What becomes of them.
    #[arg(long = "then", value_enum, value_name = "ACTION")]
    action: Word,
    /// With `retry`: charged runs after the first, instead of the job's own.
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// With `retry` or `transient`: how long to wait, such as 30s.
    #[arg(long, value_name = "SPAN", value_parser = parse)]
    delay: Option<Duration>,
    /// With `retry`: wait this long at first and twice as long each time, up to --cap.
    #[arg(long, value_name = "SPAN", value_parser = parse, conflicts_with = "delay")]
    base: Option<Duration>,
    /// With `--base`: wait no longer than this.
    #[arg(long, value_name = "SPAN", value_parser = parse, requires = "base")]
    cap: Option<Duration>,
}

/// The actions, as the command line names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Word {
    /// A dead letter at once.
    Permanent,
    /// Another run, whatever the code says.
    Retry,
    /// Requeued, not charged, as if a dependency were unavailable.
    Transient,
    /// Requeued, not charged, and its queue is paused.
    PauseQueue,
}

/// A rule to add.
#[derive(Debug, Args)]
pub(crate) struct AddRuleOptions {
    /// Its name: lowercase letters, digits, `-` and `_`.
    id: RuleId,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    becomes: Becomes,
    /// Why the rule exists.
    #[arg(long, default_value_t)]
    note: String,
    /// Its position: the lowest is applied first.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    position: i64,
    /// Add it disabled.
    #[arg(long)]
    disabled: bool,
    /// Your name in the audit log [default: the user you are logged in as].
    #[arg(long)]
    by: Option<String>,
}

/// A rule to try.
#[derive(Debug, Args)]
pub(crate) struct TestRuleOptions {
    /// The name of a stored rule; leave it out to try conditions before they are stored.
    id: Option<RuleId>,
    #[command(flatten)]
    about: About,
    /// Failed jobs to look at, the newest first.
    #[arg(long, default_value_t = LOOK_BACK, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000))]
    most: u32,
}

pub(crate) async fn run(command: RuleCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    let done = match command {
        RuleCommand::Add(add) => add_one(&client, app, add).await,
        RuleCommand::List => list(&client, app).await,
        RuleCommand::Test(test) => rehearse(&client, app, test).await,
        RuleCommand::Enable { id } => switch(&client, app, &id, "enable", "is switched on").await,
        RuleCommand::Disable { id } => switch(&client, app, &id, "disable", "is switched off").await,
        RuleCommand::Remove { id } => {
            let removed = client.delete(&format!("{RULES}/{id}")).await;
            removed.and_then(|rule| switched(app, &rule, "is removed"))
        }
    };
    done.map(|()| Exit::Done).map_err(judged)
}

/// What a refusal of a rule means to scripts: it can never work, or it failed this time.
fn judged(problem: Problem) -> Problem {
    match problem.code() {
        "invalid" | "invalid_rule" => problem.exiting(Exit::Usage),
        "rule_exists" | "rule_changed" | "too_many_rules" => problem.exiting(Exit::Failed),
        _ => problem,
    }
}

async fn switch(client: &Client, app: &App, id: &RuleId, verb: &str, what: &str) -> Result<(), Problem> {
    let rule = client.post(&format!("{RULES}/{id}/{verb}"), &OperationNote::default()).await?;
    switched(app, &rule, what)
}

fn switched(app: &App, rule: &Rule, what: &str) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(rule);
    }
    app.out.page(&format!("rule `{}` {what}", rule.id))
}

impl About {
    fn into_match(self) -> RuleMatch {
        let Self { kind, queue, error_type, cause, text } = self;
        RuleMatch { kind, queue, error_type, cause, text }
    }

    const fn says_something(&self) -> bool {
        self.kind.is_some()
            || self.queue.is_some()
            || self.error_type.is_some()
            || self.cause.is_some()
            || self.text.is_some()
    }
}

impl Becomes {
    fn into_action(self) -> Result<RuleAction, Problem> {
        let Self { action, max_retries, delay, base, cap } = self;
        let misplaced = |option: &str, fits: &str| {
            Err(Problem::usage(
                "misplaced_option",
                format!("{option} has no effect with `--then {}`", word(action)),
            )
            .hint(format!("leave it out, or use `--then {fits}`")))
        };
        match action {
            Word::Retry => {
                let growing = |base| {
                    let backoff = Backoff { growth: Growth::Exponential, base, ..Backoff::default() };
                    Backoff { cap: cap.unwrap_or(backoff.cap).max(base), ..backoff }
                };
                Ok(RuleAction::Retry { max_retries, backoff: base.map(growing), delay })
            }
            _ if max_retries.is_some() => misplaced("--max-retries", "retry"),
            _ if base.is_some() => misplaced("--base", "retry"),
            Word::Transient => Ok(RuleAction::Transient { delay }),
            _ if delay.is_some() => misplaced("--delay", "retry` or `--then transient"),
            Word::Permanent => Ok(RuleAction::Permanent),
            Word::PauseQueue => Ok(RuleAction::PauseQueue),
        }
    }
}

fn word(action: Word) -> String {
    action.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

async fn add_one(client: &Client, app: &App, add: AddRuleOptions) -> Result<(), Problem> {
    let new = NewRule {
        id: add.id,
        note: add.note,
        matches: add.about.into_match(),
        action: add.becomes.into_action()?,
        enabled: !add.disabled,
        position: add.position,
        by: Some(who(add.by)),
    };
    let rule: Rule = client.post(RULES, &new).await?;
    let test = RuleTest { id: Some(rule.id.clone()), matches: None, most: Some(LOOK_BACK) };
    let tried: RuleRehearsal = client.post(&format!("{RULES}/test"), &test).await?;
    if tried.matched.is_empty() && tried.looked_at > 0 {
        app.out.warn(&format!(
            "rule `{}` matches none of the latest {} failures: is it what you mean? `backstop rule test {}` tries it",
            rule.id,
            tried.looked_at,
            rule.id
        ));
    }
    if app.out.json {
        return app.out.document(&rule);
    }
    let state = if rule.enabled { "every worker follows it within a second" } else { "it is switched off" };
    app.out.page(&format!("rule `{}` is saved: {}; {state}", rule.id, sentence(&rule)))
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let rules: Vec<Rule> = client.list(RULES).await?;
    if app.out.json {
        return app.out.items(&rules, None);
    }
    if rules.is_empty() {
        return app
            .out
            .page("no rules yet: `backstop rule add NAME --text REGEX --then permanent` makes one");
    }
    app.out.page(&table(app, &rules, client.now().await?))
}

fn table(app: &App, rules: &[Rule], now: Timestamp) -> String {
    let heads = ["rule", "state", "place", "about", "then", "note", "added"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[3, 5]).drop_first(&[6, 5, 2]);
    for rule in rules {
        let (ink, state) = if rule.enabled { (Colour::Green, "on") } else { (Colour::Grey, "off") };
        let added = format!("{}, by {}", relative(now, rule.created_at), rule.created_by);
        table.row(vec![
            text(rule.id.as_str()),
            inked(ink, state),
            text(&rule.position.to_string()),
            short(&conditions(&rule.matches), 160),
            text(&action(&rule.action)),
            short(&rule.note, 80),
            short(&added, 60),
        ]);
    }
    table.text()
}

fn conditions(matches: &RuleMatch) -> String {
    let cause = matches.cause.map(|cause| cause.to_string());
    let named = [
        ("kind", matches.kind.as_deref()),
        ("queue", matches.queue.as_deref()),
        ("type", matches.error_type.as_deref()),
        ("cause", cause.as_deref()),
        ("text", matches.text.as_deref()),
    ];
    let said: Vec<String> =
        named.iter().filter_map(|(name, value)| value.map(|value| format!("{name} `{value}`"))).collect();
    said.join(", ")
}

fn action(action: &RuleAction) -> String {
    let wait =
        |delay: &Option<Duration>| delay.map_or_else(String::new, |delay| format!(" in {}", length(delay)));
    match action {
        RuleAction::Retry { max_retries, delay, backoff } => {
            let times = max_retries.map_or_else(String::new, |times| format!(" {times} times"));
            let grows = backoff.map_or_else(String::new, |backoff| format!(" from {}", length(backoff.base)));
            format!("retry{times}{}{grows}", wait(delay))
        }
        RuleAction::Transient { delay } => format!("transient{}", wait(delay)),
        plain => plain.as_str().replace('_', " "),
    }
}

fn sentence(rule: &Rule) -> String {
    format!("{} → {}", clean(&conditions(&rule.matches)), action(&rule.action))
}

async fn rehearse(client: &Client, app: &App, test: TestRuleOptions) -> Result<(), Problem> {
    if test.id.is_some() == test.about.says_something() {
        let problem = Problem::usage("what_to_test", "say either the name of a rule or conditions to try");
        return Err(problem.hint("`backstop rule test --text REGEX`, or `backstop rule test NAME`"));
    }
    let matches = test.id.is_none().then(|| test.about.into_match());
    let test = RuleTest { id: test.id, matches, most: Some(test.most) };
    let tried: RuleRehearsal = client.post(&format!("{RULES}/test"), &test).await?;
    if app.out.json {
        return app.out.document(&tried);
    }
    app.out.page(&rehearsed(app, &tried, client.now().await?))
}

fn rehearsed(app: &App, tried: &RuleRehearsal, now: Timestamp) -> String {
    let looked_at = grouped(tried.looked_at);
    let count = tried.matched.len();
    if tried.looked_at == 0 {
        return "no job has a failure to try it on".to_owned();
    }
    let head = format!("it would have decided {count} of the latest {looked_at} failures");
    if count == 0 {
        return head;
    }
    let mut table = TextTable::new(&app.out, &["job", "kind", "run", "when", "error", "was decided"])
        .flexible(&[4])
        .drop_first(&[2, 3]);
    for trial in tried.matched.iter().take(20) {
        table.row(vec![
            text(&trial.job.to_string()),
            text(&trial.kind),
            text(&trial.run.to_string()),
            text(&relative(now, trial.at)),
            short(&trial.error, 160),
            text(&trial.decided),
        ]);
    }
    let more = count.saturating_sub(20);
    let rest = if more > 0 { format!("\n… and {more} more") } else { String::new() };
    format!("{head}\n\n{}{rest}", table.text())
}
