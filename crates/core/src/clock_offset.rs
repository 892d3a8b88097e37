//! Offset between another clock and this machine's, as far as one request and its answer can tell.

use std::time::{Duration, SystemTime};

use crate::{Error, ErrorKind};

/// Bounds of the offset of another clock, in seconds: positive if it is ahead of this machine's
/// clock, negative if it is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOffset {
    least: f64,
    most: f64,
}

impl ClockOffset {
    /// Computes the bounds from one reading of the other clock. It was read at some time between
    /// `asked` and `answered`, both by this machine's clock. It showed `theirs`, but since it tells
    /// the time in steps, it may have been up to one `step` later.
    pub fn seen(
        theirs: SystemTime,
        step: Duration,
        asked: SystemTime,
        answered: SystemTime,
    ) -> Self {
        // If our clock was set back in between, the reading tells as little as after a wait of that
        // length.
        let (first, last) = (asked.min(answered), asked.max(answered));
        Self { least: seconds(theirs, last), most: seconds(theirs, first) + step.as_secs_f64() }
    }

    /// Returns the smallest offset within the bounds, in seconds: positive if the other clock is
    /// certainly ahead, negative if it is certainly behind, 0 if it may be right.
    pub fn seconds(self) -> f64 {
        if self.least > 0.0 { self.least } else { self.most.min(0.0) }
    }

    /// Checks that the clock of `whose` is not certainly further off than `bound`, which the
    /// configuration key `key` sets.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] if it is; the message says what to do.
    pub fn check(self, whose: &str, bound: Duration, key: &str) -> Result<(), Error> {
        let seconds = self.seconds();
        if seconds.abs() <= bound.as_secs_f64() {
            return Ok(());
        }
        let direction = if seconds > 0.0 { "ahead of" } else { "behind" };
        let message = format!(
            "expected the clock of {whose} within {:.1} s of this machine's, and it is at least {:.1} s {direction} \
             it; have both follow a time server, or raise `{key}`",
            bound.as_secs_f64(),
            seconds.abs(),
        );
        Err(Error::new(ErrorKind::WrongState, "CLOCK_SKEW", message))
    }
}

/// Returns `from` minus `to`, in seconds.
fn seconds(from: SystemTime, to: SystemTime) -> f64 {
    match from.duration_since(to) {
        Ok(later) => later.as_secs_f64(),
        Err(earlier) => -earlier.duration().as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn only_what_is_beyond_doubt_counts() {
        for (theirs, asked, answered, expected) in [
            (100, 100, 100, 0.0),
            (110, 100, 100, 10.0),
            (90, 100, 100, -9.0),
            // The clock may have been read right after the question or right before the answer.
            (110, 100, 106, 4.0),
            (90, 85, 106, 0.0),
            (90, 98, 106, -7.0),
            // This machine's clock was set back in between.
            (110, 106, 100, 4.0),
        ] {
            let offset = ClockOffset::seen(at(theirs), SECOND, at(asked), at(answered));
            assert_eq!(offset.seconds(), expected, "{theirs} in {asked}..{answered}");
        }
    }

    #[test]
    fn a_clock_beyond_the_bound_is_refused_with_what_to_do() {
        let exactly = |theirs| ClockOffset::seen(at(theirs), Duration::ZERO, at(100), at(100));
        let check = |theirs| exactly(theirs).check("Redis", 5 * SECOND, "some.key");
        assert!(check(105).is_ok() && check(95).is_ok());
        for (theirs, said) in [(106, "6.0 s ahead of"), (94, "6.0 s behind")] {
            let refused = check(theirs).unwrap_err();
            assert_eq!(refused.reason(), "CLOCK_SKEW");
            for part in [said, "Redis", "within 5.0 s", "`some.key`"] {
                assert!(refused.message().contains(part), "{}", refused.message());
            }
        }
    }
}
