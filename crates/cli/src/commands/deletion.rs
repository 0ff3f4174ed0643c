//! Removing what nobody sends to any more: a bridge or a hand-off, with all that waits for it.

use backstop_server::shape::DeletedJson;

use super::consent::consent;
use crate::app::App;
use crate::client::Client;
use crate::output::clean;
use crate::output::figures::counted;
use crate::problem::Problem;

/// What is to be removed.
pub(super) struct Unused {
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
pub(super) async fn remove(client: &Client, app: &App, path: &str, deletion: &Unused) -> Result<(), Problem> {
    let (what, name) = (deletion.what, clean(&deletion.name));
    let waits = counted(deletion.waits, deletion.of);
    let question = format!("Remove the {what} `{name}`, and {waits} that would never be sent?");
    if !consent(&question, deletion.yes, app)? {
        return app.out.page("nothing was removed");
    }
    let removed: DeletedJson = client.delete(path).await?;
    if app.out.json {
        return app.out.document(&removed);
    }
    let dropped = counted(removed.dropped, deletion.of);
    app.out.page(&format!("the {what} `{name}` is removed, and {dropped} that waited for it"))
}
