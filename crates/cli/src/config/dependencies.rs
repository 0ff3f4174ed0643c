//! What `[kinds.NAME] dependency` and `[dependencies.NAME]` say of what jobs need that may be away (H1), and which
//! `[circuits.NAME]` nobody needs (H3).

use std::time::Duration;

use backstop::Config;
use backstop_core::circuit::{KindDependency, is_one_of};

use super::read::{ConfigFault, FileValue, PlainValue};

/// The shortest time between two checks: more often is a load of its own.
const SHORTEST: Duration = Duration::from_millis(100);

/// Takes over what a kind needs.
pub(super) fn need(config: &mut Config, kind: &str, dependency: &str) -> Result<(), String> {
    if dependency.trim().is_empty() {
        return Err("a dependency needs a name: leave it out for a kind that needs nothing".to_owned());
    }
    config.kind_dependencies.insert(kind.to_owned(), dependency.to_owned());
    Ok(())
}

/// Takes over where the payloads of a kind say which one of several they need.
pub(super) fn from(config: &mut Config, kind: &str, pointer: &str) -> Result<(), String> {
    KindDependency::check_pointer(pointer).map_err(|problem| problem.to_string())?;
    config.dependency_fields.insert(kind.to_owned(), pointer.to_owned());
    Ok(())
}

/// Takes over how a dependency is checked.
pub(super) fn take(config: &mut Config, name: &str, word: &str, value: &PlainValue) -> Result<(), String> {
    let settings = config.dependencies.entry(name.to_owned()).or_default();
    match (word, value) {
        ("check", PlainValue::Text(address)) => {
            settings.check = Some(address.parse().map_err(|problem| format!("{problem}"))?);
        }
        ("every", PlainValue::Span(span)) if *span < SHORTEST => {
            return Err("a check so often is a load of its own: the minimum is 100ms".to_owned());
        }
        ("every", PlainValue::Span(span)) => settings.every = Some(*span),
        _ => {}
    }
    Ok(())
}

/// Refuses dependencies and circuits that no kind needs, times between checks that nobody makes, and pointers to parts
/// of nothing. What reads this file learns of no other kinds that need something: a worker that is a program of its own
/// has settings of its own.
pub(super) fn unused(found: &[FileValue], config: &Config) -> Vec<ConfigFault> {
    let mut faults: Vec<ConfigFault> = Vec::new();
    for one in found {
        let [section, kind, word] = &one.path[..] else { continue };
        if section == "kinds" && word == "dependency_from" && !config.kind_dependencies.contains_key(kind) {
            let message = format!(
                "kind `{kind}` has no dependency that its values could follow: write dependency = \"NAME\" beside it"
            );
            faults.push(ConfigFault { place: one.place.clone(), key: one.path.join("."), message });
        }
    }
    for one in found {
        let [section, name, _] = &one.path[..] else { continue };
        if section != "dependencies" && section != "circuits" {
            continue;
        }
        let needs = |(kind, key): (&String, &String)| {
            key == name || (config.dependency_fields.contains_key(kind) && is_one_of(name, key))
        };
        let needed = config.kind_dependencies.iter().any(needs);
        let checked = section == "circuits"
            || found.iter().any(|other| other.path == ["dependencies", name.as_str(), "check"]);
        let message = if !needed {
            format!(
                "no kind needs dependency `{name}`: write dependency = \"{name}\" in [kinds.KIND] of one that does"
            )
        } else if !checked {
            format!(
                "dependency `{name}` has no check to make: add check = \"http://HOST/PATH\" or \"tcp://HOST:PORT\""
            )
        } else {
            continue;
        };
        if faults.iter().all(|fault| fault.message != message) {
            faults.push(ConfigFault { place: one.place.clone(), key: one.path.join("."), message });
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::read::read;
    use super::super::{GivenSettings, Settings};

    fn faults(text: &str) -> Vec<String> {
        let found = read(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let built = Settings::build(&GivenSettings::default(), found, None);
        built.err().unwrap_or_default().into_iter().map(|fault| fault.message).collect()
    }

    #[test]
    fn what_has_no_effect_or_makes_no_sense_is_refused_in_one_sentence() {
        // H1
        let used = "kinds.mail.dependency = 'smtp'\n";
        for (text, told) in [
            ("dependencies.smtp.check = 'tcp://mail:25'", "no kind needs dependency `smtp`"),
            // H3
            ("circuits.smtp.probes = 5", "no kind needs dependency `smtp`: write dependency = \"smtp\" in"),
            ("kinds.mail.dependency = 'smpt'\ncircuits.smtp.probes = 5", "no kind needs dependency `smtp`"),
            (&format!("{used}circuits.'smtp:eu'.probes = 5"), "no kind needs dependency `smtp:eu`"),
            (
                "kinds.mail.dependency = 'smpt'\ndependencies.smtp.check = 'tcp://mail:25'\n\
              dependencies.smtp.every = '5s'",
                "no kind needs dependency `smtp`",
            ),
            ("kinds.mail.dependency = ' '", "a dependency needs a name"),
            (
                "kinds.mail.dependency_from = '/host'",
                "kind `mail` has no dependency that its values could follow",
            ),
            (&format!("{used}kinds.mail.dependency_from = 'host'"), "it is a JSON pointer"),
            (
                &format!("{used}dependencies.'smtp:eu'.check = 'tcp://eu:25'"),
                "no kind needs dependency `smtp:eu`",
            ),
            (
                &format!("{used}dependencies.smtp.check = 'mail:25'"),
                "a check is http://HOST/PATH or tcp://HOST:PORT",
            ),
            (&format!("{used}dependencies.smtp.check = 'https://mail/'"), "a check is http://HOST/PATH"),
            (&format!("{used}dependencies.smtp.every = '5s'"), "dependency `smtp` has no check to make"),
            (
                &format!("{used}dependencies.smtp.check = 'tcp://mail:25'\ndependencies.smtp.every = '1ms'"),
                "the minimum is 100ms",
            ),
        ] {
            let faults = faults(text);
            assert!(faults.len() == 1 && faults[0].contains(told), "{text}: {faults:?}");
        }
        let good = format!(
            "{used}dependencies.smtp.check = 'http://mail:8025/health'\ndependencies.smtp.every = '5s'"
        );
        assert_eq!(faults(&good), [""; 0]);
        assert_eq!(faults(&format!("{used}circuits.smtp.probes = 5")), [""; 0]);
        let several = "kinds.mail.dependency_from = '/host'\ndependencies.'smtp:eu'.check = 'tcp://eu:25'\n\
            circuits.'smtp:eu'.probes = 5";
        assert_eq!(faults(&format!("{used}{several}")), [""; 0]);
    }
}
