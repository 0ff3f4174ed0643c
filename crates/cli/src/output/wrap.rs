//! Breaks long sentences between words, so that a terminal does not break them inside.

/// `text` in lines of at most `width` characters, each after the first behind `indent` spaces. The first line is
/// taken to start at `indent` already. Without a width nothing is broken.
pub(crate) fn wrapped(text: &str, width: Option<u16>, indent: usize) -> String {
    let Some(room) = width.map(|width| usize::from(width).saturating_sub(indent)).filter(|room| *room >= 20)
    else {
        return text.to_owned();
    };
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let long = shown(word);
        if used > 0 && used + 1 + long > room {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if used > 0 || !line.is_empty() {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += long;
    }
    lines.push(line);
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// Characters that a terminal shows of a word that may be coloured.
fn shown(word: &str) -> usize {
    backstop_core::text::without_ansi(word).chars().count()
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn sentences_break_between_words() {
        let text = "a sentence of some words that is longer than a line";
        assert_eq!(wrapped(text, None, 4), text);
        assert_eq!(
            wrapped(text, Some(28), 4),
            "a sentence of some words\n    that is longer than a\n    line"
        );
        assert_eq!(wrapped("x  y", Some(80), 0), "x  y", "spaces stay");
        let id = "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f";
        assert_eq!(wrapped(id, Some(24), 0), id, "a word is never broken");
        let painted = "\u{1b}[31mred words\u{1b}[0m and more of them";
        assert_eq!(wrapped(painted, Some(24), 0), "\u{1b}[31mred words\u{1b}[0m and more of\nthem");
    }
}
