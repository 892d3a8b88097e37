//! The worker: an actor that owns the thread of a memory model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clew_core::Error;
use clew_model::memory::{Memory, MemoryReader};
use clew_runtime::supervise::Line;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef};

use super::Settings;
use super::device::Device;
use super::queue::Queue;
use super::ready::Ready;

/// The worker, made anew when it fails.
pub(super) struct Worker {
    pub reader: Arc<MemoryReader>,
    pub queue: Arc<Queue>,
    pub ready: Arc<Ready<Memory>>,
    pub settings: Settings,
}

impl Line for Worker {
    type Handle = ();

    fn name(&self) -> String {
        "memory model".to_owned()
    }

    async fn start(&self, supervisor: ActorCell, _generation: u64) -> Result<(), Error> {
        // What a thread that panicked has left may be anything.
        self.ready.clear();
        let device = Device {
            reader: Arc::clone(&self.reader),
            queue: Arc::clone(&self.queue),
            ready: Arc::clone(&self.ready),
            settings: self.settings,
        };
        let started = Actor::spawn_linked(None, MemoryWorker, device, supervisor).await;
        started
            .map(|_| ())
            .map_err(|e| Error::internal("the memory model's worker did not start").with_source(e))
    }
}

/// The actor; its state is the stop flag of its thread.
struct MemoryWorker;

/// Messages of [`MemoryWorker`].
#[derive(Debug)]
enum Message {
    /// The thread ended in a panic.
    ThreadPanicked,
}

/// Tells the thread to end, when the actor does.
struct State {
    stopped: Arc<AtomicBool>,
    queue: Arc<Queue>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.queue.wake();
    }
}

impl Actor for MemoryWorker {
    type Msg = Message;
    type State = State;
    type Arguments = Device;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        device: Device,
    ) -> Result<State, ActorProcessingErr> {
        let stopped = Arc::new(AtomicBool::new(false));
        let state = State { stopped: Arc::clone(&stopped), queue: Arc::clone(&device.queue) };
        std::thread::Builder::new().name("memory-model".to_owned()).spawn(move || {
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                device.work(&|| stopped.load(Ordering::Acquire));
            }));
            if worked.is_err() {
                // The actor may be gone already; then there is no one to tell.
                drop(myself.cast(Message::ThreadPanicked));
            }
        })?;
        Ok(state)
    }

    async fn handle(
        &self,
        _myself: ActorRef<Message>,
        Message::ThreadPanicked: Message,
        _state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        Err("the memory model's thread panicked".into())
    }
}
