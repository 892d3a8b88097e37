//! Ask: an answer with its citations, the steps that led to it, and what it cost.
//!
//! The page of a question has the whole answer, so that an address can be kept and sent. The script
//! asks for [`stream`] instead, and shows the same as it comes.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Instant;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use clew_client::{QuestionRequest, name_of};
use clew_core::{CorpusName, Error};
use clew_proto::query::v1::answer_response::Event;
use clew_proto::query::v1::{
    Answer, AnswerResponse, Citation, Cost, Outcome, Place, Strategy, TraceEvent,
};
use futures::{Stream, StreamExt, stream};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::Shown;
use crate::failed::Failed;
use crate::shell::{self, Tab, Where};
use crate::steps::{Step, Taken, Touched, outcome_name};
use crate::structure;
use crate::text::{Exact, count, counted, lasted, took};
use crate::timeline::timeline;
use crate::visitor::{OfCorpus, Visitor};

/// Header by which browsers say which site a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Strategy that is asked unless the form says otherwise.
const DEFAULT_STRATEGY: &str = "direct";
/// Most steps on a page. A question has dozens; a walk through a large corpus may have thousands.
const MAX_STEPS: usize = 500;
/// Most passages and entities of a step that are listed.
const MAX_TOUCHED: usize = 50;

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

    async fn begin(self, visitor: &Visitor) -> Result<Telling, Failed> {
        let question = QuestionRequest {
            text: self.question.clone(),
            strategy: self.strategy.clone(),
            ..QuestionRequest::default()
        };
        let begun = Instant::now();
        let events = Box::pin(visitor.client.answer(&self.corpus, question).await?);
        Ok(Telling { asked: self, begun, events, steps: Vec::new() })
    }

    /// Asks, and returns the result for the page.
    async fn answer(self, visitor: &Visitor) -> Result<Markup, Failed> {
        let mut telling = self.begin(visitor).await?;
        loop {
            if let Told::Answer(answer) = telling.next().await? {
                return Ok(result(visitor, &telling, &answer));
            }
        }
    }
}

/// An answer that is being told.
struct Telling {
    asked: Asked,
    begun: Instant,
    events: Events,
    steps: Vec<Taken>,
}

/// What is told next of an answer.
enum Told {
    /// A step, in words.
    Step(String),
    /// The next piece of the text.
    Text(String),
    /// The answer, which is the last.
    Answer(Box<Answer>),
}

impl Telling {
    /// Waits for what is told next.
    async fn next(&mut self) -> Result<Told, Error> {
        while let Some(event) = self.events.next().await {
            match event?.event {
                Some(Event::Trace(TraceEvent { step: Some(step) })) => {
                    let taken = Taken { step: Step::of(&step), at: self.begun.elapsed() };
                    let told = format!("{}: {}", taken.step.kind, taken.step.said);
                    if self.steps.len() < MAX_STEPS {
                        self.steps.push(taken);
                    }
                    return Ok(Told::Step(told));
                }
                Some(Event::TextDelta(text)) => return Ok(Told::Text(text)),
                Some(Event::Answer(answer)) => return Ok(Told::Answer(Box::new(answer))),
                Some(Event::Trace(_)) | None => {}
            }
        }
        Err(Error::internal("the answer was cut short; ask again"))
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
        let answered = asked.into_iter().map(|asked| asked.answer(&visitor));
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
    let telling = asked.begin(&visitor).await?;
    let lines = stream::unfold(Some((visitor, telling)), |telling| async move {
        let (visitor, mut telling) = telling?;
        let (line, is_last) = line(&visitor, &mut telling).await;
        let line = Ok::<_, Infallible>(format!("{line}\n"));
        Some((line, (!is_last).then_some((visitor, telling))))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    // nginx would otherwise hold lines back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Returns the next line of a stream, and whether it is the last.
async fn line(visitor: &Visitor, telling: &mut Telling) -> (Value, bool) {
    match telling.next().await {
        Ok(Told::Step(step)) => (json!({"step": step}), false),
        Ok(Told::Text(text)) => (json!({"text": text}), false),
        Ok(Told::Answer(answer)) => {
            let result = result(visitor, telling, &answer);
            (json!({"result": result.into_string()}), true)
        }
        Err(error) => (json!({"problem": error.message()}), true),
    }
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

fn result(visitor: &Visitor, telling: &Telling, answer: &Answer) -> Markup {
    let Telling { asked, steps, .. } = telling;
    let cost = answer.cost.unwrap_or_default();
    html! {
        section class="answer" aria-label=(format!("Answer by {}", asked.strategy)) {
            h2 { (asked.strategy) " " (outcome(answer.outcome())) }
            @if answer.outcome() == Outcome::NotInMemory {
                p { "The corpus does not answer this question." }
            } @else {
                div class="said" dir="auto" { (Exact(&answer.text)) }
            }
            (structure::silent(&answer.shards_missing))
            @if !answer.citations.is_empty() {
                h3 { "Sources" }
                ol class="citations" {
                    @for citation in &answer.citations { li { (source(visitor, &asked.corpus, citation)) } }
                }
            }
            h3 { "How it was answered" }
            @if !steps.is_empty() {
                (timeline(&format!("Picture of the steps by {}", asked.strategy), steps))
            }
            ol class="steps" { @for taken in steps { li { (step(visitor, &asked.corpus, taken)) } } }
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
    let place = Place {
        document_id: citation.document_id.clone(),
        version: citation.version,
        span: citation.span,
    };
    html! {
        a href=(visitor.of_place(corpus, &place)) { bdi { (name_of(&citation.title, &citation.document_id)) } }
        " " span class="quiet" { "bytes " (count(span.start)) " to " (count(span.end)) }
        blockquote dir="auto" { (Exact(&citation.quote)) }
    }
}

/// Returns a step in words, with links to the passages and entities that it touched. Nodes of trees
/// are in its words.
fn step(visitor: &Visitor, corpus: &CorpusName, Taken { step, at }: &Taken) -> Markup {
    let links: Vec<Markup> =
        step.touched.iter().filter_map(|one| touched(visitor, corpus, one)).collect();
    html! {
        strong { (step.kind) } " " span dir="auto" { (step.said) }
        " " span class="quiet" { "after " (lasted(*at)) }
        @if !step.why.is_empty() { br; span class="quiet" dir="auto" { (step.why) } }
        @if !links.is_empty() {
            ul class="words" {
                @for link in links.iter().take(MAX_TOUCHED) { li { (link) } }
                @if links.len() > MAX_TOUCHED {
                    li class="quiet" { (count((links.len() - MAX_TOUCHED) as u64)) " more" }
                }
            }
        }
    }
}

fn touched(visitor: &Visitor, corpus: &CorpusName, touched: &Touched) -> Option<Markup> {
    match touched {
        Touched::Passage(place) => {
            let span = place.span.unwrap_or_default();
            Some(html! {
                a href=(visitor.of_place(corpus, place)) {
                    bdi { (place.document_id) } ", bytes " (count(span.start)) " to " (count(span.end))
                }
            })
        }
        Touched::Entity(name) => {
            Some(html! { a href=(visitor.of(corpus, "graph", &[("q", name)])) { bdi { (name) } } })
        }
        Touched::Node(_) => None,
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
