//! Counts the requests to a language model.
//! `cargo test --package clew-generator --test costs -- --nocapture` prints the table of
//! `docs/models.md`.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    Assignment, Budget, ChunkId, Cost, Evidence, ExtractionTask, GraphBuilder, Reasoner, Span,
    SummaryLevel, SummaryTask, Version,
};
use clew_endpoint::{Endpoint, EndpointConfig};
use clew_reason::prompted::Prompted;
use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest};
use serde_json::json;

/// Real text to read.
const TEXT: &str = include_str!("../../../ARCHITECTURE.md");
/// Bytes of a passage: about 256 tokens.
const PASSAGE_BYTES: usize = 1000;

/// Replies as briefly as a model that is asked for no more than it needs.
fn brief(request: &ModelRequest) -> ModelReply {
    let quote = "Clew answers with sentences of what it found";
    let reply = match request.body["response_format"].to_string() {
        format if format.contains("\"notes\"") => json!({
            "notes": [
                { "passage": 1, "note": "without a model the answer is made of sentences" },
                { "passage": 2, "note": "says how it is configured" },
            ],
            "suffices": true,
            "answer": "With sentences of what it found.",
            "citations": [{ "passage": 1, "quote": quote }],
        })
        .to_string(),
        format if format.contains("\"entities\"") => {
            let names = ["Clew", "Redis", "Qwen2", "OpenAI", "gateway", "retriever"];
            let entity = |name| json!({ "name": name, "kind": "other" });
            json!({ "entities": names.map(entity) }).to_string()
        }
        format if format.contains("\"relations\"") => {
            let relation = |head: u32| json!({ "head": head, "relation": "works with", "tail": head + 1, "quote": quote });
            let relations = [1, 2, 3, 4].map(relation);
            json!({ "relations": relations }).to_string()
        }
        _ => "Clew answers with sentences of what it found, or with a language model that reads the passages \
              and cites them; it can be configured to use endpoints and folders."
            .to_owned(),
    };
    ModelReply::Text(reply)
}

fn passages() -> impl Iterator<Item = String> {
    let bytes = TEXT.as_bytes().chunks_exact(PASSAGE_BYTES);
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).cycle()
}

fn evidence(ordinal: u32, text: String) -> Evidence {
    let document_id: clew_core::DocumentId = "readme".parse().unwrap();
    let chunk_id = ChunkId::derive(&"docs".parse().unwrap(), &document_id, Version(1), ordinal);
    let start = ordinal as usize * PASSAGE_BYTES;
    let span = Span::new(start, start + text.len());
    Evidence {
        chunk_id,
        document_id,
        version: Version(1),
        title: "Clew".to_owned(),
        span,
        text,
        event_time: None,
        score: 1.0,
        dense_score: None,
        sparse_score: None,
    }
}

#[tokio::test]
async fn costs_are_those_of_the_table() {
    let endpoint = ModelEndpoint::start().unwrap();
    endpoint.reply_by(brief);
    // The endpoint counts words; without its usage, tokens are estimated.
    endpoint.tell_usage(false);
    let config = EndpointConfig {
        url: endpoint.url(),
        model: "brief".to_owned(),
        ..EndpointConfig::default()
    };
    let model = Arc::new(Endpoint::try_new(&config, None).unwrap());
    let prompted = Prompted::new(model).with_kept_replies(None).with_budget(Budget::default());
    let soon = Instant::now() + Duration::from_secs(60);

    let found: Vec<Evidence> =
        (0..).zip(passages()).take(10).map(|(ordinal, text)| evidence(ordinal, text)).collect();
    let assignment = Assignment::new("What does Clew answer with?", &found);
    let reading = prompted.read(&assignment, soon).await.unwrap();
    assert_eq!(reading.text, "With sentences of what it found.");
    let parts = vec![passages().next().unwrap()];
    let summary = SummaryTask { level: SummaryLevel::Leaf, parts, max_bytes: 500 };
    let summary = prompted.summarise(vec![summary], soon).await.unwrap().remove(0);
    let text = format!(
        "Clew, with its gateway, retriever, Redis, Qwen2 or OpenAI. {}",
        passages().next().unwrap()
    );
    let task = ExtractionTask { text, ..ExtractionTask::default() };
    let extraction = prompted.extract(vec![task], soon).await.unwrap().remove(0);

    let costs = [
        ("a question, strategy `direct`, 10 passages", reading.cost, 1),
        ("a summary of one passage", summary.cost, 1),
        ("entities and relations of one passage", extraction.cost, 2),
    ];
    for (asked, cost, calls) in costs {
        let Cost { model_calls, prompt_tokens, completion_tokens, .. } = cost;
        println!("| {asked} | {model_calls} | {prompt_tokens} | {completion_tokens} |");
        assert!(model_calls <= calls && model_calls > 0, "{asked}");
        assert!(prompt_tokens > 0 && completion_tokens > 0, "{asked}");
    }
    assert_eq!(endpoint.requests().len(), 4);
}
