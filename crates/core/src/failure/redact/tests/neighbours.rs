//! Every family of secrets beside every neighbour: what stands next to a secret never hides it.

use super::planted::FAMILIES;
use super::{Lcg, redact};

/// What output, logs and encodings put beside a value. White space and quotation marks are left out: they end values.
const NEIGHBOURS: &[&str] = &[
    "\0",
    "\u{1}",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{202e}",
    "\u{2028}",
    "\u{2060}",
    "\u{feff}",
    "\u{fffd}",
    "\\n",
    "\\t",
    "\\r",
    "\\0",
    "\\u200b",
    "\\u0000",
    "\\x00",
    "\\",
    "%20",
    "%00",
    "%0A",
    "%09",
    "_",
    "…",
    "·",
    "→",
    "«",
    "»",
    "“",
    "”",
    "‘",
    "’",
    "、",
    "。",
    "（",
    "）",
    "😀",
    "👩‍💻",
    "é",
    "ß",
    "日",
    "я",
    "|",
    "~",
    "^",
    "*",
    "!",
    "$",
];

/// How each neighbour may stand.
const PLACES: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

// F11
#[test]
fn no_neighbour_hides_a_secret() {
    let mut kept = Vec::new();
    let mut combinations = 0;
    for (family, plant) in FAMILIES {
        for neighbour in NEIGHBOURS {
            for (before, after) in PLACES {
                for seed in 0..3 {
                    let planted = plant(&mut Lcg(seed));
                    let beside = format!(
                        "{}{}{}",
                        if before { neighbour } else { "" },
                        planted.secret,
                        if after { neighbour } else { "" }
                    );
                    let text = planted.text.replacen(&planted.secret, &beside, 1);
                    combinations += 1;
                    let redacted = redact(&text);
                    if redacted.contains(&planted.secret) {
                        kept.push(format!("{family} beside {neighbour:?}: {redacted:?}"));
                    }
                }
            }
        }
    }
    assert!(kept.is_empty(), "{} of {combinations} stay readable:\n{}", kept.len(), kept.join("\n"));
}
