//! The alarms that a driver sets itself, in place of the alarm thread.
//!
//! Invariants
//! 1. Where the runtime lacks what an alarm needs, the driver is told and takes the alarm thread.
//!
//! Must not know: wheel, shards, the driver.

use std::task::Waker;

use super::tokio_sleep::TokioAlarm;
use super::{Alarm, Unfit};
use crate::clock::instant::{self, Instant};
use crate::util::enabled;

/// The alarm that a timer was built with, and tokio's for a clock that is paused.
#[derive(Debug)]
pub(crate) struct OwnAlarm {
    chosen: Alarm,
    /// Whether tokio's alarm can be had, so that a paused clock can be followed.
    paused_clocks: bool,
    tokio: TokioAlarm,
    #[cfg(target_os = "linux")]
    inline: Waker,
    #[cfg(target_os = "linux")]
    timerfd: Option<super::timerfd::TimerfdAlarm>,
}

impl OwnAlarm {
    /// `inline` is what a tokio sleep wakes when it goes off.
    pub(crate) fn new(chosen: Alarm, inline: Waker) -> Self {
        OwnAlarm {
            chosen,
            paused_clocks: true,
            tokio: TokioAlarm::new(Waker::clone(&inline)),
            #[cfg(target_os = "linux")]
            inline,
            #[cfg(target_os = "linux")]
            timerfd: None,
        }
    }

    /// Makes the alarm that was chosen, on the current runtime. Without this it is made when it is first set.
    pub(crate) fn make(&mut self) -> Result<(), Unfit> {
        match self.chosen {
            Alarm::Thread => Ok(()),
            Alarm::Tokio => Ok(self.tokio.make()?),
            Alarm::Timerfd => self.make_timerfd(),
        }
    }

    /// Which alarm the driver has to set, on the system's clock or another; `None` if the alarm thread serves.
    pub(crate) fn to_set(&self, clock_is_the_systems: bool) -> Option<Alarm> {
        match self.chosen {
            _ if self.paused_clocks && !clock_is_the_systems => Some(Alarm::Tokio),
            Alarm::Thread => None,
            // It goes by the system's.
            Alarm::Timerfd if !clock_is_the_systems => None,
            chosen => Some(chosen),
        }
    }

    /// Sets one of the driver's own alarms; another than tokio's takes tokio's back. `None` for no alarm at all.
    pub(crate) fn set(&mut self, alarm: Alarm, at: Option<Instant>) -> Result<(), Unfit> {
        if alarm != Alarm::Tokio {
            self.tokio.cancel();
        }
        match (alarm, at) {
            (Alarm::Thread, _) => Ok(()),
            (Alarm::Tokio, None) => {
                self.tokio.cancel();
                Ok(())
            }
            (Alarm::Tokio, Some(at)) => Ok(self.tokio.set(at)?),
            (Alarm::Timerfd, at) => self.set_timerfd(at),
        }
    }

    #[cfg(target_os = "linux")]
    fn make_timerfd(&mut self) -> Result<(), Unfit> {
        self.timerfd = Some(super::timerfd::TimerfdAlarm::new()?);
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn set_timerfd(&mut self, at: Option<Instant>) -> Result<(), Unfit> {
        let alarm = match &mut self.timerfd {
            Some(alarm) => alarm,
            none => none.insert(super::timerfd::TimerfdAlarm::new()?),
        };
        // Forgets that it has gone off before it is set again.
        while let std::task::Poll::Ready(forgotten) = alarm.poll(&self.inline) {
            forgotten?;
        }
        Ok(alarm.set(at.map(Instant::into_std))?)
    }

    #[cfg(not(target_os = "linux"))]
    fn make_timerfd(&mut self) -> Result<(), Unfit> {
        Err(Unfit::Lacking)
    }

    #[cfg(not(target_os = "linux"))]
    fn set_timerfd(&mut self, _: Option<Instant>) -> Result<(), Unfit> {
        Err(Unfit::Lacking)
    }

    /// Whether a test may pause the clock while the driver sleeps, and tokio's alarm can show it.
    pub(crate) fn watches_for_pause(&self) -> bool {
        self.paused_clocks && enabled::may_guess() && instant::runtime_that_may_pause().is_some()
    }

    /// Sets tokio's alarm beside the alarm thread's, to go off where a test pauses the clock meanwhile. Only a
    /// current-thread runtime's clock can be paused.
    pub(crate) fn watch_for_pause(&mut self, at: Option<Instant>) {
        // Whether the runtime has `enable_time`, nobody has said.
        let made = if at.is_some() { enabled::silently(|| self.tokio.make()) } else { Ok(()) };
        if made.is_err() || self.set(Alarm::Tokio, at).is_err() {
            self.give_up(Alarm::Tokio);
        }
    }

    /// From now on the alarm thread serves in the place of one that the runtime lacks something for.
    pub(crate) fn give_up(&mut self, alarm: Alarm) {
        if self.chosen == alarm {
            self.chosen = Alarm::Thread;
        }
        self.paused_clocks &= alarm != Alarm::Tokio;
    }
}
