//! The OpenAPI document, made from the routes and the shapes.

use utoipa::openapi::OpenApi;
use utoipa::openapi::info::InfoBuilder;

/// The document's head: what this is.
pub(crate) fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Backstop")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("A durable job engine: submit, work, and look after what fails."))
        .build();
    let mut document = OpenApi::default();
    document.info = info;
    document
}

/// The whole document, as `/api/v1/openapi.json` serves it.
#[must_use]
pub fn document() -> OpenApi {
    crate::routes::described()
}
