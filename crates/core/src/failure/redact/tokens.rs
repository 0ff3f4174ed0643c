//! Credentials that are known by their own shape: issuers give them a prefix so that scanners can find them.
//!
//! Must not need a name next to the value; named values are found by `assignments`.

use std::sync::LazyLock;

use regex::Regex;

use super::edges;
use super::spans::SecretRanges;

/// How known credentials begin. The trigger of this pass; it must match wherever a shape below does.
pub(super) const PREFIXES: &str = concat!(
    r"eyJ|A(?:KIA|SIA|BIA|CCA)[0-9A-Z]|gh[pousr]_|github_pat_|gl[a-z]{2,6}-|xox|xapp-|",
    r"_(?:live|test)_|whsec_|sk-|AIza|ya29|GOCSPX|1//0|SG\.|npm_|pypi-|hf_|hvs\.|dop_v1|",
    r"shp[a-z]{2}_|SK[0-9a-f]|key-[0-9a-f]|-us[0-9]|[0-9]:AA|sq0|AGE-SECRET|glsa_|lin_api_|",
    r"dapi[0-9a-f]|ATATT|rubygems_|hooks\.slack|api/webhooks|bks_",
);

/// One shape per line. Lower bounds are below the issuers' lengths, so that a credential that was cut is
/// found too. `<` before a shape: it must not begin inside a word, because words end like that too.
const SHAPES: [&str; 35] = [
    // JSON web tokens (signed and encrypted), and any other base64 that starts like a JSON object.
    r"eyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*){1,4}",
    r"eyJ[A-Za-z0-9_-]{20,}={0,2}",
    // Amazon key ids.
    r"<A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16,}",
    // GitHub, GitLab.
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"<gl(?:pat|dt|rt|ft|cbt|ptt|soat|agent|imt|oas|ffct)-[A-Za-z0-9_.-]{16,}",
    // Slack tokens and web hooks, Discord web hooks.
    r"<xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{8,}",
    r"<xapp-[A-Za-z0-9-]{16,}",
    r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{16,}",
    r"/api/webhooks/[0-9]{15,}/[A-Za-z0-9_-]{20,}",
    // Stripe, and signing secrets of standard web hooks.
    r"<(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}",
    r"<whsec_[A-Za-z0-9+/=_-]{12,}",
    // OpenAI, Anthropic and others that follow them.
    r"<sk-[A-Za-z0-9_-]{16,}",
    // Google: API keys, OAuth access tokens, client secrets, refresh tokens.
    r"AIza[0-9A-Za-z_-]{30,}",
    r"<ya29\.[A-Za-z0-9_-]{16,}",
    r"<GOCSPX-[A-Za-z0-9_-]{16,}",
    r"<1//0[A-Za-z0-9_-]{24,}",
    // SendGrid, Mailgun, Mailchimp, Twilio.
    r"<SG\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]{10,})?",
    r"<key-[0-9a-f]{32,}",
    r"<[0-9a-f]{32}-us[0-9]{1,2}",
    r"<SK[0-9a-f]{32,}",
    // Package registries and model hubs.
    r"<npm_[A-Za-z0-9]{24,}",
    r"<pypi-[A-Za-z0-9_-]{24,}",
    r"<rubygems_[0-9a-f]{32,}",
    r"<hf_[A-Za-z0-9]{24,}",
    // Infrastructure: Vault, DigitalOcean, Grafana, Databricks, age.
    r"<hvs\.[A-Za-z0-9_-]{20,}",
    r"<dop_v1_[0-9a-f]{32,}",
    r"<glsa_[A-Za-z0-9_]{24,}",
    r"<dapi[0-9a-f]{32}",
    r"<AGE-SECRET-KEY-1[0-9A-Z]{20,}",
    // Shopify, Square, Linear, Atlassian, and Telegram bots.
    r"<shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{24,}",
    r"<sq0[a-z]{3}-[0-9A-Za-z_-]{20,}",
    r"<(?:lin_api_[A-Za-z0-9]{24,}|ATATT[A-Za-z0-9_=-]{24,})",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
    // Our own.
    r"<bks_[A-Za-z0-9_-]{20,}",
];

/// Shapes that are found anywhere, and those that begin a word.
static SHAPE: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    let (words, anywhere): (Vec<&str>, Vec<&str>) = SHAPES.iter().partition(|shape| shape.starts_with('<'));
    let words: Vec<&str> = words.iter().map(|shape| shape.trim_start_matches('<')).collect();
    [anywhere, words].map(|shapes| Regex::new(&shapes.join("|")).expect("the token shapes are constants"))
});

/// Marks every credential with a known shape.
pub(super) fn mark(text: &str, spans: &mut SecretRanges) {
    let [anywhere, words] = &*SHAPE;
    anywhere.find_iter(text).for_each(|hit| spans.mark(hit.range()));
    let mut position = 0;
    while let Some(hit) = words.find_at(text, position) {
        if !edges::begins(text.as_bytes(), hit.start()) || is_plain_name(hit.as_str()) {
            // A shape that is one may begin inside: every shape begins with an ASCII character.
            position = hit.start() + 1;
            continue;
        }
        spans.mark(hit.range());
        position = hit.end();
    }
}

/// `sk-learn-worker-of-the-shop` has the prefix of a key and none of its randomness.
fn is_plain_name(hit: &str) -> bool {
    (hit.starts_with("sk-") || hit.starts_with("pypi-"))
        && !hit.bytes().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
}
