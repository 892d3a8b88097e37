//! Signals that tell the process to end.

use clew_core::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receiver of SIGINT and SIGTERM. Once it is created, these signals no longer end the process by
/// themselves, so its owner must listen during every wait, also while the process starts.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts listening for the signals.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Internal`] if the system refuses.
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

    /// Waits for `starting`. If the process is told to end first, prints a line and returns `None`.
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
