//! What a source needs of hairspring: the dependency and its features, in its tests and outside of them.

use hairspring_migrate::{Needs, Package, rewrite};

const NOTHING: &str = "";
/// The dependency without features.
const BARE: &str = "bare";

/// Checks what a source needs, and that it needs the same once it is rewritten.
fn needs(source: &str, program: &str, tests: &str) {
    let needs = |features: &str| Needs {
        dependency: features != NOTHING,
        features: ["test-util", "tokio-util"].into_iter().filter(|feature| features.contains(feature)).collect(),
    };
    let new = rewrite(source, &Package::default()).unwrap();
    let again = rewrite(&new.source, &Package::default()).unwrap();
    for (run, new) in [("first", new), ("second", again)] {
        assert_eq!((new.program, new.tests), (needs(program), needs(tests)), "{source}, {run} run");
    }
}

#[test]
fn of_programs() {
    needs("fn f() { other::sleep(d) } // tokio::time", NOTHING, NOTHING);
    needs("fn f() { tokio::time::sleep(d) }", BARE, NOTHING);
    needs("use tokio::{io, time};", BARE, NOTHING);
    needs("use tokio::time; fn f() { time::pause() }", "test-util", NOTHING);
    needs("use tokio::time::{self as t}; fn f() { t::resume() }", "test-util", NOTHING);
    needs("use tokio::time::advance; fn f() { advance(d); other::pause() }", "test-util", NOTHING);
    needs("use tokio::time::{pause as freeze}; fn f() { freeze() }", "test-util", NOTHING);
    needs("use tokio::time::resume; fn f() { g(resume) }", "test-util", NOTHING);
    needs("use tokio::time::sleep as pause; fn f() { pause.await }", BARE, NOTHING);
    needs("use tokio::time; fn pause() { clock.advance(d); player::resume() }", BARE, NOTHING);
    needs("use tokio_util::future::FutureExt as _; fn f() { g.with_cancellation_token(&t) }", "tokio-util", NOTHING);
    needs("fn f() { g.with_cancellation_token(&t) }", NOTHING, NOTHING);
    needs("use n0_future::time::SystemTime;", NOTHING, NOTHING);
}

#[test]
fn of_tests() {
    for tests in [
        "#[hairspring::test(workers = 4)] async fn f() {}",
        "#[cfg(test)] use hairspring::test_util::Bubble;",
        "#[cfg(test)] mod tests { fn f() { tokio::time::pause() } }",
        "#[cfg(all(test, unix))] mod tests { use tokio::time; fn f() { time::pause() } }",
        "#[tokio::test(start_paused = true)] #[ignore] async fn f() { tokio::time::pause() }",
        "#[test] fn f(a: [u8; 2]) -> Result<A, B> { if x { y; } tokio::time::pause() }",
        "#![cfg(test)] fn f() { tokio::time::pause() }",
        "#[cfg(test)] static A: fn() = tokio::time::pause(); #[cfg(test)] use tokio::{io::{A}, time};",
        "struct A { #[cfg(test)] at: A<{ tokio::time::pause() }>, b: C }",
        "fn f() { #[cfg(test)] { a(); tokio::time::pause(); } b() }",
    ] {
        needs(tests, NOTHING, "test-util");
        if !tests.starts_with("#!") {
            needs(&format!("{tests} fn after() {{ tokio::time::sleep(d) }}"), BARE, "test-util");
        }
    }
    needs("#[cfg(not(test))] fn f() { tokio::time::pause() }", "test-util", NOTHING);
    needs("#[cfg(any(test, feature = \"x\"))] fn f() { tokio::time::pause() }", "test-util", NOTHING);
}

#[test]
fn modules_for_tests_are_named() {
    let source = "#[cfg(test)] mod a; #[cfg(test)] pub(crate) mod b; mod c; #[cfg(test)] mod d { mod e; }";
    assert_eq!(rewrite(source, &Package::default()).unwrap().test_modules, ["a", "b"]);
}
