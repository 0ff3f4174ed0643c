//! `[schedules.NAME]`: jobs that are submitted again and again (W11).

use std::collections::BTreeMap;
use std::time::Duration;

use backstop::schedules::{ScheduleOwner, ScheduleSettings, Timing};
use backstop::{Backstop, Enqueue, Limits, OnConflict, Priority};
use serde_json::Value;

use super::read::{ConfigFault, FileValue, PlainValue};
use crate::problem::Problem;

/// A schedule of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScheduleSection {
    settings: ScheduleSettings,
    kind: Option<String>,
    payload: Option<Value>,
    queue: Option<String>,
    priority: Option<Priority>,
    version: Option<u32>,
    delay: Option<Duration>,
    max_retries: Option<u32>,
    max_crashes: Option<u32>,
    timeout: Option<Duration>,
    expires_in: Option<Duration>,
    max_wait: Option<Duration>,
    max_deferral: Option<Duration>,
    business_key: Option<String>,
    on_conflict: Option<OnConflict>,
    ordering_key: Option<String>,
    limit_key: Option<String>,
    single_instance: Option<String>,
    permits: BTreeMap<String, u32>,
    dependency: Option<String>,
    tags: Vec<String>,
    params: Option<Value>,
    correlation_id: Option<String>,
}

/// The schedules of the file, by name.
pub(crate) type ScheduleSections = BTreeMap<String, ScheduleSection>;

/// Takes one key over.
pub(super) fn take(schedule: &mut ScheduleSection, word: &str, value: &PlainValue) -> Result<(), String> {
    let settings = &mut schedule.settings;
    match (word, value) {
        ("cron", PlainValue::Text(cron)) => {
            Timing::cron(cron.as_str()).check().map_err(|problem| problem.to_string())?;
            settings.timing.cron = Some(cron.as_str().into());
        }
        ("every", PlainValue::Span(every)) => {
            Timing::every(*every).check().map_err(|problem| problem.to_string())?;
            settings.timing.every = Some(*every);
        }
        ("time_zone", PlainValue::Text(zone)) => {
            Timing::cron("@daily").time_zone(zone.as_str()).check().map_err(|problem| problem.to_string())?;
            settings.timing.time_zone = Some(zone.as_str().into());
        }
        ("misfire", PlainValue::Text(word)) => settings.misfire = word.parse()?,
        ("overlap", PlainValue::Text(word)) => settings.overlap = word.parse()?,
        ("paused", PlainValue::Other(Value::Bool(paused))) => settings.paused = Some(*paused),
        _ => take_of_job(schedule, word, value)?,
    }
    Ok(())
}

/// Takes one key of the job over.
fn take_of_job(schedule: &mut ScheduleSection, word: &str, value: &PlainValue) -> Result<(), String> {
    match (word, value) {
        ("kind", PlainValue::Text(kind)) => schedule.kind = Some(kind.clone()),
        ("payload", PlainValue::Other(payload)) => schedule.payload = Some(payload.clone()),
        ("queue", PlainValue::Text(queue)) => schedule.queue = Some(queue.clone()),
        ("priority", PlainValue::Text(word)) => {
            schedule.priority = Some(word.parse().map_err(|problem| format!("{problem}"))?);
        }
        ("version", PlainValue::Count(version)) => {
            schedule.version = Some(u32::try_from(*version).map_err(|_| "too high a version".to_owned())?);
        }
        ("delay", PlainValue::Span(span)) => schedule.delay = Some(*span),
        ("max_retries", PlainValue::Count(count)) => {
            schedule.max_retries = Some(u32::try_from(*count).map_err(|_| "too many retries".to_owned())?);
        }
        ("max_crashes", PlainValue::Count(count)) => {
            schedule.max_crashes = Some(u32::try_from(*count).map_err(|_| "too many crashes".to_owned())?);
        }
        ("timeout", PlainValue::Span(span)) => schedule.timeout = Some(*span),
        ("expires_in", PlainValue::Span(span)) => schedule.expires_in = Some(*span),
        ("max_wait", PlainValue::Span(span)) => schedule.max_wait = Some(*span),
        ("max_deferral", PlainValue::Span(span)) => schedule.max_deferral = Some(*span),
        ("business_key", PlainValue::Text(key)) => schedule.business_key = Some(key.clone()),
        ("on_conflict", PlainValue::Text(word)) => {
            let policy = serde_json::from_value(Value::from(word.as_str()));
            schedule.on_conflict = Some(policy.map_err(|_| "use reject, skip or replace".to_owned())?);
        }
        ("ordering_key", PlainValue::Text(key)) => schedule.ordering_key = Some(key.clone()),
        ("limit_key", PlainValue::Text(key)) => schedule.limit_key = Some(key.clone()),
        ("single_instance", PlainValue::Text(name)) => schedule.single_instance = Some(name.clone()),
        ("permits", PlainValue::Other(pools)) => {
            let permits = serde_json::from_value(pools.clone());
            let wrong = |_| "permits are numbers by pool, such as { gpu = 2 }".to_owned();
            schedule.permits = permits.map_err(wrong)?;
        }
        ("dependency", PlainValue::Text(name)) => schedule.dependency = Some(name.clone()),
        ("tags", PlainValue::Texts(tags)) => schedule.tags.clone_from(tags),
        ("params", PlainValue::Other(params)) if params.is_object() => schedule.params = Some(params.clone()),
        ("params", _) => return Err("params are a table, such as { region = \"eu\" }".to_owned()),
        ("correlation_id", PlainValue::Text(id)) => schedule.correlation_id = Some(id.clone()),
        _ => {}
    }
    Ok(())
}

/// Refuses schedules that do not say when, or what.
pub(super) fn incomplete(found: &[FileValue], schedules: &ScheduleSections) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    for (name, schedule) in schedules {
        let problem = match schedule.settings.timing.check() {
            _ if schedule.kind.is_none() => "give it a `kind`: which code runs its jobs".to_owned(),
            Err(problem) => problem.to_string(),
            Ok(()) => match backstop_core::schedule::check_name(name, &Limits::default()) {
                Err(problem) => problem.to_string(),
                Ok(()) => continue,
            },
        };
        let path = ["schedules".to_owned(), name.clone()];
        let place = found.iter().find(|one| one.path.starts_with(&path)).map(|one| one.place.clone());
        let (key, message) = (path.join("."), format!("schedule `{name}` cannot be used: {problem}"));
        faults.push(ConfigFault { place: place.unwrap_or_default(), key, message });
    }
    faults
}

/// Leaves the schedules of the file in the store, and removes those of the program that read another file: all files
/// are one owner. A file without any says nothing of them, so a program without schedules may share the store.
pub(crate) async fn declare(engine: &Backstop, schedules: &ScheduleSections) -> Result<(), Problem> {
    if schedules.is_empty() {
        return Ok(());
    }
    let declared = schedules.iter().map(|(name, one)| (&**name, (one.settings.clone(), one.job(engine))));
    engine.schedules().declare(ScheduleOwner::Settings, declared).await.map_err(|problem| {
        Problem::failed("schedules", format!("the schedules of backstop.toml cannot be set: {problem}"))
    })
}

impl ScheduleSection {
    fn job(&self, engine: &Backstop) -> Enqueue {
        let payload = self.payload.as_ref().map_or_else(|| "{}".to_owned(), Value::to_string);
        let job = engine.enqueue_raw(self.kind.as_deref().unwrap_or_default(), payload);
        let job = said(job, self.queue.as_deref(), Enqueue::queue);
        let job = said(job, self.priority, Enqueue::priority);
        let job = said(job, self.version, Enqueue::version);
        let job = said(job, self.delay, Enqueue::delay);
        let job = said(job, self.max_retries, Enqueue::max_retries);
        let job = said(job, self.max_crashes, Enqueue::max_crashes);
        let job = said(job, self.timeout, Enqueue::timeout);
        let job = said(job, self.expires_in, Enqueue::expires_in);
        let job = said(job, self.max_wait, Enqueue::max_wait);
        let job = said(job, self.max_deferral, Enqueue::max_deferral);
        let job = said(job, self.business_key.as_deref(), Enqueue::business_key);
        let job = said(job, self.on_conflict, Enqueue::on_conflict);
        let job = said(job, self.ordering_key.as_deref(), Enqueue::ordering_key);
        let job = said(job, self.limit_key.as_deref(), Enqueue::limit_key);
        let job = said(job, self.single_instance.as_deref(), Enqueue::single_instance);
        let job = said(job, self.dependency.as_deref(), Enqueue::dependency);
        let job = said(job, self.params.as_ref(), Enqueue::params);
        let job = said(job, self.correlation_id.as_deref(), Enqueue::correlation_id);
        let job = self.permits.iter().fold(job, |job, (pool, permits)| job.permits(pool.as_str(), *permits));
        self.tags.iter().fold(job, Enqueue::tag)
    }
}

/// The job, with one thing more that the file may say of it.
fn said<T>(job: Enqueue, value: Option<T>, say: impl FnOnce(Enqueue, T) -> Enqueue) -> Enqueue {
    match value {
        Some(value) => say(job, value),
        None => job,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backstop::{Backstop, OnConflict};
    use backstop_core::job::Start;
    use serde_json::json;

    use super::super::read::{PlainValue, read};
    use super::super::{GivenSettings, Settings};
    use super::{ScheduleSection, take};

    fn faults(text: &str) -> Vec<String> {
        let found = read(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let built = Settings::build(&GivenSettings::default(), found, None);
        built.err().unwrap_or_default().into_iter().map(|fault| fault.message).collect()
    }

    #[tokio::test]
    async fn every_key_of_the_job_reaches_it() {
        // W11
        let engine = Backstop::open("memory:").await.expect("memory");
        let spec = |keys: &str| {
            let text = format!("[schedules.night]\ncron = '@daily'\nkind = 'report'\n{keys}");
            let settings = Settings::build(&GivenSettings::default(), read(&text).expect("TOML"), None);
            let settings = settings.unwrap_or_else(|faults| panic!("{faults:?}"));
            settings.schedules["night"].job(&engine).into_new_job().expect("a good job").spec
        };
        let limited = spec(
            "payload = { format = 'pdf' }\nqueue = 'reports'\npriority = 'low'\nmax_retries = 3\n\
             timeout = '10m'\nmax_wait = '6h'\nbusiness_key = 'b'\nlimit_key = 'l'\n\
             single_instance = 's'\ndependency = 'd'\ntags = ['nightly']\n",
        );
        let plain = (&*limited.payload, &*limited.queue, limited.priority.as_str(), &*limited.tags[0]);
        assert_eq!(plain, (r#"{"format":"pdf"}"#, "reports", "low", "nightly"));
        let (policy, needs) = (&limited.policy, limited.needs.clone().unwrap_or_default());
        assert_eq!((policy.max_retries, policy.timeout), (3, Some(Duration::from_secs(600))));
        assert_eq!(policy.max_wait, Some(Duration::from_secs(21_600)));
        assert_eq!((needs.limit_key.as_deref(), needs.single_instance.as_deref()), (Some("l"), Some("s")));
        assert_eq!((limited.business_key.as_deref(), limited.dependency.as_deref()), (Some("b"), Some("d")));
        assert_eq!(spec("ordering_key = 'o'\n").ordering_key.as_deref(), Some("o"));
    }

    #[tokio::test]
    async fn what_is_said_rarely_of_a_job_reaches_it_too() {
        // W11
        let engine = Backstop::open("memory:").await.expect("memory");
        let mut section = ScheduleSection { kind: Some("report".to_owned()), ..ScheduleSection::default() };
        let text = |word: &str| PlainValue::Text(word.to_owned());
        let span = |seconds| PlainValue::Span(Duration::from_secs(seconds));
        for (word, value) in [
            ("version", PlainValue::Count(2)),
            ("delay", span(5)),
            ("max_crashes", PlainValue::Count(4)),
            ("max_deferral", span(60)),
            ("business_key", text("b")),
            ("on_conflict", text("skip")),
            ("permits", PlainValue::Other(json!({ "gpu": 2 }))),
            ("params", PlainValue::Other(json!({ "region": "eu" }))),
            ("correlation_id", text("c")),
        ] {
            take(&mut section, word, &value).expect(word);
        }
        let job = section.job(&engine).into_new_job().expect("a good job");
        let (spec, policy) = (&job.spec, &job.spec.policy);
        assert_eq!(job.start, Start::After(Duration::from_secs(5)));
        assert_eq!((spec.version, policy.max_crashes, job.on_conflict), (2, 4, OnConflict::Skip));
        assert_eq!(policy.max_deferral, Some(Duration::from_secs(60)));
        let needs = spec.needs.clone().unwrap_or_default();
        assert_eq!(needs.permits.get("gpu"), Some(&2));
        assert_eq!(spec.params.as_deref(), Some(r#"{"region":"eu"}"#));
        assert_eq!(spec.correlation_id.as_deref(), Some("c"));
        for (word, value) in [
            ("version", PlainValue::Count(u64::MAX)),
            ("max_crashes", PlainValue::Count(u64::MAX)),
            ("on_conflict", text("wait")),
            ("permits", PlainValue::Other(json!({ "gpu": "two" }))),
            ("params", PlainValue::Other(json!([1]))),
        ] {
            assert!(take(&mut section, word, &value).is_err(), "{word} = {value:?}");
        }
    }

    #[test]
    fn a_schedule_that_cannot_be_meant_is_refused_in_one_sentence() {
        // W11
        let kind = "schedules.night.kind = 'report'\n";
        for (text, told) in [
            (format!("{kind}schedules.night.cron = '61 * * * *'"), "is not a valid minute"),
            (format!("{kind}schedules.night.cron = '0 0 30 2 *'"), "it never fires"),
            (format!("{kind}schedules.night.every = '10ms'"), "between one second and ten years"),
            (kind.to_owned(), "give cron or an interval"),
            ("schedules.night.cron = '@daily'".to_owned(), "give it a `kind`"),
            (format!("{kind}schedules.night.cron = '@daily'\nschedules.night.every = '5s'"), "not both"),
            (
                format!("{kind}schedules.night.cron = '@daily'\nschedules.night.time_zone = 'Berlin'"),
                "no time zone `Berlin`",
            ),
            (
                format!("{kind}schedules.night.cron = '@daily'\nschedules.night.misfire = 'often'"),
                "skip, fire_once or catch_up:N",
            ),
            ("schedules.'a/b'.kind = 'x'\nschedules.'a/b'.cron = '@daily'".to_owned(), "no slash"),
        ] {
            let faults = faults(&text);
            assert!(faults.iter().any(|fault| fault.contains(told)), "{text}: {faults:?}");
        }
        assert_eq!(faults(&format!("{kind}schedules.night.cron = '@daily'")), [""; 0]);
    }
}
