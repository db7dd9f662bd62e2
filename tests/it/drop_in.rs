//! A program that uses all names of `tokio::time`, compiled with tokio and with this crate in its `use` line. Both
//! versions do the same at the same times, except for documented differences. `fuzz::current` compares random
//! programs.

use crate::common::{must_end, paused};

/// The events of a program, with their times.
#[derive(Debug, PartialEq)]
struct Log {
    start: tokio::time::Instant,
    lines: Vec<String>,
}

impl Log {
    fn new() -> Log {
        Log { start: tokio::time::Instant::now(), lines: Vec::new() }
    }

    /// Records an event with the time on tokio's clock, which both programs share.
    fn note(&mut self, event: impl Into<String>) {
        self.lines.push(format!("{:?} {}", self.start.elapsed(), event.into()));
    }
}

/// The program. `time` is the crate in its `use` line.
macro_rules! program {
    () => {
        use std::future::{IntoFuture, pending, poll_fn, ready};
        use std::pin::Pin;

        use std::time::Duration as StdDuration;

        use time::error::{Elapsed, Error};
        use time::{
            Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval, interval_at, sleep, sleep_until,
            timeout, timeout_at,
        };

        use super::Log;

        fn ms(millis: u64) -> Duration {
            Duration::from_millis(millis)
        }

        struct Query;

        impl IntoFuture for Query {
            type Output = &'static str;
            type IntoFuture = std::future::Ready<&'static str>;

            fn into_future(self) -> Self::IntoFuture {
                ready("answer")
            }
        }

        pub(super) async fn sleeps_and_timeouts(log: &mut Log) {
            let early = sleep_until(Instant::now() + ms(1_000));
            sleep(StdDuration::from_millis(400)).await;
            early.await;
            log.note("counted from creation");
            let ended: Result<(), Elapsed> = timeout(ms(20), pending()).await;
            log.note(format!("{ended:?} {}", ended.as_ref().unwrap_err()));
            let error = std::io::Error::from(ended.unwrap_err());
            log.note(format!("{error} {:?}", error.kind()));
            log.note(format!("{:?}", timeout(ms(1), Query).await));
            let deadline = Instant::now() + ms(40);
            log.note(format!("{:?}", timeout_at(deadline, Query).await));
            let mut limited: Timeout<Pin<Box<Sleep>>> = timeout(ms(50), Box::pin(sleep(ms(500))));
            let soon = Instant::now() + ms(20);
            limited.get_mut().as_mut().reset(soon);
            log.note(format!("{}", limited.get_ref().deadline() == soon));
            log.note(format!("{:?}", limited.await));
            let inner = timeout(ms(5), Box::pin(sleep(ms(15)))).into_inner();
            inner.await;
            log.note("without its limit");
            let nested = timeout(ms(30), timeout(ms(20), timeout(ms(10), pending::<()>())));
            log.note(format!("{:?}", nested.await));
        }

        pub(super) async fn intervals(log: &mut Log) {
            let mut ticks: Interval = interval_at(Instant::now() + ms(25), ms(50));
            for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
                ticks.set_missed_tick_behavior(behavior);
                log.note(format!("{:?} {:?}", ticks.period(), ticks.missed_tick_behavior()));
            }
            poll_fn(|cx| ticks.poll_tick(cx)).await;
            log.note("first");
            log.note(format!("{:?}", timeout(ms(20), ticks.tick()).await.is_err()));
            ticks.tick().await;
            log.note("second");
            log.note(format!("{:?}", interval(ms(10)).missed_tick_behavior() == MissedTickBehavior::default()));
        }

        pub(super) fn instants() -> Vec<String> {
            let now = Instant::now();
            let later = now + ms(5);
            let mut moved = later;
            moved += ms(3);
            moved -= ms(1);
            vec![
                format!("{:?} {:?} {:?}", later - now, now - later, moved - now),
                format!("{:?} {:?}", later.duration_since(now), now.duration_since(later)),
                format!("{:?} {:?}", later.checked_duration_since(now), now.checked_duration_since(later)),
                format!("{:?} {:?}", later.saturating_duration_since(now), now.saturating_duration_since(later)),
                format!("{:?} {:?}", now.checked_add(ms(5)) == Some(later), now.checked_add(Duration::MAX)),
                format!("{:?} {:?}", later.checked_sub(ms(5)) == Some(now), now.checked_sub(Duration::MAX)),
                format!("{} {}", Instant::from_std(now.into_std()) == now, Instant::from(now.into_std()) == now),
                format!("{} {}", std::time::Instant::from(now) == now.into_std(), later.elapsed() == Duration::ZERO),
                format!("{:?} {:?}", now.cmp(&later), now.max(later) == later),
                format!("{}", format!("{now:?}") == format!("{:?}", now.into_std())),
                format!("{}", std::collections::HashSet::from([now, later, now]).len()),
            ]
        }

        pub(super) fn errors() -> Vec<String> {
            fn is_error<T: std::error::Error + Send + Sync + Copy + 'static>(_: &T) {}
            let errors = [Error::shutdown(), Error::at_capacity(), Error::invalid()];
            errors.iter().for_each(is_error);
            let kinds = errors.map(|error| (error.is_shutdown(), error.is_at_capacity(), error.is_invalid()));
            kinds.iter().map(|kind| format!("{kind:?}")).collect()
        }
    };
}

mod theirs {
    use tokio::time;
    program!();
}

mod ours {
    use hairspring as time;
    program!();
}

/// Runs a part of each program on a paused clock, and compares the two.
macro_rules! same {
    ($($part:ident),*) => {$(
        #[test]
        fn $part() {
            must_end(|| {
                let theirs = paused().block_on(async {
                    let mut log = Log::new();
                    theirs::$part(&mut log).await;
                    log.lines
                });
                let ours = paused().block_on(async {
                    let mut log = Log::new();
                    ours::$part(&mut log).await;
                    log.lines
                });
                assert!(theirs.len() > 5);
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    assert_eq!(ours, theirs);
                }
                assert_eq!(ours.len(), theirs.len());
            });
        }
    )*};
}

same!(sleeps_and_timeouts, intervals);

#[tokio::test(start_paused = true)]
async fn instants_and_errors() {
    assert_eq!(ours::instants(), theirs::instants());
    assert_eq!(ours::errors(), theirs::errors());
}
