//! Tests of OpenAI's and Dify's shapes: the `openai` library as a client, and requests as bytes.

mod http;
mod probes;
mod refusals;
mod sessions;

use clew_client::Client;
use clew_core::{ChatSettings, CorpusName, Document, PassageLayout};
use clew_proto::convert::corpus::NewCorpus;
use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest};
use serde_json::{Value, json};

use self::http::{Response, post};
use crate::client::{corpus, create, document, remember};
use crate::harness::{Home, Ran, Server};
use crate::scripts::script;

/// What the model says of backups, which is a sentence of the document.
const KEPT: &str = "Backups are kept for thirty days.";

/// Returns the number of the first passage of a prompt that contains `word`. A passage begins with
/// a line such as `[2] Backups`, whose title may have brackets too.
fn passage_with(word: &str, prompt: &str) -> Option<u32> {
    let mut number = None;
    for line in prompt.lines() {
        let numbered = line.strip_prefix('[').and_then(|line| line.split_once(']'));
        number = numbered.and_then(|(number, _)| number.parse().ok()).or(number);
        if number.is_some() && line.contains(word) {
            return number;
        }
    }
    None
}

/// Answers with the sentence of a passage about what `word` names, or that none is about it.
fn quoting(word: &'static str, answer: &'static str) -> impl Fn(&ModelRequest) -> ModelReply {
    move |request| {
        let prompt = request.last();
        let passages = prompt.split_once("Question: ").map_or(prompt, |(passages, _)| passages);
        let number = passage_with(word, passages);
        let reply = match number {
            Some(number) => json!({
                "notes": [{ "passage": number, "note": "the passage says it" }],
                "suffices": true,
                "answer": answer,
                "citations": [{ "passage": number, "quote": word }],
            }),
            None => json!({ "notes": [], "suffices": false, "answer": "", "citations": [] }),
        };
        ModelReply::Text(reply.to_string())
    }
}

/// Starts a server whose language model is `endpoint`.
fn serve(home: &Home, endpoint: &ModelEndpoint, settings: &[(&str, &str)]) -> Server {
    let mut command = home.serve_command();
    command.env("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url());
    command.env("CLEW_GENERATOR__ENDPOINT__MODEL", "test");
    command.envs(settings.iter().copied());
    Server::start(command)
}

fn backups() -> Document {
    let text = format!("# Backups\n\n{KEPT} They are copied to another building every night.");
    Document { title: "Backups".to_owned(), ..document("backups.md", text) }
}

/// Starts a server with the corpus `handbook`, whose language model answers from it with [`KEPT`].
pub(crate) async fn serve_handbook(home: &Home, endpoint: &ModelEndpoint) -> Server {
    endpoint.reply_by(quoting(KEPT, KEPT));
    let server = serve(home, endpoint, &[]);
    let client = server.client().await;
    let handbook = create(&client, "handbook").await;
    remember(&client, &handbook, vec![backups()]).await;
    server
}

/// Creates a corpus for conversations, which are shown to the model as [`quoting`] reads them.
async fn create_chats(client: &Client) -> CorpusName {
    let mut chat = ChatSettings::default();
    chat.reading.layout = PassageLayout::Text;
    let new = NewCorpus {
        name: corpus("chats"),
        shards: 1,
        chunking: None,
        structure: None,
        retention_days: None,
        memory: None,
        chat: Some(chat),
    };
    client.create_corpus(new.clone()).await.unwrap();
    new.name
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_library_chats_streams_embeds_and_stores() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    let server = serve_handbook(&home, &endpoint).await;
    let client = server.client().await;
    create_chats(&client).await;
    create(&client, "files").await;

    let mut library = script("openai_client.py");
    library.arg("--base").arg(format!("{}/v1", server.http()));
    let ran = Ran::of(library);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.ends_with("all is well\n"), "{}", ran.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn dify_retrieves_passages_with_cosines_and_metadata() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let handbook = create(&client, "handbook").await;
    let mut river = document("river", "The old house stands by the river.");
    river.attributes.insert("topic".to_owned().try_into().unwrap(), "travel".into());
    remember(&client, &handbook, vec![backups(), river]).await;

    let retrieve = |knowledge: &str, threshold: f64, condition: Value| {
        let setting = json!({ "top_k": 5, "score_threshold": threshold });
        let body = json!({
            "knowledge_id": knowledge,
            "query": "How long are backups kept?",
            "retrieval_setting": setting,
            "metadata_condition": condition,
        });
        post(&server, "/dify/retrieval", &[], &body)
    };
    let records = |response: Response| {
        assert_eq!(response.status, 200, "{response:?}");
        response.json()["records"].as_array().unwrap().clone()
    };
    let found = records(retrieve("handbook", 0.0, Value::Null));
    assert!(found.len() >= 2, "{found:?}");
    for record in &found {
        let score = record["score"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&score), "{record}");
        assert!(record["metadata"].is_object(), "{record}");
        assert!(!record["content"].as_str().unwrap().is_empty(), "{record}");
    }
    let titles: Vec<&str> = found.iter().map(|one| one["title"].as_str().unwrap()).collect();
    assert!(titles.contains(&"Backups") && titles.contains(&"river"), "{titles:?}");
    assert!(records(retrieve("handbook", 1.0, Value::Null)).is_empty());

    let condition = |operator: &str| {
        json!({ "logical_operator": "and", "conditions": [
            { "name": ["topic"], "comparison_operator": operator, "value": "travel" },
        ] })
    };
    for operator in ["is", "contains", "not empty"] {
        let travel = records(retrieve("handbook", 0.0, condition(operator)));
        assert!(!travel.is_empty(), "{operator}");
        assert!(travel.iter().all(|one| one["title"] == "river"), "{operator}: {travel:?}");
        assert_eq!(travel[0]["metadata"], json!({ "topic": "travel", "document_id": "river" }));
    }
    let others = records(retrieve("handbook", 0.0, condition("empty")));
    assert!(others.iter().all(|one| one["title"] == "Backups") && !others.is_empty());
    let refused = retrieve("handbook", 0.0, condition("start with"));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.json()["error_msg"].as_str().unwrap().contains("start with"), "{refused:?}");
    for knowledge in ["nowhere", "No such name"] {
        let missing = retrieve(knowledge, 0.0, Value::Null);
        assert_eq!((missing.status, &missing.json()["error_code"]), (404, &json!(2001)));
    }
}
