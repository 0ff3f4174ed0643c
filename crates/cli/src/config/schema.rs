//! Every key of `backstop.toml`, by name. A key that is not here is a typing error.

/// What a key holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyShape {
    /// A table with these keys.
    Section(&'static [ConfigKey]),
    /// A table of tables: any name, each with these keys.
    Named(&'static [ConfigKey]),
    /// A table with these keys, and beside them any name, each with the second ones.
    SectionAndNamed(&'static [ConfigKey], &'static [ConfigKey]),
    /// A plain value.
    Value(ValueKind),
    /// Anything: a later version settles what, or whoever reads it does.
    Open,
}

/// What a plain value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// A string.
    Text,
    /// A whole number from zero.
    Count,
    /// A number from 0 to 100, with decimals.
    Percent,
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
    /// A number, or a range as a string: `"1..8"`.
    Range,
    /// So many in a time, as a string: `"100/1m"`.
    Rate,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigKey {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it holds.
    pub(crate) shape: KeyShape,
    /// False when this version reads it and does nothing with it.
    pub(crate) used: bool,
    /// True when its value is never shown.
    pub(crate) secret: bool,
}

const fn key(name: &'static str, shape: KeyShape) -> ConfigKey {
    ConfigKey { name, shape, used: true, secret: false }
}

const fn value(name: &'static str, kind: ValueKind) -> ConfigKey {
    key(name, KeyShape::Value(kind))
}

const fn secret(name: &'static str, kind: ValueKind) -> ConfigKey {
    ConfigKey { name, shape: KeyShape::Value(kind), used: true, secret: true }
}

const RETRY: KeyShape = KeyShape::Section(&[
    value("max_retries", ValueKind::Count),
    value("max_crashes", ValueKind::Count),
    value("backoff", ValueKind::Word(&["none", "fixed", "linear", "exponential"])),
    value("base", ValueKind::Span),
    value("base_ms", ValueKind::Millis),
    value("cap", ValueKind::Span),
    value("cap_ms", ValueKind::Millis),
    value("jitter", ValueKind::Jitter),
]);

const QUEUE: &[ConfigKey] = &[
    value("concurrency", ValueKind::Count),
    value("kinds", ValueKind::Texts),
    value("prefetch", ValueKind::Count),
    key("retry", RETRY),
    value("timeout", ValueKind::Span),
    value("timeout_ms", ValueKind::Millis),
    value("max_wait", ValueKind::Span),
    value("max_wait_ms", ValueKind::Millis),
    value("max_deferral", ValueKind::Span),
    value("max_deferral_ms", ValueKind::Millis),
    value("delay", ValueKind::Span),
    value("delay_ms", ValueKind::Millis),
    value("expires_in", ValueKind::Span),
    value("expires_in_ms", ValueKind::Millis),
    value("unknown_kind", ValueKind::Word(&["wait", "fail"])),
    value("max_depth", ValueKind::Count),
    value("rate", ValueKind::Rate),
];

const KIND: &[ConfigKey] = &[
    key("retry", RETRY),
    value("timeout", ValueKind::Span),
    value("timeout_ms", ValueKind::Millis),
    value("max_wait", ValueKind::Span),
    value("max_wait_ms", ValueKind::Millis),
    value("max_deferral", ValueKind::Span),
    value("max_deferral_ms", ValueKind::Millis),
    value("delay", ValueKind::Span),
    value("delay_ms", ValueKind::Millis),
    value("expires_in", ValueKind::Span),
    value("expires_in_ms", ValueKind::Millis),
    key("retry_budget", RETRY_BUDGET),
    value("isolate", ValueKind::Word(&["never", "always", "after_crash"])),
    value("memory_limit", ValueKind::Text),
    value("cpu_limit", ValueKind::Span),
    value("dependency", ValueKind::Text),
    value("dependency_from", ValueKind::Text),
    value("max_rejects", ValueKind::Count),
    value("max_reject_percent", ValueKind::Percent),
];

const DEPENDENCY: &[ConfigKey] = &[value("check", ValueKind::Text), value("every", ValueKind::Span)];

const RETRY_BUDGET: KeyShape = KeyShape::Section(&[
    value("enabled", ValueKind::Flag),
    value("percent", ValueKind::Count),
    value("floor", ValueKind::Count),
]);

/// Bounds on everything (L20).
const LIMITS: &[ConfigKey] = &[
    value("payload_bytes", ValueKind::Count),
    value("result_bytes", ValueKind::Count),
    value("params_bytes", ValueKind::Count),
    value("output_bytes", ValueKind::Count),
    value("error_chars", ValueKind::Count),
    value("name_chars", ValueKind::Count),
    value("key_chars", ValueKind::Count),
    value("tags", ValueKind::Count),
    value("tag_chars", ValueKind::Count),
    value("batch", ValueKind::Count),
    value("page", ValueKind::Count),
    value("retries", ValueKind::Count),
    value("delay", ValueKind::Span),
    value("delay_ms", ValueKind::Millis),
    value("queues_per_tenant", ValueKind::Count),
    value("kinds_per_tenant", ValueKind::Count),
    value("incidents_per_tenant", ValueKind::Count),
    value("max_depth_per_tenant", ValueKind::Count),
];

/// When the circuit of a dependency opens and closes (H3).
const CIRCUIT: &[ConfigKey] = &[
    value("window", ValueKind::Span),
    value("window_ms", ValueKind::Millis),
    value("failure_rate", ValueKind::Count),
    value("min_calls", ValueKind::Count),
    value("open", ValueKind::Span),
    value("open_ms", ValueKind::Millis),
    value("probes", ValueKind::Count),
    value("slow_start", ValueKind::Span),
    value("slow_start_ms", ValueKind::Millis),
];

/// A job that is submitted again and again (W11).
const SCHEDULE: &[ConfigKey] = &[
    value("cron", ValueKind::Text),
    value("every", ValueKind::Span),
    value("time_zone", ValueKind::Text),
    value("misfire", ValueKind::Text),
    value("overlap", ValueKind::Word(&["allow", "skip", "queue"])),
    value("paused", ValueKind::Flag),
    value("kind", ValueKind::Text),
    key("payload", KeyShape::Open),
    value("queue", ValueKind::Text),
    value("priority", ValueKind::Word(&["lowest", "low", "normal", "high", "critical"])),
    value("version", ValueKind::Count),
    value("delay", ValueKind::Span),
    value("max_retries", ValueKind::Count),
    value("max_crashes", ValueKind::Count),
    value("timeout", ValueKind::Span),
    value("expires_in", ValueKind::Span),
    value("max_wait", ValueKind::Span),
    value("max_deferral", ValueKind::Span),
    value("business_key", ValueKind::Text),
    value("on_conflict", ValueKind::Word(&["reject", "skip", "replace"])),
    value("ordering_key", ValueKind::Text),
    value("limit_key", ValueKind::Text),
    value("single_instance", ValueKind::Text),
    key("permits", KeyShape::Open),
    value("dependency", ValueKind::Text),
    value("tags", ValueKind::Texts),
    key("params", KeyShape::Open),
    value("correlation_id", ValueKind::Text),
];

/// How runs are limited, over all workers (H5).
const RUN_LIMIT: &[ConfigKey] = &[
    value("queue", ValueKind::Text),
    value("kind", ValueKind::Text),
    value("by", ValueKind::Word(&["all", "key"])),
    value("concurrency", ValueKind::Count),
    value("rate", ValueKind::Rate),
    value("permits", ValueKind::Count),
];

const COMMAND: &[ConfigKey] = &[
    key("allow", KeyShape::Open),
    value("dir", ValueKind::Text),
    value("dirs", ValueKind::Texts),
    value("env", ValueKind::Texts),
    value("keep_env", ValueKind::Texts),
    value("timeout", ValueKind::Span),
    value("timeout_ms", ValueKind::Millis),
    value("grace", ValueKind::Span),
    value("grace_ms", ValueKind::Millis),
    value("user", ValueKind::Count),
    value("group", ValueKind::Count),
    value("memory_bytes", ValueKind::Count),
    value("cpu_seconds", ValueKind::Count),
    value("open_files", ValueKind::Count),
    value("file_bytes", ValueKind::Count),
    value("processes", ValueKind::Count),
];

const HTTP: &[ConfigKey] = &[
    value("allow_private", ValueKind::Flag),
    value("allow", ValueKind::Texts),
    key("ports", KeyShape::Open),
    value("methods", ValueKind::Texts),
    value("redirects", ValueKind::Count),
    value("redirects_carry", ValueKind::Flag),
    value("timeout", ValueKind::Span),
    value("timeout_ms", ValueKind::Millis),
    value("connect_timeout", ValueKind::Span),
    value("connect_timeout_ms", ValueKind::Millis),
    ConfigKey { name: "secrets", shape: KeyShape::Open, used: true, secret: true },
];

const REJECTS: &[ConfigKey] = &[
    value("sink", ValueKind::Word(&["store", "log"])),
    value("on_sink_failure", ValueKind::Word(&["fail", "continue"])),
    value("keep_items", ValueKind::Flag),
    value("max_rejects", ValueKind::Count),
    value("max_reject_percent", ValueKind::Percent),
];

const CAF: &[ConfigKey] = &[
    value("retry_limit", ValueKind::Count),
    value("retry_queue", ValueKind::Text),
    value("reject_queue", ValueKind::Text),
    value("paused_queue", ValueKind::Text),
    value("invalid_queue", ValueKind::Text),
    value("check_diverted", ValueKind::Flag),
    value("queue_type", ValueKind::Word(&["quorum", "classic"])),
    value("max_priority", ValueKind::Count),
    value("worker_name", ValueKind::Text),
    value("worker_version", ValueKind::Text),
    value("status_hosts", ValueKind::Texts),
    value("disable_zero_progress", ValueKind::Flag),
];

const BRIDGE: &[ConfigKey] = &[
    secret("broker", ValueKind::Text),
    value("profile", ValueKind::Word(&["plain", "caf", "daycry"])),
    value("plaintext", ValueKind::Flag),
    value("tls_ca", ValueKind::Text),
    value("region", ValueKind::Text),
    secret("access_key", ValueKind::Text),
    secret("secret_key", ValueKind::Text),
    secret("session_token", ValueKind::Text),
    key("caf", KeyShape::Section(CAF)),
    key(
        "daycry",
        KeyShape::Section(&[
            secret("signing_keys", ValueKind::Texts),
            value("unsigned", ValueKind::Flag),
            value("lists", ValueKind::Flag),
            key("handlers", KeyShape::Open),
        ]),
    ),
    key(
        "source",
        KeyShape::Section(&[
            value("queue", ValueKind::Text),
            value("kind", ValueKind::Text),
            value("to_queue", ValueKind::Text),
            value("id", ValueKind::Text),
            value("prefetch", ValueKind::Count),
            value("concurrency", ValueKind::Count),
            value("consumer", ValueKind::Text),
            value("hold", ValueKind::Span),
            value("body_field", ValueKind::Text),
            value("dead_letters", ValueKind::Text),
        ]),
    ),
    key(
        "sink",
        KeyShape::Section(&[
            value("queue", ValueKind::Text),
            value("exchange", ValueKind::Text),
            value("routing_key", ValueKind::Text),
            value("of", ValueKind::Texts),
            value("kinds", ValueKind::Texts),
            value("most_rows", ValueKind::Count),
            value("most_bytes", ValueKind::Count),
            value("body_field", ValueKind::Text),
        ]),
    ),
];

const HANDOFF: &[ConfigKey] = &[
    secret("to", ValueKind::Text),
    secret("token", ValueKind::Text),
    value("kinds", ValueKind::Texts),
    value("key", ValueKind::Texts),
    value("tenant", ValueKind::Text),
    value("kind", ValueKind::Text),
    value("queue", ValueKind::Text),
    secret("secrets", ValueKind::Texts),
    value("plaintext", ValueKind::Flag),
    value("tls_ca", ValueKind::Text),
];

const HANDLERS: &[ConfigKey] = &[
    key("command", KeyShape::Section(COMMAND)),
    key("http", KeyShape::Section(HTTP)),
    key("event", KeyShape::Section(&[value("allow", ValueKind::Texts)])),
    key("publish", KeyShape::Section(&[value("allow", ValueKind::Texts)])),
];

const SERVER: &[ConfigKey] = &[
    value("node", ValueKind::Text),
    value("listen", ValueKind::Text),
    value("public_url", ValueKind::Text),
    ConfigKey { name: "tokens", shape: KeyShape::Open, used: true, secret: true },
    value("tls_cert", ValueKind::Text),
    value("tls_key", ValueKind::Text),
    value("allowed_hosts", ValueKind::Texts),
    value("allowed_origins", ValueKind::Texts),
    value("trusted_proxies", ValueKind::Texts),
    value("rate_per_second", ValueKind::Count),
    value("rate_burst", ValueKind::Count),
    value("failed_logins_per_minute", ValueKind::Count),
    value("max_connections", ValueKind::Count),
    value("max_requests", ValueKind::Count),
    value("max_streams", ValueKind::Count),
    value("max_streams_per_token", ValueKind::Count),
    value("max_streams_per_tenant", ValueKind::Count),
    value("max_claims", ValueKind::Count),
    value("max_claims_per_token", ValueKind::Count),
    value("max_claims_per_tenant", ValueKind::Count),
    value("audit_retention", ValueKind::Keep),
];

const WEBHOOKS: &[ConfigKey] = &[
    value("allow_private", ValueKind::Flag),
    value("allow", ValueKind::Texts),
    key("ports", KeyShape::Open),
];

/// The key that a path leads to; none for an unknown one, and for a table.
pub(crate) fn find(path: &[&str]) -> Option<&'static ConfigKey> {
    fn below(keys: &'static [ConfigKey], path: &[&str]) -> Option<&'static ConfigKey> {
        let (first, rest) = path.split_first()?;
        let key = keys.iter().find(|key| key.name == *first)?;
        match (key.shape, rest) {
            (KeyShape::Section(keys), rest) => below(keys, rest),
            (KeyShape::Named(keys), [_, rest @ ..]) => below(keys, rest),
            (KeyShape::SectionAndNamed(own, keys), [name, rest @ ..]) => {
                if own.iter().any(|key| key.name == *name) {
                    below(own, &path[1..])
                } else {
                    below(keys, rest)
                }
            }
            (KeyShape::Value(_) | KeyShape::Open, []) => Some(key),
            _ => None,
        }
    }
    below(FILE, path)
}

/// The whole file.
pub(crate) const FILE: &[ConfigKey] = &[
    key("store", KeyShape::Section(&[value("url", ValueKind::Text)])),
    key("server", KeyShape::Section(SERVER)),
    key("webhooks", KeyShape::Section(WEBHOOKS)),
    key("queues", KeyShape::Named(QUEUE)),
    key("kinds", KeyShape::Named(KIND)),
    key("dependencies", KeyShape::Named(DEPENDENCY)),
    key("handlers", KeyShape::Section(HANDLERS)),
    key(
        "signing",
        KeyShape::Section(&[
            secret("keys", ValueKind::Texts),
            value("required", ValueKind::Flag),
            key("queues", KeyShape::Named(&[value("required", ValueKind::Flag)])),
        ]),
    ),
    key(
        "encryption",
        KeyShape::Section(&[secret("keys", ValueKind::Texts), value("kinds", ValueKind::Texts)]),
    ),
    key("masking", KeyShape::Named(&[value("fields", ValueKind::Texts)])),
    key("sanitize", KeyShape::Section(&[value("patterns", ValueKind::Texts)])),
    key("retry_budget", RETRY_BUDGET),
    key("circuits", KeyShape::Named(CIRCUIT)),
    key("limits", KeyShape::SectionAndNamed(LIMITS, RUN_LIMIT)),
    key("schedules", KeyShape::Named(SCHEDULE)),
    key("bridges", KeyShape::Named(BRIDGE)),
    key("handoff", KeyShape::Named(HANDOFF)),
    key("rejects", KeyShape::Section(REJECTS)),
    key(
        "signals",
        KeyShape::Section(&[
            value("keep", ValueKind::Span),
            value("keep_ms", ValueKind::Millis),
            value("max_kept", ValueKind::Count),
        ]),
    ),
    key("events", KeyShape::Section(&[value("keep", ValueKind::Span), value("keep_ms", ValueKind::Millis)])),
    key(
        "retention",
        KeyShape::Section(&[
            value("succeeded", ValueKind::Span),
            value("canceled", ValueKind::Span),
            value("failed", ValueKind::Span),
            value("archive", ValueKind::Span),
            value("plans", ValueKind::Keep),
            value("workflows", ValueKind::Keep),
            value("incidents", ValueKind::Keep),
            value("queues", ValueKind::Keep),
            value("rejects", ValueKind::Keep),
        ]),
    ),
    key(
        "alerts",
        KeyShape::Section(&[
            secret("webhook", ValueKind::Text),
            secret("secrets", ValueKind::Texts),
            value("gap", ValueKind::Span),
            value("gap_ms", ValueKind::Millis),
            value("log", ValueKind::Flag),
        ]),
    ),
    key("telemetry", KeyShape::Section(&[value("otlp_endpoint", ValueKind::Text)])),
    key(
        "workers",
        KeyShape::Section(&[
            value("lease", ValueKind::Span),
            value("lease_ms", ValueKind::Millis),
            value("grace", ValueKind::Span),
            value("grace_ms", ValueKind::Millis),
            value("poll", ValueKind::Span),
            value("poll_ms", ValueKind::Millis),
            value("stuck_after", ValueKind::Span),
            value("stuck_after_ms", ValueKind::Millis),
            value("aging", ValueKind::Span),
            value("aging_ms", ValueKind::Millis),
            value("processes", ValueKind::Range),
            value("scale_up_after", ValueKind::Span),
            value("scale_up_after_ms", ValueKind::Millis),
            value("scale_down_after", ValueKind::Span),
            value("scale_down_after_ms", ValueKind::Millis),
        ]),
    ),
];
