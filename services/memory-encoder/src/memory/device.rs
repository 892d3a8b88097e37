//! Work of a memory model's thread.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use clew_core::{Clues, Cost, DraftTask, DraftedClues, Error, Task};
use clew_model::memory::{
    Draft, DraftRequest, Drafted, GoOn, MemoryReader, MemorySnapshot, MemoryState, drafted_lines,
};
use clew_runtime::breaker::{Breaker, Computation, DEVICE_FAILED};

use super::error::{lost, refused_snapshot};
use super::exchange::Streams;
use super::peers::Peers;
use super::queue::{Ask, Brought, Form, Queue, Together, Work, is_wanted};
use super::ready::Ready;
use super::settings::Settings;

/// Maximum size of an answer in bytes.
const ANSWER_BYTES: usize = 4 << 10;

/// Model, with its queue and its ready memories.
pub(super) struct Device {
    pub reader: Arc<MemoryReader>,
    pub queue: Arc<Queue>,
    pub ready: Arc<Ready<MemoryState>>,
    pub breaker: Arc<Breaker>,
    pub peers: Arc<Peers>,
    pub settings: Settings,
}

/// Returns the drafts for a task, in their order.
fn drafts(task: &DraftTask) -> &'static [Draft] {
    match task.task {
        Task::Answer if task.answers => &[Draft::Passages, Draft::Questions, Draft::Answer],
        Task::Answer => &[Draft::Passages, Draft::Questions],
        Task::Summarise => &[Draft::KeyPoints],
    }
}

/// Returns the number of drafts for a task.
pub(super) fn drafts_of(task: &DraftTask) -> usize {
    drafts(task).len()
}

impl Device {
    /// Works until the queue is closed or `stopped` returns true. While the device fails, refuses
    /// work and checks the device.
    pub(super) fn work(&self, stopped: &dyn Fn() -> bool) {
        while let Some(work) = self.queue.next(self.breaker.next_check(), stopped) {
            match work {
                Work::Draft(asks) => self.draft(asks, stopped),
                Work::Form(form) => self.form(*form, stopped),
                Work::Together(together) => self.read_together(*together, stopped),
                Work::Check => self.breaker.check_if_due(|| self.check()),
                #[cfg(test)]
                Work::Panic => panic!("told to panic"),
            }
        }
    }

    /// Checks that the device gives a likelihood for the first word of a draft.
    fn check(&self) -> Result<(), Error> {
        let window = self.reader.model().settings().window;
        let memory = self.reader.ready(self.reader.begin(window)?)?;
        let request = DraftRequest { draft: Draft::Questions, question: String::new() };
        self.reader.draft(&memory, &[request], 1, &mut |_| true)?;
        Ok(())
    }

    /// Runs a computation on the device. If the device fails in it, removes all memories that are
    /// ready, which may be in any state.
    fn run<T>(
        &self,
        compute: impl FnOnce(&Computation<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.breaker.run(compute).inspect_err(|error| {
            if error.reason() == DEVICE_FAILED {
                self.ready.clear();
            }
        })
    }

    fn form(&self, mut form: Form, stopped: &dyn Fn() -> bool) {
        let begun = form.begun.take();
        let formed = match self.breaker.admit() {
            Ok(()) => self.run(|computation| self.try_form(&form, begun, computation, stopped)),
            Err(refusal) => Err(refusal),
        };
        // Released first, so that a caller that has the reply finds room.
        drop(form.permit);
        // Fails if the caller left meanwhile; then nobody needs the memory.
        drop(form.reply.send(formed));
    }

    fn try_form(
        &self,
        form: &Form,
        begun: Option<MemorySnapshot>,
        computation: &Computation<'_>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<MemorySnapshot, Error> {
        let mut memory = match begun {
            Some(begun) => self.reader.model().restore(begun).map_err(refused_snapshot)?,
            None => self.reader.begin(form.ratio)?,
        };
        let read = Cell::new(0);
        let meanwhile = || {
            self.draft_waiting(computation, stopped);
            form.is_wanted() && !stopped()
        };
        let go_on = |tokens: usize| {
            read.set(read.get() + tokens as u64);
            form.progress.send_replace(read.get());
            meanwhile()
        };
        let mut together = |memory: &MemoryState, tokens: &[u32]| {
            let before = read.get();
            match self.lead(memory, tokens, form, &meanwhile, &mut |tokens| go_on(tokens)) {
                Err(error @ clew_model::Error::Exchange { .. })
                    if form.is_wanted() && !stopped() =>
                {
                    // A loss costs time, and the memory is as it was.
                    tracing::info!(%error, "texts are read without other encoders");
                    read.set(before);
                    Ok(None)
                }
                led => led,
            }
        };
        let mut go_on = |tokens| go_on(tokens);
        match self.reader.read(&mut memory, &form.texts, &mut together, &mut go_on)? {
            true => {}
            false if stopped() => return Err(lost()),
            false => return Err(Error::deadline("reading texts into a memory")),
        }
        Ok(self.reader.model().save(&memory)?)
    }

    /// Reads whole windows together with other nodes. Returns the memory behind them, or `None` if
    /// they are to be read here alone.
    fn lead(
        &self,
        memory: &MemoryState,
        tokens: &[u32],
        form: &Form,
        meanwhile: &dyn Fn() -> bool,
        go_on: &mut GoOn<'_>,
    ) -> Result<Option<MemoryState>, clew_model::Error> {
        let model = self.reader.model();
        match self.peers.gather(model, memory, tokens, form.deadline)? {
            Some(group) => group.read(model, memory, tokens, meanwhile, go_on),
            None => Ok(None),
        }
    }

    fn read_together(&self, together: Together, stopped: &dyn Fn() -> bool) {
        let Together { begun, tokens, share, received, outbox, deadline, reply, permits } =
            together;
        let compute = |computation: &Computation<'_>| {
            let model = self.reader.model();
            let memory = model.restore(begun).map_err(refused_snapshot)?;
            let meanwhile = || {
                self.draft_waiting(computation, stopped);
                is_wanted(&reply, deadline) && !stopped()
            };
            let outboxes = std::slice::from_ref(&outbox);
            let mut streams = Streams { received: &received, outboxes, meanwhile: &meanwhile };
            model.read_together(&memory, &tokens, share, &mut streams, &mut |_| meanwhile())?;
            Ok(())
        };
        let read = match self.breaker.admit() {
            Ok(()) => self.run(compute),
            Err(refusal) => Err(refusal),
        };
        // Released first, so that a caller that has the reply finds room.
        drop((permits, outbox));
        // Fails if the caller left meanwhile; then nobody needs the slots.
        drop(reply.send(read));
    }

    /// Drafts for the questions that wait.
    fn draft_waiting(&self, computation: &Computation<'_>, stopped: &dyn Fn() -> bool) {
        computation.goes_on();
        while let Some(asks) = self.queue.asks() {
            self.draft(asks, stopped);
            computation.goes_on();
        }
    }

    /// Drafts for questions about one memory, side by side.
    fn draft(&self, mut asks: Vec<Ask>, stopped: &dyn Fn() -> bool) {
        if let Err(refusal) = self.breaker.admit() {
            for ask in asks {
                answer(ask, Err(refusal.again()));
            }
            return;
        }
        let Some(memory) = self.memory(&mut asks) else {
            for ask in asks {
                answer(ask, Ok(None));
            }
            return;
        };
        let draft = |asks: &[Ask]| {
            self.run(|computation| self.try_draft(&memory, asks, computation, stopped))
        };
        let together = draft(&asks);
        match together {
            Ok(drafted) => {
                for (ask, clues) in asks.into_iter().zip(drafted) {
                    // Drafts that were cut short are not what the caller asked for.
                    let is_cut_short = stopped() || Instant::now() >= ask.deadline;
                    answer(ask, if is_cut_short { Err(lost()) } else { Ok(Some(clues)) });
                }
            }
            // A question that fails must not fail the others.
            Err(_) if asks.len() > 1 => {
                for ask in asks {
                    let alone = draft(std::slice::from_ref(&ask));
                    self.answer_alone(ask, alone);
                }
            }
            Err(error) => {
                if let Some(ask) = asks.pop() {
                    self.answer_alone(ask, Err(error));
                }
            }
        }
    }

    fn answer_alone(&self, ask: Ask, drafted: Result<Vec<DraftedClues>, Error>) {
        if drafted.as_ref().is_err_and(Error::is_retryable) {
            // A device that failed may have left the memory in any state.
            self.ready.remove(&ask.key);
        }
        answer(ask, drafted.map(|mut drafted| drafted.pop()));
    }

    /// Returns the memory of the questions: it is ready, or one of them brought it. A question
    /// whose memory cannot be used is answered with the error and removed.
    fn memory(&self, asks: &mut Vec<Ask>) -> Option<Arc<MemoryState>> {
        let key = asks.first()?.key.clone();
        if let Some(memory) = self.ready.get(&key) {
            // Ends the flights, so that callers that wait for one find the memory ready, too.
            asks.iter_mut().for_each(|ask| ask.brought = None);
            return Some(memory);
        }
        while let Some(at) = asks.iter().position(|ask| ask.brought.is_some()) {
            let Some(Brought { snapshot, flight }) = asks[at].brought.take() else { break };
            let made = self.run(|_| self.make_ready(&key, snapshot));
            drop(flight);
            match made {
                Ok(memory) => return Some(memory),
                Err(error) => answer(asks.remove(at), Err(error)),
            }
        }
        None
    }

    fn make_ready(&self, key: &str, snapshot: MemorySnapshot) -> Result<Arc<MemoryState>, Error> {
        let model = self.reader.model();
        let bytes = |slots: usize| self.settings.ready_bytes(slots);
        if !self.ready.make_room(bytes(snapshot.extent.slots())) {
            tracing::warn!(
                slots = snapshot.extent.slots(),
                "a memory is larger than `memory_model.cache_bytes` and is not kept"
            );
        }
        let memory = model.restore(snapshot).map_err(refused_snapshot)?;
        let memory = Arc::new(self.reader.ready(memory)?);
        self.ready.keep(key, Arc::clone(&memory), bytes(memory.extent().slots()));
        Ok(memory)
    }

    fn try_draft(
        &self,
        memory: &MemoryState,
        asks: &[Ask],
        computation: &Computation<'_>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<DraftedClues>, Error> {
        let requests = asks.iter().flat_map(|ask| {
            let question = &ask.draft.question;
            drafts(&ask.draft)
                .iter()
                .map(|draft| DraftRequest { draft: *draft, question: question.clone() })
        });
        let requests: Vec<DraftRequest> = requests.collect();
        let mut go_on = |_: usize| {
            computation.goes_on();
            !stopped() && asks.iter().any(Ask::is_wanted)
        };
        let most = self.settings.draft_tokens;
        let mut drafted = self.reader.draft(memory, &requests, most, &mut go_on)?.into_iter();
        Ok(asks.iter().map(|ask| clues(&ask.draft, &mut drafted)).collect())
    }
}

/// Takes the clues of one question from the next drafts.
fn clues(task: &DraftTask, drafted: &mut dyn Iterator<Item = Drafted>) -> DraftedClues {
    let mut all = DraftedClues { memories: 1, ..DraftedClues::default() };
    for (draft, drafted) in drafts(task).iter().zip(drafted) {
        let Clues { queries, clues, key_points, answers } = &mut all.clues;
        match draft {
            Draft::Passages => clues.extend(drafted_lines(&drafted.text)),
            Draft::Questions => queries.extend(drafted_lines(&drafted.text)),
            Draft::KeyPoints => key_points.extend(drafted_lines(&drafted.text)),
            Draft::Answer => answers.extend(drafted_answer(&drafted.text)),
        }
        all.cost += Cost {
            model_calls: 1,
            prompt_tokens: drafted.prompt_tokens as u64,
            completion_tokens: drafted.completion_tokens as u64,
            ..Cost::default()
        };
    }
    all
}

/// Returns an answer, if there is one, which may be a single word. Cuts it to the size that a
/// search accepts as a query.
fn drafted_answer(text: &str) -> Option<String> {
    let text = text.trim();
    let text = &text[..text.floor_char_boundary(ANSWER_BYTES)];
    (!text.is_empty()).then(|| text.to_owned())
}

fn answer(ask: Ask, drafted: Result<Option<DraftedClues>, Error>) {
    // Released first, so that a caller that has the reply finds room.
    drop((ask.permit, ask.brought));
    // Fails if the caller left meanwhile; then nobody needs the drafts.
    drop(ask.reply.send(drafted));
}
