//! The crew of one model: the members that are asked for it, and the couriers to them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clew_core::{EncoderIdentity, Error, ErrorKind};
use clew_runtime::peer::{PeerOptions, PeerState};
use clew_runtime::pool::Pool;
use clew_runtime::tree::TreeNode;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::board::{Board, nobody};
use crate::courier::{Courier, Seen};
use crate::model::Model;
use crate::options::{RemoteEncoderOptions, SERVICE};
use crate::shared::{Shared, member};

/// The members that are asked for one model. Dropping it ends its streams and connections.
pub(crate) struct Crew {
    pub shared: Arc<Shared>,
    pub pool: Pool,
    couriers: Mutex<Couriers>,
}

#[derive(Default)]
struct Couriers {
    tasks: JoinSet<()>,
    /// By name and address: what ends the courier when it is dropped, and what is seen of it.
    by_member: HashMap<(String, String), (watch::Sender<()>, Arc<Seen>)>,
}

impl Crew {
    /// Begins to ask the members for the model. They answer by themselves.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] for a configuration or an address that cannot be used.
    pub(crate) async fn gather(options: RemoteEncoderOptions) -> Result<Self, Error> {
        let RemoteEncoderOptions { members, expected, config, peers } = options;
        config.validate()?;
        peers.config.validate()?;
        let shared = Arc::new(Shared::new(Board::new(config.window), expected));
        let credits = config.credits();
        let pool = Pool::new(
            "encoders",
            PeerOptions { service: SERVICE.to_owned(), credits, reach: peers },
        );
        let crew = Self { shared, pool, couriers: Mutex::default() };
        crew.update(members).await?;
        Ok(crew)
    }

    /// Has the pool and the couriers follow the members.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] for an address that is none; then nothing is changed.
    pub(crate) async fn update(&self, members: Vec<(String, String)>) -> Result<(), Error> {
        let mut couriers = self.couriers.lock().await;
        self.pool.update(members).await?;
        while couriers.tasks.try_join_next().is_some() {}
        let members = self.pool.members();
        let Couriers { tasks, by_member } = &mut *couriers;
        by_member.retain(|(name, address), _| {
            members.iter().any(|peer| peer.name() == name && peer.address() == address)
        });
        for peer in members.iter() {
            by_member.entry(member(peer)).or_insert_with(|| {
                let (stays, member) = watch::channel(());
                let seen = Arc::new(Seen::default());
                let (peer, shared) = (peer.clone(), Arc::clone(&self.shared));
                tasks.spawn(Courier { peer, shared, seen: Arc::clone(&seen), member }.run());
                (stays, seen)
            });
        }
        // Fewer may be left that did not tell.
        self.shared.told.send_modify(|_| {});
        Ok(())
    }

    /// The model, once a member has described it.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if an expected one is not offered by any
    /// member, or until `deadline` by any that told; [`clew_core::ErrorKind::Unavailable`] if none told until then.
    pub(crate) async fn model(&self, deadline: Instant) -> Result<Arc<Model>, Error> {
        let mut told = self.shared.told.subscribe();
        let waiting = async {
            loop {
                told.mark_unchanged();
                if let Ok(model) = self.shared.model() {
                    return Ok(Arc::clone(model));
                }
                if let Some(refusal) = self.refusal(self.pool.members().len()) {
                    return Err(refusal);
                }
                told.changed().await.map_err(|_closed| nobody())?;
            }
        };
        match tokio::time::timeout_at(deadline.into(), waiting).await {
            Ok(ended) => ended,
            Err(_elapsed) => Err(self.refusal(1).unwrap_or_else(nobody)),
        }
    }

    /// What is to be said if so many members told, at least one, and none of them offers the model.
    fn refusal(&self, members: usize) -> Option<Error> {
        let wanted = self.shared.identity()?;
        let told = self.told();
        let is_missing = !told.iter().flatten().any(|offered| *offered == wanted);
        let is_refused = told.len() >= members.max(1) && is_missing;
        is_refused.then(|| wanted.missing_among(&self.offered()))
    }

    /// The error while no member takes work. It may pass even if they all offer other models: who has the model
    /// already waits for them to be configured.
    pub(crate) fn nobody(&self) -> Error {
        match self.refusal(self.pool.members().len()) {
            Some(refusal) => Error::new(ErrorKind::Unavailable, "NO_PEER", refusal.message()),
            None => nobody(),
        }
    }

    /// What each member that told offers, first its current model.
    pub(crate) fn told(&self) -> Vec<Vec<EncoderIdentity>> {
        let told = self.shared.told.borrow();
        self.pool.members().iter().filter_map(|peer| told.get(&member(peer)).cloned()).collect()
    }

    /// The models that any member offers.
    pub(crate) fn offered(&self) -> Vec<EncoderIdentity> {
        let mut offered: Vec<EncoderIdentity> = Vec::new();
        for identity in self.told().into_iter().flatten() {
            if !offered.contains(&identity) {
                offered.push(identity);
            }
        }
        offered
    }

    /// How it shows in the tree: the pool with its members, of which those that do not offer the model
    /// are `refused`, and those whose stream is not open yet are `joining`.
    pub(crate) async fn node(&self) -> TreeNode {
        let mut node = self.pool.node();
        if let Some(identity) = self.shared.identity() {
            node.name = format!("encoders of `{}`", identity.model);
        }
        let couriers = self.couriers.lock().await;
        for member in &mut node.children {
            let mut seen = couriers.by_member.iter().filter(|((name, _), _)| *name == member.name);
            let Some((_, (_, seen))) = seen.next() else { continue };
            if seen.is_refused.load(Ordering::Relaxed) {
                member.state = "refused".into();
            } else if member.state == PeerState::Serving.word()
                && !seen.is_seated.load(Ordering::Relaxed)
            {
                member.state = "joining".into();
            }
        }
        node
    }
}
