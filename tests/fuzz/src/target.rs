//! What can be fuzzed. Must not know: what there is to fuzz, threads.

use std::fmt::Debug;

use crate::random::Random;

/// A thing under test and its model, side by side.
///
/// What it is set up as comes from a seed alone, and an operation holds all it needs, so that a list of operations can
/// be run again, also with some of them left out.
pub(crate) trait Target: Sized {
    const NAME: &'static str;
    type Op: Clone + Debug;

    fn new(random: &mut Random) -> Self;

    /// How it was set up.
    fn describe(&self) -> String;

    /// How many operations a round has.
    fn length(&self, random: &mut Random) -> usize;

    /// An operation that makes sense as things stand: one call on the thing under test.
    fn generate(&mut self, random: &mut Random) -> Self::Op;

    /// Does it, on both; panics if they differ.
    fn apply(&mut self, op: &Self::Op);

    /// Brings everything to its end; panics if that is not what the model says.
    fn finish(&mut self);
}
