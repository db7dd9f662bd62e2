//! [`Contender`]: a timer with its settings, or a floor, and how its sleeps are measured.

use hairspring::Timer;
use tokio::runtime::Runtime;

use crate::cell::Cell;
use crate::outcome::Outcome;

pub struct Contender {
    pub name: &'static str,
    /// Whether an early sleep is our fault.
    pub is_ours: bool,
    /// More would need too many open files.
    pub most_tasks: u32,
    pub on_current_thread: bool,
    /// Called in the new runtime.
    pub set_up: fn(),
    pub measure: fn(&Contender, &Cell) -> Outcome,
}

impl Contender {
    /// Sets up the runtime's timer. Returns a function that reads the turns of our driver.
    pub fn set_up(&self, runtime: &Runtime) -> impl Fn() -> u64 {
        let timer = runtime.block_on(async {
            (self.set_up)();
            self.is_ours.then(Timer::current)
        });
        move || timer.as_ref().map_or(0, |timer| timer.metrics().turns())
    }
}
