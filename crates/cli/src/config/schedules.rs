//! `[schedules.NAME]`: jobs that are submitted again and again (W11).

use std::collections::BTreeMap;
use std::time::Duration;

use backstop::schedules::{ScheduleOwner, ScheduleSettings, Timing};
use backstop::{Backstop, Enqueue, Limits, Priority};
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
    max_retries: Option<u32>,
    timeout: Option<Duration>,
    expires_in: Option<Duration>,
    max_wait: Option<Duration>,
    business_key: Option<String>,
    ordering_key: Option<String>,
    limit_key: Option<String>,
    single_instance: Option<String>,
    dependency: Option<String>,
    tags: Vec<String>,
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
        ("kind", PlainValue::Text(kind)) => schedule.kind = Some(kind.clone()),
        ("payload", PlainValue::Other(payload)) => schedule.payload = Some(payload.clone()),
        ("queue", PlainValue::Text(queue)) => schedule.queue = Some(queue.clone()),
        ("priority", PlainValue::Text(word)) => {
            schedule.priority = Some(word.parse().map_err(|problem| format!("{problem}"))?);
        }
        ("max_retries", PlainValue::Count(count)) => {
            schedule.max_retries = Some(u32::try_from(*count).map_err(|_| "too many retries".to_owned())?);
        }
        ("timeout", PlainValue::Span(span)) => schedule.timeout = Some(*span),
        ("expires_in", PlainValue::Span(span)) => schedule.expires_in = Some(*span),
        ("max_wait", PlainValue::Span(span)) => schedule.max_wait = Some(*span),
        ("business_key", PlainValue::Text(key)) => schedule.business_key = Some(key.clone()),
        ("ordering_key", PlainValue::Text(key)) => schedule.ordering_key = Some(key.clone()),
        ("limit_key", PlainValue::Text(key)) => schedule.limit_key = Some(key.clone()),
        ("single_instance", PlainValue::Text(name)) => schedule.single_instance = Some(name.clone()),
        ("dependency", PlainValue::Text(name)) => schedule.dependency = Some(name.clone()),
        ("tags", PlainValue::Texts(tags)) => schedule.tags.clone_from(tags),
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

/// Leaves the schedules of the file in the store. A file without any says nothing of them: another program may declare
/// some by a file of its own.
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
        let mut job = engine.enqueue_raw(self.kind.as_deref().unwrap_or_default(), payload);
        if let Some(queue) = &self.queue {
            job = job.queue(queue.as_str());
        }
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(retries) = self.max_retries {
            job = job.max_retries(retries);
        }
        if let Some(span) = self.timeout {
            job = job.timeout(span);
        }
        if let Some(span) = self.expires_in {
            job = job.expires_in(span);
        }
        if let Some(span) = self.max_wait {
            job = job.max_wait(span);
        }
        type Say = fn(Enqueue, &str) -> Enqueue;
        let words: [(&Option<String>, Say); 5] = [
            (&self.business_key, |job, key| job.business_key(key)),
            (&self.ordering_key, |job, key| job.ordering_key(key)),
            (&self.limit_key, |job, key| job.limit_key(key)),
            (&self.single_instance, |job, name| job.single_instance(name)),
            (&self.dependency, |job, name| job.dependency(name)),
        ];
        for (word, say) in words {
            if let Some(word) = word {
                job = say(job, word);
            }
        }
        self.tags.iter().fold(job, Enqueue::tag)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backstop::Backstop;

    use super::super::read::read;
    use super::super::{GivenSettings, Settings};

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
