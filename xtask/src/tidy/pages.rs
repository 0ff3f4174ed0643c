//! Every page of docs/ can be found from its index.

use super::links::{resolve, targets};
use super::{Tree, Violation};

/// Where readers begin.
const INDEX: &str = "docs/README.md";

/// Pages that no way of links leads to.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let text_of =
        |path: &str| tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    if text_of(INDEX).is_none() {
        return vec![Violation::new(INDEX, 1, "the index of the documents is missing; restore it")];
    }
    let mut reached = vec![INDEX.to_owned()];
    let mut next = 0;
    while let Some(page) = reached.get(next).cloned() {
        for (_, target) in targets(text_of(&page).unwrap_or_default()) {
            let path = target.split('#').next().unwrap_or_default();
            let Some(path) = resolve(&page, path) else { continue };
            // A way through other folders is none: whoever looks for a page does not read the changelog.
            if is_page(&path) && text_of(&path).is_some() && !reached.contains(&path) {
                reached.push(path);
            }
        }
        next += 1;
    }
    let pages = tree.files.iter().filter(|file| is_page(&file.path) && !reached.contains(&file.path));
    let text = format!("no link leads here from {INDEX}; add the page there, with what it answers");
    pages.map(|page| Violation::new(&page.path, 1, text.clone())).collect()
}

fn is_page(path: &str) -> bool {
    path.starts_with("docs/") && path.ends_with(".md")
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn pages_that_links_lead_to_pass() {
        let files = [
            (INDEX, "[a](learn/a.md#part) [r](../README.md) [b](https://x.y/docs/b.md)\n"),
            ("docs/learn/a.md", "[back](../README.md) [b](deep/b.md)\n"),
            ("docs/learn/deep/b.md", ""),
            ("docs/c.svg", ""),
            ("README.md", ""),
        ];
        assert!(found(check, &files).is_empty());
    }

    #[test]
    fn pages_that_nobody_finds_are_found() {
        let files = [
            (INDEX, "[r](../README.md) `[b](b.md)`\n"),
            ("docs/a.md", "[b](b.md)"),
            ("docs/b.md", "[a](a.md)"),
            ("README.md", "[a](docs/a.md)"),
        ];
        let findings = found(check, &files);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("docs/a.md:1: no link leads here from docs/README.md"));
        assert!(found(check, &[])[0].contains("is missing"));
    }
}
