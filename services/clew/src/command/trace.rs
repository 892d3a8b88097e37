//! `clew trace`.

use std::path::Path;

use anyhow::Context;

use crate::cli::{Trace, TraceAction};
use crate::output;

/// Shows a trace. It needs neither a server nor data.
pub fn run(arguments: &Trace) -> anyhow::Result<()> {
    let TraceAction::Show { file, svg } = &arguments.action;
    let trace = clew_trace::Trace::read(&output::read(file)?)
        .with_context(|| format!("`{}` is no trace", file.display()))?;
    match svg {
        Some(to) => output::write(to, &clew_trace::svg(&trace)),
        None => output::write(Path::new("-"), &clew_trace::tree(&trace)),
    }
}
