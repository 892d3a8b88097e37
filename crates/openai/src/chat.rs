//! `POST /v1/chat/completions`: answers of a corpus, from its documents or from the conversations
//! of a user.
//!
//! The last message of the user is the question. The services have no place for earlier ones, so
//! they do not change the answer. If conversations are asked and a session is named, the turns are
//! kept there once the question is answered.

mod asked;
mod memory;
mod session;
mod told;

use axum::response::{IntoResponse, Response};
use clew_http::Failure;
use clew_proto::{chat::v1 as chat, query::v1 as query};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use query::answer_response::Event;
use tonic::{Code, Status};
use uuid::Uuid;

use self::asked::Asked;
use self::memory::{Conversation, Keeping, refused};
use self::told::{Completion, rest};
use crate::caller::{Call, Caller};
use crate::models::corpus_of;
use crate::refusal::Refusal;
use crate::{Json, events, now};

/// Events of an answer, the last of which is the answer itself.
type Events = BoxStream<'static, Result<query::AnswerResponse, Status>>;

/// Answers a question.
pub(crate) async fn complete(call: Result<Call, Failure>) -> Result<Response, Refusal> {
    let call = call?;
    let asked = Asked::of(call.body()?)?;
    let caller = call.caller;
    let is_for_conversations = corpus_of(&caller, &asked.model).await?.chat.is_some();
    let conversation = Conversation::of(&caller, is_for_conversations)?;
    let (events, keeping) = match conversation {
        None => (of_documents(&caller, &asked).await?, None),
        Some(Conversation { user, session }) => {
            let keeping = match session {
                Some(session) => Some(Keeping::begin(&caller, &asked, &user, &session).await?),
                None => None,
            };
            (of_conversations(&caller, &asked, &user).await?, keeping)
        }
    };
    let id = format!("chatcmpl-{}", Uuid::new_v4().simple());
    let completion = Completion::new(id, now().seconds, &asked);
    match asked.streams {
        true => Ok(events::response(streamed(completion, events, keeping))),
        false => Ok(Json(whole(&completion, events, keeping).await?).into_response()),
    }
}

async fn of_documents(caller: &Caller, asked: &Asked) -> Result<Events, Refusal> {
    let request = query::AnswerRequest {
        corpus: asked.model.corpus.clone(),
        question: asked.question.clone(),
        strategy: asked.model.strategy.clone(),
        // They say where a cited document can be opened.
        with_attributes: true,
        ..Default::default()
    };
    let events = caller.queries().answer(caller.request(request)).await.map_err(refused)?;
    Ok(events.into_inner().boxed())
}

async fn of_conversations(caller: &Caller, asked: &Asked, user: &str) -> Result<Events, Refusal> {
    let request = chat::AnswerRequest {
        corpus: asked.model.corpus.clone(),
        user: user.to_owned(),
        question: asked.question.clone(),
        asked_at: Some(now()),
        strategy: asked.model.strategy.clone(),
        ..Default::default()
    };
    let events = caller.chats().answer(caller.request(request)).await.map_err(refused)?;
    Ok(events.into_inner().map(|told| Ok(told?.event.unwrap_or_default())).boxed())
}

/// Returns the whole completion once the question is answered.
async fn whole(
    completion: &Completion,
    mut events: Events,
    keeping: Option<Keeping>,
) -> Result<serde_json::Value, Refusal> {
    while let Some(event) = events.next().await {
        if let Some(Event::Answer(answer)) = event.map_err(refused)?.event {
            if let Some(keeping) = keeping {
                keeping.keep(&completion.text(&answer)).await?;
            }
            return Ok(completion.whole(&answer));
        }
    }
    Err(broken_off())
}

/// Returns the events of a completion that is told while the question is answered.
fn streamed(
    completion: Completion,
    events: Events,
    keeping: Option<Keeping>,
) -> impl Stream<Item = String> {
    let first = events::data(&completion.first_chunk());
    let telling = Telling { completion, events, keeping, streamed: String::new(), is_over: false };
    let rest = stream::unfold(telling, |mut telling| async move {
        let told = telling.next().await?;
        Some((told, telling))
    });
    stream::iter([first]).chain(rest)
}

/// A completion that is being told.
struct Telling {
    completion: Completion,
    events: Events,
    keeping: Option<Keeping>,
    /// Text that was told so far.
    streamed: String,
    is_over: bool,
}

impl Telling {
    /// Returns the next events as text. Returns `None` after the end.
    async fn next(&mut self) -> Option<String> {
        while !self.is_over {
            let event = match self.events.next().await {
                Some(Ok(response)) => response.event,
                Some(Err(status)) => return Some(self.fail(&refused(status))),
                None => return Some(self.fail(&broken_off())),
            };
            match event {
                Some(Event::TextDelta(text)) => {
                    self.streamed += &text;
                    return Some(events::data(&self.completion.text_chunk(&text)));
                }
                Some(Event::Answer(answer)) => {
                    return Some(match self.end(&answer).await {
                        Ok(told) => told,
                        Err(refusal) => self.fail(&refusal),
                    });
                }
                Some(Event::Trace(_)) | None => {}
            }
        }
        None
    }

    /// Returns what is told last.
    async fn end(&mut self, answer: &query::Answer) -> Result<String, Refusal> {
        self.is_over = true;
        let text = self.completion.text(answer);
        let rest = rest(&text, &self.streamed).ok_or_else(left_out)?;
        if let Some(keeping) = self.keeping.take() {
            keeping.keep(&text).await?;
        }
        let mut told = String::new();
        if !rest.is_empty() {
            told += &events::data(&self.completion.text_chunk(rest));
        }
        for chunk in self.completion.last_chunks(answer) {
            told += &events::data(&chunk);
        }
        Ok(told + &events::done())
    }

    fn fail(&mut self, refusal: &Refusal) -> String {
        self.is_over = true;
        events::failed(&refusal.body())
    }
}

/// Returns the failure of an answer that did not come to its end.
fn broken_off() -> Refusal {
    let problem = "the answer broke off before its end; ask again";
    Refusal::from(Failure::from(Status::new(Code::Unavailable, problem)))
}

/// Returns the failure of a stream that was read so slowly that pieces of the text were left out.
fn left_out() -> Refusal {
    let problem = "the stream was read so slowly that a part of the text was left out; ask again \
                   without `stream`";
    Refusal::from(Failure::from(Status::new(Code::Unavailable, problem)))
}

#[cfg(test)]
mod tests {
    use clew_core::{Error, ErrorKind};
    use clew_proto::to_status;
    use query::{Answer, AnswerResponse, Outcome};
    use serde_json::json;

    use super::*;
    use crate::model::ModelId;

    fn completion() -> Completion {
        let asked = Asked {
            model: ModelId::of("notes"),
            question: "Why?".to_owned(),
            history: Vec::new(),
            streams: true,
            with_usage: false,
        };
        Completion::new("chatcmpl-1".to_owned(), 7, &asked)
    }

    fn answer(text: &str) -> Event {
        Event::Answer(Answer {
            outcome: Outcome::Answered.into(),
            text: text.to_owned(),
            ..Default::default()
        })
    }

    /// Returns the data of all events of a stream, or what stands in place of JSON.
    async fn told(events: Vec<Result<Event, Status>>) -> Vec<String> {
        let response = |event| Ok(AnswerResponse { event: Some(event?) });
        let events = stream::iter(events.into_iter().map(response)).boxed();
        let text: String = streamed(completion(), events, None).collect().await;
        text.split_terminator("\n\n").map(str::to_owned).collect()
    }

    fn content(events: &[String]) -> String {
        let content = |event: &String| {
            let chunk: serde_json::Value =
                serde_json::from_str(event.strip_prefix("data: ")?).ok()?;
            chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
        };
        events.iter().filter_map(content).collect()
    }

    #[tokio::test]
    async fn a_stream_tells_the_text_once_and_ends() {
        let text = |text: &str| Ok(Event::TextDelta(text.to_owned()));
        for events in [
            vec![text("One "), text("two."), Ok(answer("One two."))],
            vec![text("One "), Ok(answer("One two."))],
            vec![Ok(answer("One two."))],
        ] {
            let told = told(events).await;
            assert!(told[0].contains("\"role\":\"assistant\""), "{told:?}");
            assert_eq!(content(&told), "One two.");
            assert_eq!(told.last().unwrap(), "data: [DONE]");
        }
    }

    #[tokio::test]
    async fn a_failure_in_the_midst_is_an_event_and_the_end() {
        let late = Error::new(ErrorKind::DeadlineExceeded, "DEADLINE_EXCEEDED", "too late");
        let failing = vec![Ok(Event::TextDelta("One ".to_owned())), Err(to_status(&late))];
        let told_last = told(failing).await.pop().unwrap();
        let error = told_last.strip_prefix("event: error\ndata: ").unwrap();
        let error: serde_json::Value = serde_json::from_str(error).unwrap();
        let expected = json!({"error": {
            "message": "too late",
            "type": "server_error",
            "param": null,
            "code": "deadline_exceeded",
        }});
        assert_eq!(error, expected);
        for broken in [vec![], vec![Ok(Event::TextDelta("x".to_owned()))]] {
            assert!(told(broken).await.last().unwrap().starts_with("event: error\n"));
        }
        let lost = vec![Ok(Event::TextDelta("two".to_owned())), Ok(answer("One two"))];
        assert!(told(lost).await.last().unwrap().contains("without `stream`"));
    }
}
