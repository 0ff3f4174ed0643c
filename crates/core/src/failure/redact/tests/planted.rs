//! Generates secrets of every family that rule F11 knows, in the text they arrive in.
//!
//! One entry per family, so that a test can go round and leave none out. Prefixes are joined at run time: no
//! line of this file looks like a credential to scanners of this repository.

use super::{ALNUM, DIGITS, HEX, LOWER, Lcg, UPPER_NUM};

/// A secret, and a text that holds it once.
pub(super) struct Planted {
    pub(super) secret: String,
    pub(super) text: String,
}

type Family = fn(&mut Lcg) -> Planted;

/// Every family by name.
pub(super) const FAMILIES: &[(&str, Family)] = &[
    ("user part of a url", url_user),
    ("password alone in a url", |lcg| {
        alnum(lcg, 12, |s| format!("redis://:{s}@cache.internal:6379/0 is down"))
    }),
    ("token as user of a url", |lcg| {
        alnum(lcg, 16, |s| format!("clone https://{s}@git.example/a/b.git failed"))
    }),
    ("address without scheme", |lcg| alnum(lcg, 12, |s| format!("app:{s}@tcp(10.0.0.7:3306)/jobs: bad dsn"))),
    ("query parameter", query),
    ("signed storage url", |lcg| {
        let secret = lcg.string(HEX, 64);
        planted(secret, |s| {
            format!("GET https://s3.example/b/k?X-Amz-Date=20240501T100000Z&X-Amz-Signature={s}")
        })
    }),
    ("authorization header", authorization),
    ("digest header", |lcg| {
        let secret = lcg.string(HEX, 32);
        planted(secret, |s| format!("Authorization: Digest username=\"u\", realm=\"r\", response=\"{s}\""))
    }),
    ("cookie", |lcg| alnum(lcg, 24, |s| format!("Cookie: lang=en; session={s}; theme=dark"))),
    ("set-cookie", |lcg| alnum(lcg, 24, |s| format!("Set-Cookie: sid={s}; Path=/; HttpOnly; Secure"))),
    ("json web token", |lcg| {
        let parts = [alnum_of(lcg, 17), alnum_of(lcg, 40), alnum_of(lcg, 43)];
        planted(format!("eyJ{}.eyJ{}.{}", parts[0], parts[1], parts[2]), |s| {
            format!("assertion {s} rejected")
        })
    }),
    ("amazon key id", |lcg| {
        let prefix = lcg.pick(&["AKIA", "ASIA"]);
        let secret = format!("{prefix}{}", lcg.string(UPPER_NUM, 16));
        planted(secret, |s| format!("key id {s} is not known here"))
    }),
    ("amazon secret", |lcg| {
        let secret = format!("Aa1{}", lcg.string("ABCDEFGHIJKLMNabcdefghijklmn0123456789/+", 37));
        planted(secret, |s| format!("the secret in use was {s} at that time"))
    }),
    ("github", |lcg| {
        let letter = lcg.pick(&["p", "o", "u", "s", "r"]);
        prefixed(lcg, &format!("gh{letter}_"), 36)
    }),
    ("github fine-grained", |lcg| prefixed(lcg, "github_pat_", 60)),
    ("gitlab", |lcg| prefixed(lcg, "glpat-", 20)),
    ("slack", |lcg| {
        let letter = lcg.pick(&["a", "b", "p", "r", "s"]);
        let number = lcg.string(DIGITS, 12);
        prefixed(lcg, &format!("xox{letter}-{number}-"), 24)
    }),
    ("stripe", |lcg| {
        let kind = lcg.pick(&["sk_live_", "rk_live_", "pk_test_", "sk_test_"]);
        prefixed(lcg, kind, 24)
    }),
    ("webhook signing", |lcg| prefixed(lcg, "whsec_", 32)),
    ("backstop", |lcg| prefixed(lcg, "bks_", 43)),
    ("model provider", |lcg| {
        let kind = lcg.pick(&["sk-", "sk-proj-", "sk-ant-api03-"]);
        prefixed(lcg, kind, 40)
    }),
    ("google", |lcg| prefixed(lcg, "AIza", 35)),
    ("sendgrid", |lcg| {
        let first = alnum_of(lcg, 22);
        prefixed(lcg, &format!("SG.{first}."), 43)
    }),
    ("npm", |lcg| prefixed(lcg, "npm_", 36)),
    ("private key", private_key),
    ("private key on one line", |lcg| {
        alnum(lcg, 64, |s| {
            format!("bad key -----BEGIN PRIVATE KEY-----\\n{s}\\n-----END PRIVATE KEY----- given")
        })
    }),
    ("private key without its end", |lcg| {
        alnum(lcg, 64, |s| format!("bad key -----BEGIN EC PRIVATE KEY-----\n{s}"))
    }),
    ("libpq string", |lcg| alnum(lcg, 10, |s| format!("host=db user=app password={s} sslmode=require"))),
    ("ado string", |lcg| {
        let key = lcg.pick(&["Password", "Pwd"]);
        alnum(lcg, 10, |s| format!("Server=db,1433;User Id=sa;{key}={s};Encrypt=true"))
    }),
    ("azure string", |lcg| alnum(lcg, 40, |s| format!("AccountName=a;AccountKey={s}==;EndpointSuffix=x"))),
    ("e-mail address", email),
    ("e-mail address in a query", |lcg| {
        let secret = format!("{}.{}%40post.test", lcg.string(LOWER, 6), lcg.string(LOWER, 8));
        planted(secret, |s| format!("GET /users?mail={s}&page=2 failed"))
    }),
    ("card number", card),
    ("card number in groups", |lcg| {
        let card = with_luhn_digit(&format!("5{}{}", lcg.string("12345", 1), lcg.string("123456789", 13)));
        let grouped = [&card[..4], &card[4..8], &card[8..12], &card[12..]].join(lcg.pick(&[" ", "-"]));
        planted(grouped, |s| format!("card {s} declined"))
    }),
    ("iban", |lcg| planted(iban(lcg), |s| format!("account {s} closed"))),
    ("iban in groups", |lcg| {
        let plain = iban(lcg);
        let groups: Vec<&str> =
            (0..plain.len()).step_by(4).map(|at| &plain[at..plain.len().min(at + 4)]).collect();
        planted(groups.join(" "), |s| format!("account {s} closed"))
    }),
    ("named value in json", |lcg| {
        let key = lcg.pick(NAMES);
        password(lcg, |s| format!("body {{\"id\":7,\"{key}\":\"{s}\",\"n\":1}} refused"))
    }),
    ("named value in escaped json", |lcg| {
        let key = lcg.pick(NAMES);
        alnum(lcg, 14, |s| format!("body \"{{\\\"{key}\\\":\\\"{s}\\\",\\\"n\\\":1}}\" refused"))
    }),
    ("named value in a debug print", |lcg| {
        let key = lcg.pick(NAMES);
        password(lcg, |s| format!("Login {{ user: \"ann\", {key}: Some(\"{s}\"), port: 5 }}"))
    }),
    ("named value in a dictionary", |lcg| {
        let key = lcg.pick(NAMES);
        password(lcg, |s| format!("{{'{key}': '{s}', 'port': 5}}"))
    }),
    ("assignment", |lcg| {
        let (key, sign) = (lcg.pick(NAMES), lcg.pick(&["=", " = ", " => ", ":", "='"]));
        planted(format!("{}9", alnum_of(lcg, 9)), |s| format!("{key}{sign}{s}"))
    }),
    ("environment", |lcg| {
        let key =
            lcg.pick(&["DB_PASS", "PGPASSWORD", "API_TOKEN", "AWS_SECRET_ACCESS_KEY", "STRIPE_API_KEY"]);
        alnum(lcg, 14, |s| format!("env {key}={s} make migrate exited with 2"))
    }),
    ("command line", |lcg| {
        let flag = lcg.pick(&["--token", "--password", "--api-key", "--client-secret"]);
        alnum(lcg, 20, |s| format!("run {flag} {s} --verbose"))
    }),
    ("login of a command", |lcg| {
        alnum(lcg, 12, |s| format!("curl -sS -u admin:{s} https://h.example/ exited with 22"))
    }),
    ("row of a database", |lcg| {
        alnum(lcg, 16, |s| format!("Key (tenant, api_token)=(4, {s}) already exists."))
    }),
    ("statement", |lcg| password_safe(lcg, |s| format!("near: ALTER ROLE app WITH PASSWORD '{s}' VALID"))),
    ("xml element", |lcg| alnum(lcg, 12, |s| format!("<wsse:Password Type=\"Text\">{s}</wsse:Password>"))),
];

/// Names of the families "key-name based", in the spellings of several languages.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "userPassword",
    "secret",
    "client_secret",
    "token",
    "accessToken",
    "refresh_token",
    "api_key",
    "apiKey",
    "X-Api-Key",
    "credential",
    "credentials",
    "private",
    "private_key",
    "passphrase",
];

fn planted(secret: String, text: impl Fn(&str) -> String) -> Planted {
    let text = text(&secret);
    Planted { secret, text }
}

fn alnum_of(lcg: &mut Lcg, length: usize) -> String {
    lcg.string(ALNUM, length)
}

fn alnum(lcg: &mut Lcg, length: usize, text: impl Fn(&str) -> String) -> Planted {
    planted(alnum_of(lcg, length), text)
}

/// A credential that its prefix gives away, in running text.
fn prefixed(lcg: &mut Lcg, prefix: &str, length: usize) -> Planted {
    let (before, after) =
        (lcg.pick(&["remote: ", "with ", "key ", "said ("]), lcg.pick(&["", ".", " denied", ")"]));
    // A digit, for a few prefixes are also the start of ordinary names.
    planted(format!("{prefix}{}7", alnum_of(lcg, length - 1)), |s| format!("{before}{s}{after}"))
}

/// A password as people choose them, without the quotation marks around it.
fn password(lcg: &mut Lcg, text: impl Fn(&str) -> String) -> Planted {
    let signs = lcg.string("!#$%&*+,-./:;<=>?@[]^_{|}~ ", 4);
    planted(format!("{}{signs}{}", alnum_of(lcg, 6), alnum_of(lcg, 6)), text)
}

fn password_safe(lcg: &mut Lcg, text: impl Fn(&str) -> String) -> Planted {
    let signs = lcg.string("!#$%&*+-./:=?_~", 3);
    planted(format!("{}{signs}{}", alnum_of(lcg, 6), alnum_of(lcg, 6)), text)
}

fn url_user(lcg: &mut Lcg) -> Planted {
    let scheme = lcg.pick(&["postgres", "mysql", "mongodb+srv", "amqps", "https", "redis", "sftp"]);
    let sign = lcg.pick(&["", "%40", "!", "$", "/", "#", "@"]);
    let secret = format!("{}{sign}{}", alnum_of(lcg, 6), alnum_of(lcg, 6));
    planted(secret, |s| format!("cannot open {scheme}://app:{s}@db.internal:5432/jobs"))
}

fn query(lcg: &mut Lcg) -> Planted {
    let key = lcg.pick(&[
        "token",
        "sig",
        "signature",
        "key",
        "password",
        "secret",
        "access_token",
        "X-Amz-Signature",
    ]);
    alnum(lcg, 20, |s| format!("GET https://api.example/v1?page=1&{key}={s}&x=2 returned 403"))
}

fn authorization(lcg: &mut Lcg) -> Planted {
    let scheme = lcg.pick(&["Basic", "Bearer", "Token", "bearer"]);
    let shape = lcg.below(3);
    alnum(lcg, 24, |s| match shape {
        0 => format!("sent Authorization: {scheme} {s} and got 403"),
        1 => format!("{{\"headers\":{{\"authorization\":\"{scheme} {s}\"}}}}"),
        _ => format!("Proxy-Authorization: {scheme} {s}\nHost: h.example"),
    })
}

fn private_key(lcg: &mut Lcg) -> Planted {
    let kind = lcg.pick(&["RSA ", "EC ", "", "OPENSSH ", "ENCRYPTED "]);
    let lines: Vec<String> = (0..4).map(|_| alnum_of(lcg, 64)).collect();
    planted(lines.join("\n"), |s| {
        format!("-----BEGIN {kind}PRIVATE KEY-----\n{s}\n-----END {kind}PRIVATE KEY-----")
    })
}

fn email(lcg: &mut Lcg) -> Planted {
    let (before, after) =
        (lcg.pick(&["recipient <", "mailbox of ", "Key (email)=("]), lcg.pick(&[">", " is full", ")"]));
    let joint = lcg.pick(&[".", "_", "+", "-"]);
    let secret = format!("{}{joint}{}@post.test", lcg.string(LOWER, 6), alnum_of(lcg, 6));
    planted(secret, |s| format!("{before}{s}{after}"))
}

/// Card numbers of the networks, in each length from 13 to 19 digits.
fn card(lcg: &mut Lcg) -> Planted {
    const RANGES: &[(&str, usize)] =
        &[("4", 13), ("36", 14), ("37", 15), ("4", 16), ("51", 16), ("6304", 17), ("6759", 18), ("4", 19)];
    let (start, length) = RANGES[lcg.below(RANGES.len())];
    let secret = with_luhn_digit(&format!("{start}{}", lcg.string("123456789", length - start.len() - 1)));
    planted(secret, |s| format!("card {s} declined"))
}

fn with_luhn_digit(body: &str) -> String {
    let sum: u32 = body
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let value = u32::from(digit - b'0') * if index % 2 == 0 { 2 } else { 1 };
            if value > 9 { value - 9 } else { value }
        })
        .sum();
    format!("{body}{}", (10 - sum % 10) % 10)
}

/// A German, British or Polish account number with its check digits.
fn iban(lcg: &mut Lcg) -> String {
    let (country, account) = match lcg.below(3) {
        0 => ("DE", lcg.string(DIGITS, 18)),
        1 => ("GB", format!("NWBK{}", lcg.string(DIGITS, 14))),
        _ => ("PL", lcg.string(DIGITS, 24)),
    };
    // Letters count as 10 to 35; the check digits are 98 minus the remainder with zeros in their place.
    let remainder = format!("{account}{country}00").chars().fold(0u32, |rest, ch| match ch.to_digit(36) {
        Some(value) if value > 9 => (rest * 100 + value) % 97,
        Some(value) => (rest * 10 + value) % 97,
        None => rest,
    });
    format!("{country}{:02}{account}", 98 - remainder)
}
