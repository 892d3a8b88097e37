//! The retriever of a cluster: runs the shards that belong to this node, in storage that all
//! retrievers share.
//!
//! An actor repeatedly looks at the members, the corpora and the owners of shards, and does what
//! [`clew_cluster::decide`] says. It may lose its own state: leases are in Redis, and corpora and
//! shards in storage. Gateways tell every retriever which corpora change, so the storage is only
//! listed in case that a word was lost.
//!
//! A node takes the leases of all its shards and opens only those that are needed
//! ([`crate::shard::keeper`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clew_cluster::decide::{Action, Holding, Situation, decide, missing};
use clew_cluster::placement::Placed;
use clew_cluster::{Acquired, Leases, Members, NodeId, ShardKey};
use clew_core::{CorpusName, CorpusSettings, Error, ErrorKind, ShardIndex};
use clew_index::{Registered, Registry};
use clew_proto::convert::shard::ShardRef;
use clew_runtime::deadline::within;
use clew_runtime::supervise::{Line, Supervised, start_child};
use clew_runtime::tree::RunningPart;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::grpc::shard_service::Shards;
use crate::leftovers::remove_leftovers;
use crate::seams::ShardSeams;
use crate::shard::claim::{Claim, not_owner};
use crate::shard::keeper::Keeper;
use crate::shard::metrics::CorporaGauges;
use crate::shard::resources::Resources;
use crate::shard::{ShardHandle, ShardLine};
use crate::{RetrieverConfig, Tried};

/// Longest time between two looks at what there is to do. A look asks the storage nothing, and
/// decides nothing if nothing changed.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Shortest time between two looks. Many changes that come one after the other are looked at
/// together: a decision passes over all shards of all corpora.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// Interval between listings of the corpora and of deletions that another node began and did not
/// end. A listing costs a request for each thousand corpora.
const LIST_INTERVAL: Duration = Duration::from_secs(15);
/// Interval between looks whether corpora whose settings could not be read can be used again.
const HEAL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of open shards that are handed over at the same time.
const HAND_OVERS: usize = 2;
/// Number of shards whose leases are taken at the same time, and of shards at rest whose leases are
/// given back for another node.
const TAKINGS: usize = 64;
/// Time limit for finishing accepted documents when a shard is handed over.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(30);
/// Longest time that searches are still answered here after a shard was given back, until its next
/// owner has opened it.
const BRIDGE: Duration = Duration::from_secs(20);
const BRIDGE_LOOK: Duration = Duration::from_millis(100);
/// Without leases: time after which every owner has closed the shards of a retired corpus.
const CLOSED_AFTER: Duration = Duration::from_secs(10);
/// Bound against hung storage, not an estimate.
const STORAGE_PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of a shared retriever.
pub struct ClusterOptions {
    /// Storage that all retrievers share.
    pub tried: Tried,
    /// Components that shards work with.
    pub seams: ShardSeams,
    /// Id of this node.
    pub me: NodeId,
    /// All members of the cluster.
    pub members: watch::Receiver<Arc<Members>>,
    /// Leases of shards.
    pub leases: Leases,
    /// Configuration section `retriever`.
    pub config: RetrieverConfig,
}

/// A retriever of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct ClusterRetriever {
    inner: Arc<ClusterShards>,
    owner: Supervised<ActorRef<Message>>,
}

pub(crate) struct ClusterShards {
    pub(crate) registry: Registry,
    pub(crate) sharing: ClusterOptions,
    resources: Resources,
    /// Held while this node restores a corpus.
    pub(crate) restoring: tokio::sync::Mutex<()>,
    /// Held from reading settings until the shards have them, so that older settings never arrive
    /// after newer ones.
    telling: tokio::sync::Mutex<()>,
    /// Wakes the owner.
    noticed: Notify,
    state: Mutex<State>,
    seen: Arc<CorporaGauges>,
}

#[derive(Default)]
struct State {
    corpora: BTreeMap<CorpusName, Arc<CorpusSettings>>,
    /// Corpora whose settings cannot be read, and the reason. Their shards are closed.
    unusable: BTreeMap<CorpusName, Error>,
    shards: BTreeMap<ShardKey, Held>,
    /// Shards whose leases are being taken.
    taking: BTreeSet<ShardKey>,
    /// Whether this node is shutting down. Nothing is opened from then on.
    is_ending: bool,
    /// Number of times that somebody could change the above.
    revision: u64,
}

/// The state while nobody else has it. Whoever takes it to change it counts as having changed it.
struct Locked<'a>(MutexGuard<'a, State>);

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.revision += 1;
        &mut self.0
    }
}

/// What decides what there is to do, apart from how the leases of shards stand.
struct Seen {
    revision: u64,
    members: Arc<Members>,
}

impl Seen {
    fn is_as(&self, before: &Self) -> bool {
        self.revision == before.revision && Arc::ptr_eq(&self.members, &before.members)
    }
}

/// A shard that runs here.
#[derive(Clone)]
struct Held {
    handle: ShardHandle,
    claim: Claim,
    settings: Arc<CorpusSettings>,
    /// Whether it is being handed over or closed.
    is_leaving: bool,
}

impl State {
    /// Takes over all registered corpora.
    fn take_over(&mut self, registered: Vec<Registered>) {
        let listed: BTreeSet<CorpusName> =
            registered.iter().map(|(name, _)| name.clone()).collect();
        self.corpora.retain(|name, _| listed.contains(name));
        self.unusable.retain(|name, _| listed.contains(name));
        for (name, settings) in registered {
            self.learn(name, settings);
        }
    }

    /// Takes over one corpus, as it was found in the registry.
    fn learn(&mut self, name: CorpusName, found: clew_index::Result<CorpusSettings>) {
        let error = match found {
            Ok(settings) => {
                if self.unusable.remove(&name).is_some() {
                    tracing::info!(corpus = %name, "the corpus can be used again");
                }
                // An unchanged corpus keeps its place in memory.
                if self.corpora.get(&name).is_none_or(|known| **known != settings) {
                    self.corpora.insert(name, Arc::new(settings));
                }
                return;
            }
            Err(clew_index::Error::CorpusNotFound(_)) => {
                self.corpora.remove(&name);
                self.unusable.remove(&name);
                return;
            }
            Err(error) => Error::from(error),
        };
        // Storage that does not answer does not make a known corpus unusable.
        if error.kind() == ErrorKind::Unavailable && self.corpora.contains_key(&name) {
            return;
        }
        self.corpora.remove(&name);
        if !self.unusable.contains_key(&name) {
            tracing::error!(corpus = %name, error = error.chain(), "the corpus cannot be used; others go on");
        }
        self.unusable.insert(name, error);
    }

    /// Notes that the lease of a shard is being taken. From then on nobody else takes it: two who
    /// did would each be given a lease, of which one is lost. Returns the settings of its corpus,
    /// unless the shard is not to be taken.
    fn begin_taking(&mut self, key: &ShardKey) -> Option<Arc<CorpusSettings>> {
        let settings = self.corpora.get(&key.corpus).cloned()?;
        let is_free = !self.is_ending && !self.shards.contains_key(key);
        (is_free && self.taking.insert(key.clone())).then_some(settings)
    }

    /// Applies new settings to the shards that run here, of one corpus or of all.
    fn settle_shards(&mut self, of: Option<&CorpusName>) {
        for (key, held) in &mut self.shards {
            if of.is_some_and(|name| *name != key.corpus) {
                continue;
            }
            let Some(settings) = self.corpora.get(&key.corpus) else { continue };
            // A corpus that was created again is another one, to which this shard does not belong.
            let is_the_same = settings.created_at == held.settings.created_at;
            if is_the_same && *settings != held.settings {
                held.settings = Arc::clone(settings);
                held.handle.settle(Arc::clone(settings));
            }
        }
    }
}

impl ClusterRetriever {
    /// Opens the storage and begins to take the shards that belong to this node.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid, and storage
    /// errors.
    pub async fn start(sharing: ClusterOptions) -> Result<Self, Error> {
        sharing.config.validate()?;
        let registry = Registry::open(&sharing.tried.location).await?;
        let resources = sharing.config.resources();
        let inner = Arc::new(ClusterShards {
            registry,
            sharing,
            resources,
            restoring: tokio::sync::Mutex::default(),
            telling: tokio::sync::Mutex::default(),
            noticed: Notify::new(),
            state: Mutex::default(),
            seen: CorporaGauges::new(),
        });
        let owner = Supervised::start(OwnerLine { inner: Arc::clone(&inner) }).await?;
        Ok(Self { inner, owner })
    }

    /// Returns the shards that run here.
    pub(crate) fn shards(&self) -> Arc<ClusterShards> {
        Arc::clone(&self.inner)
    }

    /// Returns the node of the shards that run here for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        let shards: Vec<ShardHandle> = {
            let state = self.inner.lock();
            state.shards.values().map(|held| held.handle.clone()).collect()
        };
        let mut node = self.owner.node();
        node.name = "shards".to_owned();
        node.with_children(shards.iter().map(ShardHandle::node).collect())
    }

    /// Hands over or closes all shards. Accepted documents are committed; what is not derived stays
    /// due.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::DeadlineExceeded`] if a shard had to be cut short. Nothing
    /// accepted is lost.
    pub async fn stop(&self, deadline: Instant) -> Result<(), Error> {
        // While other retrievers serve, the shards of a draining node move one after another.
        while Instant::now() + Duration::from_secs(2) < deadline && self.inner.may_hand_over() {
            tokio::time::sleep(BRIDGE_LOOK).await;
        }
        self.inner.lock().is_ending = true;
        let patience = deadline.saturating_duration_since(Instant::now());
        self.owner.stop(patience.min(Duration::from_secs(5))).await;
        let held: Vec<Held> = self.inner.lock().shards.values().cloned().collect();
        let closed = held.iter().map(|held| async move {
            let stopped = held.handle.stop(deadline).await;
            held.claim.give_back(deadline).await;
            stopped
        });
        futures::future::join_all(closed).await.into_iter().collect()
    }
}

impl ClusterShards {
    // No code that can panic runs under the lock, so a poisoned one still holds a valid state.
    fn lock(&self) -> Locked<'_> {
        Locked(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what decides what there is to do, and whether every shard's lease is confirmed.
    fn seen(&self) -> (Seen, bool) {
        let members = Arc::clone(&self.sharing.members.borrow());
        let state = self.lock();
        let seen = Seen { revision: state.revision, members };
        let mut standings = state.shards.values().map(|held| held.claim.standing());
        (seen, standings.all(|standing| standing == clew_cluster::Standing::Held))
    }

    /// Returns whether there are shards left and another retriever to take them.
    fn may_hand_over(&self) -> bool {
        let members = Arc::clone(&self.sharing.members.borrow());
        let others = members.as_slice().iter().any(|member| {
            member.id != self.sharing.me && member.serves(clew_cluster::Role::Retriever)
        });
        others && !self.lock().shards.is_empty()
    }

    /// Reads the registered corpora, and applies changed settings to the shards that run here.
    /// Returns the corpora that were retired and are not deleted yet, each with the time since
    /// then.
    async fn read_corpora(&self) -> Result<Vec<(CorpusSettings, Duration)>, Error> {
        let _in_order = self.telling.lock().await;
        let listed = tokio::time::timeout(STORAGE_PATIENCE, self.registry.list_all()).await;
        let listed = listed.map_err(|_elapsed| Error::deadline("listing the corpora"))??;
        let mut state = self.lock();
        state.take_over(listed.corpora);
        state.settle_shards(None);
        self.seen.note(state.corpora.len(), state.unusable.values());
        Ok(listed.retired)
    }

    /// Reads one corpus that was created, changed or deleted, and does what follows from it.
    pub(crate) async fn notice(&self, name: &CorpusName, deadline: Instant) -> Result<(), Error> {
        within(deadline, "reading the corpus", async {
            let _in_order = self.telling.lock().await;
            let found = self.registry.get(name).await;
            let mut state = self.lock();
            state.learn(name.clone(), found);
            state.settle_shards(Some(name));
            self.seen.note(state.corpora.len(), state.unusable.values());
            Ok(())
        })
        .await?;
        self.noticed.notify_one();
        Ok(())
    }

    /// Reads the corpora again whose settings could not be read.
    async fn heal(&self) {
        let unusable: Vec<CorpusName> = self.lock().unusable.keys().cloned().collect();
        for name in unusable {
            if let Err(error) = self.notice(&name, Instant::now() + STORAGE_PATIENCE).await {
                tracing::debug!(corpus = %name, error = error.chain(), "not healed yet");
            }
        }
    }

    /// Changes the settings of a corpus. Shards that run here get them at once; other owners find
    /// them at their next look.
    pub(crate) async fn change(
        &self,
        from: &CorpusSettings,
        to: &CorpusSettings,
        deadline: Instant,
    ) -> Result<(), Error> {
        within(deadline, "changing the corpus", async {
            let _in_order = self.telling.lock().await;
            self.registry.change(from, to).await?;
            let mut state = self.lock();
            state.unusable.remove(&to.name);
            state.corpora.insert(to.name.clone(), Arc::new(to.clone()));
            state.settle_shards(Some(&to.name));
            Ok(())
        })
        .await
    }

    /// Deletes a corpus. The gateway tells its owners; this waits until all have closed their
    /// shards and one node has removed the files.
    pub(crate) async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<(), Error> {
        let settings = self.registry.get(name).await;
        self.registry.retire(name).await?;
        let retired = Instant::now();
        self.notice(name, deadline).await?;
        loop {
            // Settings that cannot be read do not tell which shards exist.
            if let Ok(settings) = &settings {
                self.finish_deletion(settings, retired.elapsed()).await?;
            }
            if !self.registry.is_retired(name).await? {
                return Ok(());
            }
            if Instant::now() + LOOK_INTERVAL > deadline {
                return Err(Error::deadline("its owners close the corpus' shards"));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Removes the files of a corpus that was retired that long ago, if no shard of it has an owner
    /// any more.
    async fn finish_deletion(&self, settings: &CorpusSettings, age: Duration) -> Result<(), Error> {
        let is_owned = if self.sharing.leases.are_by_placement() {
            // The age depends on two clocks.
            age < CLOSED_AFTER + self.sharing.tried.max_clock_skew
        } else {
            let keys: Vec<ShardKey> = keys_of(settings).collect();
            !self.sharing.leases.owners(&keys).await?.is_empty()
        };
        if is_owned || self.lock().shards.keys().any(|key| key.corpus == settings.name) {
            return Ok(());
        }
        match self.registry.delete(&settings.name).await {
            Ok(()) => tracing::info!(corpus = %settings.name, "the corpus is deleted"),
            // Another node was faster.
            Err(clew_index::Error::CorpusNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Finishes deletions that other nodes began.
    async fn finish_deletions(&self, retired: Vec<(CorpusSettings, Duration)>) {
        for (settings, age) in retired {
            if let Err(error) = self.finish_deletion(&settings, age).await {
                tracing::debug!(error = error.chain(), "a deletion is finished later");
            }
        }
    }

    /// Decides what to do now with each shard. Also returns whether there is nothing to do, as long
    /// as what was [`Seen`] stays the same and all leases stay confirmed.
    async fn decide(&self, placed: &mut Placed) -> (BTreeMap<ShardKey, Action>, bool) {
        let (wanted, held, openings) = {
            let state = self.lock();
            // A corpus that was created again is another one.
            let is_wanted = |key: &ShardKey, held: &Held| {
                let settings = state.corpora.get(&key.corpus);
                settings.is_some_and(|settings| settings.created_at == held.settings.created_at)
            };
            let is_current =
                |key: &ShardKey| state.shards.get(key).is_none_or(|held| is_wanted(key, held));
            // Sorted, because corpora are.
            let keys = state.corpora.values().flat_map(|settings| keys_of(settings));
            let wanted: Arc<[ShardKey]> = keys.filter(is_current).collect();
            let holding = |(key, held): (&ShardKey, &Held)| {
                let (is_leaving, is_at_rest) = (held.is_leaving, held.handle.is_resting());
                (key.clone(), Holding { standing: held.claim.standing(), is_leaving, is_at_rest })
            };
            let mut held: BTreeMap<_, _> = state.shards.iter().map(holding).collect();
            for key in &state.taking {
                let standing = clew_cluster::Standing::Held;
                let taking = Holding { standing, is_leaving: false, is_at_rest: true };
                held.entry(key.clone()).or_insert(taking);
            }
            (wanted, held, TAKINGS.saturating_sub(state.taking.len()))
        };
        let members = Arc::clone(&self.sharing.members.borrow());
        placed.update(members.as_slice(), &wanted);
        let free = missing(placed, &held);
        let owners = if free.is_empty() {
            BTreeMap::new()
        } else {
            match self.sharing.leases.owners(&free).await {
                Ok(owners) => owners,
                Err(error) => {
                    tracing::debug!(error = error.chain(), "it is not known who has which shard");
                    BTreeMap::new()
                }
            }
        };
        let actions = decide(&Situation {
            me: &self.sharing.me,
            members: members.as_slice(),
            is_stale: members.is_stale(),
            placed,
            held: &held,
            owners: &owners,
            hand_overs: HAND_OVERS,
            hand_overs_at_rest: TAKINGS,
            openings,
        });
        // A shard whose lease is not confirmed stays for now, and so do all if the members are old.
        let are_confirmed = held.values().all(|of| of.standing == clew_cluster::Standing::Held);
        let is_certain = are_confirmed && !members.is_stale() && free.is_empty();
        let is_settled = is_certain && actions.values().all(|of| *of == Action::Keep);
        (actions, is_settled)
    }

    /// Asks the storage about every shard that the lease does not confirm, and closes those that
    /// others have written to since.
    async fn confirm(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let unsure: Vec<(ShardKey, Held)> = {
            let state = self.lock();
            let is_unsure = |held: &Held| {
                !held.is_leaving && held.claim.standing() == clew_cluster::Standing::Unconfirmed
            };
            let unsure = state.shards.iter().filter(|(_, held)| is_unsure(held));
            unsure.map(|(key, held)| (key.clone(), held.clone())).collect()
        };
        for (key, held) in unsure {
            match held.handle.confirm(Instant::now() + STORAGE_PATIENCE).await {
                Err(error) if error.reason() == not_owner().reason() => {
                    tasks.spawn(Arc::clone(self).close(key));
                }
                Err(error) => {
                    tracing::debug!(error = error.chain(), "it is not known whose the shard is");
                }
                Ok(()) => {}
            }
        }
    }

    /// Forgets which shards are being taken. Returns those that were leaving.
    fn forget_tasks(&self) -> Vec<(ShardKey, Held)> {
        let mut state = self.lock();
        state.taking.clear();
        let leaving = state.shards.iter().filter(|(_, held)| held.is_leaving);
        leaving.map(|(key, held)| (key.clone(), held.clone())).collect()
    }

    /// Takes the lease of a shard, which opens when it is needed.
    async fn take(self: Arc<Self>, key: ShardKey, settings: Arc<CorpusSettings>) {
        let taken = self.try_to_take(&key, settings).await;
        let mut state = self.lock();
        state.taking.remove(&key);
        if state.taking.is_empty() {
            // More of them may wait for their turn.
            self.noticed.notify_one();
        }
        match taken {
            Ok(Some(held)) => {
                tracing::info!(corpus = %key.corpus, shard = %key.shard, "this node owns the shard");
                state.shards.insert(key, held);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(
                corpus = %key.corpus, shard = %key.shard, error = error.chain(),
                "the shard was not taken; tried again"
            ),
        }
    }

    async fn try_to_take(
        &self,
        key: &ShardKey,
        settings: Arc<CorpusSettings>,
    ) -> Result<Option<Held>, Error> {
        let lease = match self.sharing.leases.acquire(key).await? {
            Acquired::Lease(lease) => lease,
            Acquired::HeldBy(_) => return Ok(None),
        };
        let claim = Claim::of_lease(lease);
        let line = ShardLine::new(
            self.registry.shard_place(&settings, key.shard),
            key.shard,
            Arc::clone(&settings),
            self.sharing.seams.clone(),
            self.sharing.config.clone(),
            claim.clone(),
            self.resources.clone(),
        );
        let handle = ShardHandle::resting(line).await?;
        Ok(Some(Held { handle, claim, settings, is_leaving: false }))
    }

    /// Finishes writing, gives the lease back, and answers searches until the next owner has opened
    /// the shard.
    async fn hand_over(self: Arc<Self>, key: ShardKey, to: NodeId) {
        let Some(held) = self.begin_leaving(&key) else { return };
        tracing::info!(corpus = %key.corpus, shard = %key.shard, %to, "handing over the shard");
        let deadline = Instant::now() + HAND_OVER_PATIENCE;
        if let Err(error) = held.handle.finish_writing(deadline).await {
            tracing::warn!(
                error = error.chain(),
                "a hand-over was cut short; nothing accepted is lost"
            );
        }
        held.claim.give_back(deadline).await;
        let until = Instant::now() + BRIDGE;
        while Instant::now() < until && held.handle.is_current(until).await {
            tokio::time::sleep(BRIDGE_LOOK).await;
        }
        self.finish_leaving(&key, &held).await;
        // More of them may wait for their turn.
        self.noticed.notify_one();
    }

    /// Closes a shard that another node owns, or whose corpus is gone.
    async fn close(self: Arc<Self>, key: ShardKey) {
        let Some(held) = self.begin_leaving(&key) else { return };
        tracing::info!(corpus = %key.corpus, shard = %key.shard, "closing the shard");
        self.finish_leaving(&key, &held).await;
    }

    fn begin_leaving(&self, key: &ShardKey) -> Option<Held> {
        let mut state = self.lock();
        let held = state.shards.get_mut(key).filter(|held| !held.is_leaving)?;
        held.is_leaving = true;
        Some(held.clone())
    }

    async fn finish_leaving(&self, key: &ShardKey, held: &Held) {
        let deadline = Instant::now() + HAND_OVER_PATIENCE;
        if let Err(error) = held.handle.stop(deadline).await {
            tracing::warn!(
                error = error.chain(),
                "a shard was cut short; nothing accepted is lost"
            );
        }
        held.claim.give_back(deadline).await;
        self.lock().shards.remove(key);
    }
}

/// Returns the keys of a corpus' shards.
fn keys_of(settings: &CorpusSettings) -> impl Iterator<Item = ShardKey> + '_ {
    (0..settings.shards)
        .map(|shard| ShardKey { corpus: settings.name.clone(), shard: ShardIndex(shard) })
}

impl Shards for ClusterShards {
    fn shard(&self, shard: &ShardRef) -> Result<ShardHandle, Error> {
        let key = ShardKey { corpus: shard.corpus.clone(), shard: shard.shard };
        let state = self.lock();
        if let Some(error) = state.unusable.get(&key.corpus) {
            return Err(error.again());
        }
        if let Some(held) = state.shards.get(&key) {
            if held.settings.created_at != shard.corpus_created_at {
                return Err(Error::new(
                    ErrorKind::LostRace,
                    "CORPUS_CHANGED",
                    "the corpus was deleted or made anew; look it up again",
                ));
            }
            return Ok(held.handle.clone());
        }
        if state.taking.contains(&key) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "SHARD_OPENING",
                "the shard is being opened; retry",
            ));
        }
        Err(not_owner())
    }
}

/// The actor that carries out decisions.
struct Owner;

/// Messages of [`Owner`].
#[derive(Debug)]
pub(crate) enum Message {
    /// Look at what there is to do.
    Look,
}

struct OwnerLine {
    inner: Arc<ClusterShards>,
}

impl Line for OwnerLine {
    type Handle = ActorRef<Message>;

    fn name(&self) -> String {
        "shards".to_owned()
    }

    async fn start(
        &self,
        supervisor: ActorCell,
        _generation: u64,
    ) -> Result<ActorRef<Message>, Error> {
        start_child(Owner, Arc::clone(&self.inner), supervisor).await
    }
}

/// State of [`Owner`].
struct Looking {
    inner: Arc<ClusterShards>,
    placed: Placed,
    /// Takings, hand-overs and closings in progress.
    tasks: JoinSet<()>,
    waker: JoinSet<()>,
    keeper: Keeper,
    /// What was seen when there was nothing to do.
    settled: Option<Seen>,
    /// Times of the next listing of the corpora, and of the next look at those that are unusable.
    list_at: Instant,
    heal_at: Instant,
}

impl Actor for Owner {
    type Msg = Message;
    type State = Looking;
    type Arguments = Arc<ClusterShards>;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        inner: Arc<ClusterShards>,
    ) -> Result<Looking, ActorProcessingErr> {
        let mut tasks = JoinSet::new();
        // The tasks of an earlier actor ended with it.
        for (key, held) in inner.forget_tasks() {
            let inner = Arc::clone(&inner);
            tasks.spawn(async move { inner.finish_leaving(&key, &held).await });
        }
        tasks.spawn(remove_leftovers(inner.registry.clone()));
        let mut waker = JoinSet::new();
        waker.spawn(wake(myself, Arc::clone(&inner)));
        let placed = Placed::new(inner.sharing.me.clone());
        let keeper = Keeper::new(&inner.sharing.config);
        let now = Instant::now();
        let settled = None;
        Ok(Looking { inner, placed, tasks, waker, keeper, settled, list_at: now, heal_at: now })
    }

    async fn handle(
        &self,
        _myself: ActorRef<Message>,
        Message::Look: Message,
        state: &mut Looking,
    ) -> Result<(), ActorProcessingErr> {
        while let Some(ended) = state.tasks.try_join_next() {
            // After a panic, another actor does what the task left undone.
            ended?;
        }
        if state.waker.is_empty() {
            return Err("the waker ended".into());
        }
        // Boxed, because it awaits the storage engine, whose futures are large and deep.
        Box::pin(state.look()).await;
        Ok(())
    }
}

impl Looking {
    /// Looks at what there is to do, and begins it.
    async fn look(&mut self) {
        if Instant::now() >= self.list_at {
            match self.inner.read_corpora().await {
                Ok(retired) => {
                    self.list_at = Instant::now() + LIST_INTERVAL;
                    let inner = Arc::clone(&self.inner);
                    self.tasks.spawn(async move { inner.finish_deletions(retired).await });
                }
                Err(error) => {
                    let error = error.chain();
                    tracing::warn!(error, "the corpora could not be listed; tried again");
                    return;
                }
            }
        }
        if Instant::now() >= self.heal_at {
            self.inner.heal().await;
            self.heal_at = Instant::now() + HEAL_INTERVAL;
        }
        {
            let state = self.inner.lock();
            let held = state.shards.values().filter(|held| !held.is_leaving);
            let shards = held.map(|held| &held.handle);
            self.keeper.tend(shards, self.inner.sharing.seams.clock.as_ref());
        }
        self.inner.confirm(&mut self.tasks).await;
        // A decision passes over all shards of all corpora, so it is not made again for the same
        // reasons. They are read first: what changes during the decision is seen next time.
        let (seen, are_confirmed) = self.inner.seen();
        if are_confirmed && self.settled.as_ref().is_some_and(|settled| seen.is_as(settled)) {
            return;
        }
        let (actions, is_settled) = self.inner.decide(&mut self.placed).await;
        self.settled = is_settled.then_some(seen);
        for (key, action) in actions {
            let inner = Arc::clone(&self.inner);
            match action {
                Action::Keep => {}
                Action::Open => {
                    let settings = inner.lock().begin_taking(&key);
                    if let Some(settings) = settings {
                        self.tasks.spawn(inner.take(key, settings));
                    }
                }
                Action::HandOver { to } => drop(self.tasks.spawn(inner.hand_over(key, to))),
                Action::Close => drop(self.tasks.spawn(inner.close(key))),
            }
        }
    }
}

/// Wakes the owner at every change of the members or of a corpus, and at intervals.
async fn wake(owner: ActorRef<Message>, shards: Arc<ClusterShards>) {
    let mut members = shards.sharing.members.clone();
    loop {
        if owner.cast(Message::Look).is_err() {
            return;
        }
        tokio::time::sleep(LEAST_PAUSE).await;
        tokio::select! {
            changed = members.changed() => if changed.is_err() { return },
            () = shards.noticed.notified() => {}
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use clew_core::{Chunking, EncoderIdentity, Timestamp};
    use clew_index::Error as IndexError;

    use super::*;

    fn settings(name: &str) -> CorpusSettings {
        let encoder = EncoderIdentity {
            model: "m".to_owned(),
            revision: "r".to_owned(),
            dimension: 8,
            max_tokens: 256,
        };
        let chunking = Chunking::Sentences { max_tokens: 100 };
        let made = Timestamp::from_micros(1);
        CorpusSettings::plain(name.parse().unwrap(), 2, chunking, encoder, made)
    }

    #[test]
    fn what_could_have_changed_the_state_is_counted_and_a_look_at_it_is_not() {
        let state = Mutex::new(State::default());
        let mut locked = Locked(state.lock().unwrap());
        assert_eq!((locked.shards.len(), locked.revision), (0, 0));
        locked.learn("notes".parse().unwrap(), Ok(settings("notes")));
        locked.is_ending = true;
        assert_eq!((locked.corpora.len(), locked.revision), (1, 2));
    }

    #[test]
    fn the_lease_of_a_shard_is_taken_once_at_a_time() {
        let mut state = State::default();
        let key = |name: &str| ShardKey { corpus: name.parse().unwrap(), shard: ShardIndex(0) };
        assert!(state.begin_taking(&key("a")).is_none(), "nobody knows it");
        state.take_over(vec![("a".parse().unwrap(), Ok(settings("a")))]);
        assert!(state.begin_taking(&key("a")).is_some());
        assert!(state.begin_taking(&key("a")).is_none(), "it is being taken");
        state.taking.clear();
        state.is_ending = true;
        assert!(state.begin_taking(&key("a")).is_none(), "everything is given back");
    }

    #[test]
    fn only_what_was_read_and_is_no_good_stops_a_corpus_and_no_other() {
        let mut state = State::default();
        let mut look = |found: Result<CorpusSettings, IndexError>| {
            let registered = |name: &str, settings| (name.parse::<CorpusName>().unwrap(), settings);
            state.take_over(vec![registered("a", found), registered("b", Ok(settings("b")))]);
            assert!(state.corpora.contains_key(&"b".parse::<CorpusName>().unwrap()));
            let a: CorpusName = "a".parse().unwrap();
            assert_ne!(state.corpora.contains_key(&a), state.unusable.contains_key(&a));
            state.unusable.get(&a).map(|error| error.reason().to_owned())
        };
        let away =
            || IndexError::Unavailable { doing: "read".to_owned(), source: "no answer".into() };
        let damaged =
            || IndexError::Corrupt { what: "the settings".to_owned(), source: "torn".into() };
        assert_eq!(
            look(Err(away())).as_deref(),
            Some("STORAGE_UNAVAILABLE"),
            "nobody knows it yet"
        );
        assert_eq!(look(Ok(settings("a"))), None);
        assert_eq!(look(Err(away())), None, "it was known before");
        assert_eq!(look(Err(damaged())).as_deref(), Some("DATA_LOSS"));
        assert_eq!(look(Err(away())).as_deref(), Some("STORAGE_UNAVAILABLE"));
        assert_eq!(look(Ok(settings("a"))), None, "it is healed");
    }
}
