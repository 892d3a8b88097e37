//! A memory model with its tokenizer: reads documents, and drafts clues out of what it has read.

use clew_core::{ChatMessage, ChatRole, Sampling};
use clew_tokenizer::SpecialTokens;

use super::prompts::{Draft, Prompts};
use super::{Memory, MemoryModel, Ratios, Reading};
use crate::decoder::Wanted;
use crate::folder::folder_name;
use crate::language::Language;
use crate::sampler::Sampler;
use crate::{Error, LanguageModelOptions};

/// Tokens that are read before somebody is asked whether to go on: those of about one pass, so that whoever waits
/// waits no longer than for one.
const TOKENS_AT_ONCE: usize = 4096;
/// Stands for the text where the template is asked what goes around it.
const TEXT: &str = "\u{E000}";

/// A memory model that reads texts.
///
/// What it reads is a conversation in which a user hands it the documents. The words before them are read first; those
/// after them only when something is asked, so that more documents can follow at any time.
pub struct MemoryReader {
    name: String,
    model: MemoryModel,
    language: Language,
    prompts: Prompts,
    before: Vec<u32>,
    after: Vec<u32>,
}

/// What is to be drafted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftRequest {
    /// What.
    pub draft: Draft,
    /// For which question.
    pub question: String,
}

/// What was drafted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drafted {
    /// The text.
    pub text: String,
    /// Tokens of what was asked.
    pub prompt_tokens: usize,
    /// Tokens of the text.
    pub completion_tokens: usize,
}

/// Whether reading is to go on.
pub type GoOn<'a> = dyn FnMut(usize) -> bool + 'a;

impl MemoryReader {
    /// Loads a model folder in Hugging Face layout, to be told by `prompts`, see [`Prompts::choose`].
    ///
    /// # Errors
    /// Those of [`MemoryModel::load`] and [`Prompts::choose`]; [`Error::Template`] for a chat template that does not write what it is given.
    pub fn load(options: &LanguageModelOptions, prompts: Option<&str>) -> Result<Self, Error> {
        let prompts = Prompts::choose(prompts, &options.folder)?;
        let LanguageModelOptions { device, precision, threads, .. } = *options;
        let mut model = MemoryModel::load(&options.folder, device, precision, threads)?;
        let language = Language::read(options, model.vocabulary(), model.ends())?;
        let Language { tokenizer, template, .. } = &language;
        let said = |role, text: String| ChatMessage { role, text };
        let [before, after] = prompts.around();
        let around = template.write(&[
            said(ChatRole::User, format!("{before}{TEXT}{after}")),
            said(ChatRole::Assistant, prompts.read().to_owned()),
        ])?;
        let Some((before, after)) = around.split_once(TEXT) else {
            let reason = "the template leaves out what a user says".to_owned();
            return Err(Error::Template { reason });
        };
        let (before, after) = (tokenizer.encode(before), tokenizer.encode(after));
        model.also_tell_by(&language.tokenizer_json);
        model.also_tell_by(format!("{before:?}{after:?}").as_bytes());
        if let Some(prompts) = prompts.tells() {
            model.also_tell_by(prompts.as_bytes());
        }
        Ok(Self {
            name: options.name.clone().unwrap_or_else(|| folder_name(&options.folder)),
            model,
            language,
            prompts,
            before,
            after,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is told by.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// The model.
    pub fn model(&self) -> &MemoryModel {
        &self.model
    }

    /// How many tokens a text has.
    pub fn count_tokens(&self, text: &str) -> usize {
        self.language.tokenizer.encode(text).len()
    }

    /// How many tokens a document has as [`Self::read`] reads it.
    pub fn count_read(&self, title: &str, text: &str) -> usize {
        self.as_read(title, text).len()
    }

    fn as_read(&self, title: &str, text: &str) -> Vec<u32> {
        let title = if title.is_empty() { String::new() } else { format!("{title}\n\n") };
        // A text from somebody may not speak for the model.
        let text = self.language.template.as_text(&format!("{title}{text}\n\n"));
        self.language.tokenizer.encode(&text)
    }

    /// A memory of nothing, compressed by `ratio`.
    ///
    /// # Errors
    /// [`Error::OptionUnavailable`] for a ratio that does not divide the model's window; [`Error::Device`].
    pub fn begin(&self, ratio: usize) -> Result<Memory, Error> {
        let window = self.model.settings().window;
        let ratios = Ratios::one(ratio, window).map_err(|_| Error::OptionUnavailable {
            option: "memory.ratio",
            expected: format!("0 or a divisor of the memory model's window, {window}"),
            found: ratio.to_string(),
        })?;
        let mut memory = self.model.memory(ratios.schedule(0));
        self.feed(&mut memory, &self.before, &mut |_| true)?;
        Ok(memory)
    }

    /// Reads a document, and tells how many tokens it has. `go_on` is told how many more were read, and whether to go
    /// on; if not, `None`, and the memory holds a part.
    ///
    /// # Errors
    /// [`Error::Device`], after which the memory is of no use.
    pub fn read(
        &self,
        memory: &mut Memory,
        title: &str,
        text: &str,
        go_on: &mut GoOn<'_>,
    ) -> Result<Option<usize>, Error> {
        let tokens = self.as_read(title, text);
        let is_whole = self.feed(memory, &tokens, go_on)?;
        Ok(is_whole.then_some(tokens.len()))
    }

    /// Makes a memory ready to be asked: [`MemoryReader::draft`] reads from it, and nothing can be read into it.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn ready(&self, mut memory: Memory) -> Result<Memory, Error> {
        self.feed(&mut memory, &self.after, &mut |_| true)?;
        self.model.prepare(&mut memory);
        Ok(memory)
    }

    /// What the model says to each request with a memory in front of it, side by side; each is what it would be
    /// alone. `go_on` is asked between tokens; if not, what has been said is told.
    ///
    /// # Errors
    /// [`Error::Template`] for a question that cannot be written; [`Error::Device`].
    pub fn draft(
        &self,
        memory: &Memory,
        requests: &[DraftRequest],
        max_tokens: usize,
        go_on: &mut GoOn<'_>,
    ) -> Result<Vec<Drafted>, Error> {
        let mut drafts = Vec::with_capacity(requests.len());
        for DraftRequest { draft, question } in requests {
            let text = self.prompts.ask(*draft, question);
            let prompt =
                self.language.template.write(&[ChatMessage { role: ChatRole::User, text }])?;
            drafts.push(Drafting::new(
                self.language.tokenizer.encode(&prompt),
                memory.clone(),
                self,
            ));
        }
        let mut is_first = true;
        loop {
            let mut open: Vec<&mut Drafting> =
                drafts.iter_mut().filter(|draft| !draft.is_over(self, max_tokens)).collect();
            if open.is_empty() || !(is_first || go_on(open.len())) {
                break;
            }
            is_first = false;
            let mut readings: Vec<Reading<'_>> =
                open.iter_mut().map(|draft| draft.next()).collect();
            let logits = self.model.read(&mut readings)?;
            for (draft, mut logits) in open.into_iter().zip(logits) {
                draft.say(&mut logits)?;
            }
        }
        Ok(drafts.into_iter().map(|draft| draft.end(self)).collect())
    }

    fn feed(
        &self,
        memory: &mut Memory,
        tokens: &[u32],
        go_on: &mut GoOn<'_>,
    ) -> Result<bool, Error> {
        for tokens in tokens.chunks(TOKENS_AT_ONCE) {
            let wanted = Wanted::Nothing;
            self.model.read(&mut [Reading { memory, tokens, wanted }])?;
            if !go_on(tokens.len()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A draft that is being said.
struct Drafting {
    memory: Memory,
    /// Prompt and draft.
    tokens: Vec<u32>,
    prompt: usize,
    /// Tokens that were read.
    read: usize,
    sampler: Sampler,
}

impl Drafting {
    fn new(prompt: Vec<u32>, memory: Memory, reader: &MemoryReader) -> Self {
        let sampling = Sampling {
            repetition_penalty: reader.language.repetition_penalty,
            ..Sampling::default()
        };
        let (tokens, length) = (prompt, 0);
        let prompt = tokens.len();
        Self { memory, tokens, prompt, read: length, sampler: Sampler::new(sampling) }
    }

    fn is_over(&self, reader: &MemoryReader, max_tokens: usize) -> bool {
        let said = &self.tokens[self.prompt..];
        said.len() >= max_tokens
            || said.last().is_some_and(|token| reader.language.ends.contains(token))
    }

    fn next(&mut self) -> Reading<'_> {
        let unread = self.read;
        self.read = self.tokens.len();
        Reading { memory: &mut self.memory, tokens: &self.tokens[unread..], wanted: Wanted::Last }
    }

    fn say(&mut self, logits: &mut [f32]) -> Result<(), Error> {
        let token = self.sampler.choose(logits, &self.tokens);
        self.tokens.push(token.ok_or_else(|| Error::Device {
            reason: "the memory model gave no usable likelihood of any token".to_owned(),
        })?);
        Ok(())
    }

    fn end(mut self, reader: &MemoryReader) -> Drafted {
        let mut said = self.tokens.split_off(self.prompt);
        let completion_tokens = said.len();
        said.pop_if(|token| reader.language.ends.contains(token));
        let text = reader.language.tokenizer.decode(&said, SpecialTokens::LeftOut);
        Drafted { text, prompt_tokens: self.prompt, completion_tokens }
    }
}
