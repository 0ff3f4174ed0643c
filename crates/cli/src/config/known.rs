//! Every key that is accepted does something: each is given alone, in the file and in the environment, and what comes
//! of it differs from what comes of nothing (L20).

use std::collections::BTreeSet;

use backstop::circuits::CircuitSettings;
use backstop::{Config, Policy};

use super::reference::entries;
use super::schema::{ConfigKey, FILE, KeyShape, ValueKind};
use super::{GivenSettings, SettingSource, Settings};

const WEBHOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const KEY: &str = "k1:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// A hand-off that can be meant.
const HANDOFF: &str = "handoff.mail.to = 'https://warehouse.example'\n";

/// A bridge with all that it needs.
const BRIDGE: &str = "bridges.mail.broker = 'redis://127.0.0.1'\nbridges.mail.source.queue = 'in'\n\
    bridges.mail.source.kind = 'send'\nbridges.mail.sink.queue = 'out'\nbridges.mail.sink.of = ['results']\n";

/// The lines of a bridge whose profile has this key, beside the key itself.
fn profile_beside(path: &str) -> Option<String> {
    let daycry = "bridges.mail.profile = 'daycry'\n";
    Some(match path {
        "bridges.mail.profile" => format!("{BRIDGE}bridges.mail.daycry.unsigned = true\n"),
        "bridges.mail.daycry.unsigned" => {
            format!("{BRIDGE}{daycry}bridges.mail.daycry.signing_keys = ['key']\n")
        }
        path if path.starts_with("bridges.mail.daycry") => {
            format!("{BRIDGE}{daycry}bridges.mail.daycry.unsigned = true\n")
        }
        "bridges.mail.tls_ca" => BRIDGE.replace("redis:", "rediss:"),
        "bridges.mail.sink.exchange" => exchange_bridge(),
        "bridges.mail.sink.routing_key" => {
            format!("{}bridges.mail.sink.exchange = 'orders'\n", exchange_bridge())
        }
        path if path.starts_with("bridges.mail.caf") => {
            format!("{}bridges.mail.profile = 'caf'\n", BRIDGE.replace("redis:", "amqp:"))
        }
        _ => return None,
    })
}

/// The lines of a bridge whose sink has an exchange in place of a queue, beside the exchange.
fn exchange_bridge() -> String {
    bridge_without("bridges.mail.sink.queue").replace("redis:", "amqp:")
}

/// The lines of a bridge beside the one of this key.
fn bridge_without(path: &str) -> String {
    BRIDGE.split_inclusive('\n').filter(|line| line.split(' ').next() != Some(path)).collect()
}

const SCHEDULE: &str = "schedules.mail.kind = 'send'\nschedules.mail.cron = '@daily'\n";

/// Every key of a table, with the names that stand before it.
fn walk(keys: &'static [ConfigKey], before: &str, into: &mut Vec<(String, &'static ConfigKey)>) {
    for key in keys {
        let path = if before.is_empty() { key.name.to_owned() } else { format!("{before}.{}", key.name) };
        match key.shape {
            KeyShape::Section(keys) => walk(keys, &path, into),
            KeyShape::Named(keys) => walk(keys, &format!("{path}.mail"), into),
            KeyShape::SectionAndNamed(own, keys) => {
                walk(own, &path, into);
                walk(keys, &format!("{path}.mail"), into);
            }
            KeyShape::Value(_) | KeyShape::Open => into.push((path, key)),
        }
    }
}

/// A value that differs from the default, as the file says it.
fn sample(path: &str, key: &ConfigKey) -> String {
    let given = match path {
        "store.url" => "'sqlite:other.db'",
        "server.listen" => "'127.0.0.1:1'",
        "server.tokens" => {
            "[{ name = 'ci', scopes = ['read'], hash = \
             'sha256:0000000000000000000000000000000000000000000000000000000000000000' }]"
        }
        "server.trusted_proxies" | "webhooks.allow" | "handlers.http.allow" => "['10.1.0.0/16']",
        "signing.keys" | "encryption.keys" => return format!("['{KEY}']"),
        "alerts.webhook" => "'https://ops.example.com/x'",
        "alerts.secrets" => return format!("['{WEBHOOK_SECRET}']"),
        // A program whose path leads nowhere else.
        "handlers.command.allow" => {
            let own = std::env::current_exe().and_then(std::fs::canonicalize).expect("this program");
            return format!("['{}']", own.display());
        }
        "handlers.command.dir" => "'/usr'",
        "handlers.command.dirs" => "['/usr']",
        "handlers.http.methods" => "['GET']",
        "handlers.http.secrets" => {
            return format!("{{ a = {{ keys = ['{WEBHOOK_SECRET}'], hosts = ['a.example'] }} }}");
        }
        "webhooks.ports" | "handlers.http.ports" => "[9443]",
        "retry_budget.enabled" | "kinds.mail.retry_budget.enabled" => "false",
        "telemetry.otlp_endpoint" => "'http://127.0.0.1:4318'",
        "kinds.mail.memory_limit" => "'256MB'",
        "kinds.mail.dependency_from" => "'/host'",
        "dependencies.mail.check" => "'tcp://127.0.0.1:25'",
        "limits.page" => "300",
        "circuits.mail.probes" => "5",
        "workers.processes" => "'2..5'",
        "server.public_url" => "'https://jobs.example.com'",
        "schedules.mail.cron" => "'@hourly'",
        "schedules.mail.time_zone" => "'Europe/Berlin'",
        "schedules.mail.misfire" => "'skip'",
        "schedules.mail.payload" => "{ to = 'ann' }",
        "schedules.mail.permits" => "{ gpu = 2 }",
        "schedules.mail.params" => "{ region = 'eu' }",
        "bridges.mail.broker" => "'redis://127.0.0.1'",
        "bridges.mail.profile" => "'daycry'",
        "bridges.mail.daycry.handlers" => "{ import_users = 'import' }",
        "bridges.mail.source.id" => "'body'",
        "bridges.mail.sink.of" => "['events']",
        "handoff.mail.to" => "'https://other.example'",
        "handoff.mail.secrets" => return format!("['{WEBHOOK_SECRET}']"),
        "sanitize.patterns" => "['ACME-[0-9]+']",
        _ => match key.shape {
            KeyShape::Value(ValueKind::Count) => "3",
            KeyShape::Value(ValueKind::Percent) => "0.5",
            KeyShape::Value(ValueKind::Flag) => "true",
            KeyShape::Value(ValueKind::Span | ValueKind::Keep) => "'7s'",
            KeyShape::Value(ValueKind::Millis) => "7000",
            KeyShape::Value(ValueKind::Texts) => "['one']",
            KeyShape::Value(ValueKind::Word(words)) => {
                return format!("'{}'", words[words.len() - 2 + usize::from(words.len() == 2)]);
            }
            KeyShape::Value(ValueKind::Jitter) => "'none'",
            KeyShape::Value(ValueKind::Rate) => "'5/s'",
            _ => "'text'",
        },
    };
    given.to_owned()
}

/// What must stand beside a key for it to mean anything.
fn beside(path: &str) -> String {
    match path {
        "alerts.webhook" => format!("alerts.secrets = ['{WEBHOOK_SECRET}']\n"),
        "alerts.secrets" => "alerts.webhook = 'https://ops.example.com/x'\n".to_owned(),
        // Without it the machine must know the user.
        "handlers.command.user" => "handlers.command.group = 3\n".to_owned(),
        "server.tls_cert" => "server.tls_key = 'k'\n".to_owned(),
        "server.tls_key" => "server.tls_cert = 'c'\n".to_owned(),
        "signing.required" | "signing.queues.mail.required" => format!("signing.keys = ['{KEY}']\n"),
        "limits.mail.queue" | "limits.mail.kind" | "limits.mail.by" => {
            "limits.mail.concurrency = 2\n".to_owned()
        }
        "schedules.mail.cron" | "schedules.mail.every" => "schedules.mail.kind = 'send'\n".to_owned(),
        "schedules.mail.kind" => "schedules.mail.cron = '@daily'\n".to_owned(),
        path if path.starts_with("schedules.mail") => SCHEDULE.to_owned(),
        path if path.starts_with("bridges.mail") => {
            profile_beside(path).unwrap_or_else(|| bridge_without(path))
        }
        "handoff.mail.to" => String::new(),
        path if path.starts_with("handoff.mail") => HANDOFF.to_owned(),
        "encryption.kinds" => format!("encryption.keys = ['{KEY}']\n"),
        "kinds.mail.dependency_from" => "kinds.mail.dependency = 'smtp'\n".to_owned(),
        "dependencies.mail.check" => "kinds.send.dependency = 'mail'\n".to_owned(),
        "dependencies.mail.every" => {
            "kinds.send.dependency = 'mail'\ndependencies.mail.check = 'tcp://127.0.0.1:25'\n".to_owned()
        }
        path if path.starts_with("circuits.mail") => "kinds.send.dependency = 'mail'\n".to_owned(),
        _ => String::new(),
    }
}

/// All that settings come to, without the list of what was said.
fn sum(mut settings: Settings) -> String {
    settings.rows.clear();
    settings.file = None;
    let redacted = settings.engine.redactor.redact("see ACME-77").into_owned();
    format!("{settings:#?} {redacted}")
}

fn load(text: &str, variables: Vec<(String, String)>) -> Settings {
    let found = super::read::read(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    let said = super::env::settings(&variables).unwrap_or_else(|faults| panic!("{faults:?}"));
    let all = found.into_iter().chain(said).collect();
    Settings::build(&GivenSettings::default(), all, None)
        .unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

#[test]
fn every_key_that_is_accepted_does_something() {
    // L19, L20
    let mut keys = Vec::new();
    walk(FILE, "", &mut keys);
    assert!(keys.len() > 100, "{}", keys.len());
    for (path, key) in keys {
        // What stands beside it on both sides does not count, unless it would be refused alone.
        let alone = match path.as_str() {
            "alerts.webhook"
            | "alerts.secrets"
            | "server.tls_cert"
            | "server.tls_key"
            | "schedules.mail.cron"
            | "schedules.mail.every"
            | "schedules.mail.kind"
            | "bridges.mail.profile"
            | "bridges.mail.sink.exchange" => String::new(),
            path if path.starts_with("bridges.mail") && bridge_without(path) != BRIDGE => String::new(),
            _ => beside(&path),
        };
        let value = sample(&path, key);
        let with = load(&format!("{}{path} = {value}\n", beside(&path)), Vec::new());
        assert_ne!(sum(with), sum(load(&alone, Vec::new())), "{path} = {value} changes nothing");
        let name = format!("BACKSTOP_{}", path.to_uppercase().replace('.', "__"));
        let raw = if value.starts_with('\'') { value.trim_matches('\'').to_owned() } else { value.clone() };
        let by_variable = load(&beside(&path), vec![(name.clone(), raw)]);
        let by_file = load(&format!("{}{path} = {value}\n", beside(&path)), Vec::new());
        let shown = path.trim_end_matches("_ms");
        assert!(
            by_variable.rows.iter().any(|row| row.key == shown && row.source == SettingSource::Env),
            "{name}: {:?}",
            by_variable.rows
        );
        assert_eq!(sum(by_variable), sum(by_file), "{name} says the same as {path}");
    }
}

/// What stands beside a key that belongs to a queue or kind, so that the table is there with and without it.
fn company(path: &str) -> &'static str {
    match path {
        "queues.mail.concurrency" => "queues.mail.unknown_kind = 'wait'\n",
        path if path.starts_with("queues.mail") => "queues.mail.concurrency = 16\n",
        "kinds.mail.dependency_from" => "kinds.mail.dependency = 'smtp'\n",
        path if path.starts_with("kinds.mail") => "kinds.mail.timeout = '1s'\n",
        path if path.starts_with("circuits.mail") => "kinds.send.dependency = 'mail'\n",
        path if path.starts_with("dependencies.mail") => {
            "kinds.send.dependency = 'mail'\ndependencies.mail.check = 'tcp://127.0.0.1:25'\n"
        }
        path if path.starts_with("schedules.mail") => SCHEDULE,
        path if path.starts_with("bridges.mail") => BRIDGE,
        path if path.starts_with("handoff.mail") => HANDOFF,
        _ => "",
    }
}

/// Takes out what is said and means the same as nothing.
fn plain(mut settings: Settings) -> Settings {
    settings.prefetch.retain(|_, jobs| *jobs > 0);
    let engine = &mut settings.engine;
    engine.circuits.retain(|_, circuit| *circuit != CircuitSettings::default());
    engine.retry_budgets.retain(|_, budget| *budget != engine.retry_budget);
    let of_queues = engine.queues.values_mut().map(|queue| &mut queue.defaults);
    for jobs in engine.kinds.values_mut().chain(of_queues) {
        // A policy leaves open what is as usual.
        *jobs = jobs.applied_to(Policy::default()).into();
    }
    settings
}

#[test]
fn the_reference_has_every_key_and_no_other() {
    let mut keys = Vec::new();
    walk(FILE, "", &mut keys);
    // A twin in milliseconds is the same setting.
    let keys = keys.into_iter().filter(|(_, key)| !matches!(key.shape, KeyShape::Value(ValueKind::Millis)));
    let known: BTreeSet<String> = keys.map(|(path, _)| path).collect();
    let entries = entries();
    let told: BTreeSet<String> = entries.iter().map(|one| one.path.replace(".NAME", ".mail")).collect();
    assert_eq!(told.len(), entries.len(), "a key stands twice in reference.toml");
    let missing: Vec<_> = known.difference(&told).collect();
    let gone: Vec<_> = told.difference(&known).collect();
    assert!(missing.is_empty(), "reference.toml does not tell of {missing:?}");
    assert!(gone.is_empty(), "reference.toml tells of {gone:?}, which are not keys");
}

#[test]
fn the_defaults_of_the_reference_change_nothing() {
    for entry in entries().iter().filter(|entry| entry.is_default) {
        let path = entry.path.replace(".NAME", ".mail");
        let beside = company(&path);
        let with = load(&format!("{beside}{path} = {}\n", entry.value), Vec::new());
        let without = load(beside, Vec::new());
        assert_eq!(sum(plain(with)), sum(plain(without)), "{path} = {} is not the default", entry.value);
    }
}

#[test]
fn the_environment_goes_before_the_file() {
    let dir = std::env::temp_dir().join(format!("backstop-known-{}", backstop::job_id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("backstop.toml");
    std::fs::write(&path, "[queues.mail]\nconcurrency = 4\nkinds = ['a']\n[workers]\nlease = '9s'\n")
        .expect("a file");
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = vec![
        variable("BACKSTOP_QUEUES__MAIL__CONCURRENCY", "8"),
        variable("BACKSTOP_QUEUES__MAIL__KINDS", "send, receive"),
        variable("BACKSTOP_LIMITS__PAYLOAD_BYTES", "2048"),
    ];
    let settings =
        Settings::load(&GivenSettings { config: Some(path), variables, ..GivenSettings::default() });
    std::fs::remove_dir_all(&dir).expect("it was ours");
    let settings = settings.expect("good settings");
    assert_eq!((settings.queues["mail"], settings.lease.as_secs()), (8, 9));
    let gate = &settings.engine.queues["mail"].gate;
    assert!(gate.allows("send") && gate.allows("receive") && !gate.allows("a"));
    assert_eq!(settings.engine.limits.payload_bytes, 2_048);
    assert_eq!(Config::default().limits.payload_bytes, 1_048_576);
}

#[test]
fn a_variable_that_cannot_be_used_is_named() {
    for (name, value, told) in [
        ("BACKSTOP_WORKERS__LEESE", "9s", "unknown key `leese` in [workers]: did you mean `lease`?"),
        ("BACKSTOP_WORKERS__LEASE", "9", "`workers.lease` must be a duration with its unit"),
        ("BACKSTOP_LIMITS__TAGS", "many", "not TOML"),
        ("BACKSTOP_LIMITS__TAGS", "1\n[store]", "control character"),
    ] {
        let faults = super::env::settings(&[(name.to_owned(), value.to_owned())]).expect_err(name);
        assert!(faults[0].starts_with(name) && faults[0].contains(told), "{faults:?}");
    }
    let limit = "limits.batch = 1000000\nlimits.tags = 0";
    let found = super::read::read(limit).expect("the shape is right");
    let faults =
        Settings::build(&GivenSettings::default(), found, None).expect_err("too much and too little");
    assert_eq!(faults.len(), 2, "{faults:?}");
}
