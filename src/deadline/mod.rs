//! [`Deadline`]: a budget of time as a value, which calls hand on to the calls that they make.
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

mod grpc;
mod limited;
mod value;

pub use grpc::GrpcTimeoutError;
pub use limited::{DeadlineExceeded, Limited};
pub use value::Deadline;
