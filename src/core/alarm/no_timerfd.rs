//! [`Timerfd`] and [`TimerfdAlarm`] on systems that have none.

use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

pub(in crate::core) enum Timerfd {}

impl Timerfd {
    pub(in crate::core) fn new() -> io::Result<Timerfd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::core) fn on_the_wall_clock() -> io::Result<Timerfd> {
        Timerfd::new()
    }

    pub(in crate::core) fn set(&self, _: Option<Instant>, _: Instant) -> io::Result<()> {
        match *self {}
    }

    pub(in crate::core) fn watch_for_jumps(&self, _: Option<Duration>) -> bool {
        match *self {}
    }

    pub(in crate::core) fn wait(&self, _: Option<Duration>) -> bool {
        match *self {}
    }
}

pub(crate) enum TimerfdAlarm {}

impl TimerfdAlarm {
    pub(crate) fn new(_: &Waker, _: bool) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn set(&self, _: Instant) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn forget(&self, _: &Waker) -> io::Result<()> {
        match *self {}
    }
}
