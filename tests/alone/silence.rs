//! The crate prints nothing unexpected, calls nothing that may panic, and leaves the panic hook as it is.

use std::env;
use std::panic;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::common::{bare, panicked, use_time};
use crate::in_copy;
use hairspring::timer::Alarm;
use hairspring::{Duration, Instant, Timer, boot, interval, interval_at, wall};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Runs `test` in a separate process. It must print nothing to standard error, and call the panic hook `panics` times.
fn silent<T: FnOnce() + Send + 'static>(panics: usize, test: T) {
    let errors = in_copy::<T>(Command::new(env::current_exe().unwrap()), move || {
        panic::set_hook(Box::new(|panic| {
            PANICS.fetch_add(1, SeqCst);
            if panic.payload().downcast_ref() != Some(&"on purpose") {
                eprintln!("{panic}");
            }
        }));
        test();
        assert_eq!(PANICS.load(SeqCst), panics);
    });
    assert_eq!(errors, "");
}

fn panic_on_purpose() {
    assert!(panic::catch_unwind(|| panic!("on purpose")).is_err());
}

#[test]
fn sleeps_without_enable_time_print_nothing() {
    silent(bare().len() + 1, || {
        panic_on_purpose();
        for runtime in bare() {
            runtime.block_on(runtime.spawn(use_time())).unwrap();
            panic_on_purpose();
        }
    });
}

/// The guide shows this way to fall back to the default alarm.
#[test]
fn a_refused_timerfd_prints_nothing() {
    silent(0, || {
        for runtime in bare() {
            runtime.block_on(async {
                let timer = Timer::builder();
                let refused = timer.clone().alarm(Alarm::Timerfd).install().unwrap_err();
                assert!(refused.to_string().contains("enable_io"), "{refused}");
                timer.install().unwrap();
                use_time().await;
            });
        }
    });
}

#[cfg(feature = "test-util")]
#[test]
fn a_paused_clock_without_sockets_prints_nothing() {
    use crate::common::{HOUR, both_flavours};
    use hairspring::test_util::Bubble;

    silent(0, || {
        for _ in 0..2 {
            Bubble::new().runtime(tokio::runtime::Builder::new_multi_thread()).run(|| async {
                let start = Instant::now();
                hairspring::sleep(HOUR).await;
                assert_eq!(start.elapsed(), HOUR);
            });
            // The second round runs beside runtimes that have sockets.
            both_flavours().into_iter().for_each(std::mem::forget);
        }
    });
}

#[test]
fn a_zero_period_panics_at_its_callers_line() {
    const ZERO: Duration = Duration::ZERO;
    let here = |line| ("`period` must be non-zero.".to_owned(), file!().to_owned(), line);
    let [runtime, _] = bare();
    let _guard = runtime.enter();
    assert_eq!(panicked(|| interval(ZERO)), here(line!()));
    assert_eq!(panicked(|| interval_at(Instant::now(), ZERO)), here(line!()));
    assert_eq!(panicked(|| Timer::current().interval(ZERO)), here(line!()));
    assert_eq!(panicked(|| Timer::current().interval_at(Instant::now(), ZERO)), here(line!()));
    assert_eq!(panicked(|| boot::interval(ZERO)), here(line!()));
    assert_eq!(panicked(|| wall::interval_aligned(ZERO)), here(line!()));
}
