//! [`Hold`]: keeps a clock still.

use std::fmt;
use std::panic::Location;

use crate::test_util::keeper::Still;
use crate::test_util::pause;

/// Keeps a clock from advancing by itself while it lives. Returned by [`hold`](crate::test_util::hold()).
///
/// # Examples
///
/// ```
/// # hairspring::test_util::bubble(|| async {
/// use hairspring::test_util::{Hold, hold};
/// let hold: Hold = hold();
/// drop(hold); // the clock may move again
/// # });
/// ```
#[must_use = "the clock is held only as long as this lives"]
pub struct Hold(#[allow(dead_code)] Still); // It holds as long as it exists.

/// Keeps the paused clock of the current runtime from advancing by itself while the returned [`Hold`] lives.
///
/// ```
/// use hairspring::{Duration, Instant, test_util, timeout};
///
/// test_util::bubble(|| async {
///     let start = Instant::now();
///     let (sender, answer) = tokio::sync::oneshot::channel();
///     let hold = test_util::hold();
///     std::thread::spawn(move || {
///         // ... work that takes time, and then
///         sender.send(5).unwrap();
///         drop(hold);
///     });
///     assert_eq!(timeout(Duration::from_secs(1), answer).await.unwrap(), Ok(5));
///     assert_eq!(start.elapsed(), Duration::ZERO);
/// });
/// ```
///
/// Use this for work that the clock [cannot see](crate::test_util#three-clocks): one of your threads, or another process.
/// [`advance`](crate::advance()) still moves the clock. On tokio's clock, a hold occupies a thread of tokio's blocking pool.
///
/// # Panics
///
/// Panics outside a bubble, unless the current runtime is a current-thread runtime whose clock is paused.
#[track_caller]
pub fn hold() -> Hold {
    let called = Location::caller();
    Hold(pause::keeper_for("hold", called).keep_still(Some(called)))
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").finish_non_exhaustive()
    }
}
