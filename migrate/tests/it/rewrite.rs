//! Rewritten imports and paths, and text that stays.

use hairspring_migrate::{Package, Rewritten};

fn rewrite(source: &str) -> Result<Rewritten, String> {
    hairspring_migrate::rewrite(source, &Package::default())
}

/// Each source becomes the one beside it, and a second run changes nothing.
fn becomes(cases: &[(&str, &str)]) {
    for (old, new) in cases {
        let rewritten = rewrite(old).unwrap_or_else(|error| panic!("{old}: {error}"));
        assert_eq!(rewritten.source, *new, "from: {old}");
        assert_eq!(rewrite(new).unwrap().source, *new, "rewritten once more");
    }
}

#[test]
fn an_import_keeps_the_names_that_the_program_uses() {
    becomes(&[
        ("use tokio::time;", "use hairspring as time;"),
        ("use tokio::time as t;", "use hairspring as t;"),
        ("use tokio::time::Instant as Moment;", "use hairspring::Instant as Moment;"),
        ("use ::tokio::time::sleep;", "use ::hairspring::sleep;"),
        ("use tokio::time::{self, r#sleep};", "use hairspring::{self as time, r#sleep};"),
        (
            "use tokio::time::{self, error::{self, Elapsed}, Duration as D};",
            "use hairspring::{self as time, error::{self, Elapsed}, Duration as D};",
        ),
        (
            "pub use actix_rt::time::*;",
            "pub use hairspring::{Duration, error, Instant, Interval, MissedTickBehavior, Sleep, Timeout, \
             interval, interval_at, sleep, sleep_until, timeout, timeout_at};",
        ),
        ("use tokio_util::time::{DelayQueue, delay_queue};", "use hairspring::{DelayQueue, delay_queue};"),
        ("use tokio_util::future::FutureExt as _;", "use hairspring::FutureExt as _;"),
        ("use tokio_stream::wrappers::IntervalStream;", "use hairspring::stream::IntervalStream;"),
        ("use actix_rt::time::{Sleep, sleep};", "use hairspring::{Sleep, sleep};"),
        ("use n0_future::time::{self, Elapsed};", "use hairspring::{self as time, Elapsed};"),
        ("use n0_future::time::{SystemTime as S, sleep};", "use hairspring::sleep;\nuse std::time::SystemTime as S;"),
        ("\u{feff}const Ä: &str = \"→\"; use tokio::time;", "\u{feff}const Ä: &str = \"→\"; use hairspring as time;"),
    ]);
}

/// A bug that this tool had: the names were imported twice.
#[test]
fn a_list_leaves_out_what_hides_a_name_of_the_glob() {
    const TYPES: &str = "Instant, Interval, MissedTickBehavior, Sleep, Timeout";
    const FUNCTIONS: &str = "interval, interval_at, sleep, sleep_until, timeout, timeout_at";
    for (before, after, names) in [
        ("use other::Duration; mod m { ", " }", format!("Duration, error, {TYPES}, {FUNCTIONS}")),
        ("mod m { use other::Duration; } ", "", format!("Duration, error, {TYPES}, {FUNCTIONS}")),
        ("mod m { pub use std::time::{Duration, SystemTime as S}; ", " }", format!("error, {TYPES}, {FUNCTIONS}")),
        ("mod m { ", " use a::{b as Duration, c::{self}}; } ", format!("error, {TYPES}, {FUNCTIONS}")),
        ("mod error; ", " mod sleep; fn f() { fn sleep() {} }", format!("Duration, {TYPES}, {FUNCTIONS}")),
        (
            "",
            " pub async fn sleep(d: Duration) {} struct Sleep; const timeout: u8 = 1; fn Timeout() {}",
            "Duration, error, Instant, Interval, MissedTickBehavior, Timeout, interval, interval_at, sleep_until, \
             timeout_at"
                .to_owned(),
        ),
    ] {
        let old = format!("{before}pub use tokio::time::*;{after}");
        becomes(&[(&old, &format!("{before}pub use hairspring::{{{names}}};{after}"))]);
    }
}

#[test]
fn an_item_in_the_braces_of_another_crate_gets_its_own_import() {
    becomes(&[
        (
            "use tokio::{sync::mpsc, time::{self, Duration}};",
            "use tokio::sync::mpsc;\nuse hairspring::{self as time, Duration};",
        ),
        ("use tokio::{time, sync};", "use tokio::sync;\nuse hairspring as time;"),
        ("use tokio::{io, time::sleep, time};", "use tokio::io;\nuse hairspring::sleep;\nuse hairspring as time;"),
        ("use tokio::{self, select, time, };", "use tokio::{self, select};\nuse hairspring as time;"),
        ("use actix_web::{App, rt::time::interval};", "use actix_web::App;\nuse hairspring::interval;"),
        (
            "use n0_future::{x, time::{Y, SystemTime}};",
            "use n0_future::x;\nuse std::time::SystemTime;\nuse hairspring::Y;",
        ),
        ("use {std::io, tokio::time::sleep};", "use {std::io, hairspring::sleep};"),
        ("use {std::io, tokio::{sync, time}};", "use {std::io, tokio::sync};\nuse hairspring as time;"),
        (
            "use tokio::{\n    time, // for both\n    sync::mpsc, // for jobs\n};\n",
            "use tokio::{\n    // for both\n    sync::mpsc, // for jobs\n};\nuse hairspring as time;\n",
        ),
        (
            "  use tokio::{\n    sync, // for jobs\n    time::sleep,\n    time,\n  };\n",
            "  use tokio::{\n    sync, // for jobs\n  };\n  use hairspring::sleep;\n  use hairspring as time;\n",
        ),
        ("use tokio::{ // one\n    time::sleep };\n", "use tokio::{ // one\n    };\nuse hairspring::sleep;\n"),
        (
            "    pub(crate) use tokio::{io, time::sleep};",
            "    pub(crate) use tokio::io;\n    pub(crate) use hairspring::sleep;",
        ),
        (
            "#![allow(dead_code)]\n/// Both.\n#[cfg(test)]\n#[allow(unused_imports)]\nuse tokio::{time, io};\n",
            "#![allow(dead_code)]\n/// Both.\n#[cfg(test)]\n#[allow(unused_imports)]\nuse tokio::io;\n#[cfg(test)]\n#[allow(unused_imports)]\nuse hairspring as time;\n",
        ),
        (
            "macro_rules! m { ($(#[$a:meta])* $v:vis) => { $(#[$a])* $v use tokio::{io, time}; } }",
            "macro_rules! m { ($(#[$a:meta])* $v:vis) => { $(#[$a])* $v use {tokio::io, hairspring as time}; } }",
        ),
        (
            "m!($(#[$a])* use ::tokio::{time, time::sleep};)",
            "m!($(#[$a])* use {::hairspring as time, ::hairspring::sleep};)",
        ),
        ("use tokio::{sync::oneshot, time};", "use tokio::sync::oneshot;\nuse hairspring as time;"),
        (
            "use tokio::{\n    time,\n    sync::{mpsc, oneshot},\n};",
            "use tokio::sync::{mpsc, oneshot};\nuse hairspring as time;",
        ),
        ("use tokio::{self, time};", "use tokio::{self};\nuse hairspring as time;"),
        ("use tokio::{io /* a */, time};", "use tokio::{io /* a */};\nuse hairspring as time;"),
        ("m!(use tokio::{io, time};);", "m!(use tokio::io;\nuse hairspring as time;);"),
        ("#[cfg(test)]\npub use tokio::{time};", "#[cfg(test)]\npub use hairspring as time;"),
    ]);
}

#[test]
fn a_renamed_dependency_is_rewritten() {
    let renamed = [("tokio_crate", "tokio"), ("util", "tokio_util")];
    let renamed = renamed.map(|(own, name)| (own.to_owned(), name.to_owned())).into();
    let package = Package { renamed, is_private: false };
    for (old, new) in [
        ("use tokio_crate::time;", "use hairspring as time;"),
        ("use tokio_crate::{io, time::sleep};", "use tokio_crate::io;\nuse hairspring::sleep;"),
        ("use {util::time::DelayQueue, tokio_crate::time};", "use {hairspring::DelayQueue, hairspring as time};"),
        ("fn f(at: tokio_crate::time::Instant) {}", "fn f(at: hairspring::Instant) {}"),
        ("fn f(at: tokio::time::Instant) {}", "fn f(at: hairspring::Instant) {}"),
        ("mod a { use super::tokio_crate::time; }", "mod a { use super::tokio_crate::time; }"),
    ] {
        assert_eq!(hairspring_migrate::rewrite(old, &package).unwrap().source, new, "from: {old}");
    }
    let error = hairspring_migrate::rewrite("fn f() { tokio_crate::g(] }", &package).unwrap_err();
    assert!(error.starts_with("not Rust from line 1 on"), "{error}");
}

#[test]
fn comments_within_what_changes_stay() {
    becomes(&[
        ("tokio::/* a */time::sleep(d)", "hairspring/* a */::sleep(d)"),
        ("tokio:: // why\n    time::sleep(d)", "hairspring // why\n    ::sleep(d)"),
        ("use tokio:: /* a */ time;", "use hairspring /* a */  as time;"),
        ("use tokio::{time /* a */, io};", "use tokio::{ /* a */io};\nuse hairspring as time;"),
        ("use tokio::{io, time // a\n    , };", "use tokio::{io // a\n    };\nuse hairspring as time;"),
    ]);
}

#[test]
fn paths_in_code_and_in_macros_are_replaced() {
    becomes(&[
        (
            "fn f(i: ::tokio::time::Instant) -> ::tokio::time::Sleep {}",
            "fn f(i: ::hairspring::Instant) -> ::hairspring::Sleep {}",
        ),
        (
            "tokio::select! { _ = tokio::time::sleep(d) => {}, _ = tokio::signal::ctrl_c() => {} }",
            "tokio::select! { _ = hairspring::sleep(d) => {}, _ = tokio::signal::ctrl_c() => {} }",
        ),
        (
            "macro_rules! m { ($n:ident) => { use tokio::time::$n; tokio::time::sleep($d) } }",
            "macro_rules! m { ($n:ident) => { use hairspring::$n; hairspring::sleep($d) } }",
        ),
        ("<F as tokio_util::future::FutureExt>::timeout(f, d)", "<F as hairspring::FutureExt>::timeout(f, d)"),
        ("return ::tokio::time::sleep(d)", "return ::hairspring::sleep(d)"),
        ("rocket::tokio::time::sleep(d).await", "hairspring::sleep(d).await"),
        ("n0_future::time::SystemTime::now()", "std::time::SystemTime::now()"),
    ]);
}

#[test]
fn everything_else_stays_as_it_is() {
    for source in [
        "#[tokio::test(start_paused = true)]\nasync fn f() {}",
        "// use tokio::time;\n/* tokio::time::sleep */\n/// tokio::time\n//! tokio::time\nfn f() {}",
        "let text = \"tokio::time::sleep\"; let raw = r#\"use tokio::time;\"#; let bytes = b\"tokio::time\";",
        "use tokio::{sync::mpsc, io}; use tokio_util::future::other; use tokio_stream::StreamExt;",
        "use tokio::time::*; use n0_future::time::{self, *}; pub use tokio_util::time::*; pub use n0_future::time::*;",
        "use std::time::Duration; use crate::tokio::time; use self::tokio::time::sleep;",
        "crate::tokio::time::sleep(d); $crate::tokio::time::sleep(d); Vec::<u8>::tokio::time::x",
        "macro_rules! m { ($tokio:ident) => { use $tokio::time::sleep; $tokio::time::sleep(d) } }",
        "mytokio::time::sleep(d); tokio::times::sleep(d); tokio::r#time::sleep(d)",
        "fn f<'tokio>(x: &'tokio u8) -> impl Sized + use<'tokio> { x }",
        "macro_rules! m { ($($p:path),*) => { use tokio::{$($p),*}; } }",
        "",
        "Not Rust (, but it names none of the crates",
    ] {
        let rewritten = rewrite(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!((&*rewritten.source, rewritten.paths), (source, 0));
    }
}

#[test]
fn a_text_that_is_not_rust_is_refused_with_its_line() {
    for (source, line) in
        [("use tokio::time;\nfn f( {\n", 2), ("let s = \"; tokio", 1), ("fn f() {\n  tokio::g(]\n}", 2)]
    {
        let error = rewrite(source).unwrap_err();
        assert!(error.starts_with(&format!("not Rust from line {line} on")), "{source}: {error}");
    }
}
