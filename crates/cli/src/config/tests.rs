//! What a file may say, and what it is told when it says something else.

use std::time::Duration;

use backstop_core::job::Masking;

use super::read::{ConfigFault, read};
use super::{GivenSettings, SettingSource, Settings};

fn faults(text: &str) -> Vec<ConfigFault> {
    read(text).expect_err("this file has a fault")
}

fn load(text: &str) -> Settings {
    let dir = std::env::temp_dir().join(format!("backstop-config-{}", backstop::job_id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("backstop.toml");
    std::fs::write(&path, text).expect("a file");
    let settings = Settings::load(&GivenSettings { config: Some(path), ..GivenSettings::default() });
    std::fs::remove_dir_all(&dir).expect("it was ours");
    settings.expect("a good file")
}

/// What a person is told of a file, with all that is quoted of it.
fn refused(text: &str) -> String {
    let found = read(text);
    let faults = match found {
        Ok(found) => {
            let keys = super::keys::take(&found, &mut backstop::Config::default()).err();
            super::alerts::alerts(&found).err().into_iter().chain(keys).collect()
        }
        Err(faults) => faults,
    };
    let told: Vec<String> = faults.into_iter().map(|fault| fault.message).collect();
    format!("{}\n{}", told.join("\n"), super::veil::veiled(text))
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_at_every_level() {
    for (text, key, told) in [
        ("[stor]\nurl = 'x'", "stor", "unknown key `stor` at the top level: did you mean `store`?"),
        ("[store]\nulr = 'x'", "store.ulr", "unknown key `ulr` in [store]: did you mean `url`?"),
        (
            "[queues.mail]\nconcurency = 4",
            "queues.mail.concurency",
            "unknown key `concurency` in [queues.mail]: did you mean `concurrency`?",
        ),
        (
            "[queues.mail.retry]\nmax_retry = 4",
            "queues.mail.retry.max_retry",
            "unknown key `max_retry` in [queues.mail.retry]: did you mean `max_retries`?",
        ),
        (
            "[handlers.http]\nallow_privat = true",
            "handlers.http.allow_privat",
            "unknown key `allow_privat` in [handlers.http]: did you mean `allow_private`?",
        ),
        ("[store]\nqqqqqqqq = 1", "store.qqqqqqqq", "unknown key `qqqqqqqq` in [store]: use one of url"),
    ] {
        let found = faults(text);
        assert_eq!((found[0].key.as_str(), found[0].message.as_str()), (key, told));
        let last = key.rsplit('.').next().expect("a word");
        assert_eq!(&text[found[0].place.clone()], last, "the place points at the key");
    }
}

#[test]
fn every_fault_of_a_file_is_found_at_once() {
    let text = "[queues.a]\nconcurrency = 'many'\ntimeout = '5 parsecs'\n[workers]\nlease = 30\nlease_ms = -1\nfoo = 1";
    let found = faults(text);
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found[0].message.contains("`queues.a.concurrency` must be a whole number"));
}

#[test]
fn a_duration_given_twice_is_a_fault() {
    let found = faults("[workers]\nlease = '30s'\nlease_ms = 30000");
    assert!(found[0].message.contains("given twice"), "{found:?}");
}

#[test]
fn text_that_is_no_toml_is_a_fault_with_a_place() {
    let found = faults("[store\nurl = 1");
    assert!(found[0].message.starts_with("not TOML"), "{found:?}");
}

#[test]
fn queues_kinds_and_workers_reach_the_engine() {
    let settings = load(
        "[store]\nurl = 'sqlite:other.db'\n[queues.mail]\nconcurrency = 4\nkinds = ['send']\nunknown_kind = 'fail'\n\
         timeout = '5 min'\nretry = { max_retries = 7, backoff = 'linear', base_ms = 250, cap = '2s', jitter = '20%' }\n\
         [kinds.send]\ntimeout_ms = 1500\n[workers]\nlease = '10s'\npoll = '250ms'\n[sanitize]\npatterns = ['ACME-\\d+']",
    );
    assert_eq!(settings.store, "sqlite:other.db");
    assert_eq!(settings.queues["mail"], 4);
    let mail = &settings.engine.queues["mail"];
    assert!(mail.fail_unknown_kind && mail.gate.allows("send") && !mail.gate.allows("other"));
    assert_eq!((mail.defaults.max_retries, mail.defaults.timeout), (Some(7), Some(Duration::from_secs(300))));
    assert_eq!(mail.defaults.base, Some(Duration::from_millis(250)));
    assert_eq!(mail.defaults.cap, Some(Duration::from_secs(2)));
    assert_eq!(settings.engine.kinds["send"].timeout, Some(Duration::from_millis(1500)));
    assert_eq!((settings.lease, settings.poll), (Duration::from_secs(10), Duration::from_millis(250)));
    assert!(settings.engine.redactor.redact("see ACME-77").contains("[redacted]"));
}

#[test]
fn every_value_has_its_source_and_secrets_are_not_shown() {
    let settings = load(
        "[workers]\ngrace = '1s'\n[handlers.http]\nsecrets = { a = { keys = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], hosts = ['a.example'] } }",
    );
    let row = |key: &str| settings.rows.iter().find(|row| row.key == key).expect(key);
    assert_eq!(
        (row("workers.grace").source, row("workers.lease").source),
        (SettingSource::File, SettingSource::Default)
    );
    assert_eq!(row("handlers.http.secrets").value, "(set)");
}

#[test]
fn a_pattern_that_is_no_pattern_is_a_fault_of_the_file() {
    let given = GivenSettings { config: Some("/nowhere/at/all.toml".into()), ..GivenSettings::default() };
    assert!(Settings::load(&given).is_err(), "a named file must be there");
    let found = read("[sanitize]\npatterns = ['(']").expect("the shape is right");
    assert_eq!(found.len(), 1);
}

#[test]
fn alerts_are_checked_and_never_shown() {
    // D3
    let settings = load(
        "[alerts]\nwebhook = 'https://ops.example.com/T0pSecret'\nsecrets = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']\n\
         gap = '5 min'\nlog = true\n[retention]\narchive = '30d'",
    );
    let alerts = &settings.engine.alerts;
    let names: Vec<&str> = alerts.channels.iter().map(|channel| channel.name()).collect();
    assert_eq!((names, alerts.gap), (vec!["webhook", "log"], Duration::from_secs(300)));
    assert_eq!(settings.engine.retention.archive, Some(Duration::from_secs(30 * 86_400)));
    let row = |key: &str| settings.rows.iter().find(|row| row.key == key).expect(key).value.clone();
    assert_eq!(
        (row("alerts.secrets"), row("alerts.webhook")),
        ("(set)".into(), "https://ops.example.com/…".into())
    );
    assert!(load("").engine.alerts.channels.is_empty());
    for (text, told) in [
        ("webhook = 'https://h/T0p'", "`alerts.webhook` needs `alerts.secrets`"),
        ("secrets = ['whsec_x']", "`alerts.secrets` sign what `alerts.webhook` sends, and that is missing"),
        (
            "webhook = 'ftp://h/T0p'\nsecrets = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']",
            "must begin with https://",
        ),
        ("webhook = 'https://h/T0p'\nsecrets = ['T0p']", "secret 1 of the webhook is not whsec_"),
        ("webhook = 'https://h/T0p'\nsecrets = []", "has no secret to sign with"),
        ("gap = '2d'", "must be shorter than a day"),
        ("webhok = 'x'", "did you mean `webhook`?"),
    ] {
        let problem = refused(&format!("[alerts]\n{text}\n"));
        assert!(problem.contains(told), "{text}: {problem}");
        assert!(!problem.contains("T0p") && !problem.contains("MfKQ9"), "{problem}");
    }
}

#[test]
fn the_retry_budget_is_set_checked_and_switched_off() {
    // F19
    let settings = load("[retry_budget]\npercent = 50\nfloor = 7");
    let budget = settings.engine.retry_budget.expect("it is on");
    assert_eq!((budget.share, budget.floor), (0.5, 7));
    assert_eq!(load("").engine.retry_budget, Some(backstop_core::failure::BudgetSettings::default()));
    assert_eq!(load("[retry_budget]\nenabled = false\npercent = 50").engine.retry_budget, None);
    for text in ["[retry_budget]\nfloor = 0", "[retry_budget]\npercent = 5000"] {
        let found = read(text).expect("the shape is right");
        let given = GivenSettings::default();
        assert!(Settings::build(&given, found, None).is_err(), "{text}");
    }
}

#[test]
fn limits_on_runs_are_read_beside_those_on_jobs() {
    // H5, L20
    let settings = load(
        "[limits]\nbatch = 500\n[limits.partner]\nkind = 'call'\nconcurrency = 5\nrate = { count = 100, per = '1m' }\n\
         [queues.mail]\nrate = '5/s'",
    );
    assert_eq!(settings.engine.limits.batch, 500);
    let [partner] = &settings.engine.run_limits[..] else { panic!("{:?}", settings.engine.run_limits) };
    assert_eq!(
        (&*partner.name, partner.kind.as_deref(), partner.concurrency),
        ("partner", Some("call"), Some(5))
    );
    assert_eq!(partner.rate.map(|rate| (rate.count, rate.per)), Some((100, Duration::from_secs(60))));
    let mail = settings.engine.queues["mail"].rate.expect("it has one");
    assert_eq!((mail.count, mail.per), (5, Duration::from_secs(1)));
    for (text, problem) in [
        ("[limits.a]\nconcurrency = 0", "0 would let nothing run"),
        (
            "[limits.a]\nqueue = 'mail'",
            "`limits.a` limits nothing; give it `concurrency`, `rate` or `permits`",
        ),
        ("[limits.a]\npermits = 0", "give between 1 and 1000000, or delete the pool"),
        ("[limits.a]\npermits = 2\nqueue = 'mail'", "a pool is for all jobs that ask for its permits"),
        ("[limits.a]\nconcurrency = 2\nby = 'tenant'", "must be one of \"all\", \"key\""),
        ("[limits.a]\nrate = '0/s'", "a count of 0 would let nothing start"),
        ("[queues.mail]\nrate = '0/s'", "a count of 0 would let nothing start"),
        ("[limits.a]\nrate = '5'", "so many in a time, such as \"100/1m\" or \"5/s\""),
        ("[limits.a]\nconcurency = 5", "unknown key `concurency` in [limits.a]: did you mean `concurrency`?"),
        ("[limits]\nbach = 5", "unknown key `bach` in [limits]: did you mean `batch`?"),
    ] {
        let built = read(text).and_then(|found| Settings::build(&GivenSettings::default(), found, None));
        let told: Vec<String> = built.expect_err(text).into_iter().map(|fault| fault.message).collect();
        assert!(told.iter().any(|told| told.contains(problem)), "{text}: {told:?}");
    }
}

#[test]
fn handlers_open_what_they_say_and_faults_name_the_way_out() {
    // E4, E5, E6
    let real =
        |path: &str| std::path::Path::new(path).canonicalize().expect("a program").display().to_string();
    let (id, find, shell) = (real("/usr/bin/id"), real("/usr/bin/find"), real("/bin/sh"));
    let settings = load(&format!(
        "[handlers.command]\nallow = ['{id}', {{ path = '{id}', args = 'any' }}, \
         {{ path = '{find}', args = ['/srv/[a-z]+'] }}]\nuser = 4000000000\ngroup = 7\ndir = '/'\nenv = ['WORD']\n\
         timeout = '5 min'\ngrace_ms = 500\nopen_files = 64\n[handlers.http]\nallow = ['10.1.0.0/16', 'in.example']\n\
         ports = [80, 9000]\nredirects = 2\n[handlers.http.secrets.p]\nkeys = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']\n\
         hosts = ['a.example']\n\
         [handlers.event]\nallow = ['orders.*']"
    ));
    assert!(settings.kinds.event.allows("orders.created") && !settings.kinds.event.allows("other"));
    let row = |key: &str| settings.rows.iter().find(|row| row.key == key).expect(key);
    assert!(row("handlers.command.allow").used && row("handlers.http.ports").used);
    assert_eq!(row("handlers.http.secrets").value, "(set)");
    let shown = format!("{:?}", settings.kinds);
    assert!(shown.contains("9000") && shown.contains("in.example") && !shown.contains("MfKQ9"), "{shown}");
    assert!(!load("").kinds.event.allows("orders.created"), "nothing is open by default");
    let allow = |program: &str| format!("[handlers.command]\nallow = [{program}]");
    for (text, told) in [
        ("[handlers.command]\nallow = ['sh']", "is not an absolute path"),
        ("[handlers.command]\nallow = ['/no/such']", "cannot be used"),
        ("[handlers.command]\nallow = ['/etc/passwd']", "is not a program"),
        ("[handlers.command]\nallow = [{ path = '/', arg = 'any' }]", "unknown key `arg` of a program"),
        ("[handlers.command]\nallow = 'all'", "must be a list of paths"),
        (&allow(&format!("'{find}'")), "runs other programs by its arguments, behind `--` too"),
        (&allow(&format!("{{ path = '{find}', args = 'any' }}")), "list those it may get as patterns"),
        (&allow(&format!("{{ path = '{find}', args = 'some' }}")), "\"any\" or a list of patterns"),
        (&allow(&format!("{{ path = '{find}', args = [1] }}")), "\"any\" or a list of patterns"),
        (&allow(&format!("{{ path = '{find}', args = ['('] }}")), "`(` is not a pattern for its arguments"),
        (&allow(&format!("{{ path = '{shell}', args = ['a'] }}")), "list a script that does what is needed"),
        ("[handlers.command]\nuser = 4000000000", "is not in /etc/passwd"),
        ("[handlers.command]\nenv = ['LD_PRELOAD']", "may not be set by payloads"),
        ("[handlers.command]\ngrace = '1 min'", "is too long"),
        ("[handlers.http]\nallow = ['10.0.0.0/99']", "is neither a host name"),
        ("[handlers.http]\nports = [70000]", "numbers from 1 to 65535"),
        ("[handlers.http]\nmethods = ['TRACE']", "is not a method"),
        ("[handlers.http]\nredirects = 9", "are too many"),
        (
            "[handlers.http.secrets.p]\nkeys = ['whsec_T0pSecret']\nhosts = ['a.example']",
            "secret `p` is not a list",
        ),
        (
            "[handlers.http.secrets.p]\nkeys = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']",
            "secret `p` needs the hosts that share it",
        ),
        (
            "[handlers.http.secrets]\np = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']",
            "must be a table of names",
        ),
        ("[handlers.event]\nallow = ['orders*']", "is not a pattern for events"),
    ] {
        let found = read(text).expect("the shape is right");
        let faults = super::handlers::kinds(&found).expect_err(text);
        assert!(faults[0].message.contains(told), "{text}: {}", faults[0].message);
        assert!(!faults[0].message.contains("T0p") && !super::veil::veiled(text).contains("T0p"));
    }
}

/// 32 bytes, in base64.
const SECRET: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

#[test]
fn keys_are_read_and_never_shown() {
    // E9, E12
    let text = format!(
        "[signing]\nkeys = ['k2:{SECRET}', 'k1:{SECRET}']\nrequired = true\n[signing.queues.legacy]\nrequired = false\n\
         [encryption]\nkeys = ['s1:{SECRET}']\nkinds = ['charge']\n\
         [masking.mail]\nfields = ['iban']\n[masking.'*']\nfields = ['ssn']\n"
    );
    let settings = load(&text);
    let signing = settings.engine.signing.as_ref().expect("keys");
    assert_eq!(signing.keys.ids().collect::<Vec<_>>(), ["k2", "k1"]);
    assert!(signing.required && !signing.queues["legacy"]);
    let encryption = settings.engine.encryption.as_ref().expect("keys");
    assert_eq!((encryption.keys.ids().next(), encryption.kinds.contains("charge")), (Some("s1"), true));
    assert_eq!(settings.engine.masking, Masking::default().hide("mail", ["iban"]).hide("*", ["ssn"]));
    let shown = serde_json::to_string(&settings.rows).expect("rows");
    assert!(!shown.contains("AQEB") && !format!("{settings:?}").contains("AQEB"), "{shown}");
    assert!(shown.contains(r#""key":"signing.keys","value":"(set)""#), "{shown}");
}

#[test]
fn keys_that_cannot_be_used_are_explained() {
    // E9, E12
    for (text, told) in [
        ("[signing]\nrequired = true", "signatures are required and `signing.keys` are missing"),
        ("[signing.queues.mail]\nrequired = true", "signatures are required and `signing.keys` are missing"),
        ("[signing]\nkeys = []", "there is no key"),
        ("[signing]\nkeys = ['AQEBAQEB']", "key 1 is not `name:secret`"),
        ("[signing]\nkeys = ['k1:AQEB AQEB']", "the secret of the key `k1` is not valid base64"),
        ("[signing]\nkeys = ['k1:AQEBAQEB']", "the secret of the key `k1` has 6 bytes and needs at least 32"),
        ("[encryption]\nkinds = ['charge']", "`encryption.kinds` are sealed with `encryption.keys`"),
        (&format!("[encryption]\nkeys = ['s1:AAAA{SECRET}']"), "and the cipher takes 32"),
        (&format!("[signing]\nkeys = ['k:{SECRET}', 'k:{SECRET}']"), "two keys are called `k`"),
    ] {
        let refused = refused(text);
        assert!(refused.contains(told), "{text}: {refused}");
        assert!(!refused.contains("AQEB"), "{refused}");
    }
    assert!(load("[signing]\nrequired = false").engine.signing.is_none());
}

#[test]
fn where_webhooks_lead_and_how_long_the_audit_log_stays_are_read() {
    let usual = load("");
    assert_eq!(usual.engine.audit_retention, Some(Duration::from_secs(400 * 86_400)));
    let closed = usual.server.settings.reporting.webhooks;
    assert!(closed.admits("http://127.0.0.1/x").is_err_and(|told| told.contains("webhooks.allow")));
    assert!(closed.admits("https://a.example:9443/x").is_err_and(|told| told.contains("webhooks.ports")));
    let settings =
        load("[webhooks]\nallow = ['10.1.0.0/16']\nports = [9443]\n[server]\naudit_retention = '30 days'");
    assert_eq!(settings.engine.audit_retention, Some(Duration::from_secs(30 * 86_400)));
    let opened = settings.server.settings.reporting.webhooks;
    assert!(
        opened.admits("https://10.1.2.3:9443/x").is_ok() && opened.admits("https://10.2.2.3:9443/x").is_err()
    );
    let forever = load("[server]\naudit_retention = 'forever'\n[webhooks]\nallow_private = true");
    assert_eq!(forever.engine.audit_retention, None);
    assert!(forever.server.settings.reporting.webhooks.admits("http://127.0.0.1/x").is_ok());
    for (text, told) in [
        ("[server]\naudit_retention = 'never'", "`server.audit_retention` must be \"forever\" or a duration"),
        ("[server]\naudit_retention = 400", "`server.audit_retention` must be \"forever\" or a duration"),
        ("[webhooks]\nallow = ['a/b']", "is neither a host name nor an address nor a network"),
        ("[webhooks]\nports = ['x']", "`ports` must be a list of numbers"),
        ("[webhooks]\nsecrets = {}", "unknown key `secrets`"),
    ] {
        let found =
            read(text).and_then(|found| Settings::build(&GivenSettings::default(), found, None).map(drop));
        let found = found.expect_err(text);
        assert!(found[0].message.contains(told), "{text}: {found:?}");
    }
}

#[test]
fn the_first_file_is_valid_with_and_without_its_comments() {
    let template = super::init::TEMPLATE;
    assert!(read(template).is_ok_and(|found| found.is_empty()), "everything in it is a comment");
    fn setting(line: &str) -> Option<&str> {
        let rest = line.strip_prefix('#')?;
        rest.starts_with(|ch: char| ch == '[' || ch.is_ascii_lowercase()).then_some(rest)
    }
    let used: String = template.lines().map(|line| format!("{}\n", setting(line).unwrap_or(line))).collect();
    let settings = load(&used);
    assert!(settings.rows.iter().all(|row| row.used), "it offers only what this version uses");
    assert_eq!(settings.queues.get("mail"), Some(&4));
    let default = backstop::Retention::default();
    assert_eq!(settings.engine.retention, default, "what it shows as defaults are the defaults");
    assert_eq!((settings.lease, settings.grace, settings.poll), {
        let pace = backstop::WorkerTimes::default();
        (pace.lease, pace.grace, pace.poll)
    });
}

#[test]
fn a_section_for_a_queue_keeps_the_default_one() {
    let queues = |text: &str| load(text).queues.into_iter().collect::<Vec<_>>();
    let named = |name: &str, count| (name.to_owned(), count);
    assert_eq!(queues(""), [named("default", 16)]);
    assert_eq!(queues("[queues.mail]\nconcurrency = 4"), [named("default", 16), named("mail", 4)]);
    assert_eq!(queues("[queues.default]\nconcurrency = 0"), [named("default", 0)]);
}
