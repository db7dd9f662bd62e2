//! A `tracing` subscriber receives the same spans and events for sleeps, timeouts and intervals as for tokio's.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::poll_fn;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use crate::common::{HOUR, ms, paused, poll};
use hairspring::{
    DeadlineMap, DelayQueue, FutureExt, Timer, interval, interval_at, sleep, sleep_until, timeout, timeout_at,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Records everything that this crate emits and, if requested, tokio's task spans, which exist with `--cfg
/// tokio_unstable`.
#[derive(Clone, Default)]
struct Console {
    log: Arc<Mutex<Log>>,
    with_tasks: bool,
}

#[derive(Default)]
struct Log {
    spans: Vec<Span>,
    events: Vec<Message>,
    /// The entered spans, by number.
    entered: Vec<usize>,
}

struct Span {
    name: &'static str,
    target: &'static str,
    fields: Fields,
    /// The span that was entered last.
    within: Option<usize>,
    handles: usize,
}

#[derive(Debug, Clone)]
struct Message {
    target: String,
    fields: Fields,
    /// The names of the spans that are entered.
    within: Vec<&'static str>,
    /// The last of these that is a resource.
    resource: Option<usize>,
}

/// The values, as text.
#[derive(Debug, Clone, Default, PartialEq)]
struct Fields(HashMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value)
    }
}

impl Console {
    fn listen<T>(&self, code: impl FnOnce() -> T) -> T {
        /// If there is only one subscriber, a thread that first comes to a callsite asks its own, or none, and `tracing`
        /// remembers the answer for all threads.
        static OTHERS: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Console::default())));
        LazyLock::force(&OTHERS);
        tracing::subscriber::with_default(self.clone(), code)
    }

    fn log<T>(&self, ask: impl FnOnce(&Log) -> T) -> T {
        ask(&self.log.lock().unwrap())
    }

    /// The line in this file and the type of each existing timer, as a console lists them.
    fn resources(&self) -> Vec<(u32, String)> {
        self.log(|log| {
            let resources = log.spans.iter().filter(|span| span.name == "runtime.resource" && span.handles > 0);
            resources.map(|span| (line(&span.fields), span.fields.get("concrete_type").to_owned())).collect()
        })
    }

    /// The sources of all operations so far.
    fn operations(&self) -> Vec<String> {
        self.log(|log| {
            let operations = log.spans.iter().filter(|span| span.name == "runtime.resource.async_op");
            operations.map(|span| span.fields.get("source").to_owned()).collect()
        })
    }

    fn events(&self, target: &str) -> Vec<Message> {
        self.log(|log| log.events.iter().filter(|event| event.target == target).cloned().collect())
    }

    /// The results of all polls with the given name.
    fn polls(&self, name: &str) -> Vec<String> {
        let polls = self.events("runtime::resource::poll_op").into_iter();
        polls.filter(|poll| poll.fields.get("op_name") == name).map(|poll| poll.fields.get("is_ready").into()).collect()
    }

    /// The durations that were reported, in milliseconds.
    fn durations(&self) -> Vec<String> {
        let updates = self.events("runtime::resource::state_update").into_iter();
        updates.map(|update| update.fields.get("duration").to_owned()).collect()
    }
}

fn line(fields: &Fields) -> u32 {
    assert_eq!(fields.get("loc.file"), file!());
    assert_ne!(fields.get("loc.col"), "");
    fields.get("loc.line").parse().unwrap()
}

impl Subscriber for Console {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = metadata.module_path().is_some_and(|path| path.starts_with("hairspring"));
        is_ours || self.with_tasks && metadata.name() == "runtime.spawn"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let mut log = self.log.lock().unwrap();
        let within = log.entered.last().copied();
        let (name, target) = (span.metadata().name(), span.metadata().target());
        log.spans.push(Span { name, target, fields, within, handles: 1 });
        Id::from_u64(log.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut log = self.log.lock().unwrap();
        let target = event.metadata().target().to_owned();
        let within = log.entered.iter().map(|&number| log.spans[number].name).collect();
        let resource = log.entered.iter().rev().copied().find(|&n| log.spans[n].name == "runtime.resource");
        log.events.push(Message { target, fields, within, resource });
    }

    fn enter(&self, span: &Id) {
        self.log.lock().unwrap().entered.push(number(span));
    }

    fn exit(&self, span: &Id) {
        assert_eq!(self.log.lock().unwrap().entered.pop(), Some(number(span)), "spans are left in order");
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.log.lock().unwrap().spans[number(span)].handles += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut log = self.log.lock().unwrap();
        let span = &mut log.spans[number(&span)];
        span.handles -= 1;
        span.handles == 0
    }
}

fn number(span: &Id) -> usize {
    usize::try_from(span.into_u64()).unwrap() - 1
}

/// Runs `test` on a paused clock and returns what it emitted.
fn listen(test: impl AsyncFnOnce(&Console)) -> Console {
    let console = Console::default();
    console.listen(|| paused().block_on(test(&console)));
    console
}

#[test]
fn every_timer_is_a_resource_at_its_callers_line() {
    let console = listen(async |console| {
        let timer = Timer::current();
        let later = timer.now() + HOUR;
        let first = line!() + 2;
        let _held = (
            sleep(HOUR),
            sleep_until(later),
            timeout(HOUR, async {}),
            timeout_at(later, async {}),
            async {}.timeout(HOUR),
            async {}.timeout_at(later),
            timer.sleep(HOUR),
            timer.sleep_until(later),
            (timer.try_sleep(HOUR), timer.sleep_until(later)),
            (timer.timeout(HOUR, async {}), timer.timeout_at(later, async {})),
            (interval(HOUR), interval_at(later, HOUR)),
            (timer.interval(HOUR), timer.interval_at(later, HOUR)),
        );
        let mut expected: Vec<_> = (0..8).chain([8, 8, 9, 9]).map(|line| (first + line, "Sleep".to_owned())).collect();
        // As in tokio, an interval contains a sleep.
        for line in [10, 10, 11, 11] {
            expected.extend(["Sleep", "Interval"].map(|name| (first + line, name.to_owned())));
        }
        assert_eq!(console.resources(), expected);
        interval(ms(5)).tick().await;
    });
    assert_eq!(console.resources(), [], "all were closed");
    console.log(|log| {
        let mut resources = log.spans.iter().filter(|span| span.name == "runtime.resource");
        assert!(resources.all(|span| span.fields.get("kind") == "timer"));
        assert!(log.spans.iter().all(|span| span.target == "hairspring"), "consoles filter by target");
    });
}

#[test]
fn queues_and_maps_report_their_own_line() {
    listen(async |console| {
        let timer = Timer::current();
        let first = line!() + 2;
        let mut queues =
            [DelayQueue::new(), DelayQueue::with_capacity(5), DelayQueue::with_timer(&timer), DelayQueue::default()];
        let mut maps =
            [DeadlineMap::new(), DeadlineMap::with_timer(&timer), DeadlineMap::builder().shards(2).build().unwrap()];
        for queue in &mut queues {
            queue.insert('x', HOUR);
            assert!(poll(&mut poll_fn(|cx| queue.poll_expired(cx))).is_pending());
        }
        for (map, expirations) in &mut maps {
            map.insert('x', 'y', HOUR);
            assert!(poll(&mut Box::pin(expirations.recv())).is_pending());
        }
        let expected = [0, 0, 0, 0, 2, 2, 2].map(|line| (first + line, "Sleep".to_owned()));
        assert_eq!(console.resources(), expected);
    });
}

#[test]
fn a_resource_has_the_name_of_its_timer() {
    let console = listen(async |_| {
        let timer = Timer::builder().name("requests").build().unwrap();
        let unnamed = Timer::builder().build().unwrap();
        drop((timer.sleep(HOUR), timer.interval(HOUR), unnamed.sleep(HOUR), sleep(HOUR)));
    });
    console.log(|log| {
        let resources = log.spans.iter().filter(|span| span.name == "runtime.resource");
        let all: Vec<_> = resources.map(|span| (span.fields.get("concrete_type"), span.fields.get("timer"))).collect();
        let named = [("Sleep", "requests"), ("Sleep", "requests"), ("Interval", "requests")];
        assert_eq!(all, [&named[..], &[("Sleep", ""); 2]].concat());
    });
}

/// tokio reports tasks only with `--cfg tokio_unstable`.
#[cfg(tokio_unstable)]
#[test]
fn the_drivers_task_has_a_name() {
    let console = Console { with_tasks: true, ..Console::default() };
    console.listen(|| {
        paused().block_on(async {
            sleep(ms(5)).await;
            let _timer = Timer::builder().build().unwrap();
        });
    });
    console.log(|log| {
        let tasks = log.spans.iter().filter(|span| span.name == "runtime.spawn");
        let names: Vec<_> = tasks.map(|task| task.fields.get("task.name")).filter(|name| !name.is_empty()).collect();
        assert_eq!(names, ["hairspring driver"; 2], "the runtime's driver, and that of a built timer");
    });
}

#[test]
fn polls_are_reported_within_their_operation() {
    let console = listen(async |console| {
        let mut nap = sleep(ms(250));
        assert_eq!(console.operations(), ["Sleep::new_timeout"]);
        assert!(poll(&mut nap).is_pending());
        assert_eq!(console.polls("poll_elapsed"), ["false"]);
        (&mut nap).await;
        assert_eq!(console.polls("poll_elapsed"), ["false", "false", "true"]);
    });
    let within = ["runtime.resource", "runtime.resource.async_op", "runtime.resource.async_op.poll"];
    assert!(console.events("runtime::resource::poll_op").iter().all(|poll| poll.within == within));
    console.log(|log| {
        assert_eq!(log.spans.iter().map(|span| span.name).collect::<Vec<_>>(), within);
        assert_eq!((log.spans[0].within, log.spans[1].within), (None, Some(0)));
        assert!(log.spans.iter().all(|span| span.handles == 0), "all were closed");
    });
}

#[test]
fn durations_are_reported_when_set_and_reset() {
    let console = listen(async |console| {
        let mut nap = sleep(ms(250));
        assert_eq!(console.durations(), ["250"]);
        nap.reset_at(Timer::current().now() + ms(40));
        assert!(poll(&mut nap).is_pending());
        nap.reset_at(Timer::current().now() + Duration::from_nanos(60_000_001));
        assert_eq!(console.durations(), ["250", "40", "61"], "rounded up");
        assert_eq!(console.operations(), ["Sleep::new_timeout", "Sleep::reset", "Sleep::reset"]);
        nap.await;
    });
    for update in console.events("runtime::resource::state_update") {
        assert_eq!(update.fields.get("duration.unit"), "ms");
        assert_eq!(update.fields.get("duration.op"), "override");
        assert_eq!((&*update.within, update.resource), (&["runtime.resource"][..], Some(0)));
    }
}

#[test]
fn a_tick_is_an_operation_of_the_interval() {
    let console = listen(async |console| {
        let mut ticks = interval(ms(10));
        ticks.tick().await;
        ticks.tick().await;
        assert_eq!(console.operations().iter().filter(|source| *source == "Interval::tick").count(), 2);
        assert_eq!(console.polls("poll_tick"), ["true", "false", "true"], "one tick immediately, one after a wait");
    });
    let ticks = console.events("runtime::resource::poll_op").into_iter();
    for poll in ticks.filter(|poll| poll.fields.get("op_name") == "poll_tick") {
        let resource = poll.resource.unwrap();
        console.log(|log| assert_eq!(log.spans[resource].fields.get("concrete_type"), "Interval"));
    }
}

#[test]
fn an_idle_queue_has_no_duration() {
    listen(async |console| {
        let mut queue = DelayQueue::new();
        assert_eq!(console.durations(), [""; 0]);
        let key = queue.insert('x', ms(30));
        assert!(poll(&mut poll_fn(|cx| queue.poll_expired(cx))).is_pending());
        queue.remove(&key);
        assert_eq!(console.durations(), ["30"]);
    });
}

#[test]
fn a_late_subscriber_sees_only_later_sleeps() {
    let console = Console::default();
    paused().block_on(async {
        let early = sleep(ms(5));
        console.listen(|| drop(sleep(ms(6))));
        early.await;
    });
    assert_eq!(console.durations(), ["6"]);
}
