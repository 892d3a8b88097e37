//! Division of files among processes that read one source together.

use std::fmt;
use std::str::FromStr;

use clew_core::Error;

/// Maximum number of parts.
const MOST_PARTS: u32 = 1024;

/// One of several parts into which the files of a source are divided. A hash of a file's name
/// decides which part reads it, so the parts need not know of each other, and never meet.
///
/// Row groups of large Parquet files are divided among all parts. Each part lists everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePart {
    index: u32,
    count: u32,
}

impl SourcePart {
    /// The one part of a source that is not divided.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Returns the part number `index`, from 0, of `count`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if there is no such part, or if there are
    /// more than 1024.
    pub fn try_new(index: u32, count: u32) -> Result<Self, Error> {
        if !(1..=MOST_PARTS).contains(&count) {
            let problem = format!("expected 1 to {MOST_PARTS} parts, got {count}");
            return Err(Error::invalid("part", problem));
        }
        if index >= count {
            let problem = format!("expected a part from 0 to {}, got {index}", count - 1);
            return Err(Error::invalid("part", problem));
        }
        Ok(Self { index, count })
    }

    /// Returns its number, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of all parts.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns whether the file of this name is read by this part.
    pub fn has(self, name: &str) -> bool {
        self.draws(name, 0)
    }

    /// Returns whether a row group of a file that is divided is read by this part.
    pub(crate) fn has_row_group(self, name: &str, group: usize) -> bool {
        self.draws(name, group as u64)
    }

    fn draws(self, name: &str, number: u64) -> bool {
        let mut hasher = blake3::Hasher::new();
        hasher.update(name.as_bytes());
        hasher.update(&number.to_le_bytes());
        let mut hash = [0; 8];
        hasher.finalize_xof().fill(&mut hash);
        u64::from_le_bytes(hash) % u64::from(self.count) == u64::from(self.index)
    }
}

impl FromStr for SourcePart {
    type Err = Error;

    /// Parses `INDEX/COUNT`, such as `0/4`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let numbers = text.split_once('/');
        let numbers = numbers.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let (index, count) = numbers.ok_or_else(|| {
            let problem = format!("expected INDEX/COUNT, such as 0/4, got `{text}`");
            Error::invalid("part", problem)
        })?;
        Self::try_new(index, count)
    }
}

impl fmt::Display for SourcePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_file_and_row_group_is_read_by_one_part(name in ".{0,40}", count in 1u32..40, group in 0usize..9) {
            let parts = || (0..count).map(|index| SourcePart::try_new(index, count).unwrap());
            prop_assert_eq!(parts().filter(|part| part.has(&name)).count(), 1);
            prop_assert_eq!(parts().filter(|part| part.has_row_group(&name, group)).count(), 1);
            for part in parts() {
                prop_assert_eq!(part.to_string().parse::<SourcePart>().unwrap(), part);
            }
        }
    }

    /// Releases must agree, since the parts of one job may be of several.
    #[test]
    fn the_division_is_the_same_in_every_release() {
        let first = SourcePart::try_new(0, 3).unwrap();
        let read: Vec<u32> = (0..12).filter(|i| first.has(&format!("{i}.md"))).collect();
        assert_eq!(read, [3, 4, 5, 7, 8]);
    }

    #[test]
    fn parts_that_do_not_exist_are_refused() {
        for text in ["", "1", "4/4", "0/0", "0/1025", "-1/4", "a/b", "1/2/3"] {
            assert!(text.parse::<SourcePart>().is_err(), "{text}");
        }
        assert!(SourcePart::WHOLE.has("anything"));
    }
}
