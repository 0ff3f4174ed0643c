//! Every refusal of the built-in kinds has a code of its own (E10).

use backstop::Cause;
use backstop_kinds::{Code, CommandSettings, Kinds, Program};
use serde_json::{Value, json};

use crate::stage::{Scripts, Stage};

/// Refusals that need a server to answer; they are looked at where redirects are.
const BY_ANSWERS: [Code; 4] = [
    Code::HttpRedirectNotFollowed,
    Code::HttpRedirectInvalid,
    Code::HttpRedirectElsewhere,
    Code::HttpRedirectDowngrade,
];

fn payloads(program: &str, strict: &str) -> Vec<(Code, &'static str, Value)> {
    let get = |url: &str| json!({ "method": "GET", "url": url });
    let with = |name: &str, value: Value| {
        let mut payload = get("https://a.example/");
        payload[name] = value;
        payload
    };
    let headers: serde_json::Map<String, Value> = (0..65).map(|n| (format!("x-{n}"), json!("1"))).collect();
    vec![
        (Code::CommandNoProgram, "command", json!({ "argv": [] })),
        (Code::CommandRelativePath, "command", json!({ "argv": ["ls"] })),
        (Code::CommandNul, "command", json!({ "argv": [program, "a\0b"] })),
        (Code::CommandTooManyArguments, "command", json!({ "argv": vec![program; 2_000] })),
        (Code::CommandTooLarge, "command", json!({ "argv": [program, "x".repeat(200_000)] })),
        (Code::CommandZeroTimeout, "command", json!({ "argv": [program], "timeout_ms": 0 })),
        (Code::CommandProgramNotAllowed, "command", json!({ "argv": ["/no/such"] })),
        (Code::CommandOptionNotAllowed, "command", json!({ "argv": [program, "-x"] })),
        (Code::CommandArgumentNotAllowed, "command", json!({ "argv": [strict, "a", "-exec"] })),
        (Code::CommandVariableNotAllowed, "command", json!({ "argv": [program], "env": { "A": "1" } })),
        (Code::CommandDirectoryNotAllowed, "command", json!({ "argv": [program], "dir": "/" })),
        (Code::HttpUrlTooLong, "http", get(&format!("https://a.example/{}", "x".repeat(10_000)))),
        (Code::HttpUrlCharacter, "http", get("https://a.example/ x")),
        (Code::HttpUrlScheme, "http", get("ftp://a.example/")),
        (Code::HttpUrlCredentials, "http", get("https://ann:pw@a.example/")),
        (Code::HttpUrlHost, "http", get("https://0x7f.1/")),
        (Code::HttpUrlPort, "http", get("https://a.example:99999/")),
        (Code::HttpMethodUnknown, "http", json!({ "method": "TRACE", "url": "https://a.example/" })),
        (Code::HttpBodyNotTaken, "http", with("body", json!(1))),
        (Code::HttpZeroTimeout, "http", with("timeout_ms", json!(0))),
        (Code::HttpTooManyHeaders, "http", with("headers", Value::Object(headers))),
        (Code::HttpHeaderInvalid, "http", with("headers", json!({ "a b": "1" }))),
        (Code::HttpHeaderReserved, "http", with("headers", json!({ "host": "b" }))),
        (Code::HttpMethodNotAllowed, "http", json!({ "method": "PUT", "url": "https://a.example/" })),
        (Code::HttpPortNotAllowed, "http", get("https://a.example:81/")),
        (Code::HttpAddressNotPublic, "http", get("http://127.0.0.1/")),
        (Code::HttpSecretUnknown, "http", with("secret", json!("none"))),
        (Code::HttpSecretElsewhere, "http", with("secret", json!("partner"))),
        (Code::EventNameInvalid, "event", json!({ "name": "a b" })),
        (Code::EventNotAllowed, "event", json!({ "name": "orders.created" })),
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
    let stage = Stage::new(Kinds { command, http, ..Kinds::default() }).await;
    let mut seen = BY_ANSWERS.to_vec();
    for (code, kind, payload) in payloads(&path, &strict) {
        let ran = stage.run_raw(kind, payload.to_string()).await;
        assert_eq!(ran.error_type(), code.as_str(), "{payload}: {}", ran.message());
        assert!(matches!(ran.cause(), Cause::Invalid | Cause::Permanent), "{}", code.as_str());
        assert!(!ran.message().is_empty() && !ran.message().contains('\n'), "{}", ran.message());
        seen.push(code);
    }
    for code in Code::ALL {
        assert!(seen.contains(code), "{} is shown by no payload", code.as_str());
        assert!(!code.way_out().is_empty());
    }
}
