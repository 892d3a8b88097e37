//! Pools of peers that do the same work. A call goes to the member with the least work under way,
//! and to another if that member fails.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::admission::Permit;
use crate::backoff::Backoff;
use crate::deadline::within;
use crate::peer::{Channel, Link, Peer, PeerOptions, PeerState};
use crate::tree::RunningPart;

/// Time that a removed member gets to finish its work.
const RETIRE_PATIENCE: Duration = Duration::from_secs(600);

/// Shortest and longest pause between two tries of a call.
const TRY_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Pool of peers. Cheap to clone; dropping the last clone ends the proxies of its members.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    name: &'static str,
    options: PeerOptions,
    members: RwLock<Arc<Vec<Peer>>>,
    /// Removed members that finish their work. Locked while the members change.
    retiring: Mutex<JoinSet<()>>,
}

/// Place for a piece of work on a member. It holds credits of the member until it is dropped.
pub struct PooledPeer {
    /// The member.
    pub peer: Peer,
    /// Connection to the member.
    pub link: Link,
    _permit: Permit,
}

impl Pool {
    /// Creates a pool without members. `name` is the word for its members in errors, such as
    /// `encoders`.
    pub fn new(name: &'static str, options: PeerOptions) -> Self {
        let (members, retiring) = (RwLock::default(), Mutex::default());
        Self { inner: Arc::new(Inner { name, options, members, retiring }) }
    }

    /// Sets the members, as names and addresses. Those that stay keep their connection. Those that
    /// are removed get no new work and finish what they have.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if an address is invalid or a name occurs twice. Nothing
    /// is changed then.
    pub async fn update(&self, members: Vec<(String, String)>) -> Result<(), Error> {
        let mut retiring = self.inner.retiring.lock().await;
        let before = self.members();
        let mut after: Vec<Peer> = Vec::with_capacity(members.len());
        for (name, address) in members {
            if after.iter().any(|peer| peer.name() == name) {
                let problem = format!("expected each name once, got `{name}` twice");
                return Err(Error::invalid("peer.name", problem));
            }
            let same = |peer: &&Peer| peer.name() == name && peer.address() == address;
            after.push(match before.iter().find(same) {
                Some(peer) => peer.clone(),
                None => Peer::start(&name, &address, &self.inner.options).await?,
            });
        }
        let stays = |peer: &Peer| {
            after.iter().any(|p| p.name() == peer.name() && p.address() == peer.address())
        };
        let leaving: Vec<Peer> = before.iter().filter(|peer| !stays(peer)).cloned().collect();
        *self.inner.members.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        while retiring.try_join_next().is_some() {}
        for peer in leaving {
            retiring.spawn(async move {
                if peer.drained(Instant::now() + RETIRE_PATIENCE).await.is_err() {
                    tracing::warn!(peer = peer.name(), "cut off with work under way");
                }
            });
        }
        Ok(())
    }

    /// Returns the current members.
    pub fn members(&self) -> Arc<Vec<Peer>> {
        Arc::clone(&self.inner.members.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the section `peers` and the other options by which members are reached.
    pub fn options(&self) -> &PeerOptions {
        &self.inner.options
    }

    /// Returns a place for `units` of work on the serving member with the fewest units under way.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Exhausted`] with a retry delay if all serving members are full, and
    /// [`ErrorKind::Unavailable`] with the reason `NO_PEER` if none is serving.
    pub fn pick(&self, units: usize) -> Result<PooledPeer, Error> {
        self.pick_among(units, |_| true)
    }

    /// Picks a place like [`Self::pick`], but only on members that `may` take it.
    fn pick_among(&self, units: usize, may: impl Fn(&Peer) -> bool) -> Result<PooledPeer, Error> {
        let members = self.members();
        let mut serving: Vec<&Peer> =
            members.iter().filter(|peer| peer.state() == PeerState::Serving && may(peer)).collect();
        // Equals come in random order, so that an idle pool warms all of its members.
        serving.sort_by_cached_key(|peer| (peer.in_flight(), fastrand::u32(..)));
        let mut refused = None;
        for peer in serving {
            match peer.try_enter(units) {
                Ok((link, permit)) => {
                    return Ok(PooledPeer { peer: peer.clone(), link, _permit: permit });
                }
                // The member's state may have changed since it was read.
                Err(error) if error.kind() != ErrorKind::Exhausted => {}
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| self.no_peer_error()))
    }

    /// Returns the members that are serving. If none is, waits for one as long as configured.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] with the reason `NO_PEER` if none is serving by then.
    pub async fn serving(&self, deadline: Instant) -> Result<Vec<Peer>, Error> {
        let patience = deadline.min(Instant::now() + self.inner.options.reach.config.wait());
        let mut backoff = Backoff::new(TRY_PAUSES.0, TRY_PAUSES.1);
        loop {
            let members = self.members();
            let serving = members.iter().filter(|peer| peer.state() == PeerState::Serving);
            let serving: Vec<Peer> = serving.cloned().collect();
            if !serving.is_empty() {
                return Ok(serving);
            }
            let pause = backoff.next_delay();
            if Instant::now() + pause >= patience {
                return Err(self.no_peer_error());
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Has a member do `units` of work that may be repeated. If it fails in a way that another
    /// member might not, another is tried, as long as `deadline` and the configured attempts allow.
    /// If no member is serving, the call waits for one as long as configured.
    ///
    /// `call` makes the request on the channel it is given and sets its timeout itself.
    ///
    /// # Errors
    /// Returns the error of the last try, [`ErrorKind::Exhausted`] at once if all serving members
    /// are full, [`ErrorKind::Unavailable`] if none is serving, and
    /// [`ErrorKind::DeadlineExceeded`].
    pub async fn call<T, F>(
        &self,
        units: usize,
        deadline: Instant,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.call_among(units, deadline, |_| true, call).await
    }

    /// Has a member do work like [`Self::call`], but only a member that `may` do it. No other
    /// member counts as serving.
    ///
    /// # Errors
    /// Returns the errors of [`Self::call`].
    pub async fn call_among<T, F>(
        &self,
        units: usize,
        deadline: Instant,
        may: impl Fn(&Peer) -> bool,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let config = &self.inner.options.reach.config;
        let doing = format!("calling one of the {}", self.inner.name);
        let patience = deadline.min(Instant::now() + config.wait());
        let mut backoff = Backoff::new(TRY_PAUSES.0, TRY_PAUSES.1);
        let mut tried: Vec<String> = Vec::new();
        let mut tries = 0;
        loop {
            let pause = backoff.next_delay();
            let is_untried = |peer: &Peer| !tried.iter().any(|name| name == peer.name());
            let failed = match self.pick_among(units, |peer| is_untried(peer) && may(peer)) {
                Ok(place) => {
                    tries += 1;
                    tried.push(place.peer.name().to_owned());
                    let work = place.link.run(call(place.link.channel()));
                    match within(deadline, &doing, work).await {
                        Err(error) if error.is_retryable() && tries < config.attempts => error,
                        done => return done,
                    }
                }
                // All serving members were tried. They may be tried again.
                Err(error) if !tried.is_empty() && error.reason() == "NO_PEER" => {
                    tried.clear();
                    error
                }
                Err(error) if error.reason() == "NO_PEER" && Instant::now() + pause < patience => {
                    error
                }
                Err(error) => return Err(error),
            };
            if Instant::now() + pause >= deadline {
                return Err(failed);
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn no_peer_error(&self) -> Error {
        let problem = format!("none of the {} is reachable; retry", self.inner.name);
        Error::new(ErrorKind::Unavailable, "NO_PEER", problem)
    }

    /// Returns the pool's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        let children: Vec<RunningPart> = self.members().iter().map(Peer::node).collect();
        let serving = children.iter().any(|peer| peer.state == PeerState::Serving.word());
        let state = if serving { "serving" } else { "nobody serves" };
        RunningPart::new(self.inner.name, "pool", state).with_children(children)
    }
}
