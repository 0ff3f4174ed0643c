//! Stores as an application meets them: opening one itself, and clocks for tests. Whoever writes a store uses the crate
//! `backstop-store`.
//!
//! ```
//! use std::sync::Arc;
//! use backstop::store::{ManualClock, ModelStore};
//! use backstop::{Backstop, Config};
//!
//! let clock = ManualClock::default();
//! let engine = Backstop::on(Arc::new(ModelStore::new(Arc::new(clock.clone()))), Config::default());
//! assert_eq!(engine.store().info().backend, "memory");
//! ```

pub use backstop_store::{
    Clock, Duty, Error, Finish, ManualClock, ModelStore, Store, StoreInfo, SystemClock,
};
