//! A PostgreSQL with a synchronous standby, and a proxy that always leads to the one that takes writes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use backstop_testbed::{DatabaseSettings, Postgres, Proxy, TestbedError};

use crate::CampaignFolder;

/// The two servers.
#[derive(Debug)]
pub struct Replicas {
    // Declared before the folder: the servers stop first.
    primary: Postgres,
    standby: Postgres,
    proxy: Proxy,
    generation: usize,
    folder: CampaignFolder,
}

fn loopback(server: &Postgres) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))
}

impl Replicas {
    /// Starts both; every commit is confirmed by both disks.
    ///
    /// # Errors
    /// When a server does not come up.
    pub fn start(name: &str) -> Result<Self, TestbedError> {
        let folder = CampaignFolder::new(name);
        let primary = Postgres::start(DatabaseSettings::new(folder.join("database-0")).durable())?;
        let standby = primary.standby(folder.join("database-1"))?;
        primary.make_synchronous()?;
        let proxy = Proxy::start(loopback(&primary))?;
        Ok(Self { primary, standby, proxy, generation: 1, folder })
    }

    /// The address that always leads to the primary.
    #[must_use]
    pub fn url(&self) -> String {
        self.proxy.url(&self.primary.url())
    }

    /// Where the journals are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the primary, promotes its standby and leads everybody there.
    ///
    /// # Errors
    /// When the standby cannot be promoted.
    pub fn fail_over(&mut self) -> Result<(), TestbedError> {
        self.primary.kill()?;
        self.standby.promote()?;
        self.proxy.point_to(loopback(&self.standby));
        Ok(())
    }

    /// Gives the promoted server a synchronous standby of its own; the killed one is given up.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn restore(&mut self) -> Result<(), TestbedError> {
        self.generation += 1;
        let next = self.standby.standby(self.folder.join(&format!("database-{}", self.generation)))?;
        self.primary = std::mem::replace(&mut self.standby, next);
        self.primary.make_synchronous()
    }
}
