//! One conformance suite for all brokers, each a real server of its own (B1, B4, B5, B6).
//!
//! The cases are in `cases`; what a broker needs beside them is in a file of its name.
#![allow(missing_docs, reason = "a test")]

#[path = "brokers/beanstalkd.rs"]
mod beanstalkd;
#[path = "brokers/caf/mod.rs"]
mod caf;
#[path = "brokers/cases/mod.rs"]
mod cases;
#[path = "brokers/daycry_lists.rs"]
mod daycry_lists;
#[path = "brokers/examples.rs"]
mod examples;
#[path = "brokers/killed.rs"]
mod killed;
#[path = "brokers/nats.rs"]
mod nats;
#[path = "brokers/rabbitmq.rs"]
mod rabbitmq;
#[path = "brokers/redis.rs"]
mod redis;
#[path = "brokers/sqs.rs"]
mod sqs;
#[path = "brokers/stage.rs"]
mod stage;
#[path = "brokers/tls.rs"]
mod tls;
