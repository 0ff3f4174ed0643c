//! Reads the dependencies out of a Cargo.toml, with the line of each.
//!
//! A hand-made reader of the few forms that dependencies take; a TOML library would not tell the line numbers and
//! would be most of what this program compiles.

/// A dependency that ships with the crate: development dependencies are left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package, also when the manifest gives it another name.
    pub(crate) package: String,
    pub(crate) line: usize,
    /// Behind a feature.
    pub(crate) optional: bool,
}

/// All dependencies of the sections `dependencies` and `build-dependencies`, for any target.
pub(crate) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut section = Section::Other;
    let mut depth = 0;
    for (index, raw) in manifest.lines().enumerate() {
        let line = without_comment(raw).trim();
        if line.is_empty() {
            continue;
        }
        if depth == 0 && line.starts_with('[') {
            section = Section::of(line);
            if let Section::One(name) = &section {
                found.push(Dependency { package: name.clone(), line: index + 1, optional: false });
            }
            continue;
        }
        if depth == 0 && matches!(section, Section::Table) {
            found.push(Dependency { package: key(line), line: index + 1, optional: false });
        }
        if !matches!(section, Section::Other)
            && let Some(dependency) = found.last_mut()
        {
            read_settings(line, dependency);
        }
        depth += nesting(line);
    }
    found
}

/// The value of `name` in the section `package`.
pub(crate) fn package_name(manifest: &str) -> Option<String> {
    let lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[package]").skip(1);
    let mut own = lines.take_while(|line| !line.starts_with('['));
    own.find_map(|line| quoted_value(line, "name"))
}

enum Section {
    /// `[dependencies]`: each key is a dependency.
    Table,
    /// `[dependencies.name]`: the section is one dependency.
    One(String),
    Other,
}

impl Section {
    fn of(header: &str) -> Self {
        let name = header.trim_start_matches('[').trim_end_matches(']').trim();
        for kind in ["dependencies", "build-dependencies"] {
            // A section for some targets only reads `target.'cfg(unix)'.dependencies`.
            let Some(place) = name.rfind(kind) else { continue };
            if place > 0 && !name[..place].ends_with('.') {
                continue;
            }
            match &name[place + kind.len()..] {
                "" => return Self::Table,
                rest => {
                    if let Some(one) = rest.strip_prefix('.') {
                        return Self::One(one.trim_matches(['"', '\'']).to_owned());
                    }
                }
            }
        }
        Self::Other
    }
}

fn key(line: &str) -> String {
    let end = line.find(['=', '.', ' ', '\t']).unwrap_or(line.len());
    line[..end].trim_matches(['"', '\'']).to_owned()
}

fn read_settings(line: &str, dependency: &mut Dependency) {
    let tight: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    dependency.optional |= tight.contains("optional=true");
    if let Some(package) = quoted_value(&tight, "package") {
        dependency.package = package;
    }
}

/// The text between quotes after `name =`, where the name is a whole word.
fn quoted_value(line: &str, name: &str) -> Option<String> {
    let mut from = 0;
    while let Some(found) = line[from..].find(name) {
        let start = from + found;
        let end = start + name.len();
        let whole =
            !line[..start].ends_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == '"');
        if whole
            && let Some(value) = line[end..].trim_start().strip_prefix('=')
            && let Some(value) = value.trim_start().strip_prefix('"')
        {
            return value.split('"').next().map(str::to_owned);
        }
        from = end;
    }
    None
}

fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

/// How many arrays and inline tables the line opens beyond those it closes.
fn nesting(line: &str) -> i32 {
    let mut quoted = false;
    line.chars()
        .map(|c| match c {
            '"' => {
                quoted = !quoted;
                0
            }
            '[' | '{' if !quoted => 1,
            ']' | '}' if !quoted => -1,
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_dependency_is_read() {
        let manifest = "[package]\nname = \"x\" # not y\n\n[dependencies]\na.workspace = true\n\
            b = { version = \"1\", optional = true, features = [\n  \"c\",\n  \"d\",\n] } # e = 1\n\
            \"f\" = \"1\"\ng = { package = \"real-g\", version = \"1\" }\n\n[dependencies.h]\nversion = \"1\"\n\
            optional = true\n\n[dev-dependencies]\ni = \"1\"\n\n[dev-dependencies.j]\nversion = \"1\"\n\n\
            [target.'cfg(unix)'.dependencies]\nk = \"1\"\n\n[build-dependencies]\nl = \"1\"\n\n[features]\nm = []\n";
        let found = dependencies(manifest);
        let names: Vec<(&str, usize, bool)> =
            found.iter().map(|d| (d.package.as_str(), d.line, d.optional)).collect();
        let expected = [
            ("a", 5, false),
            ("b", 6, true),
            ("f", 10, false),
            ("real-g", 11, false),
            ("h", 13, true),
            ("k", 24, false),
            ("l", 27, false),
        ];
        assert_eq!(names, expected);
        assert_eq!(package_name(manifest).as_deref(), Some("x"));
    }
}
