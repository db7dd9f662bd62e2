//! The timers, each in its own file.

mod async_io;
mod delay_queue;
mod floor;
mod futures_timer;
mod hairspring;
mod handle;
mod pingora;
mod tick;
mod tokio;
#[cfg(tokio_unstable)]
mod tokio_alt;
mod wheel;

pub use self::hairspring::Hairspring;
pub use self::handle::Handle;
pub use self::tokio::Tokio;
#[cfg(tokio_unstable)]
pub use self::tokio_alt::TokioAlt;
pub use self::wheel::BareWheel;
pub use self::{
    async_io::AsyncIo, delay_queue::Queue, floor::Floor, futures_timer::FuturesTimer, pingora::Pingora, tick::Tick,
};
