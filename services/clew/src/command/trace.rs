//! `clew trace`.

use std::io::Read;
use std::path::Path;

use anyhow::Context;

use crate::cli::{Trace, TraceAction};
use crate::output;

/// Shows a trace. It needs neither a server nor data.
pub fn run(arguments: &Trace) -> anyhow::Result<()> {
    let TraceAction::Show { file, svg } = &arguments.action;
    let trace = clew_trace::Trace::read(&read(file)?)
        .with_context(|| format!("`{}` is no trace", file.display()))?;
    match svg {
        Some(to) => output::write(to, &clew_trace::svg(&trace)),
        None => output::write(Path::new("-"), &clew_trace::tree(&trace)),
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() != "-" {
        return std::fs::read_to_string(file)
            .with_context(|| format!("cannot read `{}`", file.display()));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text)
}
