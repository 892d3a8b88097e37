//! A language model in this process: one thread computes replies and streams them to the callers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Error, ErrorKind, Finish, Generated, GenerationRequest, Generator, GeneratorIdentity, Heard,
    Usage,
};
use clew_model::generation::{Event, GenerationBatch, ReplyId};
use clew_model::{LanguageModel, LanguageModelOptions};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::deadline::within;
use clew_runtime::tree::RunningPart;
use tokio::sync::mpsc;

use crate::config::LocalConfig;

/// Retry delay for refused callers: about the duration of a reply.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A language model that runs in this process. Cheap to clone; its thread ends with the last clone.
#[derive(Clone)]
pub struct LocalGenerator {
    identity: GeneratorIdentity,
    model: Arc<LanguageModel>,
    asked: mpsc::UnboundedSender<Asked>,
    /// Gate for replies that are being generated or wait for it.
    replies: Gate,
}

/// A request on its way to the thread. The gate bounds their number.
struct Asked {
    request: GenerationRequest,
    listener: mpsc::UnboundedSender<Told>,
    /// Held until the reply has ended or its caller has left. It is released before the end is
    /// sent, so that a caller that receives the end finds the place free.
    permit: Permit,
}

/// Message to a caller. The reply's number of tokens bounds how many are queued.
enum Told {
    Text(String),
    Ended { finish: Finish, prompt_tokens: u64, completion_tokens: u64 },
    Failed(Error),
}

/// Caller that receives a reply.
struct Listener {
    told: mpsc::UnboundedSender<Told>,
    permit: Permit,
}

impl Listener {
    /// Sends how the reply ended.
    fn end(self, told: Told) {
        drop(self.permit);
        // A caller that has left needs no message.
        drop(self.told.send(told));
    }
}

impl LocalGenerator {
    /// Loads the configured model and starts its thread.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the folder or the settings cannot be used.
    pub async fn load(config: &LocalConfig) -> Result<Self, Error> {
        let options = LanguageModelOptions {
            folder: config.model.clone(),
            tokenizer: config.tokenizer.clone(),
            name: None,
            device: config.device,
            precision: config.precision,
            threads: config.threads as usize,
        };
        let loading = tokio::task::spawn_blocking(move || LanguageModel::load(&options));
        let model = loading
            .await
            .map_err(|panic| Error::internal("loading the model panicked").with_source(panic))?;
        let model = Arc::new(model.map_err(Error::from)?);
        let (asked, requests) = mpsc::unbounded_channel();
        let (computed, limits) = (Arc::clone(&model), BatchLimits::of(config));
        std::thread::Builder::new()
            .name("generator".to_owned())
            .spawn(move || compute(&computed, limits, requests))
            .map_err(|error| {
                Error::internal("the model's thread did not start").with_source(error)
            })?;
        let window = u32::try_from(model.window()).unwrap_or(u32::MAX).min(config.cache_tokens);
        Ok(Self {
            identity: GeneratorIdentity { model: model.name().to_owned(), window },
            model,
            asked,
            replies: Gate::new("the generator's queue of replies", config.replies, RETRY_AFTER)
                .seen_as("replies", "requests"),
        })
    }

    /// Returns the number of the model's parameters.
    pub fn parameters(&self) -> usize {
        self.model.parameters()
    }

    /// Returns the model's node for the tree of running parts.
    pub fn node(&self) -> RunningPart {
        self.replies.node()
    }
}

#[async_trait]
impl Generator for LocalGenerator {
    fn identity(&self) -> &GeneratorIdentity {
        &self.identity
    }

    fn count_tokens(&self, text: &str) -> u32 {
        u32::try_from(self.model.count_tokens(text)).unwrap_or(u32::MAX)
    }

    async fn generate(
        &self,
        request: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'text> FnMut(Heard<'text>) + Send),
    ) -> Result<Generated, Error> {
        request.check()?;
        let began = Instant::now();
        let permit = self.replies.try_enter(1)?;
        let (listener, mut told) = mpsc::unbounded_channel();
        let asked = Asked { request: request.clone(), listener, permit };
        self.asked.send(asked).map_err(|_| thread_ended_error())?;
        let mut text = String::new();
        loop {
            let next = async { told.recv().await.ok_or_else(thread_ended_error) };
            match within(deadline, "generating a reply", next).await? {
                Told::Text(more) => {
                    heard(Heard::Text(&more));
                    text.push_str(&more);
                }
                Told::Failed(error) => return Err(error),
                Told::Ended { finish, prompt_tokens, completion_tokens } => {
                    let took = began.elapsed();
                    let usage = Usage { prompt_tokens, completion_tokens, took, calls: 1 };
                    let model = self.identity.model.clone();
                    return Ok(Generated { text, finish, usage, model });
                }
            }
        }
    }
}

/// Limits of a batch, in tokens.
#[derive(Clone, Copy)]
struct BatchLimits {
    step: usize,
    room: usize,
}

impl BatchLimits {
    fn of(config: &LocalConfig) -> Self {
        Self { step: config.step_tokens as usize, room: config.cache_tokens as usize }
    }

    fn batch(self, model: &Arc<LanguageModel>) -> GenerationBatch {
        GenerationBatch::new(Arc::clone(model), self.step).with_room(self.room)
    }
}

/// Runs the thread: steps through all replies at once until the last [`LocalGenerator`] is dropped.
fn compute(
    model: &Arc<LanguageModel>,
    limits: BatchLimits,
    mut requests: mpsc::UnboundedReceiver<Asked>,
) {
    let mut batch = limits.batch(model);
    let mut listeners: HashMap<ReplyId, Listener> = HashMap::new();
    loop {
        if batch.is_empty() {
            let Some(asked) = requests.blocking_recv() else { return };
            admit(&mut batch, &mut listeners, asked);
        }
        while let Ok(asked) = requests.try_recv() {
            admit(&mut batch, &mut listeners, asked);
        }
        listeners.retain(|reply, listener| {
            let listens = !listener.told.is_closed();
            if !listens {
                batch.cancel(*reply);
            }
            listens
        });
        if batch.is_empty() {
            continue;
        }
        // A panic of the device's code ends the replies in progress, not this thread.
        match catch_unwind(AssertUnwindSafe(|| batch.step())) {
            Ok(Ok(events)) => events.into_iter().for_each(|event| tell(&mut listeners, event)),
            Ok(Err(error)) => {
                tracing::error!(%error, "the model failed; its replies are lost");
                batch = restarted(model, limits, &mut listeners);
            }
            Err(_panic) => {
                tracing::error!("the model panicked; its replies are lost");
                batch = restarted(model, limits, &mut listeners);
            }
        }
    }
}

fn admit(batch: &mut GenerationBatch, listeners: &mut HashMap<ReplyId, Listener>, asked: Asked) {
    let Asked { request, listener, permit } = asked;
    let listener = Listener { told: listener, permit };
    let added = catch_unwind(AssertUnwindSafe(|| batch.add(&request)));
    let failure = match added {
        Ok(Ok(reply)) => {
            listeners.insert(reply, listener);
            return;
        }
        Ok(Err(error)) => Error::from(error),
        Err(_panic) => Error::internal("preparing a reply panicked"),
    };
    listener.end(Told::Failed(failure));
}

fn tell(listeners: &mut HashMap<ReplyId, Listener>, event: Event) {
    let Event { reply, text, end } = event;
    let Some(listener) = listeners.get(&reply) else { return };
    if !text.is_empty() {
        drop(listener.told.send(Told::Text(text)));
    }
    if let Some(end) = end {
        let told = match end.finish {
            Ok(finish) => Told::Ended {
                finish,
                prompt_tokens: end.prompt_tokens as u64,
                completion_tokens: end.completion_tokens as u64,
            },
            Err(error) => Told::Failed(error.into()),
        };
        if let Some(listener) = listeners.remove(&reply) {
            listener.end(told);
        }
    }
}

fn restarted(
    model: &Arc<LanguageModel>,
    limits: BatchLimits,
    listeners: &mut HashMap<ReplyId, Listener>,
) -> GenerationBatch {
    for (_, listener) in listeners.drain() {
        listener.end(Told::Failed(model_failed_error()));
    }
    limits.batch(model)
}

fn model_failed_error() -> Error {
    Error::new(ErrorKind::Unavailable, "DEVICE_FAILED", "the language model failed; retry")
}

fn thread_ended_error() -> Error {
    Error::new(ErrorKind::Unavailable, "DEVICE_FAILED", "the language model's thread has ended")
}
