//! Uses timers on runtimes with and without `enable_time` and `enable_io`, in a program that aborts on a panic.
//!
//! Exits successfully and prints nothing. With `--false-word` it aborts, because it chooses an alarm that the runtime
//! cannot run. There is one program for each set of features.

use hairspring::timer::Alarm;
use hairspring::{Duration, Timer, interval, sleep, timeout};
use tokio::runtime::{Builder, Runtime};

const SOON: Duration = Duration::from_millis(1);

fn bare() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()].map(|mut builder| builder.build().unwrap())
}

fn with_all() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.enable_all().build().unwrap())
}

async fn use_timers() {
    sleep(SOON).await;
    assert!(timeout(SOON, std::future::pending::<()>()).await.is_err());
    let mut ticks = interval(SOON);
    ticks.tick().await;
    ticks.tick().await;
    tokio::spawn(sleep(SOON)).await.unwrap();
}

/// Installs a timer on a `timerfd` if possible, as the guide shows. Returns whether it could.
fn takes_timerfd() -> bool {
    let timer = Timer::builder();
    let takes = timer.clone().alarm(Alarm::Timerfd).install().is_ok();
    if !takes {
        timer.install().unwrap();
    }
    takes
}

/// What the programs do.
pub fn main() {
    if std::env::args().any(|argument| argument == "--false-word") {
        let _others = with_all();
        let [runtime, _] = bare();
        runtime.block_on(async { takes_timerfd() });
        return;
    }
    for runtime in bare() {
        runtime.block_on(async {
            use_timers().await;
            assert!(!takes_timerfd());
            use_timers().await;
        });
    }
    for runtime in with_all() {
        runtime.block_on(async {
            assert_eq!(takes_timerfd(), cfg!(target_os = "linux"));
            use_timers().await;
        });
    }
    #[cfg(feature = "test-util")]
    on_paused_time(&with_all()[0]);
}

/// Pauses the clock while a timer waits.
#[cfg(feature = "test-util")]
fn on_paused_time(runtime: &Runtime) {
    const HOUR: Duration = Duration::from_secs(3_600);

    runtime.block_on(async {
        let pending = tokio::spawn(sleep(HOUR));
        sleep(SOON).await;
        hairspring::pause();
        let start = hairspring::Instant::now();
        sleep(2 * HOUR).await;
        assert!(start.elapsed() >= 2 * HOUR);
        pending.await.unwrap();
        hairspring::resume();
    });
}
