//! Command `clew man`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::output;

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder to write a page for each command to; it is created if it does not exist [default:
    /// print the page of `clew` itself].
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

/// Writes the manual pages of `command`. Needs neither a server nor data.
pub fn run(arguments: &ManArgs, command: clap::Command) -> anyhow::Result<()> {
    match &arguments.out {
        Some(folder) => write_pages(folder, command),
        None => {
            let mut page = Vec::new();
            // Like the pages of a folder, which have none for `help`.
            let command = command.disable_help_subcommand(true);
            clap_mangen::Man::new(command).render(&mut page)?;
            output::write(Path::new("-"), &String::from_utf8_lossy(&page))
        }
    }
}

/// Writes a page for `command` and for each command below it: `clew.1`, `clew-corpus-create.1`.
pub fn write_pages(folder: &Path, command: clap::Command) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .with_context(|| format!("cannot write manual pages to `{}`", folder.display()))
}
