//! `ask`: answers a question from documents.

use clew_client::address_of;
use clew_core::{CorpusName, Error};
use clew_proto::query::v1::answer_response::Event;
use clew_proto::query::v1::{Answer, AnswerRequest, Citation, Outcome};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Caller;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    question: String,
    strategy: Option<String>,
}

pub(super) async fn run(
    caller: &Caller,
    named: Option<CorpusName>,
    arguments: Arguments,
) -> Result<Value, Error> {
    let corpus = caller.corpus(named).await?;
    let request = AnswerRequest {
        corpus: corpus.to_string(),
        question: arguments.question,
        strategy: arguments.strategy.unwrap_or_default(),
        with_attributes: true,
        ..AnswerRequest::default()
    };
    let events = caller.queries().answer(caller.request(request)).await;
    let mut events = events.map_err(|status| caller.failed(&status))?.into_inner();
    while let Some(told) = events.message().await.map_err(|status| caller.failed(&status))? {
        if let Some(Event::Answer(answer)) = told.event {
            return Ok(answered(&corpus, &answer));
        }
    }
    Err(Error::internal("the stream of an answer ended without the answer"))
}

fn answered(corpus: &CorpusName, answer: &Answer) -> Value {
    let outcome = match answer.outcome() {
        Outcome::Answered => "answered",
        Outcome::AnsweredWithShardsMissing => "answered_with_shards_missing",
        Outcome::NotInMemory | Outcome::Unspecified => "not_in_memory",
    };
    let citation = |citation: &Citation| {
        let Citation { document_id, span, attributes, .. } = citation;
        let url = address_of(corpus.as_str(), document_id, *span, attributes);
        let span = span.unwrap_or_default();
        json!({
            "id": citation.document_id,
            "title": citation.title,
            "url": url,
            "quote": citation.quote,
            "start": span.start,
            "end": span.end,
        })
    };
    json!({
        "outcome": outcome,
        "text": answer.text,
        "citations": answer.citations.iter().map(citation).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use clew_proto::query::v1::Span;

    use super::*;

    #[test]
    fn an_answer_says_how_the_question_ended_and_what_it_rests_on() {
        let answer = Answer {
            outcome: Outcome::Answered.into(),
            text: "In May.".to_owned(),
            citations: vec![Citation {
                document_id: "bees".to_owned(),
                title: "On bees".to_owned(),
                span: Some(Span { start: 4, end: 20 }),
                quote: "Bees swarm in May.".to_owned(),
                version: 3,
                attributes: Vec::new(),
            }],
            ..Answer::default()
        };
        let expected = json!({
            "outcome": "answered",
            "text": "In May.",
            "citations": [{
                "id": "bees",
                "title": "On bees",
                "url": "clew:notes/bees#bytes=4-20",
                "quote": "Bees swarm in May.",
                "start": 4,
                "end": 20,
            }],
        });
        let corpus = "notes".parse().unwrap();
        assert_eq!(answered(&corpus, &answer), expected);
        let nothing = Answer { outcome: Outcome::NotInMemory.into(), ..Answer::default() };
        let expected = json!({ "outcome": "not_in_memory", "text": "", "citations": [] });
        assert_eq!(answered(&corpus, &nothing), expected);
    }
}
