//! Blocking work cannot be seen on this system.
#![allow(clippy::unused_self, clippy::needless_pass_by_ref_mut)] // The same interface as on Linux.

use tokio::runtime::Handle;

#[derive(Debug)]
pub(super) struct Pool;

/// There is none here.
#[derive(Debug)]
pub(super) enum Occupied {}

impl Pool {
    pub(super) fn of(_: &Handle) -> Pool {
        Pool
    }

    pub(super) fn sees(&self) -> bool {
        false
    }

    pub(super) fn occupy(&mut self) -> Option<Occupied> {
        None
    }

    pub(super) fn is_busy(&mut self) -> bool {
        false
    }

    pub(super) fn has_run(&mut self) -> bool {
        false
    }

    pub(super) fn works(&self) -> Option<u32> {
        None
    }

    pub(super) fn member_works(&self) -> Option<u32> {
        None
    }

    pub(super) fn begin_to_look(&mut self) -> u32 {
        0
    }

    pub(super) fn end_to_look(&mut self, _: u32) {}
}
