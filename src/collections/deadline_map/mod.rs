//! [`DeadlineMap`]: a map whose entries expire unless they are touched.
//!
//! Sessions that end after a minute without a request:
//!
//! ```
//! use hairspring::{DeadlineMap, Duration};
//!
//! const IDLE: Duration = Duration::from_secs(60);
//!
//! struct Session {
//!     user: &'static str,
//!     requests: u32,
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let (sessions, mut expirations) = DeadlineMap::builder().name("sessions").max_entries(10_000).build().unwrap();
//! // Returns an error instead of panicking if the map is full.
//! assert!(sessions.try_insert(17, Session { user: "ann", requests: 0 }, IDLE).is_ok());
//!
//! // A request counts, and keeps the session alive.
//! let user = sessions.renew_with(&17, |session| {
//!     session.requests += 1;
//!     session.user
//! });
//! assert_eq!(user, Some("ann"));
//!
//! // Nobody sees the session after its deadline, except the reader of the stream.
//! let (_, ended) = expirations.recv().await.unwrap();
//! assert_eq!((ended.user, ended.requests), ("ann", 1));
//! assert!(!sessions.contains_key(&17));
//! # }
//! ```
//!
//! Use it for state that many tasks keep alive by key: sessions, leases, connections, cache entries with a TTL.
//!
//! # Which one?
//!
//! | | a [`timeout`](crate::timeout()) in each task | [`DelayQueue`](crate::DelayQueue) | [`DeadlineMap`] |
//! |---|---|---|---|
//! | who can postpone a deadline | the waiting task | the task that owns the queue | anyone who knows the key |
//! | an entry is identified by | the future | the [`Key`](crate::delay_queue::Key) that `insert` returned | your key |
//! | expired entries go to | the task | the task that owns the queue | the reader of the stream |

pub(crate) mod builder;
mod by_key;
mod consumer;
pub(crate) mod expirations;
pub(crate) mod map;
#[cfg(test)]
mod models;
mod operations;
mod reentry;
mod shard;
mod shared;
mod state;

pub use super::Metrics;
pub use builder::Builder;

// `DeadlineMap` and `Expirations` are at the root only.
pub(crate) use expirations::Expirations;
pub(crate) use map::DeadlineMap;
