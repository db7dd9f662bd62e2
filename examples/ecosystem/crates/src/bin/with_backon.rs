//! backon: an operation that fails twice, and is repeated after pauses.

use std::cell::Cell;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use hairspring::{Instant, Timer};

#[tokio::main]
async fn main() {
    let tries = Cell::new(0);
    let operation = async || {
        tries.set(tries.get() + 1);
        if tries.get() % 3 > 0 { Err("not yet") } else { Ok(tries.get()) }
    };
    let pause = Duration::from_millis(200);
    let pauses = ConstantBuilder::new().with_delay(pause);
    let start = Instant::now();
    assert_eq!(operation.retry(pauses).sleep(hairspring::sleep).await, Ok(3));
    assert!(start.elapsed() >= 2 * pause);
    assert_eq!(Timer::current().metrics().registered(), 2);

    let timer = Timer::builder().build().unwrap();
    let waits = timer.clone();
    assert_eq!(operation.retry(pauses).sleep(move |pause| waits.sleep(pause)).await, Ok(6));
    assert_eq!(timer.metrics().registered(), 2);
    println!("good: the third try each time, after {:?} in all", start.elapsed());
}
