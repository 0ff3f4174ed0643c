//! `[handoff.NAME]`: finished jobs that another Backstop goes on with, and who vouches for those that come here (B7).

use std::collections::BTreeMap;

use backstop::standard_webhooks::Secret;
use backstop_bridges::handoff::{HandOffSettings, check_all};
use serde_json::{Map, Value};

use super::bridges::{plain, put};
use super::read::{ConfigFault, FileValue};

/// The hand-offs of the file, by name.
pub(crate) type HandOffSections = BTreeMap<String, HandOffSettings>;

/// Makes hand-offs of what the file says, or tells what cannot be meant.
pub(super) fn handoffs(found: &[FileValue]) -> Result<HandOffSections, Vec<ConfigFault>> {
    let mut tables: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for one in found {
        if let [section, name, path @ ..] = &one.path[..]
            && section == "handoff"
        {
            put(tables.entry(name).or_default(), path, plain(&one.value));
        }
    }
    let (mut handoffs, mut faults) = (HandOffSections::new(), Vec::new());
    for (name, table) in tables {
        match serde_json::from_value(Value::Object(table)) {
            Ok(handoff) => {
                handoffs.insert(name.to_owned(), handoff);
            }
            Err(problem) => faults.push(fault(found, name, format!("hand-off `{name}`: {problem}"))),
        }
    }
    for problem in check_all(&handoffs) {
        faults.push(fault(found, &problem.handoff.clone(), problem.to_string()));
    }
    if faults.is_empty() { Ok(handoffs) } else { Err(faults) }
}

/// Secrets by publication, of those that are taken here: a table that publishes says what it signs with itself.
pub(super) fn publications(handoffs: &HandOffSections) -> BTreeMap<String, Vec<Secret>> {
    let taken = handoffs.iter().filter(|(_, settings)| !settings.publishes());
    // They were checked with the rest of the table.
    taken.filter_map(|(name, settings)| Some((name.clone(), settings.parsed_secrets(name).ok()?))).collect()
}

fn fault(found: &[FileValue], name: &str, message: String) -> ConfigFault {
    let path = ["handoff".to_owned(), name.to_owned()];
    let place = found.iter().find(|one| one.path.starts_with(&path)).map(|one| one.place.clone());
    ConfigFault { place: place.unwrap_or_default(), key: path.join("."), message }
}

#[cfg(test)]
mod tests {
    use super::super::read::read;
    use super::super::{GivenSettings, Settings};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn built(text: &str) -> Result<Settings, Vec<String>> {
        let found = read(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let built = Settings::build(&GivenSettings::default(), found, None);
        built.map_err(|faults| faults.into_iter().map(|fault| fault.message).collect())
    }

    #[test]
    fn a_hand_off_is_what_the_file_says() {
        // B7
        let text = format!(
            "[handoff.paid]\nto = 'https://warehouse.example'\ntoken = 'hunter2'\nkinds = ['charge']\n\
             key = ['order']\n[handoff.shipped]\nsecrets = ['{SECRET}']\n"
        );
        let settings = built(&text).expect("good settings");
        assert!(settings.handoffs["paid"].publishes() && !settings.handoffs["shipped"].publishes());
        let publications = &settings.server.settings.publications;
        assert_eq!(publications.keys().collect::<Vec<_>>(), ["shipped"]);
        let shown = format!("{settings:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("whsec_M"),
            "tokens and secrets are never shown"
        );
    }

    #[test]
    fn what_cannot_be_meant_is_named_in_one_sentence() {
        // B7
        for (text, told) in [
            ("handoff.a.token = 'hunter2'", "hand-off `a`: `token` needs `to`"),
            ("handoff.a.to = 'warehouse'", "hand-off `a`: `to` is not the address of a Backstop"),
            ("handoff.a.to = 'https://a.example'\nhandoff.a.key = ['/a~2']", "`key` `/a~2` names no field"),
            ("handoff.'a b'.to = 'https://a.example'", "cannot be the name of a hand-off"),
        ] {
            let faults = built(text).expect_err(text);
            assert!(faults.len() == 1 && faults[0].contains(told), "{text}: {faults:?}");
            assert!(!faults[0].contains("hunter2"), "{faults:?}");
        }
        let faults = read("handoff.a.tokn = 'hunter2'").expect_err("a typing error");
        assert!(faults[0].message.contains("did you mean `token`?"), "{faults:?}");
    }
}
