//! Who calls and what he may do: API keys, tenants, scopes and quotas, and the guard before every service.
//!
//! ```text
//! connection (what it proves) ─┐
//! authorization: Bearer KEY ───┼─► Guard ─► Caller, in the request's extensions ─► handler
//! method (what it needs) ──────┘     └─► UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED
//! ```
//!
//! What a request spends on models is on a [`Bill`], so that the tenant pays for it however the request ends.
//!
//! Keys are random, so that a hash of them is all that is stored: there is nothing to guess.

mod bill;
mod caller;
mod config;
mod guard;
mod key;
mod keys;
mod methods;
mod tenant;

pub use bill::Bill;
pub use caller::{Caller, Scope, Scopes};
pub use config::AuthConfig;
pub use guard::{Guard, Guarded};
pub use key::{ApiKey, KeyHash};
pub use keys::{KeyEntry, Keys};
pub use methods::{METHODS, Needs, is_for_nodes};
pub use tenant::TenantEntry;
