//! Why the server cannot listen.

use std::io;
use std::net::SocketAddr;

use backstop_store::Error as StoreError;

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {}", because(problem))]
    Address {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        problem: io::Error,
    },
    /// Anybody could call.
    #[error(
        "{address} can be reached from other machines, and there is no token: make one with `backstop token new`, \
         or listen on 127.0.0.1"
    )]
    NoToken {
        /// Which address.
        address: SocketAddr,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot use {file} for TLS: {problem}")]
    Tls {
        /// Which file.
        file: String,
        /// Why not.
        problem: String,
    },
    /// The engine is told something that could never work.
    #[error(transparent)]
    Engine(#[from] backstop::Error),
    /// Whether there is a token cannot be found out.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn because(problem: &io::Error) -> String {
    match problem.kind() {
        io::ErrorKind::AddrInUse => {
            "another program is already listening there; stop it, or choose another port with --listen"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need a privilege that this process does not have".to_owned()
        }
        _ => problem.to_string(),
    }
}
