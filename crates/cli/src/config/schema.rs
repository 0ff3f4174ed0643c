//! Every key of `backstop.toml`, by name. A key that is not here is a typing error.

/// What a key holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// A table with these keys.
    Section(&'static [Key]),
    /// A table of tables: any name, each with these keys.
    Named(&'static [Key]),
    /// A plain value.
    Value(Kind),
    /// Anything: a later version settles what, or whoever reads it does.
    Open,
}

/// What a plain value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A whole number from zero.
    Count,
    /// True or false.
    Flag,
    /// A duration as a string: `"30s"`.
    Span,
    /// A duration as a string, or `"forever"`.
    Keep,
    /// A duration as whole milliseconds.
    Millis,
    /// A list of strings.
    Texts,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A jitter: a word or a percentage.
    Jitter,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it holds.
    pub(crate) shape: Shape,
    /// False when this version reads it and does nothing with it.
    pub(crate) used: bool,
    /// True when its value is never shown.
    pub(crate) secret: bool,
}

const fn key(name: &'static str, shape: Shape) -> Key {
    Key { name, shape, used: true, secret: false }
}

const fn value(name: &'static str, kind: Kind) -> Key {
    key(name, Shape::Value(kind))
}

const fn secret(name: &'static str, kind: Kind) -> Key {
    Key { name, shape: Shape::Value(kind), used: true, secret: true }
}

const RETRY: Shape = Shape::Section(&[
    value("max_retries", Kind::Count),
    value("max_crashes", Kind::Count),
    value("backoff", Kind::Word(&["none", "fixed", "linear", "exponential"])),
    value("base", Kind::Span),
    value("base_ms", Kind::Millis),
    value("cap", Kind::Span),
    value("cap_ms", Kind::Millis),
    value("jitter", Kind::Jitter),
]);

const QUEUE: &[Key] = &[
    value("concurrency", Kind::Count),
    value("kinds", Kind::Texts),
    value("prefetch", Kind::Count),
    key("retry", RETRY),
    value("timeout", Kind::Span),
    value("timeout_ms", Kind::Millis),
    value("max_wait", Kind::Span),
    value("max_wait_ms", Kind::Millis),
    value("delay", Kind::Span),
    value("delay_ms", Kind::Millis),
    value("expires_in", Kind::Span),
    value("expires_in_ms", Kind::Millis),
    value("unknown_kind", Kind::Word(&["wait", "fail"])),
];

const KIND: &[Key] = &[
    key("retry", RETRY),
    value("timeout", Kind::Span),
    value("timeout_ms", Kind::Millis),
    value("max_wait", Kind::Span),
    value("max_wait_ms", Kind::Millis),
    value("delay", Kind::Span),
    value("delay_ms", Kind::Millis),
    value("expires_in", Kind::Span),
    value("expires_in_ms", Kind::Millis),
    key("retry_budget", RETRY_BUDGET),
];

const RETRY_BUDGET: Shape = Shape::Section(&[
    value("enabled", Kind::Flag),
    value("percent", Kind::Count),
    value("floor", Kind::Count),
]);

/// Bounds on everything (L20).
const LIMITS: &[Key] = &[
    value("payload_bytes", Kind::Count),
    value("result_bytes", Kind::Count),
    value("params_bytes", Kind::Count),
    value("output_bytes", Kind::Count),
    value("error_chars", Kind::Count),
    value("name_chars", Kind::Count),
    value("key_chars", Kind::Count),
    value("tags", Kind::Count),
    value("tag_chars", Kind::Count),
    value("batch", Kind::Count),
    value("page", Kind::Count),
    value("retries", Kind::Count),
    value("delay", Kind::Span),
    value("delay_ms", Kind::Millis),
    value("queues_per_tenant", Kind::Count),
    value("kinds_per_tenant", Kind::Count),
    value("incidents_per_tenant", Kind::Count),
];

const COMMAND: &[Key] = &[
    key("allow", Shape::Open),
    value("dir", Kind::Text),
    value("dirs", Kind::Texts),
    value("env", Kind::Texts),
    value("keep_env", Kind::Texts),
    value("timeout", Kind::Span),
    value("timeout_ms", Kind::Millis),
    value("grace", Kind::Span),
    value("grace_ms", Kind::Millis),
    value("user", Kind::Count),
    value("group", Kind::Count),
    value("memory_bytes", Kind::Count),
    value("cpu_seconds", Kind::Count),
    value("open_files", Kind::Count),
    value("file_bytes", Kind::Count),
    value("processes", Kind::Count),
];

const HTTP: &[Key] = &[
    value("allow_private", Kind::Flag),
    value("allow", Kind::Texts),
    key("ports", Shape::Open),
    value("methods", Kind::Texts),
    value("redirects", Kind::Count),
    value("redirects_carry", Kind::Flag),
    value("timeout", Kind::Span),
    value("timeout_ms", Kind::Millis),
    value("connect_timeout", Kind::Span),
    value("connect_timeout_ms", Kind::Millis),
    Key { name: "secrets", shape: Shape::Open, used: true, secret: true },
];

const HANDLERS: &[Key] = &[
    key("command", Shape::Section(COMMAND)),
    key("http", Shape::Section(HTTP)),
    key("event", Shape::Section(&[value("allow", Kind::Texts)])),
];

const SERVER: &[Key] = &[
    value("node", Kind::Text),
    value("listen", Kind::Text),
    Key { name: "tokens", shape: Shape::Open, used: true, secret: true },
    value("tls_cert", Kind::Text),
    value("tls_key", Kind::Text),
    value("allowed_hosts", Kind::Texts),
    value("allowed_origins", Kind::Texts),
    value("trusted_proxies", Kind::Texts),
    value("rate_per_second", Kind::Count),
    value("rate_burst", Kind::Count),
    value("failed_logins_per_minute", Kind::Count),
    value("max_connections", Kind::Count),
    value("max_requests", Kind::Count),
    value("max_streams", Kind::Count),
    value("max_streams_per_token", Kind::Count),
    value("max_streams_per_tenant", Kind::Count),
    value("max_claims", Kind::Count),
    value("max_claims_per_token", Kind::Count),
    value("max_claims_per_tenant", Kind::Count),
    value("audit_retention", Kind::Keep),
];

const WEBHOOKS: &[Key] =
    &[value("allow_private", Kind::Flag), value("allow", Kind::Texts), key("ports", Shape::Open)];

/// The key that a path leads to; none for an unknown one, and for a table.
pub(crate) fn find(path: &[&str]) -> Option<&'static Key> {
    fn below(keys: &'static [Key], path: &[&str]) -> Option<&'static Key> {
        let (first, rest) = path.split_first()?;
        let key = keys.iter().find(|key| key.name == *first)?;
        match (key.shape, rest) {
            (Shape::Section(keys), rest) => below(keys, rest),
            (Shape::Named(keys), [_, rest @ ..]) => below(keys, rest),
            (Shape::Value(_) | Shape::Open, []) => Some(key),
            _ => None,
        }
    }
    below(FILE, path)
}

/// The whole file.
pub(crate) const FILE: &[Key] = &[
    key("store", Shape::Section(&[value("url", Kind::Text)])),
    key("server", Shape::Section(SERVER)),
    key("webhooks", Shape::Section(WEBHOOKS)),
    key("queues", Shape::Named(QUEUE)),
    key("kinds", Shape::Named(KIND)),
    key("handlers", Shape::Section(HANDLERS)),
    key(
        "signing",
        Shape::Section(&[
            secret("keys", Kind::Texts),
            value("required", Kind::Flag),
            key("queues", Shape::Named(&[value("required", Kind::Flag)])),
        ]),
    ),
    key("encryption", Shape::Section(&[secret("keys", Kind::Texts), value("kinds", Kind::Texts)])),
    key("masking", Shape::Named(&[value("fields", Kind::Texts)])),
    key("sanitize", Shape::Section(&[value("patterns", Kind::Texts)])),
    key("retry_budget", RETRY_BUDGET),
    key("limits", Shape::Section(LIMITS)),
    key(
        "retention",
        Shape::Section(&[
            value("succeeded", Kind::Span),
            value("canceled", Kind::Span),
            value("failed", Kind::Span),
            value("archive", Kind::Span),
            value("plans", Kind::Keep),
            value("incidents", Kind::Keep),
            value("queues", Kind::Keep),
        ]),
    ),
    key(
        "alerts",
        Shape::Section(&[
            secret("webhook", Kind::Text),
            secret("secrets", Kind::Texts),
            value("gap", Kind::Span),
            value("gap_ms", Kind::Millis),
            value("log", Kind::Flag),
        ]),
    ),
    key("telemetry", Shape::Section(&[value("otlp_endpoint", Kind::Text)])),
    key(
        "workers",
        Shape::Section(&[
            value("lease", Kind::Span),
            value("lease_ms", Kind::Millis),
            value("grace", Kind::Span),
            value("grace_ms", Kind::Millis),
            value("poll", Kind::Span),
            value("poll_ms", Kind::Millis),
            value("stuck_after", Kind::Span),
            value("stuck_after_ms", Kind::Millis),
            value("aging", Kind::Span),
            value("aging_ms", Kind::Millis),
        ]),
    ),
];
