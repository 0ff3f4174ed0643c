//! The style and the script: in the program itself, under names that change with what is in them.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const ICON: &str = include_str!("icon.svg");

/// Characters of a hash that tell one version from the next.
const HASH_CHARS: usize = 16;

/// Where the style is.
pub(super) static STYLE_PATH: LazyLock<String> = LazyLock::new(|| path(STYLE, "css"));

/// Where the icon is.
pub(super) static ICON_PATH: LazyLock<String> = LazyLock::new(|| path(ICON, "svg"));

/// Where the script is.
pub(super) static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| path(SCRIPT, "js"));

fn path(text: &str, ending: &str) -> String {
    let hash: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("/page/{}.{ending}", &hash[..HASH_CHARS])
}

/// A file that never changes under its name, so that a browser asks for it once.
pub(super) async fn serve(Path(file): Path<String>) -> Response {
    let asked = format!("/page/{file}");
    let (kind, text) = match asked {
        asked if asked == *STYLE_PATH => ("text/css; charset=utf-8", STYLE),
        asked if asked == *SCRIPT_PATH => ("text/javascript; charset=utf-8", SCRIPT),
        asked if asked == *ICON_PATH => ("image/svg+xml", ICON),
        _ => return (StatusCode::NOT_FOUND, "there is no such file").into_response(),
    };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")], text).into_response()
}
