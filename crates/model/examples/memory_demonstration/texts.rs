//! What is learnt and asked: pieces of books, and facts that are planted into them.
//!
//! A fact is a token of its own, one of several that its question has for an answer, and a question is a token, too: so
//! recall is as easy as it can be, and a small model learns it in minutes. What is measured is whether the fact can still
//! be found, not whether words can be understood. (Arora et al., "Zoology: Measuring and Improving Recall in Efficient
//! Language Models", section 3, ask for a value behind a key that is apart from it; that takes a small model longer.)

use anyhow::{Context, ensure};
use clew_model::memory::training::{Sequence, Sequences};
use clew_tokenizer::TextTokenizer;
use fastrand::Rng;

use crate::{WINDOW, WINDOWS};

/// Questions.
const QUESTIONS: usize = 8;
/// Facts that may be the answer to one.
pub const ANSWERS: usize = 16;
/// Tokens of what is compressed.
pub const CONTEXT: usize = WINDOW * WINDOWS;
/// Tokens of a sequence.
const LENGTH: usize = CONTEXT + WINDOW;
/// Most facts that are planted into a context: one for each question.
pub const MOST_FACTS: usize = QUESTIONS;

/// What a model is to learn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Mostly to recall, from short texts that it reads as they are.
    BaseRecall,
    /// To speak, and to recall from longer ones.
    Base,
    /// To speak with a memory.
    Texts,
    /// To recall from memory.
    Recall,
}

/// A question, and the fact that answers it.
#[derive(Clone, Copy)]
pub struct Planted {
    pub question: u32,
    pub fact: u32,
}

/// The books as tokens.
pub struct Texts {
    /// Each with what may answer it.
    questions: Vec<(u32, Vec<u32>)>,
    learnt: Vec<u32>,
    /// The book that is only measured on.
    held_out: Vec<u32>,
    random: Rng,
}

/// Questions and facts, as a tokenizer knows them.
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

    /// So many sequences for a task.
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

    /// Pieces of the book that is held out: a context, and a window that follows it.
    pub fn held_out(&mut self, count: usize) -> Vec<Vec<u32>> {
        (0..count).map(|_| piece(&self.held_out, LENGTH, &mut self.random)).collect()
    }

    /// A context of the book that is held out, with so many facts planted, and one of these.
    pub fn planted(&mut self, facts: usize) -> (Vec<u32>, Planted) {
        let mut text = piece(&self.held_out, CONTEXT, &mut self.random);
        let facts = self.some_facts(facts);
        plant(&mut text, &facts, &mut self.random);
        let asked = facts[self.random.usize(..facts.len())];
        (text, asked)
    }

    fn text(&mut self, length: usize) -> anyhow::Result<Sequence> {
        Ok(Sequence::of(piece(&self.learnt, length, &mut self.random))?)
    }

    /// Hardly anything but questions and facts, again and again: what recall is learnt from first. About so many tokens, at most `words` of a book between two facts.
    fn facts(&mut self, length: usize, words: usize) -> anyhow::Result<Sequence> {
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
        Ok(Sequence::masked(tokens, counted)?)
    }

    /// A text with facts planted into it, each of which is asked for behind it. The answers count.
    fn recall(&mut self, length: usize) -> anyhow::Result<Sequence> {
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
        Ok(Sequence::masked(tokens, counted)?)
    }

    /// Facts of which no two answer one question.
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
