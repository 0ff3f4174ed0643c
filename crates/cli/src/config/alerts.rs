//! `[alerts]`: who is told of dead letters, and how often (D3). No message repeats an address or a secret.

use std::time::Duration;

use backstop::{Alerts, LogChannel, Webhook, WebhookError};
use serde_json::Value;

use super::read::{ConfigFault, FileValue, PlainValue};

/// What is told later than a day after it happened is dropped: a longer gap would drop everything.
const GAP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The channels that the file asks for.
pub(super) fn alerts(found: &[FileValue]) -> Result<Alerts, ConfigFault> {
    let section = Section { found };
    let mut alerts = Alerts::default();
    if let Some((PlainValue::Span(gap), one)) = section.get("gap") {
        if *gap >= GAP_MAX {
            return Err(fault(
                one,
                "`alerts.gap` must be shorter than a day: what waits longer is never told",
            ));
        }
        alerts = alerts.gap(*gap);
    }
    if let Some(webhook) = webhook(&section)? {
        alerts = alerts.channel(webhook);
    }
    if let Some((PlainValue::Other(Value::Bool(true)), _)) = section.get("log") {
        alerts = alerts.channel(LogChannel);
    }
    Ok(alerts)
}

fn webhook(section: &Section<'_>) -> Result<Option<Webhook>, ConfigFault> {
    match (section.get("webhook"), section.get("secrets")) {
        (None, None) => Ok(None),
        (None, Some((_, secrets))) => {
            Err(fault(secrets, "`alerts.secrets` sign what `alerts.webhook` sends, and that is missing"))
        }
        (Some((PlainValue::Text(address), at)), Some((PlainValue::Texts(secrets), given))) => {
            Webhook::new(address, secrets).map(Some).map_err(|error| {
                let about_secrets = matches!(
                    error,
                    WebhookError::NoSecret | WebhookError::TooManySecrets | WebhookError::Secret { .. }
                );
                fault(if about_secrets { given } else { at }, &error.to_string())
            })
        }
        (Some((_, webhook)), _) => Err(fault(
            webhook,
            "`alerts.webhook` needs `alerts.secrets` to sign with: a list with one that begins with whsec_",
        )),
    }
}

fn fault(found: &FileValue, message: &str) -> ConfigFault {
    ConfigFault { place: found.place.clone(), key: found.path.join("."), message: message.to_owned() }
}

/// The values of the section that stand in the file.
struct Section<'a> {
    found: &'a [FileValue],
}

impl<'a> Section<'a> {
    fn get(&self, name: &str) -> Option<(&'a PlainValue, &'a FileValue)> {
        self.found.iter().find(|one| one.path == ["alerts", name]).map(|one| (&one.value, one))
    }
}

/// The address of a webhook as it may be shown: its path is a secret with many receivers.
pub(super) fn shown(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/…")
}
