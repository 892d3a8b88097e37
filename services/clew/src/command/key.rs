//! `clew key`.

use anyhow::Context;
use clew_auth::{ApiKey, KeyEntry};
use serde::Serialize;
use serde_json::json;

use crate::cli::Key;
use crate::output::Output;

/// An entry as it stands in the file of keys.
#[derive(Serialize)]
struct File<'a> {
    key: [&'a KeyEntry; 1],
}

/// Makes a key: prints it, which nobody can do again, and what goes into the file of keys.
pub fn run(arguments: Key, output: &Output) -> anyhow::Result<()> {
    let key = ApiKey::generate()?;
    let expires = arguments.expires.map(|time| time.to_string().parse()).transpose();
    let entry = KeyEntry {
        name: arguments.name,
        hash: key.hash(),
        tenant: arguments.tenant,
        scopes: arguments.scopes.into_iter().collect(),
        labels: arguments.labels.into_iter().collect(),
        expires: expires.context("the time has no written form")?,
    };
    let stored = toml::to_string(&File { key: [&entry] }).context("the key has no TOML form")?;
    let document = json!({ "key": key.reveal(), "stored": stored });
    output.print(&document, |_| {
        let key = key.reveal();
        format!("{key}\n\nIt is shown this once. Add this to the file that `auth.keys_file` names:\n\n{stored}")
    })
}
