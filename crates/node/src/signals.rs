//! How a process hears that it is to end.

use clew_core::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals by which a process is told to end, SIGINT and SIGTERM. They end nothing by themselves any more once this
/// is made: whoever has it listens at every wait, also while it starts.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Internal`] if the system refuses.
    pub fn listen() -> Result<Self, Error> {
        let failed = |error| Error::internal("no signal handler could be set").with_source(error);
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        Ok(Self { interrupt, terminate })
    }

    /// Waits until the process is told to end.
    pub async fn told(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Starts something; `None`, and a line for who looks, if the process is told to end before it runs.
    pub async fn unless_told<T>(&mut self, starting: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            started = starting => Some(started),
            () = self.told() => {
                eprintln!("told to end while starting; nothing was served");
                None
            }
        }
    }
}
