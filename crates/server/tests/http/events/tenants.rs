//! Tenants are told of their own, by their own names, and of nothing else (E13).

use backstop_server::{Caller, Scope};

use super::reader::Reader;
use crate::harness::Harness;

fn caller(tenant: Option<&str>, queues: Option<&[&str]>) -> Caller {
    let queues = queues.map(|names| names.iter().map(ToString::to_string).collect());
    Caller::holder("test", [Scope::Read].into(), tenant.map(str::to_owned), queues)
}

#[tokio::test]
async fn each_caller_is_told_of_what_it_sees() {
    // V2
    let harness = Harness::new().await;
    let path = "/api/v1/events";
    let acme = caller(Some("acme"), None);
    let mut of_acme = Reader::open(&harness, path, None, Some(&acme)).await;
    let mut again = Reader::open(&harness, path, None, Some(&acme)).await;
    let mut of_mail = Reader::open(&harness, path, None, Some(&caller(None, Some(&["mail"])))).await;
    let mut of_all = Reader::open(&harness, path, None, Some(&caller(None, None))).await;
    let engine = harness.engine();
    for (queue, key) in
        [("acmes/mail", "x"), ("mail", "y"), ("other/mail", "z"), ("acme/mail", "acme/order-7")]
    {
        engine.enqueue_raw("send", "{}").queue(queue).business_key(key).submit().await.unwrap();
    }
    for reader in [&mut of_acme, &mut again] {
        let told = reader.next().await.unwrap();
        assert_eq!((&told.data["queue"], &told.data["business_key"]), (&"mail".into(), &"order-7".into()));
        assert!(told.id.ends_with("-4"), "one numbering for all: {}", told.id);
    }
    let told = of_mail.next().await.unwrap();
    assert_eq!((&told.data["queue"], &told.data["business_key"]), (&"mail".into(), &"y".into()));
    let queues: Vec<_> = of_all.take(4).await.iter().map(|told| told.data["queue"].clone()).collect();
    assert_eq!(queues, ["acmes/mail", "mail", "other/mail", "acme/mail"]);
}

#[tokio::test]
async fn a_tenant_cannot_ask_for_anothers_queue() {
    let harness = Harness::new().await;
    let mut reader =
        Reader::open(&harness, "/api/v1/events?queue=mail", None, Some(&caller(Some("acme"), None))).await;
    let engine = harness.engine();
    for queue in ["mail", "other/mail", "acme/mail"] {
        engine.enqueue_raw("send", "{}").queue(queue).submit().await.unwrap();
    }
    let told = reader.next().await.unwrap();
    assert!(told.id.ends_with("-3") && told.data["queue"] == "mail", "{told:?}");
    let bound = caller(None, Some(&["mail"]));
    let request = axum::http::Request::get("/api/v1/events?queue=bills").extension(bound);
    let answer = harness.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (403, "forbidden"));
}

#[tokio::test]
async fn a_workflow_is_told_to_who_sees_all_its_queues() {
    // V2, W1
    let harness = Harness::new().await;
    let path = "/api/v1/events?event=workflow";
    let mut of_acme = Reader::open(&harness, path, None, Some(&caller(Some("acme"), None))).await;
    let mut of_mail = Reader::open(&harness, path, None, Some(&caller(None, Some(&["mail"])))).await;
    let mut of_all = Reader::open(&harness, path, None, Some(&caller(None, None))).await;
    let both = "/api/v1/events?event=workflow&queue=bills";
    let mut of_bills = Reader::open(&harness, both, None, Some(&caller(None, None))).await;
    let engine = harness.engine();
    let queues = [["mail", "bills"], ["acme/mail", "acme/bills"], ["mail", "mail"]];
    for (name, [first, second]) in ["both", "of a tenant", "mail only"].into_iter().zip(queues) {
        let first = engine.enqueue_raw("send", "{}").queue(first);
        let chain = engine.chain(name, first).then(engine.enqueue_raw("send", "{}").queue(second));
        chain.submit().await.unwrap();
    }
    let told = of_acme.next().await.unwrap();
    assert_eq!((&told.data["workflow"], &told.data["tenant"]), (&"of a tenant".into(), &"acme".into()));
    assert_eq!((&told.data["status"], &told.data["counts"]["total"]), (&"running".into(), &2.into()));
    assert!(told.data["workflow_id"].is_string() && told.data.get("queues").is_none(), "{told:?}");
    assert_eq!(of_mail.next().await.unwrap().data["workflow"], "mail only");
    assert_eq!(of_bills.next().await.unwrap().data["workflow"], "both");
    let names: Vec<_> = of_all.take(3).await.iter().map(|told| told.data["workflow"].clone()).collect();
    assert_eq!(names, ["both", "of a tenant", "mail only"]);
}
