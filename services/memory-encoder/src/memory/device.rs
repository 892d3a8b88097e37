//! Work of a memory model's thread.

use std::sync::Arc;
use std::time::Instant;

use clew_core::{Clues, Cost, DraftTask, DraftedClues, Error, Task};
use clew_model::memory::{
    Draft, DraftRequest, Drafted, MemoryReader, MemorySnapshot, MemoryState, drafted_lines,
};

use super::error::{lost, refused_snapshot};
use super::queue::{Ask, Brought, Form, Queue, Work};
use super::ready::Ready;
use super::settings::Settings;

/// Maximum size of an answer in bytes.
const ANSWER_BYTES: usize = 4 << 10;

/// Model, with its queue and its ready memories.
pub(super) struct Device {
    pub reader: Arc<MemoryReader>,
    pub queue: Arc<Queue>,
    pub ready: Arc<Ready<MemoryState>>,
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
    /// Works until the queue is closed or `stopped` returns true.
    pub(super) fn work(&self, stopped: &dyn Fn() -> bool) {
        while let Some(work) = self.queue.next(stopped) {
            match work {
                Work::Draft(asks) => self.draft(asks, stopped),
                Work::Form(form) => self.form(*form, stopped),
                #[cfg(test)]
                Work::Panic => panic!("told to panic"),
            }
        }
    }

    fn form(&self, form: Form, stopped: &dyn Fn() -> bool) {
        let formed = self.try_form(&form, stopped);
        // Released first, so that a caller that has the reply finds room.
        drop(form.permit);
        // Fails if the caller left meanwhile; then nobody needs the memory.
        drop(form.reply.send(formed));
    }

    fn try_form(&self, form: &Form, stopped: &dyn Fn() -> bool) -> Result<MemorySnapshot, Error> {
        let mut memory = match &form.begun {
            Some(begun) => self.reader.model().restore(begun).map_err(refused_snapshot)?,
            None => self.reader.begin(form.ratio)?,
        };
        let mut read = 0;
        for text in &form.texts {
            let mut go_on = |tokens: usize| {
                read += tokens as u64;
                form.progress.send_replace(read);
                while let Some(asks) = self.queue.asks() {
                    self.draft(asks, stopped);
                }
                form.is_wanted() && !stopped()
            };
            let whole = self.reader.read(&mut memory, &text.title, &text.text, &mut go_on)?;
            match whole {
                Some(_tokens) => {}
                None if stopped() => return Err(lost()),
                None => return Err(Error::deadline("reading texts into a memory")),
            }
        }
        Ok(self.reader.model().save(&memory)?)
    }

    /// Drafts for questions about one memory, side by side.
    fn draft(&self, mut asks: Vec<Ask>, stopped: &dyn Fn() -> bool) {
        let Some(memory) = self.memory(&mut asks) else {
            for ask in asks {
                answer(ask, Ok(None));
            }
            return;
        };
        let together = self.try_draft(&memory, &asks, stopped);
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
                    let alone = self.try_draft(&memory, std::slice::from_ref(&ask), stopped);
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
            let made = self.make_ready(&key, &snapshot);
            drop(flight);
            match made {
                Ok(memory) => return Some(memory),
                Err(error) => answer(asks.remove(at), Err(error)),
            }
        }
        None
    }

    fn make_ready(&self, key: &str, snapshot: &MemorySnapshot) -> Result<Arc<MemoryState>, Error> {
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
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<DraftedClues>, Error> {
        let requests = asks.iter().flat_map(|ask| {
            let question = &ask.draft.question;
            drafts(&ask.draft)
                .iter()
                .map(|draft| DraftRequest { draft: *draft, question: question.clone() })
        });
        let requests: Vec<DraftRequest> = requests.collect();
        let mut go_on = |_: usize| !stopped() && asks.iter().any(Ask::is_wanted);
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
