//! quinn: a connection over loopback that times out.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hairspring::Instant;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, ConnectionError, Endpoint, EndpointConfig, ServerConfig, TransportConfig};

#[derive(Debug)]
struct Hairspring(quinn::TokioRuntime);

#[derive(Debug)]
struct Timer(hairspring::Sleep);

impl quinn::Runtime for Hairspring {
    fn new_timer(&self, at: std::time::Instant) -> Pin<Box<dyn quinn::AsyncTimer>> {
        Box::pin(Timer(hairspring::sleep_until(at.into())))
    }
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(future);
    }
    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        self.0.wrap_udp_socket(socket)
    }
    fn now(&self) -> std::time::Instant {
        hairspring::Instant::now().into_std()
    }
}

impl quinn::AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: std::time::Instant) {
        self.0.reset_at(at.into());
    }
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

fn endpoint(server_config: Option<ServerConfig>) -> io::Result<Endpoint> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let runtime = Arc::new(Hairspring(quinn::TokioRuntime));
    let endpoint = quinn::Endpoint::new(EndpointConfig::default(), server_config, socket, runtime)?;
    Ok(endpoint)
}

const IDLE: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der());
    let server_config = ServerConfig::with_single_cert(vec![pair.cert.der().clone()], key.into())?;
    let server = endpoint(Some(server_config))?;
    let address = server.local_addr()?;
    tokio::spawn(async move {
        let connection = server.accept().await.expect("a client").await?;
        Ok::<_, ConnectionError>(connection.closed().await)
    });

    let mut roots = RootCertStore::empty();
    roots.add(pair.cert.der().clone())?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IDLE.try_into()?));
    config.transport_config(Arc::new(transport));
    let client = endpoint(None)?;
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let start = Instant::now();
    assert_eq!(connection.closed().await, ConnectionError::TimedOut);
    assert!(hairspring::Timer::current().metrics().registered() >= 2);
    println!("good: the connection timed out after {:.1?}", start.elapsed());
    Ok(())
}
