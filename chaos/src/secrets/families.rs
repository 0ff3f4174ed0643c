//! Makes secrets of every family: addresses, headers, keys of many issuers, names and values, people and money.
//!
//! Prefixes are joined at run time, so that no line of this file looks like a credential to a scanner.

use fastrand::Rng;

use super::PlantedSecret;

type Family = fn(&mut Rng) -> (String, String);

/// Every family by name.
pub const FAMILIES: &[(&str, Family)] = &[
    ("password in a url", |r| {
        let scheme = pick(r, &["postgres", "mysql", "amqp", "mongodb+srv", "https"]);
        with(mixed(r, 14), |s| format!("cannot open {scheme}://app:{s}@db.internal:5432/jobs: refused"))
    }),
    ("token in a url", |r| {
        with(mixed(r, 20), |s| format!("clone of https://{s}@git.example/a/b.git failed"))
    }),
    ("driver address", |r| with(mixed(r, 12), |s| format!("dial app:{s}@tcp(10.0.0.7:3306)/jobs: timeout"))),
    ("query parameter", |r| {
        let key = pick(r, &["token", "sig", "signature", "key", "password", "secret", "access_token"]);
        with(mixed(r, 20), |s| {
            format!("error sending request for url (https://h.example/x?{key}={s}&page=2)")
        })
    }),
    ("signed url", |r| {
        with(mixed(r, 40), |s| format!("GET https://s3.example/b/k?X-Amz-Signature={s} said 403"))
    }),
    ("basic", |r| with(mixed(r, 24), |s| format!("sent Authorization: Basic {s} and got 401"))),
    ("bearer", |r| with(mixed(r, 32), |s| format!("headers {{\"authorization\":\"Bearer {s}\"}} refused"))),
    ("digest", |r| with(mixed(r, 32), |s| format!("Authorization: Digest username=\"u\", response=\"{s}\""))),
    ("cookie", |r| with(mixed(r, 24), |s| format!("Cookie: lang=en; session={s}; theme=dark"))),
    ("set-cookie", |r| with(mixed(r, 24), |s| format!("Set-Cookie: sid={s}; Path=/; HttpOnly"))),
    ("json web token", |r| {
        let token = format!("eyJ{}.eyJ{}.{}", mixed(r, 17), mixed(r, 40), mixed(r, 43));
        with(token, |s| format!("assertion {s} rejected"))
    }),
    ("amazon key id", |r| {
        let prefix = pick(r, &["AKIA", "ASIA"]);
        with(format!("{prefix}{}", of(r, UPPER, 16)), |s| format!("key id {s} is unknown"))
    }),
    ("amazon secret", |r| {
        with(format!("Aa1{}", mixed(r, 37)), |s| format!("the secret in use was {s} then"))
    }),
    ("github", |r| {
        let letter = pick(r, &["p", "o", "u", "s", "r"]);
        issued(r, &format!("gh{letter}_"), 36)
    }),
    ("github fine-grained", |r| issued(r, "github_pat_", 60)),
    ("gitlab", |r| issued(r, "glpat-", 20)),
    ("slack", |r| {
        let letter = pick(r, &["a", "b", "p", "r", "s"]);
        issued(r, &format!("xox{letter}-"), 36)
    }),
    ("stripe", |r| {
        let prefix = pick(r, &["sk_live_", "rk_live_", "pk_test_"]);
        issued(r, prefix, 24)
    }),
    ("webhook", |r| issued(r, "whsec_", 32)),
    ("model provider", |r| issued(r, "sk-", 40)),
    ("google", |r| issued(r, "AIza", 35)),
    ("sendgrid", |r| {
        let first = mixed(r, 22);
        issued(r, &format!("SG.{first}."), 43)
    }),
    ("npm", |r| issued(r, "npm_", 36)),
    ("private key", |r| {
        let kind = pick(r, &["RSA ", "EC ", "", "OPENSSH "]);
        let lines: Vec<String> = (0..3).map(|_| mixed(r, 64)).collect();
        with(lines.join("\n"), |s| {
            format!("bad key -----BEGIN {kind}PRIVATE KEY-----\n{s}\n-----END {kind}PRIVATE KEY----- given")
        })
    }),
    ("libpq string", |r| with(mixed(r, 12), |s| format!("host=db user=app password={s} sslmode=require"))),
    ("ado string", |r| with(mixed(r, 12), |s| format!("Server=db,1433;User Id=sa;Pwd={s};Encrypt=true"))),
    ("e-mail", |r| {
        let name = format!("{}.{}@post.test", of(r, LOWER, 8), of(r, LOWER, 8));
        with(name, |s| format!("550 5.1.1 <{s}>: recipient rejected"))
    }),
    ("card", |r| {
        let (start, length) = (pick(r, &["4", "51", "37"]), 16);
        let length = if start == "37" { 15 } else { length };
        let body = format!("{start}{}", of(r, "123456789", length - start.len() - 1));
        with(with_luhn_digit(&body), |s| format!("card {s} declined"))
    }),
    ("card in groups", |r| {
        let card = with_luhn_digit(&format!("4{}", of(r, "123456789", 14)));
        let groups = [&card[..4], &card[4..8], &card[8..12], &card[12..]].join(" ");
        with(groups, |s| format!("card {s} declined"))
    }),
    ("iban", |r| with(german_iban(r), |s| format!("account {s} is closed"))),
    ("json value", |r| {
        let key = name(r);
        with(mixed(r, 14), |s| format!("body {{\"id\":7,\"{key}\":\"{s}\",\"n\":1}} refused"))
    }),
    ("debug print", |r| {
        let key = name(r);
        with(mixed(r, 14), |s| format!("Login {{ user: \"ann\", {key}: Some(\"{s}\"), port: 5 }}"))
    }),
    ("assignment", |r| {
        let key = name(r);
        with(format!("{}9", mixed(r, 12)), |s| format!("{key}={s}"))
    }),
    ("environment", |r| {
        let key = pick(r, &["DB_PASS", "PGPASSWORD", "API_TOKEN", "AWS_SECRET_ACCESS_KEY"]);
        with(mixed(r, 14), |s| format!("env {key}={s} make migrate exited with 2"))
    }),
    ("command line", |r| {
        let flag = pick(r, &["--token", "--password", "--api-key"]);
        with(mixed(r, 20), |s| format!("run {flag} {s} --verbose exited with 1"))
    }),
    ("row", |r| with(mixed(r, 16), |s| format!("Key (tenant, api_token)=(4, {s}) already exists."))),
    ("statement", |r| with(mixed(r, 14), |s| format!("near: ALTER ROLE app WITH PASSWORD '{s}' VALID"))),
    ("xml", |r| with(mixed(r, 14), |s| format!("<wsse:Password Type=\"Text\">{s}</wsse:Password>"))),
];

const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const MIXED: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// `count` secrets, the families in turn.
#[must_use]
pub fn planted(seed: u64, count: usize) -> Vec<PlantedSecret> {
    let mut rng = Rng::with_seed(seed);
    let families = FAMILIES.iter().cycle().take(count);
    families
        .map(|(family, make)| {
            let (hidden, text) = make(&mut rng);
            PlantedSecret { family, hidden, text }
        })
        .collect()
}

fn with(hidden: String, text: impl Fn(&str) -> String) -> (String, String) {
    let text = text(&hidden);
    (hidden, text)
}

fn pick<'a>(rng: &mut Rng, choices: &[&'a str]) -> &'a str {
    choices[rng.usize(..choices.len())]
}

fn of(rng: &mut Rng, alphabet: &str, length: usize) -> String {
    let letters = alphabet.as_bytes();
    (0..length).map(|_| char::from(letters[rng.usize(..letters.len())])).collect()
}

fn mixed(rng: &mut Rng, length: usize) -> String {
    of(rng, MIXED, length)
}

fn issued(rng: &mut Rng, prefix: &str, length: usize) -> (String, String) {
    // A digit, for a few prefixes are also the start of ordinary names.
    with(format!("{prefix}{}7", mixed(rng, length - 1)), |s| format!("remote: {s} is denied"))
}

fn name(rng: &mut Rng) -> &'static str {
    pick(rng, &["password", "passwd", "secret", "clientSecret", "token", "api_key", "credential", "private"])
}

fn with_luhn_digit(body: &str) -> String {
    let doubled = body.bytes().rev().enumerate().map(|(index, digit)| {
        let value = u32::from(digit - b'0') * if index % 2 == 0 { 2 } else { 1 };
        if value > 9 { value - 9 } else { value }
    });
    format!("{body}{}", (10 - doubled.sum::<u32>() % 10) % 10)
}

fn german_iban(rng: &mut Rng) -> String {
    let account = of(rng, "0123456789", 18);
    // D and E count as 13 and 14; the check digits are 98 minus the remainder with zeros in their place.
    let remainder =
        format!("{account}131400").bytes().fold(0, |rest, b| (rest * 10 + u64::from(b - b'0')) % 97);
    format!("DE{:02}{account}", 98 - remainder)
}
