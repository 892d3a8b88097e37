//! Tests of what attackers send: requests that two readers would read differently, that never end,
//! that come from a page of somebody else, and more connections than there is room for.

use std::time::{Duration, Instant};

use clew_core::CorpusName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::curl::curl;
use crate::client::create;
use crate::harness::{Home, PATIENCE, Server};

const CREATE: &str = "/api/clew.corpus.v1.CorpusService/CreateCorpus";

/// Starts a server that waits two seconds for its clients.
fn serve(home: &Home, settings: &[(&str, &str)]) -> Server {
    let mut command = home.serve_command();
    command.env("CLEW_HTTP__PATIENCE_SECS", "2").envs(settings.iter().copied());
    Server::start(command)
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.http().trim_start_matches("http://")).await.unwrap()
}

/// Sends bytes and returns everything that comes back until the server closes the connection.
async fn sent(server: &Server, bytes: &[u8]) -> String {
    let mut stream = connect(server).await;
    stream.write_all(bytes).await.unwrap();
    rest(&mut stream).await
}

/// Returns what comes until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut received)).await;
    // A reset is an end as well.
    drop(ended.expect("the server does not close the connection"));
    String::from_utf8_lossy(&received).into_owned()
}

/// Returns a request that creates a corpus, with further headers.
fn creating(name: &str, headers: &str) -> String {
    let body = format!("{{\"name\":\"{name}\"}}");
    format!(
        "POST {CREATE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\r\n{body}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_hidden_in_another() {
    let home = Home::new();
    let server = serve(&home, &[]);
    let hidden = creating("hidden", "Content-Length: 17\r\nConnection: close\r\n");
    let length = hidden.len();
    let begin =
        format!("POST {CREATE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    let both = "Transfer-Encoding: chunked\r\n";
    for (case, request) in [
        (
            "two lengths",
            format!("{begin}Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"),
        ),
        ("a list of lengths", format!("{begin}Content-Length: 0, {length}\r\n\r\n{hidden}")),
        ("a signed length", format!("{begin}Content-Length: +0\r\n\r\n{hidden}")),
        ("chunked twice", format!("{begin}{both}Transfer-Encoding: x\r\n\r\n0\r\n\r\n{hidden}")),
        ("another coding", format!("{begin}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}")),
        ("space before the colon", format!("{begin}Content-Length : 0\r\n\r\n{hidden}")),
        ("a folded header", format!("{begin}X: a\r\n Content-Length: 0\r\n\r\n{hidden}")),
        ("a zero in a header", format!("{begin}X: a\0b\r\n\r\n{hidden}")),
    ] {
        let answered = sent(&server, request.as_bytes()).await;
        let is_refused = answered.starts_with("HTTP/1.1 400") || answered.is_empty();
        assert!(is_refused && answered.matches("HTTP/1.1").count() <= 1, "{case}: {answered}");
    }
    // A length beside chunks does not count, and what follows the chunks is a request of its own.
    let request = format!("{begin}Content-Length: {length}\r\n{both}\r\n0\r\n\r\n");
    let answered = sent(&server, request.as_bytes()).await;
    assert!(answered.starts_with("HTTP/1.1 400"), "{answered}");
    assert!(server.client().await.corpora().await.unwrap().is_empty(), "a corpus was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_cut_short_changes_nothing() {
    let home = Home::new();
    let server = serve(&home, &[]);
    let mut stream = connect(&server).await;
    let request = creating("cut", "Content-Length: 18\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answered = rest(&mut stream).await;
    assert!(answered.is_empty() || answered.starts_with("HTTP/1.1 400"), "{answered}");
    let chunked = creating("cut", "Transfer-Encoding: chunked\r\n").replace("{\"", "e\r\n{\"");
    let mut stream = connect(&server).await;
    stream.write_all(chunked.as_bytes()).await.unwrap();
    drop(stream);
    assert!(server.client().await.corpora().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_a_byte_now_and_then_is_cut_off() {
    let home = Home::new();
    let server = serve(&home, &[]);
    let head = format!("POST {CREATE} HTTP/1.1\r\nHost: localhost\r\nX: ");
    let body = creating("", "Content-Length: 15\r\n").replace("{\"name\":\"\"}", "");
    for (case, at_once) in [("a head", &head), ("a body", &body)] {
        let mut stream = connect(&server).await;
        stream.write_all(at_once.as_bytes()).await.unwrap();
        let (began, mut received) = (Instant::now(), Vec::new());
        let (mut reader, mut writer) = stream.split();
        let trickling = async {
            while writer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        tokio::select! {
            ended = reader.read_to_end(&mut received) => drop(ended),
            () = trickling => {}
            () = tokio::time::sleep(PATIENCE) => panic!("{case} is waited for"),
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{case}: {:?}", began.elapsed());
        let answered = String::from_utf8_lossy(&received);
        assert!(answered.is_empty() || answered.starts_with("HTTP/1.1 408"), "{case}: {answered}");
    }
    assert!(server.client().await.corpora().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_is_cut_off() {
    let home = Home::new();
    let server = serve(&home, &[]);
    let mut stream = connect(&server).await;
    let request = "GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let asked = 400;
    // The server stops reading when it cannot write, and the requests that are sent then wait.
    let requests = request.repeat(asked);
    let sending = stream.write_all(requests.as_bytes());
    tokio::time::timeout(PATIENCE, sending).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let answered = rest(&mut stream).await.matches("HTTP/1.1 200").count();
    assert!(answered < asked, "{answered} responses waited for their reader");
    server.client().await.corpora().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_have_a_limit() {
    let home = Home::new();
    let server = serve(&home, &[]);
    let long =
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    let many =
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "a: b\r\n".repeat(500));
    for request in [long, many] {
        let answered = sent(&server, request.as_bytes()).await;
        assert!(answered.is_empty() || answered.starts_with("HTTP/1.1 431"), "{answered}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_make_way_for_others() {
    let home = Home::new();
    let settings = [("CLEW_HTTP__CONNECTIONS", "64"), ("CLEW_HTTP__PATIENCE_SECS", "600")];
    let server = serve(&home, &settings);
    let client = server.client().await;
    let began = Instant::now();
    let mut idle = Vec::new();
    for round in 0..10_000 {
        let mut stream = connect(&server).await;
        // Some have made a request, and so are kept for as long as there is room.
        if round % 100 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let mut answered = [0; 15];
            stream.read_exact(&mut answered).await.unwrap();
            assert_eq!(&answered, b"HTTP/1.1 200 OK");
            client.corpora().await.unwrap();
        }
        idle.push(stream);
        // What the server has closed needs no descriptor here either.
        if idle.len() > 500 {
            idle.drain(..250);
        }
    }
    let health = curl(&home, &[&(server.http() + "/healthz")]).done();
    assert_eq!(health.body, "ok\n");
    create(&client, "notes").await;
    println!("10,000 connections in {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_others_are_refused() {
    let home = Home::new();
    let page = "https://app.example.com";
    let server = serve(&home, &[("CLEW_HTTP__ALLOWED_ORIGINS", "[\"https://app.example.com\"]")]);
    let url = server.http() + CREATE;
    let port = server.http().rsplit_once(':').unwrap().1.to_owned();
    let own = format!("http://127.0.0.1:{port}");
    let with =
        |header: String| curl(&home, &[&url, "--json", r#"{"name":"new"}"#, "--header", &header]);
    for (host, reason) in [
        ("evil.example", "HOST_REFUSED"),
        ("127.0.0.1.evil.example", "HOST_REFUSED"),
        ("localhost.evil.example:7422", "HOST_REFUSED"),
    ] {
        let refused = with(format!("Host: {host}"));
        assert_eq!(
            (refused.status, refused.json()["reason"].as_str()),
            (421, Some(reason)),
            "{host}"
        );
    }
    for origin in ["https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1"] {
        let refused = with(format!("Origin: {origin}"));
        assert_eq!(refused.status, 403, "{origin}: {refused:?}");
        assert_eq!(refused.json()["reason"], "ORIGIN_REFUSED");
        assert_eq!(refused.header("access-control-allow-origin"), None, "{refused:?}");
    }
    let client = server.client().await;
    assert!(client.corpora().await.unwrap().is_empty(), "a page of somebody else was heard");

    let asks = ["--request", "OPTIONS", "--header", "Access-Control-Request-Method: POST"];
    let origin = format!("Origin: {page}");
    let asked =
        curl(&home, &[&[url.as_str(), "--header", origin.as_str()][..], &asks[..]].concat());
    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, Some(page)));
    assert!(asked.header("access-control-allow-headers").unwrap().contains("authorization"));
    let heard = with(origin).done();
    assert_eq!(heard.header("access-control-allow-origin"), Some(page));
    assert_eq!(heard.header("vary"), Some("origin"));
    let listed: CorpusName = "new".parse().unwrap();
    client.delete_corpus(&listed).await.unwrap();
    let heard = with(format!("Origin: {own}")).done();
    assert_eq!(heard.header("access-control-allow-origin"), None, "nobody else may read it");
}
