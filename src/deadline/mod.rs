//! What comes with [`Deadline`](crate::Deadline), a time budget to pass from call to call.
//!
//! # Examples
//!
//! ```
//! use hairspring::{Deadline, DeadlineExceeded, Duration};
//!
//! async fn look_up(deadline: Deadline) -> Result<u8, DeadlineExceeded> {
//!     deadline.min(Deadline::after(Duration::from_secs(1)).named("cache")).limit(async { 7 }).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let request = Deadline::after(Duration::from_secs(5)).named("request");
//! assert_eq!(look_up(request).await, Ok(7));
//! # }
//! ```

// `Deadline` and `DeadlineExceeded` are at the root only.
pub(crate) mod budget;

pub use budget::{GrpcTimeoutError, Limited};
