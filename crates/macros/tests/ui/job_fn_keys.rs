use backstop_macros::job;

#[job(queu = "mail")]
async fn typo() {}

#[job(retries = 5)]
async fn no_such_key() {}

#[job(queue = "a", queue = "b")]
async fn twice() {}

#[job(version = "2")]
async fn quoted_number() {}

#[job(version = 0)]
async fn version_zero() {}

#[job(max_retries = -1)]
async fn negative() {}

#[job(timeout = 30)]
async fn no_unit() {}

#[job(timeout = "0s")]
async fn no_time() {}

#[job(priority = "urgent")]
async fn no_such_level() {}

#[job(kind = "")]
async fn no_kind() {}

fn main() {}
