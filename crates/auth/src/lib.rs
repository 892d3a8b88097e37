//! Authentication and authorisation: API keys, tenants, scopes, quotas, and the guard before every
//! service.
//!
//! ```text
//! connection (what it proves) ─┐
//! authorization: Bearer KEY ───┼─► Guard ─► Caller, in the request's extensions ─► handler
//! method (what it needs) ──────┘     └─► UNAUTHENTICATED, PERMISSION_DENIED, RESOURCE_EXHAUSTED
//! ```
//!
//! A [`Bill`] records the tokens that a request spends on models, so that its tenant pays for them
//! however the request ends.
//!
//! Keys are random, so a plain hash of a key is safe to store: nobody can guess the key from it.

mod bill;
mod caller;
mod config;
mod guard;
mod key;
mod keys;
mod methods;
mod tenant;

pub use bill::Bill;
pub use caller::{Caller, Granted, Metered, QuotaLeft, Scope, Scopes};
pub use config::AuthConfig;
pub use guard::{Guard, Guarded};
pub use key::{ApiKey, KeyHash};
pub use keys::{KeyEntry, Keys};
pub use methods::{METHODS, RequiredAccess, is_for_nodes};
pub use tenant::TenantEntry;
