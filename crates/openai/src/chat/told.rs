//! What a chat completion tells: an answer in the shapes of OpenAI.

use clew_proto::query::v1::{Answer, Cost, Outcome};
use serde_json::{Value, json};

use super::asked::Asked;
use crate::citation::annotations;

/// A chat completion, whole or in chunks.
pub(super) struct Completion {
    /// Its id.
    id: String,
    /// Time at which it began, in seconds.
    created: i64,
    /// Id of the model, as it was asked for.
    model: String,
    /// Name of the corpus.
    corpus: String,
    /// Whether the last chunk has the usage.
    with_usage: bool,
}

impl Completion {
    /// Begins the completion of a question.
    pub fn new(id: String, created: i64, asked: &Asked) -> Self {
        let (model, corpus) = (asked.model.to_string(), asked.model.corpus.clone());
        Self { id, created, model, corpus, with_usage: asked.with_usage }
    }

    /// Returns the text of an answer. Where nothing supports one, it is a sentence that says so.
    pub fn text(&self, answer: &Answer) -> String {
        match answer.outcome() {
            Outcome::NotInMemory if answer.shards_missing.is_empty() => {
                format!("I found nothing in `{}` that answers this.", self.corpus)
            }
            Outcome::NotInMemory => {
                format!(
                    "I found nothing that answers this in the part of `{}` that could be searched; \
                     another part does not answer now.",
                    self.corpus
                )
            }
            _ => answer.text.clone(),
        }
    }

    /// Returns the whole completion.
    pub fn whole(&self, answer: &Answer) -> Value {
        let text = self.text(answer);
        let annotations = annotations(&self.corpus, &text, &answer.citations);
        let message = json!({
            "role": "assistant",
            "content": text,
            "refusal": null,
            "annotations": annotations,
        });
        let choice =
            json!({"index": 0, "message": message, "finish_reason": "stop", "logprobs": null});
        let mut whole = self.part("chat.completion", &[choice]);
        whole["usage"] = usage(&cost(answer));
        whole["clew"] = extension(answer);
        whole
    }

    /// Returns the first chunk.
    pub fn first_chunk(&self) -> Value {
        self.chunk(json!({"role": "assistant", "content": ""}), Value::Null)
    }

    /// Returns a chunk with the next piece of the text.
    pub fn text_chunk(&self, text: &str) -> Value {
        self.chunk(json!({"content": text}), Value::Null)
    }

    /// Returns the last chunks: the citations, the end, and the usage if it is wanted. None of them
    /// repeats the text.
    pub fn last_chunks(&self, answer: &Answer) -> Vec<Value> {
        let annotations = annotations(&self.corpus, &self.text(answer), &answer.citations);
        let cited = self.chunk(json!({"annotations": annotations}), Value::Null);
        let mut end = self.chunk(json!({}), json!("stop"));
        end["clew"] = extension(answer);
        let mut chunks = vec![cited, end];
        if self.with_usage {
            let mut last = self.part("chat.completion.chunk", &[]);
            last["usage"] = usage(&cost(answer));
            chunks.push(last);
        }
        chunks
    }

    fn chunk(&self, delta: Value, finish_reason: Value) -> Value {
        let choice =
            json!({"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": null});
        let mut chunk = self.part("chat.completion.chunk", &[choice]);
        if self.with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn part(&self, object: &str, choices: &[Value]) -> Value {
        let Self { id, created, model, .. } = self;
        json!({"id": id, "object": object, "created": created, "model": model, "choices": choices})
    }
}

fn cost(answer: &Answer) -> Cost {
    answer.cost.unwrap_or_default()
}

/// Returns the tokens that language models read and wrote. Without a language model there are none.
fn usage(cost: &Cost) -> Value {
    let Cost { prompt_tokens, completion_tokens, .. } = cost;
    json!({
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens.saturating_add(*completion_tokens),
    })
}

/// Returns what OpenAI's shape has no place for.
fn extension(answer: &Answer) -> Value {
    let outcome = match answer.outcome() {
        Outcome::Answered => "answered",
        Outcome::AnsweredWithShardsMissing => "answered_with_shards_missing",
        Outcome::NotInMemory => "not_in_memory",
        Outcome::Unspecified => "unknown",
    };
    let cost = cost(answer);
    json!({
        "outcome": outcome,
        "shards_missing": answer.shards_missing,
        "cost": {
            "embedded_tokens": cost.embedded_tokens,
            "reranked_tokens": cost.reranked_tokens,
            "model_calls": cost.model_calls,
            "shards_searched": cost.shards_searched,
            "out_of_budget": cost.out_of_budget,
        },
    })
}

/// Returns what is left to stream of `text` after `streamed`. Returns `None` if what was streamed
/// is not its beginning, as when a client read so slowly that pieces were left out.
pub(super) fn rest<'a>(text: &'a str, streamed: &str) -> Option<&'a str> {
    text.strip_prefix(streamed)
}

#[cfg(test)]
mod tests {
    use clew_proto::query::v1::{Citation, Span};

    use super::*;
    use crate::model::ModelId;

    fn completion(with_usage: bool) -> Completion {
        let asked = Asked {
            model: ModelId::of("notes:direct"),
            question: "Why?".to_owned(),
            history: Vec::new(),
            streams: true,
            with_usage,
        };
        Completion::new("chatcmpl-1".to_owned(), 7, &asked)
    }

    fn answer(outcome: Outcome, text: &str) -> Answer {
        let citation = Citation {
            document_id: "a.md".to_owned(),
            version: 1,
            title: String::new(),
            span: Some(Span { start: 0, end: 3 }),
            quote: text.to_owned(),
            attributes: Vec::new(),
        };
        Answer {
            outcome: outcome.into(),
            text: text.to_owned(),
            citations: if text.is_empty() { Vec::new() } else { vec![citation] },
            cost: Some(Cost { prompt_tokens: 5, completion_tokens: 2, ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn a_completion_has_text_citations_usage_and_outcome() {
        let whole = completion(false).whole(&answer(Outcome::Answered, "Yes."));
        assert_eq!(whole["object"], "chat.completion");
        assert_eq!((&whole["model"], &whole["created"]), (&json!("notes:direct"), &json!(7)));
        let message = &whole["choices"][0]["message"];
        assert_eq!((&message["role"], &message["content"]), (&json!("assistant"), &json!("Yes.")));
        let cited = &message["annotations"][0]["url_citation"];
        assert_eq!(cited["url"], "clew:notes/a.md#bytes=0-3");
        let usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7});
        assert_eq!(whole["usage"], usage);
        assert_eq!(whole["clew"]["outcome"], "answered");
    }

    #[test]
    fn nothing_in_memory_is_a_sentence_and_an_outcome() {
        let whole = completion(false).whole(&answer(Outcome::NotInMemory, ""));
        let message = &whole["choices"][0]["message"];
        assert_eq!(message["content"], "I found nothing in `notes` that answers this.");
        assert_eq!(message["annotations"], json!([]));
        assert_eq!(whole["clew"]["outcome"], "not_in_memory");
        let partly = Answer { shards_missing: vec![1], ..answer(Outcome::NotInMemory, "") };
        assert!(completion(false).text(&partly).contains("does not answer now"));
    }

    #[test]
    fn the_last_chunks_end_the_answer_and_repeat_no_text() {
        let completion = completion(true);
        let first = completion.first_chunk();
        assert_eq!(first["choices"][0]["delta"]["role"], "assistant");
        assert_eq!(first["choices"][0]["finish_reason"], Value::Null);
        let last = completion.last_chunks(&answer(Outcome::Answered, "Yes."));
        assert_eq!(last.len(), 3);
        assert_eq!(last[0]["choices"][0]["delta"]["annotations"].as_array().unwrap().len(), 1);
        assert_eq!(last[1]["choices"][0]["finish_reason"], "stop");
        assert_eq!(last[1]["usage"], Value::Null);
        assert_eq!(
            (&last[2]["choices"], &last[2]["usage"]["total_tokens"]),
            (&json!([]), &json!(7))
        );
        let told = format!("{last:?}");
        assert!(!told.contains("Yes."), "{told}");
    }

    #[test]
    fn without_being_asked_a_stream_has_no_usage() {
        let last = completion(false).last_chunks(&answer(Outcome::Answered, "Yes."));
        assert_eq!(last.len(), 2);
        assert!(last.iter().all(|chunk| chunk.get("usage").is_none()));
    }

    #[test]
    fn only_the_rest_of_a_text_is_left() {
        assert_eq!(rest("one two", "one "), Some("two"));
        assert_eq!(rest("one", "one"), Some(""));
        assert_eq!(rest("one", ""), Some("one"));
        assert_eq!(rest("one two", "two"), None);
    }
}
