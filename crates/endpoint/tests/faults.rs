//! Tests that a call to a misbehaving endpoint ends in a correct reply or a typed error, in time.
//!
//! | misbehaviour of the server | outcome |
//! |---|---|
//! | status 429, with a pause as seconds or as a date | waits, tries again, succeeds |
//! | status 429, with a pause longer than the time left | `Exhausted` at once, with the pause |
//! | status 429, quota used up for good | `Exhausted`, not tried again |
//! | status 408, 500, 503 | tries again, succeeds |
//! | status 503 each time | `ENDPOINT_FAILED` after the last attempt |
//! | status 401, 403, 404 | `ENDPOINT_REFUSED`, not tried again |
//! | status 400, 422 | `REQUEST_REFUSED`, not tried again |
//! | status 400 for a long conversation, 413 | `CONTEXT_TOO_LONG`, not tried again |
//! | a slow stream | waits, succeeds |
//! | silence before or in a reply | gives up after the idle time, tries again, succeeds |
//! | silence each time | `ENDPOINT_FAILED`; `DEADLINE_EXCEEDED` if the deadline is nearer |
//! | a connection dropped in a reply, an error in a stream | begins anew, succeeds |
//! | a reply without end | cut at the limit of tokens, connection closed |
//! | a line without end, an empty body, a page of HTML, a broken event | tries again, succeeds |
//! | the right body with a wrong content type, or not streamed | succeeds |
//! | a reply withheld by a filter | `CONTENT_FILTERED`, not tried again |
//! | JSON in a fence, with extra commas or without its last brackets | repaired |
//! | malformed or cut JSON, wrong schema, prose | asks again, succeeds; twice: `MALFORMED_REPLY` |
//! | a choice in another language | asks again, succeeds; twice: `MALFORMED_REPLY` |
//! | no server at the address | `ENDPOINT_UNREACHABLE` after the last attempt |
//!
//! After each of these errors except `InvalidInput`, the next model of a `Fallback` replies.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    ChatMessage, ChatRole, Encoder, Error, ErrorKind, Finish, Generated, GenerationRequest,
    Generator, Heard, Priority, ReplyFormat, Reranker, TextKind,
};
use clew_endpoint::{
    EmbeddingConfig, EmbeddingEndpoint, Endpoint, EndpointConfig, EndpointKey, Fallback, Flavour,
    RerankConfig, RerankDialect, RerankEndpoint, Shortening, StructuredOutput,
};
use clew_testkit::{FaultyWire, ModelEndpoint, ModelReply};

/// Limit far above what any row needs on a busy machine, and below the pause of the row that asks
/// for one.
const PATIENCE: Duration = Duration::from_secs(60);
/// Text that is part of every prompt and of every wrong reply, but of no correct reply.
const SECRET: &str = "hush";
const KEY: &str = "sk-hushhush";
const ATTEMPTS: u32 = 3;

fn config(server: &ModelEndpoint) -> EndpointConfig {
    EndpointConfig {
        url: server.url(),
        model: "scripted".to_owned(),
        attempts: ATTEMPTS,
        idle_timeout_secs: 1,
        ..EndpointConfig::default()
    }
}

fn endpoint(config: &EndpointConfig) -> Endpoint {
    config.validate("model").unwrap();
    Endpoint::try_new(config, Some(&EndpointKey::try_new(KEY).unwrap())).unwrap()
}

fn request(format: ReplyFormat) -> GenerationRequest {
    let text = format!("A question that nobody may see: {SECRET}");
    GenerationRequest {
        messages: vec![ChatMessage { role: ChatRole::User, text }],
        max_tokens: 16,
        format,
        ..GenerationRequest::default()
    }
}

/// Asks `model`. Returns its reply and the text that was heard in the end.
async fn ask(
    model: &dyn Generator,
    request: &GenerationRequest,
    patience: Duration,
) -> (Result<Generated, Error>, String) {
    let mut text = String::new();
    let mut heard = |part: Heard<'_>| match part {
        Heard::Text(more) => text.push_str(more),
        Heard::Anew => text.clear(),
        Heard::Asked => {}
    };
    let begun = Instant::now();
    let reply = model.generate(request, begun + patience, &mut heard).await;
    let took = begun.elapsed();
    assert!(took < patience + Duration::from_secs(10), "took {took:?} of {patience:?}");
    (reply, text)
}

enum Ends {
    Says(&'static str),
    Fails(ErrorKind, &'static str),
}

/// Kind of misbehaviour.
struct Row {
    what: &'static str,
    replies: Vec<ModelReply>,
    format: ReplyFormat,
    ends: Ends,
    requests: usize,
}

fn row(what: &'static str, replies: Vec<ModelReply>, ends: Ends, requests: usize) -> Row {
    Row { what, replies, format: ReplyFormat::Text, ends, requests }
}

fn status(status: u16) -> ModelReply {
    ModelReply::Status(status, None)
}

fn pause(retry_after: &str) -> ModelReply {
    ModelReply::Status(429, Some(retry_after.to_owned()))
}

fn refusal(status: u16, message: &str) -> ModelReply {
    ModelReply::Refusal(status, format!("{SECRET}: {message}"))
}

fn raw(content_type: &str, body: &str) -> ModelReply {
    ModelReply::Raw(content_type.to_owned(), body.to_owned())
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn rows() -> Vec<Row> {
    use Ends::{Fails, Says};
    use ErrorKind::{Exhausted, InvalidInput, Unavailable, WrongState};
    use ModelReply::{BreaksWithError, Dropped, EndlessLine, Filtered, Slow, Stalled, Text, Whole};
    let fine = || Text(text("all is fine"));
    let says = || Says("all is fine");
    let failed = || Fails(Unavailable, "ENDPOINT_FAILED");
    let refused = || Fails(WrongState, "ENDPOINT_REFUSED");
    let page = raw("text/html", "<html>hush</html>");
    let plain =
        r#"{"choices": [{"message": {"content": "all is fine"}, "finish_reason": "stop"}]}"#;
    vec![
        row("a pause in seconds", vec![pause("1"), fine()], says(), 2),
        row(
            "a date that has passed",
            vec![pause("Sun, 06 Nov 1994 08:49:37 GMT"), fine()],
            says(),
            2,
        ),
        row("a long pause", vec![pause("3600")], Fails(Exhausted, "RESOURCE_EXHAUSTED"), 1),
        row(
            "no money",
            vec![refusal(429, "insufficient_quota")],
            Fails(Exhausted, "RESOURCE_EXHAUSTED"),
            1,
        ),
        row("408", vec![status(408), fine()], says(), 2),
        row("500", vec![status(500), fine()], says(), 2),
        row("503, then 500", vec![status(503), status(500), fine()], says(), 3),
        row("503 each time", vec![status(503); 3], failed(), 3),
        row("401", vec![refusal(401, "no")], refused(), 1),
        row("403", vec![refusal(403, "no")], refused(), 1),
        row("404", vec![refusal(404, "no")], refused(), 1),
        row("400", vec![refusal(400, "no")], Fails(InvalidInput, "REQUEST_REFUSED"), 1),
        row("422", vec![refusal(422, "no")], Fails(InvalidInput, "REQUEST_REFUSED"), 1),
        row(
            "a long conversation",
            vec![refusal(400, "the maximum context length is 8 tokens")],
            Fails(InvalidInput, "CONTEXT_TOO_LONG"),
            1,
        ),
        row("413", vec![refusal(413, "no")], Fails(InvalidInput, "CONTEXT_TOO_LONG"), 1),
        row(
            "a slow stream",
            vec![Slow(text("all is fine"), Duration::from_millis(300))],
            says(),
            1,
        ),
        row("silence", vec![Stalled(text("")), fine()], says(), 2),
        row("silence in a reply", vec![Stalled(text("hush ")), fine()], says(), 2),
        row("silence each time", vec![Stalled(text("hush ")); 3], failed(), 3),
        row("a dropped connection", vec![Dropped(text("hush ")), fine()], says(), 2),
        row("an error in a stream", vec![BreaksWithError(text("hush ")), fine()], says(), 2),
        row("a line without end", vec![EndlessLine, fine()], says(), 2),
        row("an empty body", vec![raw("text/event-stream", ""), fine()], says(), 2),
        row("a page", vec![page.clone(), fine()], says(), 2),
        row("a page each time", vec![page; 3], failed(), 3),
        row("a broken event", vec![raw("text/event-stream", "data: {hush\n\n"), fine()], says(), 2),
        row("a wrong content type", vec![raw("text/html", plain)], says(), 1),
        row("not streamed", vec![Whole(text("all is fine"))], says(), 1),
        row("a filter", vec![Filtered], Fails(InvalidInput, "CONTENT_FILTERED"), 1),
    ]
}

fn format_rows() -> Vec<Row> {
    use Ends::{Fails, Says};
    use ModelReply::{Cut, Text};
    let schema =
        r#"{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}"#;
    let json = |what, replies: &[&str], ends| {
        let replies: Vec<ModelReply> = replies.iter().map(|reply| Text(text(reply))).collect();
        let requests = replies.len();
        Row { what, replies, format: ReplyFormat::JsonSchema(text(schema)), ends, requests }
    };
    let choice = |what, replies: &[&str], ends| Row {
        format: ReplyFormat::Choice(vec![text("yes"), text("no")]),
        ..json(what, replies, ends)
    };
    let malformed = || Fails(ErrorKind::Unavailable, "MALFORMED_REPLY");
    let right = r#"{"a": 1}"#;
    let cut = |replies: &[ModelReply], ends| Row {
        replies: replies.to_vec(),
        requests: 2,
        ..json("JSON that is cut off", &[], ends)
    };
    vec![
        json("right JSON", &[right], Says(right)),
        json("JSON in a fence", &["Here it is:\n```json\n{\"a\": 1,}\n```"], Says(right)),
        json("JSON without its last bracket", &["{\"a\": 1"], Says(right)),
        json("malformed JSON", &["{hush", right], Says(right)),
        json("malformed JSON twice", &["{hush", "{\"a\": \"hush"], malformed()),
        json("JSON of another schema", &[r#"{"hush": 1}"#, right], Says(right)),
        json("words", &["Voilà, hush.", "Encore hush."], malformed()),
        json("nothing", &["", ""], malformed()),
        cut(&[Cut(text(r#"{"a": 1"#)), Text(text(right))], Says(right)),
        cut(&[Cut(text(r#"{"a": 1"#)), Cut(text(r#"{"a": 1"#))], malformed()),
        choice("a choice", &["Yes."], Says("yes")),
        choice("a choice as JSON", &[r#"{"choice": "no"}"#], Says("no")),
        choice("a choice in another language", &["oui", "yes"], Says("yes")),
        choice("that twice", &["oui, hush", "non"], malformed()),
        choice("both", &["yes or no", "no"], Says("no")),
    ]
}

async fn check(row: &Row, structured_output: StructuredOutput) {
    let Row { what, replies, format, ends, requests } = row;
    let server = ModelEndpoint::start().unwrap();
    server.script(replies.clone());
    let config = EndpointConfig { structured_output, ..config(&server) };
    let model = Arc::new(endpoint(&config));
    let request = request(format.clone());
    let (reply, heard) = ask(&*model, &request, PATIENCE).await;
    let asked = server.requests();
    assert_eq!(asked.len(), *requests, "{what}: requests");
    assert!(asked.iter().all(|request| request.key.as_deref() == Some(KEY)), "{what}: key");
    match (reply, ends) {
        (Ok(reply), Ends::Says(expected)) => {
            assert_eq!(reply.text, *expected, "{what}");
            assert_eq!(heard, *expected, "{what}: heard");
            assert_eq!(reply.usage.calls as usize, *requests, "{what}: calls");
            assert_eq!(reply.model, "scripted");
        }
        (Err(error), Ends::Fails(kind, reason)) => {
            assert_eq!((error.kind(), error.reason()), (*kind, *reason), "{what}: {error}");
            let shown = format!("{error} {error:?} {}", error.chain());
            assert!(!shown.contains(SECRET), "{what}: {shown}");
            if *reason == "MALFORMED_REPLY" {
                // The caller, who pays for the useless replies, hears their text.
                let said = replies.iter().filter_map(|reply| match reply {
                    ModelReply::Text(text) | ModelReply::Cut(text) => Some(text.as_str()),
                    _ => None,
                });
                assert_eq!(heard, said.collect::<String>(), "{what}");
            }
            fall_back(row, &server, model, *kind).await;
        }
        (Ok(reply), Ends::Fails(_, reason)) => panic!("{what}: expected {reason}, got {reply:?}"),
        (Err(error), Ends::Says(_)) => panic!("{what}: {error:?}"),
    }
}

/// Repeats the misbehaviour with a second model that replies.
async fn fall_back(row: &Row, server: &ModelEndpoint, model: Arc<Endpoint>, kind: ErrorKind) {
    let other = ModelEndpoint::start().unwrap();
    let reply = match &row.format {
        ReplyFormat::Text => "well",
        ReplyFormat::Choice(_) => "no",
        ReplyFormat::JsonSchema(_) => r#"{"a": 2}"#,
    };
    other.reply_by(move |_| reply.into());
    server.script(row.replies.clone());
    let both = Fallback::new(model, vec![Arc::new(endpoint(&config(&other)))]);
    let (generated, heard) = ask(&both, &request(row.format.clone()), PATIENCE).await;
    if kind == ErrorKind::InvalidInput {
        assert_eq!(generated.unwrap_err().kind(), kind, "{}", row.what);
        assert!(other.requests().is_empty(), "{}", row.what);
    } else {
        assert_eq!(generated.unwrap().text, reply, "{}", row.what);
        assert_eq!(heard, reply, "{}", row.what);
    }
}

#[tokio::test]
async fn models_are_asked_no_more_often_than_a_request_allows_and_each_time_is_heard() {
    let json = ReplyFormat::JsonSchema(r#"{"type": "object", "required": ["a"]}"#.to_owned());
    // Replies of both models, and how often each is asked for a given number of allowed calls.
    let (fails, misses) = (ModelReply::Status(500, None), ModelReply::from("no JSON"));
    let cases = [
        (&fails, ReplyFormat::Text, 1, [1, 0]),
        (&fails, ReplyFormat::Text, 2, [2, 0]),
        (&fails, ReplyFormat::Text, 4, [3, 1]),
        (&fails, ReplyFormat::Text, 9, [3, 3]),
        (&misses, json.clone(), 1, [1, 0]),
        (&misses, json, 3, [2, 1]),
    ];
    let asking = cases.into_iter().map(async |(says, format, most, expected)| {
        let (server, other) = (ModelEndpoint::start().unwrap(), ModelEndpoint::start().unwrap());
        for server in [&server, &other] {
            let says = says.clone();
            server.reply_by(move |_| says.clone());
        }
        let both = Fallback::new(
            Arc::new(endpoint(&config(&server))),
            vec![Arc::new(endpoint(&config(&other)))],
        );
        let most_calls = std::num::NonZeroU32::new(most);
        let request = GenerationRequest { most_calls, ..request(format) };
        let mut asked = 0;
        let mut heard = |part: Heard<'_>| asked += usize::from(matches!(part, Heard::Asked));
        let reply = both.generate(&request, Instant::now() + PATIENCE, &mut heard).await;
        assert!(reply.is_err(), "{reply:?}");
        let requests = [server.requests().len(), other.requests().len()];
        assert_eq!((requests, asked), (expected, expected.iter().sum()), "{most} calls");
    });
    futures::future::join_all(asking).await;
}

#[tokio::test]
async fn each_misbehaviour_ends_in_a_right_reply_or_a_typed_error() {
    let rows = rows();
    futures::future::join_all(rows.iter().map(|row| check(row, StructuredOutput::JsonSchema)))
        .await;
}

#[tokio::test]
async fn each_miss_of_a_format_ends_in_a_right_reply_or_a_typed_error() {
    let rows = format_rows();
    let outputs =
        [StructuredOutput::JsonSchema, StructuredOutput::JsonObject, StructuredOutput::Prompt];
    let checks = outputs.iter().flat_map(|output| rows.iter().map(|row| check(row, *output)));
    futures::future::join_all(checks).await;
}

#[tokio::test]
async fn a_reply_without_end_is_cut_and_its_connection_closed() {
    let server = ModelEndpoint::start().unwrap();
    server.script([ModelReply::Endless(text("and on and on "))]);
    let wire = FaultyWire::to(server.address()).await.unwrap();
    let url = format!("http://{}/v1", wire.address());
    let model = endpoint(&EndpointConfig { url, ..config(&server) });
    let (reply, heard) = ask(&model, &request(ReplyFormat::Text), PATIENCE).await;
    let reply = reply.unwrap();
    assert_eq!(reply.finish, Finish::Length);
    assert!(reply.text.starts_with("and on and on and on") && reply.text.len() < 4096);
    assert_eq!(heard, reply.text);
    tokio::time::timeout(PATIENCE, wire.all_closed()).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_where_nobody_listens_is_unreachable() {
    let config = config(&ModelEndpoint::start().unwrap());
    let (reply, _) = ask(&endpoint(&config), &request(ReplyFormat::Text), PATIENCE).await;
    let error = reply.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "ENDPOINT_UNREACHABLE"));
}

#[tokio::test]
async fn a_deadline_ends_a_wait_whatever_the_idle_time_is() {
    let server = ModelEndpoint::start().unwrap();
    server.reply_by(|_| ModelReply::Stalled(text("hush ")));
    let model = endpoint(&EndpointConfig { idle_timeout_secs: 3600, ..config(&server) });
    let patience = Duration::from_millis(300);
    let (reply, _) = ask(&model, &request(ReplyFormat::Text), patience).await;
    assert_eq!(reply.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_model_that_hangs_leaves_time_for_the_next() {
    let (hanging, other) = (ModelEndpoint::start().unwrap(), ModelEndpoint::start().unwrap());
    hanging.reply_by(|_| ModelReply::Stalled(text("hush ")));
    other.reply_by(|_| "well".into());
    let slow = EndpointConfig { idle_timeout_secs: 3600, window: 1000, ..config(&hanging) };
    let both = Fallback::new(Arc::new(endpoint(&slow)), vec![Arc::new(endpoint(&config(&other)))]);
    assert_eq!(both.identity().model, "scripted, else scripted");
    assert_eq!(both.identity().window, 1000);
    let (reply, heard) = ask(&both, &request(ReplyFormat::Text), Duration::from_secs(6)).await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), heard.as_str()), ("well", "well"));
    assert_eq!(reply.usage.calls, 2);
}

#[tokio::test]
async fn dropping_a_call_ends_its_request_and_makes_room() {
    let server = ModelEndpoint::start().unwrap();
    server.script([ModelReply::Stalled(text("begun "))]);
    let wire = FaultyWire::to(server.address()).await.unwrap();
    let model = endpoint(&EndpointConfig {
        url: format!("http://{}/v1", wire.address()),
        max_concurrency: 1,
        max_waiting: 0,
        idle_timeout_secs: 3600,
        ..config(&server)
    });
    let asked = request(ReplyFormat::Text);
    let (said, mut is_said) = tokio::sync::mpsc::unbounded_channel();
    let mut heard = move |heard: Heard<'_>| {
        if let Heard::Text(_) = heard {
            said.send(()).unwrap();
        }
    };
    let mut call = model.generate(&asked, Instant::now() + PATIENCE, &mut heard);
    tokio::select! {
        reply = &mut call => panic!("ended with {reply:?}"),
        _ = is_said.recv() => {}
    }
    let (refused, _) = ask(&model, &asked, PATIENCE).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Exhausted);
    drop(call);
    tokio::time::timeout(PATIENCE, wire.all_closed()).await.unwrap();
    server.reply_by(|_| "well".into());
    assert_eq!(ask(&model, &asked, PATIENCE).await.0.unwrap().text, "well");
}

#[tokio::test]
async fn those_beyond_the_concurrency_wait_and_those_beyond_the_queue_are_refused() {
    let server = ModelEndpoint::start().unwrap();
    server.reply_by(|_| ModelReply::Slow(text("a b c"), Duration::from_millis(20)));
    let model = endpoint(&EndpointConfig { max_concurrency: 2, max_waiting: 3, ..config(&server) });
    let asked = request(ReplyFormat::Text);
    let replies = futures::future::join_all((0..9).map(|_| ask(&model, &asked, PATIENCE))).await;
    let (served, refused): (Vec<_>, Vec<_>) =
        replies.into_iter().map(|(reply, _)| reply).partition(Result::is_ok);
    assert_eq!((served.len(), refused.len()), (5, 4));
    let mut kinds = refused.into_iter().map(|reply| reply.unwrap_err().kind());
    assert!(kinds.all(|kind| kind == ErrorKind::Exhausted));
}

#[tokio::test]
async fn a_rate_that_is_used_up_refuses_at_once_and_says_when_to_come_back() {
    let server = ModelEndpoint::start().unwrap();
    let model = endpoint(&EndpointConfig { requests_per_minute: Some(1), ..config(&server) });
    let asked = request(ReplyFormat::Text);
    ask(&model, &asked, PATIENCE).await.0.unwrap();
    let (refused, _) = ask(&model, &asked, Duration::from_secs(10)).await;
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.retry_after().unwrap() > Duration::from_secs(10));
}

#[tokio::test]
async fn repetitions_are_bounded_by_a_budget() {
    let server = ModelEndpoint::start().unwrap();
    server.reply_by(|_| status(503));
    let model = endpoint(&EndpointConfig { max_concurrency: 100, ..config(&server) });
    let asked = request(ReplyFormat::Text);
    let replies = futures::future::join_all((0..100).map(|_| ask(&model, &asked, PATIENCE))).await;
    assert!(replies.iter().all(|(reply, _)| reply.is_err()));
    // Without the budget there would be 300. With it: those saved, a fifth of the calls, and one
    // each second.
    let sent = server.requests().len();
    assert!((120..200).contains(&sent), "{sent} requests");
}

#[tokio::test]
async fn tokens_are_those_that_the_server_counts_or_else_about() {
    let server = ModelEndpoint::start().unwrap();
    server.script(["one two three".into(), "one two three".into()]);
    let model = endpoint(&config(&server));
    let asked = request(ReplyFormat::Text);
    let counted = ask(&model, &asked, PATIENCE).await.0.unwrap().usage;
    assert_eq!((counted.prompt_tokens, counted.completion_tokens), (7, 3));
    server.tell_usage(false);
    let estimated = ask(&model, &asked, PATIENCE).await.0.unwrap().usage;
    assert_eq!((estimated.prompt_tokens, estimated.completion_tokens), (14, 4));
}

#[tokio::test]
async fn a_model_that_missed_the_format_is_told_what_was_wrong() {
    let server = ModelEndpoint::start().unwrap();
    server.script(["perhaps".into(), "yes".into()]);
    let prompt = StructuredOutput::Prompt;
    let model = endpoint(&EndpointConfig { structured_output: prompt, ..config(&server) });
    let format = ReplyFormat::Choice(vec![text("yes"), text("no")]);
    assert_eq!(ask(&model, &request(format), PATIENCE).await.0.unwrap().text, "yes");
    let requests = server.requests();
    assert!(requests[0].last().ends_with("nothing else:\nyes\nno"), "{}", requests[0].last());
    let second = requests[1].messages();
    let roles: Vec<&str> = second.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(second[1].1, "perhaps");
    assert!(second[2].1.contains("it is not one of the texts to choose from"), "{}", second[2].1);
}

#[tokio::test]
async fn conversations_beyond_any_count_are_refused_without_asking() {
    let server = ModelEndpoint::start().unwrap();
    let model = endpoint(&EndpointConfig { window: 256, ..config(&server) });
    let mut long = request(ReplyFormat::Text);
    long.messages[0].text = "x".repeat(1 << 20);
    for unsound in [long, GenerationRequest { max_tokens: 0, ..request(ReplyFormat::Text) }] {
        let (reply, _) = ask(&model, &unsound, PATIENCE).await;
        assert_eq!(reply.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn azure_gets_its_path_and_its_header() {
    let server = ModelEndpoint::start().unwrap();
    let model = endpoint(&EndpointConfig {
        url: format!("http://{}", server.address()),
        flavour: Flavour::Azure,
        api_version: Some(text("2024-10-21")),
        ..config(&server)
    });
    ask(&model, &request(ReplyFormat::Text), PATIENCE).await.0.unwrap();
    let request = &server.requests()[0];
    let path = "/openai/deployments/scripted/chat/completions?api-version=2024-10-21";
    assert_eq!((request.path.as_str(), request.key.as_deref()), (path, Some(KEY)));
}

fn embedding(server: &ModelEndpoint) -> EmbeddingEndpoint {
    embedding_of(EmbeddingConfig { query_prefix: text("q: "), ..embedding_config(server) })
}

fn embedding_config(server: &ModelEndpoint) -> EmbeddingConfig {
    EmbeddingConfig {
        url: server.url(),
        model: text("scripted"),
        attempts: ATTEMPTS,
        window: 256,
        dimension: 8,
        batch: 2,
        ..EmbeddingConfig::default()
    }
}

fn embedding_of(config: EmbeddingConfig) -> EmbeddingEndpoint {
    config.validate("encoder").unwrap();
    EmbeddingEndpoint::try_new(config, None, Vec::new()).unwrap()
}

#[tokio::test]
async fn texts_are_embedded_in_batches_and_in_order() {
    let server = ModelEndpoint::start().unwrap();
    server.script([status(500)]);
    let encoder = embedding(&server);
    let texts = ["a", "b", &"long ".repeat(1000)].map(text).to_vec();
    let deadline = Instant::now() + PATIENCE;
    let kind = TextKind::Passage;
    let embeddings = encoder.embed(texts, kind, Priority::Bulk, deadline).await.unwrap();
    let told: Vec<_> = embeddings.iter().map(|e| (e.tokens, e.truncated)).collect();
    // The estimate assumes two special tokens.
    assert_eq!(told, [(3, false), (3, false), (256, true)]);
    // `a` is 97, `b` is 98.
    assert_eq!(embeddings[0].vector, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(embeddings[1].vector, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let length: f32 = embeddings[2].vector.iter().map(|number| number * number).sum();
    assert!((length - 1.0).abs() < 1e-5);
    let query = encoder.embed(vec![text("a")], TextKind::Query, Priority::Interactive, deadline);
    assert_eq!(query.await.unwrap().len(), 1);
    let inputs: Vec<_> =
        server.requests().iter().map(|request| request.body["input"].clone()).collect();
    let sizes: Vec<_> = inputs.iter().map(|input| input.as_array().unwrap().len()).collect();
    assert_eq!(sizes, [2, 2, 1, 1]);
    assert_eq!(inputs[3][0], "q: a");
}

#[tokio::test]
async fn vectors_of_another_dimension_are_refused() {
    let server = ModelEndpoint::start().unwrap();
    server.set_dimension(4);
    let encoder = embedding(&server);
    let deadline = Instant::now() + PATIENCE;
    let texts = vec![text("a")];
    let error =
        encoder.embed(texts, TextKind::Passage, Priority::Bulk, deadline).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::WrongState, "DIMENSION_MISMATCH"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_text_that_the_server_finds_too_long_is_sent_shorter() {
    let server = ModelEndpoint::start().unwrap();
    let vector = r#"{"data": [{"index": 0, "embedding": [1, 0, 0, 0, 0, 0, 0, 0]}]}"#;
    let short = ModelReply::Raw(text("application/json"), text(vector));
    server.script([ModelReply::Status(413, None), short, ModelReply::Status(413, None)]);
    let encoder = embedding(&server);
    let deadline = Instant::now() + PATIENCE;
    // Fewer tokens than the window by the estimate.
    let texts = vec![text("a"), "abcd".repeat(200)];
    let kind = TextKind::Passage;
    let embeddings = encoder.embed(texts, kind, Priority::Bulk, deadline).await.unwrap();
    let cut: Vec<bool> = embeddings.iter().map(|embedding| embedding.truncated).collect();
    assert_eq!(cut, [false, true]);
    let requests = server.requests();
    let bytes = |at: usize| -> Vec<usize> {
        let inputs = requests[at].body["input"].as_array().unwrap().iter();
        inputs.map(|input| input.as_str().unwrap().len()).collect()
    };
    let sent: Vec<Vec<usize>> = (0..requests.len()).map(bytes).collect();
    // The text that is too long is identified, and no other text is cut.
    assert_eq!(sent, [vec![1, 800], vec![1], vec![800], vec![254]]);
}

#[tokio::test]
async fn vectors_are_shortened_by_the_server_or_here() {
    let server = ModelEndpoint::start().unwrap();
    let deadline = Instant::now() + PATIENCE;
    for shorten in [Shortening::Server, Shortening::Here] {
        // The first four of the eight numbers have the letters of the text.
        server.set_dimension(if shorten == Shortening::Server { 4 } else { 8 });
        let config = EmbeddingConfig { dimension: 4, shorten, ..embedding_config(&server) };
        let encoder = embedding_of(config);
        let texts = vec![text("abc")];
        let embeddings =
            encoder.embed(texts, TextKind::Passage, Priority::Bulk, deadline).await.unwrap();
        let vector = &embeddings[0].vector;
        let length: f32 = vector.iter().map(|number| number * number).sum();
        assert!(vector.len() == 4 && (length - 1.0).abs() < 1e-5, "{vector:?}");
    }
    let asked: Vec<_> = server.requests().iter().map(|it| it.body["dimensions"].clone()).collect();
    assert_eq!(asked, [serde_json::json!(4), serde_json::Value::Null]);
}

fn reranker(server: &ModelEndpoint, dialect: RerankDialect) -> RerankEndpoint {
    let config = RerankConfig {
        url: server.url(),
        model: text("scripted"),
        attempts: ATTEMPTS,
        window: 256,
        batch: 2,
        dialect,
        ..RerankConfig::default()
    };
    config.validate("reranker").unwrap();
    RerankEndpoint::try_new(&config).unwrap()
}

#[tokio::test]
async fn passages_are_scored_in_batches_and_in_order() {
    for dialect in [RerankDialect::Cohere, RerankDialect::Tei] {
        let server = ModelEndpoint::start().unwrap();
        server.script([status(503)]);
        let reranker = reranker(&server, dialect);
        let deadline = Instant::now() + PATIENCE;
        let passages = ["a cat", "dog and dog", &"dog ".repeat(1000)].map(text).to_vec();
        let scored = reranker.score("where is the dog?", passages, deadline).await.unwrap();
        assert_eq!(scored.scores.len(), 3);
        assert!(scored.scores[0] < scored.scores[1], "{scored:?}");
        assert!((1..=3 * 256).contains(&scored.tokens), "{scored:?}");
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        assert!(requests.iter().all(|request| request.path.ends_with("/v1/rerank")));
        let (key, other) = match dialect {
            RerankDialect::Cohere => ("documents", "texts"),
            RerankDialect::Tei => ("texts", "documents"),
        };
        assert_eq!(requests[1].body[key].as_array().unwrap().len(), 2);
        assert!(requests[2].body[key][0].as_str().unwrap().len() < 4 * 256);
        assert!(requests[1].body[other].is_null());

        let long = "very ".repeat(300);
        let refused = reranker.score(&long, vec![text("a")], deadline).await.unwrap_err();
        assert_eq!(refused.violations()[0].field, "query");
        let soon = Instant::now() + Duration::from_millis(200);
        server.script([ModelReply::Stalled(String::new())]);
        let late = reranker.score("dog", vec![text("a")], soon).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
    }
}
