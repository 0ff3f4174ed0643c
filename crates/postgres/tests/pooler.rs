//! The whole suite once more, through a pooler in transaction mode: no statement of one transaction relies on another.

mod place;

use place::BehindPooler;

backstop_store::conformance!(BehindPooler);
