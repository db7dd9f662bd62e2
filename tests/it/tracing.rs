//! What a `tracing` subscriber receives about sleeps, timeouts and intervals: the same as tokio-console shows of
//! tokio's.

use std::collections::HashMap;
use std::fmt::Debug;
use std::future::poll_fn;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{HOUR, ms, paused, poll};
use hairspring::{
    DeadlineMap, DelayQueue, FutureExt, Interval, Sleep, Timer, interval, interval_at, sleep, sleep_until, timeout,
    timeout_at,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps everything that this crate emits and, if requested, tokio's own task spans, which exist with `--cfg
/// tokio_unstable`.
#[derive(Clone, Default)]
struct Console {
    told: Arc<Mutex<Told>>,
    with_tasks: bool,
}

#[derive(Default)]
struct Told {
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
    /// The names of the entered spans.
    within: Vec<&'static str>,
    /// The resource among them that was entered last.
    resource: Option<usize>,
}

/// Values as they are printed.
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
        tracing::subscriber::with_default(self.clone(), code)
    }

    fn told<T>(&self, ask: impl FnOnce(&Told) -> T) -> T {
        ask(&self.told.lock().unwrap())
    }

    /// The type and location of each timer that was created and still exists, as a console lists them.
    fn resources(&self) -> Vec<(String, String)> {
        self.told(|told| {
            let resources = told.spans.iter().filter(|span| span.name == "runtime.resource" && span.handles > 0);
            resources.map(|span| (span.fields.get("concrete_type").to_owned(), place(&span.fields))).collect()
        })
    }

    /// The sources of all operations so far.
    fn operations(&self) -> Vec<String> {
        self.told(|told| {
            let operations = told.spans.iter().filter(|span| span.name == "runtime.resource.async_op");
            operations.map(|span| span.fields.get("source").to_owned()).collect()
        })
    }

    fn events(&self, target: &str) -> Vec<Message> {
        self.told(|told| told.events.iter().filter(|event| event.target == target).cloned().collect())
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

fn place(fields: &Fields) -> String {
    ["loc.file", "loc.line", "loc.col"].map(|field| fields.get(field)).join(":")
}

impl Subscriber for Console {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = metadata.module_path().is_some_and(|path| path.starts_with("hairspring"));
        is_ours || self.with_tasks && metadata.name() == "runtime.spawn"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let mut told = self.told.lock().unwrap();
        let within = told.entered.last().copied();
        let (name, target) = (span.metadata().name(), span.metadata().target());
        told.spans.push(Span { name, target, fields, within, handles: 1 });
        Id::from_u64(told.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut told = self.told.lock().unwrap();
        let target = event.metadata().target().to_owned();
        let within = told.entered.iter().map(|&number| told.spans[number].name).collect();
        let resource = told.entered.iter().rev().copied().find(|&n| told.spans[n].name == "runtime.resource");
        told.events.push(Message { target, fields, within, resource });
    }

    fn enter(&self, span: &Id) {
        self.told.lock().unwrap().entered.push(number(span));
    }

    fn exit(&self, span: &Id) {
        assert_eq!(self.told.lock().unwrap().entered.pop(), Some(number(span)), "spans are left in order");
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.told.lock().unwrap().spans[number(span)].handles += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut told = self.told.lock().unwrap();
        let span = &mut told.spans[number(&span)];
        span.handles -= 1;
        span.handles == 0
    }
}

fn number(span: &Id) -> usize {
    usize::try_from(span.into_u64()).unwrap() - 1
}

#[track_caller]
fn here() -> &'static Location<'static> {
    Location::caller()
}

#[test]
fn a_sleep_is_a_resource_at_the_line_that_made_it() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let (nap, line) = (sleep(ms(250)), here().line());
            let [(concrete_type, place)] = &console.resources()[..] else { panic!("one resource") };
            assert_eq!(concrete_type, "Sleep");
            assert!(place.starts_with(&format!("{}:{line}:", file!())), "{place}");
            console.told(|told| {
                assert_eq!(told.spans[0].fields.get("kind"), "timer");
                assert_eq!(told.spans[0].within, None);
            });
            nap.await;
        });
    });
}

#[test]
fn each_way_to_make_one_is_told_with_the_callers_line() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let timer = Timer::current();
            let later = timer.now() + HOUR;
            let first = here().line() + 2;
            let _held = (
                sleep(HOUR),
                sleep_until(later),
                timeout(HOUR, async {}),
                timeout_at(later, async {}),
                async {}.timeout(HOUR),
                async {}.timeout_at(later),
                timer.sleep(HOUR),
                timer.sleep_until(later),
                (timer.try_sleep(HOUR), timer.try_sleep_until(later)),
                (timer.timeout(HOUR, async {}), timer.timeout_at(later, async {})),
                (interval(HOUR), interval_at(later, HOUR)),
                (timer.interval(HOUR), timer.interval_at(later, HOUR)),
            );
            let mut lines = Vec::new();
            for (concrete_type, place) in console.resources() {
                let line: u32 =
                    place.strip_prefix(concat!(file!(), ":")).unwrap().split(':').next().unwrap().parse().unwrap();
                lines.push((line - first, concrete_type));
            }
            let mut expected: Vec<_> = (0..8).map(|line| (line, "Sleep")).collect();
            expected.extend([(8, "Sleep"), (8, "Sleep"), (9, "Sleep"), (9, "Sleep")]);
            // An interval has a sleep inside, as tokio's.
            for line in [10, 10, 11, 11] {
                expected.extend([(line, "Sleep"), (line, "Interval")]);
            }
            let expected: Vec<_> = expected.into_iter().map(|(line, name)| (line, name.to_owned())).collect();
            assert_eq!(lines, expected);
        });
    });
    assert_eq!(console.resources(), [], "all were closed");
}

/// A console lists the target of each resource, and a filter goes by it.
#[test]
fn the_target_of_each_span_is_the_crate() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let mut nap = sleep(ms(5));
            nap.reset_at(Timer::current().now() + ms(10));
            nap.await;
            interval(ms(5)).tick().await;
        });
    });
    console.told(|told| {
        let targets: Vec<_> = told.spans.iter().map(|span| span.target).collect();
        assert!(targets.len() > 8 && targets.iter().all(|&target| target == "hairspring"), "{targets:?}");
    });
}

#[test]
fn a_queues_or_a_maps_sleep_is_at_the_line_that_made_the_queue_or_the_map() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let timer = Timer::current();
            let first = here().line() + 2;
            let mut queues = [
                DelayQueue::new(),
                DelayQueue::with_capacity(5),
                DelayQueue::with_timer(&timer),
                DelayQueue::default(),
            ];
            let mut maps = [
                DeadlineMap::new(),
                DeadlineMap::with_timer(&timer),
                DeadlineMap::builder().shards(2).build().unwrap(),
            ];
            // They wait, somewhere else.
            for queue in &mut queues {
                queue.insert('x', HOUR);
                assert!(poll(&mut poll_fn(|cx| queue.poll_expired(cx))).is_pending());
            }
            for (map, expirations) in &mut maps {
                map.insert('x', 'y', HOUR);
                assert!(poll(&mut Box::pin(expirations.recv())).is_pending());
            }
            let lines = [0, 1, 2, 3, 6, 7, 8].map(|line| first + line);
            let resources = console.resources();
            assert_eq!(resources.len(), lines.len(), "{resources:?}");
            for (line, (concrete_type, place)) in lines.into_iter().zip(resources) {
                assert_eq!(concrete_type, "Sleep");
                assert!(place.starts_with(&format!("{}:{line}:", file!())), "{place} is not line {line}");
            }
        });
    });
}

#[test]
fn a_resource_has_the_name_of_its_timer() {
    let console = Console::default();
    console.listen(|| {
        let (timer, _driver) = Timer::builder().name("requests").build_with_driver().unwrap();
        let (unnamed, _driver) = Timer::builder().build_with_driver().unwrap();
        drop((timer.sleep(HOUR), timer.interval(HOUR), unnamed.sleep(HOUR), sleep(HOUR)));
    });
    let names = |told: &Told| {
        let resources = told.spans.iter().filter(|span| span.name == "runtime.resource");
        resources.map(|span| [span.fields.get("concrete_type"), span.fields.get("timer")].join(" ")).collect::<Vec<_>>()
    };
    let expected = ["Sleep requests", "Sleep requests", "Interval requests", "Sleep ", "Sleep "];
    assert_eq!(console.told(names), expected);
}

/// tokio only reports tasks if it is built for that: see the crate's documentation of features.
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
    console.told(|told| {
        let tasks = told.spans.iter().filter(|span| span.name == "runtime.spawn");
        let names: Vec<_> = tasks.map(|task| task.fields.get("task.name")).filter(|name| !name.is_empty()).collect();
        assert_eq!(names, ["hairspring driver"; 2], "the runtime's, and that of a timer that was built");
    });
}

#[test]
fn polls_are_told_with_what_came_of_them() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let mut nap = sleep(ms(250));
            assert!(poll(&mut nap).is_pending());
            assert_eq!(console.polls("poll_elapsed"), ["false"]);
            (&mut nap).await;
            assert_eq!(console.polls("poll_elapsed"), ["false", "false", "true"]);
        });
    });
    for poll in console.events("runtime::resource::poll_op") {
        let within = ["runtime.resource", "runtime.resource.async_op", "runtime.resource.async_op.poll"];
        assert_eq!(poll.within, within);
    }
}

#[test]
fn an_operation_is_made_within_its_resource_and_ends_with_it() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let mut nap = sleep(HOUR);
            assert_eq!(console.operations(), ["Sleep::new_timeout"]);
            console.told(|told| assert_eq!(told.spans[1].within, Some(0)));
            assert!(poll(&mut nap).is_pending());
            drop(nap);
        });
    });
    console.told(|told| {
        assert_eq!(told.spans.len(), 3);
        assert!(told.spans.iter().all(|span| span.handles == 0), "all were closed");
    });
}

#[test]
fn a_duration_is_told_when_a_sleep_is_made_and_when_it_is_reset() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let mut nap = sleep(ms(250));
            assert_eq!(console.durations(), ["250"]);
            nap.reset_at(Timer::current().now() + ms(40));
            assert!(poll(&mut nap).is_pending());
            nap.reset_at(Timer::current().now() + Duration::from_nanos(60_000_001));
            assert_eq!(console.durations(), ["250", "40", "61"], "rounded up");
            assert_eq!(console.operations(), ["Sleep::new_timeout", "Sleep::reset", "Sleep::reset"]);
            (&mut nap).await;
        });
    });
    for update in console.events("runtime::resource::state_update") {
        assert_eq!(update.fields.get("duration.unit"), "ms");
        assert_eq!(update.fields.get("duration.op"), "override");
        assert_eq!(update.within, ["runtime.resource"]);
        assert_eq!(update.resource, Some(0));
    }
}

#[test]
fn a_tick_is_an_operation_of_the_interval() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let mut ticks = interval(ms(10));
            ticks.tick().await;
            ticks.tick().await;
            assert_eq!(console.operations().iter().filter(|source| *source == "Interval::tick").count(), 2);
            // At once, and then after a wait.
            assert_eq!(console.polls("poll_tick"), ["true", "false", "true"]);
        });
    });
    let ticks = console.events("runtime::resource::poll_op").into_iter();
    let of = ticks.filter(|poll| poll.fields.get("op_name") == "poll_tick").map(|poll| poll.resource.unwrap());
    console.told(|told| {
        of.for_each(|resource| assert_eq!(told.spans[resource].fields.get("concrete_type"), "Interval"));
    });
}

#[test]
fn a_sleep_that_waits_for_nothing_has_no_duration() {
    let console = Console::default();
    console.listen(|| {
        paused().block_on(async {
            let mut queue = DelayQueue::new();
            assert_eq!(console.durations(), [""; 0]);
            let key = queue.insert('x', ms(30));
            poll_fn(|cx| {
                assert!(queue.poll_expired(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            queue.remove(&key);
            assert_eq!(console.durations(), ["30"]);
        });
    });
}

#[test]
fn a_sleep_stays_small_and_unpin() {
    fn is_plain<T: Send + Sync + Unpin>() {}
    is_plain::<Sleep>();
    is_plain::<Interval>();
    assert!(size_of::<Sleep>() <= 48, "{} bytes", size_of::<Sleep>());
}

#[test]
fn a_subscriber_that_comes_later_hears_only_of_later_sleeps() {
    let console = Console::default();
    paused().block_on(async {
        let early = sleep(ms(5));
        console.listen(|| drop(sleep(ms(6))));
        early.await;
    });
    assert_eq!(console.durations(), ["6"]);
}
