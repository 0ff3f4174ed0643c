//! Every refusal of the built-in kinds has a code of its own (E10).

use backstop::Cause;
use backstop_kinds::{CommandSettings, Kinds, Program, RefusalCode};
use serde_json::{Value, json};

use crate::stage::{Scripts, Stage};

/// Refusals that need a server to answer; they are looked at where redirects are.
const BY_ANSWERS: [RefusalCode; 4] = [
    RefusalCode::HttpRedirectNotFollowed,
    RefusalCode::HttpRedirectInvalid,
    RefusalCode::HttpRedirectElsewhere,
    RefusalCode::HttpRedirectDowngrade,
];

fn payloads(program: &str, strict: &str) -> Vec<(RefusalCode, &'static str, Value)> {
    let get = |url: &str| json!({ "method": "GET", "url": url });
    let with = |name: &str, value: Value| {
        let mut payload = get("https://a.example/");
        payload[name] = value;
        payload
    };
    let headers: serde_json::Map<String, Value> = (0..65).map(|n| (format!("x-{n}"), json!("1"))).collect();
    vec![
        (RefusalCode::CommandNoProgram, "command", json!({ "argv": [] })),
        (RefusalCode::CommandRelativePath, "command", json!({ "argv": ["ls"] })),
        (RefusalCode::CommandNul, "command", json!({ "argv": [program, "a\0b"] })),
        (RefusalCode::CommandTooManyArguments, "command", json!({ "argv": vec![program; 2_000] })),
        (RefusalCode::CommandTooLarge, "command", json!({ "argv": [program, "x".repeat(200_000)] })),
        (RefusalCode::CommandZeroTimeout, "command", json!({ "argv": [program], "timeout_ms": 0 })),
        (RefusalCode::CommandProgramNotAllowed, "command", json!({ "argv": ["/no/such"] })),
        (RefusalCode::CommandOptionNotAllowed, "command", json!({ "argv": [program, "-x"] })),
        (RefusalCode::CommandArgumentNotAllowed, "command", json!({ "argv": [strict, "a", "-exec"] })),
        (
            RefusalCode::CommandVariableNotAllowed,
            "command",
            json!({ "argv": [program], "env": { "A": "1" } }),
        ),
        (RefusalCode::CommandDirectoryNotAllowed, "command", json!({ "argv": [program], "dir": "/" })),
        (RefusalCode::HttpUrlTooLong, "http", get(&format!("https://a.example/{}", "x".repeat(10_000)))),
        (RefusalCode::HttpUrlCharacter, "http", get("https://a.example/ x")),
        (RefusalCode::HttpUrlScheme, "http", get("ftp://a.example/")),
        (RefusalCode::HttpUrlCredentials, "http", get("https://ann:pw@a.example/")),
        (RefusalCode::HttpUrlHost, "http", get("https://0x7f.1/")),
        (RefusalCode::HttpUrlPort, "http", get("https://a.example:99999/")),
        (RefusalCode::HttpMethodUnknown, "http", json!({ "method": "TRACE", "url": "https://a.example/" })),
        (RefusalCode::HttpBodyNotTaken, "http", with("body", json!(1))),
        (RefusalCode::HttpZeroTimeout, "http", with("timeout_ms", json!(0))),
        (RefusalCode::HttpTooManyHeaders, "http", with("headers", Value::Object(headers))),
        (RefusalCode::HttpHeaderInvalid, "http", with("headers", json!({ "a b": "1" }))),
        (RefusalCode::HttpHeaderReserved, "http", with("headers", json!({ "host": "b" }))),
        (RefusalCode::HttpMethodNotAllowed, "http", json!({ "method": "PUT", "url": "https://a.example/" })),
        (RefusalCode::HttpPortNotAllowed, "http", get("https://a.example:81/")),
        (RefusalCode::HttpAddressNotPublic, "http", get("http://127.0.0.1/")),
        (RefusalCode::HttpSecretUnknown, "http", with("secret", json!("none"))),
        (RefusalCode::HttpSecretElsewhere, "http", with("secret", json!("partner"))),
        (RefusalCode::EventNameInvalid, "event", json!({ "name": "a b" })),
        (RefusalCode::EventNotAllowed, "event", json!({ "name": "orders.created" })),
        (RefusalCode::PublishBridgeUnknown, "publish", json!({ "bridge": "none", "body": 1 })),
        (RefusalCode::PublishNoQueue, "publish", json!({ "bridge": "orders", "body": 1 })),
        (
            RefusalCode::PublishQueueInvalid,
            "publish",
            json!({ "bridge": "billing", "queue": "a b", "body": 1 }),
        ),
        (RefusalCode::PublishIdInvalid, "publish", json!({ "bridge": "billing", "id": "a\r\nb", "body": 1 })),
        (
            RefusalCode::PublishHeaderInvalid,
            "publish",
            json!({ "bridge": "billing", "headers": { "a": "b\r\nc" }, "body": 1 }),
        ),
        (
            RefusalCode::PublishNotAllowed,
            "publish",
            json!({ "bridge": "billing", "queue": "other", "body": 1 }),
        ),
    ]
}

#[tokio::test]
async fn every_refusal_has_its_code_its_cause_and_a_way_out() {
    // E10
    let scripts = Scripts::new();
    let path = scripts.write("listed", "exit 0");
    let strict = scripts.write("strict", "exit 0");
    let command = CommandSettings::default()
        .allow(Program::new(&path).expect("a program"))
        .allow(Program::with_arguments(&strict, &["[a-z]+"]).expect("a program"));
    let http = Kinds::default().http.methods(&["GET", "POST"]).expect("methods");
    let secret = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
    let http = http.secret("partner", &secret, &["b.example"]).expect("a secret");
    let publish = crate::publish::settings().0;
    let stage = Stage::new(Kinds { command, http, publish, ..Kinds::default() }).await;
    let mut seen = BY_ANSWERS.to_vec();
    for (code, kind, payload) in payloads(&path, &strict) {
        let ran = stage.run_raw(kind, payload.to_string()).await;
        assert_eq!(ran.error_type(), code.as_str(), "{payload}: {}", ran.message());
        assert!(matches!(ran.cause(), Cause::Invalid | Cause::Permanent), "{}", code.as_str());
        assert!(!ran.message().is_empty() && !ran.message().contains('\n'), "{}", ran.message());
        seen.push(code);
    }
    for code in RefusalCode::ALL {
        assert!(seen.contains(code), "{} is shown by no payload", code.as_str());
        assert!(!code.way_out().is_empty());
    }
}
