//! Training and test data: pieces of books, and facts that are planted into them.
//!
//! A fact is a token of its own, one of several possible answers to its question. A question is a
//! token, too. So recall is as easy as it can be, and a small model learns it in minutes. The
//! measurements show whether the fact can still be found, not whether words can be understood.
//! (Arora et al., "Zoology: Measuring and Improving Recall in Efficient Language Models", section
//! 3, ask for a value behind a key that is apart from it; that takes a small model longer.)

use anyhow::{Context, ensure};
use clew_model::memory::training::{Sequences, TrainingSequence};
use clew_tokenizer::TextTokenizer;
use fastrand::Rng;

use crate::{WINDOW, WINDOWS};

/// Number of questions.
const QUESTIONS: usize = 8;
/// Number of facts that may be the answer to a question.
pub const ANSWERS: usize = 16;
/// Number of tokens that are compressed.
pub const CONTEXT: usize = WINDOW * WINDOWS;
/// Number of tokens in a sequence.
const LENGTH: usize = CONTEXT + WINDOW;
/// Maximum number of facts that are planted into a context: one for each question.
pub const MOST_FACTS: usize = QUESTIONS;

/// Task that a model learns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Mostly recall, from short texts that are read uncompressed.
    BaseRecall,
    /// Language modelling, and recall from longer texts.
    Base,
    /// Language modelling with a memory.
    Texts,
    /// Recall from memory.
    Recall,
}

/// Question, and the fact that answers it.
#[derive(Clone, Copy)]
pub struct Planted {
    pub question: u32,
    pub fact: u32,
}

/// Books as tokens.
pub struct Texts {
    /// Questions, each with its possible answers.
    questions: Vec<(u32, Vec<u32>)>,
    learnt: Vec<u32>,
    /// Book that is only measured on.
    held_out: Vec<u32>,
    random: Rng,
}

/// Returns the tokens for questions and facts, as the tokenizer knows them.
pub fn special() -> Vec<String> {
    let all = (0..QUESTIONS).flat_map(|question| {
        let facts = (0..ANSWERS).map(move |fact| format!("<|fact {question} {fact}|>"));
        [format!("<|question {question}|>")].into_iter().chain(facts)
    });
    all.collect()
}

impl Texts {
    pub fn new(books: &[String], tokenizer: &TextTokenizer) -> anyhow::Result<Self> {
        let ids = special().into_iter().map(|token| tokenizer.id(&token));
        let ids = ids.collect::<Option<Vec<u32>>>().context("a token is missing")?;
        let questions = ids.chunks_exact(1 + ANSWERS);
        let questions = questions.map(|ids| (ids[0], ids[1..].to_vec())).collect();
        let (last, others) = books.split_last().context("there is no book")?;
        let learnt: Vec<u32> = others.iter().flat_map(|book| tokenizer.encode(book)).collect();
        let held_out = tokenizer.encode(last);
        let least = learnt.len().min(held_out.len());
        ensure!(least > 100 * LENGTH, "expected books of {} tokens or more", 100 * LENGTH);
        Ok(Self { questions, learnt, held_out, random: Rng::with_seed(7) })
    }

    /// Returns `count` sequences for a task.
    pub fn sequences(&mut self, count: usize, task: Task) -> anyhow::Result<Sequences> {
        let make = |at: usize| match (task, at % 8) {
            (Task::Base, 0 | 1 | 4 | 5) | (Task::Texts, _) => self.text(LENGTH),
            (Task::Base, 2 | 6) => self.facts(LENGTH, 6),
            (Task::Base, _) => {
                let length = self.random.usize(WINDOW..=CONTEXT);
                self.recall(length)
            }
            (Task::BaseRecall, 0) => self.text(2 * WINDOW),
            (Task::BaseRecall, 1..=5) => {
                let length = self.random.usize(WINDOW / 4..=2 * WINDOW);
                self.facts(length, 3)
            }
            (Task::BaseRecall, _) => {
                let length = self.random.usize(MOST_FACTS..=CONTEXT);
                self.recall(length)
            }
            (Task::Recall, _) => self.recall(CONTEXT),
        };
        Ok(Sequences::new((0..count).map(make).collect::<anyhow::Result<Vec<_>>>()?))
    }

    /// Returns pieces of the held-out book: a context, and the window that follows it.
    pub fn held_out(&mut self, count: usize) -> Vec<Vec<u32>> {
        (0..count).map(|_| piece(&self.held_out, LENGTH, &mut self.random)).collect()
    }

    /// Returns a context of the held-out book with `facts` planted facts, and one of these.
    pub fn planted(&mut self, facts: usize) -> (Vec<u32>, Planted) {
        let mut text = piece(&self.held_out, CONTEXT, &mut self.random);
        let facts = self.some_facts(facts);
        plant(&mut text, &facts, &mut self.random);
        let asked = facts[self.random.usize(..facts.len())];
        (text, asked)
    }

    fn text(&mut self, length: usize) -> anyhow::Result<TrainingSequence> {
        Ok(TrainingSequence::of(piece(&self.learnt, length, &mut self.random))?)
    }

    /// Returns a sequence of hardly anything but repeated questions and facts, from which recall is
    /// learnt first. It has about `length` tokens, with at most `words` tokens of a book between
    /// two facts.
    fn facts(&mut self, length: usize, words: usize) -> anyhow::Result<TrainingSequence> {
        let count = self.random.usize(2..=MOST_FACTS);
        let facts = self.some_facts(count);
        let (mut tokens, mut counted) = (Vec::new(), Vec::new());
        while tokens.len() < length || !counted.contains(&true) {
            let words = self.random.usize(..=words);
            tokens.extend(piece(&self.learnt, words, &mut self.random));
            counted.resize(tokens.len(), false);
            let Planted { question, fact } = facts[self.random.usize(..facts.len())];
            if tokens.contains(&fact) {
                counted.extend([false, true]);
                tokens.extend([question, fact]);
            } else {
                counted.push(false);
                tokens.push(fact);
            }
        }
        Ok(TrainingSequence::masked(tokens, counted)?)
    }

    /// Returns a text with planted facts, followed by a question for each of them. The answers are
    /// the labels.
    fn recall(&mut self, length: usize) -> anyhow::Result<TrainingSequence> {
        let mut tokens = piece(&self.learnt, length, &mut self.random);
        let count = self.random.usize(1..=MOST_FACTS);
        let mut facts = self.some_facts(count);
        plant(&mut tokens, &facts, &mut self.random);
        let mut counted = vec![false; tokens.len()];
        self.random.shuffle(&mut facts);
        for Planted { question, fact } in facts {
            tokens.extend([question, fact]);
            counted.extend([false, true]);
        }
        Ok(TrainingSequence::masked(tokens, counted)?)
    }

    /// Returns facts of which no two answer the same question.
    fn some_facts(&mut self, count: usize) -> Vec<Planted> {
        self.random.shuffle(&mut self.questions);
        let facts = self.questions[..count].iter().map(|(question, facts)| {
            let fact = facts[self.random.usize(..facts.len())];
            Planted { question: *question, fact }
        });
        facts.collect()
    }
}

fn piece(tokens: &[u32], length: usize, random: &mut Rng) -> Vec<u32> {
    let start = random.usize(..tokens.len() - length);
    tokens[start..start + length].to_vec()
}

/// Puts facts in place of some tokens of a text, each in a part of its own.
fn plant(text: &mut [u32], facts: &[Planted], random: &mut Rng) {
    let share = text.len() / facts.len();
    for (at, Planted { fact, .. }) in facts.iter().enumerate() {
        text[at * share + random.usize(..share)] = *fact;
    }
}
