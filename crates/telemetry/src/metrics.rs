//! Instruments, and the metrics that all parts of Clew share.
//!
//! Names follow Prometheus: an instrument `clew_x` with the unit `s` becomes `clew_x_seconds`, and
//! a counter ends in `_total`. A metric has at most 2,000 combinations of labels; further ones are
//! summed up in one more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Once};
use std::time::{Duration, Instant};

pub use crate::instruments::{
    Counter, Histogram, KeyValue, Tell, UpDownCounter, counter, durations, gauge, label, level,
    observed_counter,
};
use crate::queue;

static STAGES: LazyLock<(Histogram<f64>, Counter<u64>)> = LazyLock::new(|| {
    (
        durations("clew_stage_duration", "How long a piece of work of a stage took."),
        counter("clew_stage_errors", "Pieces of work of a stage that failed."),
    )
});

/// Runs `work` as one operation of the stage `name`, and records its count, its duration and
/// whether it failed. Work that is dropped before it ends is not recorded.
///
/// # Errors
/// Returns the errors of `work`.
pub async fn stage<T, E>(
    name: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let began = Instant::now();
    let done = work.await;
    stage_ended(name, began.elapsed(), done.is_err());
    done
}

/// Records one finished operation of a stage; see [`stage`].
pub fn stage_ended(name: &'static str, took: Duration, failed: bool) {
    let (durations, errors) = &*STAGES;
    let labels = [label("stage", name)];
    durations.record(took.as_secs_f64(), &labels);
    // Adds 0 as well: an absent counter would raise no alert.
    errors.add(u64::from(failed), &labels);
}

static MODELS: LazyLock<(Counter<u64>, Counter<u64>)> = LazyLock::new(|| {
    (
        counter("clew_model_calls", "Calls of a language model, by how they ended."),
        counter(
            "clew_model_tokens",
            "Tokens that a language model read (prompt) or wrote (completion).",
        ),
    )
});

/// Counts calls of the language model `model`.
pub fn model_called(model: &str, calls: u64, failed: bool) {
    let outcome = if failed { "error" } else { "ok" };
    let labels = [label("model", model.to_owned()), label("outcome", outcome)];
    MODELS.0.add(calls, &labels);
}

/// Counts tokens that the language model `model` read and wrote.
pub fn model_tokens(model: &str, prompt: u64, completion: u64) {
    for (kind, tokens) in [("prompt", prompt), ("completion", completion)] {
        let labels = [label("model", model.to_owned()), label("kind", kind)];
        MODELS.1.add(tokens, &labels);
    }
}

static NAMES_CORPORA: AtomicBool = AtomicBool::new(false);

/// Sets whether labels carry names of corpora.
pub(crate) fn name_corpora(names: bool) {
    NAMES_CORPORA.store(names, Ordering::Relaxed);
}

/// Returns the label of a corpus: its creation time in milliseconds since 1970, or its name if the
/// configuration says so.
pub fn corpus_label(name: &str, created_at_millis: i64) -> KeyValue {
    let corpus = match NAMES_CORPORA.load(Ordering::Relaxed) {
        true => name.to_owned(),
        false => created_at_millis.to_string(),
    };
    label("corpus", corpus)
}

/// Creates the observed metrics of queues and of the process itself.
pub(crate) fn observe_process() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        queue::observe();
        gauge(
            "clew_process_resident_memory",
            "By",
            "Memory that the process has in RAM.",
            |tell| {
                if let Some(bytes) = resident_bytes() {
                    tell(bytes as f64, &[]);
                }
            },
        );
        gauge(
            "clew_process_open_files",
            "",
            "Files and sockets that the process has open.",
            |tell| {
                if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
                    tell(files.count() as f64, &[]);
                }
            },
        );
        let began = Instant::now();
        gauge("clew_process_uptime", "s", "Time since the process began.", move |tell| {
            tell(began.elapsed().as_secs_f64(), &[]);
        });
        let version = env!("CARGO_PKG_VERSION");
        gauge("clew_build_info", "", "1, with the version of the program.", move |tell| {
            tell(1.0, &[label("version", version)]);
        });
    });
}

/// Returns the resident memory, on systems that have `/proc`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_tells_how_much_memory_is_used() {
        assert!(resident_bytes().unwrap() > 1 << 20);
    }
}
