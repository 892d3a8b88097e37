//! Remote peers, each represented by a supervised proxy actor.
//!
//! ```text
//! Supervisor ── restarts ──► Proxy actor ── owns ──► one connection ──► the peer
//!                              ▲      ▲
//!        health (grpc.health.v1.Health/Watch)   the connection's end
//! ```
//!
//! A proxy owns exactly one connection. The connection ends when it is closed, reset, or silent for
//! longer than HTTP/2's keepalive allows. The actor then fails as a local worker would, and its
//! supervisor connects again after a jittered back-off. Work on the lost connection fails at once.
//! A peer that only says it is leaving is *draining*: it gets no new work and finishes what it has.

pub use self::config::PeerConfig;
use self::link::lost;
pub use self::link::{Channel, Link};
pub use self::reach::Reach;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::Error;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::admission::{Gate, Permit};
use crate::backoff::Backoff;
use crate::supervise::{Line, Supervised, start_child};
use crate::tree::RunningPart;

mod config;
mod connection;
mod link;
mod reach;

use connection::Connection;

/// State of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerState {
    /// The connection is being made, or it is not known yet whether the peer serves.
    Connecting,
    /// The peer takes work.
    Serving,
    /// The peer takes no new work and finishes what it has.
    Draining,
    /// The connection is lost, and with it the work under way on it.
    Dead,
}

impl PeerState {
    /// Returns one word for the tree of running parts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Dead => "dead",
        }
    }
}

/// Current knowledge of a peer.
#[derive(Clone, Debug)]
pub struct PeerView {
    /// State of the peer.
    pub state: PeerState,
    /// Connection to the peer; present while it is serving or draining.
    pub link: Option<Link>,
}

/// Peer under supervision. Cheap to clone; dropping the last clone ends its actors.
#[derive(Clone)]
pub struct Peer {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    address: String,
    credits: Gate,
    view: watch::Receiver<PeerView>,
    supervised: Supervised<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.supervised.begin_stop();
    }
}

/// Options for the use of a peer.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Full name of the gRPC service whose health decides; empty for that of the whole server.
    pub service: String,
    /// Maximum number of units of work (requests, tokens) that may be under way on the peer.
    pub credits: u32,
    /// Options for connections to the peer.
    pub reach: Reach,
}

impl Peer {
    /// Starts the proxy of the peer `name` at `address`, such as `http://10.0.0.7:7421`. It
    /// connects in the background, and again whenever the connection is lost.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the address is invalid, and [`ErrorKind::Internal`]
    /// if the actor system refuses to start an actor.
    pub async fn start(name: &str, address: &str, options: &PeerOptions) -> Result<Self, Error> {
        let connection = Connection::try_new(address, &options.reach)?;
        let (published, view) =
            watch::channel(PeerView { state: PeerState::Connecting, link: None });
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

    /// Returns the name of the peer.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the address of the peer.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// Returns a receiver of what is known of the peer.
    pub fn view(&self) -> watch::Receiver<PeerView> {
        self.inner.view.clone()
    }

    /// Returns the state of the peer.
    pub fn state(&self) -> PeerState {
        let view = self.inner.view.borrow();
        match &view.link {
            // The loss shows here before the actor hears of it.
            Some(link) if link.is_lost() => PeerState::Dead,
            _ => view.state,
        }
    }

    /// Returns the units of work under way on the peer.
    pub fn in_flight(&self) -> usize {
        self.inner.credits.in_use()
    }

    /// Takes credits for `units` of work. Dropping the permit gives them back.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if the peer is not serving, and [`ErrorKind::Exhausted`]
    /// if its credits are used up.
    pub fn try_enter(&self, units: usize) -> Result<(Link, Permit), Error> {
        let view = self.inner.view.borrow().clone();
        match (view.state, view.link) {
            (PeerState::Serving, Some(link)) if !link.is_lost() => {
                Ok((link, self.inner.credits.try_enter(units)?))
            }
            _ => Err(lost()),
        }
    }

    /// Waits until no work is under way on the peer.
    ///
    /// # Errors
    /// Returns [`ErrorKind::DeadlineExceeded`] if there still is some at the deadline.
    pub async fn drained(&self, deadline: Instant) -> Result<(), Error> {
        self.inner.credits.drained(deadline).await
    }

    /// Returns the peer's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        let mut node = RunningPart::new(self.name(), "peer", self.state().word())
            .with_queue(self.in_flight(), self.inner.credits.capacity());
        node.restarts = self.inner.supervised.restarts();
        node
    }
}

/// Line of the proxy of one peer.
struct ProxyLine {
    name: String,
    connection: Connection,
    service: String,
    longest_pause: Duration,
    published: Arc<watch::Sender<PeerView>>,
}

impl Line for ProxyLine {
    type Handle = ();

    fn name(&self) -> String {
        format!("peer {}", self.name)
    }

    async fn start(&self, supervisor: ActorCell, generation: u64) -> Result<(), Error> {
        let publish = |state| self.published.send_replace(PeerView { state, link: None });
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

    /// Logs the loss once as a warning, and the failed attempts that follow only for debugging.
    /// Machines are expected to go away; an error is logged where work has to wait for them.
    fn log_failure(&self, generation: u64, error: &Error) {
        let (peer, problem) = (&self.name, error.chain());
        if error.reason() == connection::UNREACHABLE && generation > 1 {
            tracing::debug!(peer, generation, problem, "peer still not reachable");
        } else {
            tracing::warn!(peer, generation, problem, "peer not reachable; it is tried again");
        }
    }
}

/// Actor that owns one connection and publishes what is known of the peer behind it.
struct Proxy;

#[derive(Debug)]
enum Message {
    /// The peer reported its state.
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
    published: Arc<watch::Sender<PeerView>>,
}

struct State {
    link: Link,
    is_closing: bool,
    published: Arc<watch::Sender<PeerView>>,
    _watches: JoinSet<()>,
}

impl Drop for State {
    /// Withdraws the connection, however the actor ends. Work that has the link notices the loss by
    /// itself.
    fn drop(&mut self) {
        self.published.send_replace(PeerView { state: PeerState::Dead, link: None });
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
        // Casts fail once the actor is gone, and the tasks end with it.
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
            // On a connection that takes no new requests, the server's report about itself does not
            // count.
            Message::Says(_) if state.is_closing => PeerState::Draining,
            Message::Says(says) => says,
        };
        let link = Some(state.link.clone());
        state.published.send_replace(PeerView { state: says, link });
        Ok(())
    }
}

/// Shortest and longest pause between two subscriptions to a server's health.
const WATCH_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Reports the health that the server states, for as long as the connection stands.
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
            // A server without a health service counts as serving while it is connected.
            Err(status) if status.code() == Code::Unimplemented => {
                say(PeerState::Serving);
                return;
            }
            // The server has a health service, which does not know the service, or no longer knows
            // it.
            Err(status) if status.code() == Code::NotFound => {
                say(PeerState::Draining);
            }
            // The loss of the connection is noticed elsewhere.
            Err(_) => {}
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}
