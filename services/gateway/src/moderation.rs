//! A policy that may refuse what is written ("LongMemEval", ethics statement): every document and every turn
//! passes it before it is accepted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{Document, Error, ErrorKind};
use clew_text::words;

/// How often what was judged is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Decides what may be kept.
#[async_trait]
pub trait Policy: Send + Sync {
    /// Why a document is not to be kept, in words for who sent it; `None` if it may be.
    ///
    /// # Errors
    /// That it cannot be decided: then the document is not accepted, and may be sent again.
    async fn objection(
        &self,
        document: &Document,
        deadline: Instant,
    ) -> Result<Option<String>, Error>;
}

/// Refuses texts that hold one of some phrases; without phrases it admits all.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefusedPhrases(Vec<String>);

impl RefusedPhrases {
    /// Those of the configuration: whole words, whatever their case and what stands between them.
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

/// Its words in small letters, with one blank before and after each.
fn plain(text: &str) -> String {
    let mut plain = " ".to_owned();
    for word in words(text) {
        plain.push_str(&text[word.start..word.end].to_lowercase());
        plain.push(' ');
    }
    plain
}

/// A policy, and how often it objected.
pub struct Moderation {
    policy: Arc<dyn Policy>,
    judged: AtomicU64,
    refused: AtomicU64,
    logged: Mutex<Instant>,
}

impl Moderation {
    /// Moderates by `policy`.
    pub fn by(policy: Arc<dyn Policy>) -> Self {
        let (judged, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { policy, judged, refused, logged: Mutex::new(Instant::now()) }
    }

    /// Refuses a document that is not to be kept.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] with the reason `CONTENT_REFUSED`; those of the policy.
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

    /// Counts, from time to time; no text and no name is logged.
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
