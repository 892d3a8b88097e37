//! Memory model with its tokenizer: reads documents, and drafts clues from what it has read.

use clew_core::{ChatMessage, ChatRole, MemoryText, Sampling};
use clew_tokenizer::SpecialTokens;

use super::prompts::{Draft, Prompts};
use super::{MemoryInput, MemoryModel, MemoryState, Ratios};
use crate::decoder::WantedLogits;
use crate::folder::folder_name;
use crate::language::Language;
use crate::sampling::Sampler;
use crate::{Error, LanguageModelOptions};

/// Placeholder for the document, to find the template's text around it.
const TEXT: &str = "\u{E000}";

/// Memory model that reads texts.
///
/// It reads a conversation in which a user hands it the documents. The words before the documents
/// are read first. Those after them are read only when something is asked, so that more documents
/// can follow at any time.
pub struct MemoryReader {
    name: String,
    model: MemoryModel,
    language: Language,
    prompts: Prompts,
    before: Vec<u32>,
    after: Vec<u32>,
}

/// Request for a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftRequest {
    /// Kind of draft.
    pub draft: Draft,
    /// Question that the draft is for.
    pub question: String,
}

/// Result of a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drafted {
    /// Text of the draft.
    pub text: String,
    /// Number of tokens in the request.
    pub prompt_tokens: usize,
    /// Number of tokens in the draft.
    pub completion_tokens: usize,
}

/// Callback that takes a number of tokens and returns whether to go on.
pub type GoOn<'a> = dyn FnMut(usize) -> bool + 'a;

/// Callback that may read whole windows of a text together with other nodes
/// ([`MemoryModel::read_together`]). Returns the memory behind them, or `None` if this node is to
/// read them alone.
pub type Together<'a> = dyn FnMut(&MemoryState, &[u32]) -> Result<Option<MemoryState>, Error> + 'a;

impl MemoryReader {
    /// Loads a model folder in Hugging Face layout, with `prompts`; see [`Prompts::choose`].
    ///
    /// # Errors
    /// Returns the errors of [`MemoryModel::load`] and [`Prompts::choose`]. Returns any of the
    /// variants of [`Error`] about files for the tokenizer, and [`Error::Template`] if the chat
    /// template does not write the document.
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

    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the prompts of the model.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// Returns the model.
    pub fn model(&self) -> &MemoryModel {
        &self.model
    }

    /// Returns the number of tokens in a text.
    pub fn count_tokens(&self, text: &str) -> usize {
        self.language.tokenizer.encode(text).len()
    }

    /// Returns the number of tokens that [`Self::read`] reads for a document.
    pub fn count_read(&self, title: &str, text: &str) -> usize {
        self.as_read(title, text).len()
    }

    fn as_read(&self, title: &str, text: &str) -> Vec<u32> {
        let title = if title.is_empty() { String::new() } else { format!("{title}\n\n") };
        // A document must not speak for the model.
        let text = self.language.template.as_text(&format!("{title}{text}\n\n"));
        self.language.tokenizer.encode(&text)
    }

    /// Returns a memory of no document, compressed by `ratio`.
    ///
    /// # Errors
    /// Returns [`Error::OptionUnavailable`] if the ratio does not divide the model's window, and
    /// [`Error::Device`] if the device fails.
    pub fn begin(&self, ratio: usize) -> Result<MemoryState, Error> {
        let window = self.model.settings().window;
        let ratios = Ratios::one(ratio, window).map_err(|_| Error::OptionUnavailable {
            option: "memory.ratio",
            expected: format!("0 or a divisor of the memory model's window, {window}"),
            found: ratio.to_string(),
        })?;
        let mut memory = self.model.memory(ratios.schedule(0));
        self.feed(&mut memory, &self.before, &mut |_, _| Ok(None), &mut |_| true)?;
        Ok(memory)
    }

    /// Reads documents, one after the other. Windows may hold the end of one and the beginning of
    /// the next. `go_on` gets the number of tokens that were read since its last call, which are
    /// those of one pass, so that a waiting caller waits for one pass at most. If it returns false,
    /// the result is false and the memory holds a part of the documents. `together` gets the whole
    /// windows of all documents.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails, and the errors of `together`; the memory is
    /// then unusable.
    pub fn read(
        &self,
        memory: &mut MemoryState,
        documents: &[MemoryText],
        together: &mut Together<'_>,
        go_on: &mut GoOn<'_>,
    ) -> Result<bool, Error> {
        let tokens = documents.iter().flat_map(|text| self.as_read(&text.title, &text.text));
        self.feed(memory, &tokens.collect::<Vec<u32>>(), together, go_on)
    }

    /// Prepares a memory for questions. [`MemoryReader::draft`] reads from it, and no document can
    /// be read into it any more.
    ///
    /// # Errors
    /// Returns [`Error::Device`] if the device fails.
    pub fn ready(&self, mut memory: MemoryState) -> Result<MemoryState, Error> {
        self.feed(&mut memory, &self.after, &mut |_, _| Ok(None), &mut |_| true)?;
        self.model.prepare(&mut memory);
        Ok(memory)
    }

    /// Drafts a text for each request from a memory, side by side. Each draft is the same as it
    /// would be alone. `go_on` gets the number of drafts that the next step continues. If it
    /// returns false, the drafts end as they are.
    ///
    /// # Errors
    /// Returns [`Error::Template`] if the template cannot render a request, and [`Error::Device`]
    /// if the device fails.
    pub fn draft(
        &self,
        memory: &MemoryState,
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
            let choices = open.iter_mut().map(|draft| draft.sampler.choice(None)).collect();
            let mut readings: Vec<MemoryInput<'_>> =
                open.iter_mut().map(|draft| draft.next()).collect();
            let tokens = self.model.read_and_choose(&mut readings, choices)?;
            for (draft, token) in open.into_iter().zip(tokens) {
                draft.say(token)?;
            }
        }
        Ok(drafts.into_iter().map(|draft| draft.end(self)).collect())
    }

    /// Reads tokens in three parts: the end of the open window, whole windows, and the beginning of
    /// a window. No pass belongs to two of them. So the memory is the same, bit by bit on a
    /// processor, whether or not the whole windows are read together with other nodes.
    fn feed(
        &self,
        memory: &mut MemoryState,
        tokens: &[u32],
        together: &mut Together<'_>,
        go_on: &mut GoOn<'_>,
    ) -> Result<bool, Error> {
        let whole = self.model.whole_windows(memory, tokens);
        let (begin, end) = (&tokens[..whole.start], &tokens[whole.end..]);
        if !self.model.read_by_passes(memory, begin, go_on)? {
            return Ok(false);
        }
        let windows = &tokens[whole];
        match together(memory, windows)? {
            Some(read) => *memory = read,
            None if !self.model.read_by_passes(memory, windows, go_on)? => return Ok(false),
            None => {}
        }
        self.model.read_by_passes(memory, end, go_on)
    }
}

/// Draft that is being generated.
struct Drafting {
    memory: MemoryState,
    /// Prompt and draft.
    tokens: Vec<u32>,
    prompt: usize,
    /// Number of tokens that were read.
    read: usize,
    sampler: Sampler,
}

impl Drafting {
    fn new(prompt: Vec<u32>, memory: MemoryState, reader: &MemoryReader) -> Self {
        let sampling = Sampling {
            repetition_penalty: reader.language.repetition_penalty,
            ..Sampling::default()
        };
        let sampler = Sampler::new(sampling, &prompt);
        Self { memory, prompt: prompt.len(), tokens: prompt, read: 0, sampler }
    }

    fn is_over(&self, reader: &MemoryReader, max_tokens: usize) -> bool {
        let said = &self.tokens[self.prompt..];
        said.len() >= max_tokens
            || said.last().is_some_and(|token| reader.language.ends.contains(token))
    }

    fn next(&mut self) -> MemoryInput<'_> {
        let unread = self.read;
        self.read = self.tokens.len();
        MemoryInput {
            memory: &mut self.memory,
            tokens: &self.tokens[unread..],
            wanted: WantedLogits::Last,
        }
    }

    fn say(&mut self, token: Option<u32>) -> Result<(), Error> {
        let token = token.ok_or_else(|| Error::Device {
            reason: "the memory model gave no usable likelihood of any token".to_owned(),
        })?;
        self.tokens.push(token);
        self.sampler.say(token);
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
