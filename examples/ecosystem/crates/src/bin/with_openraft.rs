//! openraft: a runtime for its nodes. This runs the runtime's own methods, and no cluster.

use std::future::pending;
use std::io::Cursor;
use std::time::Duration;

use hairspring::Timer;
use openraft::{AsyncRuntime, OptionalSend, TokioRuntime};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hairspring;

impl openraft::AsyncRuntime for Hairspring {
    type Sleep = hairspring::Sleep;
    type Instant = tokio::time::Instant;
    type TimeoutError = hairspring::error::Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = hairspring::Timeout<T>;
    // The rest forwards to `openraft::TokioRuntime`: types, `spawn`, `is_panic`, `thread_rng` and `oneshot`.

    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type ThreadLocalRng = <TokioRuntime as AsyncRuntime>::ThreadLocalRng;
    type OneshotSender<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;
    type OneshotReceiver<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotReceiver<T>;
    type OneshotReceiverError = <TokioRuntime as AsyncRuntime>::OneshotReceiverError;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }
    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }
    fn thread_rng() -> Self::ThreadLocalRng {
        TokioRuntime::thread_rng()
    }
    fn oneshot<T: OptionalSend>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>) {
        TokioRuntime::oneshot()
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        hairspring::sleep(duration)
    }
    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        hairspring::sleep_until(deadline.into())
    }
    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        hairspring::timeout(duration, future)
    }
    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        hairspring::timeout_at(deadline.into(), future)
    }
}

openraft::declare_raft_types!(
    /// A cluster's types, with this runtime.
    pub(crate) Types:
        D = String,
        R = String,
        NodeId = u64,
        Node = openraft::BasicNode,
        Entry = openraft::Entry<Types>,
        SnapshotData = Cursor<Vec<u8>>,
        AsyncRuntime = Hairspring,
);

type Runtime = <Types as openraft::RaftTypeConfig>::AsyncRuntime;

#[tokio::main]
async fn main() {
    let tick = Duration::from_millis(200);
    let start = tokio::time::Instant::now();
    Runtime::sleep(tick).await;
    Runtime::sleep_until(start + 2 * tick).await;
    assert!(Runtime::timeout(tick, pending::<()>()).await.is_err());
    assert!(Runtime::timeout_at(start + 4 * tick, pending::<()>()).await.is_err());
    assert!(start.elapsed() >= 4 * tick);
    assert_eq!(Timer::current().metrics().registered(), 4);
    println!("good: a node would wait with four timers");
}
