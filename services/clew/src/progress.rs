//! Progress of long work, always on standard error: a bar on a terminal, plain lines otherwise.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Display of the progress of some work.
pub struct Progress {
    bar: Option<ProgressBar>,
    label: &'static str,
    last_line: Option<Instant>,
}

impl Progress {
    /// Creates a display for the work that `label` names.
    pub fn new(label: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg} ({elapsed})")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(label);
            bar
        });
        Self { bar, label, last_line: None }
    }

    /// Shows that `done` of `total` are done.
    pub fn set(&mut self, done: u64, total: u64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(message.to_owned());
            return;
        }
        let now = Instant::now();
        let due = self.last_line.is_none_or(|last| now.duration_since(last) >= LINE_INTERVAL);
        if due {
            self.last_line = Some(now);
            eprintln!("{} {done}/{total} {message}", self.label);
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
