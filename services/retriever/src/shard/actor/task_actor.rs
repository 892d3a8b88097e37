//! An actor that runs one task for as long as it lives.

use std::pin::Pin;

use clew_core::Error;
use clew_runtime::supervise::start_child;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};
use tokio::task::JoinSet;

/// Runs a task under a supervisor. The task ends with its actor.
///
/// # Errors
/// Returns the errors of [`start_child`].
pub(crate) async fn keep(
    supervisor: &ActorCell,
    task: impl Future<Output = ()> + Send + 'static,
) -> Result<ActorRef<()>, Error> {
    start_child(TaskActor, Box::pin(task) as Task, supervisor.clone()).await
}

/// An actor whose state is a running task.
struct TaskActor;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Actor for TaskActor {
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
