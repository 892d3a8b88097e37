//! What every service runs on: admission, deadlines, supervised restarts, remote peers and pools of
//! them, configuration, logging.

pub mod admission;
pub mod backoff;
pub mod config;
pub mod deadline;
pub mod logging;
pub mod peer;
pub mod pool;
pub mod supervise;
pub mod tree;
