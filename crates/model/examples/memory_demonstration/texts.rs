//! What is learnt and asked: pieces of books, with sentences planted into them.

use anyhow::ensure;
use clew_model::memory::training::{Sequence, Sequences};
use clew_tokenizer::TextTokenizer;
use fastrand::Rng;

use crate::{WINDOW, WINDOWS};

const COLOURS: [&str; 8] = ["red", "blue", "green", "white", "black", "brown", "golden", "silver"];
/// Tokens of what is compressed.
pub const CONTEXT: usize = WINDOW * WINDOWS;
/// Tokens of a sequence.
const LENGTH: usize = CONTEXT + WINDOW;

/// What a sequence is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// To be read as it is: sentences are asked for close behind them.
    Base,
    /// To be compressed but for its last window, in which sentences are asked for.
    Memory,
}

/// A sentence that was planted.
pub struct Planted {
    pub colour: usize,
    pub number: usize,
}

/// The books as tokens.
pub struct Texts {
    tokenizer: TextTokenizer,
    learnt: Vec<u32>,
    /// The book that is only measured on.
    held_out: Vec<u32>,
    random: Rng,
}

impl Texts {
    pub fn new(books: &[String], tokenizer: TextTokenizer) -> anyhow::Result<Self> {
        let (last, others) = books.split_last().map_or((None, books), |(l, o)| (Some(l), o));
        let learnt = others.iter().flat_map(|book| tokenizer.encode(book)).collect();
        let held_out = last.map(|book| tokenizer.encode(book)).unwrap_or_default();
        let texts = Self { tokenizer, learnt, held_out, random: Rng::with_seed(7) };
        let least = texts.learnt.len().min(texts.held_out.len());
        ensure!(least > 100 * LENGTH, "expected books of {} tokens or more", 100 * LENGTH);
        Ok(texts)
    }

    /// Half of them pieces of books, half recall.
    pub fn sequences(&mut self, count: usize, task: Task) -> anyhow::Result<Sequences> {
        let make = |at: usize| match at % 2 {
            0 => Ok(Sequence::of(piece(&self.learnt, LENGTH, &mut self.random))?),
            _ => self.recall(task),
        };
        Ok(Sequences::new((0..count).map(make).collect::<anyhow::Result<Vec<_>>>()?))
    }

    /// Pieces of the book that is held out: a context, and a window that follows it.
    pub fn held_out(&mut self, count: usize) -> Vec<Vec<u32>> {
        (0..count).map(|_| piece(&self.held_out, LENGTH, &mut self.random)).collect()
    }

    /// A context of the book that is held out, with sentences planted into it.
    pub fn planted(&mut self, needles: usize) -> (Vec<u32>, Vec<Planted>) {
        let text = piece(&self.held_out, CONTEXT, &mut self.random);
        plant(text, needles, &self.tokenizer, &mut self.random)
    }

    /// How a colour is asked for.
    pub fn question(&self, colour: usize) -> Vec<u32> {
        self.tokenizer.encode(&format!("\nThe {} number is", COLOURS[colour]))
    }

    /// A number as it is said.
    pub fn answer(&self, number: usize) -> Vec<u32> {
        self.tokenizer.encode(&said(number))
    }

    fn recall(&mut self, task: Task) -> anyhow::Result<Sequence> {
        let Self { tokenizer, learnt, random, .. } = self;
        let (length, needles) = match task {
            // Close enough that it is found at all, at first.
            Task::Base => (random.usize(40..=CONTEXT), random.usize(1..=4)),
            Task::Memory => (CONTEXT, random.usize(1..=3)),
        };
        let text = piece(learnt, length, random);
        let (mut tokens, planted) = plant(text, needles, tokenizer, random);
        let mut counted = vec![task == Task::Base; tokens.len()];
        while tokens.len() < LENGTH {
            let Planted { colour, number } = planted[random.usize(..planted.len())];
            let asked = tokenizer.encode(&format!("\nThe {} number is", COLOURS[colour]));
            let answer = tokenizer.encode(&said(number));
            counted.extend(asked.iter().map(|_| task == Task::Base));
            counted.extend(answer.iter().map(|_| true));
            tokens.extend(asked.into_iter().chain(answer));
        }
        tokens.truncate(LENGTH);
        counted.truncate(LENGTH);
        Ok(Sequence::masked(tokens, counted)?)
    }
}

/// Its digits are tokens of their own, and are so in the sentence and in the answer.
fn said(number: usize) -> String {
    format!(" {} {}.", number / 10, number % 10)
}

fn piece(tokens: &[u32], length: usize, random: &mut Rng) -> Vec<u32> {
    let start = random.usize(..tokens.len() - length);
    tokens[start..start + length].to_vec()
}

/// Sentences in place of some of the text, which stays as long as it is.
fn plant(
    mut text: Vec<u32>,
    needles: usize,
    tokenizer: &TextTokenizer,
    random: &mut Rng,
) -> (Vec<u32>, Vec<Planted>) {
    let mut colours: Vec<usize> = (0..COLOURS.len()).collect();
    random.shuffle(&mut colours);
    let mut planted = Vec::new();
    let share = text.len() / needles;
    for (at, colour) in colours.into_iter().take(needles).enumerate() {
        let number = random.usize(..100);
        let sentence = format!(" The {} number is{}", COLOURS[colour], said(number));
        let sentence = tokenizer.encode(&sentence);
        // Each has a part of the text to itself.
        let room = share.saturating_sub(sentence.len());
        let start = at * share + random.usize(..=room);
        let end = (start + sentence.len()).min(text.len());
        text.splice(start..end, sentence);
        planted.push(Planted { colour, number });
    }
    (text, planted)
}
