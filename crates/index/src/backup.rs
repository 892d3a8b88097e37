//! Snapshots of corpora: takes, finds, deletes and restores them.

mod deletion;
mod holding;
mod restore;
pub(crate) mod snapshots;
pub(crate) mod transfer;
