//! Moderation of what is written: every document and every turn is checked by a policy before it is
//! accepted ("LongMemEval", ethics statement).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Document, Error, ErrorKind};
use clew_text::words;

/// Shortest time between two log lines of the counts.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Policy that decides which documents are accepted.
#[async_trait]
pub trait Policy: Send + Sync {
    /// Returns the reason for which a document is refused, in words for its sender. Returns `None`
    /// if it may be stored.
    ///
    /// # Errors
    /// Returns an error if the policy cannot decide. The document is then not accepted and may be
    /// sent again.
    async fn objection(
        &self,
        document: &Document,
        deadline: Instant,
    ) -> Result<Option<String>, Error>;
}

/// Policy that refuses texts with one of its phrases. Without phrases it admits all.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefusedPhrases(Vec<String>);

impl RefusedPhrases {
    /// Prepares the configured phrases. They match whole words, regardless of case and of the
    /// characters between words.
    pub(crate) fn new(phrases: &[String]) -> Self {
        let phrases = phrases.iter().map(|phrase| plain(phrase));
        Self(phrases.filter(|phrase| !phrase.trim().is_empty()).collect())
    }
}

#[async_trait]
impl Policy for RefusedPhrases {
    async fn objection(
        &self,
        document: &Document,
        _deadline: Instant,
    ) -> Result<Option<String>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let texts = [plain(&document.title), plain(&document.text)];
        let is_held = |phrase: &String| texts.iter().any(|text| text.contains(phrase));
        let objection = "it holds words that this service was told not to keep";
        Ok(self.0.iter().any(is_held).then(|| objection.to_owned()))
    }
}

/// Returns the words of a text in lower case, with one space before and after each.
fn plain(text: &str) -> String {
    let mut plain = " ".to_owned();
    for word in words(text) {
        plain.push_str(&text[word.start..word.end].to_lowercase());
        plain.push(' ');
    }
    plain
}

/// A policy, with counts of its decisions.
pub struct Moderation {
    policy: Arc<dyn Policy>,
    judged: AtomicU64,
    refused: AtomicU64,
    logged: Mutex<Instant>,
}

impl Moderation {
    /// Creates a moderation by `policy`.
    pub fn by(policy: Arc<dyn Policy>) -> Self {
        let (judged, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { policy, judged, refused, logged: Mutex::new(Instant::now()) }
    }

    /// Checks a document against the policy.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] with the reason `CONTENT_REFUSED` if the policy objects,
    /// and the policy's own errors.
    pub(crate) async fn check(&self, document: &Document, deadline: Instant) -> Result<(), Error> {
        let objection = self.policy.objection(document, deadline).await?;
        self.judged.fetch_add(1, Ordering::Relaxed);
        let refusal = objection.map(|why| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let message = format!("`{}` is not kept: {why}", document.id);
            Error::new(ErrorKind::InvalidInput, "CONTENT_REFUSED", message)
        });
        self.log();
        refusal.map_or(Ok(()), Err)
    }

    /// Logs the counts from time to time, without any text or name.
    fn log(&self) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.elapsed() >= LOG_INTERVAL {
            *logged = Instant::now();
            let judged = self.judged.load(Ordering::Relaxed);
            let refused = self.refused.load(Ordering::Relaxed);
            tracing::info!(judged, refused, "moderation of what is written, since the start");
        }
    }
}

#[cfg(test)]
mod tests {
    use clew_core::{Attributes, Labels, MediaType};

    use super::*;

    fn document(text: &str) -> Document {
        Document {
            id: "a".parse().unwrap(),
            text: text.to_owned(),
            media_type: MediaType::Plain,
            title: String::new(),
            attributes: Attributes::new(),
            event_time: None,
            labels: Labels::default(),
            source_version: None,
        }
    }

    async fn is_kept(phrases: &[&str], text: &str) -> bool {
        let phrases: Vec<String> = phrases.iter().map(|&phrase| phrase.to_owned()).collect();
        let moderation = Moderation::by(Arc::new(RefusedPhrases::new(&phrases)));
        let checked = moderation.check(&document(text), Instant::now()).await;
        assert_eq!(moderation.judged.load(Ordering::Relaxed), 1);
        assert_eq!(moderation.refused.load(Ordering::Relaxed), u64::from(checked.is_err()));
        match checked {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.reason(), "CONTENT_REFUSED");
                assert!(!error.message().contains(text), "{error}");
                false
            }
        }
    }

    #[tokio::test]
    async fn whole_words_are_refused_whatever_their_case() {
        assert!(is_kept(&[], "the minotaur").await);
        assert!(is_kept(&["", " . "], "the minotaur").await);
        assert!(is_kept(&["red thread"], "The red threads, a thread.").await);
        assert!(!is_kept(&["bull", "red thread"], "A RED,\nthread").await);
    }
}
