//! Continuous batching: replies that are generated side by side.
//!
//! Yu et al., "Orca: A Distributed Serving System for Transformer-Based Generative Models", section
//! 3: replies join and leave between two steps. A step reads one token of each reply that is being
//! generated. It spends the rest of its budget on pieces of prompts, in turn, so that a long prompt
//! does not hold up other replies.

use std::sync::Arc;

use clew_core::{Finish, GenerationRequest};
use clew_tokenizer::{SpecialTokens, TextStream};

use crate::Error;
use crate::constraint::Constraint;
use crate::decoder::{DecoderStep, Sequence, WantedLogits};
use crate::language_model::LanguageModel;
use crate::sampling::Sampler;

/// Identifier of a reply in a [`GenerationBatch`]; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyId(u64);

/// Progress of a reply in one step.
#[derive(Debug)]
pub struct Event {
    /// Reply that made progress.
    pub reply: ReplyId,
    /// Next part of the reply's text; may be empty.
    pub text: String,
    /// End of the reply, if it ended.
    pub end: Option<End>,
}

/// End of a reply.
#[derive(Debug)]
pub struct End {
    /// Reason why it ended, or the error that ended it.
    pub finish: Result<Finish, Error>,
    /// Number of tokens in the prompt.
    pub prompt_tokens: usize,
    /// Number of tokens in the reply.
    pub completion_tokens: usize,
}

/// Replies of one model that are being generated.
pub struct GenerationBatch {
    model: Arc<LanguageModel>,
    /// Number of tokens that a step should read.
    budget: usize,
    /// Maximum number of tokens of all replies together, with their prompts.
    room: usize,
    replies: Vec<Reply>,
    next: u64,
}

struct Reply {
    id: ReplyId,
    sequence: Sequence,
    /// Prompt and reply.
    tokens: Vec<u32>,
    prompt: usize,
    max_tokens: usize,
    sampler: Sampler,
    constraint: Option<Constraint>,
    stop: Vec<String>,
    stream: Option<TextStream>,
    /// Text that was generated and not returned yet, because it may be the beginning of a stop
    /// text.
    held: String,
}

impl GenerationBatch {
    /// Creates an empty batch. A step reads about `budget` tokens. It reads one token of each reply
    /// that is being generated in any case, and keeps at least a quarter of the budget for prompts.
    pub fn new(model: Arc<LanguageModel>, budget: usize) -> Self {
        Self { model, budget: budget.max(1), room: usize::MAX, replies: Vec::new(), next: 0 }
    }

    /// Limits the number of tokens of all replies and their prompts together, which bounds the
    /// memory for their keys and values.
    #[must_use]
    pub fn with_room(mut self, tokens: usize) -> Self {
        self.room = tokens;
        self
    }

    /// Returns the number of replies in the batch.
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Returns whether the batch has no replies.
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Adds a reply.
    ///
    /// # Errors
    /// Returns [`Error::TooLong`] if the prompt leaves no room in the model's window for the reply,
    /// [`Error::Full`] if there is no room beside the other replies, and [`Error::Template`] or
    /// [`Error::Constraint`] if this model cannot do what the request asks for.
    pub fn add(&mut self, request: &GenerationRequest) -> Result<ReplyId, Error> {
        let tokens = self.model.encode(&request.messages)?;
        let max_tokens = request.max_tokens as usize;
        let all = tokens.len().saturating_add(max_tokens);
        let most = self.model.window().min(self.room);
        if all > most || tokens.is_empty() {
            return Err(Error::TooLong { tokens: all, most });
        }
        let left = self.room - self.replies.iter().map(Reply::most_tokens).sum::<usize>();
        if all > left {
            return Err(Error::Full { tokens: all, left });
        }
        let id = ReplyId(self.next);
        self.next += 1;
        self.replies.push(Reply {
            id,
            sequence: self.model.decoder().sequence(all),
            prompt: tokens.len(),
            sampler: Sampler::new(request.sampling, &tokens),
            tokens,
            max_tokens,
            constraint: self.model.constraint(&request.format)?,
            stop: request.stop.clone(),
            stream: Some(TextStream::new(SpecialTokens::LeftOut)),
            held: String::new(),
        });
        Ok(id)
    }

    /// Ends a reply and frees its memory at once. Does nothing if the reply has ended.
    pub fn cancel(&mut self, id: ReplyId) {
        self.replies.retain(|reply| reply.id != id);
    }

    /// Reads and generates more. Replies that end are no longer in the batch.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails; the replies of the batch are then lost.
    pub fn step(&mut self) -> Result<Vec<Event>, Error> {
        let pieces = self.pieces();
        let mut steps = Vec::new();
        let mut spoken = Vec::new();
        let mut chances = Vec::new();
        for (at, (reply, piece)) in self.replies.iter_mut().zip(&pieces).enumerate() {
            if *piece == 0 {
                continue;
            }
            let read = reply.sequence.length();
            let is_last = read + piece == reply.tokens.len();
            if is_last {
                spoken.push(at);
                chances.push((&mut reply.sampler, &mut reply.constraint));
            }
            steps.push(DecoderStep {
                sequence: &mut reply.sequence,
                tokens: &reply.tokens[read..read + piece],
                wanted: if is_last { WantedLogits::Last } else { WantedLogits::Nothing },
            });
        }
        // A grammar that cannot go on ends its own reply only.
        let mut refused = Vec::with_capacity(spoken.len());
        let choices = || {
            let choices = chances.into_iter().map(|(sampler, constraint)| {
                let allowed = constraint.as_mut().map(Constraint::allowed).transpose();
                let (allowed, refusal) = match allowed {
                    Ok(allowed) => (allowed, None),
                    Err(refusal) => (None, Some(refusal)),
                };
                refused.push(refusal);
                sampler.choice(allowed)
            });
            choices.collect()
        };
        let tokens = self.model.decoder().step_and_choose(&mut steps, choices)?;
        let chosen = refused.into_iter().zip(tokens).map(|(refusal, token)| match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(token),
        });
        let said = spoken.into_iter().zip(chosen);
        let said = said.map(|(at, token)| self.replies[at].say(&self.model, token));
        let events: Vec<Event> = said.collect();
        let has_ended = |id| events.iter().any(|event| event.reply == id && event.end.is_some());
        self.replies.retain(|reply| !has_ended(reply.id));
        // The first unread prompt goes to the end, so that prompts take turns.
        if let Some(first) = self.replies.iter().position(Reply::is_reading) {
            self.replies[first..].rotate_left(1);
        }
        Ok(events)
    }

    /// Returns how many tokens of each reply the next step reads.
    fn pieces(&self) -> Vec<usize> {
        let speaking = self.replies.iter().filter(|reply| !reply.is_reading()).count();
        let mut left = self.budget.saturating_sub(speaking);
        // Without a share of their own, prompts would wait until a reply has ended.
        left = left.max(self.budget.div_ceil(4));
        let piece = |reply: &Reply| {
            let unread = reply.tokens.len() - reply.sequence.length();
            if !reply.is_reading() {
                return unread;
            }
            let piece = unread.min(left);
            left -= piece;
            piece
        };
        self.replies.iter().map(piece).collect()
    }
}

impl Reply {
    /// Returns the maximum number of tokens of the reply and its prompt.
    fn most_tokens(&self) -> usize {
        self.prompt + self.max_tokens
    }

    /// Returns whether part of the prompt is still unread.
    fn is_reading(&self) -> bool {
        self.sequence.length() < self.prompt
    }

    /// Says the next token, or ends if none was chosen.
    fn say(&mut self, model: &LanguageModel, token: Result<Option<u32>, Error>) -> Event {
        let mut text = String::new();
        let finish = match token.and_then(|token| self.go_on(model, token, &mut text)) {
            Ok(None) => None,
            Ok(Some(finish)) => Some(Ok(finish)),
            Err(error) => Some(Err(error)),
        };
        let completion_tokens = self.tokens.len() - self.prompt;
        let end = |finish| End { finish, prompt_tokens: self.prompt, completion_tokens };
        Event { reply: self.id, text, end: finish.map(end) }
    }

    fn go_on(
        &mut self,
        model: &LanguageModel,
        token: Option<u32>,
        told: &mut String,
    ) -> Result<Option<Finish>, Error> {
        let token = token.ok_or_else(|| Error::Device {
            reason: "the model gave no usable likelihood of any token".to_owned(),
        })?;
        self.tokens.push(token);
        self.sampler.say(token);
        let is_complete = match &mut self.constraint {
            Some(constraint) => constraint.accept(token)?,
            None => false,
        };
        let is_end = model.is_end(token);
        if let Some(stream) = self.stream.as_mut().filter(|_| !is_end) {
            self.held.push_str(&stream.push(model.tokenizer(), token));
        }
        let is_full = self.tokens.len() - self.prompt >= self.max_tokens;
        let ended = is_end || is_complete || is_full;
        if ended && let Some(stream) = self.stream.take() {
            self.held.push_str(&stream.finish(model.tokenizer()));
        }
        let stops = self.stop.iter().filter_map(|stop| self.held.find(stop.as_str()));
        if let Some(at) = stops.min() {
            self.held.truncate(at);
            told.push_str(&std::mem::take(&mut self.held));
            return Ok(Some(Finish::Stop));
        }
        let safe = if ended { self.held.len() } else { self.held.len() - self.may_be_stop() };
        told.extend(self.held.drain(..safe));
        Ok(match (is_end || is_complete, is_full) {
            (true, _) => Some(Finish::Stop),
            (false, true) => Some(Finish::Length),
            (false, false) => None,
        })
    }

    /// Returns the number of bytes at the end of the held text that a stop text may begin with.
    fn may_be_stop(&self) -> usize {
        let longest = |stop: &String| {
            let most = stop.len().saturating_sub(1).min(self.held.len());
            let begins = |length: &usize| {
                let at = self.held.len() - length;
                self.held.is_char_boundary(at)
                    && stop.as_bytes().starts_with(&self.held.as_bytes()[at..])
            };
            (1..=most).rev().find(begins).unwrap_or(0)
        };
        self.stop.iter().map(longest).max().unwrap_or(0)
    }
}
