//! The settings watcher: applies changed settings of the corpus to a running shard, first to its
//! tables and then to its indexer, while searches go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::CorpusSettings;
use clew_index::ShardSettings;
use clew_runtime::backoff::Backoff;
use clew_runtime::deadline::ask;
use ractor::ActorRef;
use tokio::sync::watch;

use crate::shard::actor::{indexer, writer};

/// Bound against hung storage, not an estimate: the writer may be in the middle of maintenance.
const PATIENCE: Duration = Duration::from_secs(3600);
/// First and longest pause after the storage refused.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Applies the settings whenever they change, until their sender is gone.
pub(crate) async fn keep_settled(
    name: String,
    mut changes: watch::Receiver<Arc<CorpusSettings>>,
    writer: ActorRef<writer::Message>,
    indexer: ActorRef<indexer::Message>,
) {
    let mut pause = Backoff::new(PAUSES.0, PAUSES.1);
    while changes.changed().await.is_ok() {
        loop {
            let settings = Arc::clone(&changes.borrow_and_update());
            let deadline = Instant::now() + PATIENCE;
            let settled = ask(&writer, deadline, "taking over settings", |reply| {
                let settings = Box::new(ShardSettings::of(&settings));
                writer::Message::Settle { settings, reply }
            });
            match settled.await {
                Ok(()) => {
                    pause.reset();
                    // Without an indexer the shard is being restarted, with these settings.
                    drop(indexer.cast(indexer::Message::Settled(settings)));
                    break;
                }
                Err(error) => {
                    let error = error.chain();
                    tracing::warn!(
                        shard = name,
                        error,
                        "settings were not taken over; tried again"
                    );
                    tokio::time::sleep(pause.next_delay()).await;
                }
            }
        }
    }
}
