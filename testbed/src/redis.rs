//! A Redis server of our own, which writes everything to its append-only file.
//!
//! Owns how the server is configured, and speaks just enough of its protocol to give it orders.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::account;
use crate::daemon::{Daemon, DaemonLaunch};
use crate::find;
use crate::port::{self, Port};
use crate::settings::DatabaseSettings;
use crate::trouble::TestbedError;

/// How often a start with another port is tried when somebody took the first.
const PORT_TRIES: usize = 5;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running Redis; it is stopped when this value goes away, and killed when this process dies.
#[derive(Debug)]
pub struct Redis {
    port: Port,
    daemon: Daemon,
    /// Where it speaks TLS.
    encrypted: Option<Port>,
}

impl Redis {
    /// Starts the server on a free loopback port. A durable one flushes its file before it confirms a write, any other
    /// flushes it every second.
    ///
    /// # Errors
    /// When Redis is not installed or does not come up within a minute; the message ends with the end of its log.
    pub fn start(settings: &DatabaseSettings) -> Result<Self, TestbedError> {
        let program = find::needed("redis-server", "redis-server")?;
        let account = account::account("redis")?;
        account::prepare(&settings.folder, account.as_ref())?;
        let encrypted = settings.certificate.as_ref().map(|_| port::reserve()).transpose()?;
        let tls = tls_arguments(settings, encrypted.as_ref(), account.as_ref())?;
        let mut tries = 1;
        loop {
            let port = port::reserve()?;
            let mut daemon = Daemon::new(DaemonLaunch {
                program: program.clone(),
                arguments: arguments(settings, port.number).into_iter().chain(tls.clone()).collect(),
                account: account.clone(),
                folder: settings.folder.clone(),
                log: settings.folder.join("log"),
                stop_signal: "TERM",
            });
            let ready = |_| order(port.number, "PING").is_ok_and(|said| said == "PONG");
            match daemon.start(ready) {
                Ok(()) => return Ok(Self { port, daemon, encrypted }),
                Err(trouble) if trouble.is_taken_port() && tries < PORT_TRIES => tries += 1,
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Its address with TLS.
    ///
    /// # Panics
    /// When it was started without a certificate.
    pub fn encrypted_url(&self) -> String {
        let port = self.encrypted.as_ref().expect("it was started with a certificate").number;
        format!("rediss://localhost:{port}")
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The id of the server's process, when it runs.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.pid()
    }

    /// Where the server writes its log.
    pub fn log(&self) -> &Path {
        &self.daemon.launch.log
    }

    /// Ends the server like a crash.
    ///
    /// # Errors
    /// When a process does not end.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        self.daemon.kill()
    }

    /// Starts the server again on the same port and data.
    ///
    /// # Errors
    /// When it does not come up within a minute.
    pub fn start_again(&mut self) -> Result<(), TestbedError> {
        let port = self.port();
        self.daemon.start(|_| order(port, "PING").is_ok_and(|said| said == "PONG"))
    }

    /// Gives one order, such as `FLUSHALL`, and returns the answer; only those with one text as the answer.
    ///
    /// # Errors
    /// When the server is unavailable or refuses.
    pub fn order(&self, words: &str) -> Result<String, TestbedError> {
        order(self.port(), words)
    }
}

fn arguments(settings: &DatabaseSettings, port: u16) -> Vec<String> {
    let folder = settings.folder.display().to_string();
    let port = port.to_string();
    let flush = if settings.durable { "always" } else { "everysec" };
    let clients = settings.max_connections.to_string();
    let own = [
        ("bind", "127.0.0.1"),
        ("port", port.as_str()),
        ("dir", folder.as_str()),
        ("maxclients", clients.as_str()),
        ("appendonly", "yes"),
        ("appendfsync", flush),
        // No snapshots besides: the append-only file has everything.
        ("save", ""),
    ];
    let extra = settings.extra.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    own.into_iter().chain(extra).flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]).collect()
}

/// What makes it speak TLS on a port of its own.
fn tls_arguments(
    settings: &DatabaseSettings,
    port: Option<&Port>,
    account: Option<&account::SystemUser>,
) -> Result<Vec<String>, TestbedError> {
    let (Some(certificate), Some(port)) = (&settings.certificate, port) else { return Ok(Vec::new()) };
    let [cert, key] = certificate.give(&settings.folder, account)?.map(|path| path.display().to_string());
    let port = port.number.to_string();
    let own = [
        ("tls-port", port.as_str()),
        ("tls-cert-file", cert.as_str()),
        ("tls-key-file", key.as_str()),
        // Nobody has to show a certificate of their own.
        ("tls-auth-clients", "no"),
        ("tls-ca-cert-file", cert.as_str()),
    ];
    Ok(own.into_iter().flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]).collect())
}

fn order(port: u16, words: &str) -> Result<String, TestbedError> {
    let cannot =
        |error: std::io::Error| TestbedError::new(format!("redis does not answer `{words}`: {error}"));
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(cannot)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(cannot)?;
    stream.write_all(format!("{words}\r\n").as_bytes()).map_err(cannot)?;
    answer(&mut BufReader::new(stream))
        .map_err(cannot)?
        .map_err(|said| TestbedError::new(format!("redis refuses `{words}`: {said}")))
}

/// Reads one answer: a line behind `+`, `:` or `-`, or a text whose length comes first behind `$`.
fn answer(from: &mut impl BufRead) -> std::io::Result<Result<String, String>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).unwrap_or(("", ""));
    let length = rest.parse::<usize>().ok();
    match (kind, length) {
        ("+" | ":", _) => Ok(Ok(rest.to_owned())),
        ("$", Some(length)) => {
            let mut text = vec![0; length];
            from.read_exact(&mut text)?;
            Ok(Ok(String::from_utf8_lossy(&text).into_owned()))
        }
        _ => Ok(Err(line.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let read = |text: &str| answer(&mut text.as_bytes()).unwrap();
        assert_eq!(read("+PONG\r\n"), Ok("PONG".to_owned()));
        assert_eq!(read(":12\r\n"), Ok("12".to_owned()));
        assert_eq!(read("$4\r\na\r\nb\r\n"), Ok("a\r\nb".to_owned()));
        assert_eq!(read("-ERR no\r\n"), Err("-ERR no".to_owned()));
        assert!(read("").is_err());
    }
}
