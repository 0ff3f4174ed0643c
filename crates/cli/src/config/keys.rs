//! `[signing]`, `[encryption]` and `[masking]`: the keys that all programs of one store share, and what is hidden (E9,
//! E12). No message repeats a secret.

use std::collections::BTreeMap;

use backstop::{Config, Encryption, Signing};
use backstop_core::job::Masking;
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::{KeyError, SecretKey, SigningKeys};
use serde_json::Value;

use super::read::{ConfigFault, FileValue, PlainValue};

/// Takes the three sections over.
pub(super) fn take(found: &[FileValue], engine: &mut Config) -> Result<(), ConfigFault> {
    engine.signing = signing(found)?;
    engine.encryption = encryption(found)?;
    engine.masking = masking(found);
    Ok(())
}

fn signing(found: &[FileValue]) -> Result<Option<Signing>, ConfigFault> {
    let required = get(found, "signing", "required");
    let queues = under(found, ["signing", "queues"]);
    let Some(keys) = get(found, "signing", "keys") else {
        return match required.or(queues.first().copied()) {
            Some(one) if one.value == PlainValue::Other(Value::Bool(true)) => Err(fault(
                one,
                "signatures are required and `signing.keys` are missing: nothing could be checked",
            )),
            _ => Ok(None),
        };
    };
    let ring = SigningKeys::new(secrets(keys)?).map_err(|problem| fault(keys, &problem.to_string()))?;
    let mut signing = Signing::new(ring);
    signing.required = required.is_some_and(|one| one.value == PlainValue::Other(Value::Bool(true)));
    for one in queues {
        let name = one.path[2].clone();
        signing = signing.queue(name, one.value == PlainValue::Other(Value::Bool(true)));
    }
    Ok(Some(signing))
}

fn encryption(found: &[FileValue]) -> Result<Option<Encryption>, ConfigFault> {
    let kinds = get(found, "encryption", "kinds");
    let Some(keys) = get(found, "encryption", "keys") else {
        return match kinds {
            Some(one) => {
                Err(fault(one, "`encryption.kinds` are sealed with `encryption.keys`, and those are missing"))
            }
            None => Ok(None),
        };
    };
    let ring = SealingKeys::new(secrets(keys)?).map_err(|problem| fault(keys, &problem.to_string()))?;
    let mut encryption = Encryption::new(ring);
    if let Some(PlainValue::Texts(kinds)) = kinds.map(|one| &one.value) {
        encryption.kinds.extend(kinds.iter().cloned());
    }
    Ok(Some(encryption))
}

fn masking(found: &[FileValue]) -> Masking {
    let named: BTreeMap<&str, &Vec<String>> = found
        .iter()
        .filter_map(|one| match (&one.path[..], &one.value) {
            ([section, kind, word], PlainValue::Texts(fields))
                if section == "masking" && word == "fields" =>
            {
                Some((kind.as_str(), fields))
            }
            _ => None,
        })
        .collect();
    named.into_iter().fold(Masking::default(), |masking, (kind, fields)| masking.hide(kind, fields))
}

/// The keys of a list of `name:base64`, the one that is used first.
fn secrets(found: &FileValue) -> Result<Vec<SecretKey>, ConfigFault> {
    let PlainValue::Texts(given) = &found.value else { return Ok(Vec::new()) };
    let key = |(at, text): (usize, &String)| match text.split_once(':') {
        Some((name, secret)) => {
            SecretKey::from_base64(name, secret).map_err(|problem: KeyError| problem.to_string())
        }
        None => Err(format!("key {} is not `name:secret`, with the secret in base64", at + 1)),
    };
    given.iter().enumerate().map(key).collect::<Result<_, _>>().map_err(|problem| fault(found, &problem))
}

fn get<'a>(found: &'a [FileValue], section: &str, name: &str) -> Option<&'a FileValue> {
    found.iter().find(|one| one.path == [section, name])
}

fn under<'a>(found: &'a [FileValue], path: [&str; 2]) -> Vec<&'a FileValue> {
    found.iter().filter(|one| one.path.len() == 4 && one.path[..2] == path).collect()
}

fn fault(found: &FileValue, message: &str) -> ConfigFault {
    ConfigFault { place: found.place.clone(), key: found.path.join("."), message: message.to_owned() }
}
