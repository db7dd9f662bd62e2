//! What the user is told to look at, with its line.

use hairspring_migrate::rewrite;

fn notes(source: &str) -> Vec<(usize, String)> {
    rewrite(source).unwrap().notes.into_iter().map(|note| (note.line, note.text)).collect()
}

#[test]
fn what_a_user_should_look_at_is_noted_with_its_line() {
    for (source, line, part) in [
        ("\npub use tokio::time::Instant;", 2, "a public import"),
        ("use tokio::{io, time::*};", 1, "a glob"),
        ("use tokio as t;", 1, "`tokio` under another name"),
        ("use tokio::{self as t, io};", 1, "`tokio` under another name"),
        ("use tokio::*;", 1, "`tokio` under another name"),
        ("\nextern crate tokio as t;", 2, "`tokio` under another name"),
        ("use rocket::tokio as t;", 1, "`rocket::tokio` under another name"),
        ("\n\n/// tokio::time::sleep\nfn f() {}", 3, "names `tokio::time`"),
        ("use tokio_util::time::FutureExt;\nf.with_cancellation_token(&t)", 2, "the feature `tokio-util`"),
    ] {
        let notes = notes(source);
        assert!(notes.len() == 1 && notes[0].0 == line && notes[0].1.contains(part), "{source}: {notes:?}");
    }
    assert!(notes("use tokio::{sync::mpsc, time::{self, Duration}};\nfn f() { time::sleep(D); }").is_empty());
}

#[test]
fn timers_of_a_crate_that_is_not_known_are_noted_and_stay() {
    for (source, line, module) in [
        ("fn f() {\n    other::time::sleep(d)\n}", 2, "other::time"),
        ("fn f(at: ::other::rt::time::Instant) {}", 1, "other::rt::time"),
        ("use other::rt; fn f() { rt::time::timeout(d, g()) }", 1, "rt::time"),
        ("use other::{net,\n time::{self, sleep_until}};", 2, "other::time"),
        ("use other::time::*;", 1, "other::time"),
        ("\nuse other::time;\nfn f() { time::interval(d) }", 2, "other::time"),
        ("use other::time as t;\nfn f() { t::interval_at(a, d) }", 1, "other::time"),
        ("use other::time::{self};\nfn f(sleep: time::Sleep) {}", 1, "other::time"),
    ] {
        let rewritten = rewrite(source).unwrap();
        assert_eq!((&*rewritten.source, rewritten.paths), (source, 0));
        let text = format!("`{module}` is not known: if it is tokio's, replace it by `hairspring`");
        assert_eq!(notes(source), [(line, text)], "{source}");
    }
    for source in [
        "use std::time::{self, Instant}; use core::time::Duration; fn f() -> time::Instant { std::time::Instant::now() }",
        "use self::*; use crate::time::sleep; use super::time; fn f() { self::time::timeout(d, $crate::time::interval(d)) }",
        "use other::time; use other::time::Format; fn f() { time::format(d); other::time::OffsetDateTime::now() }",
        "use tokio::time; use actix_rt::time::Instant; fn f() { time::sleep(d); }",
    ] {
        assert_eq!(notes(source), [], "{source}");
    }
}
