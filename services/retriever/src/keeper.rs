//! An actor that runs one task for as long as it lives.

use std::pin::Pin;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;

/// An actor whose state is a running task, which ends with the actor.
pub(crate) struct Keeper;

/// Task that a keeper runs.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Actor for Keeper {
    type Msg = ();
    type State = JoinSet<()>;
    type Arguments = Task;

    async fn pre_start(
        &self,
        _myself: ActorRef<()>,
        task: Task,
    ) -> Result<JoinSet<()>, ActorProcessingErr> {
        let mut running = JoinSet::new();
        running.spawn(task);
        Ok(running)
    }
}
