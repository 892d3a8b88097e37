//! Several models, each for when those before it fail.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Error, ErrorKind, Generated, GenerationRequest, Generator, GeneratorIdentity, Heard,
};

/// Part of the remaining time that is kept for those that come next.
const RESERVED: u32 = 3;

/// Models that are tried in order: the next one is asked when one cannot be reached, fails, is full, takes
/// too long or is not set up rightly. What no model can answer is not passed on.
///
/// Each but the last gets two thirds of the time that is left, so that a model that hangs leaves time for
/// another.
pub struct Fallback {
    identity: GeneratorIdentity,
    first: Arc<dyn Generator>,
    others: Vec<Arc<dyn Generator>>,
}

impl Fallback {
    /// `first`, and the others for when it fails. The identity names all of them, and its window is the
    /// smallest.
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

    /// The most that any of them counts.
    fn count_tokens(&self, text: &str) -> u32 {
        let first = self.first.count_tokens(text);
        self.others.iter().map(|other| other.count_tokens(text)).fold(first, u32::max)
    }

    /// # Errors
    /// [`ErrorKind::InvalidInput`] of the model that found it; that of the last model; a passed deadline.
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
                    // Who cannot repeat a request does not tell of the one.
                    failed += asked.max(1);
                    calls = request.most_calls.and_then(|most| left_of(most, failed));
                    failure = Some(error);
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::deadline("a model replied")))
    }
}

/// What is left of `most` calls.
fn left_of(most: NonZeroU32, calls: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(most.get().saturating_sub(calls))
}

/// Whether no call is left that a request may take.
fn is_used_up(request: &GenerationRequest, calls: u32) -> bool {
    request.most_calls.is_some_and(|most| left_of(most, calls).is_none())
}

/// Whether another model may answer what one failed to answer so.
fn is_of_the_model(kind: ErrorKind) -> bool {
    match kind {
        // A wrong key or a missing model is its own.
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
