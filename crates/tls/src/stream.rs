//! A connection, encrypted or not, and what it proves about the other side.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_rustls::{client, server};
use tonic::transport::server::Connected;

use crate::roles::NodeRoles;

/// Identity that a connection proves for its other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing: the connection is in plain text.
    Plain,
    /// Nothing, but the connection is encrypted.
    Encrypted,
    /// The peer has a valid certificate that is not a node's.
    Client,
    /// The peer is a node of the cluster with these roles.
    Node(NodeRoles),
}

/// A connection, encrypted or not.
#[derive(Debug)]
pub enum Stream {
    /// In plain text.
    Plain(TcpStream),
    /// Encrypted, opened by the other side.
    Accepted(Box<server::TlsStream<TcpStream>>),
    /// Encrypted, opened by this side.
    Made(Box<client::TlsStream<TcpStream>>),
}

macro_rules! delegate {
    ($self:ident, $method:ident $(, $argument:expr)*) => {
        match $self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Accepted(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
            Stream::Made(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, poll_read, context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write, context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, poll_write_vectored, context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Accepted(stream) => stream.is_write_vectored(),
            Self::Made(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, poll_shutdown, context)
    }
}

/// Length, in bytes, of the preface that every HTTP/2 client sends first.
const PREFACE_BYTES: usize = 24;

/// A connection that owns a value for as long as it lives.
#[derive(Debug)]
pub struct Keeping<T> {
    pub(crate) stream: Stream,
    /// Timer, and number of bytes of the preface still to come. `None` once the preface has
    /// arrived, or if none is expected.
    begins: Option<(Pin<Box<Sleep>>, usize)>,
    kept: T,
}

impl<T> Keeping<T> {
    /// Creates a connection that owns `kept` and drops it when the connection is dropped.
    pub fn new(stream: Stream, kept: T) -> Self {
        Self { stream, begins: None, kept }
    }

    /// Makes reading fail unless the preface arrives within `patience`.
    pub(crate) fn beginning_within(self, patience: Duration) -> Self {
        let begins = Some((Box::pin(tokio::time::sleep(patience)), PREFACE_BYTES));
        Self { begins, ..self }
    }
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct ConnectInfo {
    /// Address of the peer.
    pub address: Option<SocketAddr>,
    /// Identity that the connection proves for the peer.
    pub proof: Proof,
}

/// An incoming connection, which occupies one of the limited places for open connections. It ends
/// unless the peer sends its preface in time.
pub type IncomingConnection = Keeping<(ConnectInfo, OwnedSemaphorePermit)>;

impl IncomingConnection {
    /// Returns the other end of the connection.
    pub fn info(&self) -> ConnectInfo {
        self.kept.0.clone()
    }
}

impl Connected for IncomingConnection {
    type ConnectInfo = ConnectInfo;

    fn connect_info(&self) -> ConnectInfo {
        self.info()
    }
}

impl<T: Unpin> AsyncRead for Keeping<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some((patience, missing)) = &mut self.begins {
            *missing = missing.saturating_sub(buffer.filled().len() - before);
            if *missing == 0 {
                self.begins = None;
            } else if patience.as_mut().poll(context).is_ready() {
                let silent = io::Error::new(io::ErrorKind::TimedOut, "the peer does not begin");
                return Poll::Ready(Err(silent));
            }
        }
        read
    }
}

impl<T: Unpin> AsyncWrite for Keeping<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
