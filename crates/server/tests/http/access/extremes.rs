//! Extremes in every parameter and every field that the document names: each is taken or refused in the one shape, and
//! no answer has a moment that the document excludes (L20).

use std::collections::BTreeSet;

use backstop::Backstop;
use backstop::mysql::mysql_async::prelude::Queryable;
use backstop::mysql::mysql_async::{Conn, Opts};
use backstop_server::{Scope, ServerSettings, document};
use backstop_testbed::{Folder, shared};
use backstop_testing::TokioClock;
use serde_json::{Map, Value, json};

use super::stage::{Reply, Stage};

/// Stands in a body for what is put there as text.
const HOLE: &str = "@hole@";

/// How deep fields of fields are looked for, in all bodies and in those that go to a database.
const ALL: usize = 5;
const FIRST: usize = 1;

fn nested(open: &str, levels: usize, close: &str) -> String {
    format!("{}1{}", open.repeat(levels), close.repeat(levels))
}

/// JSON at its extremes.
fn extremes() -> Vec<String> {
    let moments = [
        "10000-01-01T00:00:00Z",
        "+010000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "0000-00-00T00:00:00Z",
        "-009999-01-01T00:00:00Z",
        "2026-06-30T23:59:60Z",
        "2026-02-30T12:00:00Z",
        "9223372036854775807",
        "",
        "\u{0}",
        "💥\u{202e}",
    ];
    let raw = [
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        "1e400",
        "-1e400",
        "1e19",
        "9223372036854775807",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "253402300800000000",
        "[]",
        "{}",
        "[null]",
        "\"\\ud800\"",
    ];
    let mut all: Vec<String> = moments.map(|text| Value::from(text).to_string()).into();
    all.extend(raw.map(str::to_owned));
    all.push("9".repeat(400));
    all.push(Value::from("x".repeat(100_000)).to_string());
    all.extend([nested("[", 200, "]"), nested("[", 10_000, "]"), nested("{\"a\":", 200, "}")]);
    all.push(nested("{\"a\":", 10_000, "}"));
    all
}

/// The document, read for what requests may hold.
struct Described(Value);

/// A step on the way to a field.
#[derive(Debug, Clone)]
enum Step {
    Field(String),
    First,
}

impl Described {
    fn new() -> Self {
        Self(serde_json::to_value(document()).unwrap())
    }

    /// A schema without references; of several the first that is more than nothing.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(target) = schema["$ref"].as_str() {
            return self.resolve(self.0.pointer(&target[1..]).expect("it leads somewhere"));
        }
        let choices = ["oneOf", "anyOf", "allOf"].iter().find_map(|word| schema[*word].as_array());
        match choices.and_then(|all| all.iter().find(|one| one["type"] != "null")) {
            Some(first) => self.resolve(first),
            None => schema,
        }
    }

    /// Something that a schema allows, without what may be left out.
    fn sample(&self, schema: &Value) -> Value {
        let schema = self.resolve(schema);
        if let Some(example) = schema.get("example").or_else(|| schema["examples"].get(0)) {
            return example.clone();
        }
        if let Some(first) = schema["enum"].get(0) {
            return first.clone();
        }
        let kinds = [&schema["type"], &schema["type"][0]];
        let is = |kind: &str| kinds.iter().any(|known| **known == kind);
        if is("object") {
            let required = schema["required"].as_array().into_iter().flatten();
            let field = |name: &str| (name.to_owned(), self.sample(&schema["properties"][name]));
            return Value::Object(required.map(|name| field(name.as_str().unwrap())).collect::<Map<_, _>>());
        }
        match () {
            () if is("array") => json!([self.sample(&schema["items"])]),
            () if is("integer") || is("number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
            () if is("boolean") => json!(false),
            () if schema["format"] == "date-time" => json!("2026-11-15T09:30:00Z"),
            () => json!("abc"),
        }
    }

    /// The way to every field below a schema, with at most so many steps.
    fn ways(&self, schema: &Value, most: usize, way: &[Step], found: &mut Vec<Vec<Step>>) {
        if way.len() >= most {
            return;
        }
        if let Some(target) = schema["$ref"].as_str() {
            return self.ways(self.0.pointer(&target[1..]).expect("it leads somewhere"), most, way, found);
        }
        for choice in ["oneOf", "anyOf", "allOf"].iter().filter_map(|word| schema[*word].as_array()).flatten()
        {
            self.ways(choice, most, way, found);
        }
        let mut below = |step: Step, schema: &Value| {
            let way = [way, &[step]].concat();
            found.push(way.clone());
            self.ways(schema, most, &way, found);
        };
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            below(Step::Field(name.clone()), field);
        }
        if let Some(items) = schema.get("items") {
            below(Step::First, items);
        }
    }

    /// Method, path and what is said of each operation.
    fn operations(&self) -> Vec<(String, String, &Value)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        let all = paths.flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |one| (path, one)));
        all.map(|(path, (method, operation))| (method.to_uppercase(), path.clone(), operation)).collect()
    }

    /// The names of all fields that are moments.
    fn moments(&self) -> BTreeSet<String> {
        let schemas = self.0["components"]["schemas"].as_object().unwrap().values();
        let fields = schemas.flat_map(|schema| schema["properties"].as_object().into_iter().flatten());
        let moments = fields.filter(|(_, field)| self.resolve(field)["format"] == "date-time");
        moments.map(|(name, _)| name.clone()).collect()
    }
}

/// Puts a value at the end of a way, over whatever stands there.
fn put(body: &mut Value, way: &[Step], value: Value) {
    let Some((step, rest)) = way.split_first() else {
        *body = value;
        return;
    };
    let inner = match step {
        Step::Field(name) => {
            if !body.is_object() {
                *body = json!({});
            }
            &mut body[name.as_str()]
        }
        Step::First => {
            if body.as_array().is_none_or(Vec::is_empty) {
                *body = json!([null]);
            }
            &mut body[0]
        }
    };
    put(inner, rest, value);
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") })
        .collect()
}

fn filled(path: &str) -> String {
    let id = "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f";
    path.replace("{id}", id).replace("{name}", "mail").replace("{fingerprint}", "9f86d081884c7d65")
}

/// Answers and refusals are as the document says, whatever was asked.
struct Judge {
    moments: BTreeSet<String>,
    taken: usize,
    refused: usize,
}

impl Judge {
    fn new() -> Self {
        let moments = Described::new().moments();
        assert!(moments.contains("run_at") && moments.contains("now"), "{moments:?}");
        Self { moments, taken: 0, refused: 0 }
    }

    fn look(&mut self, what: &str, reply: &Reply) {
        let what = || format!("{what:.300}: {} {:.600}", reply.status, reply.text);
        assert!(reply.status.is_success() || reply.status.is_client_error(), "{}", what());
        if reply.status.is_client_error() {
            reply.code();
            self.refused += 1;
            return;
        }
        self.taken += 1;
        if reply.headers["content-type"] == "application/json" {
            self.moments_in(&reply.json(), &what);
        }
    }

    fn moments_in(&self, part: &Value, what: &impl Fn() -> String) {
        match part {
            Value::Array(items) => items.iter().for_each(|item| self.moments_in(item, what)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let Some(text) = value.as_str().filter(|_| self.moments.contains(name)) {
                        assert!(is_moment(text), "{name} is {text}, {}", what());
                    }
                    self.moments_in(value, what);
                }
            }
            _ => {}
        }
    }
}

/// RFC 3339 with four digits of a year, which is what `date-time` means.
fn is_moment(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.strip_prefix("0000-00-00T00:00:00").is_some_and(|rest| {
        rest == "Z" || rest.strip_prefix('.').is_some_and(|rest| rest.trim_start_matches('0') == "Z")
    })
}

async fn on(engine: Backstop) -> (Stage, String) {
    let mut settings = ServerSettings::default();
    settings.access.rate = None;
    let stage = Stage::on(engine, settings);
    let token = stage.token("extremes", &Scope::ALL).await;
    (stage, token)
}

/// Sends every extreme in every field, down to this depth, of the bodies that these paths take.
async fn fields(stage: &Stage, token: &str, judge: &mut Judge, depth: usize, takes: impl Fn(&str) -> bool) {
    let described = Described::new();
    for (method, path, operation) in described.operations() {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if schema.is_null() || !takes(&path) {
            continue;
        }
        let (target, base) = (filled(&path), described.sample(schema));
        let plain = stage.call_with(&method, &target, Some(token), &base.to_string()).await;
        judge.look(&format!("{method} {path} {base}"), &plain);
        // What the document makes of a body, its reader knows.
        let unknown = ["unknown field", "missing field"].iter().any(|words| plain.text.contains(words));
        assert!(!unknown, "{method} {path} {base}: {plain:?}");
        let mut ways = vec![Vec::new()];
        described.ways(schema, depth, &[], &mut ways);
        for way in ways {
            let mut holed = base.clone();
            put(&mut holed, &way, Value::from(HOLE));
            let holed = holed.to_string();
            for extreme in extremes() {
                let body = holed.replace(&format!("\"{HOLE}\""), &extreme);
                let reply = stage.call_with(&method, &target, Some(token), &body).await;
                judge.look(&format!("{method} {path} {way:?} {extreme:.60} {body:.400}"), &reply);
            }
        }
    }
    // What was taken is shown as the document says, too. Whether anybody leads maintenance is no matter here.
    let looks = described
        .operations()
        .into_iter()
        .filter(|(method, path, _)| method == "GET" && !path.contains("ready") && !path.contains("events"));
    for (method, path, _) in looks {
        let reply = stage.call(&method, &filled(&path), Some(token)).await;
        judge.look(&format!("{method} {path}"), &reply);
    }
}

/// Sends every extreme in every parameter of the operations on these paths.
async fn parameters(stage: &Stage, token: &str, judge: &mut Judge, takes: impl Fn(&str) -> bool) {
    let described = Described::new();
    for (method, path, operation) in described.operations().into_iter().filter(|(_, path, _)| takes(path)) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            for extreme in extremes() {
                let text = serde_json::from_str::<String>(&extreme).unwrap_or(extreme);
                // No client sends longer ones, and no server reads them.
                let text = encoded(&text.chars().take(2_000).collect::<String>());
                let target = match parameter["in"].as_str().unwrap() {
                    "path" => filled(&path.replace(&format!("{{{name}}}"), &text)),
                    "query" => format!("{}?{name}={text}", filled(&path)),
                    _ => continue,
                };
                let reply = stage.call(&method, &target, Some(token)).await;
                judge.look(&format!("{method} {target}"), &reply);
            }
        }
    }
}

// Time stands still, so that a long poll that is asked for is over at once.
#[tokio::test(start_paused = true)]
async fn extremes_are_taken_or_refused_in_the_one_shape() {
    // L20, E10
    let ((stage, token), mut judge) = (on(TokioClock::engine()).await, Judge::new());
    fields(&stage, &token, &mut judge, ALL, |_| true).await;
    assert!(judge.taken > 500 && judge.refused > 2_000, "{} taken, {} refused", judge.taken, judge.refused);
    let (taken, refused) = (judge.taken, judge.refused);
    parameters(&stage, &token, &mut judge, |_| true).await;
    let (taken, refused) = (judge.taken - taken, judge.refused - refused);
    assert!(taken > 200 && refused > 1_000, "{taken} taken, {refused} refused");
}

/// What comes near the database's own types; the door is the same for all of them.
async fn takes(url: String) {
    let engine = Backstop::open(&url).await.unwrap();
    let ((stage, token), mut judge) = (on(engine).await, Judge::new());
    let bodies = ["/api/v1/jobs", "/api/v1/archive/prune"];
    fields(&stage, &token, &mut judge, FIRST, |path| bodies.contains(&path)).await;
    let lists = ["/api/v1/dead-letters", "/api/v1/incidents"];
    parameters(&stage, &token, &mut judge, |path| lists.contains(&path)).await;
    assert!(judge.taken > 300, "{} taken, {} refused", judge.taken, judge.refused);
}

#[tokio::test]
async fn databases_take_what_the_door_lets_in() {
    // L20
    let label = format!("extremes_{}", std::process::id());
    let folder = Folder::new(&label).unwrap();
    let (server, _) = shared::mariadb().rsplit_once('/').unwrap();
    let mut mariadb = Conn::new(Opts::from_url(shared::mariadb()).unwrap()).await.unwrap();
    mariadb.query_drop(format!("CREATE DATABASE {label}")).await.unwrap();
    let sqlite = format!("sqlite:{}", folder.join("jobs.db").display());
    let postgres = format!("{}?schema={label}&listen=off&connections=2", shared::postgres());
    tokio::join!(takes(sqlite), takes(postgres), takes(format!("{server}/{label}")));
    mariadb.query_drop(format!("DROP DATABASE {label}")).await.unwrap();
    mariadb.disconnect().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waits_without_end_end_with_the_calendar() {
    // L20
    let (stage, token) = on(TokioClock::engine()).await;
    for (outcome, field) in
        [("snoozed", "delay_ms"), ("rate_limited", "retry_in_ms"), ("failed", "retry_in_ms")]
    {
        let job = stage.call_with("POST", "/api/v1/jobs", Some(&token), r#"{"kind":"mail"}"#).await.json();
        let ask = r#"{"worker":"w","queues":["default"],"kinds":["mail"]}"#;
        let claimed = stage.call_with("POST", "/api/v1/work/claim", Some(&token), ask).await.json();
        let mut end = json!({ "type": outcome, field: u64::MAX });
        if outcome == "failed" {
            end["class"] = json!("error");
            end["message"] = json!("it rains");
        }
        let results =
            json!({ "results": [{ "lease": claimed["jobs"][0]["lease"]["token"], "outcome": end }] });
        let ended = stage.call_with("POST", "/api/v1/work/finish", Some(&token), &results.to_string()).await;
        assert_eq!(ended.json()["results"][0]["ok"], true, "{outcome}: {ended:?}");
        let shown =
            stage.call("GET", &format!("/api/v1/jobs/{}", job["id"].as_str().unwrap()), Some(&token)).await;
        let shown = shown.json();
        assert!(is_moment(shown["run_at"].as_str().unwrap()), "{outcome}: {}", shown["run_at"]);
        assert_eq!(shown["status"], "pending", "{outcome}");
    }
}
