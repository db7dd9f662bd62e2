//! A result as text: a line for the machine, a line for the command, an empty line, and what the program printed.

use super::machine::Machine;

pub(super) struct Stored<'a> {
    pub(super) machine: Machine,
    pub(super) output: &'a str,
}

impl<'a> Stored<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let (head, output) = text.split_once("\n\n").ok_or("there is nothing after the first two lines")?;
        let machine = Machine::parse(head.lines().next().unwrap_or_default())?;
        Ok(Stored { machine, output })
    }
}
