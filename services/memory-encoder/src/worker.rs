//! One device worker: an actor that owns the thread which computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clew_model::{EmbeddingModel, Scratch};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::queue::Queue;

/// The actor; its state is the stop flag of its thread.
pub(crate) struct DeviceWorker;

/// Messages of [`DeviceWorker`].
#[derive(Debug)]
pub(crate) enum Message {
    /// The thread ended in a panic.
    ThreadPanicked,
}

/// What a worker works with.
pub(crate) struct Arguments {
    pub number: usize,
    pub model: Arc<EmbeddingModel>,
    pub queue: Arc<Queue>,
}

/// Tells the thread to end, when the actor does.
pub(crate) struct State {
    stopped: Arc<AtomicBool>,
    queue: Arc<Queue>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.queue.wake();
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
        let Arguments { number, model, queue } = arguments;
        let stopped = Arc::new(AtomicBool::new(false));
        let state = State { stopped: Arc::clone(&stopped), queue: Arc::clone(&queue) };
        std::thread::Builder::new().name(format!("encoder-{number}")).spawn(move || {
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                work(&model, &queue, &|| stopped.load(Ordering::Acquire));
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
        Err("the encoder's thread panicked".into())
    }
}

fn work(model: &EmbeddingModel, queue: &Queue, stopped: &dyn Fn() -> bool) {
    let mut scratch = Scratch::default();
    while let Some(batch) = queue.next(stopped) {
        let started = Instant::now();
        let embedded = model.embed(&batch.texts, &mut scratch).map_err(clew_core::Error::from);
        queue.record_busy(started.elapsed());
        // A caller that left meanwhile does not want the result.
        drop(batch.reply.send(embedded));
        drop(batch.permit);
    }
}
