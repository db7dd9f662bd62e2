//! Streams with limits beside tokio-stream's, an item at a time, in a task of a current-thread runtime:
//!
//! - `timeout_ready`, `chunks_ready`: items that are ready, so the limit is never waited for;
//! - `timeout_waits`: each item comes one poll after it was asked for, so the limit is polled for each.
//!
//! `cargo bench --bench stream` in `benches`. With `-- --test` each runs once.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use micro::{compare, criterion, print};
use tokio::runtime::Builder;
use tokio::task;

const LIMIT: Duration = Duration::from_hours(1);
const CHUNK: usize = 100;

/// So many items. If it waits, each is pending once before it is ready.
struct Items {
    left: u64,
    waits: bool,
    is_asked: bool,
}

impl Stream for Items {
    type Item = u64;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        if self.waits && !std::mem::replace(&mut self.is_asked, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.is_asked = false;
        let item = self.left.checked_sub(1);
        self.left = item.unwrap_or(0);
        Poll::Ready(item)
    }
}

/// How long it takes to read what `limit` makes of so many items.
fn drain<S: Stream>(items: u64, waits: bool, limit: impl Fn(Items) -> S) -> Duration {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(task::unconstrained(async {
        let mut stream = pin!(limit(Items { left: items, waits, is_asked: false }));
        let start = Instant::now();
        while stream.next().await.is_some() {}
        start.elapsed()
    }))
}

fn main() {
    use hairspring::StreamExt as Ours;
    use tokio_stream::StreamExt as Theirs;

    let mut criterion = criterion(30);
    for (row, waits) in [("timeout_ready", false), ("timeout_waits", true)] {
        compare(
            &mut criterion,
            row,
            &mut [
                ("hairspring", &mut |items| drain(items, waits, |items| Ours::timeout(items, LIMIT))),
                ("tokio-stream", &mut |items| drain(items, waits, |items| Theirs::timeout(items, LIMIT))),
            ],
        );
    }
    compare(
        &mut criterion,
        "chunks_ready",
        &mut [
            ("hairspring", &mut |items| drain(items, false, |items| Ours::chunks_timeout(items, CHUNK, LIMIT))),
            ("tokio-stream", &mut |items| drain(items, false, |items| Theirs::chunks_timeout(items, CHUNK, LIMIT))),
        ],
    );
    criterion.final_summary();
    print("tokio-stream");
}
