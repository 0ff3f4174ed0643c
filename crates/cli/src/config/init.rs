//! `backstop config init`: a first `backstop.toml`, with every usual setting in it as a comment.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use crate::problem::Problem;

/// The file, with all settings commented out.
pub(super) const TEMPLATE: &str = include_str!("init.toml");

/// Writes the file; one that exists is never overwritten.
pub(crate) fn write(path: &Path) -> Result<(), Problem> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(TEMPLATE.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Problem::refused("file_exists", format!("{} already exists and was not changed", path.display()))
                .hint("edit it, or name another file with --config FILE")
        }
        _ => Problem::failed("config_unwritable", format!("cannot write {}: {error}", path.display())),
    })
}
