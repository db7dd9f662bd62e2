//! Notes on what a user should look at.

use hairspring_migrate::{Package, Rewritten};

fn rewrite(source: &str) -> Result<Rewritten, String> {
    hairspring_migrate::rewrite(source, &Package::default())
}

#[test]
fn what_a_user_should_look_at_is_noted_with_its_line() {
    for (source, line, part) in [
        ("\npub use tokio::time::Instant;", 2, "a public import"),
        ("use tokio::time::*;", 1, "this glob import was left alone: list the names that you use"),
        ("\npub type Sleep = std::pin::Pin<Box<tokio::time::Sleep>>;", 2, "a type that may be public"),
        (
            "use tokio::time;\npub struct A;\nimpl T for A {\n    fn f() {}\n    type Sleep = time::Sleep;\n}",
            5,
            "a type that may be public",
        ),
        ("use tokio::{self as t, io};", 1, "`tokio` under another name"),
        ("use tokio::*;", 1, "`tokio` under another name"),
        ("extern crate tokio as t;", 1, "`tokio` under another name"),
        ("use rocket::tokio as t;", 1, "`rocket::tokio` under another name"),
        ("\nlet a = \"tokio::time::sleep\";", 2, "names `tokio::time`"),
        ("\nfn f() { return :: tokio :: time :: sleep (d) ; }", 2, "names `tokio::time`"),
        ("fn f() {\n    other::time::sleep(d)\n}", 2, "`other::time` is not known: if it is tokio's, write"),
        ("fn f(at: ::other::rt::time::Instant) {}", 1, "`other::rt::time` is not known"),
        ("macro_rules! m { ($t:ident) => { $t::time::sleep(d) } }", 1, "`$t::time` is not known"),
        (
            "use tokio_stream::{Stream, StreamExt as _};\nfn f() {\n    s.next();\n    s.throttle(d).timeout(d)\n}",
            4,
            "`throttle` is tokio's timer if it is from `tokio_stream::StreamExt`",
        ),
        ("use other::{net,\n time::{self, sleep_until}};", 2, "`other::time` is not known"),
        ("use other::time::*;", 1, "`other::time` is not known"),
        ("use other::time as t;", 1, "`other::time` is not known"),
        ("\nwhile handle.metrics().num_alive_tasks() > 0 {}", 2, "`num_alive_tasks` counts the timer's own task, too"),
    ] {
        let notes = rewrite(source).unwrap().notes;
        assert!(notes.len() == 1 && notes[0].0 == line && notes[0].1.contains(part), "{source}: {notes:?}");
    }
}

#[test]
fn what_needs_no_look_is_not_noted() {
    for source in [
        "use tokio::{sync::mpsc, time::{self, Duration}}; fn f() { time::sleep(D); }",
        "use tokio::time::{sleep, /* the pause */ timeout}; // 2 * the limit",
        "use tokio_stream::{Stream, StreamExt}; fn timeout(s: S) { s.next(); timeout(s) }",
        "use tokio_stream::{wrappers, Stream}; use futures::StreamExt; fn f() { request.timeout(d) }",
        "extern crate tokio; extern crate self as this;",
        "use tokio :: time :: sleep; use tokio :: { io , time :: timeout } ;",
        "use std::time::{self, Instant}; use core::time::Duration; fn f() -> time::Instant { std::time::Instant::now() }",
        "use self::*; use crate::time::sleep; use super::time; fn f() { self::time::timeout(d, $crate::time::interval(d)) }",
        "use tokio::time::Sleep; struct A; type B = Sleep; impl T for A { type C = Sleep; } fn f() { type D = Sleep; }",
        "use tokio::time::{Duration, sleep}; pub type D = Duration; pub type E = std::time::Instant;",
        "use tokio::time; use tokio_util::sync::CancellationToken; fn f() { builder.with_cancellation_token(t) }",
        "use time::{Duration, macros::time}; use monoio::time::sleep; use tracing_subscriber::fmt::time;",
        "use actix_rt::time::Instant; fn f() { time::sleep(d); other::time::format(d) }",
        "use tokio::time::Sleep; fn poll_next(&mut self) { self.sleep.reset(at); self.buf.reset() }",
        "/// Like tokio::time::sleep.\nfn f() {} // tokio::time",
    ] {
        assert_eq!(rewrite(source).unwrap().notes, [], "{source}");
    }
}

/// The lines of a source that have a note with this text, in a package with or without users.
fn noted(source: &str, is_private: bool, part: &str) -> Vec<usize> {
    let new = hairspring_migrate::rewrite(source, &Package { renamed: Vec::new(), is_private }).unwrap();
    let noted = new.notes.iter().filter(|(_, note)| note.contains(part));
    noted.map(|(line, _)| *line).collect()
}

#[test]
fn what_other_packages_see_is_noted_and_nothing_else() {
    let source = "use tokio::time::{self, Duration, Instant, Sleep, timeout};
pub fn a(d: Duration) -> Sleep { time::sleep(d) }
pub async unsafe fn b<A, B>(at: HashMap<A, Option<time::Instant>>) {}
pub struct C(pub Sleep);
pub struct D { pub at: Instant, pub(crate) other: Instant }
pub enum E { Never, At(Instant) }
pub trait F { fn f(&self) -> Sleep; }
pub const G: Option<Instant> = None;
impl D { pub fn g(&self) -> Instant { self.at } }
impl From<D> for C { type Error = Instant; fn from(d: D) -> C { h(d.at) } }
fn h(timeout: Sleep) -> Sleep { time::sleep_until(at) }
pub fn i(timeout: Duration, time: u64) { let at: Instant = x; }
pub(crate) fn j() -> Sleep {}
struct K { pub at: Instant }
impl<T> K<T> { pub fn k() -> Instant {} }
pub struct L { at: Instant }
pub mod m { fn n() -> Instant {} }
#[cfg(test)] mod tests { pub fn o() -> Instant {} }
#[test] pub fn p() -> Instant {}
";
    assert_eq!(noted(source, false, "may be public: users of this crate"), [2, 3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(noted(source, true, ""), [], "nobody sees them");
    assert_eq!(noted("pub use tokio::time;", true, ""), [], "nobody sees it");
}

#[test]
fn exported_macros_with_a_path_to_hairspring_are_noted() {
    let source = "
#[macro_export]
macro_rules! a { () => { ::tokio::time::sleep(d) } }
#[macro_export]
macro_rules! b { () => { $crate::tokio::time::sleep(d) } }
macro_rules! c { () => { tokio::time::sleep(d) } }
#[doc(hidden)]
#[macro_export(local_inner_macros)]
/// Waits.
macro_rules! d { ($d:expr) => {{ use tokio::time; time::sleep($d) }} }
";
    assert_eq!(noted(source, false, "an exported macro: crates that use it need hairspring"), [3, 10]);
    assert_eq!(noted(source, true, "an exported macro"), [], "nobody uses it");
}

#[test]
fn code_that_procedural_macros_make_is_noted_and_is_no_need_of_theirs() {
    let source = "fn f() -> TokenStream {\n    quote! { #(::tokio::time::sleep(#d).await;)* }\n}\n";
    assert_eq!(noted(source, true, "code that a macro makes: the crates that it goes into need hairspring"), [2]);
    let new = rewrite(source).unwrap();
    assert!(new.source.contains("#(::hairspring::sleep(#d)") && !new.program.dependency, "{new:?}");
}

#[test]
fn comments_are_counted_and_not_noted() {
    let source =
        "//! tokio::time\n/* and\ntokio::time::sleep */ fn f() { tokio::time::sleep(d) } // tokio_util::time\n";
    let new = rewrite(source).unwrap();
    assert_eq!((new.notes, new.comments), (vec![], vec![1, 3]));
}
