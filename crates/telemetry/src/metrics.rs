//! Instruments, and those that any part of Clew uses.
//!
//! Names follow Prometheus: an instrument `clew_x` of the unit `s` is `clew_x_seconds`, and a counter ends in
//! `_total`. One metric has at most 2,000 combinations of labels; what is beyond is added up in one more.

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

/// Does `work` as a piece of work of the stage of that name: counts it, how long it took and whether it failed. Work
/// that is dropped before its end is not counted.
///
/// # Errors
/// Those of `work`.
pub async fn stage<T, E>(
    name: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let began = Instant::now();
    let done = work.await;
    stage_ended(name, began.elapsed(), done.is_err());
    done
}

/// Counts a piece of work of a stage; see [`stage`].
pub fn stage_ended(name: &'static str, took: Duration, failed: bool) {
    let (durations, errors) = &*STAGES;
    let labels = [label("stage", name)];
    durations.record(took.as_secs_f64(), &labels);
    // A counter that was never told of is not there, and what is not there raises no alert.
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

/// Has labels name corpora.
pub(crate) fn name_corpora(names: bool) {
    NAMES_CORPORA.store(names, Ordering::Relaxed);
}

/// The label of a corpus: when it was made, in milliseconds since 1970, or its name if the configuration says so.
pub fn corpus_label(name: &str, created_at_millis: i64) -> KeyValue {
    let corpus = match NAMES_CORPORA.load(Ordering::Relaxed) {
        true => name.to_owned(),
        false => created_at_millis.to_string(),
    };
    label("corpus", corpus)
}

/// Makes what is read when metrics are: queues, and the process itself.
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

/// Where the system tells.
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
