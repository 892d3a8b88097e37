//! Health of a process: whether it is alive, whether it is ready, and which parts are degraded.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde::Serialize;

use crate::metrics::{gauge, label};
use crate::weak_registry::WeakRegistry;

/// Health of a process. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    phase: AtomicU8,
    checks: Mutex<Vec<Check>>,
}

type Check = Box<dyn Fn() -> Vec<Trouble> + Send + Sync>;

/// Phase in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessPhase {
    /// Loading and connecting.
    Starting,
    /// Serving requests.
    Serving,
    /// Finishing accepted work, and accepting no more.
    Draining,
}

impl ProcessPhase {
    const ALL: [Self; 3] = [Self::Starting, Self::Serving, Self::Draining];
}

/// A problem of one part of the process or its surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// Part that is at fault: `redis`, `peer encoder-1`, `role encoder`. Never contains text of
    /// documents or names of corpora.
    pub part: String,
    /// Description of the problem, for a person.
    pub problem: String,
    /// Effect on the process.
    pub severity: Severity,
}

/// Effect of a problem on the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The process serves, but less well or with less in reserve.
    Degraded,
    /// The process cannot do its work. It may recover by itself.
    NotReady,
    /// The process cannot recover and must be restarted.
    Dead,
}

/// A report of a process's health.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub alive: bool,
    pub ready: bool,
    pub phase: ProcessPhase,
    /// Problems, the worst first.
    pub degraded: Vec<Trouble>,
}

static PROCESSES: WeakRegistry<Inner> = WeakRegistry::new();

impl Default for Health {
    /// Returns the health of a process that starts.
    fn default() -> Self {
        let inner = Arc::new(Inner::default());
        PROCESSES.add(&inner);
        LazyLock::force(&OBSERVED);
        Self { inner }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report().fmt(f)
    }
}

impl Health {
    /// Registers a check that returns the current problems. It is called for every report and must
    /// not block.
    pub fn watch(&self, check: impl Fn() -> Vec<Trouble> + Send + Sync + 'static) {
        let checks = &self.inner.checks;
        checks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(check));
    }

    /// Sets the phase of the process.
    pub fn enter(&self, phase: ProcessPhase) {
        self.inner.phase.store(phase as u8, Ordering::Release);
    }

    pub(crate) fn report(&self) -> Report {
        self.inner.report()
    }
}

impl Inner {
    fn report(&self) -> Report {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut degraded: Vec<Trouble> = checks.iter().flat_map(|check| check()).collect();
        degraded.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.part.cmp(&b.part)));
        // Several checks may report the same part. Of those with the same severity, one is kept.
        degraded.dedup_by(|a, b| a.part == b.part);
        let phase = ProcessPhase::ALL[usize::from(self.phase.load(Ordering::Acquire)).min(2)];
        let worst = degraded.first().map(|trouble| trouble.severity);
        Report {
            alive: worst != Some(Severity::Dead),
            ready: phase == ProcessPhase::Serving && worst < Some(Severity::NotReady),
            phase,
            degraded,
        }
    }
}

static OBSERVED: LazyLock<()> = LazyLock::new(|| {
    let description = "1 if the process takes requests, as `/health/ready` says.";
    gauge("clew_health_ready", "", description, |tell| {
        for process in PROCESSES.all() {
            tell(f64::from(process.report().ready), &[]);
        }
    });
    let description = "Parts that are not as they should be, by what that means.";
    gauge("clew_health_troubles", "", description, |tell| {
        for process in PROCESSES.all() {
            let troubles = process.report().degraded;
            for (severity, name) in [
                (Severity::Degraded, "degraded"),
                (Severity::NotReady, "not_ready"),
                (Severity::Dead, "dead"),
            ] {
                let count = troubles.iter().filter(|t| t.severity == severity).count();
                tell(count as f64, &[label("severity", name)]);
            }
        }
    });
});

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn trouble(part: &str, severity: Severity) -> Trouble {
        Trouble { part: part.to_owned(), problem: "gone".to_owned(), severity }
    }

    #[test]
    fn it_is_ready_while_it_serves_and_nothing_it_needs_is_missing() {
        let health = Health::default();
        assert!(health.report().alive && !health.report().ready);
        health.enter(ProcessPhase::Serving);
        assert!(health.report().ready);
        health.enter(ProcessPhase::Draining);
        assert!(health.report().alive && !health.report().ready);
    }

    #[test]
    fn what_is_wrong_is_named_the_worst_first() {
        let health = Health::default();
        health.enter(ProcessPhase::Serving);
        health.watch(|| vec![trouble("peer b", Severity::Degraded)]);
        assert!(health.report().ready);
        let hangs = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&hangs);
        health.watch(move || {
            let severity =
                if seen.load(Ordering::Relaxed) { Severity::Dead } else { Severity::NotReady };
            vec![trouble("role a", severity)]
        });
        let report = health.report();
        let parts: Vec<&str> =
            report.degraded.iter().map(|trouble| trouble.part.as_str()).collect();
        assert_eq!(parts, ["role a", "peer b"]);
        assert!(report.alive && !report.ready);
        hangs.store(true, Ordering::Relaxed);
        assert!(!health.report().alive);
    }
}
