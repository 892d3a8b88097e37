//! Circuit breakers of computing devices: a device that fails or hangs gets no work, and is checked
//! until it works again.
//!
//! ```text
//!            a computation fails               the check fails
//!   works ───────────────────────► suspect ──────────────────► refuses work ──┐
//!     ▲                               │                          │   ▲        │ check fails, after
//!     └───────── the check passes ────┴──────────────────────────┘   └────────┘ 1 s, 2 s, … 30 s
//! ```
//!
//! Nygard, "Release It!", pattern "Circuit Breaker". It departs from the pattern in two ways. No
//! caller's work is risked to find out whether the device works again: a check with a known result
//! tells that. The first check comes at once, so that a batch that was too large for the memory of
//! a healthy device costs its caller a retry, and the others nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind};
use clew_telemetry::{Severity, Trouble};

use crate::backoff::Backoff;

/// Reason of the errors of computations whose device failed, and of refusals by a breaker.
pub const DEVICE_FAILED: &str = "DEVICE_FAILED";

/// Retry delay for refused callers. It is short even if the next check is not due for longer,
/// because another node may take the work: long enough to notice that this one does not.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// Maximum length in bytes of the reason of a failure, for messages.
const REASON_BYTES: usize = 300;

/// Breaker of the devices that compute with one model. Their threads share it.
#[derive(Debug)]
pub struct Breaker {
    part: &'static str,
    model: String,
    severity: Severity,
    limits: BreakerLimits,
    is_processor: bool,
    state: Mutex<State>,
}

/// Time limits of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Pause after the first failed check. Each further pause is twice the last.
    pub first_pause: Duration,
    /// Longest pause between two checks.
    pub longest_pause: Duration,
    /// Time since the first failure after which a device that fails its checks counts as lost.
    pub lost: Duration,
    /// Duration of one computation after which the device gets no further work.
    pub late: Duration,
    /// Duration of one computation after which the device counts as hung.
    pub hung: Duration,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            // Memory that others hold is free again by then. A CUDA context that is lost never
            // comes back within a process.
            lost: Duration::from_secs(120),
            // A batch takes seconds, and a minute if all its kernels have to be compiled first. No
            // caller would wait longer behind it.
            late: Duration::from_secs(60),
            hung: Duration::from_secs(300),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    running: Vec<Running>,
    /// Number of computations that were begun so far.
    begun: u64,
}

/// Failure of a device that has not passed a check since.
#[derive(Debug)]
struct Fault {
    /// Reason of the last failure, for messages.
    reason: String,
    since: Instant,
    failed_checks: u32,
    next_check: Instant,
    is_being_checked: bool,
}

#[derive(Debug)]
struct Running {
    number: u64,
    /// Time at which the computation began or last made progress.
    since: Instant,
}

/// Computation under way, until it is dropped.
#[derive(Debug)]
pub struct Computation<'a> {
    breaker: &'a Breaker,
    number: u64,
}

impl Computation<'_> {
    /// Takes note that the computation makes progress. The time limits begin anew.
    pub fn goes_on(&self) {
        let mut state = self.breaker.lock();
        if let Some(running) = state.running.iter_mut().find(|it| it.number == self.number) {
            running.since = Instant::now();
        }
    }
}

impl Drop for Computation<'_> {
    fn drop(&mut self) {
        self.breaker.lock().running.retain(|running| running.number != self.number);
    }
}

impl Breaker {
    /// Creates the breaker of devices that work. `part` names them in messages and reports of
    /// health, such as `encoder`. `severity` is what it means for the process that they do not
    /// work; once they are lost or hung, it must be restarted.
    pub fn new(part: &'static str, model: impl Into<String>, severity: Severity) -> Self {
        let (limits, state) = (BreakerLimits::default(), Mutex::default());
        Self { part, model: model.into(), severity, limits, is_processor: false, state }
    }

    /// Replaces the time limits.
    #[must_use]
    pub fn with_limits(self, limits: BreakerLimits) -> Self {
        Self { limits, ..self }
    }

    /// Takes the devices for processors, which are never hung or lost. One may take minutes for one
    /// step of a large model. If it fails, the model is at fault, and no restart mends that.
    #[must_use]
    pub fn of_processor(self) -> Self {
        Self { is_processor: true, ..self }
    }

    /// Returns whether the devices may get work.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] with the reason [`DEVICE_FAILED`] and a retry delay while
    /// they may not.
    pub fn admit(&self) -> Result<(), Error> {
        let Some((problem, _)) = self.problem(Instant::now()) else { return Ok(()) };
        let (part, delay) = (self.part, RETRY_AFTER.as_millis());
        let message =
            format!("the {part} takes no work: {problem}; ask another, or retry in {delay} ms");
        Err(refused(message))
    }

    /// Runs a computation on the calling thread. Takes note if the device fails in it, also by a
    /// panic of its code.
    ///
    /// # Errors
    /// Returns the errors of `compute`. Returns [`ErrorKind::Unavailable`] with the reason
    /// [`DEVICE_FAILED`] and a retry delay if the device failed.
    pub fn run<T>(
        &self,
        compute: impl FnOnce(&Computation<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let computation = self.begin();
        let computed = caught(|| compute(&computation));
        drop(computation);
        computed.map_err(|error| match error.reason() == DEVICE_FAILED {
            true => self.failed(error),
            false => error,
        })
    }

    /// Takes note that a device failed. Returns the error for the caller.
    pub fn failed(&self, error: Error) -> Error {
        self.failed_at(Instant::now(), error)
    }

    /// Returns the time of the next check. Returns `None` if the devices work or are being checked.
    pub fn next_check(&self) -> Option<Instant> {
        let state = self.lock();
        state.fault.as_ref().filter(|fault| !fault.is_being_checked).map(|fault| fault.next_check)
    }

    /// Calls `check` on the calling thread if a check is due and no other thread does it. It
    /// succeeds if the device computes as it should.
    pub fn check_if_due(&self, check: impl FnOnce() -> Result<(), Error>) {
        if self.claim_check(Instant::now()) {
            let computation = self.begin();
            let checked = caught(check);
            drop(computation);
            self.checked_at(Instant::now(), checked);
        }
    }

    /// Returns the trouble of the devices, if they get no work.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.trouble_at(Instant::now()).into_iter().collect()
    }

    fn begin(&self) -> Computation<'_> {
        let mut state = self.lock();
        state.begun += 1;
        let number = state.begun;
        state.running.push(Running { number, since: Instant::now() });
        Computation { breaker: self, number }
    }

    fn failed_at(&self, now: Instant, error: Error) -> Error {
        let (part, model) = (self.part, &self.model);
        let reason = summary(error.message());
        self.lock().fault.get_or_insert_with(|| Fault {
            reason: reason.clone(),
            since: now,
            failed_checks: 0,
            next_check: now,
            is_being_checked: false,
        });
        tracing::warn!(part, model, error = error.chain(), "a computation failed");
        refused(format!("{reason}; retry")).with_source(error)
    }

    /// Returns whether the calling thread has to check the devices now.
    fn claim_check(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let Some(fault) = &mut state.fault else { return false };
        let is_due = !fault.is_being_checked && now >= fault.next_check;
        fault.is_being_checked |= is_due;
        is_due
    }

    fn checked_at(&self, now: Instant, checked: Result<(), Error>) {
        let (part, model) = (self.part, &self.model);
        let mut state = self.lock();
        let Some(fault) = &mut state.fault else { return };
        match checked {
            Ok(()) => {
                let failed_checks = fault.failed_checks;
                state.fault = None;
                tracing::info!(part, model, failed_checks, "the device passed its check");
            }
            Err(error) => {
                let BreakerLimits { first_pause, longest_pause, .. } = self.limits;
                fault.next_check =
                    now + Backoff::delay_after(first_pause, longest_pause, fault.failed_checks);
                fault.is_being_checked = false;
                fault.failed_checks += 1;
                fault.reason = summary(error.message());
                let (failed_checks, error) = (fault.failed_checks, error.chain());
                tracing::error!(part, model, failed_checks, error, "the device fails its check");
            }
        }
    }

    fn trouble_at(&self, now: Instant) -> Option<Trouble> {
        let (problem, severity) = self.problem(now)?;
        let problem = format!("`{}`: {problem}", self.model);
        Some(Trouble { part: self.part.to_owned(), problem, severity })
    }

    /// Returns the worst of what keeps the devices from getting work, and what it means.
    fn problem(&self, now: Instant) -> Option<(String, Severity)> {
        let state = self.lock();
        let BreakerLimits { lost, late, hung, .. } = self.limits;
        let severity = |time: Duration, limit: Duration| match time >= limit && !self.is_processor {
            true => Severity::Dead,
            false => self.severity,
        };
        let longest = state.running.iter().map(|running| running.since).min();
        let longest = longest.map(|since| now.saturating_duration_since(since));
        let running = longest.filter(|time| !self.is_processor && *time >= late).map(|time| {
            let problem = format!("a device computes one batch for {} seconds", time.as_secs());
            (problem, severity(time, hung))
        });
        let fault = state.fault.as_ref().filter(|fault| fault.failed_checks > 0).map(|fault| {
            let Fault { reason, failed_checks, since, .. } = fault;
            let time = now.saturating_duration_since(*since);
            let seconds = time.as_secs();
            let problem = format!("{reason} (failed checks: {failed_checks} in {seconds} seconds)");
            (problem, severity(time, lost))
        });
        running.into_iter().chain(fault).max_by_key(|(_, severity)| *severity)
    }

    // No code that can panic runs under the lock, so a poisoned one holds a valid state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls code of a device, which panics where other code returns an error.
fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_panic| {
        // The message of a panic may contain text of a user.
        Err(refused("the code of the device panicked; the log says where".to_owned()))
    })
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Unavailable, DEVICE_FAILED, message).with_retry_after(RETRY_AFTER)
}

/// Returns what a message of a device says, on one line and without the stack traces that Burn's
/// messages carry.
fn summary(message: &str) -> String {
    let is_of_trace = |line: &&str| {
        let number = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
        (number.len() < line.len() && number.starts_with(':'))
            || line.to_ascii_lowercase().contains("backtrace")
    };
    let lines = message.lines().map(str::trim).take_while(|line| !is_of_trace(line));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && *line != "Caused by:").collect();
    let mut summary = lines.join(": ");
    summary.truncate(summary.floor_char_boundary(REASON_BYTES));
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> Breaker {
        Breaker::new("encoder", "minilm", Severity::NotReady)
    }

    fn out_of_memory() -> Error {
        refused("out of memory".to_owned())
    }

    /// Returns the severity of the breaker's trouble.
    fn severity(breaker: &Breaker, now: Instant) -> Option<Severity> {
        breaker.trouble_at(now).map(|trouble| trouble.severity)
    }

    #[test]
    fn one_failure_of_a_healthy_device_costs_one_caller_a_retry() {
        let breaker = breaker();
        let failed = breaker.run(|_| Err::<(), _>(out_of_memory())).unwrap_err();
        assert_eq!((failed.kind(), failed.reason()), (ErrorKind::Unavailable, DEVICE_FAILED));
        assert_eq!(failed.retry_after(), Some(RETRY_AFTER));
        assert_eq!(failed.message(), "out of memory; retry");
        assert!(breaker.admit().is_ok(), "others are not refused before the check");
        assert!(breaker.next_check().unwrap() <= Instant::now());
        breaker.check_if_due(|| Ok(()));
        assert!(breaker.next_check().is_none() && breaker.admit().is_ok());
        breaker.check_if_due(|| panic!("nothing is due"));
    }

    #[test]
    fn errors_of_callers_are_no_failures() {
        let breaker = breaker();
        let wrong = breaker.run(|_| Err::<(), _>(Error::invalid("text", "expected less")));
        assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(breaker.next_check().is_none());
    }

    #[test]
    fn a_device_that_fails_is_refused_work_and_checked_ever_more_rarely_until_it_is_lost() {
        let breaker = breaker();
        let began = Instant::now();
        breaker.failed_at(began, out_of_memory());
        let mut now = began;
        let mut pauses = Vec::new();
        while severity(&breaker, now) != Some(Severity::Dead) {
            assert!(breaker.claim_check(now) && !breaker.claim_check(now), "by one thread");
            assert!(breaker.next_check().is_none(), "others do not wait for it");
            breaker.checked_at(now, Err(refused("no device".to_owned())));
            assert!(!breaker.claim_check(now), "not before the pause is over");
            let next = breaker.next_check().unwrap();
            pauses.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        let problem = breaker.trouble_at(now).unwrap().problem;
        assert_eq!(problem, "`minilm`: no device (failed checks: 8 in 121 seconds)");
        let refusal = breaker.admit().unwrap_err();
        assert_eq!((refusal.reason(), refusal.retry_after()), (DEVICE_FAILED, Some(RETRY_AFTER)));
        assert!(refusal.message().contains("no device"), "{refusal}");
        // Even then a device may come back before the process is restarted.
        assert!(breaker.claim_check(now));
        breaker.checked_at(now, Ok(()));
        assert_eq!(severity(&breaker, now), None);
    }

    #[test]
    fn a_panic_is_a_failure_and_says_nothing_of_the_text() {
        let breaker = breaker();
        let failed = breaker.run(|_| -> Result<(), Error> { panic!("a secret") }).unwrap_err();
        assert_eq!(failed.reason(), DEVICE_FAILED);
        assert!(!failed.chain().contains("secret"), "{}", failed.chain());
        breaker.check_if_due(|| panic!("again"));
        assert_eq!(severity(&breaker, Instant::now()), Some(Severity::NotReady));
        assert!(breaker.lock().running.is_empty(), "what panicked does not run any more");
    }

    #[test]
    fn a_device_that_hangs_gets_no_more_work_and_counts_as_dead_at_last() {
        let breaker = breaker();
        let computation = breaker.begin();
        let later = |seconds| Instant::now() + Duration::from_secs(seconds);
        assert_eq!(severity(&breaker, later(58)), None);
        assert_eq!(severity(&breaker, later(61)), Some(Severity::NotReady));
        assert_eq!(severity(&breaker, later(301)), Some(Severity::Dead));
        // Of two problems, the worse is told.
        breaker.failed(out_of_memory());
        breaker.check_if_due(|| Err(out_of_memory()));
        let worse = breaker.trouble_at(later(150)).unwrap();
        assert_eq!(worse.severity, Severity::Dead);
        assert!(worse.problem.contains("out of memory"), "{worse:?}");
        breaker.lock().fault = None;
        drop(computation);
        assert_eq!(severity(&breaker, later(301)), None);
    }

    #[test]
    fn progress_is_no_hanging_and_a_processor_is_never_dead() {
        let breaker = breaker();
        let computation = breaker.begin();
        let soon = Instant::now() + 61 * SECOND;
        breaker.lock().running[0].since -= 30 * SECOND;
        assert_eq!(severity(&breaker, soon - 30 * SECOND), Some(Severity::NotReady));
        computation.goes_on();
        assert_eq!(severity(&breaker, soon - 30 * SECOND), None);
        drop(computation);
        let processor = Breaker::new("memory model", "m", Severity::Degraded).of_processor();
        let _computation = processor.begin();
        assert_eq!(severity(&processor, soon + 1000 * SECOND), None);
        processor.failed(out_of_memory());
        processor.check_if_due(|| Err(out_of_memory()));
        assert_eq!(severity(&processor, soon + 1000 * SECOND), Some(Severity::Degraded));
    }

    #[test]
    fn messages_are_told_on_one_line_without_stack_traces() {
        let message = "the device failed to compute a batch: An error happened during execution\n\
                       Caused by:\n  out of device memory allocating 64 bytes\n   0: cubecl::alloc";
        assert_eq!(
            summary(message),
            "the device failed to compute a batch: An error happened during execution: out of \
             device memory allocating 64 bytes"
        );
        assert_eq!(summary("gone\nBacktrace:\n  somewhere"), "gone");
        assert_eq!(summary("gone\nNo backtrace available"), "gone");
        assert_eq!(summary("1 of 2: no trace"), "1 of 2: no trace");
        assert_eq!(summary(&"é".repeat(400)).len(), REASON_BYTES);
    }
}
