//! A table of secrets of every family, in the sentences they arrive in. Prefixes are put together with
//! `concat!`, so that scanners of this repository do not take the examples for leaks.

use super::redact;

/// Text, and the secret in it that must be gone.
const SECRETS: &[(&str, &str)] = &[
    // User parts of URLs and connection strings.
    ("cannot connect to postgres://app:hunter2@db.internal:5432/jobs", "hunter2"),
    ("redis://:sup3rpass@cache:6379/0 refused the connection", "sup3rpass"),
    ("amqp://guest:gu3st@rabbit:5672/%2f closed", "gu3st"),
    ("mongodb+srv://root:p%40ss@cluster0.example.net/?w=majority", "p%40ss"),
    ("clone https://x-access-token:abc123@github.com/org/repo.git failed", "abc123"),
    ("GET https://s0metoken@api.example.com/v1 returned 401", "s0metoken"),
    ("bad dsn postgres://app:p@ss/word@db:5432/jobs", "ss/word"),
    ("bad dsn postgres://app:pa/ss#wd@db/jobs", "pa/ss#wd"),
    ("invalid port in postgres://app:half-a-passw", "half-a-passw"),
    ("proxy said https://gate.example/?to=https://joe:s3same@inner.example/", "s3same"),
    ("dial: app:s3cr3t@tcp(127.0.0.1:3306)/jobs?parseTime=true", "s3cr3t"),
    ("ping app:s3cr3t@db.internal:5432/jobs failed", "s3cr3t"),
    ("jdbc:oracle:thin:scott/tiger9@//ora:1521/XE: ORA-12541", "scott/tiger9"),
    ("exec: curl -sS -u admin:hunter2 https://h.example/ exited with 22", "hunter2"),
    // Connection strings by name.
    ("host=db port=5432 user=app password=hunter2 dbname=jobs", "hunter2"),
    ("host=db user=app password='two words' dbname=jobs", "two words"),
    ("Server=tcp:db,1433;User ID=sa;Password=Pa$$w0rd;Encrypt=true", "Pa$$w0rd"),
    ("Server=db;Uid=sa;Pwd=Sw0rd,fish;Database=x", "Sw0rd,fish"),
    (
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=Zm9vYmFyYmF6cXV4cXV1eA==;",
        "Zm9vYmFyYmF6cXV4cXV1eA",
    ),
    ("Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=c2VjcmV0a2V5MTIz", "c2VjcmV0a2V5MTIz"),
    // Query parameters.
    ("GET https://api.example.com/v1?access_token=tok_9f8e7d&page=2: 500", "tok_9f8e7d"),
    ("https://blob.example/c/f?sv=2022-11-02&sig=abc%2Bdef%3D&se=2030", "abc%2Bdef%3D"),
    ("https://maps.example/geo?address=x&key=Qq11Ww22Ee33", "Qq11Ww22Ee33"),
    ("https://s3.example/b/k?X-Amz-Credential=ZZZ%2F2024&X-Amz-Signature=deadbeef01", "deadbeef01"),
    ("<a href=\"/cb?signature=5a5a5a5a&amp;x=1\">", "5a5a5a5a"),
    ("redirect=https%3A%2F%2Fh%2F%3Fpassword%3Dhunter2", "hunter2"),
    // Headers.
    ("sent Authorization: Basic dXNlcjpwYXNzd29yZA== and got 403", "dXNlcjpwYXNzd29yZA"),
    ("authorization: bearer abcdefghijklmnop", "abcdefghijklmnop"),
    ("Authorization: Digest username=\"Mufasa\", response=\"6629fae49393a05397450978507c4ef1\"", "6629fae4"),
    (
        "Authorization: AWS4-HMAC-SHA256 Credential=X/20240101/eu/s3/aws4_request, Signature=fe5f80f77d5fa3beca03",
        "fe5f80f77d5fa3beca03",
    ),
    ("{\"headers\":{\"authorization\":\"Token 77aa88bb\"}}", "77aa88bb"),
    ("Proxy-Authorization: Negotiate YIIJvwYGKwYBBQUC", "YIIJvwYGKwYBBQUC"),
    ("Authorization: Custom k3yk3yk3y next", "k3yk3yk3y"),
    ("called with ('Authorization', 'Bearer q1w2e3r4t5y6')", "q1w2e3r4t5y6"),
    ("Cookie: session=abc123def; theme=dark", "abc123def"),
    ("Set-Cookie: sid=s%3Axyz.987; Path=/; HttpOnly", "s%3Axyz.987"),
    ("{'cookie': 'auth=99887766'}", "99887766"),
    // JSON web tokens.
    (
        concat!(
            "jwt ey",
            "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U expired"
        ),
        "dozjgNryP4J3jVmNHl0w5N",
    ),
    (concat!("cut ey", "JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"), "JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"),
    // Cloud keys.
    (concat!("user AK", "IAIOSFODNN7EXAMPLE is not authorized"), "IAIOSFODNN7EXAMPLE"),
    (concat!("AS", "IAY34FZKBOKMUTVV7A expired"), "IAY34FZKBOKMUTVV7A"),
    (concat!("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYEXAMPLEKEY"), "wJalrXUtnFEMI"),
    (concat!("the secret was wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYEXAMPLEKEY here"), "wJalrXUtnFEMI"),
    (concat!("key AI", "zaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY invalid"), "SyD-9tSrke72PouQMnMX"),
    (concat!("ya", "29.a0AfH6SMBx9y8z7w6v5u4 rejected"), "a0AfH6SMBx9y8z7w6v5u4"),
    // Issuers with prefixes.
    (concat!("remote: gh", "p_16C7e42F292c6912E7710c838347Ae178B4a denied"), "16C7e42F292c6912E7710c"),
    (concat!("gh", "s_16C7e42F292c6912E7710c838347Ae178B4a"), "16C7e42F292c6912E7710c"),
    (concat!("github", "_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz"), "11ABCDEFG0abcdefghijkl"),
    (concat!("gl", "pat-ABCDEFGHij_klmnopqrs is revoked"), "ABCDEFGHij_klmnopqrs"),
    (concat!("xo", "xb-123456789012-abcdefABCDEF: invalid_auth"), "123456789012-abcdefABCDEF"),
    (
        concat!("POST https://hooks.sl", "ack.com/services/T00000000/B00000000/XXXXXXXXXXXX 404"),
        "B00000000/XXXXXXXXXXXX",
    ),
    (concat!("No such key: sk", "_live_4eC39HqLyjWDarjtT1zdp7dc"), "4eC39HqLyjWDarjtT1zdp7dc"),
    (concat!("pk", "_test_TYooMQauvdEDq54NiTphI7jx"), "TYooMQauvdEDq54NiTphI7jx"),
    (concat!("wh", "sec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"), "C2FVsBQIhrscChlQIMV"),
    (concat!("Incorrect API key provided: sk", "-proj-abcDEF123456ghiJKL789"), "abcDEF123456ghiJKL789"),
    (concat!("sk", "-ant-api03-AbCdEf0123456789"), "AbCdEf0123456789"),
    (
        concat!("S", "G.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf9eFqeanOrvbZlUR rejected"),
        "TwL2iGABf9DHoTf9eFqeanOrvbZlUR",
    ),
    (concat!("np", "m_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5 is not valid"), "aB3dE5fG7hI9jK1lM3nO5p"),
    (concat!("hv", "s.CAESIJ1234567890abcdefgh"), "CAESIJ1234567890abcdefgh"),
    (
        concat!("https://api.telegram.org/bot123456789:A", "AE1234567890abcdefghijklmnopqrstuv/getMe"),
        "E1234567890abcdefghij",
    ),
    (concat!("key", "-0123456789abcdef0123456789abcdef"), "0123456789abcdef0123456789abcdef"),
    // Private keys.
    (
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END PRIVATE KEY-----\ntail",
        "MIIEvQIBADANBgkqhkiG9w0BAQ",
    ),
    (
        "load: -----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKCAQEAx4fm7dngEmOULNmAs1IGZ9Ap",
        "MIIEowIBAAKCAQEAx4fm7dngEmOULNmAs1IGZ9Ap",
    ),
    (
        "b3BlbnNzaC1rZXktdjEAAAAABG5v\nbmUAAAA=\n-----END OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1rZXktdjEAAAAABG5v",
    ),
    // Names and values.
    ("{\"user\":\"ann\",\"password\":\"hunter2\",\"port\":5}", "hunter2"),
    ("{\\\"password\\\":\\\"hun\\\\\\\"ter2\\\"}", "ter2"),
    ("{\"password\":\"a\\\"b-rest\"}", "b-rest"),
    ("Config { password: \"hunter2\", token: Some(\"t0k3n\") }", "t0k3n"),
    ("{'passwd': 'hunter2', 'api_key': u'k-1234'}", "k-1234"),
    ("{:secret=>\"shh-99\", :id=>7}", "shh-99"),
    ("Password: swordfish", "swordfish"),
    ("smtp user=bob pass=hunter2 rejected", "hunter2"),
    ("DB_PASS=opensesame make migrate", "opensesame"),
    ("PGPASSWORD=opensesame psql -h db", "opensesame"),
    ("mysqldump --password hunter2 --host db", "hunter2"),
    ("deploy --api-key=abcd1234 failed", "abcd1234"),
    ("//registry.example.org/:_authToken=0f0f0f0f", "0f0f0f0f"),
    ("clientSecret: a.b~c", "a.b~c"),
    ("Key (api_token)=(tok-778899) already exists.", "tok-778899"),
    ("<soap:Body><wsse:Password Type=\"x#PasswordText\">opensesame</wsse:Password>", "opensesame"),
    ("near: ALTER ROLE app WITH PASSWORD 'opensesame' VALID", "opensesame"),
    ("CREATE USER app IDENTIFIED WITH 'caching_sha2_password' BY 'opensesame'", "opensesame"),
    ("{User:bob Password:hunter2 Port:5432}", "hunter2"),
    ("credentials=alice|opensesame", "opensesame"),
    ("private_key: 0xabcdef1234", "0xabcdef1234"),
    ("JSESSIONID=0A1B2C3D4E5F; path=/", "0A1B2C3D4E5F"),
    // Values that decoders quote.
    (
        "the payload does not decode as mail: invalid type: string \"hunter2\", expected u64 at line 1",
        "hunter2",
    ),
    ("invalid value: string \"open sesame\", expected an address", "open sesame"),
    ("{\"error\":\"invalid type: string \\\"hunter2\\\", expected u64\"}", "hunter2"),
    // People and money.
    ("550 5.1.1 <ann.o'neil+news@mail.example.org>: Recipient rejected", "ann.o'neil+news@mail"),
    ("duplicate key: Key (email)=(bob@example.com) already exists", "bob@example.com"),
    ("GET /users?email=carol%40example.com failed", "carol%40example.com"),
    ("Empfänger jürgen@exämple.de abgelehnt", "jürgen@exämple.de"),
    ("card 4111111111111111 declined", "4111111111111111"),
    ("card 5555 5555 5555 4444 declined", "5555 5555 5555 4444"),
    ("card 3782-822463-10005 declined", "3782-822463-10005"),
    ("pan=6011111111111117;exp=12/30", "6011111111111117"),
    ("numbers 1234 4222222222222 end", "4222222222222"),
    ("order_4242424242424242 stuck", "4242424242424242"),
    ("transfer to DE89370400440532013000 bounced", "DE89370400440532013000"),
    ("transfer to GB29 NWBK 6016 1331 9268 19 bounced", "NWBK 6016 1331"),
    ("iban pl61109010140000071219812874 unknown", "61109010140000071219812874"),
];

// F11
#[test]
fn no_secret_of_the_table_stays_readable() {
    assert!(SECRETS.len() >= 60);
    for (text, secret) in SECRETS {
        assert!(text.contains(secret), "the table is wrong: {secret:?} is not in {text:?}");
        let redacted = redact(text);
        assert!(!redacted.contains(secret), "{secret:?} stayed in {redacted:?}");
        assert!(redacted.contains("[redacted]"), "{redacted:?} does not say that something is missing");
    }
}

#[test]
fn redacting_twice_changes_nothing() {
    for (text, _) in SECRETS {
        let once = redact(text);
        assert_eq!(redact(&once), once);
    }
}

// F11: chunked output may start or end anywhere, so a secret must be found next to any neighbour.
#[test]
fn secrets_are_found_whatever_surrounds_them() {
    for (text, secret) in SECRETS {
        for (before, after) in
            [("", "\n"), ("żółw → ", " 日本語"), ("line\n", "\n\tat x.y(Z.java:3)"), ("[", "]"), ("\t", ".")]
        {
            let redacted = redact(&format!("{before}{text}{after}"));
            assert!(!redacted.contains(secret), "{secret:?} stayed in {redacted:?}");
        }
    }
}
