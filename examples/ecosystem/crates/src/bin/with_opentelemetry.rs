//! `opentelemetry_sdk`: a reader that exports metrics periodically.

use std::time::Duration;

use hairspring::{Timer, sleep};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::periodic_reader_with_async_runtime::PeriodicReader;
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hairspring;

// With the crate's feature `experimental_async_runtime`.
impl opentelemetry_sdk::runtime::Runtime for Hairspring {
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, future: F) {
        tokio::spawn(future);
    }
    fn delay(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        hairspring::sleep(duration)
    }
}

#[tokio::main]
async fn main() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone(), Hairspring).with_interval(Duration::from_millis(20)).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    provider.meter("requests").u64_counter("requests").build().add(1, &[]);
    while exporter.get_finished_metrics().unwrap().len() < 3 {
        sleep(Duration::from_millis(5)).await;
    }
    provider.shutdown().unwrap();
    let timers = Timer::current().metrics();
    assert!(timers.registered() > 0, "{timers:?}");
    println!("good: the metrics were exported three times");
}
