//! What encoders tell of a model that all of them have, or none.

use std::time::{Duration, Instant};

use clew_core::Error;
use tokio::sync::Mutex;

/// How long what they told is believed.
pub(crate) const BELIEVED: Duration = Duration::from_secs(60);
/// How long they are asked for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The description of a model, asked for by one caller at a time and believed for a while.
pub(crate) struct Described<T> {
    /// The reason by which an encoder says that it has none.
    absent: &'static str,
    absence_believed: Duration,
    known: Mutex<Option<Known<T>>>,
}

struct Known<T> {
    model: Option<T>,
    until: Instant,
}

impl<T: Clone> Described<T> {
    /// Nothing is known yet. An encoder without the model says so by the reason `absent`, which is believed for so long.
    pub(crate) fn new(absent: &'static str, absence_believed: Duration) -> Self {
        Self { absent, absence_believed, known: Mutex::default() }
    }

    /// The model, as `ask` is told by an encoder until the time that it is given, unless that is known; `None` if there
    /// is none.
    ///
    /// # Errors
    /// Those of `ask`.
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
}
