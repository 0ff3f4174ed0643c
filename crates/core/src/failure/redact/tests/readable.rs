//! What must stay readable next to a secret: types, hosts, ports, names, schemes.

use super::redact;

// F11: the error's type and host stay readable.
#[test]
fn only_the_secret_is_hidden() {
    for (text, expected) in [
        ("postgres://app:hunter2@db.internal:5432/jobs", "postgres://[redacted]@db.internal:5432/jobs"),
        (
            "https://u:p@registry.example.org/lodash@4.17.21",
            "https://[redacted]@registry.example.org/lodash@4.17.21",
        ),
        ("bad dsn postgres://app:p@ss/word@db:5432/jobs", "bad dsn postgres://[redacted]@db:5432/jobs"),
        ("app:pw@tcp(127.0.0.1:3306)/jobs", "[redacted]@tcp(127.0.0.1:3306)/jobs"),
        ("host=db password=hunter2 dbname=jobs", "host=db password=[redacted] dbname=jobs"),
        ("Pwd=a,b;Database=x", "Pwd=[redacted];Database=x"),
        (
            "error sending request for url (https://h.example/x?token=abc123): connection refused",
            "error sending request for url (https://h.example/x?token=[redacted]): connection refused",
        ),
        ("https://h/x?token=abc&page=2#top", "https://h/x?token=[redacted]&page=2#top"),
        ("Authorization: Bearer abc.def-ghi, retrying", "Authorization: Bearer [redacted], retrying"),
        ("{\"authorization\":\"Basic dTpw\",\"x\":1}", "{\"authorization\":\"Basic [redacted]\",\"x\":1}"),
        ("Cookie: a=1; b=2\nHost: h.example", "Cookie: [redacted]\nHost: h.example"),
        ("{\"password\":\"x\",\"code\":503}", "{\"password\":\"[redacted]\",\"code\":503}"),
        ("password=null token=None secret=***", "password=null token=None secret=***"),
        ("A { token: Some(\"t\"), port: 5 }", "A { token: Some(\"[redacted]\"), port: 5 }"),
        ("Key (id, token)=(5, abc) already exists.", "Key (id, token)=([redacted]) already exists."),
        ("<Password>x</Password><Port>5</Port>", "<Password>[redacted]</Password><Port>5</Port>"),
        ("user ann@example.org (id 7) not found", "user [redacted] (id 7) not found"),
        ("card 4111 1111 1111 1111 declined (51)", "card [redacted] declined (51)"),
        ("DE89 3704 0044 0532 0130 00 IS UNKNOWN", "[redacted] IS UNKNOWN"),
        (
            "invalid type: string \"hun\\\"ter2\", expected u64 at line 1 column 9",
            "invalid type: string \"[redacted]\", expected u64 at line 1 column 9",
        ),
        (
            r#"bad config {"api_key": {"id": "k1", "value": "hunter2"}, "port": 3}"#,
            r#"bad config {"api_key": [redacted], "port": 3}"#,
        ),
        (r#"{"tokens": ["abc1", "abc2"], "n": 1}"#, r#"{"tokens": ["abc1", "abc2"], "n": 1}"#),
        (r#"{"secrets": ["abc1", "abc2"], "n": 1}"#, r#"{"secrets": [redacted], "n": 1}"#),
        (r#"{"secrets": {"a": ["x}", "y"]}"#, r#"{"secrets": [redacted]"#),
        ("x -----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY----- y", "x [redacted] y"),
        (
            "TypeError: a@b.co and c@d.co at /srv/app.js:3:9",
            "TypeError: [redacted] and [redacted] at /srv/app.js:3:9",
        ),
    ] {
        assert_eq!(redact(text), expected);
    }
}
