//! Reasoning by prompts: acts, the calls that perform them, and the parsing of replies.
//!
//! An [`Act`] is one step of judgement with its input. [`Prompted::perform`] cuts the act to the
//! model's window, renders its prompt, calls the model and parses the reply. The cost is drawn from
//! the [`Account`] that the act is performed on; all acts of a question share one account.
//!
//! | act | step | paper |
//! |---|---|---|
//! | [`Summarise`] | leaves and inner nodes of a tree | MemWalker, section 3, appendix A.1 |
//! | [`ChooseChild`] | the child to enter from a node (triage) | MemWalker, section 3, table 1 |
//! | [`ReadLeaf`] | answer from a leaf or turn back | MemWalker, section 3, table 1 |
//! | [`NameEntities`] | nodes of a graph | QRMeM, section 2.1, appendix D |
//! | [`RelateEntities`] | open relations between them | QRMeM, section 2.1, appendix D |
//! | [`AskQuestions`] | questions that a segment leaves open | QRMeM, section 2.1 |
//! | [`MergeDescriptions`] | one description of several | QRMeM, section 2.1 |
//! | [`JudgeEvidence`] | whether evidence suffices | QRMeM, section 2.2, appendix D |
//! | [`ChooseEntities`] | the entities to look at next | QRMeM, section 2.2 (entity trial) |
//! | [`ElaborateQuery`] | a question with relations | QRMeM, section 2.2 (graph expansion search) |
//! | [`ProposeClues`] | clues and queries | MemoRAG, sections 2.3 and 2.4, tables 1, 2 and 4 |
//! | [`ListKeyPoints`] | key points for a summary | MemoRAG, section 2.4, table 3 |
//! | [`Reword`] | the question rewritten, decomposed or disambiguated | RQ-RAG |
//! | [`ImaginePassage`] | a passage that could answer | HyDE, section 3 |
//! | [`RaiseConcerns`] | gaps of a memory, local or global | HGMem, section 3.4, figure 6 |
//! | [`AskSubquery`] | a query for one concern | HGMem, section 3.4, figure 7 |
//! | [`UpdatePoints`] | updated and inserted memory points | HGMem, section 3.5, figure 4 |
//! | [`MergePoints`] | merged memory points | HGMem, section 3.5, figure 5 |
//! | [`ExtractFacts`] | statements of users about themselves | LongMemEval, section 5, figure 11 |
//! | [`ExtractEvents`] | dated events of a chat | LongMemEval, section 5, figure 12 |
//! | [`InferTimeRange`] | the time that a question asks about | LongMemEval, section 5, figure 12 |
//! | [`ReadEvidence`] | notes, then an answer with citations | LongMemEval, section 5, figure 13 |
//! | [`GradeAnswer`] | whether an answer is right | LongMemEval, appendix A.4, figure 10 |
//! | [`GradeNugget`] | how far an answer meets a point | BEAM |
//! | [`RateAnswer`] | comprehensiveness or diversity | HGMem, appendix F, figures 8 and 9 |
//!
//! # Deviations from the papers
//!
//! The prompts are our own words. Items are numbered from 1. Actions have names instead of negative
//! numbers. Replies are requested as JSON of a given schema, which a server can enforce; replies of
//! models without schema support are parsed as well. A text that is too long is cut by the rule of
//! its act, while the papers cut working memory only.

mod act;
mod acts;
mod builder;
mod cache;
mod judge;
mod kept_replies;
mod listener;
mod material;
mod navigator;
mod planner;
mod prompt;
mod questions;
mod reader;
mod rehearsal;
mod reply;
mod reported;
mod schema;
#[cfg(test)]
mod tests;
mod unreadable;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use clew_core::{
    Account, Budget, Error, ErrorKind, Finish, Generated, GenerationRequest, Generator, Heard,
    Ledger, Owner, ReplyFormat, Sampling,
};

pub use self::act::{Act, Cut};
pub use self::acts::*;
pub use self::cache::{RecentReplies, ReplyCache, ReplyKey};
use self::cache::{Seal, key_and_seal};
pub use self::judge::Judge;
use self::kept_replies::KeptReplies;
pub use self::material::Passage;
pub(crate) use self::material::day;
pub use self::prompt::PromptFile;
use self::prompt::Rendered;
pub use self::reply::Reply;
use self::reported::Told;
pub use self::unreadable::{ReplyShape, UnreadableReply};

/// Temperatures of the attempts: the likeliest reply first, then others. MemWalker, section 3, asks
/// three times and does not state a temperature.
const TEMPERATURES: [f32; 3] = [0.0, 0.5, 0.8];

/// A runner of acts, which calls a language model.
#[derive(Clone)]
pub struct Prompted {
    generator: Arc<dyn Generator>,
    cache: Option<Arc<dyn ReplyCache>>,
    budget: Budget,
    account: Option<Account>,
    at_once: usize,
    questions: usize,
    told: Arc<Told>,
}

impl fmt::Debug for Prompted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = &self.generator.identity().model;
        f.debug_struct("Prompted").field("model", model).field("budget", &self.budget).finish()
    }
}

impl Prompted {
    /// Creates a runner that calls `generator` with the default budget, one task at a time, without
    /// an account and without a cache.
    pub fn new(generator: Arc<dyn Generator>) -> Self {
        let budget = Budget::default();
        let (at_once, questions, told) = (1, 0, Arc::default());
        Self { generator, cache: None, budget, account: None, at_once, questions, told }
    }

    /// Keeps replies in `cache`, separately for each owner of an account.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<dyn ReplyCache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Keeps replies in this process and, through `shared`, on the nodes that share that cache.
    /// Owners of accounts never share a reply.
    #[must_use]
    pub fn with_kept_replies(self, shared: Option<Arc<dyn ReplyCache>>) -> Self {
        self.with_cache(Arc::new(KeptReplies::new(shared)))
    }

    /// Returns a copy that works on `account`.
    #[must_use]
    pub fn on_account(&self, account: &Account) -> Self {
        Self { account: Some(account.clone()), ..self.clone() }
    }

    /// Limits each act, and each task of a graph builder, to `budget`, within what the account has
    /// left.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the number of tasks of a graph builder's call that run concurrently, at least one.
    #[must_use]
    pub fn with_tasks_at_once(mut self, tasks: usize) -> Self {
        self.at_once = tasks.max(1);
        self
    }

    /// Makes a graph builder ask up to `most` questions about each passage that is read without a
    /// question, and read the passage again in view of each question that is kept (QRMeM, section
    /// 2.1). The default is 0.
    ///
    /// With `n` questions kept, a passage costs up to `1 + 2n` more calls of the model. They are
    /// charged to the budget of its task. If that is used up, the remaining questions are left out.
    #[must_use]
    pub fn with_questions(mut self, most: usize) -> Self {
        self.questions = most;
        self
    }

    /// Returns a ledger with this runner's budget, as a part of the account's.
    pub fn ledger(&self) -> Ledger {
        match &self.account {
            Some(account) => account.ledger().part(self.budget),
            None => Ledger::new(self.budget),
        }
    }

    /// Performs `act` by calling the model.
    ///
    /// A reply that cannot be parsed is requested again at a higher temperature, at most three
    /// times in total. A cached reply costs nothing. Counting the tokens of the prompt blocks for
    /// about a microsecond per token.
    ///
    /// # Errors
    /// Returns the errors of the generator; [`ErrorKind::InvalidInput`] with the reason
    /// `PROMPT_TOO_LONG` if the prompt cannot be cut to the window; [`ErrorKind::Exhausted`] with
    /// the reason `BUDGET_SPENT` if the budget is used up; [`ErrorKind::Unavailable`] with the
    /// reason `UNREADABLE_REPLY` and an [`UnreadableReply`] as its source if no reply can be
    /// parsed.
    pub async fn perform<A: Act>(
        &self,
        act: &A,
        deadline: Instant,
        ledger: &Ledger,
    ) -> Result<A::Output, Error> {
        let mut act = act.clone();
        let (rendered, tokens) = act::fit(&mut act, self.generator.as_ref())?;
        let kept = self.kept(&act, &rendered);
        if let Some(output) = known(&act, kept.as_ref(), ledger).await {
            return Ok(output);
        }
        let mut request = GenerationRequest {
            messages: rendered.into_messages(),
            max_tokens: act.max_tokens(),
            format: act.format(),
            ..GenerationRequest::default()
        };
        let mut last = None;
        for (attempt, temperature) in (0..).zip(TEMPERATURES) {
            request.sampling = Sampling { temperature, seed: Some(attempt), ..Sampling::default() };
            let generated = self.call(&mut request, tokens.into(), deadline, ledger).await?;
            match act.parse(reply(&generated)) {
                Ok(output) => {
                    let is_kept = temperature == 0.0 && generated.finish == Finish::Stop;
                    if let (Some(Kept { cache, key, seal }), true) = (&kept, is_kept)
                        && let Some(sealed) = seal.close(&generated.text)
                    {
                        cache.put(*key, sealed).await;
                    }
                    return Ok(output);
                }
                Err(unreadable) => {
                    ledger.count_unreadable();
                    last = Some(unreadable);
                }
            }
        }
        let message =
            format!("the language model's replies to `{}` make no sense", act.prompt().name);
        let error = Error::new(ErrorKind::Unavailable, "UNREADABLE_REPLY", message);
        Err(match last {
            Some(unreadable) => error.with_source(unreadable),
            None => error,
        })
    }

    /// Calls the model once, with a prompt of about `prompt_tokens` tokens. If the call is dropped,
    /// the ledger counts the part of the reply that was received.
    async fn call(
        &self,
        request: &mut GenerationRequest,
        prompt_tokens: u64,
        deadline: Instant,
        ledger: &Ledger,
    ) -> Result<Generated, Error> {
        let began = Instant::now();
        // One call may take at most the time that is left for all calls.
        let ends = began.checked_add(ledger.left().time).filter(|ends| *ends < deadline);
        let mut call = ledger.begin(prompt_tokens, request.max_tokens.into())?;
        request.most_calls = call.most_calls();
        let mut hear = |heard: Heard<'_>| match heard {
            Heard::Asked => call.is_asked(),
            Heard::Text(more) => call.is_said(self.generator.count_tokens(more).into()),
            Heard::Anew => call.is_void(),
        };
        let generated = self.generator.generate(request, ends.unwrap_or(deadline), &mut hear).await;
        match generated {
            Ok(generated) => {
                call.end(&generated.usage);
                self.told.note(prompt_tokens, &request.format, &generated.usage);
                Ok(generated)
            }
            Err(error) => {
                call.fail(&error, began.elapsed());
                let is_out_of_time = error.kind() == ErrorKind::DeadlineExceeded;
                Err(if ends.is_some() && is_out_of_time { ledger.refuse("time") } else { error })
            }
        }
    }

    /// Returns the place in the cache of the reply to `rendered`. Returns `None` without a cache.
    fn kept<A: Act>(&self, act: &A, rendered: &Rendered) -> Option<Kept<'_>> {
        let cache = self.cache.as_ref()?;
        let owner = self.account.as_ref().map_or_else(Owner::default, Account::owner);
        let format = match act.format() {
            ReplyFormat::Text => String::new(),
            ReplyFormat::Choice(choices) => choices.join("\n"),
            ReplyFormat::JsonSchema(schema) => schema,
        };
        let (key, seal) = key_and_seal(&[
            &owner.to_string(),
            &self.generator.identity().model,
            act.prompt().name,
            &rendered.version.to_string(),
            &rendered.system,
            &rendered.user,
            &format,
            &act.max_tokens().to_string(),
        ]);
        Some(Kept { cache: cache.as_ref(), key, seal })
    }
}

/// Place of a reply in the cache.
struct Kept<'a> {
    cache: &'a dyn ReplyCache,
    key: ReplyKey,
    seal: Seal,
}

/// Returns the result of a cached reply.
async fn known<A: Act>(act: &A, kept: Option<&Kept<'_>>, ledger: &Ledger) -> Option<A::Output> {
    let Kept { cache, key, seal } = kept?;
    let text = seal.open(&cache.get(key).await?)?;
    // A reply that a newer parser refuses is requested again.
    let output = act.parse(Reply { text: &text, is_whole: true }).ok()?;
    ledger.count_cache_hit();
    Some(output)
}

fn reply(generated: &Generated) -> Reply<'_> {
    Reply { text: &generated.text, is_whole: generated.finish == Finish::Stop }
}
