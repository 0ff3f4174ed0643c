//! The suite that every store passes, on tables of its own in the shared test server.

mod place;

use place::InDatabase;

backstop_store::conformance!(InDatabase);
