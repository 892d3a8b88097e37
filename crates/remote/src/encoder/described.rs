//! Cached description of a model that all encoders have, or none.

use std::time::{Duration, Instant};

use clew_core::Error;
use tokio::sync::Mutex;

/// Time for which the description of an existing model is cached.
pub(crate) const BELIEVED: Duration = Duration::from_secs(60);
/// Maximum time for asking encoders for a description.
const PATIENCE: Duration = Duration::from_secs(10);

/// Description of a model, asked for by one caller at a time and cached for a while.
pub(crate) struct Described<T> {
    /// Reason of the error by which an encoder says that it has no such model.
    absent: &'static str,
    absence_believed: Duration,
    known: Mutex<Option<Known<T>>>,
}

struct Known<T> {
    model: Option<T>,
    until: Instant,
}

impl<T: Clone> Described<T> {
    /// Creates an empty cache. An encoder without the model answers with the reason `absent`, and
    /// its absence is cached for `absence_believed`.
    pub(crate) fn new(absent: &'static str, absence_believed: Duration) -> Self {
        Self { absent, absence_believed, known: Mutex::default() }
    }

    /// Returns the cached description. If there is none, calls `ask` with a deadline and caches the
    /// answer. Returns `None` if the encoders have no such model.
    ///
    /// # Errors
    /// Returns the errors of `ask`.
    pub(crate) async fn get<F>(
        &self,
        deadline: Instant,
        ask: impl FnOnce(Instant) -> F,
    ) -> Result<Option<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut known = self.known.lock().await;
        if let Some(Known { model, until }) = &*known
            && Instant::now() < *until
        {
            return Ok(model.clone());
        }
        let model = match ask(deadline.min(Instant::now() + PATIENCE)).await {
            Ok(model) => Some(model),
            Err(error) if error.reason() == self.absent => None,
            Err(error) => return Err(error),
        };
        let believed = if model.is_some() { BELIEVED } else { self.absence_believed };
        *known = Some(Known { model: model.clone(), until: Instant::now() + believed });
        Ok(model)
    }

    /// Empties the cache.
    pub(crate) async fn forget(&self) {
        *self.known.lock().await = None;
    }
}
