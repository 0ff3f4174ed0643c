//! Tables of the translation: what an envelope becomes, and which signatures are believed.

use super::*;
use crate::message::{DeliveryTag, MessageId};
use crate::profile::{DaycrySettings, MessageProfile};
use crate::settings::{BridgeSettings, SourceSettings};

/// Signed outside this program, by HMAC-SHA256 with the key `hunter2` over the text of all eight fields.
const SIGNED_ENVELOPE: &str = r#"{"job":"import_users","payload":{"file":"\/tmp\/u.csv","who":"Zo\u00eb","n":1.5},"queue":"default","priority":5,"maxRetries":2,"attempts":0,"name":"nightly","identifier":"0a1b2c3d4e5f6071","idempotencyKey":null,"schedule":null,"_sig":"SIGNATURE"}"#;

const SIGNATURE: &str = "e514fea6d81450dd91b8f8c810343c271213a7ae8c512faca4225ca96a0d8976";

fn message(body: impl Into<Vec<u8>>) -> BrokerMessage {
    let message = BrokerMessage::new(MessageId::broker("m-1"), DeliveryTag::new("1"));
    BrokerMessage { body: body.into(), ..message }
}

fn envelope() -> String {
    SIGNED_ENVELOPE.replace("SIGNATURE", SIGNATURE)
}

fn profile(daycry: DaycrySettings) -> DaycryProfile {
    let source = SourceSettings::new("default", "import");
    let settings = BridgeSettings::new("beanstalk://127.0.0.1", source).as_daycry(daycry);
    match settings.message_profile("php").unwrap() {
        MessageProfile::Daycry(daycry) => *daycry,
        other => panic!("{other:?}"),
    }
}

fn read(daycry: &DaycryProfile, body: impl Into<Vec<u8>>) -> Result<ReadMessage, MessageProblem> {
    daycry.read(&JobRoute::new("php", "import", "default"), &message(body))
}

fn job(found: Result<ReadMessage, MessageProblem>) -> MessageJob {
    match found {
        Ok(ReadMessage::Job(job)) => *job,
        other => panic!("{other:?}"),
    }
}

/// Signs an envelope as its producer would, with these fields.
fn signed(key: &str, envelope: &str, fields: &[&str]) -> String {
    let value: PhpValue = serde_json::from_str(envelope).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(canonical(&value, fields).as_bytes());
    let signature = backstop_core::digest::hexadecimal(&mac.finalize().into_bytes());
    envelope.replace("SIGNATURE", &signature)
}

#[test]
fn an_envelope_that_is_signed_becomes_a_job() {
    // B1, E9
    let daycry = profile(DaycrySettings::signed_by(["hunter2"]));
    let found = job(read(&daycry, envelope()));
    assert_eq!(found.payload, r#"{"file":"/tmp/u.csv","n":1.5,"who":"Zoë"}"#);
    assert_eq!((&*found.kind, found.key.as_str()), ("import", "php/id:0a1b2c3d4e5f6071"));
    assert_eq!((found.max_retries, found.priority), (Some(2), Some(Priority::Normal)));
    assert_eq!(found.params.unwrap()["daycry"]["job"], json!("import_users"));
    // Put back into its queue by one of their own workers: the same job, with one run less.
    let again = job(read(&daycry, envelope().replace("\"attempts\":0", "\"attempts\":1")));
    assert_eq!((again.key, again.max_retries), (found.key, Some(1)));
    let late = job(read(&daycry, envelope().replace("\"attempts\":0", "\"attempts\":9")));
    assert_eq!(late.max_retries, Some(0));
}

#[test]
fn what_is_not_signed_is_rejected_whatever_was_changed() {
    // B6, E9
    let daycry = profile(DaycrySettings::signed_by(["hunter2"]));
    for (from, to) in [
        ("import_users", "shell"),
        ("u.csv", "v.csv"),
        ("\"queue\":\"default\"", "\"queue\":\"other\""),
        ("\"priority\":5", "\"priority\":9"),
        ("\"maxRetries\":2", "\"maxRetries\":3"),
        ("nightly", "daily"),
        ("0a1b2c3d4e5f6071", "0a1b2c3d4e5f6072"),
        ("\"idempotencyKey\":null", "\"idempotencyKey\":\"k\""),
        (SIGNATURE, ""),
        (SIGNATURE, "00"),
        (SIGNATURE, "not hexadecimal"),
        ("\"_sig\"", "\"sig\""),
        ("\"job\":\"import_users\"", "\"job\":\"import_users\",\"job\":\"shell\""),
    ] {
        let body = envelope().replace(from, to);
        assert_ne!(body, envelope(), "{from} is there");
        let found = read(&daycry, body);
        assert!(matches!(found, Ok(ReadMessage::Reject(_))), "{from} to {to}: {found:?}");
    }
    let other = profile(DaycrySettings::signed_by(["another"]));
    assert!(matches!(read(&other, envelope()), Ok(ReadMessage::Reject(_))));
    // What is not signed does not break it: it changes on the way.
    job(read(&daycry, envelope().replace("\"schedule\":null", "\"schedule\":\"2026-01-01 00:00:00\"")));
}

#[test]
fn keys_can_be_rotated_and_early_versions_signed_less() {
    // E9
    let both = profile(DaycrySettings::signed_by(["new", "hunter2"]));
    job(read(&both, envelope()));
    job(read(&both, signed("new", SIGNED_ENVELOPE, &SIGNED)));
    let early = SIGNED_ENVELOPE.replace("\"idempotencyKey\":null,", "");
    job(read(&both, signed("new", &early, &SIGNED[..7])));
    let smuggled = SIGNED_ENVELOPE.replace("\"idempotencyKey\":null", "\"idempotencyKey\":\"k\"");
    let found = read(&both, signed("new", &smuggled, &SIGNED[..7]));
    assert!(matches!(found, Ok(ReadMessage::Reject(_))), "a key that nobody signed: {found:?}");
    let keyed = job(read(&both, signed("new", &smuggled, &SIGNED)));
    assert_eq!(keyed.key, "php/key:k");
}

#[test]
fn what_cannot_be_a_job_is_invalid() {
    // B4
    let mut open = DaycrySettings { unsigned: true, ..DaycrySettings::default() };
    open.handlers.insert("import_users".to_owned(), "import".to_owned());
    let open = profile(open);
    for (body, reason) in [
        ("", "the body is empty"),
        ("not json", "it is not an envelope: "),
        ("[1]", "it is not an envelope: it is not a JSON object"),
        ("{}", "its `job` is missing"),
        (r#"{"job":7}"#, "its `job` is missing"),
        (r#"{"job":"shell"}"#, "its handler `shell` is not among `daycry.handlers`"),
    ] {
        let problem = read(&open, body).unwrap_err().to_string();
        assert!(problem.starts_with(reason), "{problem}");
    }
    let bare = job(read(&open, r#"{"job":"import_users"}"#));
    assert_eq!((bare.payload.as_str(), bare.key.as_str(), bare.max_retries), ("null", "php/m-1", Some(0)));
}

#[test]
fn a_source_without_a_key_must_say_so() {
    // E9
    let source = SourceSettings::new("default", "import");
    let settings = BridgeSettings::new("beanstalk://127.0.0.1", source).as_daycry(DaycrySettings::default());
    let fault = settings.check("php", |_| true).unwrap_err().to_string();
    assert!(
        fault.contains("`daycry.signing_keys` is missing, and the environment has no JOBS_SIGNING_KEY"),
        "{fault}"
    );
    let mut lists = DaycrySettings::signed_by(["hunter2"]);
    lists.lists = true;
    let fault = settings.clone().as_daycry(lists).check("php", |_| true).unwrap_err().to_string();
    assert!(fault.contains("`daycry.lists` is for Redis"), "{fault}");
    let mut handlers = DaycrySettings::signed_by(["hunter2"]);
    handlers.handlers.insert("report".to_owned(), "raport".to_owned());
    let fault = settings.clone().as_daycry(handlers).check("php", |kind| kind == "import").unwrap_err();
    assert!(fault.to_string().contains("kind `raport` is not known here"), "{fault}");
    let keyed = settings.as_daycry(DaycrySettings::signed_by(["hunter2"]));
    assert_eq!(keyed.check("php", |_| true), Ok(()));
    assert!(!format!("{keyed:?} {:?}", keyed.message_profile("php")).contains("hunter2"));
}

#[test]
fn priorities_are_levels() {
    for (priority, expected) in [
        (-1, Priority::Lowest),
        (0, Priority::Lowest),
        (4, Priority::Low),
        (5, Priority::Normal),
        (8, Priority::High),
        (10, Priority::Critical),
    ] {
        assert_eq!(level(priority), expected, "{priority}");
    }
}
