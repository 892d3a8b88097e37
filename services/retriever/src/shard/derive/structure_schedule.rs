//! Scheduling of structure building: when the next run may begin.

use std::time::{Duration, Instant};

use clew_runtime::backoff::Backoff;

/// Pause after a run that committed nodes, in which more documents can gather. A commit costs the
/// same for one document as for many, and on a bucket it takes as long as several commits that
/// callers wait for.
const PAUSE: Duration = Duration::from_secs(1);
/// Time without changes before the nodes above documents are built. Each document that comes or
/// changes would otherwise change some of them on every level, with a commit each time.
const QUIET: Duration = Duration::from_secs(2);

/// Scheduler of structure runs. There is one run at a time, and it reads many segments at once. A
/// slow model therefore does not delay documents that only have to be embedded.
#[derive(Debug)]
pub(crate) struct StructureSchedule {
    is_on: bool,
    /// Earliest start of the next run.
    after: Instant,
    failed: Backoff,
    /// Revision of the shard at which no node above documents was missing.
    whole_at: Option<u64>,
    /// Revision of the shard that was seen last, and since when.
    seen: (u64, Instant),
}

/// State of the nodes above documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upper {
    /// None is missing.
    Whole,
    /// To be looked at again after this time.
    Waits(Duration),
    /// To be built now.
    Due,
}

impl StructureSchedule {
    pub fn new(now: Instant, failed: Backoff) -> Self {
        Self { is_on: false, after: now, failed, whole_at: None, seen: (0, now) }
    }

    /// Returns whether a run may begin.
    pub fn may_begin(&self, now: Instant) -> bool {
        !self.is_on && now >= self.after
    }

    /// Returns whether no run goes on and none is missing in the state of this revision.
    pub fn is_done_at(&self, revision: u64) -> bool {
        !self.is_on && self.whole_at == Some(revision)
    }

    pub fn begin(&mut self) {
        self.is_on = true;
    }

    /// Ends a run. Returns the pause before the next one.
    pub fn end(&mut self, now: Instant, stored: bool) -> Duration {
        self.is_on = false;
        let pause = match stored {
            true => {
                self.failed.reset();
                PAUSE
            }
            false => {
                self.whole_at = None;
                self.failed.next_delay()
            }
        };
        self.after = now + pause;
        pause
    }

    /// Returns the state of the nodes above documents at this revision of the shard, in which no
    /// tree is missing. Due nodes count as built from then on: if some were missing, their commit
    /// changes the revision.
    pub fn upper(&mut self, now: Instant, revision: u64) -> Upper {
        if self.whole_at == Some(revision) {
            return Upper::Whole;
        }
        if self.seen.0 != revision {
            self.seen = (revision, now);
        }
        let quiet = now.saturating_duration_since(self.seen.1);
        if quiet < QUIET {
            return Upper::Waits(QUIET - quiet);
        }
        self.whole_at = Some(revision);
        Upper::Due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> (Instant, StructureSchedule) {
        let now = Instant::now();
        (
            now,
            StructureSchedule::new(
                now,
                Backoff::new(Duration::from_secs(8), Duration::from_secs(8)),
            ),
        )
    }

    #[test]
    fn turns_do_not_overlap_and_have_a_pause_between_them() {
        let (now, mut schedule) = schedule();
        assert!(schedule.may_begin(now));
        schedule.begin();
        assert!(!schedule.may_begin(now));
        assert_eq!(schedule.end(now, true), PAUSE);
        assert!(!schedule.may_begin(now));
        assert!(schedule.may_begin(now + PAUSE));
    }

    #[test]
    fn after_a_failure_the_pause_is_longer_and_upper_nodes_are_due_again() {
        let (now, mut schedule) = schedule();
        schedule.upper(now, 3);
        assert_eq!(schedule.upper(now + QUIET, 3), Upper::Due);
        assert_eq!(schedule.upper(now + QUIET, 3), Upper::Whole);
        let pause = schedule.end(now, false);
        assert!(pause > PAUSE && !schedule.may_begin(now + PAUSE));
        assert_eq!(schedule.upper(now + QUIET, 3), Upper::Due);
    }

    #[test]
    fn upper_nodes_wait_until_nothing_changes() {
        let (now, mut schedule) = schedule();
        let second = Duration::from_secs(1);
        assert_eq!(schedule.upper(now, 1), Upper::Waits(QUIET));
        assert_eq!(schedule.upper(now + second, 2), Upper::Waits(QUIET));
        assert_eq!(schedule.upper(now + 2 * second, 2), Upper::Waits(second));
        assert_eq!(schedule.upper(now + 3 * second, 2), Upper::Due);
        assert_eq!(schedule.upper(now + 9 * second, 4), Upper::Waits(QUIET));
    }
}
