//! Incoming connections, returned after their handshake.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::Tls;
use crate::stream::{ConnectInfo, IncomingConnection, Proof, Stream};

/// Limits on incoming connections whose peer is not yet known.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of concurrent connections. More are closed at once.
    pub connections: usize,
    /// Maximum duration of the handshake, and of the wait for the client's first bytes after it.
    pub patience: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { connections: 8192, patience: Duration::from_secs(5) }
    }
}

/// Number of connections that may wait to be served after their handshake.
const READY: usize = 64;
/// Pause after an error of `accept`, for example while the process has too many files open.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the connections that arrive at `listener`, encrypted if `tls` is given. A slow handshake
/// delays only its own connection. The listener is closed when the stream is dropped.
///
/// Sets `TCP_NODELAY`: a response consists of several small frames, and Nagle's algorithm would
/// hold them back until an acknowledgement, which the other side delays by 40 ms.
pub fn incoming(
    listener: TcpListener,
    tls: Option<Tls>,
    limits: ConnectionLimits,
) -> ReceiverStream<io::Result<IncomingConnection>> {
    let (ready, receiver) = mpsc::channel(READY);
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(limits.connections));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = ready.closed() => return,
            };
            let socket = match accepted {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::debug!(%error, "a connection was not taken");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                tracing::warn!(
                    limit = limits.connections,
                    "a connection was refused: there are too many"
                );
                continue;
            };
            let (ready, tls) = (ready.clone(), tls.clone());
            tokio::spawn(async move {
                let opened = open(socket, tls, limits.patience, place);
                match tokio::time::timeout(limits.patience, opened).await {
                    // Sending fails only if the server has stopped.
                    Ok(Ok(connection)) => drop(ready.send(Ok(connection)).await),
                    Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
                    Err(_elapsed) => tracing::debug!("a handshake took too long"),
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

async fn open(
    socket: TcpStream,
    tls: Option<Tls>,
    patience: Duration,
    place: OwnedSemaphorePermit,
) -> io::Result<IncomingConnection> {
    socket.set_nodelay(true)?;
    let address = socket.peer_addr().ok();
    let (stream, proof) = match tls {
        Some(tls) => tls.accept(socket).await?,
        None => (Stream::Plain(socket), Proof::Plain),
    };
    let connection = IncomingConnection::new(stream, (ConnectInfo { address, proof }, place));
    Ok(connection.beginning_within(patience))
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_connection_sends_what_it_has_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = incoming(listener, None, ConnectionLimits::default());
        let _client = TcpStream::connect(address).await.unwrap();
        let connection = connections.next().await.unwrap().unwrap();
        let Stream::Plain(socket) = &connection.stream else { panic!("{connection:?}") };
        assert!(socket.nodelay().unwrap());
    }
}
