//! Links between Markdown files lead somewhere.

use super::{TextFile, Tree, Violation};

/// Links to local files that do not exist.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let exists = |path: &str| {
        path.is_empty()
            || tree.files.iter().any(|file| {
                file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    };
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| broken(page, &exists)).collect()
}

fn broken(page: &TextFile, exists: &dyn Fn(&str) -> bool) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (line, target) in targets(&page.text) {
        let path = target.split('#').next().unwrap_or_default();
        let remote = path.contains("://") || path.starts_with("mailto:");
        if path.is_empty() || remote {
            continue;
        }
        let text = match resolve(&page.path, path) {
            None => format!("the link `{target}` leaves the repository; give the full address"),
            Some(resolved) if !exists(&resolved) => {
                format!("the link `{target}` leads nowhere; fix or remove it")
            }
            Some(_) => continue,
        };
        findings.push(Violation::new(&page.path, line, text));
    }
    findings
}

/// The path from the root of the repository, or nothing when it leads out of it.
pub(super) fn resolve(page: &str, target: &str) -> Option<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = Vec::new();
    let base = if target.starts_with('/') { "" } else { folder };
    for part in base.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// All link targets of a page with their lines; code is left out.
pub(super) fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let sign = ["```", "~~~"].into_iter().find(|sign| start.starts_with(sign));
        match (fence, sign) {
            (None, Some(_)) => fence = sign,
            (Some(open), Some(close)) if open == close => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                found.extend(line_targets(&without_code(line)).into_iter().map(|target| (index + 1, target)));
            }
        }
    }
    found
}

/// The line with its `code` blanked.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let last = parts.len() - 1;
    let keep = |(index, part): (usize, &&str)| {
        // A backtick without a partner opens nothing.
        if index % 2 == 0 || index == last { (*part).to_owned() } else { " ".repeat(part.len()) }
    };
    parts.iter().enumerate().map(keep).collect()
}

fn line_targets(line: &str) -> Vec<String> {
    let inline = line.match_indices("](").map(|(at, sign)| &line[at + sign.len()..]).map(inside_brackets);
    let defined =
        line.strip_prefix('[').and_then(|rest| rest.split_once("]:")).map(|(_, target)| target.trim());
    inline.chain(defined).map(first_word).collect()
}

/// The text up to the bracket that closes the link; targets may hold pairs of brackets themselves.
fn inside_brackets(rest: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return &rest[..at],
            ')' => depth -= 1,
            _ => {}
        }
    }
    rest
}

/// The target without its title and without the angle brackets that protect spaces.
fn first_word(target: &str) -> String {
    match target.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((inside, _)) => inside.to_owned(),
        None => target.split_whitespace().next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[a](b.md#part \"title\") [c](../README.md) [d](https://x.y/z) [e](#here) [f](/docs/) [g](<b.md>)\n\
            `[code](gone.md)`\n```\n[fenced](gone.md)\n```\n[h]: b.md\n";
        assert!(found(check, &[("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")]).is_empty());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "x\n[a](gone.md) and ![p](pic (1).png)\n[b]: lost.md\n[c](../../out.md)\n";
        let findings = found(check, &[("docs/a.md", text)]);
        assert_eq!(findings.len(), 4, "{findings:?}");
        assert!(findings[0].starts_with("docs/a.md:2: the link `gone.md` leads nowhere"));
        assert!(findings[2].starts_with("docs/a.md:3: the link `lost.md`"));
        assert!(findings[3].contains("leaves the repository"));
    }
}
