//! Where a setting was made.

use std::fmt;

use serde::Serialize;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SettingSource {
    Flag,
    Env,
    File,
    Default,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flag => "flag",
            Self::Env => "environment",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}
