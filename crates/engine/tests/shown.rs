//! Whatever the library exports is shown in an example that runs: in its own documentation, in that of something beside
//! it, on a page of docs/learn or among the examples.
//!
//! A name that no example needs is in [`WITHOUT`], with the reason; a name there that an example shows is a mistake too,
//! so the list can only become shorter.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that no example shows.
const WITHOUT: [(&str, &[&str]); 6] = [
    (
        "handles that are used through the method that makes them, which has an example",
        &["Archive", "HandOffs", "Incidents", "Queues", "Redrive", "Redrives", "Rules"],
    ),
    (
        "answers that are read by their fields",
        &[
            "IncidentAlertLog",
            "AlertLog",
            "RenewedLeases",
            "DutyHealth",
            "Exported",
            "Figures",
            "LostLease",
            "LostReason",
            "Purged",
            "Rehearsal",
            "Trial",
        ],
    ),
    (
        "errors that are passed on",
        &[
            "AlertError",
            "BridgeRefusal",
            "CompleteError",
            "HandOffProblem",
            "PurgeError",
            "RedriveError",
            "RuleProblem",
            "SinkProblem",
        ],
    ),
    (
        "what macros and drivers implement",
        &[
            "AsError",
            "CallerTransaction",
            "IntoReply",
            "Mark",
            "MarkKind",
            "Probe",
            "Reply",
            "TransactionContext",
        ],
    ),
    (
        "for programs that supervise loops of their own",
        &["Health", "HealthWatch", "LoopHealth", "Loops", "LoopHeartbeat", "stop_asked"],
    ),
    ("settings with a method each", &["WorkerTimes"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below `folder` whose name ends like this.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a source is text")
}

/// The words of a text that can be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Code between fences that is compiled and run.
fn examples<'a>(lines: impl Iterator<Item = &'a str>, into: &mut BTreeSet<String>) {
    let (mut inside, mut runs) = (false, false);
    for line in lines.map(str::trim_start) {
        if let Some(kind) = line.strip_prefix("```") {
            inside = !inside;
            runs =
                inside && matches!(kind.trim(), "" | "rust" | "standalone_crate" | "rust,standalone_crate");
        } else if runs {
            into.extend(words(line).map(str::to_owned));
        }
    }
}

/// Names with an example in their own documentation.
fn documented(text: &str, into: &mut BTreeSet<String>) {
    let mut has_example = false;
    for line in text.lines() {
        if let Some(documentation) = line.strip_prefix("///") {
            has_example |= documentation.trim_start().starts_with("```");
        } else if !line.starts_with("#[") {
            into.extend(defined(line).filter(|_| has_example).map(str::to_owned));
            has_example = false;
        }
    }
}

/// Names that examples show.
fn shown(sources: &[PathBuf]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for text in sources.iter().map(|path| read(path)) {
        documented(&text, &mut names);
        for mark in ["///", "//!"] {
            let documentation = text.lines().filter_map(|line| line.trim_start().strip_prefix(mark));
            examples(documentation, &mut names);
        }
    }
    let (mut pages, mut programs) = (Vec::new(), Vec::new());
    files(&root().join("docs/learn"), ".md", &mut pages);
    files(&root().join("examples/examples"), ".rs", &mut programs);
    pages.iter().for_each(|page| examples(read(page).lines(), &mut names));
    programs.iter().for_each(|program| names.extend(words(&read(program)).map(str::to_owned)));
    names
}

/// Names that the crate defines and exports: those that `lib.rs` lists, and those of its public modules.
fn exported(sources: &[PathBuf]) -> BTreeSet<String> {
    let library = sources.iter().find(|path| path.ends_with("src/lib.rs")).expect("a library has a root");
    let text = read(library);
    let mut names = BTreeSet::new();
    for list in text.split("\npub use ").skip(1).filter(|list| !list.starts_with("backstop_")) {
        let list = list.split(';').next().unwrap_or_default();
        let last = list.rsplit_once("::").map_or(list, |(_, last)| last);
        names.extend(words(last).map(str::to_owned));
    }
    let modules = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    for module in modules {
        let is_it = |path: &&PathBuf| {
            path.ends_with(format!("src/{module}.rs")) || path.ends_with(format!("src/{module}/mod.rs"))
        };
        let source = read(sources.iter().find(is_it).expect("a module has a file"));
        names.extend(source.lines().filter_map(defined).map(str::to_owned));
    }
    names
}

/// The name that a line at the edge of a file defines.
fn defined(line: &str) -> Option<&str> {
    let mut rest =
        line.strip_prefix("pub ")?.split_whitespace().skip_while(|word| matches!(*word, "const" | "async"));
    matches!(rest.next()?, "struct" | "enum" | "trait" | "type" | "fn").then(|| words(rest.next()?).next())?
}

#[test]
fn every_exported_name_is_shown_in_an_example_that_runs() {
    let mut sources = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), ".rs", &mut sources);
    let (exported, shown) = (exported(&sources), shown(&sources));
    assert!(
        exported.len() > 80 && exported.contains("Backstop") && exported.contains("Queues"),
        "{exported:?}"
    );
    let without: BTreeSet<String> =
        WITHOUT.iter().flat_map(|(_, names)| *names).map(|name| (*name).to_owned()).collect();
    let missing: Vec<_> = exported.difference(&shown).filter(|name| !without.contains(*name)).collect();
    assert!(missing.is_empty(), "no example that runs shows {missing:?}");
    let listed: Vec<_> =
        without.iter().filter(|name| shown.contains(*name) || !exported.contains(*name)).collect();
    assert!(listed.is_empty(), "take {listed:?} out of the list: an example shows them, or they are gone");
}
