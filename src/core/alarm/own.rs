//! [`OwnAlarm`]: the alarms that a driver sets itself. [`TokioAlarm`]: a tokio sleep as an alarm, needed on a clock
//! that a test has paused, because tokio advances that clock only to its own timers.
//
// Invariants
// 1. If the runtime lacks what an alarm needs, the driver gets an error and uses the alarm thread.
// 2. An alarm calls its waker from within tokio's own firing, so tests see timers fire at the same points as tokio's.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Sleep;

use super::{Alarm, SharedAlarm, has_threads};
use crate::clock::instant::{self, Instant};
use crate::core::schedule::WakesBy;
use crate::util::panics;

pub(crate) struct OwnAlarm {
    chosen: Alarm,
    /// Whether tokio's alarm works here and the timer can follow a paused clock.
    paused_clocks: bool,
    tokio: TokioAlarm,
    #[cfg(target_os = "linux")]
    inline: Waker,
    timerfd: Option<Arc<dyn SharedAlarm>>,
}

impl OwnAlarm {
    /// The runtime's drivers wake `inline` when an alarm goes off.
    pub(crate) fn new(chosen: Alarm, inline: Waker) -> Self {
        let chosen = match chosen {
            Alarm::Auto | Alarm::Thread if !has_threads() => Alarm::Tokio,
            chosen => chosen,
        };
        OwnAlarm {
            chosen,
            paused_clocks: true,
            tokio: TokioAlarm::new(Waker::clone(&inline)),
            #[cfg(target_os = "linux")]
            inline,
            timerfd: None,
        }
    }

    pub(crate) fn make(&mut self) -> io::Result<()> {
        match self.chosen {
            Alarm::Auto | Alarm::Thread => Ok(()),
            Alarm::Tokio => self.tokio.make(),
            Alarm::Timerfd => self.make_timerfd(),
        }
    }

    /// Chooses what wakes the driver. `runs`: the clock is not paused. `watches`: the driver watches for a pause.
    pub(crate) fn choose(&mut self, runs: bool, watches: bool) -> WakesBy {
        if self.chosen == Alarm::Tokio || self.paused_clocks && !runs {
            if self.tokio.make().is_ok() {
                return WakesBy::Tokio;
            }
            self.give_up(Alarm::Tokio);
        // A `timerfd` follows the system's clock, and would not reveal a pause to a waiting driver.
        } else if self.chosen == Alarm::Timerfd && runs && !watches {
            self.tokio.cancel();
            if self.timerfd.is_none() && self.make_timerfd().is_err() {
                self.give_up(Alarm::Timerfd);
            }
            if let Some(timerfd) = &self.timerfd {
                return WakesBy::Own(timerfd.clone());
            }
        }
        match runs {
            true if watches => WakesBy::Both,
            true => WakesBy::Thread,
            false => WakesBy::NowAndThen,
        }
    }

    /// Sets tokio's alarm, which must exist. `None` sets no alarm.
    pub(crate) fn set_tokio(&mut self, at: Option<Instant>) {
        match at {
            Some(at) => self.tokio.set(at),
            None => self.tokio.cancel(),
        }
    }

    #[cfg(target_os = "linux")]
    fn make_timerfd(&mut self) -> io::Result<()> {
        let alarm = super::timerfd::TimerfdAlarm::new()?;
        alarm.forget(&self.inline)?;
        self.timerfd = Some(Arc::new(alarm));
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn make_timerfd(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether to find out if the runtime has an I/O driver. Not if a test may pause the clock at any moment.
    pub(crate) fn wants_io(&self) -> bool {
        self.chosen == Alarm::Auto && !instant::may_be_paused()
    }

    pub(crate) fn found_io(&mut self) {
        if self.chosen == Alarm::Auto {
            self.chosen = Alarm::Timerfd;
        }
    }

    /// Whether a test may pause the clock while the driver sleeps, and tokio's alarm can reveal it.
    pub(crate) fn watches_for_pause(&self) -> bool {
        self.paused_clocks && instant::may_be_paused() && panics::may_catch()
    }

    /// Sets tokio's alarm in addition to the alarm thread's. It goes off if a test pauses the clock.
    pub(crate) fn watch_for_pause(&mut self, at: Option<Instant>) {
        // The runtime may lack `enable_time`.
        if at.is_some() && self.tokio.make().is_err() {
            self.give_up(Alarm::Tokio);
        } else {
            self.set_tokio(at);
        }
    }

    /// Replaces an alarm that the runtime does not support with the alarm thread. Panics if there can be no such
    /// thread.
    pub(crate) fn give_up(&mut self, alarm: Alarm) {
        assert!(
            has_threads(),
            "this platform has no threads: a timer's driver needs a tokio runtime with `enable_time`"
        );
        if self.chosen == alarm {
            self.chosen = Alarm::Thread;
        }
        self.paused_clocks &= alarm != Alarm::Tokio;
    }
}

/// The furthest alarm: tokio's clock would overflow if advanced much further. The driver then sets it again.
const LONGEST: Duration = Duration::from_secs(20 * 365 * 86_400);

#[derive(Debug)]
pub(super) struct TokioAlarm {
    sleep: Option<Pin<Box<Sleep>>>,
    waker: Waker,
}

impl TokioAlarm {
    pub(super) fn new(waker: Waker) -> Self {
        TokioAlarm { sleep: None, waker }
    }

    /// Creates the sleep unless it exists. Fails if the runtime has no `enable_time`.
    pub(super) fn make(&mut self) -> io::Result<()> {
        if self.sleep.is_none() {
            let never = tokio::time::Instant::from(Instant::now() + LONGEST);
            self.sleep = Some(panics::if_enabled(|| Box::pin(tokio::time::sleep_until(never)))?);
        }
        Ok(())
    }

    /// Sets the alarm, replacing the last one. Has no effect on a runtime without `enable_time`.
    pub(super) fn set(&mut self, at: Instant) {
        let at = at.min(Instant::now() + LONGEST).into();
        // A tokio sleep that is reset to a later time keeps its place in tokio's wheel, and a paused clock stops there.
        if self.sleep.as_ref().is_some_and(|sleep| sleep.deadline() < at && !sleep.is_elapsed()) {
            self.cancel();
        }
        let Ok(()) = self.make() else { return };
        let Some(sleep) = &mut self.sleep else { return };
        sleep.as_mut().reset(at);
        // The alarm must not use up the budget of the driver's task.
        let polled = pin!(tokio::task::coop::unconstrained(sleep.as_mut())).poll(&mut Context::from_waker(&self.waker));
        if polled == Poll::Ready(()) {
            self.sleep = None;
            self.waker.wake_by_ref();
        }
    }

    pub(super) fn cancel(&mut self) {
        self.sleep = None;
    }
}
