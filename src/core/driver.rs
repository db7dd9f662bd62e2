//! [`Driver`]: the task of a timer in a runtime. It chooses the alarm, and ends the timer with the runtime.
//!
//! A *pass* is one run of the runtime's own drivers: tokio looks at its sockets, then at its timers, then wakes the
//! tasks that have yielded. What tokio does with tasks says nothing about its drivers: which worker polls this one, and
//! when, and who has the drivers meanwhile. So where the runtime has an I/O driver, that calls [`OnEvent`] in the
//! middle of its pass, and the task turns nothing.
//!
//! Elsewhere the task turns. It reads the clock, yields, and fires what was due by then once tokio has woken it after a
//! pass. That has seen all data that came before, if it was this worker's pass: the only one of its runtime, mostly.
//! With [`Alarm::Tokio`], tokio's own timers wake the task, in a pass.
//
// Invariants
// 1. No turn of the runtime's fires what became due after the look at its sockets that the turn follows.
// 2. A poll that brings no turn by itself lets an alarm bring one, or waits for a pass.
// 3. Dropping the driver ends its timer and wakes all waiting tasks. The driver completes once the timer has ended.
// 4. If the runtime lacks what an alarm needs, the driver uses the alarm thread.
//
// They hold because a turn gets its tick from what the runtime's own drivers have reported, or from before a pass: a
// poll of the task, which says nothing about them, adds none.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task;

use crate::clock::{self, Hooks, instant, source};
use crate::core::alarm::driver_sleep::DriverSleep;
use crate::core::alarm::{Alarm, TimerfdAlarm, TurnAlarm, has_threads};
use crate::core::engine::{PATIENCE_WITH_TIMERFD, Runner};
use crate::core::memory::{TimerGuard, TimerHooks, TimerLease};
use crate::util::sync::Counter;
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
    /// Held: a later timer in the same engine must not meet this driver.
    timer: TimerGuard,
    /// The user's choice, or what replaces it.
    alarm: Alarm,
    /// How late a `timerfd` may be, with several workers.
    patience: Duration,
    /// Whether the clock was paused when the alarm was chosen.
    was_paused: Option<bool>,
    /// The alarm on a paused clock.
    sleep: Option<DriverSleep>,
    timerfd: Option<Arc<TimerfdAlarm>>,
    /// The pass that this waits for; with tokio's alarm, any.
    pass: Option<Arc<Pass>>,
}

/// Runs a turn when the runtime's I/O driver reports the alarm.
struct OnEvent(TimerGuard);

/// Runs a turn when tokio's timers process the alarm, on a paused clock: tests see timers fire at the same points as
/// tokio's.
struct OnPausedClock(TimerGuard);

/// Wakes the driver's task after a pass.
struct Pass {
    task: Waker,
    /// A tick before the pass, or `Tick::MAX` if it may fire what is due at its end.
    began: Tick,
    /// The tick by which a turn fires; 0 before the pass.
    fires_until: Counter,
}

impl Driver {
    pub(crate) fn new(timer: TimerLease, alarm: Alarm) -> Self {
        let alarm = match alarm {
            Alarm::Auto | Alarm::Thread if !has_threads() => Alarm::Tokio,
            alarm => alarm,
        };
        // With this choice, the alarm thread calls a worker at the deadline itself.
        let patience = if alarm == Alarm::Thread { Duration::ZERO } else { PATIENCE_WITH_TIMERFD };
        Driver { timer: timer.guard(), alarm, patience, was_paused: None, sleep: None, timerfd: None, pass: None }
    }

    /// Call this before spawning the driver, as a whole task, on `runtime`.
    pub(crate) fn in_a_task_of(self, runtime: &Handle) -> Self {
        if self.takes_what_is_found() {
            self.timer.lease().engine().io.begin(runtime);
        }
        self
    }

    /// Whether an I/O driver is used once it was found.
    fn takes_what_is_found(&self) -> bool {
        matches!(self.alarm, Alarm::Auto | Alarm::Thread)
    }

    /// Creates what the configured alarm needs on the current runtime. Otherwise the first poll does.
    pub(crate) fn make_alarm(&mut self) -> io::Result<()> {
        match self.alarm {
            Alarm::Auto | Alarm::Thread => Ok(()),
            Alarm::Tokio => DriverSleep::new(Waker::noop().clone()).map(drop),
            Alarm::Timerfd => self.timerfd().map(drop),
        }
    }

    fn timerfd(&mut self) -> io::Result<Arc<TimerfdAlarm>> {
        if self.timerfd.is_none() {
            let event = Waker::from(Arc::new(OnEvent(self.timer.clone())));
            // With one worker, nobody else could look.
            let patience = (Handle::current().metrics().num_workers() > 1).then_some(self.patience);
            let io_is_found = self.timer.lease().engine().io.found();
            self.timerfd = Some(Arc::new(TimerfdAlarm::new(&event, io_is_found, patience)?));
        }
        Ok(self.timerfd.clone().expect("it was just made"))
    }

    /// Reads the clock, and chooses the alarm if that has changed. Panics if the runtime lacks what the alarm needs, and
    /// there can be no alarm thread.
    fn choose_alarm(&mut self, task: &Waker) {
        let timer = self.timer.lease();
        let is_paused = !instant::clock_is_the_systems();
        if is_paused {
            // Before the turn: its scan must not find cancelled entries.
            timer.publish_removals();
        }
        let finds_io = self.takes_what_is_found() && timer.engine().io.found();
        if !finds_io && self.was_paused == Some(is_paused) {
            return;
        }
        self.alarm = if finds_io { Alarm::Timerfd } else { self.alarm };
        (self.was_paused, self.sleep, self.pass) = (Some(is_paused), None, None);
        let alarm = match self.alarm {
            _ if is_paused => {
                source::one_is_held();
                timer.engine().io.rest();
                self.sleep = DriverSleep::new(Arc::new(OnPausedClock(self.timer.clone())).into()).ok();
                if self.sleep.is_none() {
                    // There is no `enable_time`. What waits finds out, and panics.
                    timer.close();
                    return;
                }
                Some(TurnAlarm::Paused)
            }
            Alarm::Timerfd => self.timerfd().map(TurnAlarm::Timerfd).ok(),
            Alarm::Tokio => {
                let any = Pass::new(task, Tick::MAX);
                let sleep = DriverSleep::new(any.clone().into()).ok();
                self.pass = sleep.is_some().then_some(any);
                sleep.map(TurnAlarm::Tokio)
            }
            Alarm::Auto | Alarm::Thread => None,
        };
        assert!(
            has_threads() || alarm.is_some(),
            "this platform has no threads: a timer's driver needs a tokio runtime with `enable_time`"
        );
        timer.engine().change_alarm(alarm.unwrap_or_default());
    }

    /// On a paused clock, lets an alarm of tokio's move it to the next deadline.
    fn set_tokios_alarm(&mut self) -> bool {
        let (timer, Some(sleep)) = (self.timer.lease(), &mut self.sleep) else { return false };
        // tokio moves a paused clock to this alarm, so it must not be too early.
        if let Some(next) =
            timer.run_turn(Runner::TaskOnPausedClock, timer.engine().reached(), TimerLease::first_deadline)
        {
            let is_set = next < Tick::MAX && (next <= timer.now() || Hooks::may_set_alarm());
            if sleep.set(is_set.then(|| clock::instant_of(next))) {
                OnPausedClock::turn(timer);
            }
        }
        true
    }

    /// Turns after a pass, or waits for one.
    fn turn_after_a_pass(&mut self, task: &Waker) {
        let timer = self.timer.lease();
        if let Some((pass, until)) = self.pass.as_ref().and_then(|pass| Some((pass, pass.take_until()?))) {
            if timer.run_turn(Runner::Task, until, TimerLease::earliest).is_none() {
                // What is left was due before the same pass.
                pass.fires_until.fetch_max(until.0, SeqCst);
                task.wake_by_ref();
            } else {
                self.pass.take_if(|pass| pass.began < Tick::MAX);
            }
        } else if !timer.engine().set_off() {
            let pass = self.pass.get_or_insert_with(|| Pass::new(task, timer.now()));
            let _ = pin!(task::yield_now()).poll(&mut Context::from_waker(&pass.clone().into()));
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let timer = this.timer.lease();
        Hooks::is_here(timer);
        timer.engine().io.driver_came(cx.waker());
        timer.engine().driver_came(cx.waker().clone());
        if timer.is_open() {
            this.choose_alarm(cx.waker());
        }
        if timer.is_open() && !this.set_tokios_alarm() {
            this.turn_after_a_pass(cx.waker());
        }
        if timer.is_open() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let timer = self.timer.lease();
        timer.close();
        // What waited here goes on elsewhere, by another clock than that of a bubble, which has ended.
        timer.engine().clock.follow_runtime();
        timer.engine().io.forget();
    }
}

impl Wake for OnEvent {
    fn wake(self: Arc<Self>) {
        // Held to the end: the timer may end meanwhile.
        let (timer, event) = (self.0.lease(), self.into());
        let Some(until) = timer.engine().reported(&event) else { return };
        if instant::clock_is_the_systems() {
            timer.run_turn(Runner::IoDriver, until, TimerLease::earliest);
        } else {
            timer.engine().wake_driver();
        }
    }
}

impl OnPausedClock {
    fn turn(timer: TimerLease) {
        timer.run_turn(Runner::TokioTimers, timer.engine().processed_by_tokio(), TimerLease::earliest);
    }
}

impl Wake for OnPausedClock {
    fn wake(self: Arc<Self>) {
        OnPausedClock::turn(self.0.lease());
    }
}

impl Pass {
    fn new(task: &Waker, began: Tick) -> Arc<Pass> {
        Arc::new(Pass { task: task.clone(), began, fires_until: Counter::new(0) })
    }

    /// If it has come, the tick by which a turn fires.
    fn take_until(&self) -> Option<Tick> {
        Some(Tick(self.fires_until.swap(0, SeqCst))).filter(|&until| until > Tick::ZERO)
    }
}

impl Wake for Pass {
    fn wake(self: Arc<Self>) {
        self.fires_until.store(self.began.min(clock::now()).0, SeqCst);
        self.task.wake_by_ref();
    }
}

#[cfg(all(test, target_os = "linux", not(hairspring_loom)))]
mod tests {
    use super::*;
    use crate::core::settings::Settings;
    use crate::util::testing::blocking;

    /// A bug that this crate had: the next timer could begin in the memory while the turn went on.
    #[test]
    fn a_turn_of_the_io_driver_keeps_the_memory_of_a_timer_that_ends() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
        let _inside = runtime.enter();
        let timer = TimerLease::open(false, &Settings::with_shards(1));
        let (woken, blocks, go_on) = blocking();
        timer.next_shard().insert(timer.now(), blocks).unwrap();
        // Not spawned: tokio may leave a task to the worker that the turn blocks.
        let mut driver = Driver::new(timer, Alarm::Timerfd);
        let mut poll = || Pin::new(&mut driver).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        woken.recv().unwrap();
        timer.close();
        assert!(poll().is_ready());
        drop(driver);
        assert!(timer.try_guard().is_some());
        drop(go_on);
    }
}
