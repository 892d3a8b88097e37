//! A sequence of models in which each stands in for the failed ones before it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Error, ErrorKind, Generated, GenerationRequest, Generator, GeneratorIdentity, Heard,
};

/// Divisor of the remaining time: one third is reserved for the models that follow.
const RESERVED: u32 = 3;

/// Models that are tried in order. The next one is asked if a model cannot be reached, fails, is
/// full, takes too long or is set up wrongly. Requests that no model can answer are not passed on.
///
/// Each model but the last gets two thirds of the remaining time, so that a model that hangs leaves
/// time for another.
pub struct Fallback {
    identity: GeneratorIdentity,
    first: Arc<dyn Generator>,
    others: Vec<Arc<dyn Generator>>,
}

impl Fallback {
    /// Creates a sequence that starts with `first`. The identity names all models, and its window
    /// is the smallest one.
    pub fn new(first: Arc<dyn Generator>, others: Vec<Arc<dyn Generator>>) -> Self {
        let mut identity = first.identity().clone();
        for other in &others {
            identity.model.push_str(", else ");
            identity.model.push_str(&other.identity().model);
            identity.window = identity.window.min(other.identity().window);
        }
        Self { identity, first, others }
    }
}

#[async_trait]
impl Generator for Fallback {
    fn identity(&self) -> &GeneratorIdentity {
        &self.identity
    }

    /// Returns the highest count of any of the models.
    fn count_tokens(&self, text: &str) -> u32 {
        let first = self.first.count_tokens(text);
        self.others.iter().map(|other| other.count_tokens(text)).fold(first, u32::max)
    }

    /// # Errors
    /// Returns at once an error that another model would meet as well, such as
    /// [`ErrorKind::InvalidInput`]; otherwise the error of the last model asked.
    async fn generate(
        &self,
        request: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error> {
        let begun = Instant::now();
        let mut is_heard = false;
        let (mut calls, mut failed) = (request.most_calls, 0);
        let models = [&self.first].into_iter().chain(&self.others);
        let mut failure = None;
        for (index, model) in models.enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            if failure.is_some() && (left == Duration::ZERO || is_used_up(request, failed)) {
                break;
            }
            if std::mem::take(&mut is_heard) {
                heard(Heard::Anew);
            }
            let reserved = if index < self.others.len() { left / RESERVED } else { Duration::ZERO };
            let mut asked = 0;
            let mut listen = |part: Heard<'_>| {
                match part {
                    Heard::Asked => asked += 1,
                    Heard::Text(_) => is_heard = true,
                    Heard::Anew => is_heard = false,
                }
                heard(part);
            };
            let rest = GenerationRequest { most_calls: calls, ..request.clone() };
            match model.generate(&rest, deadline - reserved, &mut listen).await {
                Ok(mut generated) => {
                    generated.usage.calls += failed;
                    generated.usage.took = begun.elapsed();
                    return Ok(generated);
                }
                Err(error) if !is_of_the_model(error.kind()) => return Err(error),
                Err(error) => {
                    let model = &model.identity().model;
                    tracing::warn!(%model, reason = error.reason(), error = %error.chain(), "a model failed");
                    // A generator that never retries does not report its only request.
                    failed += asked.max(1);
                    calls = request.most_calls.and_then(|most| left_of(most, failed));
                    failure = Some(error);
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::deadline("a model replied")))
    }
}

/// Returns the number of calls left of `most`, or `None` if there are none.
fn left_of(most: NonZeroU32, calls: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(most.get().saturating_sub(calls))
}

/// Returns whether the request allows no more calls.
fn is_used_up(request: &GenerationRequest, calls: u32) -> bool {
    request.most_calls.is_some_and(|most| left_of(most, calls).is_none())
}

/// Returns whether another model may answer a request that failed with an error of this kind.
fn is_of_the_model(kind: ErrorKind) -> bool {
    match kind {
        // A wrong key or a missing model concerns this model only.
        ErrorKind::WrongState
        | ErrorKind::Exhausted
        | ErrorKind::Unavailable
        | ErrorKind::DeadlineExceeded => true,
        ErrorKind::InvalidInput
        | ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::Unauthenticated
        | ErrorKind::Denied
        | ErrorKind::LostRace
        | ErrorKind::DataLoss
        | ErrorKind::Internal => false,
    }
}
