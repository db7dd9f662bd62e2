//! A sleep of either kind: one that panics if its timer refuses it, or one that resolves to an error.
//!
//! Must not know: what is expected.

use std::pin::Pin;
use std::task::{Context, Poll};

use hairspring::error::Error;
use hairspring::{Duration, Instant, Sleep, Timer, TrySleep};

use super::wakers::{self, Caught};

#[derive(Debug)]
pub(super) enum Armed {
    Infallible(Sleep),
    Fallible(TrySleep),
}

/// What a poll has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Ready,
    Pending,
    /// A waker has thrown.
    Thrown,
    Shutdown,
    /// With how many are said to be pending.
    Full(usize),
}

impl Armed {
    pub(super) fn until(timer: &Timer, deadline: Instant, fallible: bool) -> Armed {
        if fallible {
            Armed::Fallible(timer.try_sleep_until(deadline))
        } else {
            Armed::Infallible(timer.sleep_until(deadline))
        }
    }

    pub(super) fn after(timer: &Timer, duration: Duration, fallible: bool) -> Armed {
        if fallible { Armed::Fallible(timer.try_sleep(duration)) } else { Armed::Infallible(timer.sleep(duration)) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Answer {
        let polled = wakers::caught(|| match self {
            Armed::Infallible(sleep) => Pin::new(sleep).poll(cx).map(Ok),
            Armed::Fallible(sleep) => Pin::new(sleep).poll(cx),
        });
        match (polled, self) {
            (Ok(Poll::Ready(Ok(()))), _) => Answer::Ready,
            (Ok(Poll::Ready(Err(error))), _) => told(&error),
            (Ok(Poll::Pending), _) => Answer::Pending,
            (Err(Caught::OnPurpose), _) => Answer::Thrown,
            (Err(Caught::Saying(said)), Armed::Fallible(_)) => panic!("a poll of a fallible sleep panics: {said}"),
            (Err(Caught::Saying(said)), Armed::Infallible(_)) => {
                read(&said).unwrap_or_else(|| panic!("a poll panics: {said}"))
            }
        }
    }

    pub(super) fn reset_at(&mut self, deadline: Instant) {
        match self {
            Armed::Infallible(sleep) => sleep.reset_at(deadline),
            Armed::Fallible(sleep) => sleep.reset_at(deadline),
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        match self {
            Armed::Infallible(sleep) => sleep.deadline(),
            Armed::Fallible(sleep) => sleep.deadline(),
        }
    }

    pub(super) fn is_elapsed(&self) -> bool {
        match self {
            Armed::Infallible(sleep) => sleep.is_elapsed(),
            Armed::Fallible(sleep) => sleep.is_elapsed(),
        }
    }
}

/// What an error says, which all its ways to say it must agree on.
fn told(error: &Error) -> Answer {
    let answer = read(&error.to_string()).unwrap_or_else(|| panic!("an error's text: {error}"));
    let is_full = matches!(answer, Answer::Full(_));
    assert_eq!((error.is_shutdown(), error.is_at_capacity()), (!is_full, is_full));
    answer
}

/// The error that a text is of.
fn read(said: &str) -> Option<Answer> {
    if said.contains("the timer has ended") {
        return Some(Answer::Shutdown);
    }
    let (_, from) = said.split_once("the timer is at capacity: ")?;
    let (pending, _) = from.split_once(" pending")?;
    pending.parse().ok().map(Answer::Full)
}
