//! Tests of requests that are refused over gRPC, as no well-behaved client would send them.

use std::future::Future;

use clew_core::Limits;
use clew_proto::corpus::v1::{self as corpora, chunking::Strategy};
use clew_proto::ingest::v1::ingest_request::Payload;
use clew_proto::ingest::v1::{self as ingest, ingest_response::Result as Outcome};
use clew_proto::query::v1 as queries;
use tonic::Code;

use super::raw::{Raw, Refusal, begin};
use super::{Holdings, assert_furnished, furnish};
use crate::harness::Home;

/// Size of a part of a long text in bytes.
const PART_BYTES: usize = 1 << 20;

/// Runs `refuse` on a furnished server and fails if it changed anything.
async fn on_a_server<F: Future<Output = ()>>(refuse: impl FnOnce(Raw) -> F) {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    furnish(&client).await;
    let before = Holdings::of(&client).await;
    refuse(Raw::to(&server).await).await;
    assert_eq!(Holdings::of(&client).await, before, "a refused request changed something");
    assert_furnished(&client).await;
}

fn with_document(change: impl FnOnce(&mut ingest::Document)) -> ingest::IngestRequest {
    let mut request = begin("new", "Some text.");
    if let Some(Payload::Document(document)) = &mut request.payload {
        change(document);
    }
    request
}

/// Returns the messages of a document in parts that together exceed the limit by a few bytes.
fn oversized() -> Vec<ingest::IngestRequest> {
    let text = "a tale of a river ".repeat(Limits::default().document_bytes / 18 + 1);
    let mut parts = text.as_bytes().chunks(PART_BYTES);
    let mut messages = vec![begin("oversized", parts.next().unwrap())];
    messages.extend(parts.map(|part| ingest::IngestRequest {
        payload: Some(Payload::TextPart(part.to_vec().into())),
        ..Default::default()
    }));
    let last = messages.len() - 1;
    messages[..last].iter_mut().for_each(|message| message.continues = true);
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_documents_are_refused_one_by_one_and_the_stream_goes_on() {
    let attribute = |name: &str| ingest::Attribute { name: name.to_owned(), ..Default::default() };
    let infinite = ingest::Value { kind: Some(ingest::value::Kind::Number(f64::INFINITY)) };
    let infinite = ingest::Attribute { typed: Some(infinite), ..attribute("a") };
    let cases: Vec<(&str, Vec<ingest::IngestRequest>, &str)> = vec![
        ("empty text", vec![begin("new", "")], "document.text"),
        ("white space only", vec![begin("new", " \n\t ")], "document.text"),
        ("beyond 16 MiB, in parts", oversized(), "document.text"),
        ("invalid UTF-8", vec![begin("new", b"caf\xff".as_slice())], "document.text"),
        ("no id", vec![begin("", "Some text.")], "document.id"),
        ("line break in the id", vec![begin("a\nb", "Some text.")], "document.id"),
        ("id too long", vec![begin(&"x".repeat(513), "Some text.")], "document.id"),
        (
            "picture",
            vec![with_document(|d| d.media_type = "image/png".into())],
            "document.media_type",
        ),
        (
            "line break in the title",
            vec![with_document(|d| d.title = "a\nb".into())],
            "document.title",
        ),
        (
            "bad attribute name",
            vec![with_document(|d| d.attributes = vec![attribute("a b")])],
            "document.attributes",
        ),
        (
            "attribute twice",
            vec![with_document(|d| d.attributes = vec![attribute("a"), attribute("a")])],
            "document.attributes",
        ),
        (
            "attribute without a value",
            vec![with_document(|d| {
                let typed = Some(ingest::Value::default());
                d.attributes = vec![ingest::Attribute { typed, ..attribute("a") }];
            })],
            "document.attributes",
        ),
        (
            "infinite attribute",
            vec![with_document(|d| d.attributes = vec![infinite.clone()])],
            "document.attributes",
        ),
        (
            "impossible time",
            vec![with_document(|d| {
                d.event_time = Some(clew_proto::Timestamp { seconds: 0, nanos: -1 });
            })],
            "document.event_time",
        ),
        (
            "capital in a label",
            vec![with_document(|d| d.labels = vec!["Secret".into()])],
            "document.labels",
        ),
        (
            "17 labels",
            vec![with_document(|d| d.labels = (0..17).map(|n| n.to_string()).collect())],
            "document.labels",
        ),
    ];
    on_a_server(|raw| async move {
        for (case, messages, field) in cases {
            // The document after the refused one is stored already, so it changes nothing.
            let behind = super::kept(0);
            let behind = begin(behind.id.as_str(), behind.text);
            let (responses, status) = raw.send([messages, vec![behind]].concat()).await;
            assert!(status.is_none(), "{case}: {status:?}");
            let [refused, accepted] = responses.as_slice() else { panic!("{case}: {responses:?}") };
            let Some(Outcome::Refused(refused)) = &refused.result else {
                panic!("{case} was taken")
            };
            let fields: Vec<&str> = refused.violations.iter().map(|v| v.field.as_str()).collect();
            assert_eq!((refused.reason.as_str(), fields), ("INVALID_INPUT", vec![field]), "{case}");
            assert!(!refused.retryable && !refused.message.is_empty(), "{case}: {refused:?}");
            let unchanged = matches!(&accepted.result, Some(Outcome::Accepted(a)) if a.unchanged);
            assert!(unchanged, "{case}: {accepted:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_comes_twice_in_a_stream_is_refused_the_second_time() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    furnish(&client).await;
    let raw = Raw::to(&server).await;
    let (responses, status) = raw.send(vec![begin("new", "First."), begin("new", "Second.")]).await;
    assert!(status.is_none(), "{status:?}");
    let [first, second] = responses.as_slice() else { panic!("{responses:?}") };
    assert!(matches!(first.result, Some(Outcome::Accepted(_))), "{first:?}");
    let Some(Outcome::Refused(refused)) = &second.result else { panic!("{second:?}") };
    assert_eq!(refused.violations[0].field, "document.id");
    let (stored, _) =
        client.document(&crate::client::corpus("notes"), &"new".parse().unwrap()).await.unwrap();
    assert_eq!(stored.text.as_ref(), b"First.", "the refused one was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_makes_no_sense_is_broken_off() {
    let part = |text: &str, continues| ingest::IngestRequest {
        payload: Some(Payload::TextPart(text.as_bytes().to_vec().into())),
        continues,
        ..Default::default()
    };
    let named = |name: &str, request: ingest::IngestRequest| ingest::IngestRequest {
        corpus: name.to_owned(),
        ..request
    };
    let announced = || ingest::IngestRequest { continues: true, ..begin("new", "Some text.") };
    let unknown = Refusal { code: Code::NotFound, reason: "NOT_FOUND".into(), fields: Vec::new() };
    let kept = super::kept(0);
    let kept = || begin(kept.id.as_str(), kept.text.clone());
    let cases = vec![
        ("unknown corpus", vec![named("nowhere", begin("new", "x"))], unknown),
        ("no corpus", vec![named("", begin("new", "x"))], Refusal::invalid("corpus")),
        ("bad name", vec![named("../etc", begin("new", "x"))], Refusal::invalid("corpus")),
        (
            "two corpora",
            vec![kept(), named("other", begin("new", "x"))],
            Refusal::invalid("corpus"),
        ),
        (
            "text without document",
            vec![named("notes", part("x", false))],
            Refusal::invalid("text_part"),
        ),
        (
            "nothing",
            vec![named("notes", ingest::IngestRequest::default())],
            Refusal::invalid("payload"),
        ),
        ("no end", vec![announced()], Refusal::invalid("payload")),
        ("cut by another", vec![announced(), begin("x", "y")], Refusal::invalid("payload")),
    ];
    on_a_server(|raw| async move {
        for (case, messages, expected) in cases {
            let (_, status) = raw.send(messages).await;
            let status = status.unwrap_or_else(|| panic!("{case}: it went on"));
            assert_eq!(Refusal::of(&status), expected, "{case}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_corpora_are_refused() {
    let chunking = |strategy| Some(corpora::Chunking { strategy });
    let sentences =
        |max_tokens| Some(Strategy::Sentences(corpora::SentenceChunking { max_tokens }));
    let tokens = |max_tokens, overlap_tokens| {
        Some(Strategy::Tokens(corpora::TokenChunking { max_tokens, overlap_tokens }))
    };
    let new = |name: &str, shards, chunking| corpora::CreateCorpusRequest {
        name: name.to_owned(),
        shards,
        chunking,
        ..Default::default()
    };
    let exists =
        Refusal { code: Code::AlreadyExists, reason: "CORPUS_EXISTS".into(), fields: Vec::new() };
    let size = "corpus.chunking.max_tokens";
    let cases = vec![
        ("exists", new("notes", 1, None), exists),
        ("no name", new("", 1, None), Refusal::invalid("corpus")),
        ("a path", new("../etc", 1, None), Refusal::invalid("corpus")),
        ("too many shards", new("new", 257, None), Refusal::invalid("corpus.shards")),
        ("beyond the window", new("new", 1, chunking(sentences(65))), Refusal::invalid(size)),
        ("too short chunks", new("new", 1, chunking(sentences(15))), Refusal::invalid(size)),
        (
            "more overlap than half",
            new("new", 1, chunking(tokens(40, 21))),
            Refusal::invalid("corpus.chunking.overlap_tokens"),
        ),
        (
            "no way of cutting",
            new("new", 1, chunking(None)),
            Refusal::invalid("corpus.chunking.strategy"),
        ),
    ];
    on_a_server(|mut raw| async move {
        for (case, request, expected) in cases {
            let status = raw.corpora.create_corpus(request).await.expect_err(case);
            assert_eq!(Refusal::of(&status), expected, "{case}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_are_refused() {
    let query = || queries::SearchRequest {
        corpus: "notes".to_owned(),
        query: "cat".to_owned(),
        ..Default::default()
    };
    let filter = queries::Filter {
        document_ids: vec!["a".to_owned(), "a".to_owned()],
        ..Default::default()
    };
    let at = |seconds| Some(clew_proto::Timestamp { seconds, nanos: 0 });
    let backwards =
        queries::Filter { event_time_from: at(2), event_time_until: at(1), ..Default::default() };
    let long = "x".repeat(Limits::default().query_bytes + 1);
    let searches = vec![
        ("k of 0", queries::SearchRequest { k: Some(0), ..query() }, "k"),
        ("k of a million", queries::SearchRequest { k: Some(1_000_000), ..query() }, "k"),
        ("no words", queries::SearchRequest { query: " ".into(), ..query() }, "query"),
        ("too many words", queries::SearchRequest { query: long, ..query() }, "query"),
        ("unknown mode", queries::SearchRequest { mode: 17, ..query() }, "mode"),
        ("unknown grouping", queries::SearchRequest { grouping: 9, ..query() }, "grouping"),
        (
            "id twice in the filter",
            queries::SearchRequest { filter: Some(filter), ..query() },
            "filter.document_ids[1]",
        ),
        (
            "time that runs backwards",
            queries::SearchRequest { filter: Some(backwards), ..query() },
            "filter.event_time",
        ),
        (
            "no token of a page",
            queries::SearchRequest { page_token: "not a token".into(), ..query() },
            "page_token",
        ),
        (
            "page of a reranked search",
            queries::SearchRequest { page_token: "0a".into(), rerank: Some(20), ..query() },
            "page_token",
        ),
    ];
    let of = |searches: Vec<queries::SearchRequest>| queries::SearchBatchRequest {
        corpus: "notes".to_owned(),
        searches,
    };
    let elsewhere = queries::SearchRequest { corpus: "other".to_owned(), ..query() };
    let many = queries::SearchRequest { k: Some(501), ..query() };
    let further = queries::SearchRequest { page_token: "0a".to_owned(), ..query() };
    let batches = vec![
        ("no search", of(Vec::new()), "searches"),
        ("too many searches", of(vec![query(); 33]), "searches"),
        ("too many items together", of(vec![many; 2]), "searches"),
        (
            "a bad one among others",
            of(vec![query(), queries::SearchRequest { k: Some(0), ..query() }]),
            "searches[1].k",
        ),
        ("one of another corpus", of(vec![query(), elsewhere]), "searches[1].corpus"),
        ("a further page", of(vec![query(), further]), "searches[1].page_token"),
    ];
    let question = || queries::AnswerRequest {
        corpus: "notes".to_owned(),
        question: "who?".to_owned(),
        ..Default::default()
    };
    let questions = vec![
        (
            "unknown strategy",
            queries::AnswerRequest { strategy: "oracle".into(), ..question() },
            "strategy",
        ),
        ("k of 0", queries::AnswerRequest { k: Some(0), ..question() }, "k"),
        ("k of a million", queries::AnswerRequest { k: Some(1_000_000), ..question() }, "k"),
        ("another task", queries::AnswerRequest { task: 9, ..question() }, "task"),
        ("another use", queries::AnswerRequest { memory_use: 9, ..question() }, "memory_use"),
        (
            "no tokens",
            queries::AnswerRequest { evidence_tokens: Some(0), ..question() },
            "evidence_tokens",
        ),
        ("no question", queries::AnswerRequest { question: "\n".into(), ..question() }, "question"),
    ];
    on_a_server(|mut raw| async move {
        for (case, request, field) in searches {
            let status = raw.queries.search(request).await.expect_err(case);
            assert_eq!(Refusal::of(&status), Refusal::invalid(field), "{case}");
        }
        for (case, request, field) in batches {
            let status = raw.queries.search_batch(request).await.expect_err(case);
            assert_eq!(Refusal::of(&status), Refusal::invalid(field), "{case}");
        }
        for (case, request, field) in questions {
            let status = raw.queries.answer(request).await.expect_err(case);
            assert_eq!(Refusal::of(&status), Refusal::invalid(field), "{case}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_about_documents_are_refused() {
    let forget = |ids: Vec<String>| ingest::ForgetDocumentsRequest {
        corpus: "notes".to_owned(),
        document_ids: ids,
        ..Default::default()
    };
    let selected = |filter: queries::Filter| ingest::ForgetDocumentsRequest {
        filter: Some(filter),
        ..forget(Vec::new())
    };
    let of_nothing = queries::Filter {
        condition: Some(queries::Condition::default()),
        ..queries::Filter::default()
    };
    let by_id = queries::Filter { document_ids: vec!["kept-0".into()], ..Default::default() };
    let many = (0..1001).map(|i| i.to_string()).collect();
    let forgettings = vec![
        ("id twice", forget(vec!["kept-0".into(), "kept-0".into()]), "document_ids[1]"),
        ("no ids", forget(Vec::new()), "document_ids"),
        ("too many ids", forget(many), "document_ids"),
        ("empty id among others", forget(vec!["kept-0".into(), String::new()]), "document_ids[1]"),
        ("a filter of everything", selected(queries::Filter::default()), "filter"),
        ("a condition of nothing", selected(of_nothing.clone()), "filter.condition"),
        (
            "ids and a filter",
            ingest::ForgetDocumentsRequest {
                document_ids: vec!["kept-0".into()],
                ..selected(by_id)
            },
            "document_ids",
        ),
        (
            "line break in the prefix",
            ingest::ForgetDocumentsRequest { id_prefix: "a\n".into(), ..forget(Vec::new()) },
            "id_prefix",
        ),
    ];
    let list = || ingest::ListDocumentsRequest { corpus: "notes".to_owned(), ..Default::default() };
    let lists = vec![
        ("page too large", ingest::ListDocumentsRequest { page_size: 1001, ..list() }, "page_size"),
        (
            "token of no one",
            ingest::ListDocumentsRequest { page_token: "zz".into(), ..list() },
            "page_token",
        ),
        ("unknown stage", ingest::ListDocumentsRequest { stage: 42, ..list() }, "stage"),
        (
            "condition of nothing",
            ingest::ListDocumentsRequest { filter: Some(of_nothing), ..list() },
            "filter.condition",
        ),
        (
            "prefix too long",
            ingest::ListDocumentsRequest { id_prefix: "x".repeat(513), ..list() },
            "id_prefix",
        ),
    ];
    on_a_server(|mut raw| async move {
        for (case, request, field) in forgettings {
            let status = raw.ingest.forget_documents(request).await.expect_err(case);
            assert_eq!(Refusal::of(&status), Refusal::invalid(field), "{case}");
        }
        for (case, request, field) in lists {
            let status = raw.ingest.list_documents(request).await.expect_err(case);
            assert_eq!(Refusal::of(&status), Refusal::invalid(field), "{case}");
        }
        let estimate = ingest::EstimateIngestionRequest {
            corpus: "notes".to_owned(),
            samples: vec![b"ok".to_vec().into(), b"\xff".to_vec().into()],
            ..Default::default()
        };
        let status = raw.ingest.estimate_ingestion(estimate).await.expect_err("sample");
        assert_eq!(Refusal::of(&status), Refusal::invalid("samples[1]"));
        let unnamed = ingest::Document { text: b"ok".to_vec().into(), ..Default::default() };
        let estimate = ingest::EstimateIngestionRequest {
            corpus: "notes".to_owned(),
            sample_documents: vec![unnamed],
            ..Default::default()
        };
        let status = raw.ingest.estimate_ingestion(estimate).await.expect_err("sample");
        assert_eq!(Refusal::of(&status), Refusal::invalid("sample_documents[0].id"));
        let estimate = ingest::EstimateIngestionRequest {
            corpus: "notes".to_owned(),
            documents: 1,
            text_bytes: u64::MAX,
            ..Default::default()
        };
        let status = raw.ingest.estimate_ingestion(estimate).await.expect_err("bytes");
        assert_eq!(Refusal::of(&status), Refusal::invalid("text_bytes"));
        let nameless =
            ingest::EstimateIngestionRequest { new_if_missing: true, ..Default::default() };
        let status = raw.ingest.estimate_ingestion(nameless).await.expect_err("no corpus");
        assert_eq!(Refusal::of(&status), Refusal::invalid("corpus"));
        let beyond = ingest::GetDocumentRequest {
            corpus: "notes".to_owned(),
            document_id: "kept-0".to_owned(),
            text_offset: u64::MAX,
        };
        let status = raw.ingest.get_document(beyond).await.expect_err("offset");
        assert_eq!(Refusal::of(&status), Refusal::invalid("text_offset"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_not_found() {
    on_a_server(|mut raw| async move {
        let nowhere = || "nowhere".to_owned();
        let some = || "kept-0".to_owned();
        let statuses = [
            raw.corpora.get_corpus(corpora::GetCorpusRequest { name: nowhere() }).await.err(),
            raw.corpora.delete_corpus(corpora::DeleteCorpusRequest { name: nowhere() }).await.err(),
            raw.queries
                .search(queries::SearchRequest {
                    corpus: nowhere(),
                    query: "cat".to_owned(),
                    ..Default::default()
                })
                .await
                .err(),
            raw.queries
                .search_batch(queries::SearchBatchRequest {
                    corpus: nowhere(),
                    searches: vec![queries::SearchRequest {
                        query: "cat".to_owned(),
                        ..Default::default()
                    }],
                })
                .await
                .err(),
            raw.queries
                .answer(queries::AnswerRequest {
                    corpus: nowhere(),
                    question: "who?".to_owned(),
                    ..Default::default()
                })
                .await
                .err(),
            raw.ingest
                .get_document(ingest::GetDocumentRequest {
                    corpus: nowhere(),
                    document_id: some(),
                    text_offset: 0,
                })
                .await
                .err(),
            raw.ingest
                .get_document(ingest::GetDocumentRequest {
                    corpus: "notes".to_owned(),
                    document_id: "absent".to_owned(),
                    text_offset: 0,
                })
                .await
                .err(),
            raw.ingest
                .list_documents(ingest::ListDocumentsRequest {
                    corpus: nowhere(),
                    ..Default::default()
                })
                .await
                .err(),
            raw.ingest
                .watch_ingestion(ingest::WatchIngestionRequest {
                    corpus: nowhere(),
                    until_idle: true,
                })
                .await
                .err(),
            raw.ingest
                .forget_documents(ingest::ForgetDocumentsRequest {
                    corpus: nowhere(),
                    document_ids: vec![some()],
                    ..Default::default()
                })
                .await
                .err(),
            raw.ingest
                .estimate_ingestion(ingest::EstimateIngestionRequest {
                    corpus: nowhere(),
                    ..Default::default()
                })
                .await
                .err(),
        ];
        for (i, status) in statuses.into_iter().enumerate() {
            let status = status.unwrap_or_else(|| panic!("call {i} was answered"));
            let refusal = Refusal::of(&status);
            assert_eq!((refusal.code, refusal.reason.as_str()), (Code::NotFound, "NOT_FOUND"));
        }
    })
    .await;
}
