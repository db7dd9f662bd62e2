//! [`Driver`]: the task that turns a timer's wheels. It fires what is due, then sleeps until the earliest deadline
//! left.
//
// Invariants
// 1. One poll wakes about 1024 tasks at most, and each of its `LOOKS` takes locks at most 256 times. Then other tasks
//    run.
// 2. Dropping the driver ends its timer, and wakes everything that waits. It completes, and is dropped, once the timer is
//    unneeded.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;

use crate::clock::{self, instant, source};
use crate::core::alarm::own::OwnAlarm;
use crate::core::alarm::{Alarm, SharedAlarm, Unfit};
#[cfg(feature = "test-util")]
use crate::core::approach::{self, Approach};
use crate::core::hook;
use crate::core::parking::{DriverWaker, WakesBy};
use crate::core::shard::WakeList;
use crate::core::shards::{TimerHold, TimerLease, TurnBudget};
use crate::wheel::{Tick, Ticks};

/// How far beyond a deadline tokio advances a paused clock: it rounds up to whole milliseconds.
const TOKIO_ROUNDS: Ticks = Ticks(1_000_000);

/// How often one poll looks, if earlier deadlines are registered while it does.
const LOOKS: usize = 8;

/// Turns a timer's wheels: a future that you spawn or poll, so that the timer's sleeps complete. Made by
/// [`Builder::build_with_driver`](crate::timer::Builder::build_with_driver).
///
/// It completes when the timer is shut down, or when no handle is left and nothing waits on the timer. Dropping it ends
/// the timer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (timer, driver) = hairspring::Timer::builder().build_with_driver().unwrap();
/// let driver = tokio::spawn(driver);
/// timer.shutdown();
/// driver.await.unwrap();
/// # }
/// ```
#[must_use = "a timer fires only while its driver is polled"]
pub struct Driver {
    timer: TimerLease,
    list: WakeList,
    /// What wakes it, if that is not the alarm thread.
    alarm: OwnAlarm,
    #[cfg(feature = "test-util")]
    approach: Approach,
    /// Whether this crate spawned it, so that tokio wakes it and not a foreign executor.
    is_a_task: bool,
}

/// Fires what is due from inside tokio's own drivers, and wakes the timer's driver only if that has to do the rest. A
/// worker that fires there wakes another worker once for all, not once for each timer as a task would.
struct FireInline {
    timer: TimerHold,
}

impl Driver {
    pub(crate) fn new(timer: TimerLease, alarm: Alarm) -> Self {
        let inline = Arc::new(FireInline { timer: timer.hold() });
        let alarm = OwnAlarm::new(alarm, Waker::from(inline));
        Driver {
            timer,
            list: WakeList::default(),
            alarm,
            #[cfg(feature = "test-util")]
            approach: Approach::default(),
            is_a_task: false,
        }
    }

    /// Call this before spawning it on a runtime, as the whole of a task.
    pub(crate) fn in_a_task_of(mut self, runtime: &Handle) -> Self {
        self.is_a_task = true;
        if self.alarm.wants_io() {
            self.timer.parking.io.begin(runtime);
        }
        self
    }

    /// Makes the alarm that the timer was built with, on the current runtime. Otherwise the first poll does, and uses
    /// the alarm thread if it cannot.
    pub(crate) fn make_alarm(&mut self) -> Result<(), Unfit> {
        self.alarm.make()
    }

    /// Goes to sleep after a look at the time `now`. Returns `false` if it has to look again.
    fn sleep_after(&mut self, now: Tick, cx: &mut Context<'_>) -> bool {
        let parking = self.timer.parking;
        parking.io.note_worker();
        if parking.io.found() {
            self.alarm.found_io();
        }
        let is_the_systems = instant::clock_is_the_systems();
        if !is_the_systems {
            source::one_is_held();
        }
        let watches = is_the_systems && self.alarm.watches_for_pause();
        // Before the look, so that it does not find cancelled entries.
        if !is_the_systems || watches {
            self.timer.drive_clock();
        }
        let earliest = self.timer.earliest();
        #[cfg(feature = "test-util")]
        let earliest = if is_the_systems { earliest } else { self.timer.first_deadline() };
        match self.alarm.to_set(is_the_systems, watches) {
            Some(Alarm::Tokio) => {
                let Some(at) = parking.end_turn(now, earliest, WakesBy::Itself) else { return false };
                if self.wait_for(at, now, cx).is_ok() {
                    return true;
                }
                self.alarm.give_up(Alarm::Tokio);
            }
            Some(alarm) => match self.alarm.shared() {
                Ok(shared) => {
                    parking.use_alarm(shared);
                    return parking.end_turn(now, earliest, WakesBy::OwnAlarm).is_some();
                }
                Err(_) => self.alarm.give_up(alarm),
            },
            None => {}
        }
        let by = match is_the_systems {
            true if watches => WakesBy::ThreadOrTokio,
            true => WakesBy::Thread,
            false => WakesBy::NowAndThen,
        };
        let Some(at) = parking.end_turn(now, earliest, by) else { return false };
        if watches {
            let at = (at < Tick::MAX).then(|| parking.clock.instant_of(at));
            #[cfg(feature = "test-util")]
            let at = at.map(approach::ahead_of);
            self.alarm.watch_for_pause(at);
        }
        true
    }

    /// Waits for a tick with tokio's alarm.
    fn wait_for(&mut self, at: Tick, now: Tick, cx: &mut Context<'_>) -> Result<(), Unfit> {
        #[cfg(feature = "test-util")]
        if approach::is_possible() && instant::is_paused() {
            return self.approach.begin(&mut self.alarm, now, at, cx);
        }
        let _ = (now, cx);
        self.alarm.set_tokio((at < Tick::MAX).then(|| self.timer.parking.clock.instant_of(at)))
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let timer = this.timer;
        #[cfg(feature = "test-util")]
        if this.approach.step(&mut this.alarm, clock::now(), timer.parking.next_wake(), cx) {
            return Poll::Pending;
        }
        let mut left = TurnBudget::OF_A_TURN;
        for _ in 0..LOOKS {
            if !timer.serves() {
                return Poll::Ready(());
            }
            if source::any_is_held() {
                hook::timer_here(timer);
                if timer.is_unneeded() {
                    return Poll::Ready(());
                }
                if timer.parking.wait_while_shown(cx.waker()) {
                    return Poll::Pending;
                }
            }
            timer.parking.begin_turn(DriverWaker { waker: cx.waker().clone(), is_foreign: !this.is_a_task });
            if !timer.serves() {
                return Poll::Ready(());
            }
            let fired = timer.fire_due(&mut this.list, left);
            timer.parking.unconfirmed.confirm(fired.at);
            left.wakes = left.wakes.saturating_sub(fired.wakes);
            if !fired.all {
                break;
            }
            if this.sleep_after(fired.at, cx) {
                return if timer.is_unneeded() { Poll::Ready(()) } else { Poll::Pending };
            }
        }
        timer.parking.interrupt_turn();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.timer.close();
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("shards", &self.timer.all().len())
            .field("is_shutdown", &!self.timer.serves())
            .finish_non_exhaustive()
    }
}

impl FireInline {
    /// Makes the turn that has begun in the driver's place, which comes only if that leaves something to do.
    fn turn(self: Arc<Self>, alarm: &dyn SharedAlarm) {
        let timer = self.timer.lease();
        let fired = timer.fire_due(&mut WakeList::default(), TurnBudget::OF_A_TURN);
        timer.parking.unconfirmed.confirm(fired.at);
        let forgotten = alarm.forget(&Waker::from(self));
        let sleeps = fired.all
            && forgotten.is_ok()
            && !timer.is_unneeded()
            && timer.parking.end_turn(fired.at, timer.earliest(), WakesBy::OwnAlarm).is_some();
        if !sleeps {
            timer.parking.wake_late_driver();
        }
    }
}

impl Wake for FireInline {
    fn wake(self: Arc<Self>) {
        let timer = self.timer.lease();
        let is_the_systems = instant::clock_is_the_systems();
        if is_the_systems {
            if let Some(alarm) = timer.parking.begin_turn_inline() {
                return self.turn(&*alarm);
            }
        }
        let (now, next_wake) = (clock::now(), timer.parking.next_wake());
        #[cfg(feature = "test-util")]
        if now < next_wake && next_wake < Tick::MAX && instant::is_paused() {
            approach::align(timer.get(), now);
            return timer.parking.wake_driver();
        }
        let (at, budget) = if is_the_systems {
            (now, TurnBudget::OF_A_TURN)
        } else {
            // A paused clock overshoots the deadline by rounding. Tasks see the later time only after those of the
            // deadline ran. And a test must not see that some of what is due is left to the driver.
            (if now - next_wake <= TOKIO_ROUNDS { now.min(next_wake) } else { now }, TurnBudget::UNBOUNDED)
        };
        timer.fire_at(at, &mut WakeList::default(), budget);
        timer.parking.wake_driver();
    }
}
