//! A language model in this process: one thread computes replies and streams them to the callers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    ChatMessage, ChatRole, Error, ErrorKind, Finish, Generated, GenerationRequest, Generator,
    GeneratorIdentity, Heard, Usage,
};
use clew_model::generation::{Event, GenerationBatch, ReplyId};
use clew_model::{LanguageModel, LanguageModelOptions};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::breaker::{Breaker, DEVICE_FAILED};
use clew_runtime::deadline::within;
use clew_runtime::tree::RunningPart;
use clew_telemetry::{Severity, Trouble, WeakRegistry};
use tokio::sync::mpsc;

use crate::config::LocalConfig;

/// Retry delay for refused callers: about the duration of a reply.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Breakers of the models of this process.
static BREAKERS: WeakRegistry<Breaker> = WeakRegistry::new();

/// Returns the troubles of the devices of this process's own models: they fail, or do not go on.
pub(crate) fn troubles() -> Vec<Trouble> {
    BREAKERS.all().iter().flat_map(|breaker| breaker.troubles()).collect()
}

/// A language model that runs in this process. Cheap to clone; its thread ends with the last clone.
#[derive(Clone)]
pub struct LocalGenerator {
    identity: GeneratorIdentity,
    model: Arc<LanguageModel>,
    asked: Sender<Asked>,
    breaker: Arc<Breaker>,
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
            precision: config.precision.of_decoder(config.device),
            threads: config.threads as usize,
        };
        let loading = tokio::task::spawn_blocking(move || LanguageModel::load(&options));
        let model = loading
            .await
            .map_err(|panic| Error::internal("loading the model panicked").with_source(panic))?;
        let model = Arc::new(model.map_err(Error::from)?);
        let mut breaker = Breaker::new("generator", model.name(), Severity::Degraded);
        if !config.device.is_gpu() {
            breaker = breaker.of_processor();
        }
        let breaker = Arc::new(breaker);
        BREAKERS.add(&breaker);
        let (asked, requests) = channel();
        let thread = Thread::new(Arc::clone(&model), BatchLimits::of(config), Arc::clone(&breaker));
        std::thread::Builder::new()
            .name("generator".to_owned())
            .spawn(move || thread.compute(&requests))
            .map_err(|error| {
                Error::internal("the model's thread did not start").with_source(error)
            })?;
        let window = u32::try_from(model.window()).unwrap_or(u32::MAX).min(config.cache_tokens);
        Ok(Self {
            identity: GeneratorIdentity { model: model.name().to_owned(), window },
            model,
            asked,
            breaker,
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
        self.breaker.admit()?;
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

/// Thread that computes all replies side by side.
struct Thread {
    model: Arc<LanguageModel>,
    limits: BatchLimits,
    breaker: Arc<Breaker>,
    batch: GenerationBatch,
    listeners: HashMap<ReplyId, Listener>,
}

impl Thread {
    fn new(model: Arc<LanguageModel>, limits: BatchLimits, breaker: Arc<Breaker>) -> Self {
        let (batch, listeners) = (limits.batch(&model), HashMap::new());
        Self { model, limits, breaker, batch, listeners }
    }

    /// Steps through all replies at once until the last [`LocalGenerator`] is dropped. While the
    /// device fails, refuses requests and checks the device.
    fn compute(mut self, requests: &Receiver<Asked>) {
        loop {
            self.breaker.check_if_due(|| check(&self.model));
            if let Err(refusal) = self.breaker.admit() {
                self.fail_all(&refusal);
            }
            if self.batch.is_empty() {
                match self.wait(requests) {
                    Ok(asked) => self.admit(asked),
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            while let Ok(asked) = requests.try_recv() {
                self.admit(asked);
            }
            let batch = &mut self.batch;
            self.listeners.retain(|reply, listener| {
                let listens = !listener.told.is_closed();
                if !listens {
                    batch.cancel(*reply);
                }
                listens
            });
            if !self.batch.is_empty() {
                self.step();
            }
        }
    }

    /// Waits for a request, until the next check of the device at the longest.
    fn wait(&self, requests: &Receiver<Asked>) -> Result<Asked, RecvTimeoutError> {
        match self.breaker.next_check() {
            None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(check) => requests.recv_timeout(check.saturating_duration_since(Instant::now())),
        }
    }

    fn admit(&mut self, asked: Asked) {
        let Asked { request, listener, permit } = asked;
        let listener = Listener { told: listener, permit };
        if let Err(refusal) = self.breaker.admit() {
            return listener.end(Told::Failed(refusal));
        }
        let added = catch_unwind(AssertUnwindSafe(|| self.batch.add(&request)));
        let failure = match added {
            Ok(Ok(reply)) => {
                self.listeners.insert(reply, listener);
                return;
            }
            Ok(Err(error)) => Error::from(error),
            Err(_panic) => Error::internal("preparing a reply panicked"),
        };
        listener.end(Told::Failed(failure));
    }

    fn step(&mut self) {
        let batch = &mut self.batch;
        match self.breaker.run(|_| batch.step().map_err(Error::from)) {
            Ok(events) => events.into_iter().for_each(|event| self.tell(event)),
            // The replies are lost, as the device may have left them in any state.
            Err(error) => self.fail_all(&error),
        }
    }

    fn tell(&mut self, event: Event) {
        let Event { reply, text, end } = event;
        let Some(listener) = self.listeners.get(&reply) else { return };
        if !text.is_empty() {
            drop(listener.told.send(Told::Text(text)));
        }
        let Some(end) = end else { return };
        let told = match end.finish.map_err(Error::from) {
            Ok(finish) => Told::Ended {
                finish,
                prompt_tokens: end.prompt_tokens as u64,
                completion_tokens: end.completion_tokens as u64,
            },
            Err(error) if error.reason() == DEVICE_FAILED => {
                Told::Failed(self.breaker.failed(error))
            }
            Err(error) => Told::Failed(error),
        };
        if let Some(listener) = self.listeners.remove(&reply) {
            listener.end(told);
        }
    }

    /// Ends all replies with an error.
    fn fail_all(&mut self, error: &Error) {
        for (_, listener) in self.listeners.drain() {
            listener.end(Told::Failed(error.again()));
        }
        self.batch = self.limits.batch(&self.model);
    }
}

/// Checks that the device gives a likelihood for the first word of a reply.
fn check(model: &Arc<LanguageModel>) -> Result<(), Error> {
    let mut batch = GenerationBatch::new(Arc::clone(model), usize::MAX);
    let messages = vec![ChatMessage { role: ChatRole::User, text: "clew".to_owned() }];
    let request = GenerationRequest { messages, max_tokens: 1, ..GenerationRequest::default() };
    batch.add(&request)?;
    while !batch.is_empty() {
        for event in batch.step()? {
            if let Some(end) = event.end {
                end.finish?;
            }
        }
    }
    Ok(())
}

fn thread_ended_error() -> Error {
    Error::new(ErrorKind::Unavailable, DEVICE_FAILED, "the language model's thread has ended")
}

#[cfg(test)]
mod tests {
    use clew_testkit::{overflow, write_tiny_decoder};

    use super::*;

    async fn generator(overflowing: Option<&str>) -> LocalGenerator {
        let folder = tempfile::tempdir().unwrap();
        write_tiny_decoder(folder.path(), 3).unwrap();
        if let Some(tensor) = overflowing {
            overflow(folder.path(), tensor).unwrap();
        }
        let config = LocalConfig { threads: 1, ..LocalConfig::of(folder.path().to_owned()) };
        LocalGenerator::load(&config).await.unwrap()
    }

    async fn reply(generator: &LocalGenerator) -> Result<Generated, Error> {
        let messages =
            vec![ChatMessage { role: ChatRole::User, text: "Say something.".to_owned() }];
        let request = GenerationRequest { messages, max_tokens: 4, ..GenerationRequest::default() };
        let deadline = Instant::now() + Duration::from_secs(60);
        generator.generate(&request, deadline, &mut |_| {}).await
    }

    fn severity(generator: &LocalGenerator) -> Option<Severity> {
        generator.breaker.troubles().first().map(|trouble| trouble.severity)
    }

    #[tokio::test]
    async fn a_model_without_likelihoods_gets_no_more_work() {
        let generator = generator(Some("model.norm.weight")).await;
        let failed = reply(&generator).await.unwrap_err();
        assert_eq!((failed.reason(), failed.is_retryable()), (DEVICE_FAILED, true));
        while severity(&generator) != Some(Severity::Degraded) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let refused = reply(&generator).await.unwrap_err();
        assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Unavailable, DEVICE_FAILED));
        assert!(refused.message().contains("takes no work"), "{refused}");
        assert!(refused.retry_after().is_some());
        assert!(troubles().iter().any(|trouble| trouble.part == "generator"));
        assert_eq!(generator.node().queued, 0, "every permit came back");
    }

    #[tokio::test]
    async fn a_model_that_passes_its_check_goes_on() {
        let generator = generator(None).await;
        let text = reply(&generator).await.unwrap().text;
        generator.breaker.failed(Error::internal("out of memory"));
        assert_eq!(reply(&generator).await.unwrap().text, text);
        assert_eq!(generator.breaker.next_check(), None, "it was checked before the reply");
        assert_eq!(severity(&generator), None);
    }
}
