//! What every service runs on: admission, deadlines, supervised restarts, remote peers and pools of
//! them, configuration, and where the time of requests goes.

pub mod admission;
pub mod backoff;
pub mod config;
pub mod deadline;
pub mod peer;
pub mod pool;
pub mod supervise;
pub mod timing;
pub mod tree;
pub mod turns;

use std::time::Duration;

/// How long threads that block get to end.
const BLOCKED_PATIENCE: Duration = Duration::from_secs(1);

/// Ends an asynchronous runtime whose work is done. A thread that hangs in a file system or in code of
/// others cannot be ended; it does not keep the process from ending.
pub fn shutdown(runtime: tokio::runtime::Runtime) {
    runtime.shutdown_timeout(BLOCKED_PATIENCE);
}
