//! Command `clew completions`.

use std::path::Path;

use clap::Args;
use clap_complete::Shell;

use crate::output;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that is to complete words.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints the script with which a shell completes the words of `command`. Needs neither a server
/// nor data.
pub fn run(arguments: &CompletionsArgs, command: clap::Command) -> anyhow::Result<()> {
    output::write(Path::new("-"), &script(arguments.shell, command))
}

/// Returns the script for a shell.
pub fn script(shell: Shell, mut command: clap::Command) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
