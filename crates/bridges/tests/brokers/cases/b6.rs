//! What must not be trusted is abandoned: each broker keeps it in its own way, and none drops it (B6, E9).

use std::time::Duration;

use backstop::Config;
use backstop_bridges::{DaycrySettings, InvalidMessages, SourceSettings};
use backstop_core::digest::hexadecimal;
use backstop_store::{JobFilter, PageRequest};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::stage::{Stage, TestEngine, until};

/// An envelope as a producer of daycry/jobs writes it, signed with this key over the text that PHP makes of its fields.
pub(crate) fn envelope(key: &str, identifier: &str) -> String {
    let fields = concat!(
        r#""job":"import_users","payload":{"file":"\/tmp\/u.csv"},"#,
        r#""queue":"default","priority":9,"maxRetries":2"#
    );
    let named = format!(r#""name":null,"identifier":"{identifier}","idempotencyKey":null"#);
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("keys have any length");
    mac.update(format!("{{{fields},{named}}}").as_bytes());
    let signature = hexadecimal(&mac.finalize().into_bytes());
    format!(r#"{{{fields},"attempts":0,{named},"schedule":null,"_sig":"{signature}"}}"#)
}

/// B6, E9: beanstalkd buries it, RabbitMQ and Redis have it in `QUEUE.dead`, SQS in the queue of its redrive policy, and
/// NATS terminates it with an advisory. It is never delivered again, and the signed one beside it is a job.
pub(crate) async fn b6_forged_envelopes_are_left_to_the_broker(stage: &mut Stage) {
    let (queue, engine) = (stage.queue(), TestEngine::new(Config::default()).await);
    let (good, forged) = (envelope("hunter2", "a"), envelope("guessed", "b"));
    stage.publish(&queue, [forged.clone(), good]).await;
    let settings = stage.settings(SourceSettings::new(&queue, "import"));
    let settings = settings.as_daycry(DaycrySettings::signed_by(["hunter2"]));
    let handle = stage.start_with(&engine, &settings);
    let status = until(&handle, |status| status.acked == 1 && status.rejected == 1).await;
    assert_eq!((status.admitted, status.invalid, status.received), (1, 0, 2));
    handle.stop().await;
    let request = PageRequest { limit: 10, after: None };
    let jobs = engine.engine.jobs(JobFilter::default(), request).await.expect("there").items;
    let job = &jobs[0].job.spec;
    assert_eq!((jobs.len(), &*job.payload, job.policy.max_retries), (1, r#"{"file":"/tmp/u.csv"}"#, 2));
    assert_eq!(InvalidMessages::of(&engine.engine).count("orders").await.expect("there"), 0);
    let mut session = stage.session(&queue).await;
    let again = session.receive(10, Duration::from_secs(1)).await.expect("the broker is there");
    assert!(again.is_empty(), "never tried again: {again:?}");
    drop(session);
    assert_eq!(stage.server.abandoned(&queue), [forged.into_bytes()], "its broker has it");
}
