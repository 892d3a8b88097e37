//! Tests of every method with every id of another tenant.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut};
use clew_auth::{METHODS, RequiredAccess, is_for_nodes};
use clew_client::{Client, Services};
use clew_core::{CorpusName, Document};
use clew_proto::convert::Page;
use clew_proto::{
    chat::v1 as chat, corpus::v1 as corpora, ingest::v1 as ingest, memory::v1 as memory,
    query::v1 as query,
};
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

use super::world::World;
use crate::client::{create, document, remember, text_of};
use crate::harness::PATIENCE;
use crate::twin::Way;

/// Words that only documents of `acme` contain.
const SECRETS: [&str; 2] = ["zanzibar", "quetzal"];
/// Id of a document of `acme`.
const SECRET_ID: &str = "secret-doc";
/// Name of a run of `acme`.
const RUN: &str = "nightly";
/// Problem of a part of that run.
const PROBLEM: &str = "the shop of Quetzal was away";

/// Codec for messages as they are on the wire.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

/// Calls any method and returns everything that it responds.
pub(super) async fn call(
    way: &(impl Clone + Into<Services>),
    path: &str,
    message: Vec<u8>,
) -> Result<Vec<u8>, Status> {
    let mut grpc = Grpc::new(way.clone().into());
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::try_from(path).unwrap();
    let mut request = Request::new(futures::stream::iter([message]));
    request.set_timeout(PATIENCE);
    let mut responses = grpc.streaming(request, path, Raw).await?.into_inner();
    let mut said = Vec::new();
    while let Some(response) = responses.message().await? {
        said.extend(response);
    }
    Ok(said)
}

/// Returns a request for every method that names a corpus, with ids of data of `acme`.
fn probes(corpus: &str, foreign: &Foreign) -> Vec<(&'static str, Vec<u8>)> {
    let corpus = || corpus.to_owned();
    let id = || SECRET_ID.to_owned();
    let question = || "Where are the bees, and who sells honey in spring?".to_owned();
    let (user, session) = (|| "ann".to_owned(), || "monday".to_owned());
    let filter = query::Filter { document_ids: vec![id()], ..Default::default() };
    let place = query::Place {
        document_id: id(),
        version: 1,
        span: Some(query::Span { start: 0, end: 1000 }),
    };
    let document = ingest::Document { id: id(), text: "Mine now.".into(), ..Default::default() };
    let turn =
        chat::Turn { number: 1, text: "Mine now.".to_owned(), role: 1, ..Default::default() };
    let watch = ingest::WatchIngestionRequest { corpus: corpus(), until_idle: true };
    let run = || RUN.to_owned();
    let part = ingest::RunPart { attempt: 9, stage: 1, ..Default::default() };
    vec![
        (
            "/clew.corpus.v1.CorpusService/GetCorpus",
            corpora::GetCorpusRequest { name: corpus() }.encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/GetReembedding",
            corpora::GetReembeddingRequest { name: corpus() }.encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/CheckCorpus",
            corpora::CheckCorpusRequest { name: corpus(), ..Default::default() }.encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/ListCorpora",
            corpora::ListCorporaRequest {
                page_token: foreign.corpora_page.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/GetDocument",
            ingest::GetDocumentRequest {
                corpus: corpus(),
                document_id: id(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/ListDocuments",
            ingest::ListDocumentsRequest {
                corpus: corpus(),
                page_token: foreign.documents_page.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/ListDocuments",
            ingest::ListDocumentsRequest { corpus: corpus(), ..Default::default() }.encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/ListChunks",
            ingest::ListChunksRequest {
                corpus: corpus(),
                document_id: id(),
                with_texts: true,
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/ListChunks",
            ingest::ListChunksRequest {
                corpus: corpus(),
                document_id: id(),
                page_token: foreign.chunks_page.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        ("/clew.ingest.v1.IngestService/WatchIngestion", watch.encode_to_vec()),
        (
            "/clew.ingest.v1.IngestService/ListRuns",
            ingest::ListRunsRequest { corpus: corpus(), ..Default::default() }.encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/ListRuns",
            ingest::ListRunsRequest {
                corpus: corpus(),
                page_token: foreign.runs_page.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/GetRun",
            ingest::GetRunRequest { corpus: corpus(), run: run() }.encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/ReportRun",
            ingest::ReportRunRequest { corpus: corpus(), run: run(), parts: 1, part: Some(part) }
                .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/GetRun",
            ingest::GetRunRequest { corpus: corpus(), run: run() }.encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/DeleteRun",
            ingest::DeleteRunRequest { corpus: corpus(), run: run() }.encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/EstimateIngestion",
            ingest::EstimateIngestionRequest {
                corpus: corpus(),
                text_bytes: 1000,
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.query.v1.QueryService/Search",
            query::SearchRequest { corpus: corpus(), query: question(), ..Default::default() }
                .encode_to_vec(),
        ),
        (
            "/clew.query.v1.QueryService/Search",
            query::SearchRequest {
                corpus: corpus(),
                query: question(),
                filter: Some(filter.clone()),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.query.v1.QueryService/SearchBatch",
            query::SearchBatchRequest {
                corpus: corpus(),
                searches: vec![
                    query::SearchRequest { query: question(), ..Default::default() },
                    query::SearchRequest {
                        query: question(),
                        filter: Some(filter.clone()),
                        ..Default::default()
                    },
                ],
            }
            .encode_to_vec(),
        ),
        (
            "/clew.query.v1.QueryService/Embed",
            query::EmbedRequest { corpus: corpus(), texts: vec![question()], ..Default::default() }
                .encode_to_vec(),
        ),
        (
            "/clew.query.v1.QueryService/Answer",
            query::AnswerRequest {
                corpus: corpus(),
                question: question(),
                filter: Some(filter),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.query.v1.QueryService/ListStrategies",
            query::ListStrategiesRequest { corpus: corpus() }.encode_to_vec(),
        ),
        (
            "/clew.memory.v1.MemoryService/ReadTree",
            memory::ReadTreeRequest {
                corpus: corpus(),
                parent: foreign.node.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.memory.v1.MemoryService/ReadTree",
            memory::ReadTreeRequest { corpus: corpus(), ..Default::default() }.encode_to_vec(),
        ),
        (
            "/clew.memory.v1.MemoryService/ReadTree",
            memory::ReadTreeRequest { corpus: corpus(), document_id: id(), ..Default::default() }
                .encode_to_vec(),
        ),
        (
            "/clew.memory.v1.MemoryService/ReadGraph",
            memory::ReadGraphRequest {
                corpus: corpus(),
                query: Some(memory::GraphQuery {
                    texts: vec![question()],
                    entities: foreign.entities.clone(),
                    places: vec![place],
                    hops: 2,
                    ..Default::default()
                }),
                with_quotes: true,
            }
            .encode_to_vec(),
        ),
        (
            "/clew.memory.v1.MemoryService/FindPaths",
            memory::FindPathsRequest {
                corpus: corpus(),
                from: "Zanzibar".to_owned(),
                to: "Quetzal".to_owned(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.memory.v1.MemoryService/RankGraph",
            memory::RankGraphRequest { corpus: corpus(), text: question(), ..Default::default() }
                .encode_to_vec(),
        ),
        (
            "/clew.memory.v1.MemoryService/ListMemories",
            memory::ListMemoriesRequest { corpus: corpus() }.encode_to_vec(),
        ),
        (
            "/clew.chat.v1.ChatService/ListTurns",
            chat::ListTurnsRequest {
                corpus: corpus(),
                user: user(),
                session: session(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.chat.v1.ChatService/ListUsers",
            chat::ListUsersRequest { corpus: corpus(), ..Default::default() }.encode_to_vec(),
        ),
        (
            "/clew.chat.v1.ChatService/ListUsers",
            chat::ListUsersRequest {
                corpus: corpus(),
                page_token: foreign.users_page.clone(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.chat.v1.ChatService/ListSessions",
            chat::ListSessionsRequest { corpus: corpus(), user: user(), ..Default::default() }
                .encode_to_vec(),
        ),
        (
            "/clew.chat.v1.ChatService/Recall",
            chat::RecallRequest {
                corpus: corpus(),
                user: user(),
                question: question(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.chat.v1.ChatService/Answer",
            chat::AnswerRequest {
                corpus: corpus(),
                user: user(),
                question: question(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.chat.v1.ChatService/ForgetTurns",
            chat::ForgetTurnsRequest {
                corpus: corpus(),
                user: user(),
                session: session(),
                numbers: vec![1],
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/ForgetDocuments",
            ingest::ForgetDocumentsRequest {
                corpus: corpus(),
                document_ids: vec![id()],
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.chat.v1.ChatService/AppendTurns",
            chat::AppendTurnsRequest {
                corpus: corpus(),
                user: user(),
                session: session(),
                turns: vec![turn],
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/IngestDocuments",
            ingest::IngestDocumentsRequest {
                corpus: corpus(),
                documents: vec![document.clone()],
                only_additions: false,
            }
            .encode_to_vec(),
        ),
        (
            "/clew.ingest.v1.IngestService/Ingest",
            ingest::IngestRequest {
                corpus: corpus(),
                payload: Some(ingest::ingest_request::Payload::Document(document)),
                continues: false,
                text_bytes: 0,
            }
            .encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/ListSnapshots",
            corpora::ListSnapshotsRequest { name: corpus() }.encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/SnapshotCorpus",
            corpora::SnapshotCorpusRequest { name: corpus(), snapshot: "taken".to_owned() }
                .encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/DeleteSnapshots",
            corpora::DeleteSnapshotsRequest {
                name: corpus(),
                snapshots: vec!["mine".to_owned()],
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/RestoreCorpus",
            corpora::RestoreCorpusRequest {
                name: corpus(),
                snapshot: "mine".to_owned(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/ReembedCorpus",
            corpora::ReembedCorpusRequest {
                name: corpus(),
                step: corpora::ReembedStep::Start.into(),
                ..Default::default()
            }
            .encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/ExportCorpus",
            corpora::ExportCorpusRequest { name: corpus() }.encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/DeleteCorpus",
            corpora::DeleteCorpusRequest { name: corpus() }.encode_to_vec(),
        ),
        (
            "/clew.corpus.v1.CorpusService/CreateCorpus",
            corpora::CreateCorpusRequest { name: corpus(), shards: 1, ..Default::default() }
                .encode_to_vec(),
        ),
    ]
}

/// Methods that concern no corpus: they read what they are given.
const OF_NO_CORPUS: [&str; 2] = [
    "/clew.graph_builder.v1.GraphBuilderService/Extract",
    "/clew.graph_builder.v1.GraphBuilderService/Summarise",
];

/// Knowledge that another tenant may have obtained.
struct Foreign {
    node: Option<memory::NodeId>,
    entities: Vec<String>,
    corpora_page: String,
    documents_page: String,
    chunks_page: String,
    users_page: String,
    runs_page: String,
}

fn secret() -> Document {
    document(
        SECRET_ID,
        "The bees of Zanzibar belong to Quetzal. Quetzal sells zanzibar honey in spring.",
    )
}

/// Fills a corpus of `acme`, and returns what another tenant could know of it.
async fn furnish(acme: &Client, wire: &Services, corpus: &CorpusName) -> Foreign {
    remember(acme, corpus, vec![secret(), document("second", "More of zanzibar.")]).await;
    let turn = chat::Turn {
        number: 1,
        role: chat::Role::User.into(),
        text: "My name is Quetzal and I live in zanzibar.".to_owned(),
        ..Default::default()
    };
    let turns = chat::AppendTurnsRequest {
        corpus: corpus.to_string(),
        user: "ann".to_owned(),
        session: "monday".to_owned(),
        turns: vec![turn],
        ..Default::default()
    };
    let append = "/clew.chat.v1.ChatService/AppendTurns";
    call(wire, append, turns.encode_to_vec()).await.unwrap();
    let part = ingest::RunPart {
        attempt: 9,
        stage: ingest::PartStage::Failed.into(),
        problem: PROBLEM.to_owned(),
        ..Default::default()
    };
    let report = ingest::ReportRunRequest {
        corpus: corpus.to_string(),
        run: RUN.to_owned(),
        parts: 1,
        part: Some(part),
    };
    let reported = "/clew.ingest.v1.IngestService/ReportRun";
    call(wire, reported, report.encode_to_vec()).await.unwrap();
    let tops = crate::harness::eventually("there is a tree", async || {
        let read = memory::ReadTreeRequest { corpus: corpus.to_string(), ..Default::default() };
        let read = call(wire, "/clew.memory.v1.MemoryService/ReadTree", read.encode_to_vec()).await;
        let nodes = memory::ReadTreeResponse::decode(&*read.ok()?).unwrap().nodes;
        (!nodes.is_empty()).then_some(nodes)
    })
    .await;
    let query =
        memory::GraphQuery { texts: vec!["Quetzal".to_owned()], hops: 1, ..Default::default() };
    let read = memory::ReadGraphRequest {
        corpus: corpus.to_string(),
        query: Some(query),
        ..Default::default()
    };
    let graph =
        call(wire, "/clew.memory.v1.MemoryService/ReadGraph", read.encode_to_vec()).await.unwrap();
    let graph = memory::ReadGraphResponse::decode(&*graph).unwrap().graph.unwrap();
    assert!(!graph.seeds.is_empty(), "the graph knows Quetzal");
    let page = ingest::ListDocumentsRequest {
        corpus: corpus.to_string(),
        page_size: 1,
        ..Default::default()
    };
    let page = call(wire, "/clew.ingest.v1.IngestService/ListDocuments", page.encode_to_vec())
        .await
        .unwrap();
    let documents_page = ingest::ListDocumentsResponse::decode(&*page).unwrap().next_page_token;
    let page = corpora::ListCorporaRequest { page_size: 1, page_token: String::new() };
    let page = call(wire, "/clew.corpus.v1.CorpusService/ListCorpora", page.encode_to_vec())
        .await
        .unwrap();
    let corpora_page = corpora::ListCorporaResponse::decode(&*page).unwrap().next_page_token;
    Foreign {
        node: tops[0].id.clone(),
        entities: graph.entities.into_iter().map(|entity| entity.key).collect(),
        corpora_page,
        documents_page,
        // The documents and conversations are too small for a second page.
        chunks_page: Page::token_after("1:1"),
        users_page: Page::token_after("amy"),
        runs_page: Page::token_after(&format!("{}:{RUN}", i64::MAX)),
    }
}

/// Fails if a response contains anything that `acme` stores. It may repeat the name that was asked
/// for.
fn tells_nothing(path: &str, corpus: &str, said: &[u8]) {
    let text = String::from_utf8_lossy(said).to_lowercase().replace("got `zanzibar`", "");
    for secret in SECRETS {
        assert!(!text.contains(secret), "{path} of `{corpus}` tells of {secret}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_method_tells_or_changes_anything_of_another_tenant() {
    tells_and_changes_nothing_by(Way::Grpc).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_method_by_json_tells_or_changes_anything_of_another_tenant() {
    tells_and_changes_nothing_by(Way::Json).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_method_by_grpc_web_tells_or_changes_anything_of_another_tenant() {
    tells_and_changes_nothing_by(Way::GrpcWeb).await;
}

async fn tells_and_changes_nothing_by(way: Way) {
    let world = World::new();
    let server = world.serve();
    let acme = world.client(&server, "acme").await;
    let (notes, secrets) = (create(&acme, "notes").await, create(&acme, "secrets").await);
    let wire = world.services(&server, "acme", Way::Grpc).await;
    furnish(&acme, &wire, &notes).await;
    let foreign = furnish(&acme, &wire, &secrets).await;
    let other = world.client(&server, "other").await;
    let own = create(&other, "notes").await;
    remember(&other, &own, vec![document("own", "Bees are kept by many.")]).await;
    let wire = world.services(&server, "other", way).await;

    let covered: BTreeSet<_> = probes("", &foreign).into_iter().map(|(path, _)| path).collect();
    for (path, needs) in METHODS {
        if matches!(needs, RequiredAccess::Key(_)) && !OF_NO_CORPUS.contains(path) {
            assert!(covered.contains(path), "no probe of {path}");
        }
    }
    for corpus in
        ["acme.secrets", "acme.notes", ".secrets", "../acme.secrets", "", "secrets", "notes"]
    {
        for (path, message) in probes(corpus, &foreign) {
            match call(&wire, path, message).await {
                Ok(said) => {
                    let may_be = corpus == "notes"
                        || path.ends_with("/ListCorpora")
                        // Both need no corpus.
                        || (path.ends_with("/ListStrategies") && corpus.is_empty())
                        || (path.ends_with("/Embed") && corpus.is_empty())
                        || (path.ends_with("/CreateCorpus") && corpus == "secrets");
                    assert!(may_be, "{path} of `{corpus}` was answered");
                    tells_nothing(path, corpus, &said);
                }
                Err(status) => {
                    let needs_a_stream = way == Way::Json && path.ends_with("/Ingest");
                    let expected = [
                        if needs_a_stream { Code::Unimplemented } else { Code::NotFound },
                        Code::InvalidArgument,
                        Code::FailedPrecondition,
                        Code::AlreadyExists,
                    ];
                    assert!(expected.contains(&status.code()), "{path} of `{corpus}`: {status:?}");
                    tells_nothing(path, corpus, format!("{status:?}").as_bytes());
                }
            }
        }
    }
    for corpus in [&notes, &secrets] {
        assert_eq!(text_of(&acme, corpus, &SECRET_ID.parse().unwrap()).await, secret().text);
        assert_eq!(acme.corpus(corpus).await.unwrap().counts.unwrap().documents, 3);
        let run = acme.run(corpus, &RUN.parse().unwrap()).await.unwrap().run.unwrap();
        assert_eq!(run.reported[0].problem, PROBLEM);
    }

    // Methods that belong to no tenant need an operator.
    for (path, needs) in
        METHODS.iter().filter(|(_, needs)| matches!(needs, RequiredAccess::Operator(_)))
    {
        let refused = call(&wire, path, Vec::new()).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{path} {needs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_services_are_closed_to_everybody_else() {
    let world = World::new();
    let server = world.serve();
    let set = prost_types::FileDescriptorSet::decode(clew_proto::FILE_DESCRIPTOR_SET).unwrap();
    let mut tried = 0;
    let ways = Way::ALL.map(|way| ["operator", "acme"].map(|key| (way, key)));
    for (way, key) in ways.into_iter().flatten() {
        let wire = world.services(&server, key, way).await;
        // HTTP does not even know them.
        let closed = match way {
            Way::Grpc => Code::PermissionDenied,
            Way::Json | Way::GrpcWeb => Code::Unimplemented,
        };
        for file in &set.file {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                let paths =
                    service.method.iter().map(|method| format!("/{name}/{}", method.name()));
                for path in paths.filter(|path| is_for_nodes(path)) {
                    let refused = call(&wire, &path, Vec::new()).await.unwrap_err();
                    assert_eq!(refused.code(), closed, "{way:?}: {path}");
                    tried += 1;
                }
            }
        }
        let unknown =
            call(&wire, "/clew.query.v1.QueryService/Other", Vec::new()).await.unwrap_err();
        assert_eq!(unknown.code(), Code::Unimplemented);
    }
    assert!(tried > 120, "{tried}");
}
