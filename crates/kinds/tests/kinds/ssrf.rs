//! Addresses and tricks that lead inside: none of them reaches the server that waits there, by itself or by a redirect.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backstop::Cause;
use backstop_kinds::http::{ResolveFuture, Resolver};
use backstop_kinds::{Http, HttpSettings};

use crate::server::{Server, reply};
use crate::stage::Stage;

/// Where nobody may go by default: the ends and the middle of each range, and where clouds hand out credentials.
const INSIDE: [&str; 30] = [
    "127.0.0.1",
    "127.0.0.2",
    "127.1.2.3",
    "127.255.255.254",
    "0.0.0.0",
    "0.0.0.1",
    "10.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "100.100.100.200",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
];

/// The same in version 6, and what hides an address in another.
const INSIDE_6: [&str; 32] = [
    "::",
    "::1",
    "0:0:0:0:0:0:0:1",
    "0000:0000:0000:0000:0000:0000:0000:0001",
    "::0001",
    "fc00::1",
    "fd00::1",
    "fdff:ffff::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "ff05::2",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:a00:1::",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "::ffff:0:127.0.0.1",
    "::7f00:1",
    "1::1",
    "4000::1",
    "5f00::1",
    "e000::1",
];

/// Hosts that some reader somewhere takes for an address or for two things at once.
const ODD: [&str; 74] = [
    "127.1",
    "127.0.1",
    "127.000.000.001",
    "0177.0.0.1",
    "0177.0.0.01",
    "00177.0.0.1",
    "0x7f.0.0.1",
    "0x7f.1",
    "0x7f000001",
    "0X7F000001",
    "0x7F.0x0.0x0.0x1",
    "017700000001",
    "2130706433",
    "02130706433",
    "3232235521",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "169.16689662",
    "127.0.0.1.",
    "127.1.",
    "0",
    "00",
    "0x0",
    "0.0",
    "1",
    "256",
    "127.0.0.256",
    "1.2.3.4.5",
    "127.0.0.1:80",
    "127.0.0.1%00.example",
    "127.0.0.1%2f@a",
    "%31%32%37.0.0.1",
    "127%2e0%2e0%2e1",
    "127。0。0。1",
    "127．0．0．1",
    "①②⑦.⓪.⓪.①",
    "１２７.０.０.１",
    "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "ｌｏｃａｌｈｏｓｔ",
    "127.0.0.1\t",
    "\t127.0.0.1",
    "127.0.0.1\n",
    "127.0\n.0.1",
    "127.0.0.1\r\nhost: a",
    " 127.0.0.1",
    "127.0.0.1 ",
    "127.0.0.1\0",
    "a\0.example",
    "127.0.0.1\\a.example",
    "a.example\\@127.0.0.1",
    "user@127.0.0.1",
    "a:b@127.0.0.1",
    "a.example@127.0.0.1",
    "127.0.0.1@a.example",
    "@127.0.0.1",
    "127.0.0.1:@a.example",
    "[127.0.0.1]",
    "[::1",
    "::1",
    "[::1]]",
    "[[::1]]",
    "[::1%25lo]",
    "[::1%lo]",
    "[0:0:0:0:0:ffff:127.1]",
    "[::ffff:0x7f.0.0.1]",
    "[::ffff:2130706433]",
    "[v1.127001]",
    "",
    ".",
    "..",
    "a..b",
];

/// Addresses that are none, or of another scheme.
const URLS: [&str; 22] = [
    "file:///etc/passwd",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1:PORT/_GET",
    "dict://127.0.0.1:PORT/",
    "ldap://127.0.0.1:PORT/",
    "javascript:alert(1)",
    "data:text/plain,a",
    "jar:http://127.0.0.1!/",
    "ws://127.0.0.1:PORT/",
    "http:127.0.0.1:PORT/",
    "http:/127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "http://127.0.0.1:PORT#@a.example/",
    "http://127.0.0.1:PORT?@a.example/",
    "http://127.0.0.1:PORT\\@a.example/",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
    "unix:///var/run/docker.sock",
    "http+unix://a/",
    "netdoc:///etc/passwd",
    "url:http://127.0.0.1:PORT/",
];

/// Each address of version 4 in every clothing.
fn clothed(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let number = u32::from(address);
    let (high, low) = (number >> 16, number & 0xffff);
    vec![
        address.to_string(),
        format!("[::ffff:{address}]"),
        format!("[::ffff:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:ffff:{high:04x}:{low:04x}]"),
        format!("[::{address}]"),
        format!("[64:ff9b::{high:x}:{low:x}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[2001:0:{high:x}:{low:x}::]"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("0x{number:x}"),
        format!("{number}"),
        format!("{a}.{b}.{}", u32::from(c) * 256 + u32::from(d)),
    ]
}

/// Names that lead to each address inside.
fn names() -> BTreeMap<String, Vec<IpAddr>> {
    let all = INSIDE.iter().chain(&INSIDE_6).map(|text| text.parse::<IpAddr>().expect(text));
    let mut names = BTreeMap::new();
    for (at, address) in all.enumerate() {
        names.insert(format!("n{at}.test"), vec![address]);
        // The last one is open in these tests: one closed address among open ones closes all.
        names.insert(format!("mixed{at}.test"), vec![open_address(), address]);
    }
    for (name, address) in [("localhost", "127.0.0.1"), ("metadata.google.internal", "169.254.169.254")] {
        names.insert(name.to_owned(), vec![address.parse().expect("an address")]);
    }
    names
}

/// An address of this machine that the settings open, in the role of a public one.
fn open_address() -> IpAddr {
    Ipv4Addr::new(127, 7, 7, 7).into()
}

/// All tricks, each a whole address of the web, aimed at `port`.
fn tricks(port: u16) -> Vec<String> {
    let clothes = INSIDE.iter().flat_map(|text| clothed(text.parse().expect(text)));
    let six = INSIDE_6.iter().map(|text| format!("[{text}]"));
    let hosts = clothes.chain(six).chain(names().into_keys()).chain(ODD.map(str::to_owned));
    let mut all: Vec<String> = hosts.map(|host| format!("http://{host}:{port}/")).collect();
    all.extend(URLS.map(|url| url.replace("PORT", &port.to_string())));
    all
}

/// Answers from a list; names that are not in it are not there.
struct Names(BTreeMap<String, Vec<IpAddr>>);

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str) -> ResolveFuture<'a> {
        let found = self.0.get(host).cloned().ok_or(io::ErrorKind::NotFound.into());
        Box::pin(async move { found })
    }
}

/// The words of a refusal never tell where a name led to.
fn tells_no_address(message: &str, url: &str) -> bool {
    let named = names().into_keys().any(|name| url.contains(&name));
    // What is shorter stands in any sentence.
    let mut inside = INSIDE.iter().chain(&INSIDE_6).filter(|address| address.len() > 4);
    !named || inside.all(|address| !message.contains(address))
}

#[tokio::test]
async fn no_trick_reaches_a_server_inside() {
    // E5
    let sink = Server::sink("127.0.0.1").await;
    let settings = HttpSettings::default().ports([sink.port()]).resolver(Names(names()));
    let stage = Stage::requests(settings.allow("127.7.7.7").expect("an address")).await;
    let tricks = tricks(sink.port());
    assert!(tricks.len() >= 300, "{} tricks", tricks.len());
    for url in &tricks {
        let ran = stage.run(<Http>::new("GET", url)).await;
        assert!(matches!(ran.cause(), Cause::Permanent | Cause::Invalid), "{url}: {}", ran.message());
        assert!(
            !ran.message().is_empty() && tells_no_address(ran.message(), url),
            "{url}: {}",
            ran.message()
        );
    }
    assert_eq!(sink.connections(), 0, "a trick reached it");
}

#[tokio::test]
async fn no_trick_reaches_a_server_inside_by_a_redirect() {
    // E5
    let sink = Server::sink("127.0.0.1").await;
    let tricks = Arc::new(Mutex::new(tricks(sink.port())));
    let given = tricks.clone();
    let door = Server::start("127.7.7.7", move |_| {
        let location = given.lock().expect("no panic").pop().expect("one for each request");
        // A server can send any byte but those that end the line.
        let location = location.replace(['\r', '\n', '\0'], "\t");
        reply("302 Found", &format!("location: {location}\r\n"), "")
    })
    .await;
    let settings = HttpSettings::default().ports([sink.port(), door.port()]).resolver(Names(names()));
    let settings = settings.allow("127.7.7.7").and_then(|it| it.redirects(5)).expect("settings");
    let stage = Stage::requests(settings).await;
    let next = || {
        let left = tricks.lock().expect("no panic");
        (left.len(), left.last().cloned())
    };
    while let (left, Some(url)) = next() {
        let ran = stage.run(<Http>::new("GET", door.url("/"))).await;
        // What is read from where it stands leads back to the door, which has the next one then.
        assert!(next().0 < left, "{url} was sent");
        assert_eq!(ran.cause(), Cause::Permanent, "{url}: {}", ran.message());
        assert!(!ran.message().is_empty(), "{url}");
    }
    assert_eq!(sink.connections(), 0, "a trick reached it");
}

/// Answers an open address first, and the sink's from then on.
struct Rebinding(Arc<AtomicUsize>);

impl Resolver for Rebinding {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let address = if first { open_address() } else { Ipv4Addr::LOCALHOST.into() };
        Box::pin(async move { Ok(vec![address]) })
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_asked_once_and_checked_each_time() {
    // E5
    let sink = Server::sink("127.0.0.1").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let settings = HttpSettings::default().ports([sink.port()]).resolver(Rebinding(asked.clone()));
    let stage = Stage::requests(settings.allow("127.7.7.7").expect("an address")).await;
    let url = format!("http://rebinding.test:{}/", sink.port());
    let ran = stage.run(<Http>::new("GET", &url)).await;
    assert_eq!(
        (ran.cause(), asked.load(Ordering::SeqCst)),
        (Cause::Error, 1),
        "nobody listens at the first one"
    );
    let ran = stage.run(<Http>::new("GET", &url)).await;
    assert_eq!((ran.cause(), asked.load(Ordering::SeqCst)), (Cause::Permanent, 2), "{}", ran.message());
    assert_eq!(sink.connections(), 0);
}

#[tokio::test]
async fn the_same_server_is_reached_when_it_is_opened() {
    // E5
    let sink = Server::sink("127.0.0.1").await;
    let port = sink.port();
    let base = || HttpSettings::default().ports([port]).resolver(Names(names()));
    let private = base().allow_private(true);
    let by_name = base().allow("localhost").expect("a name");
    let by_network = base().allow("127.0.0.0/8").expect("a network");
    let urls = ["127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost", "LOCALHOST", "n0.test"];
    let mut expected = 0;
    for (settings, open) in
        [(private, [true; 6]), (by_name, [false, false, false, true, true, false]), (by_network, [true; 6])]
    {
        let stage = Stage::requests(settings).await;
        for (host, open) in urls.iter().zip(open) {
            let ran = stage.run(<Http>::new("GET", format!("http://{host}:{port}/"))).await;
            let cause = if open { Cause::Succeeded } else { Cause::Permanent };
            assert_eq!(ran.cause(), cause, "{host}: {}", ran.message());
            expected += usize::from(open);
        }
    }
    assert_eq!(sink.connections(), expected);
    // Where clouds hand out credentials stays closed.
    let stage = Stage::requests(base().allow_private(true)).await;
    for host in [
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "metadata.google.internal",
        "0.0.0.0",
    ] {
        let ran = stage.run(<Http>::new("GET", format!("http://{host}:{port}/"))).await;
        assert_eq!(ran.cause(), Cause::Permanent, "{host}: {}", ran.message());
    }
}
