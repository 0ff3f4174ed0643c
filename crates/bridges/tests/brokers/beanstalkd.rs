//! beanstalkd.

use std::io::{Read, Write};
use std::net::TcpStream;

use backstop_bridges::{BridgeSettings, SourceSettings};
use backstop_testbed::{Beanstalkd, Folder, Proxy};

use crate::cases;
use crate::killed::a_hundred_processes_are_killed_before_the_ack;
use crate::stage::{Stage, TestBroker, TestEngine};

struct BeanstalkdServer(Beanstalkd);

impl TestBroker for BeanstalkdServer {
    fn port(&self) -> u16 {
        self.0.port()
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn make_queue(&self, _: &str) {
        // A tube is there as soon as somebody names it.
    }

    fn needs_queue(&self) -> bool {
        false
    }

    fn kill(&mut self, _: &Proxy) {
        self.0.kill().expect("it ends");
    }

    fn start_again(&mut self, _: &Proxy) {
        self.0.start_again().expect("it starts");
    }

    fn ack_bytes(&self) -> &'static [u8] {
        b"delete "
    }

    /// Kicks what is buried back into its tube, and reads it there.
    fn abandoned(&self, queue: &str) -> Vec<Vec<u8>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).expect("the server is there");
        write!(stream, "use {queue}\r\nkick 100\r\nquit\r\n").expect("it takes orders");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("it answers");
        assert!(said.contains("KICKED 1"), "{said}");
        crate::stage::read_all(&BridgeSettings::new(self.url(), SourceSettings::new(queue, "charge")))
    }
}

fn stage() -> Stage {
    let folder = Folder::new("bridge-beanstalkd").expect("a folder");
    let server = Beanstalkd::start(folder.join("beanstalkd")).expect("a server");
    Stage::new(folder, Box::new(BeanstalkdServer(server)))
}

#[tokio::test(flavor = "multi_thread")]
async fn beanstalkd() {
    // B1, B4, B5, B6
    cases::all(stage()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beanstalkd_cut_between_admit_and_ack() {
    // B1, C6
    cases::cuts(&stage(), &TestEngine::new(backstop::Config::default()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beanstalkd_killed_between_admit_and_ack() {
    // B1, C6
    a_hundred_processes_are_killed_before_the_ack(&stage()).await;
}

#[tokio::test]
async fn beanstalkd_away_for_ten_minutes() {
    // B5: nobody listens on port 1.
    let settings = BridgeSettings::new("beanstalk://127.0.0.1:1", SourceSettings::new("orders", "charge"));
    cases::ten_minutes_without_a_broker(&settings).await;
}
