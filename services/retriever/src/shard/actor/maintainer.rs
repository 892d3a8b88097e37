//! The maintainer: regularly asks the writer to do the maintenance that the tables need. In the
//! writer's queue, maintenance does not run against other commits.

use std::time::{Duration, Instant};

use clew_index::ShardReader;
use clew_runtime::deadline::ask;
use ractor::ActorRef;

use crate::shard::actor::writer;

/// Bound against a hung disk, not an estimate.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Interval at which postponed maintenance is tried again.
const POSTPONED: Duration = Duration::from_secs(60);

/// Requests maintenance for as long as the shard has a writer.
pub(crate) async fn maintain(
    writer: ActorRef<writer::Message>,
    mut reader: ShardReader,
    interval: Duration,
) {
    loop {
        let deadline = Instant::now() + PATIENCE;
        let maintained = ask(&writer, deadline, "maintaining the tables", |reply| {
            writer::Message::Maintain { reply }
        });
        if let Err(error) = maintained.await {
            tracing::warn!(error = error.chain(), "maintenance did not finish; tried again later");
        }
        tokio::time::sleep(interval).await;
        // Tables that have not changed need nothing but postponed maintenance.
        tokio::select! {
            lives = reader.changed() => if !lives { return },
            () = tokio::time::sleep(POSTPONED) => {}
        }
    }
}
