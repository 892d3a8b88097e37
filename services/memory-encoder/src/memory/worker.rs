//! Worker of a memory model.

use std::sync::Arc;

use clew_core::Error;
use clew_model::memory::{MemoryReader, MemoryState};
use clew_runtime::breaker::Breaker;
use clew_runtime::supervise::{Line, start_child};
use ractor::ActorCell;

use super::device::Device;
use super::peers::Peers;
use super::queue::Queue;
use super::ready::Ready;
use super::settings::Settings;
use crate::worker::{Arguments, DeviceWorker};

/// Worker that is restarted if it fails.
pub(super) struct Worker {
    pub reader: Arc<MemoryReader>,
    pub queue: Arc<Queue>,
    pub ready: Arc<Ready<MemoryState>>,
    pub breaker: Arc<Breaker>,
    pub peers: Arc<Peers>,
    pub settings: Settings,
}

impl Line for Worker {
    type Handle = ();

    fn name(&self) -> String {
        "memory model".to_owned()
    }

    async fn start(&self, supervisor: ActorCell, _generation: u64) -> Result<(), Error> {
        // A thread that panicked may have left memories in any state.
        self.ready.clear();
        let device = Device {
            reader: Arc::clone(&self.reader),
            queue: Arc::clone(&self.queue),
            ready: Arc::clone(&self.ready),
            breaker: Arc::clone(&self.breaker),
            peers: Arc::clone(&self.peers),
            settings: self.settings,
        };
        let queue = Arc::clone(&self.queue);
        let arguments = Arguments {
            name: "memory-model".to_owned(),
            work: Box::new(move |stopped| device.work(stopped)),
            wake: Box::new(move || queue.wake()),
        };
        start_child(DeviceWorker, arguments, supervisor).await?;
        Ok(())
    }
}
