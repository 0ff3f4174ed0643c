//! The suite that every store passes, on a schema of its own in the shared test server.

mod place;

use place::LongWay;

backstop_store::conformance!(LongWay);
