//! From a host's name to its addresses.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// What [`Resolver::resolve`] answers.
pub type ResolveFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Finds the addresses of a host. It is asked once for each connection, and what it answers is what is connected to.
pub trait Resolver: Send + Sync {
    /// All addresses of `host`.
    fn resolve<'a>(&'a self, host: &'a str) -> ResolveFuture<'a>;
}

/// The machine's own way.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> ResolveFuture<'a> {
        Box::pin(async move {
            // The port is nobody's: only the addresses are taken.
            Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
        })
    }
}
