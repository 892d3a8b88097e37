//! Failed attempts at memories: the pauses between them, and what is set aside.

use std::collections::HashSet;
use std::time::Duration;

use clew_core::{DocumentId, Error, ErrorKind, MemoryFailure, MemoryPart, Timestamp, Version};
use clew_runtime::backoff::Backoff;

/// First and longest pause after a failure.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));
/// Number of failed attempts at a memory after which its documents are set aside, and other
/// documents are read.
const ATTEMPTS: u32 = 8;
/// Time for which documents are set aside if they are not to blame, but something that may come
/// back, such as the storage.
const ASIDE: Duration = Duration::from_secs(3600);

/// Failed attempts since the last success, and memories that are set aside.
#[derive(Debug)]
pub(super) struct Attempts {
    backoff: Backoff,
    /// Memory that is being tried again.
    failing: Option<Failing>,
    aside: Vec<Failing>,
}

#[derive(Debug)]
struct Failing {
    /// Parts that were to be read.
    parts: Vec<MemoryPart>,
    attempts: u32,
    kind: ErrorKind,
    message: String,
    next_try: Option<Timestamp>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { backoff: Backoff::new(RETRY.0, RETRY.1), failing: None, aside: Vec::new() }
    }
}

impl Attempts {
    /// Notes that a memory was stored.
    pub fn succeeded(&mut self) {
        self.backoff.reset();
        self.failing = None;
    }

    /// Notes that something failed before a memory was chosen. Returns the pause.
    pub fn failed_before(&mut self) -> Duration {
        self.backoff.next_delay()
    }

    /// Notes that an attempt at a memory failed. Returns the pause, and whether its documents are
    /// set aside. Pauses go on growing until a memory is stored.
    pub fn failed(
        &mut self,
        now: Timestamp,
        parts: Vec<MemoryPart>,
        error: &Error,
    ) -> (Duration, bool) {
        let before = self.failing.take().filter(|failing| failing.parts == parts);
        let attempts = before.map_or(0, |failing| failing.attempts) + 1;
        let pause = self.backoff.next_delay();
        let is_aside = attempts >= ATTEMPTS;
        let next_try = match (is_aside, error.is_retryable()) {
            (false, _) => Some(now.saturating_add(pause)),
            (true, true) => Some(now.saturating_add(ASIDE)),
            (true, false) => None,
        };
        let (kind, message) = (error.kind(), error.message().to_owned());
        let failing = Failing { parts, attempts, kind, message, next_try };
        match is_aside {
            true => self.aside.push(failing),
            false => self.failing = Some(failing),
        }
        (pause, is_aside)
    }

    /// Returns the documents that are set aside. Those whose time is over, or that `are_there`
    /// refuses because of another version, are no longer.
    pub fn aside(
        &mut self,
        now: Timestamp,
        are_there: impl Fn(&[MemoryPart]) -> bool,
    ) -> HashSet<(DocumentId, Version)> {
        self.aside.retain(|failing| {
            failing.next_try.is_none_or(|next| next > now) && are_there(&failing.parts)
        });
        let parts = self.aside.iter().flat_map(|failing| &failing.parts);
        parts.map(|part| (part.document_id.clone(), part.version)).collect()
    }

    /// Returns the failures for callers.
    pub fn shown(&self) -> Vec<MemoryFailure> {
        let shown = |failing: &Failing| MemoryFailure {
            documents: failing.parts.iter().map(|part| part.document_id.clone()).collect(),
            attempts: failing.attempts,
            kind: failing.kind,
            message: failing.message.clone(),
            next_try: failing.next_try,
        };
        self.aside.iter().chain(&self.failing).map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use clew_core::Span;

    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_micros(0).saturating_add(Duration::from_secs(secs))
    }

    fn parts(id: &str) -> Vec<MemoryPart> {
        let (document_id, version) = (id.parse().unwrap(), Version(1));
        vec![MemoryPart { document_id, version, span: Span::new(0, 4) }]
    }

    fn unavailable() -> Error {
        Error::new(ErrorKind::Unavailable, "STORAGE_UNAVAILABLE", "could not write a memory")
    }

    #[test]
    fn pauses_grow_up_to_a_bound_until_a_memory_is_stored() {
        let mut attempts = Attempts::default();
        let pauses: Vec<Duration> = (0..ATTEMPTS - 1)
            .map(|_| attempts.failed(at(0), parts("a"), &unavailable()).0)
            .collect();
        for (i, pause) in pauses.iter().enumerate() {
            let whole = RETRY.0 * (1 << i);
            assert!(whole / 2 <= *pause && *pause <= whole, "{i}: {pause:?}");
        }
        let (pause, is_aside) = attempts.failed(at(0), parts("a"), &unavailable());
        assert!(is_aside && pause >= RETRY.1 / 2 && pause <= RETRY.1, "{pause:?}");
        // What follows is not tried by the second either.
        let (pause, is_aside) = attempts.failed(at(0), parts("b"), &unavailable());
        assert!(!is_aside && pause >= RETRY.1 / 2, "{pause:?}");
        attempts.succeeded();
        assert!(attempts.failed_before() <= RETRY.0);
    }

    #[test]
    fn a_memory_that_fails_often_is_set_aside_for_a_while_or_for_good() {
        let refused = Error::invalid("ratio", "expected a divisor of the window");
        for (error, ends) in [(unavailable(), true), (refused, false)] {
            let mut attempts = Attempts::default();
            for _ in 1..ATTEMPTS {
                assert!(!attempts.failed(at(5), parts("a"), &error).1);
                assert!(attempts.aside(at(5), |_| true).is_empty());
                assert!(attempts.shown()[0].next_try.is_some());
            }
            assert!(attempts.failed(at(5), parts("a"), &error).1);
            let shown = &attempts.shown()[..];
            assert_eq!((shown.len(), shown[0].attempts), (1, ATTEMPTS));
            assert_eq!(shown[0].next_try.is_some(), ends);
            let aside = HashSet::from([("a".parse().unwrap(), Version(1))]);
            assert_eq!(attempts.aside(at(5), |_| true), aside);
            assert_eq!(attempts.aside(at(5 + ASIDE.as_secs()), |_| true).is_empty(), ends);
            // Another version is another document.
            assert!(attempts.aside(at(5), |_| false).is_empty());
            assert!(attempts.shown().is_empty());
        }
    }
}
