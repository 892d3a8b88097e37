//! Clew's tools for agents, by the Model Context Protocol: over HTTP and over stdio.
//!
//! An agent sees up to eight tools. Each call becomes one or a few calls of the services that
//! gRPC clients call, with the key of the agent's own request, so keys, tenants, labels and quotas
//! hold here as they hold there. Nothing is kept between two requests, so an agent may ask another
//! gateway each time.
//!
//! What the tools return was written by others. It is only ever in the results of calls, which are
//! marked as data; nothing stored gets into the instructions or the descriptions of the tools. The
//! server itself never stores what a tool returned.

mod caller;
mod config;
mod endpoint;
mod server;
mod stdio;
mod tool;

pub use config::McpConfig;
pub use endpoint::router;
pub use server::McpServer;
pub use stdio::serve_stdio;
