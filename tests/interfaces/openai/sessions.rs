//! Tests of what is kept of chat completions, and in whose memory.

use std::io::{Read, Write};

use clew_client::Client;
use clew_proto::chat::v1::{ListTurnsRequest, Role};
use clew_testkit::{ModelEndpoint, ModelReply};
use futures::TryStreamExt;
use serde_json::{Value, json};

use super::http::{Response, connect, post, request};
use super::{create_chats, quoting, serve};
use crate::client::{create, document, remember};
use crate::harness::{Home, Server, eventually};

const COMPLETIONS: &str = "/v1/chat/completions";
const ADA: (&str, &str) = ("X-Clew-User", "ada");
const MONDAY: (&str, &str) = ("X-Clew-Session", "monday");
const CAT: &str = "My cat is called Xqvzkwjb.";
/// What is said where nothing is found.
const NOTHING: &str = "I found nothing in `chats` that answers this.";

fn messages(said: &[&str]) -> Value {
    let role = |place: usize| if place.is_multiple_of(2) { "user" } else { "assistant" };
    let message = |(place, text): (usize, &&str)| json!({ "role": role(place), "content": text });
    said.iter().enumerate().map(message).collect()
}

fn body(said: &[&str]) -> Value {
    json!({ "model": "chats", "messages": messages(said) })
}

fn ask(server: &Server, headers: &[(&str, &str)], said: &[&str]) -> Response {
    post(server, COMPLETIONS, headers, &body(said))
}

/// Asks what must be answered, and returns the answer.
fn answer(server: &Server, headers: &[(&str, &str)], said: &[&str]) -> String {
    let response = ask(server, headers, said);
    assert_eq!(response.status, 200, "{response:?}");
    response.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

/// Returns all turns of a user: session, number, whether the assistant said it, and the text.
async fn kept(client: &Client, user: &str) -> Vec<(String, u32, bool, String)> {
    let request = ListTurnsRequest {
        corpus: "chats".to_owned(),
        user: user.to_owned(),
        ..Default::default()
    };
    let turns: Vec<_> = client.list_turns(request).await.unwrap().try_collect().await.unwrap();
    let told = |one: clew_proto::chat::v1::ListTurnsResponse| {
        let turn = one.turn.unwrap();
        (one.session, turn.number, turn.role() == Role::Assistant, turn.text)
    };
    turns.into_iter().map(told).collect()
}

/// Returns turns of the session `monday`, said by the user and the assistant in turn.
fn monday(said: &[&str]) -> Vec<(String, u32, bool, String)> {
    let turn = |(number, text): (u32, &&str)| {
        ("monday".to_owned(), number, !number.is_multiple_of(2), (*text).to_owned())
    };
    (0..).zip(said).map(turn).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_kept_once_by_their_place_where_a_session_is_named() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    endpoint.reply_by(quoting("Xqvzkwjb", "It is called Xqvzkwjb."));
    let server = serve(&home, &endpoint, &[]);
    let client = server.client().await;
    create_chats(&client).await;

    // Nothing is kept without a session, nor of what a host asks for itself.
    assert_eq!(answer(&server, &[ADA], &[CAT]), NOTHING);
    let task = ("X-Clew-Task", "title_generation");
    assert_eq!(answer(&server, &[ADA, MONDAY, task], &["### Task: a title"]), NOTHING);
    assert_eq!(kept(&client, "ada").await, []);

    assert_eq!(answer(&server, &[ADA, MONDAY], &[CAT]), NOTHING);
    assert_eq!(kept(&client, "ada").await, monday(&[CAT, NOTHING]));

    // The host sends the history with each question, and sends one twice.
    let question = "What is my cat called?";
    let named = "It is called Xqvzkwjb.";
    for _ in 0..2 {
        assert_eq!(answer(&server, &[ADA, MONDAY], &[CAT, NOTHING, question]), named);
        assert_eq!(kept(&client, "ada").await, monday(&[CAT, NOTHING, question, named]));
    }
    // A host that leaves out the beginning, and one that sends no history.
    let third = "How do I like it?";
    let reply = answer(&server, &[ADA, MONDAY], &[question, named, third]);
    let all = [CAT, NOTHING, question, named, third, &reply];
    assert_eq!(kept(&client, "ada").await, monday(&all));
    let last = answer(&server, &[ADA, MONDAY], &["And why?"]);
    let all = [&all[..], &["And why?", &last]].concat();
    assert_eq!(kept(&client, "ada").await, monday(&all));

    // Another conversation is refused, and changes nothing.
    let refused = ask(&server, &[ADA, MONDAY], &["Hello", "Good day", "Who are you?"]);
    let expected = (409, "session_contradicted".to_owned(), Some("messages".to_owned()));
    assert_eq!(refused.error(), expected);
    assert_eq!(kept(&client, "ada").await, monday(&all));

    // What was said is known in other sessions of the same user, with the turn as the source.
    let elsewhere = ask(&server, &[ADA], &["Do you know my cat?"]).json();
    let cited = &elsewhere["choices"][0]["message"]["annotations"][0]["url_citation"]["url"];
    assert!(cited.as_str().unwrap().starts_with("clew:chats/ada/monday/"), "{elsewhere}");
    let bohumil = ("X-Clew-User", "bohumil");
    assert_eq!(answer(&server, &[bohumil], &["Do you know my cat?"]), NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_keeps_its_turns_unless_the_client_leaves() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    endpoint.reply_by(quoting("Xqvzkwjb", "It is called Xqvzkwjb."));
    let server = serve(&home, &endpoint, &[]);
    let client = server.client().await;
    create_chats(&client).await;
    answer(&server, &[ADA, MONDAY], &[CAT]);
    let before = kept(&client, "ada").await;

    let mut asked = body(&[CAT, NOTHING, "What is my cat called?"]);
    asked["stream"] = json!(true);
    // The model says nothing for as long as the client waits for it.
    endpoint.script([ModelReply::Stalled(String::new())]);
    let asked_before = endpoint.requests().len();
    let mut stream = connect(&server);
    stream.write_all(&request("POST", COMPLETIONS, &[ADA, MONDAY], &asked.to_string())).unwrap();
    let mut first = [0; 256];
    assert!(stream.read(&mut first).unwrap() > 0);
    eventually("the model is asked", async || {
        (endpoint.requests().len() > asked_before).then_some(())
    })
    .await;
    drop(stream);

    let streamed = post(&server, COMPLETIONS, &[ADA, MONDAY], &asked);
    assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
    assert!(streamed.body.ends_with("data: [DONE]\n\n"), "{streamed:?}");
    assert_eq!(streamed.body.matches("It is called Xqvzkwjb.").count(), 1, "{streamed:?}");
    let after = kept(&client, "ada").await;
    assert_eq!(after[..2], before[..]);
    assert_eq!(after, monday(&[CAT, NOTHING, "What is my cat called?", "It is called Xqvzkwjb."]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_in_the_midst_of_a_stream_is_an_event_and_keeps_nothing() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    endpoint.reply_by(quoting("Xqvzkwjb", "It is called Xqvzkwjb."));
    let server = serve(&home, &endpoint, &[]);
    let client = server.client().await;
    create_chats(&client).await;
    answer(&server, &[ADA, MONDAY], &[CAT]);
    let before = kept(&client, "ada").await;
    drop(endpoint);
    let mut asked = body(&[CAT, NOTHING, "What is my cat called now?"]);
    asked["stream"] = json!(true);
    let streamed = post(&server, COMPLETIONS, &[ADA, MONDAY], &asked);
    assert_eq!(streamed.status, 200, "{streamed:?}");
    let last = streamed.body.trim_end().rsplit("\n\n").next().unwrap();
    let error = last.strip_prefix("event: error\ndata: ").unwrap_or_else(|| panic!("{last}"));
    let error: Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["error"]["code"], "endpoint_unreachable", "{error}");
    assert!(!streamed.body.contains("[DONE]"), "{streamed:?}");
    assert_eq!(kept(&client, "ada").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_webui_names_users_only_where_it_may() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    endpoint.reply_by(quoting("Xqvzkwjb", "It is called Xqvzkwjb."));
    let forwarded = [("X-OpenWebUI-User-Id", "ada"), ("X-OpenWebUI-Chat-Id", "monday")];
    let server = serve(&home, &endpoint, &[]);
    let client = server.client().await;
    create_chats(&client).await;
    let handbook = create(&client, "handbook").await;
    remember(&client, &handbook, vec![document("cat", "The office cat is Xqvzkwjb.")]).await;
    let refused = ask(&server, &forwarded, &[CAT]).error();
    assert_eq!((refused.0, refused.2.as_deref()), (400, Some("X-Clew-User")));
    assert!(server.terminate().success());

    let server = serve(&home, &endpoint, &[("CLEW_HTTP__OPEN_WEBUI_USERS", "true")]);
    let client = server.client().await;
    assert_eq!(answer(&server, &forwarded, &[CAT]), NOTHING);
    assert_eq!(kept(&client, "ada").await, monday(&[CAT, NOTHING]));
    // Clew's own headers come first.
    answer(&server, &[&forwarded[..], &[("X-Clew-User", "bohumil")]].concat(), &["Hello"]);
    assert_eq!(kept(&client, "bohumil").await.len(), 2);
    // Open WebUI sends its headers to every model.
    let body = json!({ "model": "handbook", "messages": messages(&["Who is the office cat?"]) });
    let of_documents = post(&server, COMPLETIONS, &forwarded, &body).json();
    let answered = &of_documents["choices"][0]["message"]["content"];
    assert_eq!(answered, "It is called Xqvzkwjb.", "{of_documents}");
}
