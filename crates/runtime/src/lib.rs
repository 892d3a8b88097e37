//! What every service runs on: admission, deadlines, supervised restarts, configuration, logging.

pub mod admission;
pub mod backoff;
pub mod config;
pub mod deadline;
pub mod logging;
pub mod supervise;
