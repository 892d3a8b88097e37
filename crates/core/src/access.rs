//! Access labels: the labels that documents need and the labels that callers hold.
//!
//! A document carries labels. Anything derived from documents needs the labels of all of them. A
//! caller sees something exactly if they hold every label that it needs: `needed ⊆ held`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Error, ErrorKind};

/// Maximum length of a label, in bytes.
const LABEL_BYTES: usize = 63;

/// Access label: 1 to 63 characters of `a-z 0-9 - _ .`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// Returns the label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fits = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
        if (1..=LABEL_BYTES).contains(&text.len()) && text.bytes().all(fits) {
            return Ok(Self(text.into()));
        }
        Err(Error::invalid(
            "labels",
            format!("expected labels of 1 to {LABEL_BYTES} of `a-z`, `0-9`, `-`, `_`, `.`"),
        ))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Set of the labels that something needs. If it is empty, every caller sees the thing. Cheap to
/// clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[Label]>);

impl Labels {
    /// Maximum number of labels of a document.
    pub const MOST: usize = 16;

    /// Creates a set of labels; duplicates count once.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if there are more than [`Labels::MOST`] labels.
    pub fn new(labels: impl IntoIterator<Item = Label>) -> Result<Self, Error> {
        let labels: BTreeSet<Label> = labels.into_iter().collect();
        if labels.len() > Self::MOST {
            let problem = format!("expected at most {}, got {}", Self::MOST, labels.len());
            return Err(Error::invalid("labels", problem));
        }
        Ok(Self(labels.into_iter().collect()))
    }

    /// Parses labels from texts.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if a text is not a label, or if there are more than
    /// [`Labels::MOST`] labels.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        let labels = texts.into_iter().map(|text| text.as_ref().parse());
        Self::new(labels.collect::<Result<Vec<Label>, Error>>()?)
    }

    /// Returns whether no labels are needed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the labels in order.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// Returns the labels that something derived from both needs: the union, which may hold more
    /// than [`Labels::MOST`] labels.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() || self == other {
            return self.clone();
        }
        let all: BTreeSet<&Label> = self.iter().chain(other.iter()).collect();
        Self(all.into_iter().cloned().collect())
    }
}

/// Writes the labels separated by commas, which no label contains. Writes nothing if there are
/// none.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, label) in self.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { "," })?;
            f.write_str(label.as_str())?;
        }
        Ok(())
    }
}

/// Labels that a caller holds. Cheap to clone.
///
/// There is no `Default`: every call has to state on whose behalf it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access(Held);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    All,
    These(Arc<BTreeSet<Label>>),
}

impl Access {
    /// Returns access that holds every label.
    pub fn all() -> Self {
        Self(Held::All)
    }

    /// Returns access that holds exactly these labels.
    pub fn holding(labels: impl IntoIterator<Item = Label>) -> Self {
        Self(Held::These(Arc::new(labels.into_iter().collect())))
    }

    /// Returns whether every label is held.
    pub fn is_all(&self) -> bool {
        matches!(self.0, Held::All)
    }

    /// Returns the held labels in order. Returns none if every label is held; see [`Self::is_all`].
    pub fn labels(&self) -> impl Iterator<Item = &Label> {
        match &self.0 {
            Held::All => None,
            Held::These(held) => Some(held.iter()),
        }
        .into_iter()
        .flatten()
    }

    /// Returns whether the caller may see, create and change something that needs these labels.
    pub fn admits(&self, needed: &Labels) -> bool {
        self.first_lacking(needed).is_none()
    }

    /// Checks that the caller holds all labels that they attach to something.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Denied`] with the reason `LABEL_NOT_HELD` if a label is not held. The
    /// message names the first such label, because the caller named it, too.
    pub fn check_attached(&self, needed: &Labels) -> Result<(), Error> {
        match self.first_lacking(needed) {
            None => Ok(()),
            Some(label) => Err(label_not_held(format!(
                "label `{label}` is not held by the caller; attach only labels that the key holds"
            ))),
        }
    }

    /// Checks that the caller holds all labels of something that they are about to replace.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Denied`] with the reason `LABEL_NOT_HELD` if a label is not held. The
    /// message names no label, because the caller may not know it.
    pub fn check_replaced(&self, needed: &Labels) -> Result<(), Error> {
        if self.admits(needed) {
            return Ok(());
        }
        Err(label_not_held(
            "a document of this id needs labels that the caller does not hold; choose another id, or use a \
             key that holds them",
        ))
    }

    fn first_lacking<'a>(&self, needed: &'a Labels) -> Option<&'a Label> {
        match &self.0 {
            Held::All => None,
            Held::These(held) => needed.iter().find(|label| !held.contains(label)),
        }
    }
}

fn label_not_held(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Denied, "LABEL_NOT_HELD", message)
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    /// Generates sets of few labels, so that they overlap.
    fn some() -> impl Strategy<Value = BTreeSet<Label>> {
        btree_set("[a-d]".prop_map(|text: String| text.parse().unwrap()), 0..4)
    }

    proptest! {
        #[test]
        fn what_is_needed_must_be_held(needed in some(), held in some()) {
            let (labels, access) =
                (Labels::new(needed.clone()).unwrap(), Access::holding(held.clone()));
            prop_assert_eq!(access.admits(&labels), needed.is_subset(&held));
            prop_assert_eq!(access.check_attached(&labels).is_ok(), needed.is_subset(&held));
            prop_assert_eq!(access.check_replaced(&labels).is_ok(), needed.is_subset(&held));
            prop_assert!(Access::all().admits(&labels));
        }

        #[test]
        fn what_is_made_of_two_is_seen_by_who_sees_both(
            one in some(), other in some(), held in some(),
        ) {
            let (one, other) = (Labels::new(one).unwrap(), Labels::new(other).unwrap());
            let (both, access) = (one.union(&other), Access::holding(held));
            prop_assert_eq!(access.admits(&both), access.admits(&one) && access.admits(&other));
            prop_assert_eq!(&both, &other.union(&one));
        }

        #[test]
        fn who_holds_more_sees_no_less(needed in some(), held in some(), more in some()) {
            let needed = Labels::new(needed).unwrap();
            let (less, all) = (Access::holding(held.clone()), Access::holding(held.into_iter().chain(more)));
            prop_assert!(!less.admits(&needed) || all.admits(&needed));
        }

        #[test]
        fn labels_are_read_back_from_their_text(labels in some()) {
            let labels = Labels::new(labels).unwrap();
            let text = labels.to_string();
            let parts = text.split(',').filter(|part| !part.is_empty());
            prop_assert_eq!(Labels::parse(parts).unwrap(), labels);
        }
    }

    #[test]
    fn a_label_is_short_and_plain() {
        for good in ["a", "team-a.eu_1", &"x".repeat(63)] {
            assert_eq!(good.parse::<Label>().unwrap().as_str(), good);
        }
        for bad in ["", "A", "a b", "a,b", "ü", "a/b", &"x".repeat(64)] {
            assert_eq!(bad.parse::<Label>().unwrap_err().kind(), ErrorKind::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn labels_are_a_set_of_at_most_sixteen() {
        let numbered = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(Labels::parse(numbered(16)).is_ok());
        let error = Labels::parse(numbered(17)).unwrap_err();
        assert!(error.message().contains("at most 16, got 17"), "{error}");
        assert_eq!(Labels::parse(["b", "a", "b"]).unwrap().to_string(), "a,b");
    }

    #[test]
    fn a_refusal_names_only_labels_that_the_caller_named() {
        let secret = Labels::parse(["secret"]).unwrap();
        let nobody = Access::holding([]);
        let attached = nobody.check_attached(&secret).unwrap_err();
        let replaced = nobody.check_replaced(&secret).unwrap_err();
        for error in [&attached, &replaced] {
            assert_eq!((error.kind(), error.reason()), (ErrorKind::Denied, "LABEL_NOT_HELD"));
        }
        assert!(attached.message().contains("`secret`") && !replaced.message().contains("secret"));
    }
}
