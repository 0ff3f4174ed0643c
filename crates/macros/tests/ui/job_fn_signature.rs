use backstop_macros::job;

#[job]
fn not_async() {}

#[job]
async fn receiver(&self) {}

#[job]
async fn pattern((width, height): (u32, u32)) {}

#[job]
async fn unnamed(_: u32) {}

#[job]
async fn borrowed(to: &str, body: Option<&[u8]>) {}

#[job]
async fn generic<T>(value: T) {}

#[job]
async fn hidden_generic(value: impl Into<String>) {}

#[job]
async fn two_contexts(a: JobContext<App>, b: JobContext<App>) {}

#[job]
async fn borrowed_context(cx: &JobContext<App>) {}

#[job]
async fn bare_context(cx: JobContext) {}

#[job]
async unsafe fn danger() {}

#[job]
async fn _1() {}

#[job]
struct NotAFunction;

fn main() {}
