//! Crates that accept a timer, each with hairspring's.

use std::cell::Cell;
use std::error::Error;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use aws_smithy_async::future::timeout::Timeout;
use aws_smithy_async::rt::sleep::{AsyncSleep, SharedAsyncSleep, Sleep};
use backoff::ExponentialBackoff;
use backon::{ConstantBuilder, Retryable};
use hairspring::Timer;
use openraft::{AsyncRuntime, OptionalSend, TokioRuntime};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::periodic_reader_with_async_runtime::PeriodicReader;
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use rdkafka::ClientConfig;
use rdkafka::client::DefaultClientContext;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{FutureProducer, FutureRecord};

const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct HairspringSleep;

impl AsyncSleep for HairspringSleep {
    fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(hairspring::sleep(duration))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hairspring;

impl backoff::future::Sleeper for Hairspring {
    type Sleep = hairspring::Sleep;

    fn sleep(&self, duration: Duration) -> hairspring::Sleep {
        hairspring::sleep(duration)
    }
}

impl rdkafka::util::AsyncRuntime for Hairspring {
    type Delay = hairspring::Sleep;

    fn spawn<T: Future<Output = ()> + Send + 'static>(task: T) {
        tokio::spawn(task);
    }
    fn delay_for(duration: Duration) -> hairspring::Sleep {
        hairspring::sleep(duration)
    }
}

// With the crate's feature `experimental_async_runtime`.
impl opentelemetry_sdk::runtime::Runtime for Hairspring {
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, future: F) {
        tokio::spawn(future);
    }
    fn delay(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        hairspring::sleep(duration)
    }
}

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sleep = SharedAsyncSleep::new(HairspringSleep);
    assert!(Timeout::new(pending::<()>(), sleep.sleep(PAUSE)).await.is_err());
    waited("aws-smithy-async: a call timed out");

    let tries = Cell::new(0);
    let operation = async || {
        tries.set(tries.get() + 1);
        if tries.get() % 3 > 0 { Err("not yet") } else { Ok(tries.get()) }
    };
    let timer = Timer::builder().build()?;
    let pauses = ConstantBuilder::new().with_delay(PAUSE);
    assert_eq!(operation.retry(pauses).sleep(hairspring::sleep).await, Ok(3));
    let waits = timer.clone();
    assert_eq!(operation.retry(pauses).sleep(move |pause| waits.sleep(pause)).await, Ok(6));
    assert_eq!(timer.metrics().registered(), 2);
    waited("backon: the third attempt succeeded, twice");

    let operation = async || operation().await.map_err(backoff::Error::transient);
    let notify = |_error, _pause| {};
    let answer = backoff::future::Retry::new(Hairspring, ExponentialBackoff::default(), notify, operation).await;
    assert_eq!(answer, Ok(9));
    waited("backoff: the third attempt succeeded");

    kafka().await?;
    waited("rdkafka: a producer waited for room in its queue");
    export().await;
    waited("opentelemetry_sdk: metrics were exported three times");
    let deadline = tokio::time::Instant::now() + 3 * PAUSE;
    <Hairspring as AsyncRuntime>::sleep(PAUSE).await;
    <Hairspring as AsyncRuntime>::sleep_until(deadline).await;
    assert!(<Hairspring as AsyncRuntime>::timeout(PAUSE, pending::<()>()).await.is_err());
    assert!(<Hairspring as AsyncRuntime>::timeout_at(deadline + 3 * PAUSE, pending::<()>()).await.is_err());
    waited("openraft: the runtime waits; no cluster was run");
    Ok(())
}

/// Prints a step. Panics if the step registered no timer.
fn waited(what: &str) {
    static BEFORE: AtomicU64 = AtomicU64::new(0);
    let registered = Timer::current().metrics().registered();
    let timers = registered - BEFORE.swap(registered, Relaxed);
    assert!(timers > 0, "{what}, but not with hairspring");
    println!("good: {what}, with {timers} timers");
}

/// Sends two messages to librdkafka's mock of a broker, through a queue with room for one.
async fn kafka() -> Result<(), Box<dyn Error>> {
    let cluster = MockCluster::new(1)?;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers());
    config.set("queue.buffering.max.messages", "1").set("linger.ms", "50");
    let producer: FutureProducer<DefaultClientContext, Hairspring> = config.create()?;

    let send = |key| producer.send(FutureRecord::to("events").key(key).payload("payload"), Duration::from_mins(1));
    let (first, second) = tokio::join!(send("first"), send("second"));
    first.and(second).map_err(|(error, _)| error)?;
    Ok(())
}

/// Exports metrics periodically, three times.
async fn export() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone(), Hairspring).with_interval(PAUSE).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    provider.meter("requests").u64_counter("requests").build().add(1, &[]);
    while exporter.get_finished_metrics().expect("nothing panics").len() < 3 {
        tokio::time::sleep(PAUSE).await;
    }
    provider.shutdown().expect("the reader is there");
}
