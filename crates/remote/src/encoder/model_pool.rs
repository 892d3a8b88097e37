//! Pool of the members that are asked for one model, with a session for each of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clew_core::{EncoderIdentity, Error, ErrorKind};
use clew_runtime::peer::{PeerOptions, PeerState};
use clew_runtime::pool::Pool;
use clew_runtime::tree::RunningPart;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use super::dispatcher::{Dispatcher, no_peer_error};
use super::model::Model;
use super::options::{RemoteEncoderOptions, SERVICE};
use super::session::{Seen, Session};
use super::shared::{Shared, member};

/// Members that are asked for one model. Dropping the pool ends its streams and connections.
pub(crate) struct ModelPool {
    pub shared: Arc<Shared>,
    pub pool: Pool,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    tasks: JoinSet<()>,
    /// Sessions by name and address: the sender whose drop ends each one, and its visible state.
    by_member: HashMap<(String, String), (watch::Sender<()>, Arc<Seen>)>,
}

impl ModelPool {
    /// Starts asking the members for the model, without waiting for their answers.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration or an address is not
    /// valid.
    pub(crate) async fn gather(options: RemoteEncoderOptions) -> Result<Self, Error> {
        let RemoteEncoderOptions { members, expected, config, peers } = options;
        config.validate()?;
        peers.config.validate()?;
        let shared = Arc::new(Shared::new(Dispatcher::new(config.window), expected));
        let credits = config.credits();
        let pool = Pool::new(
            "encoders",
            PeerOptions { service: SERVICE.to_owned(), credits, reach: peers },
        );
        let model_pool = Self { shared, pool, sessions: Mutex::default() };
        model_pool.update(members).await?;
        Ok(model_pool)
    }

    /// Makes the pool and the sessions follow the members.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if an address is not valid. Then nothing is
    /// changed.
    pub(crate) async fn update(&self, members: Vec<(String, String)>) -> Result<(), Error> {
        let mut sessions = self.sessions.lock().await;
        self.pool.update(members).await?;
        while sessions.tasks.try_join_next().is_some() {}
        let members = self.pool.members();
        let Sessions { tasks, by_member } = &mut *sessions;
        by_member.retain(|(name, address), _| {
            members.iter().any(|peer| peer.name() == name && peer.address() == address)
        });
        for peer in members.iter() {
            by_member.entry(member(peer)).or_insert_with(|| {
                let (stays, member) = watch::channel(());
                let seen = Arc::new(Seen::default());
                let (peer, shared) = (peer.clone(), Arc::clone(&self.shared));
                tasks.spawn(Session { peer, shared, seen: Arc::clone(&seen), member }.run());
                (stays, seen)
            });
        }
        // Fewer members may be left that have not answered, so waiting callers look again.
        self.shared.offers.send_modify(|_| {});
        Ok(())
    }

    /// Returns the model, once a member has described it.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if all
    /// members have answered, or some until `deadline`, and none offers the expected model. Returns
    /// [`clew_core::ErrorKind::Unavailable`] if none has answered until `deadline`.
    pub(crate) async fn model(&self, deadline: Instant) -> Result<Arc<Model>, Error> {
        let mut offers = self.shared.offers.subscribe();
        let waiting = async {
            loop {
                offers.mark_unchanged();
                if let Ok(model) = self.shared.model() {
                    return Ok(Arc::clone(model));
                }
                if let Some(refusal) = self.refusal(self.pool.members().len()) {
                    return Err(refusal);
                }
                offers.changed().await.map_err(|_closed| no_peer_error())?;
            }
        };
        match tokio::time::timeout_at(deadline.into(), waiting).await {
            Ok(ended) => ended,
            Err(_elapsed) => Err(self.refusal(1).unwrap_or_else(no_peer_error)),
        }
    }

    /// Returns an error if at least `members` members, and at least one, have answered and none
    /// offers the model.
    fn refusal(&self, members: usize) -> Option<Error> {
        let wanted = self.shared.identity()?;
        let offers = self.offers();
        let is_missing = !offers.iter().flatten().any(|offered| *offered == wanted);
        let is_refused = offers.len() >= members.max(1) && is_missing;
        is_refused.then(|| wanted.missing_among(&self.offered()))
    }

    /// Returns the error for the time in which no member takes work. The error is retryable even if
    /// all members offer other models: a caller that already has the model waits for them to be
    /// configured.
    pub(crate) fn no_peer_error(&self) -> Error {
        match self.refusal(self.pool.members().len()) {
            Some(refusal) => Error::new(ErrorKind::Unavailable, "NO_PEER", refusal.message()),
            None => no_peer_error(),
        }
    }

    /// Returns the models that each member that has answered offers, its current model first.
    pub(crate) fn offers(&self) -> Vec<Vec<EncoderIdentity>> {
        let offers = self.shared.offers.borrow();
        self.pool.members().iter().filter_map(|peer| offers.get(&member(peer)).cloned()).collect()
    }

    /// Returns the models that any member offers.
    pub(crate) fn offered(&self) -> Vec<EncoderIdentity> {
        let mut offered: Vec<EncoderIdentity> = Vec::new();
        for identity in self.offers().into_iter().flatten() {
            if !offered.contains(&identity) {
                offered.push(identity);
            }
        }
        offered
    }

    /// Returns the pool's node for the tree of running parts. Members that do not offer the model
    /// are `refused`, and those whose stream is not open yet are `joining`.
    pub(crate) async fn node(&self) -> RunningPart {
        let mut node = self.pool.node();
        if let Some(identity) = self.shared.identity() {
            node.name = format!("encoders of `{}`", identity.model);
        }
        let sessions = self.sessions.lock().await;
        for member in &mut node.children {
            let mut seen = sessions.by_member.iter().filter(|((name, _), _)| *name == member.name);
            let Some((_, (_, seen))) = seen.next() else { continue };
            if seen.is_refused.load(Ordering::Relaxed) {
                member.state = "refused".into();
            } else if member.state == PeerState::Serving.word()
                && !seen.is_ready.load(Ordering::Relaxed)
            {
                member.state = "joining".into();
            }
        }
        node
    }
}
