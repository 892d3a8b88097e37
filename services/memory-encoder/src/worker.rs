//! Device worker: an actor that owns the thread which computes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ractor::{Actor, ActorProcessingErr, ActorRef};

/// Actor whose state is the stop flag of its thread.
pub(crate) struct DeviceWorker;

/// Messages of [`DeviceWorker`].
#[derive(Debug)]
pub(crate) enum Message {
    /// The thread ended in a panic.
    ThreadPanicked,
}

/// Work of a thread. Its argument returns whether the thread has to stop.
pub(crate) type Work = Box<dyn FnOnce(&dyn Fn() -> bool) + Send>;

/// Arguments of [`DeviceWorker`].
pub(crate) struct Arguments {
    /// Name of the thread.
    pub name: String,
    /// Work of the thread. It ends soon after its argument returns true.
    pub work: Work,
    /// Function that wakes the thread if it waits for work.
    pub wake: Box<dyn Fn() + Send + Sync>,
}

/// State that tells the thread to end when the actor ends.
pub(crate) struct State {
    name: String,
    stopped: Arc<AtomicBool>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        (self.wake)();
    }
}

impl Actor for DeviceWorker {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let Arguments { name, work, wake } = arguments;
        let stopped = Arc::new(AtomicBool::new(false));
        let state = State { name: name.clone(), stopped: Arc::clone(&stopped), wake };
        std::thread::Builder::new().name(name).spawn(move || {
            let is_stopped = || stopped.load(Ordering::Acquire);
            if catch_unwind(AssertUnwindSafe(|| work(&is_stopped))).is_err() {
                // Fails if the actor is gone already; then nobody needs the message.
                drop(myself.cast(Message::ThreadPanicked));
            }
        })?;
        Ok(state)
    }

    async fn handle(
        &self,
        _myself: ActorRef<Message>,
        Message::ThreadPanicked: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        Err(format!("the thread {} panicked", state.name).into())
    }
}
