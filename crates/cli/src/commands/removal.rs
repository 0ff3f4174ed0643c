//! Removing what nobody sends to any more: a bridge or a hand-off, with all that waits for it.

use backstop_server::shape::RemovedJson;

use super::consent::consent;
use crate::app::App;
use crate::client::Client;
use crate::output::clean;
use crate::output::figures::counted;
use crate::problem::Problem;

/// What is to be removed.
pub(super) struct Removal {
    pub(super) what: &'static str,
    pub(super) name: String,
    /// What waits for it.
    pub(super) waits: u64,
    /// What that is.
    pub(super) of: &'static str,
    /// It was said already.
    pub(super) yes: bool,
}

/// Removes it when a person says so.
pub(super) async fn remove(client: &Client, app: &App, path: &str, removal: &Removal) -> Result<(), Problem> {
    let (what, name) = (removal.what, clean(&removal.name));
    let waits = counted(removal.waits, removal.of);
    let question = format!("Remove the {what} `{name}`, and {waits} that would never be sent?");
    if !consent(&question, removal.yes, app)? {
        return app.out.page("nothing was removed");
    }
    let removed: RemovedJson = client.delete(path).await?;
    if app.out.json {
        return app.out.document(&removed);
    }
    let dropped = counted(removed.dropped, removal.of);
    app.out.page(&format!("the {what} `{name}` is removed, and {dropped} that waited for it"))
}
