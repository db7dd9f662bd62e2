//! [`Spans`]: the `tracing` spans and events of a sleep or an interval. Without the feature it does nothing.
//!
//! Names and fields are those of tokio's timers, which tokio-console knows. The target of spans is the crate's name.
//
// Invariants
// 1. If no subscriber wants the spans, nothing is allocated and no clock is read.
// 2. No event is recorded under a lock: a subscriber is user code.

#[cfg(feature = "tracing")]
pub(crate) use on::Spans;

#[cfg(not(feature = "tracing"))]
pub(crate) use off::Spans;

#[cfg(feature = "tracing")]
mod on {
    use std::panic::Location;
    use std::task::Poll;

    use tracing::{Span, trace, trace_span};

    use crate::wheel::{Tick, Ticks};

    const NANOS_PER_MILLI: u64 = 1_000_000;
    const TARGET: &str = "hairspring";

    /// The spans of one sleep or interval, if a subscriber wants them.
    // Boxed to keep a sleep small.
    #[derive(Default)]
    pub(crate) struct Spans(Option<Box<Open>>);

    struct Open {
        poll: Span,
        /// The wait since the creation or the last reset, or for one tick.
        operation: Span,
        resource: Span,
    }

    // A timer is unwind safe with the feature as without it. Subscribers take care of themselves.
    impl std::panic::UnwindSafe for Spans {}
    impl std::panic::RefUnwindSafe for Spans {}

    impl Spans {
        /// Records that the line `made` created a timer of this type, on the timer of that name.
        pub(crate) fn new(
            concrete_type: &'static str,
            made: &'static Location<'static>,
            timer: impl FnOnce() -> Option<&'static str>,
        ) -> Self {
            let resource = trace_span!(
                target: TARGET,
                parent: None,
                "runtime.resource",
                concrete_type = concrete_type,
                kind = "timer",
                timer = timer(),
                loc.file = made.file(),
                loc.line = made.line(),
                loc.col = made.column(),
            );
            if resource.is_disabled() {
                return Spans::default();
            }
            Spans(Some(Box::new(Open { poll: Span::none(), operation: Span::none(), resource })))
        }

        /// The spans of an operation on the same timer, which ends when they are dropped. Records how long the timer
        /// has to wait, unless it is never due.
        pub(crate) fn operation(&self, source: &'static str, deadline: Tick, now: impl FnOnce() -> Tick) -> Self {
            let Some(open) = &self.0 else { return Spans::default() };
            let resource = open.resource.clone();
            // Entered, because tokio-console uses the entered span as the parent.
            let operation =
                resource.in_scope(|| trace_span!(target: TARGET, "runtime.resource.async_op", source = source));
            let poll = trace_span!(target: TARGET, parent: &operation, "runtime.resource.async_op.poll");
            if deadline != Tick::MAX {
                let Ticks(to_go) = deadline - now();
                resource.in_scope(|| {
                    trace!(
                        target: "runtime::resource::state_update",
                        duration = to_go.div_ceil(NANOS_PER_MILLI),
                        duration.unit = "ms",
                        duration.op = "override",
                    );
                });
            }
            Spans(Some(Box::new(Open { poll, operation, resource })))
        }

        pub(crate) fn poll<T>(&self, name: &'static str, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
            let Some(open) = &self.0 else { return poll() };
            let _resource = open.resource.enter();
            let _operation = open.operation.enter();
            let _poll = open.poll.enter();
            let polled = poll();
            trace!(target: "runtime::resource::poll_op", op_name = name, is_ready = polled.is_ready());
            polled
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::panic::Location;
    use std::task::Poll;

    use crate::wheel::Tick;

    /// Does nothing.
    #[derive(Default)]
    pub(crate) struct Spans;

    #[allow(clippy::unused_self)] // As above.
    impl Spans {
        #[inline]
        pub(crate) fn new(
            _: &'static str,
            _: &'static Location<'static>,
            _: impl FnOnce() -> Option<&'static str>,
        ) -> Self {
            Spans
        }

        #[inline]
        pub(crate) fn operation(&self, _: &'static str, _: Tick, _: impl FnOnce() -> Tick) -> Self {
            Spans
        }

        #[inline]
        pub(crate) fn poll<T>(&self, _: &'static str, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
            poll()
        }
    }
}
