//! What `#[job]` on a function writes and refuses. How its code behaves is tested with the engine.

use super::*;

fn expanded(args: &str, item: &str) -> String {
    expand(args.parse().expect("tokens"), item.parse().expect("tokens")).expect("a good function").to_string()
}

/// The messages of all problems, one per line.
fn refused(args: &str, item: &str) -> String {
    let problem =
        expand(args.parse().expect("tokens"), item.parse().expect("tokens")).expect_err("a bad function");
    problem.into_iter().map(|each| each.to_string()).collect::<Vec<_>>().join("\n")
}

/// Every part is in the code, whatever the spaces.
fn assert_has(code: &str, parts: &[&str]) {
    let packed = |text: &str| text.replace(char::is_whitespace, "");
    for part in parts {
        assert!(packed(code).contains(&packed(part)), "{part}\nnot in\n{code}");
    }
}

#[test]
fn every_key_is_written() {
    let code = expanded(
        r#"kind = "mail", version = 2, queue = "mails", max_retries = 3, timeout = "30s", priority = "high""#,
        "pub(crate) async fn send_email(cx: JobContext<App>, to: String, subject: String) -> Result<(), MailError> {
            cx.app().send(to, subject).await
        }",
    );
    assert_has(
        &code,
        &[
            "pub(crate) async fn send_email(cx: JobContext<App>, to: String, subject: String) -> Result",
            r#"#[serde(crate = "::backstop::__private::serde")]"#,
            "pub(crate) struct SendEmail { pub(crate) to: String, pub(crate) subject: String, }",
            "impl ::backstop::Job for SendEmail {",
            r#"const KIND: &'static str = "mail"; const VERSION: u32 = 2u32; type Context = App;"#,
            "type Output = Result<(), MailError>;",
            "async fn run(self, cx: ::backstop::JobContext<Self::Context>) -> Self::Output {",
            "send_email(cx, self.to, self.subject).await",
            r#".queue("mails").priority(::backstop::Priority::High).policy("#,
            "::backstop::JobDefaults { max_retries: Some(3u32), timeout: Some(::core::time::Duration::new(30u64, 0u32)),",
            "::backstop::__private::RegistryEntry::of::<SendEmail>()",
        ],
    );
}

#[test]
fn without_keys_the_trait_decides() {
    let code = expanded("", "async fn tick() {}");
    assert_has(
        &code,
        &[
            "struct Tick {}",
            r#"const KIND: &'static str = "tick"; type Context = (); type Output = ();"#,
            "async fn run(self, _: ::backstop::JobContext<Self::Context>) -> Self::Output { tick().await }",
        ],
    );
    assert!(!code.contains("VERSION") && !code.contains("defaults"), "{code}");
}

#[test]
fn the_context_keeps_its_place() {
    let code = expanded("", "async fn f(mut a: u8, _: backstop::JobContext<my::App>, b: u8) {}");
    assert_has(
        &code,
        &["type Context = my::App;", "f(self.a, cx, self.b).await", "async fn f(mut a: u8, _:"],
    );
}

#[test]
fn attributes_go_where_they_mean_something() {
    let code = expanded(
        "",
        "/// What it does.
        #[cfg(unix)]
        #[allow(clippy::unused_async)]
        async fn f(#[serde(default)] count: u8) {}",
    );
    assert_has(
        &code,
        &[
            "#[allow(clippy::unused_async)] async fn f(count: u8) {}",
            "#[cfg(unix)] #[derive(",
            "struct F { #[serde(default)] count: u8, }",
            "#[cfg(unix)] impl",
        ],
    );
    for (attribute, times) in [("cfg", 4), ("unused_async", 1), ("What it does", 2)] {
        assert_eq!(code.matches(attribute).count(), times, "{attribute} in {code}");
    }
}

#[test]
fn names_become_camel_case() {
    for (function, structure) in [
        ("send_email", "SendEmail"),
        ("ping", "Ping"),
        ("v2_sync", "V2Sync"),
        ("__x_", "X"),
        ("éclair", "Éclair"),
    ] {
        let name = struct_name(&Ident::new(function, Span::call_site())).expect(function);
        assert_eq!(name, structure);
    }
    assert_eq!(struct_name(&Ident::new_raw("type", Span::call_site())).expect("raw"), "Type");
    for function in ["_1", "self_", "__"] {
        let problem = struct_name(&Ident::new(function, Span::call_site())).expect_err(function);
        assert!(problem.to_string().contains("rename the function"), "{problem}");
    }
}

#[test]
fn functions_that_cannot_be_jobs_are_refused() {
    for (item, message) in [
        ("fn f() {}", "write `async fn`"),
        ("async fn f(&self) {}", "no `self`"),
        ("async fn f((a, b): (u8, u8)) {}", "give it a plain name, and take it apart in the body"),
        ("async fn f(_: u8) {}", "give it a name"),
        ("async fn f(ref a: u8) {}", "give it a plain name"),
        ("async fn f(a: &str) {}", "cannot be borrowed: take `String`"),
        ("async fn f(a: &'static [u8]) {}", "take `Vec`"),
        ("async fn f(a: &Order) {}", "take `Order`"),
        ("async fn f(a: Option<(u8, &str)>) {}", "take it owned"),
        ("async fn f(a: impl Into<String>) {}", "name a concrete type instead of `impl`"),
        ("async fn f<T>(a: T) {}", "cannot be generic"),
        ("async unsafe fn f() {}", "cannot be unsafe"),
        ("async extern \"C\" fn f() {}", "remove the `extern`"),
        ("async fn f(a: JobContext<A>, b: JobContext<A>) {}", "a second context"),
        ("async fn f(a: &JobContext<A>) {}", "the context comes by value"),
        ("async fn f(a: JobContext) {}", "write `JobContext<App>`"),
        ("enum E { A }", "below `#[derive(JobError)]`"),
        ("const A: u8 = 1;", "`#[job]` goes on an async fn"),
    ] {
        let said = refused("", item);
        assert!(said.contains(message), "{item}\nsaid {said}\nnot  {message}");
    }
}

#[test]
fn wrong_keys_and_values_are_refused() {
    for (args, message) in [
        (r#"queu = "a""#, "unknown key `queu`: did you mean `queue`?"),
        (
            "retries = 5",
            "did you mean `max_retries`? use one of `kind`, `version`, `queue`, `priority`, `max_retries`,",
        ),
        (r#"queue = "a", queue = "b""#, "`queue` is given twice"),
        ("kind = send_email", r#"write kind = "send_email""#),
        ("kind", r#"write kind = "send_email""#),
        (r#"queue = """#, "the text of `queue` is empty"),
        (r#"version = "2""#, "without quotes: write version = 2"),
        ("version = 0", "versions count from 1"),
        ("max_retries = -1", "a whole number from 0 to 4294967295"),
        ("max_retries = 4294967296", "a whole number from 0 to 4294967295"),
        ("timeout = 30", r#"write timeout = "30s""#),
        (r#"timeout = "30""#, "`30` is not a duration"),
        (r#"timeout = "0s""#, "a timeout of zero"),
        (r#"priority = "hihg""#, "unknown priority `hihg`: did you mean `high`?"),
    ] {
        let said = refused(args, "async fn f() {}");
        assert!(said.contains(message), "{args}\nsaid {said}\nnot  {message}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let said = refused(r#"queu = "a""#, "fn f(self, a: &str, _: u8) {}");
    assert_eq!(said.lines().count(), 5, "{said}");
}
