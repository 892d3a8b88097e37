//! The actors of a shard, and the tasks that run beside them.

pub(crate) mod indexer;
pub(crate) mod maintainer;
pub(crate) mod retention;
pub(crate) mod scrubber;
pub(crate) mod settings_watcher;
pub(crate) mod task_actor;
pub(crate) mod writer;
