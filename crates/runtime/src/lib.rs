//! Runtime of every service: admission, fair queues, deadlines, supervised restarts, breakers of
//! devices, remote peers and pools of them, configuration, and the timing of requests.

pub mod admission;
pub mod backoff;
pub mod breaker;
pub mod config;
pub mod deadline;
pub mod fair_queue;
mod needs;
pub mod peer;
pub mod pool;
pub mod supervise;
pub mod timing;
pub mod tree;

use std::time::Duration;

/// Time that blocking threads get to end.
const BLOCKED_PATIENCE: Duration = Duration::from_secs(1);

/// Shuts down an asynchronous runtime whose work is done. A thread that hangs in a file system or
/// in third-party code cannot be ended, but it does not keep the process from ending.
pub fn shutdown(runtime: tokio::runtime::Runtime) {
    runtime.shutdown_timeout(BLOCKED_PATIENCE);
}
