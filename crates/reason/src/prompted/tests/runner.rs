//! Calls of the model: attempts, temperatures, windows, budgets and caches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{GeneratorIdentity, Heard, TriageStep, Usage};

use super::super::*;

/// A model with scripted replies that records its requests. A token is four bytes.
pub(super) struct Scripted {
    identity: GeneratorIdentity,
    replies: Mutex<VecDeque<String>>,
    pub asked: Mutex<Vec<GenerationRequest>>,
}

impl Scripted {
    pub fn new(window: u32, replies: &[&str]) -> Arc<Self> {
        let identity = GeneratorIdentity { model: "scripted".to_owned(), window };
        let replies = replies.iter().map(|reply| (*reply).to_owned()).collect();
        Arc::new(Self { identity, replies: Mutex::new(replies), asked: Mutex::default() })
    }

    /// Returns the user message of the last prompt.
    pub fn last_prompt(&self) -> String {
        self.asked.lock().unwrap().last().unwrap().messages[1].text.clone()
    }

    pub fn temperatures(&self) -> Vec<f32> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|request| request.sampling.temperature).collect()
    }
}

#[async_trait]
impl Generator for Scripted {
    fn identity(&self) -> &GeneratorIdentity {
        &self.identity
    }

    fn count_tokens(&self, text: &str) -> u32 {
        u32::try_from(text.len().div_ceil(4)).unwrap()
    }

    async fn generate(
        &self,
        request: &GenerationRequest,
        _deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error> {
        request.check()?;
        let prompt: u32 = request.messages.iter().map(|m| self.count_tokens(&m.text)).sum();
        assert!(prompt + request.max_tokens <= self.identity.window, "the prompt is too long");
        self.asked.lock().unwrap().push(request.clone());
        let next = self.replies.lock().unwrap().pop_front();
        let gone = || Error::new(ErrorKind::Unavailable, "MODEL_GONE", "the model is gone");
        let reply = next.ok_or_else(gone)?;
        // `…` at the end stands for a model that ran out of tokens.
        let (text, finish) = match reply.strip_suffix('…') {
            Some(text) => (text.to_owned(), Finish::Length),
            None => (reply, Finish::Stop),
        };
        heard(Heard::Text(&text));
        let usage = Usage {
            prompt_tokens: u64::from(prompt),
            completion_tokens: u64::from(self.count_tokens(&text)),
            took: Duration::from_millis(10),
            calls: 1,
        };
        Ok(Generated { text, finish, usage, model: self.identity.model.clone() })
    }
}

pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn choose() -> ChooseChild {
    ChooseChild {
        question: "Which way?".to_owned(),
        memory: vec!["old ".repeat(100), "new ".repeat(100)],
        summaries: vec!["long ".repeat(1000), "short".to_owned()],
        may_turn_back: true,
    }
}

#[tokio::test]
async fn an_unreadable_reply_is_asked_for_again_and_warmer() {
    let model = Scripted::new(8000, &["Hm.", "Action: 7", "Action: back"]);
    let prompted = Prompted::new(model.clone());
    let ledger = prompted.ledger();
    let triage = prompted.perform(&choose(), soon(), &ledger).await.unwrap();
    assert_eq!(triage.step, TriageStep::TurnBack);
    assert_eq!(model.temperatures(), [0.0, 0.5, 0.8]);
    let spent = ledger.spent();
    assert_eq!((spent.calls, spent.unreadable, spent.cache_hits), (3, 2, 0));
    assert_eq!(spent.time, Duration::from_millis(30));
    assert_eq!(ledger.cost().model_calls, 3);
}

#[tokio::test]
async fn three_unreadable_replies_are_an_error_that_tells_no_text() {
    let model = Scripted::new(8000, &["Secret one.", "Secret two.", "Secret three.", "Action: 1"]);
    let prompted = Prompted::new(model.clone());
    let error = prompted.perform(&choose(), soon(), &prompted.ledger()).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "UNREADABLE_REPLY"));
    assert_eq!(model.temperatures().len(), 3);
    assert!(error.chain().ends_with("found prose"), "{}", error.chain());
    assert!(!error.chain().contains("Secret"));
}

#[tokio::test]
async fn errors_of_the_model_are_passed_on_and_count_as_calls() {
    let prompted = Prompted::new(Scripted::new(8000, &[]));
    let ledger = prompted.ledger();
    let error = prompted.perform(&choose(), soon(), &ledger).await.unwrap_err();
    assert_eq!((error.reason(), ledger.spent().calls), ("MODEL_GONE", 1));
}

#[tokio::test]
async fn what_does_not_fit_is_cut_in_the_order_of_the_act() {
    // The whole prompt has about 1640 tokens; 544 are for the reply and the template.
    let model = Scripted::new(2130, &["Action: 1"; 4]);
    let prompted = Prompted::new(model.clone());
    prompted.perform(&choose(), soon(), &prompted.ledger()).await.unwrap();
    let prompt = model.last_prompt();
    assert!(
        !prompt.contains("old") && prompt.contains("new") && prompt.contains(&"long ".repeat(999))
    );
    let model = Scripted::new(1200, &["Action: 2"]);
    let prompted = Prompted::new(model.clone());
    prompted.perform(&choose(), soon(), &prompted.ledger()).await.unwrap();
    let prompt = model.last_prompt();
    assert!(!prompt.contains("new") && prompt.contains("long") && prompt.contains("[2] short"));
    assert!(prompt.len() > 1000, "{}", prompt.len());
}

#[tokio::test]
async fn what_may_not_be_cut_is_refused_when_it_is_too_long() {
    let prompted = Prompted::new(Scripted::new(2000, &["Action: 1"]));
    let act = ChooseChild { question: "why ".repeat(3000), ..choose() };
    let error = prompted.perform(&act, soon(), &prompted.ledger()).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::InvalidInput, "PROMPT_TOO_LONG"));
}

#[tokio::test]
async fn passages_that_were_cut_away_cannot_be_cited() {
    let passage = |text: &str| Passage { text: text.repeat(500), ..Passage::default() };
    let act = ReadEvidence {
        question: "Which?".to_owned(),
        passages: vec![passage("best "), passage("worst ")],
        ..ReadEvidence::default()
    };
    let reply = "Suffices: yes\nAnswer: The worst.\nCitations: 2";
    let model = Scripted::new(3500, &[reply; 3]);
    let prompted = Prompted::new(model.clone());
    let error = prompted.perform(&act, soon(), &prompted.ledger()).await.unwrap_err();
    assert_eq!(error.reason(), "UNREADABLE_REPLY");
    assert!(!model.last_prompt().contains("worst"));
}

#[tokio::test]
async fn a_budget_ends_the_tries_too() {
    let budget = Budget { calls: 2, ..Budget::UNBOUNDED };
    let model = Scripted::new(8000, &["Hm.", "Hm.", "Action: 1"]);
    let prompted = Prompted::new(model.clone()).with_budget(budget);
    let error = prompted.perform(&choose(), soon(), &prompted.ledger()).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Exhausted, "BUDGET_SPENT"));
    assert_eq!(model.temperatures().len(), 2);
    let budget = Budget { tokens: 1000, ..Budget::UNBOUNDED };
    let prompted = Prompted::new(Scripted::new(8000, &["Action: 1"])).with_budget(budget);
    let error = prompted.perform(&choose(), soon(), &prompted.ledger()).await.unwrap_err();
    assert_eq!(error.reason(), "BUDGET_SPENT");
}

/// A model that never replies, and reports requests like an endpoint that repeats them.
struct Silent {
    identity: GeneratorIdentity,
    deadlines: Mutex<Vec<Instant>>,
}

#[async_trait]
impl Generator for Silent {
    fn identity(&self) -> &GeneratorIdentity {
        &self.identity
    }

    fn count_tokens(&self, _: &str) -> u32 {
        10
    }

    async fn generate(
        &self,
        request: &GenerationRequest,
        deadline: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error> {
        self.deadlines.lock().unwrap().push(deadline);
        for _ in 0..request.most_calls.unwrap().get() {
            heard(Heard::Asked);
        }
        heard(Heard::Text("The"));
        tokio::time::sleep_until(deadline.into()).await;
        Err(Error::deadline("the model replied"))
    }
}

#[tokio::test]
async fn what_is_broken_off_is_spent_as_far_as_it_was_heard_and_no_call_outlasts_the_budget() {
    let identity = GeneratorIdentity { model: "silent".to_owned(), window: 8000 };
    let model = Arc::new(Silent { identity, deadlines: Mutex::default() });
    let account = Account::open(Owner::default(), Budget { calls: 3, ..Budget::UNBOUNDED });
    let prompted = Prompted::new(model.clone()).on_account(&account);
    let (act, ledger) = (choose(), prompted.ledger());
    let mut asking = Box::pin(prompted.perform(&act, soon(), &ledger));
    assert!(futures::poll!(&mut asking).is_pending());
    drop(asking);
    let spent = account.ledger().spent();
    assert_eq!((spent.calls, spent.completion_tokens), (3, 10), "no more than it may");
    assert!(spent.prompt_tokens > 0 && spent.prompt_tokens.is_multiple_of(3), "{spent:?}");
    let error = prompted.perform(&act, soon(), &prompted.ledger()).await.unwrap_err();
    assert_eq!((error.reason(), model.deadlines.lock().unwrap().len()), ("BUDGET_SPENT", 1));

    let time = Duration::from_millis(20);
    let account = Account::open(Owner::default(), Budget { time, ..Budget::UNBOUNDED });
    let prompted = prompted.on_account(&account);
    let error = prompted.perform(&act, soon(), &prompted.ledger()).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Exhausted, "BUDGET_SPENT"));
    assert!(account.ledger().spent().time >= time && account.ledger().cost().is_out_of_budget);
}

#[tokio::test]
async fn all_acts_of_an_account_draw_on_its_one_budget() {
    let account = Account::open(Owner::default(), Budget { calls: 3, ..Budget::UNBOUNDED });
    let model = Scripted::new(8000, &["Action: 1"; 9]);
    let prompted = Prompted::new(model.clone()).on_account(&account);
    for act in 1..=5 {
        let performed = prompted.perform(&choose(), soon(), &prompted.ledger()).await;
        assert_eq!(performed.is_ok(), act <= 3, "{performed:?}");
    }
    assert_eq!((model.temperatures().len(), account.ledger().cost().model_calls), (3, 3));
}

#[tokio::test]
async fn a_readable_reply_is_asked_for_once() {
    let cache = Arc::new(RecentReplies::new(1 << 20));
    let model = Scripted::new(8000, &["Action: 1", "Action: 2"]);
    let prompted = Prompted::new(model.clone()).with_cache(cache);
    let of = |tenant| Account::open(Owner::of(Some(tenant)), Budget::UNBOUNDED);
    let (ours, theirs) = (prompted.on_account(&of("ours")), prompted.on_account(&of("theirs")));
    let ledger = ours.ledger();
    for _ in 0..2 {
        let triage = ours.perform(&choose(), soon(), &ledger).await.unwrap();
        assert_eq!(triage.step, TriageStep::Enter(0));
    }
    let spent = ledger.spent();
    assert_eq!((spent.calls, spent.cache_hits), (1, 1));
    // Another tenant's question has its own cache entry.
    let triage = theirs.perform(&choose(), soon(), &ledger).await.unwrap();
    assert_eq!(triage.step, TriageStep::Enter(1));
    let spent = ledger.spent();
    assert_eq!((spent.calls, spent.cache_hits), (2, 1));
}

#[tokio::test]
async fn replies_that_are_warm_or_cut_off_are_not_kept() {
    let cache = Arc::new(RecentReplies::new(1 << 20));
    let model = Scripted::new(8000, &["Hm.", "Action: 1", "{action: 2}…", "Action: 2"]);
    let prompted = Prompted::new(model.clone()).with_cache(cache);
    let ledger = prompted.ledger();
    for _ in 0..4 {
        prompted.perform(&choose(), soon(), &ledger).await.unwrap();
    }
    assert_eq!(model.temperatures(), [0.0, 0.5, 0.0, 0.0]);
    assert_eq!(ledger.spent().cache_hits, 1);
}
