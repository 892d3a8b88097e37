//! The claim of a shard: the right by which this process owns it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clew_cluster::{Lapse, Lease, Standing};
use clew_core::Error;
use clew_index::{Left, ShardReader, Takeover};

/// Right by which this process owns a shard. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub(crate) enum Claim {
    /// This process holds the lock of the data directory.
    Directory,
    /// This process took the shard over from storage that cannot be locked. It owns the shard until
    /// another process does the same.
    Taken(Arc<Taken>),
    /// This node holds a lease, until it gives it back.
    Lease(Arc<Mutex<Option<Lease>>>),
}

/// A shard that this process took over.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Name of the process, for people who read the tables.
    owner: String,
    /// Whether another process took the shard over. This process then never takes it back: two
    /// processes that both did so would do it forever.
    is_lost: AtomicBool,
}

impl Claim {
    /// Creates the claim of a process of that name on a shard that it takes over.
    pub fn of_taker(owner: String) -> Self {
        Self::Taken(Arc::new(Taken { owner, is_lost: AtomicBool::new(false) }))
    }

    pub fn of_lease(lease: Lease) -> Self {
        Self::Lease(Arc::new(Mutex::new(Some(lease))))
    }

    /// Returns the current standing of the claim.
    pub fn standing(&self) -> Standing {
        match self {
            Self::Directory => Standing::Held,
            Self::Taken(taken) if taken.is_lost.load(Ordering::Acquire) => Standing::Lost,
            // Nothing reports a takeover by another process.
            Self::Taken(_) => Standing::Unconfirmed,
            Self::Lease(lease) => lock(lease).as_ref().map_or(Standing::Lost, Lease::standing),
        }
    }

    /// Returns the way in which the shard is to be opened. `left` is how this process left it last.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Unavailable`] if another node may have the lease, and
    /// [`clew_core::ErrorKind::WrongState`] if another process took the data directory over.
    pub fn takeover(&self, left: Option<Left>) -> Result<Takeover, Error> {
        let take_over = |owner: &str| match left {
            Some(left) if left.owner() == owner => Takeover::Back(left),
            _ => Takeover::By(owner.to_owned()),
        };
        match self {
            Self::Directory => Ok(Takeover::Uncontested),
            Self::Taken(_) if self.standing() == Standing::Lost => Err(self.refusal()),
            Self::Taken(taken) => Ok(take_over(&taken.owner)),
            Self::Lease(lease) => match lock(lease).as_ref() {
                // A process that was suspended after it took the lease must not end the ownership
                // of a node that has taken the shard since.
                Some(lease) if lease.is_confirmed() => Ok(take_over(lease.token())),
                Some(_) | None => Err(not_owner()),
            },
        }
    }

    /// Returns the period in which another node may have had the shard unnoticed.
    pub fn lapse(&self) -> Option<Lapse> {
        match self {
            Self::Directory | Self::Taken(_) => None,
            Self::Lease(lease) => lock(lease).as_ref().and_then(Lease::lapse),
        }
    }

    fn settle(&self, lapse: Option<Lapse>) {
        if let (Self::Lease(lease), Some(lapse)) = (self, lapse)
            && let Some(lease) = lock(lease).as_ref()
        {
            lease.settle(lapse);
        }
    }

    /// Confirms, once the shard is open, that nobody else owned it when it was taken over. `before`
    /// is the lapse before the takeover. It is over, since whatever was written in it has been read
    /// now.
    ///
    /// # Errors
    /// Returns the errors of [`Lease::confirm`], and [`clew_core::ErrorKind::Unavailable`] if the
    /// lease was given back.
    pub async fn confirm_takeover(
        &self,
        before: Option<Lapse>,
        deadline: Instant,
    ) -> Result<(), Error> {
        let Self::Lease(lease) = self else { return Ok(()) };
        let confirming = lock(lease).as_ref().map(|lease| lease.confirm(deadline));
        confirming.ok_or_else(not_owner)?.await?;
        self.settle(before);
        Ok(())
    }

    /// Records that the storage reported a write of another owner.
    pub fn overtaken(&self) {
        if let Self::Taken(taken) = self {
            taken.is_lost.store(true, Ordering::Release);
        }
    }

    /// Returns the error for callers when another owns the shard.
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

    /// Returns the error for callers whose write failed. Without a lease, files that are missing
    /// are no sign of damage: another owner may have replaced them.
    pub fn blamed(&self, error: Error) -> Error {
        let may_be_replaced = matches!(self, Self::Lease(_)) && self.standing() != Standing::Held;
        let is_damage = error.kind() == clew_core::ErrorKind::DataLoss;
        if may_be_replaced && is_damage { not_owner().with_source(error) } else { error }
    }

    /// Checks that nobody else can have written to the shard before a read. Asks the storage only
    /// where the lease does not guarantee it.
    ///
    /// # Errors
    /// Returns the error of [`Self::refusal`] if another owns the shard, and storage errors.
    pub async fn confirm(&self, read_from: &ShardReader) -> Result<(), Error> {
        if self.standing() == Standing::Held {
            return Ok(());
        }
        let lapse = self.lapse();
        if self.standing() == Standing::Lost && matches!(self, Self::Taken(_)) {
            return Err(self.refusal());
        }
        if !read_from.is_current().await? {
            self.overtaken();
            return Err(self.refusal());
        }
        self.settle(lapse);
        Ok(())
    }

    /// Gives a lease back, so that the next owner does not have to wait for its end.
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

// No code that can panic runs under the lock, so a poisoned one still holds a valid lease.
fn lock(lease: &Mutex<Option<Lease>>) -> MutexGuard<'_, Option<Lease>> {
    lease.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the error for shards that another node owns.
pub(crate) fn not_owner() -> Error {
    Error::new(
        clew_core::ErrorKind::Unavailable,
        "NOT_OWNER",
        "another node owns the shard; ask that one",
    )
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;

    use super::*;

    #[test]
    fn what_is_missing_is_no_damage_where_another_may_own_the_shard() {
        let damage = || Error::new(ErrorKind::DataLoss, "DATA_LOSS", "a file is missing");
        let given_back = Claim::Lease(Arc::new(Mutex::new(None)));
        let blamed = given_back.blamed(damage());
        assert_eq!(blamed.reason(), "NOT_OWNER");
        assert!(
            blamed.is_retryable() && blamed.chain().contains("a file is missing"),
            "{blamed:?}"
        );
        let full = Error::new(ErrorKind::Exhausted, "DISK_FULL", "the disk is full");
        assert_eq!(given_back.blamed(full).reason(), "DISK_FULL");
        for owner in [Claim::Directory, Claim::of_taker("here".to_owned())] {
            assert_eq!(owner.blamed(damage()).reason(), "DATA_LOSS");
        }
    }
}
