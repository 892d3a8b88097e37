//! The maintainer: asks the writer, from time to time and after bursts of commits, to do what
//! maintenance the tables want. The writer's queue keeps it from running against other commits.

use std::time::{Duration, Instant};

use clew_index::ShardReader;
use clew_runtime::deadline::ask;
use ractor::ActorRef;

use crate::writer;

/// A bound against a hung disk, not an estimate.
const PATIENCE: Duration = Duration::from_secs(3600);
/// When maintenance that was put off is tried again.
const POSTPONED: Duration = Duration::from_secs(60);

/// Asks for as long as the shard has a writer.
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
        // Tables that do not change want nothing but what was put off.
        tokio::select! {
            lives = reader.changed() => if !lives { return },
            () = tokio::time::sleep(POSTPONED) => {}
        }
    }
}
