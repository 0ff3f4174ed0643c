//! Bodies of every sort: hostile, empty, large (B4, L20).

use backstop::Config;
use backstop_bridges::{InvalidMessages, SourceSettings};

use crate::stage::{Stage, TestEngine, until};

/// B4: what is no payload is kept with its bytes and the reason, acknowledged, and never comes again.
pub(crate) async fn hostile_bodies_are_kept_with_their_bytes(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let deep = "[".repeat(100_000);
    let deep_pairs = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let bad: Vec<(&[u8], &str)> = vec![
        (b"not json", "payload is invalid: it is not valid JSON"),
        (b"{\"a\":\"\xff\xfe\"}", "the body is not UTF-8 text"),
        (b"{\"a\":\"\0\"}", "payload is invalid: it is not valid JSON"),
        (b"\0", "payload is invalid: it is not valid JSON"),
        (b"", "the body is empty"),
        (b"{\"a\":1}\r\ndelete 1\r\n", "payload is invalid: it is not valid JSON"),
        (b"\"half \\ud800 a pair\"", "payload is invalid: it is not valid JSON"),
        (deep.as_bytes(), "payload is invalid: it is not valid JSON"),
    ];
    let bad: Vec<_> = bad.into_iter().filter(|(body, _)| stage.server.carries(body)).collect();
    assert!(bad.len() >= 4, "a broker carries most of them");
    let good = ["\"\\u0000 in an escape\"", "null", "{\"ä\":\"\u{10ffff}\"}", &deep_pairs];
    let good: Vec<&str> = good.into_iter().filter(|body| stage.server.carries(body.as_bytes())).collect();
    let bodies =
        bad.iter().map(|(body, _)| body.to_vec()).chain(good.iter().map(|body| body.as_bytes().to_vec()));
    stage.publish(&queue, bodies).await;
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge"));
    let all = (bad.len() + good.len()) as u64;
    let status = until(&handle, |status| status.acked == all).await;
    assert_eq!((status.admitted, status.invalid), (good.len() as u64, bad.len() as u64));
    let channel = InvalidMessages::of(&engine.engine);
    assert_eq!(channel.count("orders").await.expect("there"), bad.len() as u64);
    let page = channel.page("orders", None, 100).await.expect("there");
    for (body, reason) in &bad {
        let kept = page
            .items
            .iter()
            .find(|one| one.raw() == *body)
            .unwrap_or_else(|| panic!("{reason} is not kept"));
        assert!(kept.reason.starts_with(reason), "{}", kept.reason);
    }
    handle.stop().await;
    assert_eq!(stage.depth(&queue).await, 0, "none goes back to where it came from");
}

/// L20, B4: the limit is that of every payload.
pub(crate) async fn a_body_at_the_limit_is_a_job_and_one_over_it_is_not(stage: &mut Stage) {
    let mut config = Config::default();
    config.limits.payload_bytes = 200_000;
    let (queue, engine) = (stage.queue(), TestEngine::new(config).await);
    let body = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    stage.publish(&queue, [body(200_000), body(200_001)]).await;
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge"));
    let status = until(&handle, |status| status.acked == 2).await;
    assert_eq!((status.admitted, status.invalid), (1, 1));
    assert_eq!(engine.payloads().await[0].len(), 200_000);
    let page = InvalidMessages::of(&engine.engine).page("orders", None, 10).await.expect("there");
    assert_eq!(page.items[0].reason, "payload has 200001 bytes, the limit is 200000");
    assert_eq!(page.items[0].raw(), body(200_001).into_bytes());
    handle.stop().await;
    // What is too large even to be kept stays with its broker, and the channel has a note of it.
    let enormous = vec![b'x'; 5 * 1024 * 1024];
    if !stage.server.carries(&enormous) {
        return;
    }
    let engine = TestEngine::new(Config::default()).await;
    stage.publish(&queue, [enormous.clone()]).await;
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge"));
    let status = until(&handle, |status| status.abandoned == 1).await;
    assert_eq!((status.admitted, status.invalid), (0, 0));
    handle.stop().await;
    let page = InvalidMessages::of(&engine.engine).page("orders", None, 10).await.expect("there");
    assert!(page.items[0].abandoned && page.items[0].bytes == enormous.len() as u64);
    assert!(stage.server.abandoned(&queue) == [enormous], "its broker has all of it");
}
