use backstop_macros::job;

#[job(name = "send_email")]
async fn other_word() {}

#[job(backoff = "exponential")]
async fn no_list() {}

#[job(backoff(quadratic))]
async fn no_such_growth() {}

#[job(backoff(linear, fixed))]
async fn two_growths() {}

#[job(backoff(base = "10s", cap = "1s"))]
async fn cap_below_base() {}

#[job(backoff(exponential, base = "5m"))]
async fn no_cap() {}

#[job(backoff(jitter = "120%"))]
async fn too_much_jitter() {}

#[job(delay = "soon")]
async fn no_duration() {}

fn main() {}
