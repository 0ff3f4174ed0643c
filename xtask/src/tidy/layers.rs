//! The arrows between the crates point one way; this check reads them out of the Cargo.toml files.

use super::manifest::{self, Dependency};
use super::{Tree, Violation};

/// What a crate may depend on inside the workspace.
struct Layer {
    package: &'static str,
    may_use: &'static [&'static str],
    /// Allowed too, but only behind a feature.
    may_offer: &'static [&'static str],
}

const STORES: &[&str] = &["backstop-sqlite", "backstop-postgres", "backstop-mysql"];
const UPPER: &[&str] = &["backstop", "backstop-core", "backstop-store"];
const SERVER: &[&str] = &["backstop", "backstop-core", "backstop-store", "backstop-kinds"];
const CONTRACT: &[&str] = &["backstop-core", "backstop-store"];
const SERVERS: &[&str] = &["backstop-core", "backstop-store", "backstop-sql"];

/// The layers from the bottom to the top. The program `backstop-cli` stands above all and may use anything.
const LAYERS: [Layer; 13] = [
    Layer { package: "backstop-core", may_use: &[], may_offer: &[] },
    Layer { package: "backstop-macros", may_use: &[], may_offer: &[] },
    Layer { package: "backstop-process", may_use: &[], may_offer: &[] },
    Layer { package: "backstop-store", may_use: &["backstop-core"], may_offer: &[] },
    Layer { package: "backstop-sqlite", may_use: CONTRACT, may_offer: &[] },
    Layer { package: "backstop-sql", may_use: CONTRACT, may_offer: &[] },
    Layer { package: "backstop-postgres", may_use: SERVERS, may_offer: &[] },
    Layer { package: "backstop-mysql", may_use: SERVERS, may_offer: &[] },
    Layer {
        package: "backstop",
        may_use: &["backstop-core", "backstop-store", "backstop-macros", "backstop-process"],
        may_offer: STORES,
    },
    Layer { package: "backstop-bridges", may_use: UPPER, may_offer: &[] },
    Layer { package: "backstop-kinds", may_use: &["backstop", "backstop-process"], may_offer: &[] },
    Layer { package: "backstop-server", may_use: SERVER, may_offer: &[] },
    Layer { package: "backstop-testing", may_use: UPPER, may_offer: &["backstop-sqlite"] },
];

const TOP: &str = "backstop-cli";

/// Crates that would let clock, randomness or a runtime into the pure core.
const NOT_IN_CORE: [&str; 4] = ["tokio", "rand", "fastrand", "tracing"];

/// Error types of programs; a library has its own enum.
const NOT_BELOW_TOP: [&str; 2] = ["anyhow", "miette"];

/// Reads every crates/*/Cargo.toml.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let mut findings = Vec::new();
    for file in tree.files {
        let Some(folder) =
            file.path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let package = manifest::package_name(&file.text).unwrap_or_else(|| folder.to_owned());
        if package == TOP {
            continue;
        }
        let Some(layer) = LAYERS.iter().find(|layer| layer.package == package) else {
            findings.push(Violation::new(
                &file.path,
                1,
                format!("crate `{package}` has no layer; give it one in xtask/src/tidy/layers.rs"),
            ));
            continue;
        };
        let complaints = manifest::dependencies(&file.text).into_iter().filter_map(|dependency| {
            complaint(layer, &dependency).map(|text| Violation::new(&file.path, dependency.line, text))
        });
        findings.extend(complaints);
    }
    findings
}

fn complaint(layer: &Layer, dependency: &Dependency) -> Option<String> {
    let (package, name) = (layer.package, dependency.package.as_str());
    if NOT_BELOW_TOP.contains(&name) {
        return Some(format!("`{name}` belongs to programs; give {package} an error enum of its own"));
    }
    if package == "backstop-core" && NOT_IN_CORE.contains(&name) {
        return Some(format!("`{name}` in the pure core; pass time, ids and randomness in as values"));
    }
    let internal = name == "backstop" || name.starts_with("backstop-");
    if !internal || layer.may_use.contains(&name) {
        return None;
    }
    if layer.may_offer.contains(&name) {
        let text = format!("{package} may have `{name}` only behind a feature; make it `optional = true`");
        return (!dependency.optional).then_some(text);
    }
    Some(format!(
        "{package} must not depend on `{name}`; move the shared part down to a layer that both may use"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn manifest(package: &str, dependencies: &str) -> String {
        format!("[package]\nname = \"{package}\"\n[dependencies]\n{dependencies}\n")
    }

    fn findings(package: &str, dependencies: &str) -> Vec<String> {
        found(check, &[("crates/x/Cargo.toml", &manifest(package, dependencies))])
    }

    #[test]
    fn arrows_that_point_down_pass() {
        assert!(findings("backstop-core", "serde.workspace = true").is_empty());
        assert!(
            findings("backstop-sqlite", "backstop-core.workspace = true\nbackstop-store = \"1\"").is_empty()
        );
        let optional = "backstop-sqlite = { workspace = true, optional = true }";
        assert!(findings("backstop", optional).is_empty());
        assert!(findings("backstop-cli", "backstop-sqlite = \"1\"\nmiette = \"7\"").is_empty());
        assert!(findings("backstop-store", "[dev-dependencies]\nbackstop-sqlite = \"1\"").is_empty());
    }

    #[test]
    fn arrows_that_point_up_are_found() {
        let found = findings("backstop-core", "backstop-store.workspace = true");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/x/Cargo.toml:4: backstop-core must not depend on `backstop-store`")
        );
        assert_eq!(findings("backstop-server", "backstop-sqlite = \"1\"").len(), 1);
        assert_eq!(findings("backstop-store", "s = { package = \"backstop\", version = \"1\" }").len(), 1);
    }

    #[test]
    fn what_must_be_optional_and_what_is_not_allowed_below_is_found() {
        assert!(findings("backstop", "backstop-sqlite.workspace = true")[0].contains("optional = true"));
        assert!(findings("backstop-store", "anyhow = \"1\"")[0].contains("belongs to programs"));
        assert!(findings("backstop-core", "tokio = \"1\"")[0].contains("pure core"));
        assert!(findings("backstop-new", "")[0].contains("has no layer"));
    }
}
