//! Command `clew key`.

use anyhow::Context;
use clap::Args;
use clew_auth::{ApiKey, KeyEntry, Scope};
use clew_core::{TenantName, Timestamp};
use serde::Serialize;
use serde_json::json;

use crate::output::Output;

/// Arguments of `clew key`.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// Name of the key in logs.
    pub name: String,
    /// Tenant whose corpora the key opens; without it, the key opens the corpora of all tenants,
    /// and the cluster itself.
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<TenantName>,
    /// Scopes that the key opens, with commas between them: read (search, ask, and see what is
    /// stored), write (add and forget documents and turns), admin (create and delete corpora).
    #[arg(long = "scope", value_delimiter = ',', default_value = "read", value_name = "SCOPES")]
    pub scopes: Vec<Scope>,
    /// Access label that the bearer of the key holds, or `*` for all; may be repeated.
    #[arg(long = "holds", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// Time at which the key expires, such as 2030-01-31T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub expires: Option<Timestamp>,
}

/// Entry in the form of the file of keys.
#[derive(Serialize)]
struct File<'a> {
    key: [&'a KeyEntry; 1],
}

/// Creates a key. Prints it, which is not possible later, and the entry for the file of keys.
pub fn run(arguments: KeyArgs, output: &Output) -> anyhow::Result<()> {
    let key = ApiKey::generate()?;
    let expires = arguments.expires.map(|time| time.to_string().parse()).transpose();
    let entry = KeyEntry {
        name: arguments.name,
        hash: key.hash(),
        tenant: arguments.tenant,
        scopes: arguments.scopes.into_iter().collect(),
        labels: arguments.labels.into_iter().collect(),
        expires: expires
            .context("expected an expiry before the year 10000; choose an earlier one")?,
    };
    let stored = toml::to_string(&File { key: [&entry] }).context("the key has no TOML form")?;
    let document = json!({ "key": key.reveal(), "stored": stored });
    output.print(&document, |_| {
        let key = key.reveal();
        format!("{key}\n\nIt is shown this once. Add this to the file that `auth.keys_file` names:\n\n{stored}")
    })
}
