//! A RabbitMQ of our own: its node, data, ports and even its name service are apart from any other on the machine.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::account;
use crate::authority::Certificate;
use crate::daemon::{Daemon, DaemonLaunch};
use crate::find;
use crate::port::{self, Port};
use crate::trouble::TestbedError;

/// The script that starts the server. The one in PATH changes to the system's own folders first.
const SCRIPT: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// How long the server may take to greet.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running RabbitMQ; it is killed when this value goes away or this process dies.
#[derive(Debug)]
pub struct Rabbitmq {
    port: Port,
    // Declared before the name service, so that it ends first.
    daemon: Daemon,
    _names: Daemon,
    _other_ports: [Port; 2],
    /// Where it speaks TLS.
    encrypted: Option<Port>,
}

impl Rabbitmq {
    /// Starts the server on a free loopback port; its data and log are in the folder. This takes about five seconds.
    ///
    /// # Errors
    /// When RabbitMQ is not installed or does not come up within a minute.
    pub fn start(folder: impl Into<PathBuf>) -> Result<Self, TestbedError> {
        Self::start_with(folder.into(), None)
    }

    /// The same, and on another port it shows this certificate: see [`Rabbitmq::encrypted_url`].
    ///
    /// # Errors
    /// As [`Rabbitmq::start`].
    pub fn start_encrypted(
        folder: impl Into<PathBuf>,
        certificate: &Certificate,
    ) -> Result<Self, TestbedError> {
        Self::start_with(folder.into(), Some(certificate))
    }

    fn start_with(folder: PathBuf, certificate: Option<&Certificate>) -> Result<Self, TestbedError> {
        find::needed("rabbitmq-server", "rabbitmq-server")?;
        let account = account::account("rabbitmq")?;
        account::prepare(&folder, account.as_ref())?;
        let (port, distribution, names_port) = (port::reserve()?, port::reserve()?, port::reserve()?);
        let encrypted = certificate.map(|_| port::reserve()).transpose()?;
        let mut conf = "log.console = true\n".to_owned();
        if let (Some(certificate), Some(port)) = (certificate, &encrypted) {
            let [file, key] =
                certificate.give(&folder, account.as_ref())?.map(|path| path.display().to_string());
            conf += &format!("listeners.ssl.1 = 127.0.0.1:{}\n", port.number);
            conf += &format!("ssl_options.certfile = {file}\nssl_options.keyfile = {key}\n");
            conf += "ssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\n";
        }
        for (name, text) in [("plugins", "[].\n"), ("rabbitmq.conf", conf.as_str())] {
            let file = folder.join(name);
            fs::write(&file, text).map_err(TestbedError::io(format!("cannot write {}", file.display())))?;
        }
        let launch = |program: PathBuf, arguments: Vec<String>, log: &str| DaemonLaunch {
            program,
            arguments,
            account: account.clone(),
            folder: folder.clone(),
            log: folder.join(log),
            // An orderly end takes longer than a start, and nothing here is worth it.
            stop_signal: "KILL",
        };
        let epmd = find::needed("epmd", "erlang-base")?;
        let words =
            ["-port".to_owned(), names_port.number.to_string(), "-address".into(), "127.0.0.1".into()];
        let mut names = Daemon::new(launch(epmd, words.to_vec(), "epmd.log"));
        names.start(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, names_port.number)).is_ok())?;
        let env = find::needed("env", "coreutils")?;
        let words = arguments(&folder, [port.number, distribution.number, names_port.number]);
        let mut daemon = Daemon::new(launch(env, words, "log"));
        daemon.start(|_| greets(port.number))?;
        Ok(Self { port, daemon, _names: names, _other_ports: [distribution, names_port], encrypted })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port())
    }

    /// Its address with TLS.
    ///
    /// # Panics
    /// When it was started without a certificate.
    pub fn encrypted_url(&self) -> String {
        let port = self.encrypted.as_ref().expect("it was started with a certificate").number;
        format!("amqps://guest:guest@localhost:{port}/%2f")
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port.number
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
        self.daemon.start(|_| greets(port))
    }
}

/// The variables that keep it apart from others, then the script.
fn arguments(folder: &Path, [port, distribution, names]: [u16; 3]) -> Vec<String> {
    let inside = |name: &str| folder.join(name).display().to_string();
    let variables = [
        ("HOME", folder.display().to_string()),
        ("ERL_EPMD_PORT", names.to_string()),
        ("RABBITMQ_NODENAME", format!("backstop-{port}@localhost")),
        ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
        ("RABBITMQ_NODE_PORT", port.to_string()),
        ("RABBITMQ_DIST_PORT", distribution.to_string()),
        ("RABBITMQ_MNESIA_BASE", inside("mnesia")),
        ("RABBITMQ_LOG_BASE", inside("logs")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", inside("plugins")),
        ("RABBITMQ_CONFIG_FILE", inside("rabbitmq")),
        ("RABBITMQ_CONF_ENV_FILE", inside("no-environment")),
        ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}".to_owned()),
        // With it the script becomes the server, in place of a parent that may die and leave it behind.
        ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
    ];
    let variables = variables.into_iter().map(|(name, value)| format!("{name}={value}"));
    variables.chain([SCRIPT.to_owned()]).collect()
}

/// Whether it answers the header of the protocol.
fn greets(port: u16) -> bool {
    let greet = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        stream.read_exact(&mut [0; 7])
    };
    greet().is_ok()
}
