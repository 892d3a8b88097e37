//! Routing of shard requests to the retriever that owns the shard, also after it has moved.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clew_cluster::{Member, Members, NodeId, Role, ShardKey, placement};
use clew_core::{Error, ErrorKind};
use clew_proto::convert::shard::ShardRef;
use clew_runtime::backoff::Backoff;
use clew_runtime::deadline::within;
use clew_runtime::peer::{Channel, Link};
use clew_runtime::pool::Pool;
use tokio::sync::watch;

/// First and longest pause before all retrievers are asked again. A shard that moves is opened
/// within about a second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Reason of a retriever that does not know the format in which a corpus is stored.
const NEWER_FORMAT: &str = "NEWER_FORMAT";

/// Routes to the owners of shards.
pub(super) struct Routes {
    retrievers: Pool,
    members: watch::Receiver<Arc<Members>>,
    /// Retriever that answered last for each shard. Only a hint: a retriever that does not own the
    /// shard says so.
    last: Mutex<HashMap<ShardKey, NodeId>>,
}

impl Routes {
    pub fn new(retrievers: Pool, members: watch::Receiver<Arc<Members>>) -> Self {
        Self { retrievers, members, last: Mutex::default() }
    }

    /// Asks the owner of `shard`. `call` may run several times, on one retriever after another,
    /// until one that owns the shard answers or the deadline passes.
    ///
    /// # Errors
    /// Returns the owner's error, or [`ErrorKind::Unavailable`] if no owner was found in time.
    pub async fn on_owner<T, F: Future<Output = Result<T, Error>>>(
        &self,
        shard: &ShardRef,
        deadline: Instant,
        doing: &str,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, Error> {
        let key = ShardKey { corpus: shard.corpus.clone(), shard: shard.shard };
        let (node, answer) = self.ask(deadline, doing, || self.likeliest_first(&key), call).await;
        if let Some(node) = node {
            self.remember(&key, node);
        }
        answer
    }

    /// Asks any retriever.
    ///
    /// # Errors
    /// Returns errors as [`Routes::on_owner`] does.
    pub async fn on_any<T, F: Future<Output = Result<T, Error>>>(
        &self,
        deadline: Instant,
        doing: &str,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, Error> {
        let shuffled = || {
            let mut reachable = self.reachable();
            fastrand::shuffle(&mut reachable);
            reachable
        };
        self.ask(deadline, doing, shuffled, call).await.1
    }

    /// Tells all reachable retrievers something, at the same time. One that does not hear it in
    /// time finds it out by itself.
    pub async fn tell_all<F: Future<Output = Result<(), Error>>>(
        &self,
        deadline: Instant,
        telling: &str,
        call: impl Fn(Channel) -> F,
    ) {
        let tell = |(member, link): (Member, Link)| {
            let told = call(link.channel());
            async move {
                if let Err(error) = within(deadline, telling, link.run(told)).await {
                    let error = error.chain();
                    tracing::debug!(retriever = %member.id, error, "a retriever was not told");
                }
            }
        };
        futures::future::join_all(self.reachable().into_iter().map(tell)).await;
    }

    /// Asks the retrievers of `whom` in turn, in rounds, until one gives a definite answer. Returns
    /// that answer and the node that gave it.
    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        deadline: Instant,
        doing: &str,
        whom: impl Fn() -> Vec<(Member, Link)>,
        call: impl Fn(Channel) -> F,
    ) -> (Option<NodeId>, Result<T, Error>) {
        let mut pauses = Backoff::new(PAUSE.0, PAUSE.1);
        let mut last_error = None;
        loop {
            let mut newer = None;
            for (member, link) in whom() {
                match within(deadline, doing, link.run(call(link.channel()))).await {
                    Err(error) if asks_another(&error) => last_error = Some(error),
                    // During a rolling upgrade another retriever may be of the release that wrote
                    // it.
                    Err(error) if error.reason() == NEWER_FORMAT => newer = Some(error),
                    answer => return (Some(member.id), answer),
                }
            }
            if let Some(error) = newer {
                return (None, Err(error));
            }
            let pause = pauses.next_delay();
            if Instant::now() + pause >= deadline {
                return (None, Err(last_error.unwrap_or_else(no_retriever)));
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the retrievers that have a connection. A draining one is included: it answers for
    /// the shards that it has not handed over yet.
    fn reachable(&self) -> Vec<(Member, Link)> {
        let members = Arc::clone(&self.members.borrow());
        let peers = self.retrievers.members();
        let link = |member: &Member| {
            let peer = peers.iter().find(|peer| peer.name() == member.id.as_str())?;
            let link = peer.view().borrow().link.clone()?;
            (!link.is_lost()).then(|| (member.clone(), link))
        };
        members.with_role(Role::Retriever).filter_map(link).collect()
    }

    /// Returns the reachable retrievers, the most likely owner first.
    fn likeliest_first(&self, key: &ShardKey) -> Vec<(Member, Link)> {
        let mut reachable = self.reachable();
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let order = placement::order(key, reachable.iter().map(|(member, _)| member));
        let order: Vec<NodeId> = order.into_iter().map(|member| member.id.clone()).collect();
        reachable.sort_by_cached_key(|(member, _)| {
            let place = order.iter().position(|id| *id == member.id);
            (last.as_ref() != Some(&member.id), place)
        });
        reachable
    }

    fn remember(&self, key: &ShardKey, node: NodeId) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(key) != Some(&node) {
            last.insert(key.clone(), node);
        }
    }
}

/// Returns whether another retriever may own the shard, now or soon.
fn asks_another(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable || error.reason() == "SHARD_WRITTEN_BY_ANOTHER"
}

fn no_retriever() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "NO_MEMBER",
        "no retriever can be reached; check that retrievers run and have joined the cluster",
    )
}
