//! reqwest: a timeout for connecting, and an error that `is_timeout` recognizes.

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use hairspring::timeout;
use tokio::net::{TcpSocket, TcpStream};
use tower::BoxError;

const CONNECT: Duration = Duration::from_millis(200);

fn client() -> reqwest::Result<reqwest::Client> {
    let as_io = |error: BoxError| -> BoxError {
        match error.downcast::<hairspring::error::Elapsed>() {
            Ok(elapsed) => std::io::Error::from(*elapsed).into(),
            Err(other) => other,
        }
    };
    let limit = hairspring::tower::TimeoutLayer::new(CONNECT);
    let client = reqwest::Client::builder()
        .connector_layer(tower::ServiceBuilder::new().map_err(as_io).layer(limit).into_inner())
        .build()?;
    Ok(client)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A server that accepts no connection. Once its queue is full, Linux no longer answers.
    let server = TcpSocket::new_v4()?;
    server.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let server = server.listen(1)?;
    let address = server.local_addr()?;
    let mut queue = Vec::new();
    while let Ok(connection) = timeout(CONNECT, TcpStream::connect(address)).await {
        queue.push(connection?);
    }

    let error = client()?.get(format!("http://{address}")).send().await.unwrap_err();
    assert!(error.is_timeout() && error.is_connect(), "{error:?}");
    println!("good: {error}");
    Ok(())
}
