//! `boot` and `wall` on the system's clocks, which these tests do not set.

use std::time::SystemTime;

use crate::common::{HOUR, Wakes, bare, both_flavours, ms, must_end, poll_with};
use hairspring::{Instant, boot, sleep, wall};

async fn nothing_is_early() {
    let (start, uptime, time) = (boot::Instant::now(), Instant::now(), SystemTime::now());
    for (number, length) in (1..).zip([1, 2, 5].map(ms)) {
        boot::sleep(length).await;
        let deadline = boot::Instant::now() + length;
        assert!(boot::timeout_at(deadline, std::future::pending::<()>()).await.is_err());
        assert!(boot::Instant::now() >= deadline);
        let deadline = SystemTime::now() + length;
        wall::sleep_until(deadline).await;
        assert!(SystemTime::now() >= deadline, "in round {number}");
    }
    let mut ticks = boot::interval(ms(2));
    assert!(ticks.tick().await + ms(2) <= ticks.tick().await);
    let tick = wall::interval_aligned(ms(2)).tick().await;
    assert!(SystemTime::now() >= tick && tick >= time);
    assert!(start.elapsed() >= ms(26) && uptime.elapsed() >= ms(24));
}

#[test]
fn boot_and_wall_are_never_early_without_a_runtime() {
    must_end(|| {
        for runtime in both_flavours().into_iter().chain(bare()) {
            runtime.block_on(nothing_is_early());
        }
        futures::executor::block_on(nothing_is_early());
    });
}

/// Another thread watches the clocks that can jump.
#[test]
fn ordinary_timers_run_beside_those_on_other_clocks() {
    must_end(|| {
        let (woken, waker) = Wakes::new();
        let mut waits = (boot::sleep(HOUR), wall::sleep_until(wall::now() + HOUR));
        assert!(poll_with(&mut waits.0, &waker).is_pending() && poll_with(&mut waits.1, &waker).is_pending());
        waits.0.reset_at(boot::Instant::now() + 2 * HOUR);
        waits.1.reset_at(wall::now() + 2 * HOUR);
        for _ in 0..20 {
            let start = Instant::now();
            futures::executor::block_on(sleep(ms(1)));
            assert!(start.elapsed() >= ms(1));
        }
        assert_eq!(woken.count(), 0, "a reset to a later time wakes nobody either");
    });
}

/// In a time namespace, the boot clock can be far ahead of the monotonic clock, as after a long suspension.
#[cfg(target_os = "linux")]
#[test]
fn boot_uses_the_boot_clock() {
    use rustix::time::{ClockId, clock_gettime};

    const INSIDE: &str = "HAIRSPRING_IN_A_TIME_NAMESPACE";
    const AHEAD: i64 = 1_000_000;
    if std::env::var_os(INSIDE).is_some() {
        let [boot, uptime] = [ClockId::Boottime, ClockId::Monotonic].map(|clock| clock_gettime(clock).tv_sec);
        assert!(boot >= uptime + AHEAD, "{boot} {uptime}");
        let shown = format!("{:?}", boot::Instant::now());
        let shown: String = shown.chars().filter(char::is_ascii_digit).collect();
        let shown = shown.parse::<i64>().unwrap() / 1_000_000_000;
        assert!((boot..boot + 60).contains(&shown), "{shown} {boot}");
        must_end(|| futures::executor::block_on(nothing_is_early()));
        return;
    }
    let mut test = std::process::Command::new("unshare");
    test.args(["--user", "--map-root-user", "--time", "--boottime", &AHEAD.to_string(), "--fork", "--"]);
    test.arg(std::env::current_exe().unwrap()).env(INSIDE, "1");
    test.args(["--exact", "clocks::boot_uses_the_boot_clock", "--nocapture"]);
    match test.output() {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        refused => eprintln!("skipped: no time namespace can be created here: {refused:?}"),
    }
}
