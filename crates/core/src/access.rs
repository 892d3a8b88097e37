//! Access labels: what documents need, what callers hold, and the one law between them.
//!
//! A document carries labels, and what is derived of documents needs the labels of all of them. A caller sees
//! what needs only labels that the caller holds: `needed ⊆ held`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Error, ErrorKind};

/// Most bytes of a label.
const LABEL_BYTES: usize = 63;

/// An access label: 1 to 63 of `a-z 0-9 - _ .`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// The label as text.
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

/// The labels that something needs: a set. Needing none means that everybody sees it. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[Label]>);

impl Labels {
    /// Most labels of a document.
    pub const MOST: usize = 16;

    /// These labels, of which one that comes twice counts once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for more than [`Labels::MOST`].
    pub fn new(labels: impl IntoIterator<Item = Label>) -> Result<Self, Error> {
        let labels: BTreeSet<Label> = labels.into_iter().collect();
        if labels.len() > Self::MOST {
            let problem = format!("expected at most {}, got {}", Self::MOST, labels.len());
            return Err(Error::invalid("labels", problem));
        }
        Ok(Self(labels.into_iter().collect()))
    }

    /// The labels that these texts name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for a text that is no label, and for too many.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Self, Error> {
        let labels = texts.into_iter().map(|text| text.as_ref().parse());
        Self::new(labels.collect::<Result<Vec<Label>, Error>>()?)
    }

    /// Whether none are needed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The labels, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// What something needs that is made of what needs these and what needs those: all of both, however many.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() || self == other {
            return self.clone();
        }
        let all: BTreeSet<&Label> = self.iter().chain(other.iter()).collect();
        Self(all.into_iter().cloned().collect())
    }
}

/// Joined by commas, which no label holds; empty if there are none.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, label) in self.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { "," })?;
            f.write_str(label.as_str())?;
        }
        Ok(())
    }
}

/// The labels that a caller holds. Cheap to clone.
///
/// There is no default: whoever asks says who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access(Held);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    All,
    These(Arc<BTreeSet<Label>>),
}

impl Access {
    /// Of one who holds every label there is.
    pub fn all() -> Self {
        Self(Held::All)
    }

    /// Of one who holds these labels.
    pub fn holding(labels: impl IntoIterator<Item = Label>) -> Self {
        Self(Held::These(Arc::new(labels.into_iter().collect())))
    }

    /// Whether every label is held.
    pub fn is_all(&self) -> bool {
        matches!(self.0, Held::All)
    }

    /// The labels that are held, in order; none are told of one who holds all.
    pub fn labels(&self) -> impl Iterator<Item = &Label> {
        match &self.0 {
            Held::All => None,
            Held::These(held) => Some(held.iter()),
        }
        .into_iter()
        .flatten()
    }

    /// Whether what needs these labels may be seen, made and changed.
    pub fn admits(&self, needed: &Labels) -> bool {
        self.first_lacking(needed).is_none()
    }

    /// Refuses to make something that needs labels which are not held.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] with the reason `LABEL_NOT_HELD`, naming the first of them: the caller named
    /// it, too.
    pub fn check_attached(&self, needed: &Labels) -> Result<(), Error> {
        match self.first_lacking(needed) {
            None => Ok(()),
            Some(label) => Err(label_not_held(format!(
                "label `{label}` is not held by the caller; attach only labels that the key holds"
            ))),
        }
    }

    /// Refuses to replace what needs labels which are not held, without naming them.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] with the reason `LABEL_NOT_HELD`.
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

    /// Sets of few labels, so that they overlap.
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
