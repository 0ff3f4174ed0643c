//! E-mail addresses, also percent-encoded ones.
//!
//! The sign alone is no proof: package versions, image digests, unit names and Git remotes use it too, and
//! those must stay readable.

use super::spans::SecretRanges;

/// Last labels that make `name@something.label` a file or a service unit, not an address.
const NOT_DOMAINS: [&str; 24] = [
    "avif", "conf", "css", "gif", "gz", "html", "ico", "jpeg", "jpg", "js", "json", "log", "map", "mount",
    "png", "scope", "service", "slice", "socket", "svg", "target", "timer", "webp", "yml",
];

/// Marks every address.
pub(super) fn mark(text: &str, spans: &mut SecretRanges) {
    let bytes = text.as_bytes();
    let hidden_ends = spans.sorted_ends();
    let mut position = 0;
    let mut floor = 0;
    while let Some(found) = text.get(position..).and_then(|rest| rest.find(['@', '%'])) {
        let at = position + found;
        let sign = if bytes[at] == b'@' { 1 } else { 3 };
        position = at + 1;
        if sign == 3 && !bytes[at..].starts_with(b"%40") {
            continue;
        }
        // A user part of a URL that is already hidden ends here: the host after it must stay.
        if hidden_ends.binary_search(&at).is_ok() {
            continue;
        }
        let start = local_start(text, floor, at);
        floor = at + sign;
        let end = domain_end(text, at + sign);
        if start < at && is_address(&text[start..at], &text[at + sign..end]) {
            spans.mark(start..end);
            position = end;
            floor = end;
        }
    }
}

/// Where the part before the sign starts. Letters of every script count: addresses may be international.
fn local_start(text: &str, floor: usize, at: usize) -> usize {
    let mut start = at;
    for (offset, ch) in text[floor..at].char_indices().rev() {
        let index = floor + offset;
        let inside = ch.is_alphanumeric()
            || matches!(ch, '.' | '_' | '+' | '-' | '%' | '~' | '!' | '#' | '$' | '&' | '*');
        // O'Brien has an address as well, but a quote before a letter only opens a quotation.
        let is_apostrophe = ch == '\'' && text[..index].ends_with(char::is_alphanumeric);
        if !inside && !is_apostrophe {
            break;
        }
        start = index;
    }
    let trimmed = text[start..at].trim_start_matches(['.', '-', '&', '#', '*', '!']);
    at - trimmed.len()
}

/// Where the domain ends: labels of letters, digits and dashes, joined by single dots.
fn domain_end(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let mut chars = rest.char_indices().peekable();
    while let Some((offset, ch)) = chars.next() {
        let is_label = ch.is_alphanumeric() || ch == '-';
        let goes_on = chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        let is_dot = ch == '.' && offset > 0 && goes_on;
        if !is_label && !is_dot {
            return from + offset;
        }
    }
    text.len()
}

fn is_address(local: &str, domain: &str) -> bool {
    let Some((_, last_label)) = domain.rsplit_once('.') else { return false };
    local != "git"
        && last_label.chars().count() >= 2
        && last_label.chars().all(char::is_alphabetic)
        && !NOT_DOMAINS.contains(&last_label)
        && !is_version(domain)
}

/// `1.2.3-rc.beta` and `v2.0.0-next.js` follow the sign in package names.
fn is_version(domain: &str) -> bool {
    let mut labels = domain.strip_prefix('v').unwrap_or(domain).split('.');
    let is_number =
        |label: Option<&str>| label.is_some_and(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_digit()));
    is_number(labels.next())
        && labels.next().is_some_and(|label| label.starts_with(|ch: char| ch.is_ascii_digit()))
}
