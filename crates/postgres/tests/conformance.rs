//! The suite that every store passes, on a schema of its own in the shared test server.

mod place;

use place::InSchema;

backstop_store::conformance!(InSchema);
