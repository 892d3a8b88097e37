//! A pool of peers that do the same work: gives a call to the member with the least under way, and
//! tries another when one fails.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::admission::Permit;
use crate::backoff::Backoff;
use crate::deadline::within;
use crate::peer::{Channel, Link, Peer, PeerOptions, PeerState};
use crate::tree::TreeNode;

/// How long a member that was taken out may take to finish what it was given.
const RETIRE_PATIENCE: Duration = Duration::from_secs(600);

/// Pauses between two tries of a call.
const TRY_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// A pool of peers. Cheap to clone; the last clone that is dropped ends the proxies of its members.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    name: &'static str,
    options: PeerOptions,
    members: RwLock<Arc<Vec<Peer>>>,
    /// Members that were taken out and finish. Held while the members change.
    retiring: Mutex<JoinSet<()>>,
}

/// A place for a piece of work on a member: credits are taken until it is dropped.
pub struct Place {
    /// The member.
    pub peer: Peer,
    /// The connection to it.
    pub link: Link,
    _permit: Permit,
}

impl Pool {
    /// A pool without members. `name` is what its members are called in errors: `encoders`.
    pub fn new(name: &'static str, options: PeerOptions) -> Self {
        let (members, retiring) = (RwLock::default(), Mutex::default());
        Self { inner: Arc::new(Inner { name, options, members, retiring }) }
    }

    /// Makes `members`, as names and addresses, the members. Those that stay keep their connection;
    /// those that are missing get no new work and finish what they have.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an address that is none; then nothing is changed.
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

    /// The members now.
    pub fn members(&self) -> Arc<Vec<Peer>> {
        Arc::clone(&self.inner.members.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Section `peers`, and what else its members are reached with.
    pub fn options(&self) -> &PeerOptions {
        &self.inner.options
    }

    /// A place for `units` of work on the serving member with the fewest units under way.
    ///
    /// # Errors
    /// [`ErrorKind::Exhausted`] with a retry delay when all serving members are full;
    /// [`ErrorKind::Unavailable`] with the reason `NO_PEER` when none is serving.
    pub fn pick(&self, units: usize) -> Result<Place, Error> {
        self.pick_but(units, &[])
    }

    /// As [`Self::pick`], with the peers of those names left out.
    fn pick_but(&self, units: usize, without: &[String]) -> Result<Place, Error> {
        let members = self.members();
        let mut serving: Vec<&Peer> = members
            .iter()
            .filter(|peer| peer.state() == PeerState::Serving)
            .filter(|peer| !without.iter().any(|name| name == peer.name()))
            .collect();
        // Among equals none is preferred, so that an idle pool warms all of its members.
        serving.sort_by_cached_key(|peer| (peer.in_flight(), fastrand::u32(..)));
        let mut refused = None;
        for peer in serving {
            match peer.try_enter(units) {
                Ok((link, permit)) => {
                    return Ok(Place { peer: peer.clone(), link, _permit: permit });
                }
                // The state may have changed since it was looked at.
                Err(error) if error.kind() != ErrorKind::Exhausted => {}
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| self.nobody()))
    }

    /// Has a member do `units` of work that may be repeated. When it fails in a way that another
    /// might not, another is asked, as long as `deadline` and the configured attempts allow. While no
    /// member is serving, one is waited for as long as configured.
    ///
    /// `call` makes the request on the channel it is given and sets its timeout itself.
    ///
    /// # Errors
    /// That of the last try; [`ErrorKind::Exhausted`] at once when all serving members are full;
    /// [`ErrorKind::Unavailable`]; [`ErrorKind::DeadlineExceeded`].
    pub async fn call<T, F>(
        &self,
        units: usize,
        deadline: Instant,
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
            let failed = match self.pick_but(units, &tried) {
                Ok(place) => {
                    tries += 1;
                    tried.push(place.peer.name().to_owned());
                    let work = place.link.run(call(place.link.channel()));
                    match within(deadline, &doing, work).await {
                        Err(error) if error.is_retryable() && tries < config.attempts => error,
                        done => return done,
                    }
                }
                // All that serve were tried: they may be tried again.
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

    fn nobody(&self) -> Error {
        let problem = format!("none of the {} is reachable; retry", self.inner.name);
        Error::new(ErrorKind::Unavailable, "NO_PEER", problem)
    }

    /// How it shows in the tree.
    pub fn node(&self) -> TreeNode {
        let children: Vec<TreeNode> = self.members().iter().map(Peer::node).collect();
        let serving = children.iter().any(|peer| peer.state == PeerState::Serving.word());
        let state = if serving { "serving" } else { "nobody serves" };
        TreeNode::new(self.inner.name, "pool", state).with_children(children)
    }
}
