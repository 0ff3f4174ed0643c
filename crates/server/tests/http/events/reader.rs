//! A reader of an event stream, as the specification of server-sent events has it.

use std::collections::VecDeque;

use axum::body::Body;
use axum::http::Request;
use backstop_server::Caller;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::harness::Harness;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// An open stream.
pub(crate) struct Reader {
    body: Body,
    rest: String,
    told: VecDeque<Told>,
    /// The last id, as a browser keeps it.
    pub(crate) last_id: String,
    /// Comments so far.
    pub(crate) comments: usize,
}

impl Reader {
    /// Opens a stream for a caller, behind an id.
    pub(crate) async fn open(
        harness: &Harness,
        path: &str,
        after: Option<&str>,
        caller: Option<&Caller>,
    ) -> Self {
        let mut request = Request::get(path);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        if let Some(caller) = caller {
            request = request.extension(caller.clone());
        }
        let response = harness.open(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let (rest, told) = (String::new(), VecDeque::new());
        Self { body: response.into_body(), rest, told, last_id: String::new(), comments: 0 }
    }

    /// The next event; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        while self.told.is_empty() {
            self.read().await?;
        }
        self.told.pop_front()
    }

    /// The next events.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Told> {
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(self.next().await.expect("the stream goes on"));
        }
        taken
    }

    /// Reads one frame of the body.
    pub(crate) async fn read(&mut self) -> Option<()> {
        let frame = self.body.frame().await?.unwrap().into_data().unwrap();
        self.rest.push_str(std::str::from_utf8(&frame).unwrap());
        while let Some((block, rest)) = self.rest.split_once("\n\n") {
            let (block, rest) = (block.to_owned(), rest.to_owned());
            self.rest = rest;
            self.block(&block);
        }
        Some(())
    }

    fn block(&mut self, block: &str) {
        let (mut name, mut data) = ("message".to_owned(), String::new());
        for line in block.lines() {
            match line.split_once(": ").unwrap() {
                ("", _) => self.comments += 1,
                ("id", id) => self.last_id = id.to_owned(),
                ("event", event) => name = event.to_owned(),
                ("data", text) => data.push_str(text),
                ("retry", _) => {}
                other => panic!("an unknown field: {other:?}"),
            }
        }
        if !data.is_empty() {
            let data = serde_json::from_str(&data).unwrap();
            self.told.push_back(Told { id: self.last_id.clone(), name, data });
        }
    }
}
