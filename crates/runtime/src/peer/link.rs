//! A connection to a peer.

use clew_core::{Error, ErrorKind};
use clew_telemetry::Traced;
use tokio::sync::watch;
use tonic;

/// Channel for calls to a peer. The calls carry the trace.
pub type Channel = Traced<tonic::transport::Channel>;

/// Connection to a peer. Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct Link {
    pub(super) channel: tonic::transport::Channel,
    pub(super) generation: u64,
    /// Receiver that is closed when the connection ends.
    pub(super) open: watch::Receiver<()>,
}

impl Link {
    /// Returns the channel for calls. It is good for this one connection and does not reconnect.
    pub fn channel(&self) -> Channel {
        Traced::following(self.channel.clone())
    }

    /// Returns the number of this connection to the peer, from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns whether the connection has ended.
    pub fn is_lost(&self) -> bool {
        self.open.has_changed().is_err()
    }

    /// Waits for the end of the connection.
    pub async fn lost(&self) {
        let mut open = self.open.clone();
        // Nothing is ever sent. The sender is dropped with the connection.
        while open.changed().await.is_ok() {}
    }

    /// Returns the result of `work` on this connection, or an error as soon as the connection is
    /// lost.
    ///
    /// # Errors
    /// Returns the error of `work`, or [`ErrorKind::Unavailable`] with the reason `PEER_LOST` if
    /// the connection is lost.
    pub async fn run<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            done = work => done,
            () = self.lost() => Err(lost()),
        }
    }
}

/// Returns the error for work on a connection that ended.
pub(super) fn lost() -> Error {
    let problem = "the connection to a peer was lost; retry";
    Error::new(ErrorKind::Unavailable, "PEER_LOST", problem)
}
