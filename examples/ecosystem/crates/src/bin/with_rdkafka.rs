//! rdkafka: a producer whose queue is full waits before it tries again. The broker is librdkafka's mock.

use std::error::Error;
use std::time::Duration;

use hairspring::Timer;
use rdkafka::ClientConfig;
use rdkafka::client::DefaultClientContext;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{FutureProducer, FutureRecord};

struct Hairspring;

impl rdkafka::util::AsyncRuntime for Hairspring {
    type Delay = hairspring::Sleep;

    fn spawn<T: Future<Output = ()> + Send + 'static>(task: T) {
        tokio::spawn(task);
    }
    fn delay_for(duration: Duration) -> hairspring::Sleep {
        hairspring::sleep(duration)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = MockCluster::new(1)?;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", cluster.bootstrap_servers());
    // Room for one message, which waits for company.
    config.set("queue.buffering.max.messages", "1").set("linger.ms", "50");

    let producer: FutureProducer<DefaultClientContext, Hairspring> = config.create()?;

    let send = |key| producer.send(FutureRecord::to("events").key(key).payload("payload"), Duration::from_mins(1));
    let (first, second) = tokio::join!(send("first"), send("second"));
    first.map_err(|(error, _)| error)?;
    second.map_err(|(error, _)| error)?;
    let waits = Timer::current().metrics().registered();
    assert!(waits > 0);
    println!("good: both messages are with the broker, after {waits} waits for room");
    Ok(())
}
