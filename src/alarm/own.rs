//! The alarms that a driver sets itself, in place of the alarm thread.
//!
//! Invariants
//! 1. Where the runtime lacks what an alarm needs, the driver is told and takes the alarm thread.
//!
//! Must not know: wheel, shards, the driver.

use std::task::{Poll, Waker};

use super::Alarm;
use super::tokio_sleep::TokioAlarm;
use crate::instant::{self, Instant};

/// The alarm that a timer was built with, and tokio's for a clock that is paused.
#[derive(Debug)]
pub(crate) struct OwnAlarm {
    chosen: Alarm,
    /// Whether tokio's alarm can be had, so that a paused clock can be followed.
    paused_clocks: bool,
    tokio: TokioAlarm,
    inline: Waker,
    #[cfg(target_os = "linux")]
    timerfd: Option<super::timerfd::TimerfdAlarm>,
}

/// The runtime lacks what an alarm needs.
#[derive(Debug)]
pub(crate) struct Unfit;

impl OwnAlarm {
    /// `inline` is what a tokio sleep wakes when it goes off.
    pub(crate) fn new(chosen: Alarm, inline: Waker) -> Self {
        OwnAlarm {
            chosen,
            paused_clocks: true,
            tokio: TokioAlarm::new(inline.clone()),
            inline,
            #[cfg(target_os = "linux")]
            timerfd: None,
        }
    }

    /// Which alarm the driver has to set, on the system's clock or another; `None` where the alarm thread serves.
    pub(crate) fn to_set(&self, clock_is_the_systems: bool) -> Option<Alarm> {
        match self.chosen {
            _ if self.paused_clocks && !clock_is_the_systems => Some(Alarm::Tokio),
            Alarm::Thread => None,
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
            (Alarm::Tokio, Some(at)) => self.tokio.set(at),
            (Alarm::Timerfd, at) => self.set_timerfd(at),
        }
    }

    #[cfg(target_os = "linux")]
    fn set_timerfd(&mut self, at: Option<Instant>) -> Result<(), Unfit> {
        let alarm = match &mut self.timerfd {
            Some(alarm) => alarm,
            none => none.insert(super::timerfd::TimerfdAlarm::new().map_err(|_| Unfit)?),
        };
        // Forgets that it has gone off before it is set again.
        while let Poll::Ready(forgotten) = alarm.poll(&self.inline) {
            forgotten.map_err(|_| Unfit)?;
        }
        alarm.set(at.map(Instant::into_std)).map_err(|_| Unfit)
    }

    #[cfg(not(target_os = "linux"))]
    fn set_timerfd(&mut self, _: Option<Instant>) -> Result<(), Unfit> {
        Err(Unfit)
    }

    /// Sets tokio's alarm beside the alarm thread's, to go off where a test pauses the clock meanwhile. Only a
    /// current-thread runtime's clock can be paused.
    pub(crate) fn watch_for_pause(&mut self, at: Option<Instant>) {
        if instant::clock_may_be_paused() && self.paused_clocks && self.set(Alarm::Tokio, at).is_err() {
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

/// Whether the current runtime has what an alarm needs.
pub(crate) fn fits(alarm: Alarm) -> bool {
    match alarm {
        Alarm::Thread => true,
        Alarm::Tokio => TokioAlarm::new(Waker::noop().clone()).set(Instant::now()).is_ok(),
        #[cfg(target_os = "linux")]
        Alarm::Timerfd => super::timerfd::TimerfdAlarm::new().is_ok(),
        #[cfg(not(target_os = "linux"))]
        Alarm::Timerfd => false,
    }
}
