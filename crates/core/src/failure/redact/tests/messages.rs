//! Generates ordinary error messages: many languages, databases, brokers and tools, with ids, digests, numbers,
//! hosts and paths, and no secret.
//!
//! Half of them use the words that announce secrets ("token", "password", "key", "secret"), for those are the
//! ones that a careless redactor would damage.

use super::{ALNUM, DIGITS, HEX, LOWER, Lcg, UPPER_NUM};

/// One shape of message each.
pub(super) const ORDINARY: &[fn(&mut Lcg) -> String] = &[
    // Ids and digests.
    |g| format!("job {} failed after {} attempts", uuid(g), g.below(20)),
    |g| format!("digest mismatch: expected {}, got {}", g.string(HEX, 64), g.string(HEX, 64)),
    |g| format!("checkout of {} failed at {}", g.string(HEX, 40), g.string(HEX, 7)),
    |g| format!("md5 {} of part {} does not match", g.string(HEX, 32), g.below(900)),
    |g| format!("trace_id={} span_id={} queue={}", g.string(HEX, 32), g.string(HEX, 16), noun(g)),
    |g| format!("traceparent 00-{}-{}-01 dropped", g.string(HEX, 32), g.string(HEX, 16)),
    |g| format!("snowflake 1{} has no shard, offset {}", g.string(DIGITS, 17), number(g)),
    |g| format!("ulid 01{} is older than its parent", g.string(UPPER_NUM, 24)),
    |g| format!("RequestId: {}, HostId: {}", g.string(UPPER_NUM, 16), g.string(ALNUM, 56)),
    |g| format!("event at 17{} is older than 17{}", g.string(DIGITS, 11), g.string(DIGITS, 11)),
    |g| format!("order number {} is not known", g.string(DIGITS, 16)),
    |g| {
        format!("image registry.example/{}:1.{}@sha256:{} not found", noun(g), g.below(99), g.string(HEX, 64))
    },
    |g| format!("ETag \"{}-{}\" changed during upload", g.string(HEX, 32), g.below(40)),
    // Hosts and networks.
    |g| format!("connect to 10.{}.{}.7:{} refused (os error 111)", g.below(256), g.below(256), port(g)),
    |g| format!("dial tcp [2001:db8::{}]:{}: i/o timeout", g.string("123456789abcdef", 3), port(g)),
    |g| format!("getaddrinfo ENOTFOUND {}-{}.eu-west-1.internal", noun(g), g.below(30)),
    |g| format!("lookup {}.{}.svc.cluster.local on 10.0.0.2:53: no such host", noun(g), g.string(LOWER, 6)),
    |g| format!("x509: certificate is valid for *.{}.example, not {}.example", g.string(LOWER, 5), noun(g)),
    |g| {
        format!(
            "GET https://api.example.com/v1/{}/{}?page={}&sort=asc returned {}",
            noun(g),
            number(g),
            g.below(50),
            status(g)
        )
    },
    |g| {
        format!(
            "error sending request for url (https://{}.example/v2/{}): operation timed out",
            noun(g),
            uuid(g)
        )
    },
    |g| {
        format!(
            "HTTPSConnectionPool(host='{}.example', port={}): Read timed out. (read timeout={})",
            noun(g),
            port(g),
            g.below(60)
        )
    },
    |g| format!("upstream answered {} Too Many Requests, retry-after: {}", status(g), g.below(600)),
    |g| format!("rpc error: code = {} desc = {} {} was not found", g.pick(GRPC), noun(g), number(g)),
    // PostgreSQL, MySQL, SQLite, Oracle, SQL Server, MongoDB, Redis.
    |g| {
        format!(
            "duplicate key value violates unique constraint \"{}_pkey\": Key (id)=({}) already exists",
            noun(g),
            number(g)
        )
    },
    |g| {
        format!(
            "ERROR: deadlock detected (SQLSTATE 40P01) Process {} waits for ShareLock on transaction {}",
            number(g),
            number(g)
        )
    },
    |g| format!("password authentication failed for user \"{}\"", noun(g)),
    |g| {
        format!(
            "ERROR: null value in column \"{}\" of relation \"{}\" violates not-null constraint",
            g.pick(WORDS),
            noun(g)
        )
    },
    |g| format!("UPDATE {} SET {} = ${} WHERE id = $2", noun(g), g.pick(WORDS), 1 + g.below(9)),
    |g| format!("SQLSTATE[23000]: 1062 Duplicate entry '{}' for key '{}.PRIMARY'", number(g), noun(g)),
    |g| {
        format!(
            "Access denied for user '{}'@'10.0.{}.{}' (using password: YES)",
            noun(g),
            g.below(256),
            g.below(256)
        )
    },
    |g| format!("UNIQUE constraint failed: {}.{}", noun(g), g.pick(WORDS)),
    |g| format!("ORA-0{}: invalid username/password; logon denied", 1000 + g.below(9000)),
    |g| {
        format!(
            "Login failed for user '{}'. Reason: Password did not match that for the login provided.",
            noun(g)
        )
    },
    |g| {
        format!(
            "E11000 duplicate key error collection: app.{} index: _id_ dup key: {{ _id: ObjectId('{}') }}",
            noun(g),
            g.string(HEX, 24)
        )
    },
    |g| format!("MOVED {} 10.0.{}.{}:6379", g.below(16_384), g.below(256), g.below(256)),
    |g| format!("Offset {} out of range for partition {}-{}", number(g), noun(g), g.below(64)),
    // Languages and their stack traces.
    |g| {
        format!(
            "thread 'main' panicked at src/{}.rs:{}:{}:\ncalled `Option::unwrap()` on a `None` value",
            noun(g),
            g.below(900),
            g.below(80)
        )
    },
    |g| {
        format!(
            "java.lang.IllegalStateException: {} {} is closed\n\tat com.acme.{}.Run.go(Run.java:{})\n\t... {} more",
            noun(g),
            number(g),
            noun(g),
            g.below(900),
            g.below(40)
        )
    },
    |g| {
        format!(
            "Traceback (most recent call last):\n  File \"/srv/{}.py\", line {}, in run\n    {} = rows[{}]\nIndexError: list index out of range",
            noun(g),
            g.below(900),
            g.pick(WORDS),
            g.below(9)
        )
    },
    |g| format!("KeyError: '{}'", g.pick(WORDS)),
    |g| {
        format!(
            "TypeError: Cannot read properties of undefined (reading '{}')\n    at run (/srv/app/{}.js:{}:{})",
            g.pick(WORDS),
            noun(g),
            g.below(900),
            g.below(80)
        )
    },
    |g| {
        format!(
            "panic: runtime error: index out of range [{}] with length 3\n\ngoroutine {} [running]:\nmain.run(0xc{})\n\t/src/{}.go:{} +0x1d",
            g.below(90),
            g.below(900),
            g.string(HEX, 9),
            noun(g),
            g.below(900)
        )
    },
    |g| {
        format!(
            "System.NullReferenceException: Object reference not set.\n   at Acme.{}.Run() in C:\\src\\{}.cs:line {}",
            noun(g),
            noun(g),
            g.below(900)
        )
    },
    |g| {
        format!(
            "PHP Fatal error:  Uncaught TypeError: {}(): Argument #1 (${}) must be of type string, null given in /srv/a.php:{}",
            noun(g),
            g.pick(WORDS),
            g.below(900)
        )
    },
    |g| format!("undefined method `{}' for nil:NilClass (NoMethodError)", g.pick(WORDS)),
    |g| format!("com.acme.{}@{} cannot be cast to class com.acme.Invoice", noun(g), g.string(HEX, 8)),
    |g| format!("missing field `{}` at line {} column {}", g.pick(WORDS), g.below(90), g.below(90)),
    |g| {
        format!(
            "unexpected token: {} in JSON at position {}",
            g.pick(&["}", "<", "u", "EOF", "null"]),
            number(g)
        )
    },
    |g| {
        format!(
            "SyntaxError: Unexpected token '{}', \"<!DOCTYPE \"... is not valid JSON",
            g.pick(&["<", "H", "o"])
        )
    },
    // Tools, clusters, mail, times.
    |g| {
        format!(
            "npm ERR! {}@{}.{}.{}-rc.{} is missing",
            noun(g),
            g.below(20),
            g.below(20),
            g.below(20),
            g.below(9)
        )
    },
    |g| {
        format!(
            "/go/pkg/mod/example.org/{}@v0.{}.{}/transport.go:{}",
            noun(g),
            g.below(40),
            g.below(9),
            g.below(900)
        )
    },
    |g| {
        format!(
            "pod {}-{}-{} was evicted: memory {}Ki",
            noun(g),
            g.string(HEX, 9),
            g.string(LOWER, 5),
            number(g)
        )
    },
    |g| {
        format!(
            "/srv/app/releases/{}/src/{}.rs:{}:{}: panicked",
            g.string(DIGITS, 14),
            noun(g),
            g.below(900),
            g.below(80)
        )
    },
    |g| format!("Signal {} after {} ms, exit code {}", g.below(32), number(g), g.below(255)),
    |g| format!("{} of {} is full ({}.{}.{} mailbox limit)", g.below(90), noun(g), 4, g.below(9), g.below(9)),
    |g| {
        format!(
            "2024-0{}-1{} 12:{}:0{}.{} ERROR deadlock on {}",
            1 + g.below(9),
            g.below(10),
            10 + g.below(50),
            g.below(10),
            number(g),
            noun(g)
        )
    },
    |g| format!("lag 0.{} on partition {} of {}-{}", g.string(DIGITS, 16), g.below(64), noun(g), g.below(9)),
    |g| {
        format!(
            "token expired {} seconds ago; secret {} version {} unchanged",
            number(g),
            noun(g),
            g.below(9)
        )
    },
    |g| format!("{}: {}", g.pick(SUBJECTS), g.pick(REMARKS)),
    |g| {
        format!(
            "Rate limit reached: max_tokens={}, total_tokens: {}, token_type=bearer",
            number(g),
            number(g)
        )
    },
    |g| format!("secret \"{}-{}\" not found in namespace \"{}\"", noun(g), g.pick(WORDS), noun(g)),
    // Other languages of people.
    |g| format!("nie znaleziono pliku „{}-{}.pdf” w katalogu /dane", noun(g), number(g)),
    |g| {
        format!(
            "Verbindung zu {}.intern:{} abgelehnt: Zeitüberschreitung nach {} s",
            noun(g),
            port(g),
            g.below(90)
        )
    },
    |g| {
        format!(
            "connexion refusée par l'hôte {}.interne (port {}) : le mot de passe a expiré",
            noun(g),
            port(g)
        )
    },
    |g| format!("ошибка: таблица «{}» не найдена (строка {})", noun(g), number(g)),
    |g| format!("接続がタイムアウトしました: {}.internal:{}", noun(g), port(g)),
    |g| format!("la contraseña del usuario {} caducó hace {} días", noun(g), g.below(90)),
];

const NOUNS: &[&str] =
    &["orders", "invoices", "users", "emails", "exports", "sessions", "tokens", "mailer", "vault"];
const WORDS: &[&str] =
    &["token", "password", "secret", "api_key", "amount", "email", "created_at", "credentials"];
const GRPC: &[&str] = &["Unavailable", "NotFound", "Unauthenticated", "PermissionDenied"];
const SUBJECTS: &[&str] =
    &["invalid token", "password", "api key", "secret", "authorization", "cookie", "credentials", "private"];
const REMARKS: &[&str] = &[
    "must be at least 12 characters long",
    "is missing",
    "not provided",
    "the file is empty",
    "denied by policy",
    "expired",
    "signature mismatch",
    "required",
];

fn noun(lcg: &mut Lcg) -> &'static str {
    lcg.pick(NOUNS)
}

fn number(lcg: &mut Lcg) -> usize {
    lcg.below(1_000_000)
}

fn port(lcg: &mut Lcg) -> usize {
    1024 + lcg.below(60_000)
}

fn status(lcg: &mut Lcg) -> usize {
    400 + lcg.below(120)
}

/// A random UUID in its usual spelling.
pub(super) fn uuid(lcg: &mut Lcg) -> String {
    let parts: Vec<String> = [8, 4, 4, 4, 12].into_iter().map(|length| lcg.string(HEX, length)).collect();
    parts.join("-")
}
