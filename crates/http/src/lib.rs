//! The HTTP front: one listener for JSON, gRPC-Web, OpenAI's shapes, MCP and Dify.
//!
//! ```text
//! connection ─► limits ─► Host, Origin ─► router ─┬─► /api ─┐
//!                                                 ├─► /v1  ─┼─► Services: guard, handlers
//!                                                 └─► /mcp ─┘
//! ```
//!
//! Every route is a thin client of the services that gRPC clients call ([`clew_client::Services`]),
//! on behalf of its own caller ([`CallHeaders`]). So keys, tenants, labels, quotas, deadlines,
//! traces and errors have one implementation. [`errors`] turns the status of a call into the
//! response of a route. Other crates add their routes by [`Front::merge`] and [`Front::nest`].

mod admission;
mod api;
mod config;
mod connections;
pub mod errors;
mod front;
mod headers;
mod metrics;
mod received;

pub use config::HttpConfig;
pub use errors::Failure;
pub use front::Front;
pub use headers::CallHeaders;
pub use received::Received;
