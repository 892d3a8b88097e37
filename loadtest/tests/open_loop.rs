//! Tests of runs against a server in this process whose misbehaviour is known: the report must show
//! it.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clew_loadtest::{Observed, Report, RunPlan, Scenario, Target, run};
use clew_proto::corpus::v1 as corpus;
use clew_proto::corpus::v1::corpus_service_server::{CorpusService, CorpusServiceServer};
use clew_proto::ingest::v1 as ingest;
use clew_proto::ingest::v1::ingest_service_server::{IngestService, IngestServiceServer};
use clew_proto::query::v1 as query;
use clew_proto::query::v1::query_service_server::{QueryService, QueryServiceServer};
use clew_proto::to_status;
use futures::stream::Empty;
use futures::{Stream, StreamExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Way in which the server handles searches.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Finds the right passage at once.
    Good,
    /// Stalls for a second at the 50th search, for all callers.
    StallsOnce,
    /// Refuses every second search.
    RefusesHalf,
    /// Finds another passage.
    Wrong,
    /// Never answers.
    Silent,
    /// Forgets a document that it acknowledged.
    Loses,
}

/// Server that keeps texts in memory. Clones share them.
#[derive(Clone)]
struct Small {
    manner: Manner,
    texts: Arc<Mutex<Vec<(String, String)>>>,
    searches: Arc<AtomicUsize>,
    stalls_until: Arc<Mutex<Option<Instant>>>,
}

#[tonic::async_trait]
impl QueryService for Small {
    async fn search(
        &self,
        request: Request<query::SearchRequest>,
    ) -> Result<Response<query::SearchResponse>, Status> {
        let number = self.searches.fetch_add(1, Ordering::SeqCst);
        let stalls_until = {
            let mut stalls = self.stalls_until.lock().unwrap();
            if matches!(self.manner, Manner::StallsOnce) && number == 50 {
                *stalls = Some(Instant::now() + Duration::from_secs(1));
            }
            *stalls
        };
        match self.manner {
            Manner::RefusesHalf if number % 2 == 1 => {
                let again = Duration::from_millis(40);
                return Err(to_status(&clew_core::Error::exhausted("the queue", again)));
            }
            Manner::Silent => std::future::pending().await,
            _ => {}
        }
        if let Some(until) = stalls_until {
            tokio::time::sleep_until(until.into()).await;
        }
        // The person in the question, who is named in only one text.
        let question = request.into_inner().query;
        let person = question.split(' ').nth(2).unwrap();
        let texts = self.texts.lock().unwrap();
        let is_right = |(_, text): &&(String, String)| text.contains(person);
        let found = match self.manner {
            Manner::Wrong => texts.iter().find(|text| !is_right(text)),
            _ => texts.iter().find(is_right),
        };
        let document_id = found.unwrap().0.clone();
        let evidence = vec![query::Evidence { document_id, ..Default::default() }];
        let milliseconds =
            |number: i32| Some(clew_proto::Duration { seconds: 0, nanos: number * 1_000_000 });
        let timing = Some(query::Timing {
            total: milliseconds(9),
            queue: milliseconds(2),
            compute: milliseconds(3),
            store: milliseconds(4),
        });
        Ok(Response::new(query::SearchResponse { evidence, timing, ..Default::default() }))
    }

    async fn search_batch(
        &self,
        _request: Request<query::SearchBatchRequest>,
    ) -> Result<Response<query::SearchBatchResponse>, Status> {
        Err(Status::unimplemented("it searches for one question at a time"))
    }

    async fn embed(
        &self,
        _request: Request<query::EmbedRequest>,
    ) -> Result<Response<query::EmbedResponse>, Status> {
        Err(Status::unimplemented("it only searches"))
    }

    type AnswerStream = Answers<query::AnswerResponse>;

    async fn answer(
        &self,
        _request: Request<query::AnswerRequest>,
    ) -> Result<Response<Self::AnswerStream>, Status> {
        Err(Status::unimplemented("it only searches"))
    }

    async fn list_strategies(
        &self,
        _request: Request<query::ListStrategiesRequest>,
    ) -> Result<Response<query::ListStrategiesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

#[tonic::async_trait]
impl CorpusService for Small {
    async fn create_corpus(
        &self,
        _request: Request<corpus::CreateCorpusRequest>,
    ) -> Result<Response<corpus::CreateCorpusResponse>, Status> {
        let corpus = Some(corpus::Corpus::default());
        Ok(Response::new(corpus::CreateCorpusResponse { corpus }))
    }

    async fn get_corpus(
        &self,
        _request: Request<corpus::GetCorpusRequest>,
    ) -> Result<Response<corpus::GetCorpusResponse>, Status> {
        let corpus = Some(corpus::Corpus::default());
        Ok(Response::new(corpus::GetCorpusResponse { corpus }))
    }

    async fn list_corpora(
        &self,
        _request: Request<corpus::ListCorporaRequest>,
    ) -> Result<Response<corpus::ListCorporaResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn delete_corpus(
        &self,
        _request: Request<corpus::DeleteCorpusRequest>,
    ) -> Result<Response<corpus::DeleteCorpusResponse>, Status> {
        Ok(Response::new(corpus::DeleteCorpusResponse::default()))
    }

    async fn delete_snapshots(
        &self,
        _request: Request<corpus::DeleteSnapshotsRequest>,
    ) -> Result<Response<corpus::DeleteSnapshotsResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn check_corpus(
        &self,
        _request: Request<corpus::CheckCorpusRequest>,
    ) -> Result<Response<corpus::CheckCorpusResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    type SnapshotCorpusStream = Empty<Result<corpus::SnapshotCorpusResponse, Status>>;

    async fn snapshot_corpus(
        &self,
        _request: Request<corpus::SnapshotCorpusRequest>,
    ) -> Result<Response<Self::SnapshotCorpusStream>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn list_snapshots(
        &self,
        _request: Request<corpus::ListSnapshotsRequest>,
    ) -> Result<Response<corpus::ListSnapshotsResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn reembed_corpus(
        &self,
        _request: Request<corpus::ReembedCorpusRequest>,
    ) -> Result<Response<corpus::ReembedCorpusResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn get_reembedding(
        &self,
        _request: Request<corpus::GetReembeddingRequest>,
    ) -> Result<Response<corpus::GetReembeddingResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    type RestoreCorpusStream = Empty<Result<corpus::RestoreCorpusResponse, Status>>;

    async fn restore_corpus(
        &self,
        _request: Request<corpus::RestoreCorpusRequest>,
    ) -> Result<Response<Self::RestoreCorpusStream>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    type ExportCorpusStream = Empty<Result<corpus::ExportCorpusResponse, Status>>;

    async fn export_corpus(
        &self,
        _request: Request<corpus::ExportCorpusRequest>,
    ) -> Result<Response<Self::ExportCorpusStream>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

#[tonic::async_trait]
impl IngestService for Small {
    type IngestStream = Answers<ingest::IngestResponse>;

    async fn ingest(
        &self,
        request: Request<Streaming<ingest::IngestRequest>>,
    ) -> Result<Response<Self::IngestStream>, Status> {
        use ingest::ingest_request::Payload;
        let server = self.clone();
        let answers = request.into_inner().map(move |message| {
            let Some(Payload::Document(document)) = message?.payload else {
                return Err(Status::unimplemented("it takes short texts"));
            };
            let text = String::from_utf8(document.text.to_vec()).unwrap();
            server.texts.lock().unwrap().push((document.id.clone(), text));
            let accepted = ingest::ingest_response::Result::Accepted(ingest::Accepted::default());
            Ok(ingest::IngestResponse { document_id: document.id, result: Some(accepted) })
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn ingest_documents(
        &self,
        _request: Request<ingest::IngestDocumentsRequest>,
    ) -> Result<Response<ingest::IngestDocumentsResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn list_chunks(
        &self,
        _request: Request<ingest::ListChunksRequest>,
    ) -> Result<Response<ingest::ListChunksResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn get_document(
        &self,
        _request: Request<ingest::GetDocumentRequest>,
    ) -> Result<Response<ingest::GetDocumentResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn list_documents(
        &self,
        _request: Request<ingest::ListDocumentsRequest>,
    ) -> Result<Response<ingest::ListDocumentsResponse>, Status> {
        let texts = self.texts.lock().unwrap();
        let state = |(id, _): &(String, String)| ingest::DocumentState {
            id: id.clone(),
            ..Default::default()
        };
        let lost = usize::from(matches!(self.manner, Manner::Loses));
        let documents = texts.iter().skip(lost).map(state).collect();
        Ok(Response::new(ingest::ListDocumentsResponse { documents, ..Default::default() }))
    }

    type WatchIngestionStream = Answers<ingest::WatchIngestionResponse>;

    async fn watch_ingestion(
        &self,
        _request: Request<ingest::WatchIngestionRequest>,
    ) -> Result<Response<Self::WatchIngestionStream>, Status> {
        Ok(Response::new(futures::stream::empty().boxed()))
    }

    async fn forget_documents(
        &self,
        request: Request<ingest::ForgetDocumentsRequest>,
    ) -> Result<Response<ingest::ForgetDocumentsResponse>, Status> {
        let ids = request.into_inner().document_ids;
        self.texts.lock().unwrap().retain(|(id, _)| !ids.contains(id));
        let forgotten = |document_id| ingest::ForgottenDocument {
            document_id,
            found: true,
            ..Default::default()
        };
        let documents = ids.into_iter().map(forgotten).collect();
        let receipt =
            ingest::ForgetDocumentsResponse { documents, verified: true, ..Default::default() };
        Ok(Response::new(receipt))
    }

    async fn estimate_ingestion(
        &self,
        _request: Request<ingest::EstimateIngestionRequest>,
    ) -> Result<Response<ingest::EstimateIngestionResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn report_run(
        &self,
        _request: Request<ingest::ReportRunRequest>,
    ) -> Result<Response<ingest::ReportRunResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn get_run(
        &self,
        _request: Request<ingest::GetRunRequest>,
    ) -> Result<Response<ingest::GetRunResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn list_runs(
        &self,
        _request: Request<ingest::ListRunsRequest>,
    ) -> Result<Response<ingest::ListRunsResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn delete_run(
        &self,
        _request: Request<ingest::DeleteRunRequest>,
    ) -> Result<Response<ingest::DeleteRunResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

/// Serves as long as the test runs, and returns the address.
async fn serve(manner: Manner) -> String {
    let server = Small {
        manner,
        texts: Arc::default(),
        searches: Arc::default(),
        stalls_until: Arc::default(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tonic::transport::Server::builder()
        .add_service(CorpusServiceServer::new(server.clone()))
        .add_service(IngestServiceServer::new(server.clone()))
        .add_service(QueryServiceServer::new(server))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serving);
    format!("http://{address}")
}

/// Returns a scenario of searches, extended by `more`.
fn scenario(per_sec: u32, secs: u32, more: &str) -> Scenario {
    let text = format!(
        r#"
        title = "small"
        arrivals = "uniform"
        settle_secs = 0
        corpus = {{ documents = 20 }}
        flows = [{{ name = "find", act = {{ search = {{}} }}, in_flight = 200, deadline_ms = 4000 }}]
        phases = [{{ name = "only", secs = {secs}, per_sec = {{ find = {per_sec} }} }}]
        {more}
        "#
    );
    Scenario::parse(&text).unwrap()
}

async fn report_of(manner: Manner, scenario: Scenario) -> Report {
    let (_go_on, stop) = watch::channel(false);
    report_until(manner, scenario, stop).await
}

async fn report_until(manner: Manner, scenario: Scenario, stop: watch::Receiver<bool>) -> Report {
    let target = Target { endpoint: serve(manner).await, ..Target::default() };
    let observed = Observed::default();
    let plan = RunPlan { scenario, target, observed, replace: false, keep: false };
    Box::pin(run(plan, stop, &|_line| {})).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_shows_in_the_latency_of_everything_that_was_due_in_it() {
    let report = report_of(Manner::StallsOnce, scenario(100, 2, "")).await;
    let flow = &report.phases[0].flows[0];
    assert_eq!((flow.scheduled, flow.done), (200, 200));
    // Half of the requests were due within the second, the first of them a second before its end.
    // If each request waited for the one before, only one in a hundred would be slow.
    assert!(flow.latency.p90_ms > 500.0, "{:?}", flow.latency);
    assert!(flow.latency.max_ms > 900.0, "{:?}", flow.latency);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_counted_by_status_with_their_delay() {
    let expect = "expect = [{ only_refusals = {} }, { no_failures = {} }, { kept = {} }]";
    let report = report_of(Manner::RefusesHalf, scenario(100, 1, expect)).await;
    let flow = &report.phases[0].flows[0];
    assert_eq!((flow.done, flow.refused, flow.failed), (50, 50, 0));
    let refusal = flow.statuses.iter().find(|status| status.status.is_refusal()).unwrap();
    assert_eq!((refusal.count, refusal.least_delay_ms), (50, Some(40.0)));
    let holds: Vec<bool> = report.verdicts.iter().map(|verdict| verdict.holds).collect();
    assert_eq!(holds, [true, false, true]);
    assert!(!report.holds());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_time_is_told_by_parts() {
    let report = report_of(Manner::Good, scenario(50, 1, "")).await;
    let flow = &report.phases[0].flows[0];
    assert_eq!(flow.right_share, Some(1.0));
    let part = |name: &str| flow.parts.iter().find(|part| part.part == name).unwrap().time.p50_ms;
    // Histograms keep three digits.
    for (name, expected) in [("queue", 2.0), ("compute", 3.0), ("store", 4.0), ("rest", 0.0)] {
        assert!((part(name) - expected).abs() < 0.01, "{name}: {}", part(name));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fast_wrong_answers_are_wrong() {
    let expect =
        "expect = [{ correct = { flow = \"find\", at_least = 0.5 } }, { no_failures = {} }]";
    let report = report_of(Manner::Wrong, scenario(50, 1, expect)).await;
    let flow = &report.phases[0].flows[0];
    assert_eq!((flow.done, flow.wrong), (50, 50));
    let holds: Vec<bool> = report.verdicts.iter().map(|verdict| verdict.holds).collect();
    assert_eq!(holds, [false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_client_did_not_send_is_counted() {
    let mut scenario = scenario(50, 1, "");
    scenario.flows[0].in_flight = 5;
    scenario.flows[0].deadline_ms = 1500;
    let report = report_of(Manner::Silent, scenario).await;
    let flow = &report.phases[0].flows[0];
    assert_eq!((flow.scheduled, flow.sent, flow.done, flow.failed), (50, 5, 0, 5));
    assert_eq!(flow.not_sent, [("not sent: client limit".to_owned(), 45)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_and_lost_is_found_out() {
    let report = report_of(Manner::Loses, scenario(5, 1, "expect = [{ kept = {} }]")).await;
    assert_eq!((report.kept[0].expected, report.kept[0].lost), (20, 1));
    assert!(!report.holds());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_at_its_limit_of_requests() {
    let report = report_of(Manner::Good, scenario(50, 60, "request_limit = 20")).await;
    assert_eq!(report.phases[0].flows[0].sent, 20);
    assert!(report.ended_early.contains("20 requests"), "{}", report.ended_early);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_interrupted_tells_what_came_before() {
    let (interrupt, stop) = watch::channel(false);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        interrupt.send_replace(true);
    });
    let report = report_until(Manner::Good, scenario(50, 3600, ""), stop).await;
    assert!(report.ended_early.contains("interrupted"), "{}", report.ended_early);
    assert!(report.phases[0].flows[0].done > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ladder_ends_beyond_saturation() {
    // The server never keeps up: the first step is already beyond saturation.
    let text = r#"
        title = "small"
        arrivals = "uniform"
        settle_secs = 0
        corpus = { documents = 20 }
        flows = [{ name = "find", act = { search = {} } }]
        ladder = { flow = "find", first_per_sec = 20, factor = 2, step_secs = 1, most_steps = 9, steps_beyond = 1 }
        expect = [{ saturated = { flow = "find" } }]
    "#;
    let report = report_of(Manner::RefusesHalf, Scenario::parse(text).unwrap()).await;
    let names: Vec<&str> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["20/s", "40/s"]);
    assert!(report.holds());
}
