//! Who calls, and what they may do. Every request passes [`identify`] once; every route checks what it [`needs`].
//!
//! - [`token`], [`grant`]: a secret and what it gives. [`tokens`]: all of them, looked up; [`stored_token`]: as stored.
//! - [`guard`]: who is it, and may they; [`watch`]: and still. [`rate`], [`throttle`]: how often.
//! - [`peer`]: from where. [`origin`]: by which name, and from which page.
//!
//! [`needs`]: crate::Needs

mod caller;
mod grant;
mod guard;
pub(crate) mod origin;
pub(crate) mod peer;
mod rate;
mod scope;
mod settings;
mod stored_token;
pub(crate) mod throttle;
mod token;
mod tokens;
mod watch;

pub use caller::Caller;
pub(crate) use caller::RESERVED;
pub use grant::{TokenGrant, TokenGrantError};
pub(crate) use guard::{Identity, admit, admit_rate, check as check_needs, count_wrong, identify};
pub use peer::{Network, NetworkError, Peer};
pub use rate::Rate;
pub use scope::{Scope, UnknownScope};
pub use settings::AccessSettings;
pub use token::{HashError, NoRandomness, Token, TokenHash, looks_like_token};
pub(crate) use tokens::TokenLookup;
pub use tokens::{TokenError, TokenInfo, TokenOrigin, TokenRequest, Tokens};
pub(crate) use watch::TokenWatchGuard;
