//! Keys that sign jobs and seal their data, and what nobody is to see.

pub use backstop_core::failure::redact::{Redactor, StandardRedactor};
pub use backstop_core::job::{Mask, Masking};
pub use backstop_core::sealing::{SealError, SealingKeys};
pub use backstop_core::signing::{KeyError, SecretKey, SignatureError, SigningKeys};
