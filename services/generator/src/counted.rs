//! A language model with metrics for its calls and a health check.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{
    Error, ErrorKind, Generated, GenerationRequest, Generator, GeneratorIdentity, Heard,
};
use clew_telemetry::{Severity, Trouble, WeakRegistry, child, metrics};
use tracing::Instrument;

use crate::local;

/// Number of consecutive failures after which a model is reported as failing.
const FAILURES: u32 = 3;

static MODELS: WeakRegistry<Seen> = WeakRegistry::new();

struct Seen {
    model: String,
    /// Failures since the last successful call.
    failures: AtomicU32,
}

/// A language model whose calls are counted.
pub(crate) struct Counted {
    model: Arc<dyn Generator>,
    seen: Arc<Seen>,
}

impl Counted {
    pub fn new(model: Arc<dyn Generator>) -> Self {
        let name = model.identity().model.clone();
        let seen = Arc::new(Seen { model: name, failures: AtomicU32::new(0) });
        MODELS.add(&seen);
        // Create the series at zero: an alert cannot fire on a series that does not exist.
        metrics::model_called(&seen.model, 0, true);
        metrics::model_called(&seen.model, 0, false);
        metrics::model_tokens(&seen.model, 0, 0);
        Self { model, seen }
    }
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").field("model", &self.seen.model).finish_non_exhaustive()
    }
}

/// Returns the problems of the language models of this process: their calls fail, or the devices of
/// its own models do.
pub fn troubles() -> Vec<Trouble> {
    let failing = MODELS.all().into_iter().filter_map(|seen| {
        let failures = seen.failures.load(Ordering::Relaxed);
        (failures >= FAILURES).then(|| Trouble {
            part: format!("model {}", seen.model),
            problem: format!("the last {failures} calls failed"),
            severity: Severity::Degraded,
        })
    });
    failing.chain(local::troubles()).collect()
}

/// Returns whether an error is the model's fault and not the request's.
fn is_of_model(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::InvalidInput)
}

#[async_trait]
impl Generator for Counted {
    fn identity(&self) -> &GeneratorIdentity {
        self.model.identity()
    }

    fn count_tokens(&self, text: &str) -> u32 {
        self.model.count_tokens(text)
    }

    async fn generate(
        &self,
        request: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error> {
        let span = child(|| tracing::info_span!("generate", model = self.seen.model));
        let generating = self.model.generate(request, deadline, heard).instrument(span);
        let generated = metrics::stage("generate", generating).await;
        match &generated {
            Ok(Generated { usage, .. }) => {
                self.seen.failures.store(0, Ordering::Relaxed);
                metrics::model_called(&self.seen.model, u64::from(usage.calls), false);
                let (prompt, completion) = (usage.prompt_tokens, usage.completion_tokens);
                metrics::model_tokens(&self.seen.model, prompt, completion);
            }
            Err(error) => {
                metrics::model_called(&self.seen.model, 1, true);
                if is_of_model(error) {
                    self.seen.failures.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        generated
    }
}
