//! TCP connection that fails on demand.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Handling of bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They are passed on.
    Forward,
    /// They are held back as if a machine were stopped: connections stay open.
    Silent,
    /// Connections are closed, and new ones immediately.
    Cut,
}

/// A forwarder of TCP connections to a server that can fall silent or cut them. Dropping it closes
/// all connections.
#[derive(Debug)]
pub struct FaultyWire {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    open: watch::Receiver<usize>,
    accepting: JoinHandle<()>,
}

impl FaultyWire {
    /// Creates a wire to `server`, reached at its own [`address`](Self::address).
    ///
    /// # Errors
    /// Returns an error if the operating system does not provide a listener.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (mode, watched) = watch::channel(Mode::Forward);
        let (count, open) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let (count, mode) = (count.clone(), watched.clone());
                connections.spawn(async move {
                    count.send_modify(|open| *open += 1);
                    connect(client, server, mode).await;
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Ok(Self { address, mode, open, accepting })
    }

    /// Returns the address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until no connection is open.
    pub async fn all_closed(&self) {
        // The sender is dropped together with the accepting task and all its connections.
        self.open.clone().wait_for(|open| *open == 0).await.ok();
    }

    /// Passes bytes on again, including those that were held back.
    pub fn forward(&self) {
        self.mode.send_replace(Mode::Forward);
    }

    /// Holds all bytes back from now on.
    pub fn fall_silent(&self) {
        self.mode.send_replace(Mode::Silent);
    }

    /// Closes all connections, and new ones until another mode is set.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }
}

impl Drop for FaultyWire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn connect(client: TcpStream, server: SocketAddr, mode: watch::Receiver<Mode>) {
    if *mode.borrow() == Mode::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    // Without this, a small packet would wait for the next one, which is not one of the planned
    // faults.
    if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
        return;
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // When one direction ends, both sockets are closed.
    tokio::select! {
        () = pass(from_client, to_server, mode.clone()) => {}
        () = pass(from_server, to_client, mode) => {}
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let now = *mode.borrow_and_update();
        tokio::select! {
            changed = mode.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            read = from.read(&mut buffer), if now == Mode::Forward => match read {
                Ok(0) | Err(_) => return,
                Ok(length) => {
                    if to.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
            },
            () = std::future::ready(()), if now == Mode::Cut => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_passes_on_holds_back_and_cuts() {
        let echo = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = FaultyWire::to(echo.local_addr().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(wire.address()).await.unwrap();
        let (mut server, _) = echo.accept().await.unwrap();
        let mut byte = [0];
        client.write_all(b"a").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
        wire.fall_silent();
        client.write_all(b"b").await.unwrap();
        let held = tokio::time::timeout(Duration::from_millis(50), server.read_exact(&mut byte));
        assert!(held.await.is_err());
        wire.forward();
        server.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"b");
        wire.cut();
        assert_eq!(server.read(&mut byte).await.unwrap_or(0), 0, "closed");
        let mut late = TcpStream::connect(wire.address()).await.unwrap();
        assert_eq!(late.read(&mut byte).await.unwrap_or(0), 0, "closed at once");
        wire.all_closed().await;
    }
}
