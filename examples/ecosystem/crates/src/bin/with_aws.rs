//! aws-smithy-async, whose sleep the AWS SDK waits with.

use std::future::pending;
use std::time::Duration;

use aws_smithy_async::future::timeout::Timeout;
use aws_smithy_async::rt::sleep::{AsyncSleep, SharedAsyncSleep, Sleep};
use hairspring::{Instant, Timer};

#[derive(Debug)]
struct HairspringSleep;

impl AsyncSleep for HairspringSleep {
    fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(hairspring::sleep(duration))
    }
}

#[tokio::main]
async fn main() {
    let sleep = SharedAsyncSleep::new(HairspringSleep);

    let limit = Duration::from_millis(200);
    let start = Instant::now();
    assert!(Timeout::new(pending::<()>(), sleep.sleep(limit)).await.is_err());
    assert!(start.elapsed() >= limit);
    assert_eq!(Timer::current().metrics().registered(), 1);
    println!("good: a call of the SDK is given up after {:?}", start.elapsed());
}
