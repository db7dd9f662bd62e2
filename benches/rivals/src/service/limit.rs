//! How a service limits its waiting: not at all, with hairspring, or with one of tokio's timers.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures::FutureExt;
use hyper::server::conn::http1;
use tokio::runtime::Builder;

/// Long enough never to pass.
const LIMIT: Duration = Duration::from_secs(30);

pub trait Limit: Send + Sync + 'static {
    const NAME: &str;

    /// Configures the runtime.
    fn configure(_runtime: &mut Builder) {}

    type Elapsed: fmt::Debug + Send;

    /// Calls `timeout` as a program would, without another move of the future.
    fn limit<F: Future + Send>(future: F) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send;

    /// A server with a limit on each request's header.
    fn server() -> http1::Builder;
}

pub struct Unlimited;

impl Limit for Unlimited {
    const NAME: &str = "no limits";

    type Elapsed = Infallible;

    fn limit<F: Future + Send>(future: F) -> impl Future<Output = Result<F::Output, Infallible>> + Send {
        future.map(Ok)
    }

    fn server() -> http1::Builder {
        let mut server = http1::Builder::new();
        server.header_read_timeout(None);
        server
    }
}

macro_rules! limits {
    ($name:ident, $shown:literal, $($timers:ident)::+, $timer:expr $(, $more:item)?) => {
        pub struct $name;

        impl Limit for $name {
            const NAME: &str = $shown;
            $($more)?

            type Elapsed = $($timers)::+::error::Elapsed;

            fn limit<F: Future + Send>(future: F) -> impl Future<Output = Result<F::Output, Self::Elapsed>> + Send {
                $($timers)::+::timeout(LIMIT, future)
            }

            fn server() -> http1::Builder {
                let mut server = http1::Builder::new();
                server.timer($timer).header_read_timeout(LIMIT);
                server
            }
        }
    };
}

limits!(Hairspring, "hairspring", hairspring, hairspring::hyper::HyperTimer::new());
limits!(Tokio, "tokio::time", tokio::time, hyper_util::rt::TokioTimer::new());
#[cfg(tokio_unstable)]
limits!(
    TokioAlt,
    "tokio, alternative",
    tokio::time,
    hyper_util::rt::TokioTimer::new(),
    fn configure(runtime: &mut Builder) {
        runtime.enable_alt_timer();
    }
);
