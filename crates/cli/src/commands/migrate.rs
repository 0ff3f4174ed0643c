//! `backstop migrate`: creates the store, or brings it up to this version.

use serde_json::json;

use crate::app::{App, sqlite_path};
use crate::output::clean;
use crate::problem::{Exit, Problem};

pub(crate) async fn run(app: &App) -> Result<Exit, Problem> {
    let existed = sqlite_path(&app.settings.store).is_some_and(|path| path.exists());
    // Opening is migrating: every store checks its version first and refuses one that is newer than this program.
    let engine = app.open().await?;
    let info = engine.store().info();
    if app.out.json {
        app.out
            .document(&json!({ "backend": info.backend, "location": info.location, "created": !existed }))?;
    } else {
        let did = if existed { "is up to date" } else { "was created" };
        app.out.page(&format!("the {} store {} {did}", info.backend, clean(&info.location)))?;
    }
    Ok(Exit::Done)
}
