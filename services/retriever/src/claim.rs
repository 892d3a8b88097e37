//! By what right a shard runs here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clew_cluster::{Lease, Standing};
use clew_core::Error;
use clew_index::{ShardReader, Takeover};

/// A shard's claim. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub(crate) enum Claim {
    /// This process has the whole data directory.
    Directory,
    /// This process took the shards of storage that cannot be locked, and has each until another does
    /// the same.
    Taken(Arc<Taken>),
    /// This node has a lease, until it gives it back.
    Lease(Arc<Mutex<Option<Lease>>>),
}

/// Shards that were taken.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Who took them, for people who read the tables.
    owner: String,
    /// Never taken back: two processes that both do would do so for ever.
    is_lost: AtomicBool,
}

impl Claim {
    /// A claim of a process by that name on what it takes.
    pub fn of_taker(owner: String) -> Self {
        Self::Taken(Arc::new(Taken { owner, is_lost: AtomicBool::new(false) }))
    }

    pub fn of_lease(lease: Lease) -> Self {
        Self::Lease(Arc::new(Mutex::new(Some(lease))))
    }

    /// What the claim is worth now.
    pub fn standing(&self) -> Standing {
        match self {
            Self::Directory => Standing::Held,
            Self::Taken(taken) if taken.is_lost.load(Ordering::Acquire) => Standing::Lost,
            // Nobody tells when another takes them.
            Self::Taken(_) => Standing::Unconfirmed,
            Self::Lease(lease) => lock(lease).as_ref().map_or(Standing::Lost, Lease::standing),
        }
    }

    /// How the shard is to be opened.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Unavailable`] unless the claim is sure.
    pub fn takeover(&self) -> Result<Takeover, Error> {
        match self {
            Self::Directory => Ok(Takeover::Uncontested),
            Self::Taken(_) if self.standing() == Standing::Lost => Err(self.refusal()),
            Self::Taken(taken) => Ok(Takeover::By(taken.owner.clone())),
            Self::Lease(lease) => match lock(lease).as_ref() {
                // A process that was stopped since it took the lease must not end the ownership of
                // whoever has had the shard meanwhile.
                Some(lease) if lease.standing() == Standing::Held => {
                    Ok(Takeover::By(lease.token().to_owned()))
                }
                Some(_) | None => Err(not_owner()),
            },
        }
    }

    /// Makes sure, once the shard is open, that it was nobody else's when it was taken over.
    ///
    /// # Errors
    /// Those of [`Lease::confirm`].
    pub async fn confirm_takeover(&self, deadline: Instant) -> Result<(), Error> {
        let Self::Lease(lease) = self else { return Ok(()) };
        let confirming = lock(lease).as_ref().map(|lease| lease.confirm(deadline));
        match confirming {
            Some(confirming) => confirming.await,
            None => Err(not_owner()),
        }
    }

    /// Has been told by the storage that another wrote to the shard.
    pub fn overtaken(&self) {
        if let Self::Taken(taken) = self {
            taken.is_lost.store(true, Ordering::Release);
        }
    }

    /// Why another is to be asked.
    pub fn refusal(&self) -> Error {
        match self {
            Self::Directory | Self::Lease(_) => not_owner(),
            Self::Taken(_) => Error::new(
                clew_core::ErrorKind::WrongState,
                "DATA_DIRECTORY_TAKEN",
                "another process took over this data directory; speak to that one with --endpoint, \
                 or end it and start this one again",
            ),
        }
    }

    /// Refuses what was read if another may have written since. Asks the storage only where the
    /// lease does not answer for it.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Unavailable`] if another has the shard; those of the storage.
    pub async fn confirm(&self, read_from: &ShardReader) -> Result<(), Error> {
        if self.standing() == Standing::Held {
            return Ok(());
        }
        let lapse = match self {
            Self::Directory | Self::Taken(_) => None,
            Self::Lease(lease) => lock(lease).as_ref().and_then(Lease::lapse),
        };
        if self.standing() == Standing::Lost && matches!(self, Self::Taken(_)) {
            return Err(self.refusal());
        }
        if !read_from.is_current().await? {
            self.overtaken();
            return Err(self.refusal());
        }
        if let (Self::Lease(lease), Some(lapse)) = (self, lapse)
            && let Some(lease) = lock(lease).as_ref()
        {
            lease.settle(lapse);
        }
        Ok(())
    }

    /// Gives the shard back to whoever takes it next.
    pub async fn give_back(&self, deadline: Instant) {
        let lease = match self {
            Self::Directory | Self::Taken(_) => None,
            Self::Lease(lease) => lock(lease).take(),
        };
        if let Some(lease) = lease
            && let Err(error) = lease.give_back(deadline).await
        {
            tracing::warn!(
                error = error.chain(),
                "the next owner has to wait for the lease to end"
            );
        }
    }
}

// No code that can panic runs under the lock, so a poisoned one holds a valid lease.
fn lock(lease: &Mutex<Option<Lease>>) -> MutexGuard<'_, Option<Lease>> {
    lease.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer for shards of others.
pub(crate) fn not_owner() -> Error {
    Error::new(
        clew_core::ErrorKind::Unavailable,
        "NOT_OWNER",
        "another node owns the shard; ask that one",
    )
}
