//! The routes of the resources, gathered one by one.

use utoipa_axum::router::UtoipaMethodRouter;

use crate::api::Api;
use crate::route::RouteNeeds;

/// Routes under construction.
#[derive(Default)]
pub(crate) struct Routes {
    pub(crate) added: Vec<(RouteNeeds, UtoipaMethodRouter<Api>)>,
}

impl Routes {
    /// Adds the handlers of one path.
    pub(crate) fn add(mut self, needs: RouteNeeds, handlers: UtoipaMethodRouter<Api>) -> Self {
        self.added.push((needs, handlers));
        self
    }
}
