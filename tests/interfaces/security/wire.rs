//! Tests of what attackers send: messages that are too large, too deep or compressed, headers
//! without end, plain text to an encrypted port, and nothing at all.

use clew_core::Query;
use clew_proto::corpus::v1 as corpora;
use clew_proto::corpus::v1::corpus_service_client::CorpusServiceClient;
use clew_proto::ingest::v1 as ingest;
use clew_proto::ingest::v1::ingest_service_client::IngestServiceClient;
use clew_tls::ClientTls;
use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Endpoint;

use super::probe::call;
use super::world::World;
use crate::client::{create, create_in_shards, document, remember};
use crate::harness::{Home, PATIENCE, Server, eventually};

const SEARCH: &str = "/clew.query.v1.QueryService/Search";
const INGEST: &str = "/clew.ingest.v1.IngestService/Ingest";

/// Returns `depth` nested unknown groups.
fn nested(depth: usize) -> Vec<u8> {
    // Start of a group in field 100: (100 << 3) | 3.
    [0xa3, 0x06].repeat(depth)
}

/// Returns `depth` nested messages in unknown fields with lengths.
fn nested_messages(depth: usize) -> Vec<u8> {
    let mut message = vec![];
    for _ in 0..depth {
        let mut outer = vec![0x2a];
        prost::encoding::encode_varint(message.len() as u64, &mut outer);
        outer.extend(&message);
        message = outer;
    }
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_messages_are_refused_and_others_are_served() {
    let world = World::new();
    let server = world.serve();
    let acme = world.client(&server, "acme").await;
    let notes = create(&acme, "notes").await;
    remember(&acme, &notes, vec![document("plan", "The plan is to keep bees.")]).await;
    let wire = world.wire(&server, "acme").await;
    for path in [SEARCH, INGEST] {
        let refused = call(&wire, path, vec![0x0a; 5 << 20]).await.unwrap_err();
        assert_eq!(refused.code(), Code::OutOfRange, "{path}: {refused:?}");
        for hostile in
            [nested(1_000), nested(2_000_000), nested_messages(1_000), vec![0xff; 1 << 20]]
        {
            let refused = call(&wire, path, hostile).await.unwrap_err();
            assert!(
                [Code::Internal, Code::InvalidArgument].contains(&refused.code()),
                "{path}: {refused:?}"
            );
        }
    }
    let found = acme.search(&notes, Query::new("bees", 5)).await.unwrap();
    assert_eq!(found.evidence.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_messages_are_not_unpacked() {
    let world = World::new();
    let server = world.serve();
    let wire = world.wire(&server, "acme").await;
    // A gigabyte of zeros, compressed to a megabyte.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..1024 {
        std::io::Write::write_all(&mut bomb, &[0; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    let mut frame = vec![1];
    frame.extend((bomb.len() as u32).to_be_bytes());
    frame.extend(bomb);
    let body = tonic::body::Body::new(http_body_util::Full::new(bytes::Bytes::from(frame)));
    let request = tonic::codegen::http::Request::post(format!("{}{SEARCH}", server.endpoint))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", "gzip")
        .body(body)
        .unwrap();
    let mut ready = wire.clone();
    let service = tower::ServiceExt::ready(&mut ready).await.unwrap();
    let response = tower::Service::call(service, request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "12", "{:?}", response.headers());
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_peers_and_plain_text_hold_nobody_up() {
    let world = World::new();
    let server = world.serve();
    let address = server.endpoint.trim_start_matches("https://").to_owned();
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(&address).await.unwrap());
    }
    let mut plain = TcpStream::connect(&address).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let acme = world.client(&server, "acme").await;
    create(&acme, "notes").await;
    // A connection that completes the TLS handshake and then stays silent.
    let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
    let tls = ClientTls { ca: Some(world.path("ca.crt")), identity: None };
    let mut silent = clew_tls::connect("127.0.0.1", port, Some(&tls)).await.unwrap();
    let ended = async {
        let mut rest = Vec::new();
        drop(silent.read_to_end(&mut rest).await);
        for mut socket in idle.into_iter().chain([plain]) {
            rest.clear();
            drop(socket.read_to_end(&mut rest).await);
            assert!(rest.len() < 64, "{rest:?}");
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("they are all sent away");
    acme.corpora().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_given_up_and_others_are_served() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_GATEWAY__DEFAULT_DEADLINE_SECS", "2").env("CLEW_LOG", "info");
    let server = Server::start(command);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    // Room for the acknowledgements of only a few documents.
    let endpoint = Endpoint::from_shared(server.endpoint.clone()).unwrap();
    let channel = endpoint.initial_stream_window_size(1000).connect().await.unwrap();
    let documents = futures::stream::iter(0..).map(|number| {
        let document = ingest::Document {
            id: format!("d{number}"),
            text: "Bees.".into(),
            ..Default::default()
        };
        let payload = Some(ingest::ingest_request::Payload::Document(document));
        ingest::IngestRequest {
            corpus: "notes".to_owned(),
            payload,
            continues: false,
            text_bytes: 0,
        }
    });
    let mut reader = IngestServiceClient::new(channel);
    let mut unread = reader.ingest(documents).await.unwrap().into_inner();
    let given_up = "a client that does not read was given up";
    eventually(given_up, async || server.log().contains(given_up).then_some(())).await;
    remember(&client, &notes, vec![document("mine", "Honey.")]).await;
    // Everything that was acknowledged is stored. Then the stream ends.
    let mut acknowledged = 0;
    while let Ok(Some(_)) = unread.message().await {
        acknowledged += 1;
    }
    let documents = client.corpus(&notes).await.unwrap().counts.unwrap().documents;
    assert!(acknowledged < documents, "{acknowledged} of {documents}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_nobody_reads_is_given_up_and_is_not_taken_for_whole() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_GATEWAY__DEFAULT_DEADLINE_SECS", "2").env("CLEW_LOG", "info");
    let server = Server::start(command);
    let client = server.client().await;
    let notes = create_in_shards(&client, "notes", 8).await;
    // More than the server and the connection buffer.
    let text = "Bees. ".repeat(4000);
    let documents = (0..16).map(|number| document(&format!("d{number}"), text.clone())).collect();
    remember(&client, &notes, documents).await;
    let endpoint = Endpoint::from_shared(server.endpoint.clone()).unwrap();
    let channel = endpoint.initial_stream_window_size(1000).connect().await.unwrap();
    let mut reader = CorpusServiceClient::new(channel);
    let request = corpora::ExportCorpusRequest { name: "notes".to_owned() };
    let mut unread = reader.export_corpus(request).await.unwrap().into_inner();
    let given_up = "a client that does not read was given up";
    eventually(given_up, async || server.log().contains(given_up).then_some(())).await;
    let ended = loop {
        match unread.message().await {
            Ok(Some(_)) => {}
            ended => break ended,
        }
    };
    assert_eq!(ended.unwrap_err().code(), Code::DeadlineExceeded);
    let whole = client.export_corpus(&notes).await.unwrap();
    assert!(whole.map(Result::unwrap).count().await > 0);
}

/// Tests that headers are not collected beyond a limit.
#[tokio::test(flavor = "multi_thread")]
async fn headers_have_a_limit() {
    let world = World::new();
    let server = world.serve();
    let wire = world.wire(&server, "acme").await;
    let request = tonic::codegen::http::Request::post(format!("{}{SEARCH}", server.endpoint))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("x-long", "x".repeat(64 << 10))
        .body(tonic::body::Body::empty())
        .unwrap();
    let mut ready = wire.clone();
    let service = tower::ServiceExt::ready(&mut ready).await.unwrap();
    let answered =
        tokio::time::timeout(PATIENCE, tower::Service::call(service, request)).await.unwrap();
    assert!(answered.is_err() || answered.is_ok_and(|response| !response.status().is_success()));
    let acme = world.client(&server, "acme").await;
    acme.corpora().await.unwrap();
}
