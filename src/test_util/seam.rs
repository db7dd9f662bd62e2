//! What [`seam`](crate::seam) leads to: all that the rest of the crate calls here.

pub(crate) use crate::test_util::approach::{Approach, ahead_of, rang_early};
pub(crate) use crate::test_util::chance::{arrange, fires};
pub(crate) use crate::test_util::held::opens;
pub(crate) use crate::test_util::jumps::ahead;
pub(crate) use crate::test_util::paused::{now, timer_here, timer_made};
pub(crate) use crate::test_util::places::{begins_to_wait, waits_no_more};
pub(crate) use crate::test_util::waiting::task;
