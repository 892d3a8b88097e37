//! Snapshots of corpora: takes, finds, deletes and restores them.

mod copy;
mod deletion;
mod description;
mod holding;
mod restore;
pub(crate) mod snapshots;
mod transfer;
