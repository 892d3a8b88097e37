//! A remote peer, represented here by a supervised proxy actor.
//!
//! ```text
//! Supervisor ── restarts ──► Proxy actor ── owns ──► one connection ──► the peer
//!                              ▲      ▲
//!        health (grpc.health.v1.Health/Watch)   the connection's end
//! ```
//!
//! A proxy owns exactly one connection. When that ends, however it ends (closed, reset, or silent for
//! longer than HTTP/2's keepalive allows), the actor fails as a local worker would, its supervisor
//! connects anew after a jittered back-off, and whoever had work on the connection is told at once.
//! A peer that only says it is leaving is *draining*: it gets no new work and finishes what it has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind, Violations};
use clew_telemetry::Traced;
use clew_tls::Tls;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::admission::{Gate, Permit};
use crate::backoff::Backoff;
use crate::supervise::{Line, Supervised, start_child};
use crate::tree::TreeNode;

mod connection;

use connection::Connection;

/// Section `peers`: how other nodes are reached, and when one counts as lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerConfig {
    /// Milliseconds a connection may take to be made, 10 to 60,000.
    pub connect_timeout_ms: u64,
    /// Milliseconds between two keepalive pings, 10 to 600,000. A connection counts as lost when a
    /// ping is not answered in time: after this and `keepalive_timeout_ms` together at the latest.
    pub keepalive_interval_ms: u64,
    /// Milliseconds a keepalive ping may take to be answered, 10 to 600,000.
    pub keepalive_timeout_ms: u64,
    /// Longest pause in milliseconds before a lost peer is tried again, 10 to 600,000.
    pub reconnect_max_ms: u64,
    /// How many members a call is tried on, 1 to 100, if it may be repeated and time remains.
    pub attempts: u32,
    /// Milliseconds a call waits for a member while none is there, at most 600,000. It bridges the
    /// restart of the only one.
    pub wait_ms: u64,
}

impl Default for PeerConfig {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 2_000,
            keepalive_interval_ms: 1_000,
            keepalive_timeout_ms: 2_000,
            reconnect_max_ms: 2_000,
            attempts: 3,
            wait_ms: 3_000,
        }
    }
}

impl PeerConfig {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] naming every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut within = |key: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("peers.{key}"), problem);
            }
        };
        within("connect_timeout_ms", self.connect_timeout_ms, 10, 60_000);
        within("keepalive_interval_ms", self.keepalive_interval_ms, 10, 600_000);
        within("keepalive_timeout_ms", self.keepalive_timeout_ms, 10, 600_000);
        within("reconnect_max_ms", self.reconnect_max_ms, 10, 600_000);
        within("attempts", self.attempts.into(), 1, 100);
        within("wait_ms", self.wait_ms, 0, 600_000);
        violations.into_result()
    }

    /// How long a call waits for a member while none is there.
    pub fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }
}

/// What calls are made on; they carry the trace.
pub type Channel = Traced<tonic::transport::Channel>;

/// How a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerState {
    /// The connection is being made, or it is not known yet whether the peer serves.
    Connecting,
    /// It takes work.
    Serving,
    /// It takes no new work; what it has been given it finishes.
    Draining,
    /// The connection is lost, and what was under way on it with it.
    Dead,
}

impl PeerState {
    /// One word for the tree.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Dead => "dead",
        }
    }
}

/// One connection to a peer. Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct Link {
    channel: tonic::transport::Channel,
    generation: u64,
    /// Closed when the connection ends.
    open: watch::Receiver<()>,
}

impl Link {
    /// What calls are made on. It is good for this one connection and does not reconnect.
    pub fn channel(&self) -> Channel {
        Traced::following(self.channel.clone())
    }

    /// Which connection to the peer this is, from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the connection has ended.
    pub fn is_lost(&self) -> bool {
        self.open.has_changed().is_err()
    }

    /// Waits for the end of the connection.
    pub async fn lost(&self) {
        let mut open = self.open.clone();
        // Nothing is ever sent; the sender goes with the connection.
        while open.changed().await.is_ok() {}
    }

    /// The result of `work` on this connection, or an error as soon as the connection is lost.
    ///
    /// # Errors
    /// That of `work`; [`ErrorKind::Unavailable`] with the reason `PEER_LOST`.
    pub async fn run<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            done = work => done,
            () = self.lost() => Err(lost()),
        }
    }
}

/// What is known of a peer now.
#[derive(Clone, Debug)]
pub struct View {
    /// How it is.
    pub state: PeerState,
    /// The connection; there while serving or draining.
    pub link: Option<Link>,
}

/// A peer under supervision. Cheap to clone; the last clone that is dropped ends its actors.
#[derive(Clone)]
pub struct Peer {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    address: String,
    credits: Gate,
    view: watch::Receiver<View>,
    supervised: Supervised<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.supervised.begin_stop();
    }
}

/// What a peer is reached with.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Full name of the gRPC service whose health decides; empty for that of the whole server.
    pub service: String,
    /// Most units of work (requests, tokens) that may be under way on it.
    pub credits: u32,
    /// How it is reached.
    pub reach: Reach,
}

/// How peers are reached.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Section `peers`.
    pub config: PeerConfig,
    /// This node's certificate; without it connections are in plain text.
    pub tls: Option<Tls>,
    /// The role that the peers' certificates have to name; `None`: whichever.
    pub role: Option<&'static str>,
}

impl From<PeerConfig> for Reach {
    /// In plain text.
    fn from(config: PeerConfig) -> Self {
        Self { config, tls: None, role: None }
    }
}

impl Peer {
    /// Starts the proxy of the peer `name` at `address`, such as `http://10.0.0.7:7421`. It connects
    /// by and by, and again whenever the connection is lost.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an address that is none; [`ErrorKind::Internal`] if the actor
    /// system refuses.
    pub async fn start(name: &str, address: &str, options: &PeerOptions) -> Result<Self, Error> {
        let connection = Connection::try_new(address, &options.reach)?;
        let (published, view) = watch::channel(View { state: PeerState::Connecting, link: None });
        let line = ProxyLine {
            name: name.to_owned(),
            connection,
            service: options.service.clone(),
            longest_pause: Duration::from_millis(options.reach.config.reconnect_max_ms),
            published: Arc::new(published),
        };
        let supervised = Supervised::start(line).await?;
        let credits = Gate::new("the peer's queue", options.credits, Duration::from_millis(100));
        let (name, address) = (name.to_owned(), address.to_owned());
        Ok(Self { inner: Arc::new(Inner { name, address, credits, view, supervised }) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// Where it is seen how the peer is.
    pub fn view(&self) -> watch::Receiver<View> {
        self.inner.view.clone()
    }

    /// How it is.
    pub fn state(&self) -> PeerState {
        let view = self.inner.view.borrow();
        match &view.link {
            // Known before the actor hears of it.
            Some(link) if link.is_lost() => PeerState::Dead,
            _ => view.state,
        }
    }

    /// Units of work under way on it.
    pub fn in_flight(&self) -> usize {
        self.inner.credits.in_use()
    }

    /// Takes credits for `units` of work, given back when the permit is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] unless it is serving; [`ErrorKind::Exhausted`] when its credits
    /// are used up.
    pub fn try_enter(&self, units: usize) -> Result<(Link, Permit), Error> {
        let view = self.inner.view.borrow().clone();
        match (view.state, view.link) {
            (PeerState::Serving, Some(link)) if !link.is_lost() => {
                Ok((link, self.inner.credits.try_enter(units)?))
            }
            _ => Err(lost()),
        }
    }

    /// Waits until nothing is under way on it any more.
    ///
    /// # Errors
    /// [`ErrorKind::DeadlineExceeded`].
    pub async fn drained(&self, deadline: Instant) -> Result<(), Error> {
        self.inner.credits.drained(deadline).await
    }

    /// How it shows in the tree.
    pub fn node(&self) -> TreeNode {
        let mut node = TreeNode::new(self.name(), "peer", self.state().word())
            .with_queue(self.in_flight(), self.inner.credits.capacity());
        node.restarts = self.inner.supervised.restarts();
        node
    }
}

/// What the proxy of one peer is made from.
struct ProxyLine {
    name: String,
    connection: Connection,
    service: String,
    longest_pause: Duration,
    published: Arc<watch::Sender<View>>,
}

impl Line for ProxyLine {
    type Handle = ();

    fn name(&self) -> String {
        format!("peer {}", self.name)
    }

    async fn start(&self, supervisor: ActorCell, generation: u64) -> Result<(), Error> {
        let publish = |state| self.published.send_replace(View { state, link: None });
        publish(PeerState::Connecting);
        let (link, closing) = self
            .connection
            .open(generation)
            .await
            .inspect_err(|_| drop(publish(PeerState::Dead)))?;
        let service = self.service.clone();
        let published = Arc::clone(&self.published);
        let arguments = Arguments { link, closing, service, published };
        start_child(Proxy, arguments, supervisor).await?;
        Ok(())
    }

    fn pauses(&self) -> (Duration, Duration) {
        (Duration::from_millis(50).min(self.longest_pause), self.longest_pause)
    }

    /// That machines go away is expected; what matters is said where work has to wait for them. So
    /// the loss is told once, and the attempts that follow are not.
    fn log_failure(&self, generation: u64, error: &Error) {
        let (peer, problem) = (&self.name, error.chain());
        if error.reason() == connection::UNREACHABLE && generation > 1 {
            tracing::debug!(peer, generation, problem, "peer still not reachable");
        } else {
            tracing::warn!(peer, generation, problem, "peer not reachable; it is tried again");
        }
    }
}

/// The actor: owns one connection and publishes what is known of the peer behind it.
struct Proxy;

#[derive(Debug)]
enum Message {
    /// The peer says how it is.
    Says(PeerState),
    /// The connection takes no new requests.
    Closing,
    /// The connection ended.
    Lost,
}

struct Arguments {
    link: Link,
    closing: watch::Receiver<bool>,
    service: String,
    published: Arc<watch::Sender<View>>,
}

struct State {
    link: Link,
    is_closing: bool,
    published: Arc<watch::Sender<View>>,
    _watches: JoinSet<()>,
}

impl Drop for State {
    /// However the actor ends: what has the link finds out by itself, nobody gets it any more.
    fn drop(&mut self) {
        self.published.send_replace(View { state: PeerState::Dead, link: None });
    }
}

impl Actor for Proxy {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let Arguments { link, mut closing, service, published } = arguments;
        let mut watches = JoinSet::new();
        // Casts fail once the actor is gone, and the tasks with it.
        let (actor, watched) = (myself.clone(), link.clone());
        watches.spawn(async move {
            watched.lost().await;
            actor.cast(Message::Lost).ok();
        });
        let actor = myself.clone();
        watches.spawn(async move {
            if closing.wait_for(|closing| *closing).await.is_ok() {
                actor.cast(Message::Closing).ok();
            }
        });
        watches.spawn(watch_health(link.channel(), service, myself));
        Ok(State { link, is_closing: false, published, _watches: watches })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let says = match message {
            Message::Lost => return Err(lost().into()),
            Message::Closing => {
                state.is_closing = true;
                PeerState::Draining
            }
            // What the server says of itself is worth nothing on a connection that takes no work.
            Message::Says(_) if state.is_closing => PeerState::Draining,
            Message::Says(says) => says,
        };
        let link = Some(state.link.clone());
        state.published.send_replace(View { state: says, link });
        Ok(())
    }
}

/// Pauses between two subscriptions to a server's health.
const WATCH_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Reports what the server says of its health, for as long as the connection stands.
async fn watch_health(channel: Channel, service: String, proxy: ActorRef<Message>) {
    let mut client = HealthClient::new(channel);
    let mut backoff = Backoff::new(WATCH_PAUSES.0, WATCH_PAUSES.1);
    let say = |state| proxy.cast(Message::Says(state)).ok();
    loop {
        match client.watch(HealthCheckRequest { service: service.clone() }).await {
            Ok(statuses) => {
                let mut statuses = statuses.into_inner();
                while let Ok(Some(response)) = statuses.message().await {
                    backoff.reset();
                    say(match response.status() {
                        ServingStatus::Serving => PeerState::Serving,
                        ServingStatus::Unknown
                        | ServingStatus::NotServing
                        | ServingStatus::ServiceUnknown => PeerState::Draining,
                    });
                }
            }
            // A server without a health service takes work for as long as it is connected.
            Err(status) if status.code() == Code::Unimplemented => {
                say(PeerState::Serving);
                return;
            }
            // It has one, and does not know the service, or not any more.
            Err(status) if status.code() == Code::NotFound => {
                say(PeerState::Draining);
            }
            // Whether the connection is lost is seen elsewhere.
            Err(_) => {}
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// The error for those whose work was on a connection that ended.
fn lost() -> Error {
    let problem = "the connection to a peer was lost; retry";
    Error::new(ErrorKind::Unavailable, "PEER_LOST", problem)
}
