//! Which names announce a secret: `password`, `DB_PASS`, `clientSecret`, `x-api-key`,
//! `AWS_SECRET_ACCESS_KEY`.
//!
//! A name counts by its last word, so that `token_type`, `max_tokens`, `TokenExpiredError` or `secretName` do
//! not. Must not look at values.

/// Endings of a last word that announce a secret, written together or apart (`authtoken`, `auth_token`).
const SECRET_ENDINGS: [&str; 22] = [
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "secrets",
    "token",
    "apikey",
    "credential",
    "credentials",
    "privatekey",
    "secretkey",
    "accesskey",
    "authorization",
    "cookie",
    "cookies",
    "jwt",
    "cvv",
    "cvc",
    "sessid",
];

/// Words that turn a following `key` into a secret; a `primary_key` or `routing_key` is none.
const KEY_OWNERS: [&str; 13] = [
    "access",
    "account",
    "api",
    "auth",
    "encryption",
    "hmac",
    "master",
    "private",
    "secret",
    "service",
    "shared",
    "signing",
    "ssh",
];

/// Words that may follow the secret word without changing what the value is.
const QUALIFIERS: [&str; 17] = [
    "again",
    "b64",
    "base64",
    "confirm",
    "confirmation",
    "current",
    "data",
    "enc",
    "encrypted",
    "hash",
    "new",
    "old",
    "plain",
    "plaintext",
    "raw",
    "text",
    "value",
];

/// Whether a field of this name holds a secret.
///
/// ```
/// use backstop_core::failure::redact::is_sensitive_key;
/// assert!(is_sensitive_key("smtpPassword") && is_sensitive_key("X-Api-Key"));
/// assert!(!is_sensitive_key("max_tokens") && !is_sensitive_key("primary_key"));
/// ```
pub fn is_sensitive_key(name: &str) -> bool {
    let words = words_of(name);
    let mut words = words.as_slice();
    while let [rest @ .., last] = words
        && !rest.is_empty()
        && QUALIFIERS.contains(&last.as_str())
    {
        words = rest;
    }
    match words {
        [] => false,
        [.., owner, key] if key == "key" || key == "keys" => KEY_OWNERS.contains(&owner.as_str()),
        // The two parts of a cloud key pair, and of a vault login, are kept together: both are hidden.
        [.., owner, id] if id == "id" => owner == "secret" || owner == "key",
        [.., last] if last == "pass" || last == "private" => true,
        [only] if only == "auth" => name.starts_with('_'),
        [.., last] => SECRET_ENDINGS.iter().any(|ending| last.ends_with(ending)) || last == "jsessionid",
    }
}

/// Splits a name at separators and at capitals, in lower case, without trailing digits.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut previous = ' ';
    let mut chars = name.chars().peekable();
    while let Some(ch) = chars.next() {
        let next_is_lower = chars.peek().is_some_and(|next| next.is_lowercase());
        let starts_word = ch.is_uppercase() && (!previous.is_uppercase() || next_is_lower);
        if !ch.is_alphanumeric() || starts_word {
            push_word(&mut words, &mut word);
        }
        if ch.is_alphanumeric() {
            word.extend(ch.to_lowercase());
        }
        previous = ch;
    }
    push_word(&mut words, &mut word);
    words
}

fn push_word(words: &mut Vec<String>, word: &mut String) {
    let without_number = word.trim_end_matches(|ch: char| ch.is_ascii_digit());
    // `password2` is a password; `base64` and a word that is only a number stay as they are.
    if !without_number.is_empty() && !QUALIFIERS.contains(&word.as_str()) {
        word.truncate(without_number.len());
    }
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}
