//! Secrets that are planted into jobs, and the search for them in everything that is kept or told (F11).
//!
//! - [`families`]: makes them, in the text they arrive in.
//! - [`leak`]: jobs that give them away.
//! - [`finder`]: looks for readable pieces of them in any bytes.
//! - [`dump`]: every table of a store as bytes, without what a job was given and gave back.

pub mod dump;
pub mod families;
pub mod finder;
pub mod leak;

/// One planted secret.
#[derive(Debug, Clone)]
pub struct PlantedSecret {
    /// What kind of secret it is.
    pub family: &'static str,
    /// What must not be readable anywhere.
    pub hidden: String,
    /// An error text, a line of a log or an address that holds it.
    pub text: String,
}
