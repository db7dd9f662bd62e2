//! [`TimerfdAlarm`] on systems that have none.

use std::io;
use std::task::Waker;
use std::time::Instant;

pub(crate) enum TimerfdAlarm {}

impl TimerfdAlarm {
    pub(crate) fn new(_: &Waker) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn set(&self, _: Instant) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn forget(&self, _: &Waker) -> io::Result<()> {
        match *self {}
    }
}
