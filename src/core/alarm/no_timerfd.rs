//! [`Timerfd`] and [`TimerfdAlarm`] on systems that have none.

use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::wheel::Tick;

pub(in crate::core) enum Timerfd {}

impl Timerfd {
    pub(in crate::core) fn new() -> io::Result<Timerfd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::core) fn on_the_wall_clock() -> io::Result<Timerfd> {
        Timerfd::new()
    }

    pub(in crate::core) fn set(&self, _: Option<Instant>, _: Instant) {
        match *self {}
    }

    pub(in crate::core) fn watch_for_jumps(&self) -> bool {
        match *self {}
    }

    pub(in crate::core) fn wait(&self) -> bool {
        match *self {}
    }
}

pub(crate) struct TimerfdAlarm {
    never: Timerfd,
    pub(crate) patience: Option<Duration>,
}

impl TimerfdAlarm {
    pub(crate) fn new(_: &Waker, _: bool, _: Option<Duration>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn set(&self, _: Tick) -> bool {
        match self.never {}
    }

    pub(crate) fn reported(&self, _: &Waker) -> io::Result<Option<Tick>> {
        match self.never {}
    }
}
