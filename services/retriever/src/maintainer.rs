//! The maintainer: asks the writer, from time to time and after bursts of commits, to do what
//! maintenance the tables want. The writer's queue keeps it from running against other commits.

use std::time::{Duration, Instant};

use clew_index::ShardReader;
use clew_runtime::deadline::ask;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;

use crate::writer;

/// The actor; its state is the task that keeps the time.
pub(crate) struct Maintainer;

/// What a maintainer works with.
pub(crate) struct Arguments {
    pub writer: ActorRef<writer::Message>,
    pub reader: ShardReader,
    pub interval: Duration,
}

/// A bound against a hung disk, not an estimate.
const PATIENCE: Duration = Duration::from_secs(3600);
/// When maintenance that was put off is tried again.
const POSTPONED: Duration = Duration::from_secs(60);

impl Actor for Maintainer {
    type Msg = ();
    type State = JoinSet<()>;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<()>,
        arguments: Arguments,
    ) -> Result<JoinSet<()>, ActorProcessingErr> {
        let mut task = JoinSet::new();
        task.spawn(maintain(arguments));
        Ok(task)
    }
}

async fn maintain(Arguments { writer, mut reader, interval }: Arguments) {
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
