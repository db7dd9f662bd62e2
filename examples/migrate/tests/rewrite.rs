//! What becomes of the paths and imports of a source file, and what stays as it is.

use hairspring_migrate::{NotRust, rewrite};

/// Each source becomes the one beside it, and that stays as it is.
fn becomes(cases: &[(&str, &str)]) {
    for (old, new) in cases {
        let rewritten = rewrite(old).unwrap_or_else(|error| panic!("{old}: {error}"));
        assert_eq!(rewritten.source, *new, "from: {old}");
        assert_eq!(rewrite(new).unwrap().source, *new, "rewritten once more");
    }
}

fn stay(sources: &[&str]) {
    for source in sources {
        let rewritten = rewrite(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!((&*rewritten.source, rewritten.paths), (*source, 0));
    }
}

#[test]
fn an_import_keeps_the_names_that_the_program_uses() {
    becomes(&[
        ("use tokio::time;", "use hairspring as time;"),
        ("use tokio::time as t;", "use hairspring as t;"),
        ("use tokio::time::sleep;", "use hairspring::sleep;"),
        ("use tokio::time::Instant as Moment;", "use hairspring::Instant as Moment;"),
        ("use tokio::time::error::Elapsed;", "use hairspring::error::Elapsed;"),
        ("use ::tokio::time::sleep;", "use ::hairspring::sleep;"),
        ("use tokio::time::*;", "use hairspring::*;"),
        ("use tokio::time::{self};", "use hairspring::{self as time};"),
        ("use tokio::time::{self as t, sleep};", "use hairspring::{self as t, sleep};"),
        (
            "use tokio::time::{self, error::{self, Elapsed}, Duration as D};",
            "use hairspring::{self as time, error::{self, Elapsed}, Duration as D};",
        ),
        ("use tokio_util::time::{DelayQueue, delay_queue};", "use hairspring::{DelayQueue, delay_queue};"),
        ("use tokio_util::time::delay_queue::Key;", "use hairspring::delay_queue::Key;"),
        ("use tokio_util::future::FutureExt as _;", "use hairspring::FutureExt as _;"),
        ("use tokio_util::future::{FutureExt};", "use hairspring::FutureExt;"),
        ("use tokio_stream::wrappers::IntervalStream;", "use hairspring::stream::IntervalStream;"),
    ]);
}

#[test]
fn what_other_crates_re_export_is_replaced_too() {
    becomes(&[
        ("use actix_rt::time::{Sleep, sleep};", "use hairspring::{Sleep, sleep};"),
        ("use actix_rt::{System, time};", "use actix_rt::{System};\nuse hairspring as time;"),
        ("use actix_web::{App, rt::time::interval};", "use actix_web::{App};\nuse hairspring::interval;"),
        ("use actix::clock;", "use hairspring as clock;"),
        ("use actix::{Actor, clock::sleep};", "use actix::{Actor};\nuse hairspring::sleep;"),
        ("rocket::tokio::time::sleep(d).await", "hairspring::sleep(d).await"),
        ("struct S { sleep: Pin<Box<actix_rt::time::Sleep>> }", "struct S { sleep: Pin<Box<hairspring::Sleep>> }"),
    ]);
}

#[test]
fn what_is_in_the_braces_of_tokio_gets_an_import_of_its_own() {
    becomes(&[
        (
            "use tokio::{sync::mpsc, time::{self, Duration}};",
            "use tokio::{sync::mpsc};\nuse hairspring::{self as time, Duration};",
        ),
        ("use tokio::{time, sync};", "use tokio::{sync};\nuse hairspring as time;"),
        ("use tokio::{time as t, sync,};", "use tokio::{sync,};\nuse hairspring as t;"),
        ("use tokio::{io, time::*};", "use tokio::{io};\nuse hairspring::*;"),
        ("use tokio::{time::{sleep, timeout}};", "use hairspring::{sleep, timeout};"),
        ("use tokio::{time::sleep, time};", "use hairspring::sleep;\nuse hairspring as time;"),
        ("use ::tokio::{self, time::sleep};", "use ::tokio::{self};\nuse ::hairspring::sleep;"),
        (
            "use tokio_util::{future::FutureExt, sync::CancellationToken};",
            "use tokio_util::{sync::CancellationToken};\nuse hairspring::FutureExt;",
        ),
        (
            "use tokio_stream::{wrappers::{IntervalStream, ReceiverStream}, StreamExt};",
            "use tokio_stream::{wrappers::{ReceiverStream}, StreamExt};\nuse hairspring::stream::IntervalStream;",
        ),
        ("use {std::io, tokio::time::sleep};", "use {std::io, hairspring::sleep};"),
        ("use {std::io, tokio::{sync, time}};", "use {std::io, tokio::{sync}};\nuse hairspring as time;"),
        ("use {std::io, tokio::{time}};", "use {std::io};\nuse hairspring as time;"),
        ("use {tokio::time, tokio::{time::sleep}};", "use {hairspring as time};\nuse hairspring::sleep;"),
    ]);
}

#[test]
fn an_import_over_several_lines_keeps_its_form() {
    becomes(&[
        (
            "mod m {\n    use tokio::{\n        sync::mpsc, // for jobs\n        time::{\n            self, // for both\n            Duration,\n        },\n    };\n}\n",
            "mod m {\n    use tokio::{\n        sync::mpsc, // for jobs\n    };\n    use hairspring::{\n            self as time, // for both\n            Duration,\n        };\n}\n",
        ),
        (
            "use tokio::{\n    time::sleep,\n    sync::mpsc,\n};\n",
            "use tokio::{\n    sync::mpsc,\n};\nuse hairspring::sleep;\n",
        ),
        (
            "use tokio::{ // a comment\n    time::sleep };\n",
            "use tokio::{ // a comment\n     };\nuse hairspring::sleep;\n",
        ),
        (
            "use tokio::{\r\n    io,\r\n    time,\r\n};\r\n",
            "use tokio::{\r\n    io,\r\n};\r\nuse hairspring as time;\r\n",
        ),
        ("fn f() { use tokio::{io, time}; }", "fn f() { use tokio::{io}; use hairspring as time; }"),
        ("use tokio::time /* how late? */ ::sleep;", "use hairspring /* how late? */ ::sleep;"),
        ("use tokio:: /* here */ time::sleep;", "use hairspring /* here */ ::sleep;"),
    ]);
}

#[test]
fn what_holds_for_an_import_holds_for_the_one_beside_it() {
    becomes(&[
        ("pub use tokio::{io, time};", "pub use tokio::{io};\npub use hairspring as time;"),
        (
            "    pub(crate) use tokio::{io, time::sleep};",
            "    pub(crate) use tokio::{io};\n    pub(crate) use hairspring::sleep;",
        ),
        (
            "/// Both.\n#[cfg(test)]\n#[allow(unused_imports)]\nuse tokio::{io, time};\n",
            "/// Both.\n#[cfg(test)]\n#[allow(unused_imports)]\nuse tokio::{io};\n#[cfg(test)]\n#[allow(unused_imports)]\nuse hairspring as time;\n",
        ),
        (
            "#![allow(dead_code)]\nuse tokio::{io, time};",
            "#![allow(dead_code)]\nuse tokio::{io};\nuse hairspring as time;",
        ),
        ("#[cfg(test)]\nuse tokio::{time};", "#[cfg(test)]\nuse hairspring as time;"),
    ]);
}

#[test]
fn paths_in_code_and_in_macros_are_replaced() {
    becomes(&[
        ("async fn f() { tokio::time::sleep(D).await }", "async fn f() { hairspring::sleep(D).await }"),
        (
            "fn f(i: ::tokio::time::Instant) -> ::tokio::time::Sleep {}",
            "fn f(i: ::hairspring::Instant) -> ::hairspring::Sleep {}",
        ),
        ("struct S { sleep: Pin<Box<tokio::time::Sleep>> }", "struct S { sleep: Pin<Box<hairspring::Sleep>> }"),
        ("impl From<tokio::time::error::Elapsed> for E {}", "impl From<hairspring::error::Elapsed> for E {}"),
        (
            "tokio::select! { _ = tokio::time::sleep(d) => {}, _ = tokio::signal::ctrl_c() => {} }",
            "tokio::select! { _ = hairspring::sleep(d) => {}, _ = tokio::signal::ctrl_c() => {} }",
        ),
        (
            "macro_rules! nap { ($d:expr) => { tokio::time::sleep($d) }; }",
            "macro_rules! nap { ($d:expr) => { hairspring::sleep($d) }; }",
        ),
        (
            "macro_rules! m { ($n:ident) => { use tokio::time::$n; } }",
            "macro_rules! m { ($n:ident) => { use hairspring::$n; } }",
        ),
        ("let q = tokio_util::time::DelayQueue::<u8>::new();", "let q = hairspring::DelayQueue::<u8>::new();"),
        ("<F as tokio_util::future::FutureExt>::timeout(f, d)", "<F as hairspring::FutureExt>::timeout(f, d)"),
        (
            "let now = if a { ::tokio::time::Instant::now() } else { b };",
            "let now = if a { ::hairspring::Instant::now() } else { b };",
        ),
        (
            "#[builder(default = tokio::time::Instant::now())] x: u8",
            "#[builder(default = hairspring::Instant::now())] x: u8",
        ),
        ("return ::tokio::time::sleep(d)", "return ::hairspring::sleep(d)"),
    ]);
}

#[test]
fn all_else_stays_as_it_is() {
    stay(&[
        "#[tokio::test(start_paused = true)]\nasync fn f() {}",
        "#[tokio::main(flavor = \"current_thread\")] async fn main() {}",
        "// use tokio::time;\n/* tokio::time::sleep */\n/// tokio::time\n//! tokio::time\nfn f() {}",
        "let text = \"tokio::time::sleep\"; let raw = r#\"use tokio::time;\"#; let bytes = b\"tokio::time\";",
        "use tokio::{sync::mpsc, io};",
        "use tokio_util::sync::CancellationToken; use tokio_util::future::other;",
        "use tokio_stream::{StreamExt, wrappers::ReceiverStream};",
        "use std::time::Duration; use crate::tokio::time; use self::tokio::time::sleep;",
        "crate::tokio::time::sleep(d); $crate::tokio::time::sleep(d); Vec::<u8>::tokio::time::x",
        "mytokio::time::sleep(d); tokio::times::sleep(d); tokio::r#time::sleep(d)",
        "fn f<'tokio>(x: &'tokio u8) -> impl Sized + use<'tokio> { x }",
        "macro_rules! m { ($($p:path),*) => { use tokio::{$($p),*}; } }",
        "",
        "Not Rust (, but it names none of the crates",
    ]);
}

#[test]
fn a_mark_at_the_start_and_letters_of_several_bytes_move_nothing() {
    becomes(&[
        ("\u{feff}use tokio::time;", "\u{feff}use hairspring as time;"),
        (
            "const Ä: &str = \"→ tokio::time\"; use tokio::time;",
            "const Ä: &str = \"→ tokio::time\"; use hairspring as time;",
        ),
    ]);
}

#[test]
fn what_is_not_rust_is_refused_with_its_line() {
    for end in ["fn f( {\n", "let s = \"", "fn f() {}\n}", "fn f() { ]"] {
        let source = format!("use tokio::time;\n{end}");
        let NotRust { line } = rewrite(&source).unwrap_err();
        assert!((1..=3).contains(&line), "{source}: line {line}");
    }
    let error = rewrite("fn f() {\n    tokio::g(]\n}").unwrap_err();
    assert_eq!(error.to_string(), "not Rust from line 2 on: a bracket, a quote or a comment has no counterpart");
}
