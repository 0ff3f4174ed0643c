//! What a broker itself can do: publish with confirm, receive, acknowledge, give back, abandon.

use std::time::Duration;

use backstop_bridges::{BrokerMessage, BrokerSession, DeliveryTag};

use crate::stage::{Stage, soon};

/// Receives until something comes.
async fn receive(session: &mut dyn BrokerSession, most: usize) -> Vec<BrokerMessage> {
    soon("a message", async {
        loop {
            let messages =
                session.receive(most, Duration::from_millis(200)).await.expect("the broker is there");
            if !messages.is_empty() {
                return messages;
            }
        }
    })
    .await
}

async fn nothing_comes(session: &mut dyn BrokerSession) {
    let found = session.receive(10, Duration::from_millis(300)).await.expect("the broker is there");
    assert!(found.is_empty(), "{found:?}");
}

/// B5: what is published arrives with its bytes, once it is acknowledged it is gone, and the depth says how many wait.
pub(crate) async fn messages_are_published_received_and_settled(stage: &mut Stage) {
    let queue = stage.queue();
    stage.publish(&queue, (0..5).map(|number| format!("{{\"n\":{number}}}"))).await;
    let mut session = stage.session(&queue).await;
    assert_eq!(session.depth().await.expect("it is there"), Some(5));
    let mut found = Vec::new();
    while found.len() < 5 {
        found.extend(receive(&mut *session, 10).await);
    }
    let mut bodies: Vec<String> =
        found.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect();
    bodies.sort();
    assert_eq!(bodies, ["{\"n\":0}", "{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}"]);
    let tags: Vec<DeliveryTag> = found.iter().map(|one| one.tag.clone()).collect();
    session.ack(&tags).await.expect("it is there");
    nothing_comes(&mut *session).await;
    drop(session);
    assert_eq!(stage.depth(&queue).await, 0);
}

/// B6: a message that is given back comes again with the same id, and not before its delay.
pub(crate) async fn a_message_given_back_comes_again_after_its_delay(stage: &mut Stage) {
    let queue = stage.queue();
    stage.publish(&queue, ["{}"]).await;
    let mut session = stage.session(&queue).await;
    let first = receive(&mut *session, 10).await.remove(0);
    session.nack(std::slice::from_ref(&first.tag), Duration::from_secs(2)).await.expect("it is there");
    nothing_comes(&mut *session).await;
    let again = receive(&mut *session, 10).await.remove(0);
    assert_eq!((&again.id, &again.body), (&first.id, &first.body));
    assert!(again.deliveries.is_none_or(|count| count > 1), "{again:?}");
    session.ack(&[again.tag]).await.expect("it is there");
}

/// B6: an abandoned message is not delivered again, and its broker has it.
pub(crate) async fn an_abandoned_message_is_kept_by_its_broker(stage: &mut Stage) {
    let queue = stage.queue();
    stage.publish(&queue, ["poison", "fine"]).await;
    let mut session = stage.session(&queue).await;
    let mut found = Vec::new();
    while found.len() < 2 {
        found.extend(receive(&mut *session, 10).await);
    }
    for message in &found {
        if message.body == b"poison" {
            session.abandon(message, "it cannot be read").await.expect("it is there");
        } else {
            session.ack(std::slice::from_ref(&message.tag)).await.expect("it is there");
        }
    }
    nothing_comes(&mut *session).await;
    drop(session);
    assert_eq!(stage.server.abandoned(&queue), [b"poison".to_vec()]);
}
