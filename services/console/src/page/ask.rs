//! Ask: an answer with its citations, the steps that led to it, and what it cost.
//!
//! The page of a question has the whole answer, so that an address can be kept and sent. The script
//! asks for [`stream`] instead, and shows the same as it comes.

use std::pin::Pin;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use clew_client::{QuestionRequest, name_of};
use clew_core::{CorpusName, Error};
use clew_proto::query::v1::answer_response::Event;
use clew_proto::query::v1::{
    Answer, AnswerResponse, Citation, Cost, Outcome, Strategy, TraceEvent,
};
use futures::{Stream, StreamExt, stream};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::Shown;
use crate::failed::Failed;
use crate::shell::{self, Tab, Where};
use crate::steps::{Step, outcome_name};
use crate::text::{Exact, count, counted, took};
use crate::visitor::{OfCorpus, Visitor};

/// Header by which browsers say which site a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Strategy that is asked unless the form says otherwise.
const DEFAULT_STRATEGY: &str = "direct";
/// Most steps on a page. A question has dozens; a walk through a large corpus may have thousands.
const MAX_STEPS: usize = 500;

/// A question to one strategy.
#[derive(Clone, Debug)]
struct Asked {
    corpus: CorpusName,
    question: String,
    strategy: String,
}

type Events = Pin<Box<dyn Stream<Item = Result<AnswerResponse, Error>> + Send>>;

impl Asked {
    /// Returns the question of the page's address, to the strategy that `field` names.
    fn of(visitor: &Visitor, corpus: &CorpusName, field: &str) -> Self {
        let strategy = match visitor.query.get(field) {
            "" => DEFAULT_STRATEGY,
            strategy => strategy,
        };
        Self {
            corpus: corpus.clone(),
            question: visitor.query.get("q").to_owned(),
            strategy: strategy.to_owned(),
        }
    }

    async fn begin(&self, visitor: &Visitor) -> Result<Events, Failed> {
        let question = QuestionRequest {
            text: self.question.clone(),
            strategy: self.strategy.clone(),
            ..QuestionRequest::default()
        };
        Ok(Box::pin(visitor.client.answer(&self.corpus, question).await?))
    }

    /// Asks, and returns the result for the page.
    async fn answer(&self, visitor: &Visitor) -> Result<Markup, Failed> {
        let mut events = self.begin(visitor).await?;
        let mut steps = Vec::new();
        while let Some(event) = events.next().await {
            match event?.event {
                Some(Event::Trace(TraceEvent { step: Some(step) })) if steps.len() < MAX_STEPS => {
                    steps.push(Step::of(&step));
                }
                Some(Event::Answer(answer)) => return Ok(result(visitor, self, &answer, &steps)),
                Some(Event::TextDelta(_) | Event::Trace(_)) | None => {}
            }
        }
        Err(cut_short().into())
    }
}

pub(crate) async fn show(
    OfCorpus(corpus): OfCorpus,
    visitor: Visitor,
    headers: HeaderMap,
) -> Shown {
    let strategies = visitor.client.strategies(Some(&corpus)).await?;
    let question = visitor.query.get("q");
    let asked: Vec<Asked> = ["strategy", "beside"]
        .into_iter()
        .filter(|field| *field == "strategy" || visitor.query.has(field))
        .map(|field| Asked::of(&visitor, &corpus, field))
        .collect();
    let mut answers = Vec::new();
    // A link of another site opens the page, and a person decides whether to spend on the question.
    let is_foreign = headers.get(FETCH_SITE).is_some_and(|site| site == "cross-site");
    if !question.is_empty() && !is_foreign {
        let answered = asked.iter().map(|asked| asked.answer(&visitor));
        for answer in futures::future::join_all(answered).await {
            answers.push(answer?);
        }
    }
    let content = html! {
        h1 { "Ask" }
        form class="fields line" id="ask" method="get" action=(visitor.of(&corpus, "ask", &[]))
            data-stream=(visitor.of(&corpus, "ask/stream", &[])) {
            label for="q" { "Question" }
            input id="q" class="long" name="q" type="search" required value=(question) dir="auto";
            (choice("strategy", "Strategy", &strategies, visitor.query.get("strategy")))
            (choice("beside", "Beside it", &strategies, visitor.query.get("beside")))
            button { "Ask" }
        }
        div class="beside" id="answers" aria-live="polite" {
            @for answer in &answers { (answer) }
        }
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Ask), "Ask", content))
}

/// Streams the answer to a question: a line of JSON for each step and each part of the text, and at
/// last one with the result for the page, or with what went wrong.
pub(crate) async fn stream(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let asked = Asked::of(&visitor, &corpus, "strategy");
    let events = asked.begin(&visitor).await?;
    let telling = Telling { visitor, asked, events, steps: Vec::new() };
    let lines = stream::unfold(Some(telling), |telling| async move {
        let (line, telling) = telling?.next().await;
        Some((Ok::<_, std::convert::Infallible>(format!("{line}\n")), telling))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    // nginx would otherwise hold lines back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// An answer that is being told.
struct Telling {
    visitor: Visitor,
    asked: Asked,
    events: Events,
    steps: Vec<Step>,
}

impl Telling {
    /// Returns the next line, and what is told after it, if anything is.
    async fn next(mut self) -> (Value, Option<Self>) {
        while let Some(event) = self.events.next().await {
            match event.map(|event| event.event) {
                Ok(Some(Event::Trace(TraceEvent { step: Some(step) }))) => {
                    let step = Step::of(&step);
                    let line = json!({"step": format!("{}: {}", step.kind, step.said)});
                    if self.steps.len() < MAX_STEPS {
                        self.steps.push(step);
                    }
                    return (line, Some(self));
                }
                Ok(Some(Event::TextDelta(text))) => return (json!({"text": text}), Some(self)),
                Ok(Some(Event::Answer(answer))) => {
                    let result = result(&self.visitor, &self.asked, &answer, &self.steps);
                    return (json!({"result": result.into_string()}), None);
                }
                Ok(Some(Event::Trace(_)) | None) => {}
                Err(error) => return (json!({"problem": error.message()}), None),
            }
        }
        (json!({"problem": cut_short().message()}), None)
    }
}

fn cut_short() -> Error {
    Error::internal("the answer was cut short; ask again")
}

fn choice(field: &str, name: &str, strategies: &[Strategy], chosen: &str) -> Markup {
    html! {
        label for=(field) { (name) }
        select id=(field) name=(field) {
            @if field == "beside" { option value="" { "nothing" } }
            @for strategy in strategies.iter().filter(|strategy| strategy.can_run) {
                @let is_default = chosen.is_empty() && field == "strategy" && strategy.name == DEFAULT_STRATEGY;
                option value=(strategy.name) selected[strategy.name == chosen || is_default] { (strategy.name) }
            }
        }
    }
}

fn result(visitor: &Visitor, asked: &Asked, answer: &Answer, steps: &[Step]) -> Markup {
    let cost = answer.cost.unwrap_or_default();
    html! {
        section class="answer" aria-label=(format!("Answer by {}", asked.strategy)) {
            h2 { (asked.strategy) " " (outcome(answer.outcome())) }
            @if answer.outcome() == Outcome::NotInMemory {
                p { "The corpus does not answer this question." }
            } @else {
                div class="said" dir="auto" { (Exact(&answer.text)) }
            }
            @if !answer.shards_missing.is_empty() {
                p class="problem" { (counted(answer.shards_missing.len() as u64, "shard")) " did not answer." }
            }
            @if !answer.citations.is_empty() {
                h3 { "Sources" }
                ol class="citations" {
                    @for citation in &answer.citations { li { (source(visitor, &asked.corpus, citation)) } }
                }
            }
            h3 { "How it was answered" }
            ol class="steps" {
                @for step in steps {
                    li {
                        strong { (step.kind) } " " span dir="auto" { (step.said) }
                        @if !step.why.is_empty() { br; span class="quiet" dir="auto" { (step.why) } }
                    }
                }
            }
            @if steps.len() == MAX_STEPS { p class="quiet" { "Later steps are left out." } }
            p class="quiet" { (spent(&cost)) ", " (took(answer.timing.unwrap_or_default().total.as_ref())) }
            details {
                summary { "The same question from a program" }
                (program("curl", &as_curl(&visitor.origin, asked)))
                (program("Python", &as_python(asked)))
            }
        }
    }
}

fn outcome(outcome: Outcome) -> Markup {
    let class = match outcome {
        Outcome::Answered => "state good",
        Outcome::NotInMemory | Outcome::Unspecified => "state",
        Outcome::AnsweredWithShardsMissing => "state bad",
    };
    html! { span class=(class) { (outcome_name(outcome)) } }
}

fn source(visitor: &Visitor, corpus: &CorpusName, citation: &Citation) -> Markup {
    let span = citation.span.unwrap_or_default();
    let [version, start, end] = [citation.version, span.start, span.end].map(|n| n.to_string());
    let fields = [
        ("id", citation.document_id.as_str()),
        ("version", &version),
        ("start", &start),
        ("end", &end),
    ];
    let address = format!("{}#cited", visitor.of(corpus, "document", &fields));
    html! {
        a href=(address) { bdi { (name_of(&citation.title, &citation.document_id)) } }
        " " span class="quiet" { "bytes " (count(span.start)) " to " (count(span.end)) }
        blockquote dir="auto" { (Exact(&citation.quote)) }
    }
}

fn spent(cost: &Cost) -> String {
    let mut parts = vec![format!("{} embedded", counted(cost.embedded_tokens, "token"))];
    if cost.reranked_tokens > 0 {
        parts.push(format!("{} read with the question", counted(cost.reranked_tokens, "token")));
    }
    parts.push(counted(cost.model_calls, "model call"));
    if cost.model_calls > 0 {
        let tokens = cost.prompt_tokens + cost.completion_tokens;
        parts.push(format!("{} of models", counted(tokens, "token")));
    }
    if cost.out_of_budget {
        parts.push("which is all that its budget allows".to_owned());
    }
    parts.join(", ")
}

/// Returns a program to copy.
fn program(name: &str, text: &str) -> Markup {
    html! {
        h4 { (name) }
        pre data-copy=(name) { code { (text) } }
    }
}

/// Returns the command that asks the same. The key is that of whoever runs it.
fn as_curl(origin: &str, asked: &Asked) -> String {
    let Asked { corpus, question, strategy } = asked;
    let body = json!({"corpus": corpus.as_str(), "question": question, "strategy": strategy});
    let body = body.to_string().replace('\'', "'\\''");
    format!(
        "curl --no-buffer '{origin}/api/clew.query.v1.QueryService/Answer' \\\n    \
         --header \"Authorization: Bearer $CLEW_API_KEY\" \\\n    --json '{body}'"
    )
}

/// Returns the program that asks the same, with the address and the key of its environment.
fn as_python(asked: &Asked) -> String {
    // The escapes of JSON are some of Python's.
    let [corpus, question, strategy] =
        [asked.corpus.as_str(), &asked.question, &asked.strategy].map(|text| json!(text));
    format!(
        "import clew\n\n# CLEW_ENDPOINT and CLEW_API_KEY name the server and the key.\n\
         client = clew.Client()\n\
         answer = client.corpus({corpus}).ask({question}, strategy={strategy})\n\
         print(answer.text)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_quoted_for_shells_and_programs() {
        let asked = Asked {
            corpus: "notes".parse().unwrap(),
            question: "what's \"it\"?\n$(x)".to_owned(),
            strategy: "direct".to_owned(),
        };
        let curl = as_curl("http://127.0.0.1:7422", &asked);
        let json =
            r#"'{"corpus":"notes","question":"what'\''s \"it\"?\n$(x)","strategy":"direct"}'"#;
        assert!(curl.ends_with(json), "{curl}");
        let python = as_python(&asked);
        let call = r#"client.corpus("notes").ask("what's \"it\"?\n$(x)", strategy="direct")"#;
        assert!(python.contains(call), "{python}");
    }

    #[test]
    fn a_cost_is_told_as_far_as_it_is_one() {
        let cost = Cost { embedded_tokens: 7, ..Cost::default() };
        assert_eq!(spent(&cost), "7 tokens embedded, 0 model calls");
        let cost = Cost { model_calls: 2, prompt_tokens: 1000, completion_tokens: 1, ..cost };
        assert_eq!(spent(&cost), "7 tokens embedded, 2 model calls, 1,001 tokens of models");
    }
}
