//! What comes of flags, environment, file and defaults: typed, and each value with its source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::limits::RunLimit;
use backstop::{Config, Limits, QueueConfig, Retirement, SignalSettings};
use backstop_core::failure::BudgetSettings;
use backstop_core::failure::redact::StandardRedactor;
use backstop_core::job::Aging;
use backstop_core::scale::ScaleSettings;
use backstop_kinds::Kinds;
use miette::LabeledSpan;
use serde::Serialize;
use serde_json::{Value, json};

use super::bridges::BridgeSections;
use super::handoffs::HandOffSections;
use super::read::{ConfigFault, FileValue, PlainValue, read};
use super::schedules::ScheduleSections;
use super::server::{self, ServerSection};
use super::source::SettingSource;
use super::veil::veiled;
use super::{
    alerts, bridges, circuits, defaults, dependencies, env, handlers, handoffs, isolation, keys, limits,
    rejects, run_limits, scale, schedules,
};
use crate::problem::Problem;

/// The file that is read when none is named and it is there.
pub(crate) const FILE_NAME: &str = "backstop.toml";
const STORE: &str = "sqlite:backstop.db";
/// Runs at once on a queue that does not say.
const CONCURRENCY: usize = 16;
/// More than this on one queue is a typing error: every run is a task and a row that is held.
const CONCURRENCY_MAX: u64 = 100_000;

/// What the command line and the environment say.
#[derive(Debug, Default)]
pub(crate) struct GivenSettings {
    pub(crate) store: Option<(String, SettingSource)>,
    pub(crate) server: Option<(String, SettingSource)>,
    pub(crate) config: Option<PathBuf>,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, which every program that traces reads.
    pub(crate) otlp: Option<String>,
    /// The variables of the environment that stand for keys of the file.
    pub(crate) variables: Vec<(String, String)>,
}

/// One effective setting, for `config check`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SettingRow {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) source: SettingSource,
    pub(crate) used: bool,
}

/// All settings of this program.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) file: Option<PathBuf>,
    pub(crate) store: String,
    /// The server to ask instead of the store.
    pub(crate) remote: Option<String>,
    pub(crate) lease: Duration,
    pub(crate) grace: Duration,
    pub(crate) poll: Duration,
    /// How long a handler may ignore that it was told to stop before it is reported as stuck.
    pub(crate) stuck_after: Duration,
    /// Jobs that are claimed ahead of free slots, by queue.
    pub(crate) prefetch: BTreeMap<String, usize>,
    /// Concurrency by queue.
    pub(crate) queues: BTreeMap<String, usize>,
    /// How many worker processes there are to be.
    pub(crate) scale: ScaleSettings,
    pub(crate) engine: Config,
    /// Jobs that are submitted again and again.
    pub(crate) schedules: ScheduleSections,
    /// Brokers that jobs come from, and that are told what became of them.
    pub(crate) bridges: BridgeSections,
    /// Finished jobs that another Backstop goes on with, and whose are taken here.
    pub(crate) handoffs: HandOffSections,
    /// What the built-in kinds may do.
    pub(crate) kinds: Kinds,
    /// Where traces go; none sends none.
    pub(crate) otlp: Option<String>,
    pub(crate) server: ServerSection,
    pub(crate) rows: Vec<SettingRow>,
}

impl Settings {
    /// Reads everything there is.
    pub(crate) fn load(given: &GivenSettings) -> Result<Self, Problem> {
        let said = env::settings(&given.variables).map_err(|faults| wrong_variables(&faults))?;
        let variables: Vec<(String, String)> =
            said.iter().map(|one| (one.path.join("."), env::variable(one))).collect();
        let mut settings = match file(given)? {
            None => Self::build(given, said, None)
                .map_err(|faults| wrong(&variables, Path::new(FILE_NAME), String::new(), faults)),
            Some((path, text)) => read(&text)
                .and_then(|found| Self::build(given, over(said, found), Some(path.clone())))
                .map_err(|faults| wrong(&variables, &path, text, faults)),
        }?;
        settings.remote = remote(given)?;
        Ok(settings)
    }

    fn defaults() -> Self {
        let pace = backstop::WorkerTimes::default();
        Self {
            file: None,
            store: STORE.to_owned(),
            remote: None,
            lease: pace.lease,
            grace: pace.grace,
            poll: pace.poll,
            stuck_after: pace.stuck_after,
            prefetch: BTreeMap::new(),
            queues: BTreeMap::new(),
            scale: ScaleSettings::default(),
            engine: Config::default(),
            schedules: ScheduleSections::new(),
            bridges: BridgeSections::new(),
            handoffs: HandOffSections::new(),
            kinds: Kinds::default(),
            otlp: None,
            server: ServerSection::default(),
            rows: Vec::new(),
        }
    }

    pub(super) fn build(
        given: &GivenSettings,
        found: Vec<FileValue>,
        path: Option<PathBuf>,
    ) -> Result<Self, Vec<ConfigFault>> {
        let (mut settings, mut faults) = (Self { file: path, ..Self::defaults() }, Vec::new());
        for one in &found {
            if let Err(message) = settings.take(one) {
                faults.push(ConfigFault { place: one.place.clone(), key: one.path.join("."), message });
            }
            settings.note(one);
        }
        settings.switch_budgets_off(&found);
        match alerts::alerts(&found) {
            Ok(alerts) => settings.engine.alerts = alerts,
            Err(fault) => faults.push(fault),
        }
        match handlers::kinds(&found) {
            Ok(kinds) => settings.kinds = kinds,
            Err(further) => faults.extend(further),
        }
        match bridges::bridges(&found, &settings.engine.rejects) {
            Ok(bridges) => settings.bridges = bridges,
            Err(further) => faults.extend(further),
        }
        match server::server(&found) {
            Ok(server) => settings.server = server,
            Err(fault) => faults.push(fault),
        }
        faults.extend(settings.take_handoffs(&found));
        match handlers::webhooks(&found) {
            Ok(webhooks) => settings.server.settings.reporting.webhooks = webhooks,
            Err(further) => faults.extend(further),
        }
        if let Some(fault) = run_limits::idle(&found, &settings.engine.run_limits) {
            faults.push(fault);
        }
        if let Err(fault) = keys::take(&found, &mut settings.engine) {
            faults.push(fault);
        }
        faults.extend(dependencies::unused(&found, &settings.engine));
        if faults.is_empty() {
            faults.extend(schedules::incomplete(&found, &settings.schedules));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        // Jobs that name no queue go there: a section for another queue does not leave them without a worker.
        settings.queues.entry("default".to_owned()).or_insert(CONCURRENCY);
        settings.scale.slots = scale::slots(&settings.queues);
        if let Some((store, source)) = &given.store {
            settings.store.clone_from(store);
            settings.rows.retain(|row| row.key != "store.url");
            settings.row("store.url", json!(without_credentials(store)), *source, true);
        }
        if let Some(endpoint) = &given.otlp {
            settings.otlp = Some(endpoint.clone());
            settings.rows.retain(|row| row.key != "telemetry.otlp_endpoint");
            settings.row(
                "telemetry.otlp_endpoint",
                json!(without_credentials(endpoint)),
                SettingSource::Env,
                true,
            );
        }
        settings.add_defaults();
        settings.rows.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(settings)
    }

    /// Takes hand-offs over, those that publish and those that are taken here; answers what cannot be meant.
    fn take_handoffs(&mut self, found: &[FileValue]) -> Vec<ConfigFault> {
        match handoffs::handoffs(found) {
            Ok(handoffs) => {
                self.server.settings.publications = handoffs::publications(&handoffs);
                self.handoffs = handoffs;
                Vec::new()
            }
            Err(faults) => faults,
        }
    }

    /// Takes one value of the file over.
    fn take(&mut self, found: &FileValue) -> Result<(), String> {
        let path: Vec<&str> = found.path.iter().map(String::as_str).collect();
        match (&path[..], &found.value) {
            (["store", "url"], PlainValue::Text(url)) => self.store.clone_from(url),
            (["server", "node"], PlainValue::Text(name)) => self.engine.node = name.as_str().into(),
            (["workers", "lease"], PlainValue::Span(span)) => self.lease = *span,
            (["workers", "grace"], PlainValue::Span(span)) => self.grace = *span,
            (["workers", "poll"], PlainValue::Span(span)) => self.poll = *span,
            (["workers", "stuck_after"], PlainValue::Span(span)) => self.stuck_after = *span,
            (["workers", "aging"], PlainValue::Span(span)) => self.engine.aging = Aging(*span),
            (["workers", word], value) => scale::take(&mut self.scale, word, value)?,
            (["limits", word], value) => limits::take(&mut self.engine.limits, word, value)?,
            (["circuits", name, word], value) => {
                circuits::take(self.engine.circuits.entry((*name).to_owned()).or_default(), word, value)?;
            }
            (["schedules", name, word], value) => {
                schedules::take(self.schedules.entry((*name).to_owned()).or_default(), word, value)?;
            }
            (["limits", name, word], value) => {
                run_limits::take(&mut self.engine.run_limits, name, word, value)?;
            }
            (["retention", "succeeded"], PlainValue::Span(span)) => {
                self.engine.retention.succeeded = Some(*span)
            }
            (["retention", "canceled"], PlainValue::Span(span)) => {
                self.engine.retention.canceled = Some(*span)
            }
            (["retention", "failed"], PlainValue::Span(span)) => self.engine.retention.failed = Some(*span),
            (["retention", "archive"], PlainValue::Span(span)) => self.engine.retention.archive = Some(*span),
            (["retention", word], value) => take_retirement(&mut self.engine.retirement, word, kept(value)),
            (["rejects", word], value) => rejects::take(&mut self.engine.rejects, word, value),
            (["events", "keep"], PlainValue::Span(span)) => self.engine.event_log.keep = *span,
            (["signals", word], value) => take_signals(&mut self.engine.signals, word, value),
            (["server", "audit_retention"], value) => self.engine.audit_retention = kept(value),
            (["sanitize", "patterns"], PlainValue::Texts(patterns)) => self.redact(patterns)?,
            (["telemetry", "otlp_endpoint"], PlainValue::Text(endpoint)) => {
                self.otlp = Some(endpoint.clone())
            }
            (["retry_budget", word], value) => take_budget(&mut self.engine.retry_budget, word, value)?,
            (["queues", name, rest @ ..], value) => self.take_queue(name, rest, value)?,
            (["kinds", name, "retry_budget", word], value) => {
                let usual = self.engine.retry_budget;
                let budget = self.engine.retry_budgets.entry((*name).to_owned()).or_insert(usual);
                take_budget(budget, word, value)?;
            }
            (["kinds", name, word @ ("isolate" | "memory_limit" | "cpu_limit")], value) => {
                isolation::take(self.engine.isolation.entry((*name).to_owned()).or_default(), word, value)?;
            }
            (["kinds", name, word @ ("max_rejects" | "max_reject_percent")], value) => {
                rejects::take_of_kind(&mut self.engine.rejects, name, word, value);
            }
            (["kinds", name, "dependency"], PlainValue::Text(key)) => {
                dependencies::need(&mut self.engine, name, key)?;
            }
            (["kinds", name, "dependency_from"], PlainValue::Text(pointer)) => {
                dependencies::from(&mut self.engine, name, pointer)?;
            }
            (["dependencies", name, word], value) => {
                dependencies::take(&mut self.engine, name, word, value)?;
            }
            (["kinds", name, rest @ ..], value) => {
                defaults::take(self.engine.kinds.entry((*name).to_owned()).or_default(), rest, value)?;
            }
            // Sections with a reader of their own.
            _ => {}
        }
        Ok(())
    }

    /// A retry budget that is switched off is none, whatever else is said of it.
    fn switch_budgets_off(&mut self, found: &[FileValue]) {
        for one in found.iter().filter(|one| one.value == PlainValue::Other(false.into())) {
            match &one.path[..] {
                [section, word] if section == "retry_budget" && word == "enabled" => {
                    self.engine.retry_budget = None;
                }
                [kinds, kind, section, word]
                    if kinds == "kinds" && section == "retry_budget" && word == "enabled" =>
                {
                    self.engine.retry_budgets.insert(kind.clone(), None);
                }
                _ => {}
            }
        }
    }

    fn redact(&mut self, patterns: &[String]) -> Result<(), String> {
        let redactor = StandardRedactor::with_patterns(patterns.iter().map(String::as_str));
        self.engine.redactor = Arc::new(redactor.map_err(|problem| problem.to_string())?);
        Ok(())
    }

    fn take_queue(&mut self, name: &str, rest: &[&str], value: &PlainValue) -> Result<(), String> {
        let concurrency = self.queues.entry(name.to_owned()).or_insert(CONCURRENCY);
        let queue: &mut QueueConfig = self.engine.queues.entry(name.to_owned()).or_default();
        match (rest, value) {
            (["concurrency"], PlainValue::Count(count)) if *count > CONCURRENCY_MAX => {
                return Err(format!("concurrency is {count}, the limit is {CONCURRENCY_MAX}"));
            }
            (["concurrency"], PlainValue::Count(count)) => {
                *concurrency = usize::try_from(*count).unwrap_or(CONCURRENCY);
            }
            (["kinds"], PlainValue::Texts(kinds)) => queue.gate.kinds = Some(kinds.clone()),
            (["unknown_kind"], PlainValue::Text(word)) => queue.fail_unknown_kind = word == "fail",
            (["prefetch"], PlainValue::Count(count)) if *count > CONCURRENCY_MAX => {
                return Err(format!("prefetch is {count}, the limit is {CONCURRENCY_MAX}"));
            }
            (["prefetch"], PlainValue::Count(count)) => {
                self.prefetch.insert(name.to_owned(), usize::try_from(*count).unwrap_or(CONCURRENCY));
            }
            (["max_depth"], PlainValue::Count(0)) => {
                return Err("a queue in which no job may wait takes none: the minimum is 1".to_owned());
            }
            (["max_depth"], PlainValue::Count(count)) => queue.max_depth = Some(*count),
            (["rate"], value) => {
                queue.rate = run_limits::rate(value);
                let limit = RunLimit { rate: queue.rate, ..RunLimit::of_queue(name) };
                limit.check(&Limits::default()).map_err(|problem| problem.to_string())?;
            }
            (rest, value) => defaults::take(&mut queue.defaults, rest, value)?,
        }
        Ok(())
    }

    fn note(&mut self, found: &FileValue) {
        let value = match (&found.value, found.key.secret) {
            (PlainValue::Text(url), _) if found.path == ["alerts", "webhook"] => json!(alerts::shown(url)),
            (_, true) => json!("(set)"),
            (PlainValue::Text(url), _) if found.path == ["store", "url"] || found.path[0] == "telemetry" => {
                json!(without_credentials(url))
            }
            (PlainValue::Text(text), _) => json!(text),
            (PlainValue::Count(count), _) => json!(count),
            (PlainValue::Percent(percent), _) => rejects::shown(*percent),
            (PlainValue::Span(span), _) => json!(exact(*span)),
            (PlainValue::Texts(texts), _) => json!(texts),
            (PlainValue::Other(other), _) => other.clone(),
        };
        let key = found.path.join(".");
        self.row(&key, value, found.source, found.key.used);
    }

    fn row(&mut self, key: &str, value: Value, source: SettingSource, used: bool) {
        self.rows.push(SettingRow { key: key.to_owned(), value, source, used });
    }

    fn add_defaults(&mut self) {
        let mut all = vec![
            ("store.url".to_owned(), json!(self.store)),
            ("server.listen".to_owned(), json!(self.server.listen.to_string())),
            ("webhooks.allow_private".to_owned(), json!(false)),
            ("workers.lease".to_owned(), json!(exact(self.lease))),
            ("workers.grace".to_owned(), json!(exact(self.grace))),
            ("workers.poll".to_owned(), json!(exact(self.poll))),
            ("workers.stuck_after".to_owned(), json!(exact(self.stuck_after))),
            ("workers.aging".to_owned(), json!(exact(self.engine.aging.0))),
            ("workers.processes".to_owned(), json!(self.scale.processes.to_string())),
            ("workers.scale_up_after".to_owned(), json!(exact(self.scale.up_after))),
            ("workers.scale_down_after".to_owned(), json!(exact(self.scale.down_after))),
            ("signals.keep".to_owned(), json!(exact(self.engine.signals.keep))),
            ("signals.max_kept".to_owned(), json!(self.engine.signals.max_kept)),
            ("events.keep".to_owned(), json!(exact(self.engine.event_log.keep))),
            ("alerts.gap".to_owned(), json!(exact(self.engine.alerts.gap))),
            ("alerts.log".to_owned(), json!(false)),
            ("handlers.command.allow".to_owned(), json!([])),
            ("handlers.http.allow_private".to_owned(), json!(false)),
            ("handlers.event.allow".to_owned(), json!([])),
            ("handlers.publish.allow".to_owned(), json!([])),
        ];
        let budget = self.engine.retry_budget;
        all.push(("retry_budget.enabled".to_owned(), json!(budget.is_some())));
        if let Some(budget) = budget {
            // A share comes from a whole percentage and is shown as one.
            all.push((
                "retry_budget.percent".to_owned(),
                Value::from(format!("{:.0}", budget.share * 100.0)),
            ));
            all.push(("retry_budget.floor".to_owned(), json!(budget.floor)));
        }
        let retention = &self.engine.retention;
        for (word, span) in [
            ("succeeded", retention.succeeded),
            ("canceled", retention.canceled),
            ("failed", retention.failed),
            ("archive", retention.archive),
        ] {
            all.extend(span.map(|span| (format!("retention.{word}"), json!(exact(span)))));
        }
        let retirement = &self.engine.retirement;
        for (key, span) in [
            ("retention.plans", retirement.plans),
            ("retention.workflows", retirement.workflows),
            ("retention.incidents", retirement.incidents),
            ("retention.queues", retirement.queues),
            ("retention.rejects", retirement.rejects),
            ("server.audit_retention", self.engine.audit_retention),
        ] {
            all.push((key.to_owned(), json!(span.map_or_else(|| "forever".to_owned(), exact))));
        }
        all.extend(
            self.queues.iter().map(|(name, count)| (format!("queues.{name}.concurrency"), json!(count))),
        );
        for (key, value) in all {
            if !self.rows.iter().any(|row| row.key == key) {
                self.row(&key, value, SettingSource::Default, true);
            }
        }
    }
}

/// How long plans, workflows, incidents, rejects and empty queues stay.
fn take_retirement(retirement: &mut Retirement, word: &str, keep: Option<Duration>) {
    let kept = match word {
        "plans" => &mut retirement.plans,
        "workflows" => &mut retirement.workflows,
        "incidents" => &mut retirement.incidents,
        "rejects" => &mut retirement.rejects,
        _ => &mut retirement.queues,
    };
    *kept = keep;
}

/// How long something is kept; none for ever.
const fn kept(value: &PlainValue) -> Option<Duration> {
    if let PlainValue::Span(span) = value { Some(*span) } else { None }
}

/// How many retries a kind may have, as a share of its first runs (F19).
fn take_budget(budget: &mut Option<BudgetSettings>, word: &str, value: &PlainValue) -> Result<(), String> {
    let budget = budget.get_or_insert_default();
    match (word, value) {
        ("percent", PlainValue::Count(percent)) => {
            budget.share = f64::from(u32::try_from(*percent).unwrap_or(u32::MAX)) / 100.0;
        }
        ("floor", PlainValue::Count(floor)) => budget.floor = u32::try_from(*floor).unwrap_or(u32::MAX),
        _ => {}
    }
    budget.validate().map_err(|error| error.to_string())
}

/// What the environment says, and what the file says where the environment is silent.
fn over(said: Vec<FileValue>, mut file: Vec<FileValue>) -> Vec<FileValue> {
    file.retain(|one| !said.iter().any(|other| other.path == one.path));
    file.extend(said);
    file
}

/// What is wrong with the file, or with the variables that go before it, each with the key that it stands for.
fn wrong(variables: &[(String, String)], path: &Path, text: String, faults: Vec<ConfigFault>) -> Problem {
    let of_variable = |fault: &ConfigFault| {
        let (_, name) = variables.iter().find(|(key, _)| *key == fault.key)?;
        Some(format!("{name}: {}", fault.message))
    };
    let of_variables: Vec<String> = faults.iter().filter_map(of_variable).collect();
    if of_variables.is_empty() { faulty(path, text, faults) } else { wrong_variables(&of_variables) }
}

fn wrong_variables(faults: &[String]) -> Problem {
    let message = match faults {
        [one] => one.clone(),
        many => format!("{} variables cannot be used: {}", many.len(), many[0]),
    };
    Problem::usage("config_invalid", message).details(json!(faults))
}

/// The file to read: the named one, or the usual one if it is there.
fn file(given: &GivenSettings) -> Result<Option<(PathBuf, String)>, Problem> {
    let path = match &given.config {
        Some(path) => path.clone(),
        None if Path::new(FILE_NAME).exists() => PathBuf::from(FILE_NAME),
        None => return Ok(None),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) => Err(Problem::usage(
            "config_unreadable",
            format!("cannot read the configuration {}: {error}", path.display()),
        )),
    }
}

fn faulty(path: &Path, text: String, faults: Vec<ConfigFault>) -> Problem {
    let name = path.display().to_string();
    let message = match &faults[..] {
        [one] => format!("{name}: {}", one.message),
        many => format!("{name} has {} problems: {}", many.len(), many[0].message),
    };
    let details: Vec<_> = faults
        .iter()
        .map(|fault| {
            let (line, column) = position(&text, fault.place.start);
            json!({ "key": fault.key, "line": line, "column": column, "message": fault.message })
        })
        .collect();
    let labels =
        faults.iter().map(|fault| LabeledSpan::at(fault.place.clone(), fault.message.clone())).collect();
    Problem::usage("config_invalid", message).details(details.into()).in_file(&name, veiled(&text), labels)
}

fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |start| start.chars().count()) + 1;
    (line, column)
}

/// A duration as the file would say it.
fn exact(span: Duration) -> String {
    let millis = span.as_millis();
    if millis.is_multiple_of(1_000) { format!("{}s", millis / 1_000) } else { format!("{millis}ms") }
}

/// The server to ask, if one was named. Whoever names a store on the command line means that one.
fn remote(given: &GivenSettings) -> Result<Option<String>, Problem> {
    match (&given.store, &given.server) {
        (Some((_, SettingSource::Flag)), Some((_, SettingSource::Flag))) => {
            let message = "--store and --server name two places to ask";
            Err(Problem::usage("two_places", message).hint("leave one of them out"))
        }
        (Some((_, SettingSource::Flag)), Some(_)) => Ok(None),
        (_, server) => Ok(server.as_ref().map(|(server, _)| server.clone())),
    }
}

/// A store's URL as it may be shown.
pub(crate) fn without_credentials(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    }
}

fn take_signals(signals: &mut SignalSettings, word: &str, value: &PlainValue) {
    match (word, value) {
        ("keep", PlainValue::Span(span)) => signals.keep = *span,
        ("max_kept", PlainValue::Count(most)) => {
            signals.max_kept = usize::try_from(*most).unwrap_or(usize::MAX);
        }
        // The file was checked before.
        _ => {}
    }
}
