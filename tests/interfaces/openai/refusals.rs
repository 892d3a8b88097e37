//! Tests of bad requests: each is refused in OpenAI's shape, and changes nothing for others.

use std::io::{Read, Write};
use std::net::Shutdown;

use serde_json::json;

use super::http::{Response, connect, get, post, request, send};
use crate::client::{create, document, remember};
use crate::harness::{Home, Server};

const COMPLETIONS: &str = "/v1/chat/completions";

async fn served(home: &Home) -> Server {
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, vec![document("river", "The old house is by the river.")]).await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_request_is_refused_with_the_parameter_at_fault() {
    let home = Home::new();
    let server = served(&home).await;
    let said = json!([{ "role": "user", "content": "Where is the house?" }]);
    let long = json!([{ "role": "user", "content": "x".repeat(20_000) }]);
    let tool = json!([{ "role": "bot", "content": "x" }]);
    for (path, body, status, code, param) in [
        (
            COMPLETIONS,
            json!({ "model": "nowhere", "messages": said }),
            404,
            "model_not_found",
            Some("model"),
        ),
        (
            COMPLETIONS,
            json!({ "model": "gpt-4.1", "messages": said }),
            404,
            "model_not_found",
            Some("model"),
        ),
        (
            COMPLETIONS,
            json!({ "model": "notes:oracle", "messages": said }),
            404,
            "model_not_found",
            Some("model"),
        ),
        (COMPLETIONS, json!({ "model": "notes" }), 400, "invalid_input", None),
        (
            COMPLETIONS,
            json!({ "model": "notes", "messages": tool }),
            400,
            "invalid_input",
            Some("messages[0].role"),
        ),
        (
            COMPLETIONS,
            json!({ "model": "notes", "messages": long }),
            400,
            "invalid_input",
            Some("messages"),
        ),
        (COMPLETIONS, json!([]), 400, "invalid_input", None),
        (
            "/v1/embeddings",
            json!({ "model": "nowhere", "input": "a" }),
            404,
            "model_not_found",
            Some("model"),
        ),
        (
            "/v1/embeddings",
            json!({ "model": "notes", "input": [1] }),
            400,
            "invalid_input",
            Some("input"),
        ),
        (
            "/v1/embeddings",
            json!({ "model": "notes", "input": ["a", ""] }),
            400,
            "invalid_input",
            Some("input[1]"),
        ),
        (
            "/v1/embeddings",
            json!({ "model": "notes", "input": "a", "dimensions": 7 }),
            400,
            "invalid_input",
            Some("dimensions"),
        ),
        ("/v1/responses", json!({ "model": "notes" }), 404, "unknown_path", None),
    ] {
        let refused = post(&server, path, &[], &body);
        assert_eq!(refused.header("content-type"), Some("application/json"));
        let expected = (status, code.to_owned(), param.map(str::to_owned));
        assert_eq!(refused.error(), expected, "{path} {body}: {refused:?}");
    }
    let missing = get(&server, "/v1/models/nowhere", &[]);
    assert_eq!(missing.error().1, "model_not_found");
    answers(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_body_is_refused_and_others_are_served_on() {
    let home = Home::new();
    let server = served(&home).await;
    for body in ["", "{", "null", "{\"model\": \"notes\", \"messages\": \u{1}}"] {
        let refused = send(&server, &request("POST", COMPLETIONS, &[], body));
        assert_eq!((refused.status, refused.error().1.as_str()), (400, "invalid_input"), "{body}");
    }
    let deep = "[".repeat(10_000);
    let refused = send(&server, &request("POST", COMPLETIONS, &[], &deep));
    assert_eq!(refused.status, 400, "{refused:?}");

    // The client promises more than it sends, and closes its half of the connection.
    let whole = request("POST", COMPLETIONS, &[], "{\"model\": \"notes\", \"messages\": []}");
    let mut stream = connect(&server);
    stream.write_all(&whole[..whole.len() - 5]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut told = String::new();
    // The server may close the connection without a word.
    stream.read_to_string(&mut told).ok();
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 400 "), "{told}");
    answers(&server);
}

/// Fails unless the server answers a good question.
fn answers(server: &Server) {
    let said = json!([{ "role": "user", "content": "Where is the old house?" }]);
    let body = json!({ "model": "notes", "messages": said });
    let response: Response = post(server, COMPLETIONS, &[], &body);
    assert_eq!(response.status, 200, "{response:?}");
}
