//! `#[hairspring::test]`, as a user would write it. `tests/repository` has what does not compile.

use std::fmt::Debug;
use std::process::ExitCode;

use crate::common::{HOUR, ms};
use hairspring::{Duration, Instant, interval, sleep};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// Lets an hour pass, in a task as well. Returns the number of workers, or 0 on a current-thread runtime.
async fn an_hour_passes() -> usize {
    let start = Instant::now();
    let task = tokio::spawn(sleep(HOUR));
    sleep(HOUR).await;
    task.await.unwrap();
    let runtime = Handle::current();
    if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
        // tokio's clock rounds it up.
        assert!((HOUR..=HOUR + ms(1)).contains(&start.elapsed()), "{:?}", start.elapsed());
        0
    } else {
        assert_eq!(start.elapsed(), HOUR);
        runtime.metrics().num_workers()
    }
}

#[hairspring::test]
async fn without_arguments_the_runtime_has_one_thread() {
    assert_eq!(an_hour_passes().await, 0);
}

#[hairspring::test()]
async fn without_arguments_in_brackets() {
    assert_eq!(an_hour_passes().await, 0);
}

#[hairspring::test(workers = 2)]
async fn on_2_workers() {
    assert_eq!(an_hour_passes().await, 2);
}

#[hairspring::test(workers = 4)]
async fn on_4_workers() {
    assert_eq!(an_hour_passes().await, 4);
}

#[hairspring::test(workers = 8)]
async fn on_8_workers() {
    assert_eq!(an_hour_passes().await, 8);
}

#[hairspring::test(workers = 2, limit = "2h", patience = 60, grace = 0.001, seed = 7, crate = "::hairspring")]
async fn with_all_arguments() {
    assert_eq!(an_hour_passes().await, 2);
}

/// What a macro passes on is in an invisible group.
macro_rules! with {
    ($($name:ident: $workers:expr, $limit:literal;)*) => {
        $(
            #[hairspring::test(workers = $workers, limit = $limit)]
            async fn $name() {
                assert_eq!(an_hour_passes().await, $workers);
            }
        )*
    };
}

with! {
    from_a_macro_on_1_worker: 1, 3_600;
    from_a_macro_on_3_workers: 3, "1h";
}

mod renamed {
    pub(super) use hairspring as timers;
}

#[hairspring::test(crate = "crate::attribute::renamed::timers")]
async fn the_crate_may_have_another_name() {
    assert_eq!(an_hour_passes().await, 0);
}

/// A heartbeat goes on for ever, so without a limit this would never end.
#[hairspring::test(limit = "1m")]
#[should_panic(expected = "test `attribute::a_limit_ends_a_test`: the bubble's limit has passed")]
async fn a_limit_ends_a_test() {
    let mut beats = interval(ms(500));
    tokio::spawn(async move {
        loop {
            beats.tick().await;
        }
    });
    std::future::pending::<()>().await;
}

#[hairspring::test(workers = 2, limit = 59.999_999_999)]
#[should_panic(expected = "test `attribute::a_limit_is_exact_on_workers`: the bubble's limit has passed")]
async fn a_limit_is_exact_on_workers() {
    sleep(Duration::from_secs(60)).await;
}

async fn waits_for_nobody() {
    let (_sender, answer) = oneshot::channel::<()>();
    let _ = answer.await;
}

#[hairspring::test(patience = 0.1)]
#[should_panic(expected = "test `attribute::a_deadlock_names_the_test`: deadlock: nothing is left")]
async fn a_deadlock_names_the_test() {
    waits_for_nobody().await;
}

#[hairspring::test(workers = 2, patience = "100ms")]
#[should_panic(expected = "test `attribute::a_deadlock_names_the_test_on_workers`: deadlock: nothing is left")]
async fn a_deadlock_names_the_test_on_workers() {
    waits_for_nobody().await;
}

#[hairspring::test]
#[should_panic(
    expected = "test `attribute::a_task_that_is_left_names_the_test`: the bubble's future has ended, and left"
)]
async fn a_task_that_is_left_names_the_test() {
    tokio::spawn(sleep(HOUR));
}

#[hairspring::test]
#[should_panic(expected = "its own panic")]
async fn a_panic_is_the_tests_own() {
    sleep(HOUR).await;
    panic!("its own panic");
}

#[hairspring::test]
#[ignore = "must not run"]
async fn other_attributes_stay() {
    panic!("it is ignored");
}

#[hairspring::test]
#[cfg(any())]
async fn what_is_left_out_need_not_compile() {
    no_such_function();
}

#[hairspring::test]
async fn a_result_is_returned() -> Result<(), std::num::ParseIntError> {
    sleep(Duration::from_secs("3600".parse()?)).await;
    if Handle::current().metrics().num_workers() == 1 {
        return Ok(());
    }
    unreachable!("a current-thread runtime counts as one worker");
}

#[hairspring::test]
async fn an_exit_code_is_returned() -> ExitCode {
    sleep(HOUR).await;
    ExitCode::SUCCESS
}

#[hairspring::test]
async fn what_is_not_send_lives_across_an_await() {
    let shared = std::rc::Rc::new(5);
    sleep(HOUR).await;
    assert_eq!(*shared, 5);
}

#[hairspring::test]
async fn it_need_not_await() {
    #![allow(unused_variables)]
    let unused = 1;
}

#[hairspring::test]
#[ignore = "run by the last test in a separate process"]
async fn returns_an_error() -> Result<(), impl Debug> {
    sleep(HOUR).await;
    "an hour".parse::<u32>().map(drop)
}

#[hairspring::test]
#[ignore = "run by the last test in a separate process"]
async fn returns_a_failure() -> ExitCode {
    sleep(HOUR).await;
    ExitCode::FAILURE
}

/// Of such a function, `#[test]` warns of itself.
#[expect(unreachable_code)]
mod never {
    use super::*;

    #[hairspring::test(seed = 1_234)]
    #[ignore = "run by the last test in a separate process"]
    async fn returns() -> ! {
        sleep(HOUR).await;
        panic!("it never returns");
    }
}

#[test]
fn whatever_a_test_returns_may_fail() {
    for (test, printed) in [
        ("returns_an_error", "Error: ParseIntError"),
        ("returns_a_failure", "returns_a_failure ... FAILED"),
        ("never::returns", "it never returns"),
        ("never::returns", "hairspring: test `attribute::never::returns`: to repeat"),
        ("never::returns", "HAIRSPRING_SEED=1234"),
    ] {
        let mut run = crate::alone(&format!("attribute::{test}"));
        let output = run.env_remove("HAIRSPRING_SEED").output().unwrap();
        assert!(!output.status.success(), "{test} passes");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(printed), "{printed} is not in {said}");
    }
}
