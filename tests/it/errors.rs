//! The errors: their conversions, and where they are found. The tests of what returns them test the rest.

use std::io;
use std::task::Poll;

use crate::common::{HOUR, poll, undriven};
use hairspring::error::{Elapsed, Error};
use hairspring::{Deadline, DeadlineExceeded, Timer};

#[test]
fn a_timers_error_converts_with_its_kind() {
    let (timer, _runtime) = undriven(Timer::builder().name("requests"));
    timer.shutdown();
    let Poll::Ready(Err(ended)) = poll(&mut timer.try_sleep(HOUR)) else { panic!("the timer has ended") };
    let nowhere = Timer::try_current().unwrap_err();
    assert!(nowhere.is_no_runtime() && !ended.is_no_runtime());
    assert!(!nowhere.is_shutdown() && !nowhere.is_at_capacity() && !nowhere.is_invalid());
    for (error, kind) in [
        (Error::at_capacity(), io::ErrorKind::QuotaExceeded),
        (Error::invalid(), io::ErrorKind::InvalidInput),
        (Error::shutdown(), io::ErrorKind::Other),
        (ended, io::ErrorKind::Other),
        (nowhere, io::ErrorKind::Other),
        (Elapsed::new().into(), io::ErrorKind::TimedOut),
    ] {
        let as_io = io::Error::from(error);
        assert_eq!((as_io.kind(), as_io.to_string()), (kind, error.to_string()));
        assert_eq!(as_io.get_ref().unwrap().downcast_ref(), Some(&error));
    }
    assert_eq!(io::Error::from(Elapsed::new()).kind(), io::ErrorKind::TimedOut);
}

#[test]
#[allow(unused_qualifications)] // The paths are what this tests.
fn modules_re_export_the_errors_that_they_return() {
    fn same<T>(_: fn(T), _: fn(T)) {}
    same::<DeadlineExceeded>(|_: hairspring::DeadlineExceeded| (), |_| ());
    let exceeded = DeadlineExceeded::new(Deadline::NEVER);
    assert_eq!(Elapsed::from(exceeded), Elapsed::new());
}
