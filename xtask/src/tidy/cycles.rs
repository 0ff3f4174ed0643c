//! No long import cycles: files that all need each other can only be read, tested and moved as one.
//!
//! A file imports the file that defines the name it uses, so a parent that only declares modules and hands names on
//! takes no part. Methods and what macros write are not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::lexer::SourceToken;
use super::source::{NamePath, SourceFile};
use super::{Tree, Violation};

/// Files in one cycle at most: a type and its parts may name each other.
const LONGEST: usize = 4;

/// Re-exports that are followed to find where a name is defined.
const MOST_STEPS: usize = 16;

/// The place of a module in its crate: `["worker", "fetch"]` for `src/worker/fetch.rs`, none for the root.
type ModulePath<'a> = Vec<&'a str>;

/// Which files each file of a crate imports.
type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The cycles of every crate that are too long.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, CrateFiles<'_>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| !source.test_file) {
        if let Some((folder, _)) = source.path.split_once("/src/") {
            crates.entry(folder).or_default().add(source);
        }
    }
    crates.into_values().flat_map(|files| too_long(&files.imports())).collect()
}

/// One finding for each set of files that reach each other, if it is too large.
fn too_long(imports: &Imports<'_>) -> Vec<Violation> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reachable(imports, file))).collect();
    let mut findings = Vec::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for (file, others) in &reached {
        let cycle: BTreeSet<&str> =
            others.iter().copied().filter(|other| reached[other].contains(file)).collect();
        if cycle.len() > LONGEST && !done.contains(file) {
            findings.push(Violation::new(file, 1, message(imports, &cycle)));
        }
        done.extend(cycle);
    }
    findings
}

/// Every file that can be reached from one by imports.
fn reachable<'a>(imports: &Imports<'a>, start: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(file) = waiting.pop() {
        for next in &imports[file] {
            if reached.insert(*next) {
                waiting.push(next);
            }
        }
    }
    reached
}

fn message(imports: &Imports<'_>, cycle: &BTreeSet<&str>) -> String {
    let short = |file: &str| file.split_once("/src/").map_or(file, |(_, short)| short).to_owned();
    let arrows: Vec<String> = cycle
        .iter()
        .map(|file| {
            let inside: Vec<String> = imports[file].intersection(cycle).map(|other| short(other)).collect();
            format!("{} -> {}", short(file), inside.join(", "))
        })
        .collect();
    format!(
        "{} files import each other in a cycle, the limit is {LONGEST}; move what they share below them: {}",
        cycle.len(),
        arrows.join("; ")
    )
}

/// The files of one crate by the modules they hold.
#[derive(Default)]
struct CrateFiles<'t> {
    modules: BTreeMap<ModulePath<'t>, ModuleFile<'t>>,
}

/// A file with the names that its `use` items bring in.
struct ModuleFile<'t> {
    path: &'t str,
    /// Names of its own items, methods among them.
    defined: BTreeSet<&'t str>,
    /// Paths outside of `use` items.
    used: Vec<NamePath<'t>>,
    bound: BTreeMap<&'t str, BoundName<'t>>,
    /// Modules of which everything is brought in.
    globs: Vec<Vec<&'t str>>,
}

/// What a `use` item names.
struct BoundName<'t> {
    segments: Vec<&'t str>,
    handed_on: bool,
}

impl<'t> CrateFiles<'t> {
    fn add(&mut self, source: &'t SourceFile<'t>) {
        let file = source.path.split_once("/src/").map_or(source.path, |(_, file)| file);
        let mut module: ModulePath<'t> = file.trim_end_matches(".rs").split('/').collect();
        if module.last() == Some(&"mod") || module == ["lib"] || module == ["main"] {
            module.pop();
        }
        // The root of the program beside a library is a module of that: nothing imports it.
        if module.is_empty() && self.modules.contains_key(&module) {
            module.push("main");
        }
        self.modules.insert(module, ModuleFile::of(source));
    }

    fn imports(&self) -> Imports<'t> {
        self.modules.iter().map(|(module, file)| (file.path, self.imports_of(module, file))).collect()
    }

    fn imports_of(&self, module: &[&'t str], file: &ModuleFile<'t>) -> BTreeSet<&'t str> {
        let used: BTreeSet<&str> =
            file.used.iter().filter_map(|path| path.segments.first().copied()).collect();
        let by_name = file.used.iter().filter_map(|path| self.definition(module, &path.segments, 0));
        // A trait may be brought in for its methods and never be named again.
        let unnamed = file.bound.iter().filter(|(name, bound)| !bound.handed_on && !used.contains(*name));
        let by_use = unnamed.filter_map(|(_, bound)| self.definition(module, &bound.segments, 0));
        let by_glob =
            file.globs.iter().filter_map(|segments| self.walk(module, segments).map(|(_, file, _)| file));
        let all = by_name.chain(by_use).chain(by_glob.map(|file| file.path));
        all.filter(|path| *path != file.path).collect()
    }

    /// The file that defines what a path names; none for modules and for what other crates define.
    fn definition(&self, module: &[&'t str], segments: &[&'t str], steps: usize) -> Option<&'t str> {
        let Some((found, file, name)) = self.walk(module, segments) else {
            let bound = self.modules.get(module)?.bound.get(segments.first()?)?;
            let whole = [&bound.segments, &segments[1..]].concat();
            return (steps < MOST_STEPS && whole != segments)
                .then(|| self.definition(module, &whole, steps + 1))?;
        };
        let name = name?;
        match file.bound.get(name).filter(|_| !file.defined.contains(name)) {
            // What a file only uses itself is not what others find in it by the same name.
            Some(bound) if steps < MOST_STEPS && (bound.handed_on || module.starts_with(&found)) => {
                self.definition(&found, &bound.segments, steps + 1)
            }
            _ => Some(file.path),
        }
    }

    /// Follows the modules of a path: the last of them, its file, and the name that is looked for in it. None when the
    /// path does not begin with a module of this crate.
    fn walk<'s>(
        &'s self,
        module: &[&'t str],
        segments: &[&'t str],
    ) -> Option<(ModulePath<'t>, &'s ModuleFile<'t>, Option<&'t str>)> {
        let mut at = module.to_vec();
        let mut rest = segments;
        match *segments.first()? {
            "crate" => (at, rest) = (Vec::new(), &segments[1..]),
            "self" => rest = &segments[1..],
            "super" => {}
            child => {
                at.push(child);
                self.modules.get(&at)?;
                rest = &segments[1..];
            }
        }
        while let Some((next, behind)) = rest.split_first() {
            if *next == "super" {
                at.pop();
            } else if *next != "self" {
                at.push(next);
                if !self.modules.contains_key(&at) {
                    at.pop();
                    break;
                }
            }
            rest = behind;
        }
        let file = self.modules.get(&at)?;
        Some((at, file, rest.first().copied()))
    }
}

impl<'t> ModuleFile<'t> {
    fn of(source: &'t SourceFile<'t>) -> Self {
        let items = use_items(source);
        let mut file = Self {
            path: source.path,
            defined: defined(source),
            used: Vec::new(),
            bound: BTreeMap::new(),
            globs: Vec::new(),
        };
        let mut latest: Option<&str> = None;
        for path in source.paths().into_iter().filter(|path| !source.is_test(path.line)) {
            let Some((_, handed_on)) = items.iter().find(|(range, _)| range.contains(&(path.end - 1))) else {
                file.used.push(path);
                continue;
            };
            let Some(name) = path.segments.iter().copied().rfind(|segment| *segment != "self") else {
                continue;
            };
            if name == "use" || name == "as" {
                continue;
            }
            if source.tokens[path.end - 1].is("::") {
                file.globs.push(path.segments);
            } else if is_alias(source, &path) {
                let renamed = latest.and_then(|latest| file.bound.remove(latest));
                file.bound.extend(renamed.map(|bound| (name, bound)));
            } else {
                latest = Some(name);
                file.bound.insert(name, BoundName { segments: path.segments, handed_on: *handed_on });
            }
        }
        file
    }
}

/// The names of the items of a file.
fn defined<'t>(source: &'t SourceFile<'t>) -> BTreeSet<&'t str> {
    const ITEMS: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];
    let tokens = source.tokens.windows(3).filter(|three| !source.is_test(three[0].line));
    let item = |three: &'t [SourceToken<'t>]| match three {
        [keyword, name, _] if ITEMS.iter().any(|item| keyword.is(item)) => Some(name.text),
        [keyword, _, name] if keyword.is("macro_rules") => Some(name.text),
        _ => None,
    };
    tokens.filter_map(item).collect()
}

/// Whether a word of a `use` item is the new name behind `as`.
fn is_alias(source: &SourceFile<'_>, path: &NamePath<'_>) -> bool {
    path.end >= 2 && source.tokens[path.end - 2].is("as")
}

/// The places of the `use` items of a file, and whether each hands its names on.
fn use_items(source: &SourceFile<'_>) -> Vec<(Range<usize>, bool)> {
    let tokens = &source.tokens;
    // `impl T + use<'a>` is a bound, not an item.
    let is_bound = |at: usize| tokens.get(at + 1).is_some_and(|next| next.is("<"));
    let begins = (0..tokens.len()).filter(|at| tokens[*at].is("use") && !is_bound(*at));
    let item = |at: usize| {
        let end =
            tokens[at..].iter().position(|token| token.is(";")).map_or(tokens.len(), |length| at + length);
        let public = at > 0 && (tokens[at - 1].is("pub") || tokens[at - 1].is(")"));
        (at..end, public)
    };
    begins.map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    /// Files `a0.rs` and so on, each of which uses a name of the next one.
    fn ring(folder: &str, length: usize) -> Vec<(String, String)> {
        let file = |number: usize| {
            let next = (number + 1) % length;
            (
                format!("{folder}/src/a{number}.rs"),
                format!("use crate::a{next}::T{next};\nfn f(x: T{next}) {{}}\n"),
            )
        };
        (0..length).map(file).collect()
    }

    fn findings(files: &[(String, String)]) -> Vec<String> {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        found(check, &files)
    }

    /// Whether five files are in a cycle when the fourth of a chain and two more files are as given.
    fn closes(more: &[(&str, &str)]) -> bool {
        let mut files = ring("crates/x", 5);
        files.truncate(4);
        files.extend(more.iter().map(|(path, text)| (format!("crates/x/src/{path}"), (*text).to_owned())));
        !findings(&files).is_empty()
    }

    #[test]
    fn a_long_cycle_is_found_with_its_files() {
        let found = findings(&ring("crates/x", 5));
        assert_eq!(
            found,
            [
                "crates/x/src/a0.rs:1: 5 files import each other in a cycle, the limit is 4; move what they share \
              below them: a0.rs -> a1.rs; a1.rs -> a2.rs; a2.rs -> a3.rs; a3.rs -> a4.rs; a4.rs -> a0.rs"
            ]
        );
    }

    #[test]
    fn short_cycles_and_chains_pass() {
        assert_eq!(findings(&ring("crates/x", 4)), [""; 0]);
        assert!(!closes(&[("a4.rs", "pub struct T4;\n")]));
        let two: Vec<_> = ring("crates/x", 3).into_iter().chain(ring("crates/y", 3)).collect();
        assert_eq!(findings(&two), [""; 0]);
    }

    #[test]
    fn every_way_to_name_a_file_is_an_import() {
        for text in [
            "use crate::a0::T0;\nfn f(x: T0) {}\n",
            "use super::a0::T0 as Other;\nfn f(x: Other) {}\n",
            "use crate::{a0, b};\nfn f(x: a0::T0) {}\n",
            "use crate::{b, a0::{self, T1}};\nfn f(x: a0::T0) {}\n",
            "fn f(x: crate::a0::T0) {}\n",
            "use crate::a0::Trait as _;\n",
            "use crate::a0::*;\n",
            "pub use crate::a0::T0;\nfn f(x: T0) {}\n",
        ] {
            assert!(closes(&[("a4.rs", text), ("b.rs", "")]), "{text}");
        }
    }

    #[test]
    fn a_macro_is_a_name_too() {
        let last = "macro_rules! t4 {\n    () => {};\n}\npub(crate) use t4;\nfn f(x: crate::a0::T0) {}\n";
        let mut files = ring("crates/x", 5);
        files[3].1 = "use crate::a4::t4;\nt4!();\n".to_owned();
        files[4].1 = last.to_owned();
        assert_eq!(findings(&files).len(), 1);
    }

    #[test]
    fn tests_and_names_that_are_only_handed_on_are_no_imports() {
        for text in [
            "#[cfg(test)]\nmod tests {\n    use crate::a0::T0;\n}\n",
            "pub use crate::a0::T0;\n",
            "// crate::a0::T0\nconst A: &str = \"crate::a0::T0\";\n",
            "fn f(a0: u8) -> u8 {\n    a0\n}\n",
        ] {
            assert!(!closes(&[("a4.rs", text)]), "{text}");
        }
    }

    #[test]
    fn a_parent_takes_part_with_what_it_defines() {
        let child = ("a4/part.rs", "pub struct T4;\nfn f(x: crate::a0::T0) {}\n");
        let parent = "mod part;\npub use part::T4;\n";
        assert!(closes(&[("a4/mod.rs", parent), child]), "through the parent to the child");
        let found = |parent: &str, child: &str| {
            let mut files = ring("crates/x", 5);
            files.truncate(4);
            files.push(("crates/x/src/a4/mod.rs".to_owned(), parent.to_owned()));
            files.push(("crates/x/src/a4/part.rs".to_owned(), child.to_owned()));
            findings(&files).concat()
        };
        assert!(found(parent, child.1).contains("5 files") && !found(parent, child.1).contains("mod.rs"));
        // A function may be called like a module that its file uses.
        let parent = "mod part;\npub use part::T4;\nuse part::a0;\n";
        let child = "use crate::a0;\npub struct T4;\npub fn a0(x: a0::T0) {}\n";
        assert!(found(parent, child).contains("5 files"));
        let parent = "mod part;\npub struct T4;\nfn f() {\n    part::run();\n}\n";
        let child = "use super::T4;\npub fn run(x: T4, y: crate::a0::T0) {}\n";
        assert!(found(parent, child).contains("6 files"));
    }
}
