//! [`Driver`]: the task that lets a timer's turns follow the passes of its runtime, and keeps its alarm.
//!
//! A *pass* is one run of the runtime's own drivers: tokio looks at its sockets, then at its timers, then wakes the tasks
//! that have yielded. A turn runs there, as one of these: what it fires finds the data that had come.
//
// Invariants
// 1. Each poll lets one turn follow, after it has chosen another alarm if the clock has changed.
// 2. No turn of the runtime's fires what became due after the pass before it began. If only the driver can set the alarm,
//    a tokio sleep, its poll fires nothing: that sleep goes off within a pass.
// 3. Dropping the driver ends its timer and wakes all waiting tasks. The driver completes once the timer has ended.
// 4. If the runtime lacks what an alarm needs, the driver uses the alarm thread.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;
use tokio::task;

use crate::clock::{self, Hooks, instant, source};
use crate::core::alarm::driver_sleep::DriverSleep;
use crate::core::alarm::{Alarm, TimerfdAlarm, TurnAlarm, has_threads};
use crate::core::engine::{By, TimerHold, TimerHooks, TimerLease};
use crate::wheel::Tick;

pub(crate) trait DriverHooks {
    /// Whether tokio's alarm may be set for a time to come, on a clock that tokio has paused.
    fn may_set_alarm() -> bool {
        true
    }
}

#[cfg(not(feature = "test-util"))]
impl DriverHooks for Hooks {}

/// The task of a timer.
pub(crate) struct Driver {
    timer: TimerLease,
    /// The user's choice, or what replaces it.
    alarm: Alarm,
    /// Whether the clock was paused when the alarm was chosen.
    was_paused: Option<bool>,
    sleep: Option<DriverSleep>,
    timerfd: Option<Arc<TimerfdAlarm>>,
    /// Runs a turn. tokio calls it within a pass.
    inline: Waker,
}

/// Fires due timers inside tokio's pass, and calls the timer's driver only for the rest. A worker that fires there wakes
/// another worker once per batch; a task would do so once per timer.
struct FireInline(TimerHold);

thread_local! {
    static PASSES: Cell<bool> = const { Cell::new(false) };
}

/// Lets `waker` be called at the end of the current pass, or of the next if none is under way. Outside of a runtime's
/// threads it is called at once.
struct AfterPass(Waker);

impl Driver {
    pub(crate) fn new(timer: TimerLease, alarm: Alarm) -> Self {
        let alarm = match alarm {
            Alarm::Auto | Alarm::Thread if !has_threads() => Alarm::Tokio,
            alarm => alarm,
        };
        let inline = Waker::from(Arc::new(FireInline(timer.hold())));
        Driver { timer, alarm, was_paused: None, sleep: None, timerfd: None, inline }
    }

    /// Call this before spawning the driver, as a whole task, on `runtime`.
    pub(crate) fn in_a_task_of(self, runtime: &Handle) -> Self {
        if self.alarm == Alarm::Auto {
            self.timer.engine().io.begin(runtime);
        }
        self
    }

    /// Creates what the configured alarm needs on the current runtime. Otherwise the first poll does.
    pub(crate) fn make_alarm(&mut self) -> io::Result<()> {
        match self.alarm {
            Alarm::Auto | Alarm::Thread => Ok(()),
            Alarm::Tokio => self.make_sleep(),
            Alarm::Timerfd => self.timerfd().map(drop),
        }
    }

    fn make_sleep(&mut self) -> io::Result<()> {
        if self.sleep.is_none() {
            self.sleep = Some(DriverSleep::new(self.inline.clone())?);
        }
        Ok(())
    }

    fn timerfd(&mut self) -> io::Result<Arc<TimerfdAlarm>> {
        if self.timerfd.is_none() {
            let io_is_found = self.timer.engine().io.found();
            self.timerfd = Some(Arc::new(TimerfdAlarm::new(&after_pass(&self.inline), io_is_found)?));
        }
        Ok(self.timerfd.clone().expect("it was just made"))
    }

    /// Reads the clock, and chooses the alarm if that has changed.
    fn prepare(&mut self) {
        let engine = self.timer.engine();
        let is_paused = !instant::clock_is_the_systems();
        if is_paused {
            // Before the turn: its scan must not find cancelled entries.
            self.timer.publish_removals();
        }
        let found_io = self.alarm == Alarm::Auto && engine.io.found();
        if found_io || self.was_paused != Some(is_paused) {
            self.alarm = if found_io { Alarm::Timerfd } else { self.alarm };
            self.was_paused = Some(is_paused);
            let alarm = self.choose(is_paused);
            engine.change_alarm(alarm);
        }
    }

    /// Panics if the runtime lacks what the alarm needs, and there can be no alarm thread.
    fn choose(&mut self, is_paused: bool) -> TurnAlarm {
        if is_paused {
            source::one_is_held();
        }
        if (self.alarm == Alarm::Tokio || is_paused) && self.make_sleep().is_ok() {
            return TurnAlarm::DriverSleep;
        }
        assert!(
            has_threads(),
            "this platform has no threads: a timer's driver needs a tokio runtime with `enable_time`"
        );
        self.sleep = None;
        match self.alarm {
            _ if is_paused => TurnAlarm::Nothing,
            Alarm::Timerfd => self.timerfd().map_or(TurnAlarm::Thread, TurnAlarm::Timerfd),
            _ => TurnAlarm::Thread,
        }
    }

    /// Lets a turn follow the runtime's next pass.
    fn let_a_turn_follow(&mut self) {
        let timer = self.timer;
        let Some(sleep) = &mut self.sleep else { return after_pass(&self.inline).wake() };
        // tokio moves a paused clock to this alarm, so it must not be too early.
        let is_paused = self.was_paused == Some(true);
        let earliest = if is_paused { TimerLease::first_deadline } else { TimerLease::earliest };
        if let Some(next) = timer.run_turn(By::Driver, Some(timer.engine().reached()), earliest) {
            let is_set = next < Tick::MAX && (!is_paused || next <= timer.now() || Hooks::may_set_alarm());
            sleep.set(is_set.then(|| clock::instant_of(next)));
        }
    }
}

fn after_pass(waker: &Waker) -> Waker {
    Arc::new(AfterPass(waker.clone())).into()
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let timer = this.timer;
        Hooks::is_here(timer);
        timer.engine().io.note_worker();
        timer.engine().driver_came(cx.waker().clone());
        if timer.serves() {
            this.prepare();
            this.let_a_turn_follow();
        }
        if timer.serves() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.timer.close();
        self.timer.engine().io.forget();
    }
}

impl Wake for FireInline {
    fn wake(self: Arc<Self>) {
        let timer = self.0.lease();
        let engine = timer.engine();
        let is_paused = !instant::clock_is_the_systems();
        // Before the turn sets it again. It fails if the alarm's runtime has ended.
        let is_set = |alarm: Arc<TimerfdAlarm>| alarm.forget(&after_pass(&self.clone().into())).is_ok();
        if !engine.timerfd().is_none_or(is_set) {
            engine.change_alarm(TurnAlarm::Thread);
        }
        let before = PASSES.replace(true);
        let at = is_paused.then(|| engine.shown());
        timer.run_turn(By::Pass { is_paused }, at, TimerLease::earliest);
        PASSES.set(before);
    }
}

/// Whether this thread is in a turn within a pass. Nothing may yield to tokio there: it is waking those that have.
pub(crate) fn is_passing() -> bool {
    PASSES.get()
}

impl Wake for AfterPass {
    fn wake(self: Arc<Self>) {
        let _ = pin!(task::yield_now()).poll(&mut Context::from_waker(&self.0));
    }
}
