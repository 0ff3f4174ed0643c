//! `[bridges.NAME]`: brokers whose messages become jobs, and that are told what became of jobs (B1, B2).

use std::collections::BTreeMap;

use backstop::rejects::RejectSettings;
use backstop_bridges::{BridgeSettings, BridgeSettingsError, check_all};
use serde_json::{Map, Value};

use super::read::{ConfigFault, FileValue, PlainValue};

/// The bridges of the file, by name.
pub(crate) type BridgeSections = BTreeMap<String, BridgeSettings>;

/// Makes bridges of what the file says, or tells what cannot be meant. `rejects` says where rejects go.
pub(super) fn bridges(
    found: &[FileValue],
    rejects: &RejectSettings,
) -> Result<BridgeSections, Vec<ConfigFault>> {
    let mut tables: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for one in found {
        if let [section, name, path @ ..] = &one.path[..]
            && section == "bridges"
        {
            put(tables.entry(name).or_default(), path, plain(&one.value));
        }
    }
    let (mut bridges, mut faults) = (BridgeSections::new(), Vec::new());
    for (name, table) in tables {
        match serde_json::from_value(Value::Object(table)) {
            Ok(bridge) => {
                bridges.insert(name.to_owned(), bridge);
            }
            Err(problem) => faults.push(fault(found, name, format!("bridge `{name}`: {problem}"))),
        }
    }
    // Which kinds there are is known to workers elsewhere too: jobs of an unknown one wait for them.
    for problem in check_all(&bridges, |_| true).into_iter().filter(|problem| !is_of_two(problem)) {
        let message = problem.to_string();
        let named = |name: &&String| message.contains(&format!("`{name}`"));
        let name = bridges.keys().find(named).cloned().unwrap_or_default();
        faults.push(fault(found, &name, message));
    }
    let unpublished = |(name, bridge): (&String, &BridgeSettings)| {
        let problem = bridge.check_rejects(name, rejects).err()?;
        Some(fault(found, name, problem.to_string()))
    };
    faults.extend(bridges.iter().filter_map(unpublished));
    if faults.is_empty() { Ok(bridges) } else { Err(faults) }
}

/// Two bridges that are sound by themselves and stand in each other's way: neither is started, and everything else is.
const fn is_of_two(problem: &BridgeSettingsError) -> bool {
    matches!(problem, BridgeSettingsError::SameConsumer { .. })
}

/// Bridges that stand in each other's way, in a sentence each.
pub(crate) fn clashes(bridges: &BridgeSections) -> Vec<String> {
    let clashes = check_all(bridges, |_| true).into_iter().filter(is_of_two);
    clashes.map(|problem| format!("{problem}; neither is started")).collect()
}

pub(super) fn put(table: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => {
            table.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let below = table.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(below) = below {
                put(below, rest, value);
            }
        }
    }
}

/// A value as the settings of bridges read it.
pub(super) fn plain(value: &PlainValue) -> Value {
    match value {
        PlainValue::Text(text) => Value::from(text.as_str()),
        PlainValue::Count(count) => Value::from(*count),
        PlainValue::Percent(percent) => super::rejects::shown(*percent),
        PlainValue::Span(span) => Value::from(format!("{}ms", span.as_millis())),
        PlainValue::Texts(texts) => Value::from(texts.clone()),
        PlainValue::Other(value) => value.clone(),
    }
}

fn fault(found: &[FileValue], name: &str, message: String) -> ConfigFault {
    let path = ["bridges".to_owned(), name.to_owned()];
    let place = found.iter().find(|one| one.path.starts_with(&path)).map(|one| one.place.clone());
    ConfigFault { place: place.unwrap_or_default(), key: path.join("."), message }
}

#[cfg(test)]
mod tests {
    use super::super::read::read;
    use super::super::{GivenSettings, Settings};

    fn built(text: &str) -> Result<Settings, Vec<String>> {
        let found = read(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let built = Settings::build(&GivenSettings::default(), found, None);
        built.map_err(|faults| faults.into_iter().map(|fault| fault.message).collect())
    }

    #[test]
    fn a_bridge_is_what_the_file_says() {
        // B1, B2
        let text = "[bridges.billing]\nbroker = 'redis://:hunter2@127.0.0.1'\n\
                    source = { queue = 'orders', kind = 'charge', hold = '90s' }\n\
                    [bridges.billing.sink]\nqueue = 'paid'\nof = ['results', 'dead_letters']\nkinds = ['charge']\n";
        let settings = built(text).expect("good settings");
        let bridge = &settings.bridges["billing"];
        let source = bridge.source.as_ref().expect("a source");
        assert_eq!((source.queue.as_str(), source.hold.map(|hold| hold.as_secs())), ("orders", Some(90)));
        assert_eq!(bridge.sink.as_ref().map(|sink| (sink.queue.as_str(), sink.of.len())), Some(("paid", 2)));
        assert!(!format!("{settings:?}").contains("hunter2"), "credentials are never shown");
    }

    #[test]
    fn a_bridge_has_the_profile_that_the_file_says() {
        // B3, E9
        let text = "[bridges.lang]\nbroker = 'amqp://127.0.0.1'\nprofile = 'caf'\n\
                    caf = { retry_limit = 3, max_priority = 9, status_hosts = ['jobs'] }\n\
                    source = { queue = 'lang-in', kind = 'detect' }\n\
                    [bridges.php]\nbroker = 'beanstalk://127.0.0.1'\nprofile = 'daycry'\n\
                    source = { queue = 'default', kind = 'import' }\n\
                    [bridges.php.daycry]\nsigning_keys = ['hunter2']\nhandlers = { import_users = 'import' }\n";
        let settings = built(text).expect("good settings");
        let caf = settings.bridges["lang"].caf.as_ref().expect("what it is told");
        assert_eq!((caf.retry_limit, caf.max_priority, caf.status_hosts.len()), (Some(3), 9, 1));
        let daycry = settings.bridges["php"].daycry.as_ref().expect("what it is told");
        assert_eq!(daycry.handlers["import_users"], "import");
        assert!(!format!("{settings:?}").contains("hunter2"), "keys are never shown");
    }

    #[test]
    fn rejects_that_are_not_stored_cannot_be_published() {
        // W9, B2
        let bridge = |of: &str| {
            format!("[bridges.bad]\nbroker = 'redis://127.0.0.1'\nsink = {{ queue = 'q', of = {of} }}\n")
        };
        let logged = "[rejects]\nsink = 'log'\n";
        let faults =
            built(&format!("{}{logged}", bridge("['results', 'rejects']"))).expect_err("none are stored");
        let told = "set `[rejects] sink = \"store\"`, or remove `rejects` from `sink.of`";
        assert!(
            faults.len() == 1 && faults[0].starts_with("bridge `bad`: ") && faults[0].ends_with(told),
            "{faults:?}"
        );
        for good in [
            format!("{}[rejects]\nsink = 'store'\n", bridge("['rejects']")),
            bridge("['rejects']"),
            format!("{}{logged}", bridge("['results']")),
        ] {
            built(&good).expect("good settings");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_named_in_one_sentence() {
        // B1, B2
        let broker = "bridges.a.broker = 'redis://127.0.0.1'\n";
        for (text, told) in [
            (broker.to_owned(), "bridge `a`: `source` is missing, and `sink` is too"),
            (
                "bridges.a.sink.queue = 'q'\nbridges.a.sink.of = ['results']".to_owned(),
                "missing field `broker`",
            ),
            (
                format!("{broker}bridges.a.sink.queue = 'q'\nbridges.a.sink.of = ['result']"),
                "unknown variant `result`",
            ),
            (format!("{broker}bridges.a.sink.queue = 'q'\nbridges.a.sink.of = []"), "`sink.of` is empty"),
            (
                format!("{broker}bridges.a.source = {{ queue = 'q', kind = 'k', prefetch = 0 }}"),
                "`prefetch` is 0: give between 1 and 1000",
            ),
            (
                "bridges.a.broker = 'kafka://127.0.0.1'\nbridges.a.source = { queue = 'q', kind = 'k' }"
                    .to_owned(),
                "bridge `a`:",
            ),
        ] {
            let faults = built(&text).expect_err(&text);
            assert!(faults.len() == 1 && faults[0].contains(told), "{text}: {faults:?}");
        }
        let faults = built(&format!(
            "{broker}bridges.a.profile = 'caf'\nbridges.a.source = {{ queue = 'q', kind = 'k' }}"
        ))
        .expect_err("CAF speaks to RabbitMQ alone");
        assert!(faults.len() == 1 && faults[0].contains("which is for RabbitMQ"), "{faults:?}");
        let two = format!(
            "{broker}bridges.a.source = {{ queue = 'q', kind = 'k', consumer = 'c' }}\n\
             bridges.b.broker = 'redis://127.0.0.1'\n\
             bridges.b.source = {{ queue = 'q', kind = 'k', consumer = 'c' }}"
        );
        let clashes = super::clashes(&built(&two).expect("the rest goes on").bridges);
        assert!(
            clashes.len() == 1 && clashes[0].starts_with("bridges `a` and `b` both take `q` as consumer `c`"),
            "{clashes:?}"
        );
        let faults = read(&format!("{broker}bridges.a.sourse.queue = 'q'")).expect_err("a typing error");
        assert!(faults[0].message.contains("did you mean `source`?"), "{faults:?}");
    }
}
