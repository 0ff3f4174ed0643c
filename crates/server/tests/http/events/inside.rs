//! Webhooks that lead inside: none of them reaches a receiver there until the settings open the way (V2, E5).

use std::net::{IpAddr, Ipv4Addr};

use backstop::{Backstop, Event};
use backstop_kinds::HttpSettings;
use backstop_kinds::http::{ResolveFuture, Resolver};
use backstop_server::ServerSettings;
use serde_json::json;

use super::sink::Sink;
use crate::harness::Harness;

const WEBHOOKS: &str = "/api/v1/webhooks";
const QUEUE: &str = "backstop.webhooks";

/// How a host may be written that leads inside, and what becomes of a webhook there.
const HOSTS: [(&str, Fate); 11] = [
    ("127.0.0.1", Fate::OpensLiteral),
    ("127.0.0.2", Fate::OpensLiteral),
    ("[::1]", Fate::OpensLiteral),
    ("[::ffff:127.0.0.1]", Fate::OpensLiteral),
    ("localhost", Fate::OpensName),
    ("hooks.example", Fate::OpensName),
    ("0x7f.1", Fate::Closed),
    ("2130706433", Fate::Closed),
    ("0177.0.0.1", Fate::Closed),
    ("169.254.169.254", Fate::Closed),
    ("[::ffff:169.254.169.254]", Fate::Closed),
];

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// An address that is refused when the webhook is made, unless private ones are open.
    OpensLiteral,
    /// A name, which is looked at when a message goes there.
    OpensName,
    /// Nothing that opens private addresses opens it.
    Closed,
}

/// Names of the test lead to this machine.
struct ToLoopback;

impl Resolver for ToLoopback {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        Box::pin(async { Ok(vec![IpAddr::from(Ipv4Addr::LOCALHOST)]) })
    }
}

/// An API on a store in memory whose webhooks may use any port, and lead to private addresses only if told so.
async fn harness(engine: Option<Backstop>, allow_private: bool) -> Harness {
    let mut settings = ServerSettings::default();
    let way_out = HttpSettings::default().section("webhooks").resolver(ToLoopback);
    settings.reporting.webhooks = way_out.ports(1..=u16::MAX).allow_private(allow_private);
    match engine {
        Some(engine) => Harness::of(engine, settings),
        None => Harness::with(backstop::Config::default(), settings).await,
    }
}

async fn make(harness: &Harness, host: &str, port: u16) -> u16 {
    let url = format!("http://{host}:{port}/hooks/secret-path");
    let made = harness.post(WEBHOOKS, json!({ "url": url, "events": ["enqueued"] })).await;
    if made.status == 422 {
        assert_eq!(made.json()["error"]["details"]["field"], "url", "{}", made.text);
        assert!(!made.text.contains("secret-path"), "{}", made.text);
    }
    made.status.as_u16()
}

#[tokio::test]
async fn a_literal_address_inside_is_refused_when_the_webhook_is_made() {
    // V2, E5
    let (closed, opened) = (harness(None, false).await, harness(None, true).await);
    for (host, fate) in HOSTS {
        let expected = |open: bool| if open { 201 } else { 422 };
        assert_eq!(make(&closed, host, 80).await, expected(fate == Fate::OpensName), "{host}");
        assert_eq!(make(&opened, host, 80).await, expected(fate != Fate::Closed), "{host}");
    }
    let usual = Harness::new().await;
    assert_eq!(make(&usual, "a.example", 6379).await, 422, "a port that no web server has");
    let told = usual.post(WEBHOOKS, json!({ "url": "http://127.0.0.1/x" })).await.text;
    assert!(told.contains("webhooks.allow"), "the way out is named: {told}");
}

#[tokio::test]
async fn no_message_reaches_an_address_inside_unless_it_is_opened() {
    // V2, E5
    let mut sink = Sink::everywhere().await;
    // Made where private addresses are open, delivered where they are not: what is stored opens nothing.
    let opened = harness(None, true).await;
    let mut made = 0;
    for (host, _) in HOSTS.into_iter().filter(|(_, fate)| *fate != Fate::Closed) {
        assert_eq!(make(&opened, host, sink.port).await, 201, "{host}");
        made += 1;
    }
    let closed = harness(Some(opened.engine().clone()), false).await;
    let service = closed.api.deliver_webhooks().await;
    let mut events = opened.engine().events();
    opened.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    let mut dead = 0;
    while dead < made {
        let event = events.next().await.expect("the engine lives");
        let of_delivery = |event: &Event| event.job.as_ref().is_some_and(|job| &*job.queue == QUEUE);
        dead += u32::from(of_delivery(&event) && event.what.name() == "dead");
    }
    service.stop().await;
    assert!(sink.is_empty(), "something reached it");
    let service = opened.api.deliver_webhooks().await;
    opened.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    for _ in 0..made {
        sink.next().await;
    }
    service.stop().await;
    assert!(sink.is_empty());
}
