//! Command `clew config`.

mod reference;

use clap::{Args, Subcommand};
use schemars::schema_for;
use serde_json::json;

use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::output::Output;

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// Views of the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Show the effective configuration, as `clew serve --print-config` does.
    Show,
    /// Describe every key in Markdown: type, default, meaning.
    Reference,
    /// Print the JSON Schema of the configuration, which editors check a file with.
    Schema,
}

/// Shows or describes the configuration. Needs neither a server nor data.
pub fn run(global: &GlobalArgs, arguments: ConfigArgs, output: &Output) -> anyhow::Result<()> {
    match arguments.action {
        ConfigAction::Show => {
            let config = ClewConfig::load(global, None)?;
            let rendered = clew_runtime::config::render(&config)?;
            output.print(&config, |_| rendered)
        }
        ConfigAction::Reference => {
            let keys = reference::keys()?;
            output.print(&json!({ "keys": keys }), |_| reference::markdown(&keys))
        }
        ConfigAction::Schema => {
            let schema = schema_for!(ClewConfig);
            output.print(&schema, |schema| format!("{:#}", schema.as_value()))
        }
    }
}
