//! backoff: an operation that fails twice, and is repeated after pauses.

use std::cell::Cell;
use std::time::Duration;

use backoff::ExponentialBackoff;
use hairspring::{Instant, Timer};

struct Hairspring;

impl backoff::future::Sleeper for Hairspring {
    type Sleep = hairspring::Sleep;

    fn sleep(&self, duration: Duration) -> hairspring::Sleep {
        hairspring::sleep(duration)
    }
}

#[tokio::main]
async fn main() {
    let (tries, pauses) = (Cell::new(0), Cell::new(Duration::ZERO));
    let operation = async || {
        tries.set(tries.get() + 1);
        if tries.get() < 3 { Err(backoff::Error::transient("not yet")) } else { Ok(tries.get()) }
    };
    let notify = |_error, pause| pauses.set(pauses.get() + pause);
    let start = Instant::now();

    let answer = backoff::future::Retry::new(Hairspring, ExponentialBackoff::default(), notify, operation).await;

    assert_eq!(answer, Ok(3));
    assert!(start.elapsed() >= pauses.get());
    assert_eq!(Timer::current().metrics().registered(), 2);
    println!("good: the third try, after pauses of {:?} in all", pauses.get());
}
