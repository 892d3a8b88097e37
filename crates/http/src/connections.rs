//! Connections: how many there are, how long they may be idle, and how they end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use clew_core::{Error, ErrorKind};
use clew_tls::{ConnectInfo, ConnectionLimits, IncomingConnection, Proof, Tls, incoming};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_stream::StreamExt;
use tower::ServiceExt;

use crate::HttpConfig;
use crate::metrics::{self, OpenConnection};

/// Maximum size of a request's head in bytes.
const HEAD_BYTES: u32 = 16 << 10;
/// Number of requests that one connection may have under way by HTTP/2.
const REQUESTS: u32 = 128;
/// Number of connections beside the limit that may be in their handshakes.
const HANDSHAKES: usize = 256;
/// Maximum duration of a handshake, and of the wait for the first bytes after it.
const BEGIN_PATIENCE: Duration = Duration::from_secs(5);
/// Silence of an HTTP/2 connection after which its peer is pinged, and the time for the reply.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Time in which an idle connection says goodbye before it is cut.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves connections until `shutdown` resolves and the requests under way are answered.
///
/// # Errors
/// Returns [`ErrorKind::Unavailable`] if the listener fails.
pub(crate) async fn serve(
    router: Router,
    listener: TcpListener,
    tls: Option<Tls>,
    config: &HttpConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    metrics::begin();
    let limits =
        ConnectionLimits { connections: config.connections + HANDSHAKES, patience: BEGIN_PATIENCE };
    let mut incoming = incoming(listener, tls.map(Tls::speaking_http1), limits);
    let patience = config.patience();
    let server = Arc::new(Server { builder: builder(config), router, patience });
    let idle = Arc::new(IdleConnections::default());
    let (drain, draining) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let connection = tokio::select! {
            connection = incoming.next() => connection,
            Some(_ended) = connections.join_next() => continue,
            () = &mut shutdown => break,
        };
        let connection = match connection {
            Some(Ok(connection)) => connection,
            Some(Err(_)) => continue,
            None => {
                let problem = "the listener of HTTP failed";
                return Err(Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem));
            }
        };
        if connections.len() >= config.connections && !idle.close_longest() {
            metrics::connection_refused();
            tracing::warn!(limit = config.connections, "a connection of HTTP was refused");
            continue;
        }
        let activity = Activity::new(&idle);
        connections.spawn(Arc::clone(&server).serve(connection, activity, draining.clone()));
    }
    drop(incoming);
    drain.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

fn builder(config: &HttpConfig) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Also bounds the time between two requests.
        .header_read_timeout(config.patience())
        .max_buf_size(HEAD_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES)
        .max_concurrent_streams(REQUESTS)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    builder
}

/// What all connections share.
struct Server {
    builder: Builder<TokioExecutor>,
    router: Router,
    patience: Duration,
}

impl Server {
    /// Serves a connection until it ends, has been idle for too long, or is told to close.
    async fn serve(
        self: Arc<Self>,
        connection: IncomingConnection,
        activity: Arc<Activity>,
        mut draining: watch::Receiver<bool>,
    ) {
        let _open = OpenConnection::new();
        let from = known(connection.info());
        let (router, counted) = (self.router.clone(), Arc::clone(&activity));
        let service = tower::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(from.clone());
            let under_way = UnderWay::begin(&counted);
            let answering = router.clone().oneshot(request.map(Body::new));
            async move {
                let response = answering.await?;
                Ok::<_, Infallible>(response.map(|inner| Watched { inner, _under_way: under_way }))
            }
        });
        let service = TowerToHyperService::new(service);
        let io = TokioIo::new(Patient::new(connection, self.patience));
        let mut serving = pin!(self.builder.serve_connection(io, service));
        tokio::select! {
            _ended = serving.as_mut() => return,
            () = activity.closes(self.patience) => {
                serving.as_mut().graceful_shutdown();
                // A request that came meanwhile is answered. A silent peer is not waited for.
                let silent = async {
                    tokio::time::sleep(GOODBYE).await;
                    activity.closes(Duration::ZERO).await;
                };
                tokio::select! {
                    _ended = serving.as_mut() => {}
                    () = silent => {}
                }
                return;
            }
            // The sender goes away only when serving is cut.
            () = async { drop(draining.wait_for(|draining| *draining).await) } => {}
        }
        serving.as_mut().graceful_shutdown();
        drop(serving.await);
    }
}

/// Returns what handlers are told of the other end of a connection. Nobody is a node here: this
/// listener offers no method for nodes.
fn known(info: ConnectInfo) -> ConnectInfo {
    let proof = match info.proof {
        Proof::Plain => Proof::Plain,
        Proof::Encrypted | Proof::Client | Proof::Node(_) => Proof::Encrypted,
    };
    ConnectInfo { proof, ..info }
}

/// The connections without a request under way, the longest idle first.
#[derive(Debug, Default)]
struct IdleConnections(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

impl IdleConnections {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection at the end, and returns its place.
    fn add(&self, close: &Arc<Notify>) -> u64 {
        let mut queue = self.queue();
        let place = queue.next;
        queue.next += 1;
        queue.waiting.insert(place, Arc::clone(close));
        place
    }

    fn remove(&self, place: u64) {
        self.queue().waiting.remove(&place);
    }

    /// Tells the connection that has been idle for longest to close. Returns whether there is one.
    fn close_longest(&self) -> bool {
        let first = self.queue().waiting.pop_first();
        first.is_some_and(|(_, close)| {
            close.notify_one();
            true
        })
    }
}

/// Whether a connection is idle, and since when.
#[derive(Debug)]
struct Activity {
    idle: Arc<IdleConnections>,
    close: Arc<Notify>,
    rests: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Idle { place: u64, since: Instant },
    Busy { requests: usize },
}

impl Activity {
    /// Creates the activity of a new connection, which is idle.
    fn new(idle: &Arc<IdleConnections>) -> Arc<Self> {
        let close = Arc::new(Notify::new());
        let state = State::Idle { place: idle.add(&close), since: Instant::now() };
        let (idle, rests, state) = (Arc::clone(idle), Notify::new(), Mutex::new(state));
        Arc::new(Self { idle, close, rests, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the connection is told to close, or has been idle for `patience`.
    async fn closes(&self, patience: Duration) {
        let idle = async {
            loop {
                let since = match *self.state() {
                    State::Idle { since, .. } => Some(since),
                    State::Busy { .. } => None,
                };
                match since {
                    Some(since) if since.elapsed() >= patience => return,
                    Some(since) => tokio::time::sleep_until(since + patience).await,
                    None => self.rests.notified().await,
                }
            }
        };
        tokio::select! {
            () = idle => {}
            () = self.close.notified() => {}
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if let State::Idle { place, .. } = *self.state() {
            self.idle.remove(place);
        }
    }
}

/// A request from its head to the last byte of its response.
#[derive(Debug)]
struct UnderWay(Arc<Activity>);

impl UnderWay {
    fn begin(activity: &Arc<Activity>) -> Self {
        let mut state = activity.state();
        *state = match *state {
            State::Idle { place, .. } => {
                activity.idle.remove(place);
                State::Busy { requests: 1 }
            }
            State::Busy { requests } => State::Busy { requests: requests + 1 },
        };
        drop(state);
        Self(Arc::clone(activity))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state();
        *state = match *state {
            State::Busy { requests } if requests > 1 => State::Busy { requests: requests - 1 },
            State::Busy { .. } | State::Idle { .. } => {
                self.0.rests.notify_one();
                State::Idle { place: self.0.idle.add(&self.0.close), since: Instant::now() }
            }
        };
    }
}

/// The body of a response whose request is under way until it ends.
struct Watched {
    inner: Body,
    _under_way: UnderWay,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A connection that fails if its peer reads nothing for too long.
struct Patient {
    inner: IncomingConnection,
    patience: Duration,
    /// Time at which writing fails. `None` while the peer reads.
    fails: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(inner: IncomingConnection, patience: Duration) -> Self {
        Self { inner, patience, fails: None }
    }

    /// Returns what writing came to, or an error if it has been pending for too long.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.fails = None;
            return written;
        }
        let patience = self.patience;
        let begin = || Box::pin(tokio::time::sleep(patience));
        let fails = self.fails.get_or_insert_with(begin);
        fails
            .as_mut()
            .poll(context)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, buffers);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.inner).poll_shutdown(context);
        self.bounded(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_closes_first_and_none_that_is_busy() {
        let idle = Arc::new(IdleConnections::default());
        let [first, second, third] = [(); 3].map(|()| Activity::new(&idle));
        let request = UnderWay::begin(&first);
        assert!(idle.close_longest());
        let closes = second.closes(Duration::from_secs(60));
        tokio::time::timeout(Duration::from_millis(1), closes).await.unwrap();
        let busy = first.closes(Duration::from_millis(10));
        tokio::time::timeout(Duration::from_secs(1), busy).await.unwrap_err();
        drop(third);
        assert!(!idle.close_longest(), "the only other one is busy");
        drop(request);
        assert!(idle.close_longest());
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_closes_by_itself() {
        let activity = Activity::new(&Arc::new(IdleConnections::default()));
        let began = Instant::now();
        activity.closes(Duration::from_secs(60)).await;
        assert_eq!(began.elapsed().as_secs(), 60);
    }
}
