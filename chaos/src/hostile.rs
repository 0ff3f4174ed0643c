//! Strings that have broken other systems: control bytes, escapes, odd Unicode, absurd lengths.

/// At least a thousand of them: a hand-picked core, and its members wrapped, repeated and joined.
#[must_use]
pub fn strings() -> Vec<String> {
    let core: Vec<String> = core();
    let mut all = core.clone();
    for (index, text) in core.iter().enumerate() {
        let neighbour = &core[(index * 7 + 3) % core.len()];
        all.push(format!("before {text} after"));
        all.push(format!("{text}{neighbour}"));
        all.push(text.repeat(3));
        all.push(format!("{{\"key\": \"{text}\"}}"));
        all.push(format!("'{text}'; -- {neighbour}"));
        all.push(format!("line one\n{text}\r\nline three"));
        all.push(format!("\u{1b}[31m{text}\u{1b}[0m"));
    }
    all
}

/// Unicode that prints oddly, joins, reverses or has no meaning.
const ODD: &[&str] = &[
    "\u{200b}",
    "\u{200e}",
    "\u{200f}",
    "\u{202a}",
    "\u{202b}",
    "\u{202c}",
    "\u{202d}",
    "\u{202e}",
    "\u{2066}",
    "\u{2067}",
    "\u{2068}",
    "\u{2069}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{ffff}",
    "\u{1fffe}",
    "\u{10ffff}",
    "\u{e000}",
    "\u{ad}",
    "\u{300}",
    "\u{1f469}\u{200d}\u{1f4bb}",
    "\u{1f1e9}\u{1f1ea}",
    "\u{d55c}\u{ae00}",
    "\u{5d0}\u{5d1}",
    "\u{627}\u{644}",
    "I\u{307}",
    "\u{df}\u{1e9e}",
    "\u{fb03}",
];

/// Texts that other programs obey.
const HOSTILE: &[&str] = &[
    "",
    " ",
    "\t",
    "null",
    "undefined",
    "NaN",
    "true",
    "0",
    "-0",
    "1e999",
    "\\",
    "\\\\",
    "\\u0000",
    "\\ud800",
    "\\udc00\\ud800",
    "\"",
    "'",
    "`",
    "';DROP TABLE job;--",
    "\" OR 1=1 --",
    "%00",
    "%s%s%s%n",
    "{}",
    "[]",
    "{{7*7}}",
    "${jndi:ldap://x/a}",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "../../../../etc/passwd",
    "C:\\con\\con",
    "file:///dev/zero",
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://x\u{7}click\u{1b}]8;;\u{7}",
    "\u{1b}P+q544e\u{1b}\\",
    "\u{9b}31m",
    "\r\nSet-Cookie: a=b",
    "\r\n\r\nHTTP/1.1 200 OK",
    "a\0b",
    "\0",
    "\0\0\0",
    "ends in nul\0",
    "\u{7}\u{7}\u{7}",
    "\u{8}\u{8}\u{8}over",
    "NULL",
    "-- ",
    "/* */",
    "1; SELECT 1",
    "$(reboot)",
    "`reboot`",
    "| cat",
    "&& true",
    "> /dev/null",
    "*",
    "?",
    "~",
    "#",
    "!!",
    "-rf",
    "--help",
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "+1",
    "=1+1",
    "a=b&c=d",
    "a;b",
    "a,b",
    "a|b",
];

fn core() -> Vec<String> {
    let mut list: Vec<String> = (0u8..=0x1f).chain([0x7f]).map(|byte| char::from(byte).to_string()).collect();
    list.extend((0x80u32..=0x9f).filter_map(char::from_u32).map(|c| c.to_string()));
    list.extend(ODD.iter().chain(HOSTILE).map(ToString::to_string));
    list.extend([10, 127, 128, 255, 256, 1_000, 2_000, 2_001, 65_536].map(|n| "x".repeat(n)));
    list.extend(["é".repeat(2_001), "\u{1f600}".repeat(3_000), "\0".repeat(5_000), "\u{202e}".repeat(300)]);
    list
}
