//! The streams of `StreamExt` on manual clocks against a model: what each poll takes and yields, when it wakes its
//! task, and whether a timer is left.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::{Stream, StreamExt as _};
use hairspring::test_util::ManualClock;
use hairspring::{Duration, Instant, StreamExt, Timer, stream};
use tokio::runtime::{Builder, Runtime};

use super::clock::{polled_in_task, two_clocks};
use super::run::{Round, Target};
use crate::common::{Random, Wakes, spend_the_budget};

/// How many items a stream takes at once.
const AT_ONCE: usize = 128;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// The inner stream gets this many more answers. Only the last may be something other than an item.
    Give(usize, Answer),
    /// With one of two wakers. The budget may be spent before the poll, or by the inner stream.
    Poll(usize, bool, bool),
    Advance(u64),
    /// Sets the longest wait of a `debounce`.
    MaxWait(u64),
    /// Takes what `chunks_timeout` holds.
    Remainder,
    /// Of the other clock.
    WithTimer,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Item,
    End,
    Panic,
}

/// What the inner stream answers before it is pending. An item is the number of items before it.
#[derive(Default)]
struct Inner {
    answers: VecDeque<Answer>,
    items: usize,
    spends: bool,
    waker: Option<Waker>,
}

struct Shared(Rc<RefCell<Inner>>);

impl Stream for Shared {
    type Item = usize;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let mut inner = self.0.borrow_mut();
        if inner.spends {
            spend_the_budget();
        }
        match inner.answers.pop_front() {
            Some(Answer::Item) => {
                inner.items += 1;
                Poll::Ready(Some(inner.items))
            }
            Some(Answer::End) => Poll::Ready(None),
            Some(Answer::Panic) => panic!("the inner stream panics"),
            None => {
                inner.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[derive(Debug, Default, Clone, Copy)]
enum Rule {
    #[default]
    Timeout,
    Repeating,
    Throttle,
    Chunks(usize),
    Debounce,
}

enum Limited {
    Timeout(stream::Timeout<Shared>),
    Repeating(stream::TimeoutRepeating<Shared>),
    Throttle(stream::Throttle<Shared>),
    Chunks(stream::ChunksTimeout<Shared>),
    Debounce(stream::Debounce<Shared>),
}

/// What a stream yields: items, none for an error.
type Yielded = Poll<Option<Vec<usize>>>;

pub(crate) struct Pair {
    clocks: [ManualClock; 2],
    start: Instant,
    timers: [Timer; 2],
    /// The clock and the timer in use.
    on: usize,
    runtime: Runtime,
    inner: Rc<RefCell<Inner>>,
    limited: Option<Limited>,
    model: Model,
    wakers: [(Arc<Wakes>, Waker); 2],
    waits: Option<Wait>,
}

/// After a pending poll: its waker, how often that had been woken, and whether it must or may be woken before time is up.
struct Wait {
    woken: Arc<Wakes>,
    before: usize,
    must: bool,
    may: bool,
}

#[derive(Default)]
struct Model {
    rule: Rule,
    length: u64,
    longest: Option<u64>,
    now: u64,
    /// When the time of what is held or awaited is over.
    due: Option<u64>,
    /// When the stream has been silent for long enough.
    quiet: u64,
    /// When an item has been held for long enough, however many follow.
    until: u64,
    /// Whether the last poll has left items.
    has_more: bool,
    held: Vec<usize>,
    items: usize,
    has_ended: bool,
}

impl Model {
    /// What a poll yields, or `None` if it panics, and whether it wakes its task at once.
    fn poll(&mut self, answers: &mut VecDeque<Answer>, is_spent: bool) -> (Option<Yielded>, bool) {
        let (rule, now, length) = (self.rule, self.now, self.length);
        if let (Rule::Throttle, Some(due)) = (rule, self.due) {
            if now < due || is_spent {
                return (Some(Poll::Pending), now >= due);
            }
            self.due = None;
        }
        let mut taken = 0;
        while taken < AT_ONCE {
            match if self.has_ended { Some(Answer::End) } else { answers.pop_front() } {
                Some(Answer::Panic) => return (None, false),
                Some(Answer::End) => {
                    self.has_ended = !matches!(rule, Rule::Throttle);
                    self.due = None;
                    let last = std::mem::take(&mut self.held);
                    return (Some(Poll::Ready(Some(last).filter(|last| !last.is_empty()))), false);
                }
                Some(Answer::Item) => {
                    self.items += 1;
                    let is_first = self.held.is_empty();
                    if !matches!(rule, Rule::Chunks(_)) {
                        self.held.clear();
                    }
                    self.held.push(self.items);
                    if is_first {
                        self.until = match rule {
                            Rule::Debounce => self.longest.map_or(u64::MAX, |longest| now + longest),
                            _ => now + length,
                        };
                    }
                    self.quiet = if matches!(rule, Rule::Debounce) { now + length } else { u64::MAX };
                    self.due = Some(self.quiet.min(self.until));
                    let passes_on = match rule {
                        Rule::Timeout | Rule::Repeating | Rule::Throttle => true,
                        Rule::Chunks(size) => self.held.len() == size,
                        Rule::Debounce => false,
                    };
                    if passes_on {
                        if matches!(rule, Rule::Chunks(_)) || matches!(rule, Rule::Throttle) && length == 0 {
                            self.due = None;
                        }
                        return (Some(Poll::Ready(Some(std::mem::take(&mut self.held)))), false);
                    }
                    taken += 1;
                }
                None => break,
            }
        }
        self.has_more = taken == AT_ONCE;
        let Some(due) = self.end().filter(|&due| due <= now) else { return (Some(Poll::Pending), taken == AT_ONCE) };
        if is_spent {
            return (Some(Poll::Pending), true);
        }
        self.due = if matches!(rule, Rule::Repeating) { Some(due + length) } else { None };
        (Some(Poll::Ready(Some(std::mem::take(&mut self.held)))), false)
    }

    /// When the stream stops waiting. While items are ready it is not quiet.
    fn end(&self) -> Option<u64> {
        if self.has_more { Some(self.until) } else { self.due }
    }

    /// The times count again from now.
    fn counts_again(&mut self) {
        let longest = self.longest.map_or(u64::MAX, |longest| self.now + longest);
        self.until = if matches!(self.rule, Rule::Debounce) { longest } else { self.now + self.length };
        self.quiet = self.now + self.length;
        self.due = self.due.map(|_| self.until.min(self.quiet));
        self.has_more = false;
    }
}

impl Target for Pair {
    type Op = Op;

    fn new(random: &mut Random) -> Round<Pair> {
        let (clocks, timers) = two_clocks();
        let (start, timer) = (clocks[0].now(), &timers[0]);
        let inner = Rc::new(RefCell::new(Inner::default()));
        let shared = Shared(inner.clone());
        let (first, nanos, size) = (random.below(20), random.below(20), random.pick(&[1, 2, 10, 300]));
        let length = Duration::from_nanos(nanos);
        let (rule, limited) = match random.below(5) {
            0 => (Rule::Timeout, Limited::Timeout(shared.timeout(length).with_timer(timer))),
            1 => {
                let ticks = timer.interval_at(start + Duration::from_nanos(first), length + Duration::from_nanos(1));
                (Rule::Repeating, Limited::Repeating(shared.timeout_repeating(ticks)))
            }
            2 => (Rule::Throttle, Limited::Throttle(shared.throttle(length).with_timer(timer))),
            3 => (Rule::Chunks(size), Limited::Chunks(shared.chunks_timeout(size, length).with_timer(timer))),
            _ => (Rule::Debounce, Limited::Debounce(shared.debounce(length).with_timer(timer))),
        };
        let (due, length) = match rule {
            Rule::Timeout => (Some(nanos), nanos),
            Rule::Repeating => (Some(first), nanos + 1),
            _ => (None, nanos),
        };
        let model = Model { rule, length, due, ..Model::default() };
        let runtime = Builder::new_current_thread().build().expect("the system has room for a runtime");
        let wakers = [Wakes::new(), Wakes::new()];
        let limited = Some(limited);
        let target = Pair { clocks, start, timers, on: 0, runtime, inner, limited, model, wakers, waits: None };
        Round { target, length: 60, set_up: format!("{rule:?} {length}, first {first}") }
    }

    fn generate(&mut self, random: &mut Random) -> Op {
        match random.below(32) {
            0..=7 => {
                let last = random.pick(&[Answer::Item, Answer::Item, Answer::Item, Answer::Panic]);
                Op::Give(random.pick(&[1, 1, 1, 2, 3, 130, 400]), if random.one_in(12) { Answer::End } else { last })
            }
            8..=18 => Op::Poll(random.index(2), random.one_in(4), random.one_in(4)),
            19 => Op::MaxWait(random.below(30)),
            20 => Op::Remainder,
            21 => Op::WithTimer,
            _ => Op::Advance(random.up_to_bits(5)),
        }
    }

    fn apply(&mut self, op: &Op) {
        let model = &mut self.model;
        match *op {
            Op::Give(count, last) => {
                let mut inner = self.inner.borrow_mut();
                inner.answers.extend((1..count).map(|_| Answer::Item).chain([last]));
                if let Some(wait) = &mut self.waits {
                    wait.may = true;
                    wait.must |= inner.waker.is_some();
                }
                inner.waker.take().into_iter().for_each(Waker::wake);
            }
            Op::Poll(waker, is_spent, spends) => self.poll(waker, is_spent, spends),
            Op::Advance(nanos) => {
                self.clocks[self.on].advance(Duration::from_nanos(nanos));
                model.now += nanos;
            }
            Op::MaxWait(nanos) => {
                let Some(Limited::Debounce(debounce)) = self.limited.take_if(|it| matches!(it, Limited::Debounce(_)))
                else {
                    return;
                };
                self.limited = Some(Limited::Debounce(debounce.max_wait(Duration::from_nanos(nanos))));
                model.longest = Some(nanos);
                model.until = model.now + nanos;
                model.due = model.due.map(|_| model.quiet.min(model.until));
                model.has_more = false;
                self.waits = None;
            }
            Op::Remainder => {
                let Some(Limited::Chunks(chunks)) = &mut self.limited else { return };
                assert_eq!(Pin::new(chunks).into_remainder(), std::mem::take(&mut model.held));
                model.due = None;
                self.waits = None;
            }
            Op::WithTimer if matches!(model.rule, Rule::Repeating) => {}
            Op::WithTimer => {
                self.on = 1 - self.on;
                let timer = &self.timers[self.on];
                self.limited = self.limited.take().map(|limited| match limited {
                    Limited::Timeout(stream) => Limited::Timeout(stream.with_timer(timer)),
                    Limited::Throttle(stream) => Limited::Throttle(stream.with_timer(timer)),
                    Limited::Chunks(stream) => Limited::Chunks(stream.with_timer(timer)),
                    Limited::Debounce(stream) => Limited::Debounce(stream.with_timer(timer)),
                    Limited::Repeating(stream) => Limited::Repeating(stream),
                });
                let passed = self.clocks[self.on].now() - self.start;
                model.now = u64::try_from(passed.as_nanos()).expect("a few microseconds");
                model.counts_again();
                self.waits = None;
            }
        }
        self.compare();
    }

    fn finish(&mut self) {
        self.limited = None;
        assert!(self.clocks.iter().all(|clock| clock.pending() == 0), "a dropped stream keeps no timer");
    }
}

impl Pair {
    fn poll(&mut self, which: usize, is_spent: bool, spends: bool) {
        let (woken, waker) = &self.wakers[which];
        let before = woken.count();
        let mut answers = self.inner.borrow().answers.clone();
        let (expected, at_once) = self.model.poll(&mut answers, is_spent);
        self.inner.borrow_mut().spends = spends;
        self.inner.borrow_mut().waker = None;
        let limited = self.limited.as_mut().expect("it is not dropped");
        let polled = polled_in_task(&self.runtime, is_spent, || limited.poll(&mut Context::from_waker(waker)));
        assert_eq!(polled, expected);
        assert_eq!(self.inner.borrow().answers.len(), answers.len(), "what was taken");
        if polled.is_none() {
            // The times of what came before a panic count from the next poll.
            return self.poll(which, is_spent, spends);
        }
        let wait = Wait { woken: woken.clone(), before, must: at_once, may: at_once };
        self.waits = Some(wait).filter(|_| polled == Some(Poll::Pending));
    }

    fn compare(&self) {
        let model = &self.model;
        let waits_for_time = model.end().is_some_and(|due| model.now < due && due < u64::MAX);
        assert!(self.clocks[self.on].pending() <= usize::from(waits_for_time), "a timer is left");
        assert_eq!(self.clocks[1 - self.on].pending(), 0, "the other timer is left");
        if let Some(wait) = &self.waits {
            let is_due = model.due.is_some_and(|due| due <= model.now);
            let woken = wait.woken.count() > wait.before;
            assert!(woken || !(wait.must || is_due), "it was not woken");
            assert!(!woken || wait.may || is_due, "it was woken too early");
        }
    }
}

impl Limited {
    fn poll(&mut self, cx: &mut Context<'_>) -> Yielded {
        let one = |item: Option<usize>| item.map(|item| vec![item]);
        match self {
            Limited::Timeout(stream) => stream.poll_next_unpin(cx).map(|item| Some(item?.into_iter().collect())),
            Limited::Repeating(stream) => stream.poll_next_unpin(cx).map(|item| Some(item?.into_iter().collect())),
            Limited::Throttle(stream) => stream.poll_next_unpin(cx).map(one),
            Limited::Chunks(stream) => stream.poll_next_unpin(cx),
            Limited::Debounce(stream) => stream.poll_next_unpin(cx).map(one),
        }
    }
}
