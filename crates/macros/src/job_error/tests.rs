//! What `#[derive(JobError)]` writes and refuses. How its code behaves is tested with the engine.

use super::*;

fn expanded(input: &str) -> String {
    expand(input.parse().expect("tokens")).expect("a good type").to_string()
}

/// The messages of all problems, one per line.
fn refused(input: &str) -> String {
    let problem = expand(input.parse().expect("tokens")).expect_err("a bad type");
    problem.into_iter().map(|each| each.to_string()).collect::<Vec<_>>().join("\n")
}

/// Whether `code` holds `part`, whatever the spaces.
fn has(code: &str, part: &str) -> bool {
    let packed = |text: &str| text.replace(char::is_whitespace, "");
    packed(code).contains(&packed(part))
}

#[test]
fn each_kind_of_mark_is_written() {
    // F6
    let code = expanded(
        r#"enum MailError {
            #[job(permanent = "a bad address stays bad")] BadAddress(String),
            #[job(permanent)] Gone,
            #[job(invalid = "no recipient")] Empty { to: String },
            #[job(invalid)] Huge,
            #[job(transient = "smtp")] Smtp(#[from] SmtpError),
            #[job(retry_in = "1500ms")] Busy,
            Odd,
        }"#,
    );
    for part in [
        r#"Self::BadAddress { .. } => ::core::option::Option::Some(::backstop::marks::Mark { variant: "BadAddress","#,
        r#"kind: ::backstop::marks::MarkKind::Permanent { reason: "a bad address stays bad" }"#,
        r#"Permanent { reason: "`MailError::Gone` is marked as permanent" }"#,
        r#"Invalid { reason: "no recipient" }"#,
        r#"Invalid { reason: "`MailError::Huge` is marked as invalid" }"#,
        r#"Transient { dependency: "smtp" }"#,
        "RetryIn { delay: ::core::time::Duration::new(1u64, 500000000u32) }",
        r#"variant: "Odd", kind: ::backstop::marks::MarkKind::Plain"#,
        r#"::backstop::marks::Probe::of::<MailError>("MailError")"#,
    ] {
        assert!(has(&code, part), "{part}\nnot in\n{code}");
    }
    assert!(!code.contains("stands_for"));
}

#[test]
fn what_a_circuit_counts_stands_beside_a_mark() {
    // H4
    let code =
        expanded(r#"enum E { #[job(circuit = "ignored")] A, #[job(permanent, circuit = "neutral")] B, C }"#);
    for part in [
        "Self::A { .. } => ::core::option::Option::Some(::backstop::circuits::CallResult::Ignored)",
        "Self::B { .. } => ::core::option::Option::Some(::backstop::circuits::CallResult::Neutral)",
        "_ => ::core::option::Option::None",
        "MarkKind::Permanent",
    ] {
        assert!(has(&code, part), "{part}\nnot in\n{code}");
    }
    assert!(!expanded("enum E { A }").contains("call_result"));
    let told = refused(r#"enum E { #[job(circuit = "sometimes")] A }"#);
    assert!(told.contains("\"counts\", \"neutral\" or \"ignored\""), "{told}");
}

#[test]
fn an_unmarked_variant_leaves_it_to_its_source() {
    for variant in ["A(#[from] Inner)", "A(u8, #[source] Inner)", "A { source: Inner }"] {
        let code = expanded(&format!("enum E {{ {variant} }}"));
        assert!(has(&code, "Self::A { .. } => ::core::option::Option::None"), "{code}");
        assert!(!code.contains("stands_for"), "{code}");
    }
}

#[test]
fn a_transparent_variant_leads_to_its_field() {
    let code = expanded(
        r#"enum E {
            #[error(transparent)] A(#[from] Inner),
            #[error(transparent)] B { source: Inner },
            #[error(transparent)] C(Inner),
            #[error(transparent)] #[job(permanent)] D(Inner),
            #[error("transparent")] F(Inner),
        }"#,
    );
    for part in [
        "Self::A { 0: inner, .. } => ::core::option::Option::Some(inner.as_error())",
        "Self::B { source: inner, .. } =>",
        "Self::C { 0: inner, .. } =>",
        "_ => ::core::option::Option::None",
        r#"variant: "F", kind: ::backstop::marks::MarkKind::Plain"#,
    ] {
        assert!(has(&code, part), "{part}\nnot in\n{code}");
    }
    assert!(!has(&code, "Self::D { 0"), "a mark decides alone");
}

#[test]
fn a_struct_and_a_whole_enum_can_be_marked() {
    let code = expanded(r#"#[job(retry_in = "2m")] struct Busy(u8);"#);
    assert!(has(&code, "Self { .. } =>") && has(&code, r#"variant: """#), "{code}");
    assert!(has(&code, "RetryIn { delay: ::core::time::Duration::new(120u64, 0u32) }"), "{code}");

    let code = expanded(r#"#[job(transient = "db")] enum E { A(#[from] Inner), #[job(permanent = "b")] B }"#);
    assert!(has(&code, r#"variant: "A", kind: ::backstop::marks::MarkKind::Transient"#), "{code}");
    assert!(has(&code, r#"Permanent { reason: "b" }"#), "{code}");
}

#[test]
fn unusual_types_are_taken() {
    assert!(has(&expanded("enum Never {}"), "match *self {}"));
    assert!(has(&expanded("enum E { r#Type }"), r#"variant: "Type""#));
    let code = expanded("#[error(transparent)] struct Outer(#[from] Inner);");
    assert!(has(&code, "match self { Self { 0: inner, .. } =>") && !has(&code, "_ =>"), "{code}");
}

#[test]
fn wrong_marks_are_refused_with_the_way_out() {
    for (input, message) in [
        ("enum E { #[job(permanant)] A }", "did you mean `permanent`? use one of `permanent`, `invalid`"),
        ("enum E { #[job(fatal)] A }", "unknown key `fatal`: use one of"),
        ("enum E { #[job(permanent, invalid)] A }", "a second mark: `permanent` is already given"),
        ("enum E { #[job(permanent)] #[job(permanent)] A }", "a second mark"),
        ("enum E { #[job()] A }", "an empty mark"),
        ("enum E { #[job] A }", "an empty mark"),
        (r#"enum E { #[job = "permanent"] A }"#, "an empty mark"),
        (
            r#"enum E { #[job(permanent = "")] A }"#,
            "the reason is empty: say why, or write `permanent` alone",
        ),
        ("enum E { #[job(permanent = 5)] A }", r#"write permanent = "reason""#),
        ("enum E { #[job(transient)] A }", r#"write transient = "name of the dependency""#),
        (r#"enum E { #[job(transient = " ")] A }"#, "the text of `transient` is empty"),
        ("enum E { #[job(retry_in)] A }", r#"write retry_in = "30s""#),
        (r#"enum E { #[job(retry_in = "soon")] A }"#, "`soon` is not a duration"),
        ("enum E { A(#[job(permanent)] u8) }", "a mark goes on the variant or the struct"),
        ("union E { a: u8 }", "cannot be derived for a union"),
        ("enum E<T> { A(T) }", "JobError cannot be derived for a generic type: "),
        ("struct E<'a>(&'a str);", "JobError cannot be derived for a generic type: "),
    ] {
        let said = refused(input);
        assert!(said.contains(message), "{input}\nsaid {said}\nnot  {message}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let said = refused(r#"#[job(x)] enum E { #[job(transient)] A, #[job(retry_in = "x")] B }"#);
    assert_eq!(said.lines().count(), 3, "{said}");
}
