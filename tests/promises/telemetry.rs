//! Tests of telemetry: traces that a collector receives, metrics that Prometheus reads, health that
//! probes ask for, and logs.

mod collector;
mod scrape;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clew_testkit::{ModelEndpoint, ModelReply};
use serde_json::Value;

use crate::client::{accept, by_words, create, create_in_shards, document, id, remember};
use crate::cluster::free_address;
use crate::harness::{Home, PATIENCE, Ran, Server, eventually};
use crate::processes::Cluster;
use crate::words::{text_with, word};
use collector::{Collector, Span};
use scrape::{get, parse};

/// Document of these tests, and a question that it answers.
const TEXT: &str = "The lighthouse keeper of Skerryvore counts seventeen puffins at dawn.";
const QUESTION: &str = "How many puffins does the lighthouse keeper count?";

#[tokio::test(flavor = "multi_thread")]
async fn a_document_and_a_question_are_one_trace_each_through_every_service() {
    let collector = Collector::start().await;
    let settings = vec![
        ("CLEW_TELEMETRY__OTLP_ENDPOINT", collector.endpoint()),
        ("CLEW_TELEMETRY__METRICS_INTERVAL_SECS", "1".to_owned()),
        ("CLEW_ADMIN__LISTEN", "127.0.0.1:0".to_owned()),
    ];
    let cluster = Cluster::start_with(1, settings).await;
    let client = cluster.client().await;
    create_in_shards(&client, "notes", 1).await;
    let config = format!("[telemetry]\notlp_endpoint = \"{}\"\n", collector.endpoint());
    let config = cluster.write("telemetry.toml", &config);
    let file = cluster.write("keeper.txt", TEXT);

    let ingested = cluster.run(&["ingest", "--corpus", "notes", &file, "--config", &config]);
    assert_eq!(ingested.code, Some(0), "{ingested:?}");
    let expected = [
        ("clew-cli", "clew.ingest.v1.IngestService/Ingest"),
        ("clew-gateway", "clew.ingest.v1.IngestService/Ingest"),
        ("clew-gateway", "ingest.document"),
        ("clew-gateway", "clew.shard.v1.ShardService/Accept"),
        ("clew-retriever", "clew.shard.v1.ShardService/Accept"),
        ("clew-retriever", "shard.accept"),
        ("clew-retriever", "shard.commit"),
    ];
    let trace = trace_with(&collector, &expected).await;
    trace.goes(&expected);
    // Deriving, which happens later, continues the trace.
    trace.goes(&[
        ("clew-retriever", "shard.accept"),
        ("clew-retriever", "shard.derive"),
        ("clew-retriever", "embed"),
        ("clew-encoder", "clew.encoder.v1.EncoderService/Embed"),
        ("clew-encoder", "encode"),
        ("clew-encoder", "encode.compute"),
    ]);
    trace.goes(&[("clew-retriever", "shard.derive"), ("clew-retriever", "shard.commit")]);
    trace.goes(&[("clew-retriever", "shard.accept"), ("clew-retriever", "shard.queue")]);

    let asked = cluster.run(&["ask", "--corpus", "notes", QUESTION, "--config", &config]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let expected = [
        ("clew-cli", "clew.query.v1.QueryService/Answer"),
        ("clew-gateway", "clew.query.v1.QueryService/Answer"),
        ("clew-gateway", "answer"),
        ("clew-gateway", "step.search"),
        ("clew-gateway", "search"),
        ("clew-gateway", "clew.shard.v1.ShardService/FindCandidates"),
        ("clew-retriever", "clew.shard.v1.ShardService/FindCandidates"),
        ("clew-retriever", "shard.search"),
    ];
    let trace = trace_with(&collector, &expected).await;
    trace.goes(&expected);
    trace.goes(&[
        ("clew-gateway", "search"),
        ("clew-gateway", "embed"),
        ("clew-encoder", "clew.encoder.v1.EncoderService/Embed"),
        ("clew-encoder", "encode"),
        ("clew-encoder", "encode.queue"),
    ]);
    trace.goes(&[
        ("clew-gateway", "answer"),
        ("clew-gateway", "step.read"),
        ("clew-gateway", "clew.generator.v1.GeneratorService/Read"),
        ("clew-generator", "clew.generator.v1.GeneratorService/Read"),
    ]);

    eventually("metrics come, too", async || {
        let metrics = collector.metrics();
        metrics.iter().any(|name| name == "clew_rpc_requests").then_some(())
    })
    .await;
    for span in collector.spans() {
        for (key, value) in &span.attributes {
            for word in TEXT.split(' ').chain(QUESTION.split(' ')).filter(|word| word.len() > 5) {
                assert!(!value.contains(word), "{}: {key} = {value}", span.name);
            }
        }
    }
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_are_committed_together_each_have_the_commit_in_their_trace() {
    let collector = Collector::start().await;
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_TELEMETRY__OTLP_ENDPOINT", collector.endpoint());
    let server = Server::start(command);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let documents = (0..20).map(|i| document(&format!("d{i}"), text_with(&[&word('c', i)])));
    remember(&client, &notes, documents.collect()).await;
    let spans = eventually("all commits are told of", async || {
        let spans = collector.spans();
        let accepts = spans.iter().filter(|span| span.name == "shard.accept").count();
        (accepts == 20).then_some(spans)
    })
    .await;
    let accepts: BTreeSet<&str> =
        spans.iter().filter(|s| s.name == "shard.accept").map(|s| s.id.as_str()).collect();
    let commits: Vec<&Span> = spans
        .iter()
        .filter(|span| span.name == "shard.commit" && accepts.contains(span.parent.as_str()))
        .collect();
    assert_eq!(commits.len(), 20, "one for each document");
    // Of the commits in one batch, all but the first link to the first.
    let firsts: BTreeSet<&str> =
        commits.iter().flat_map(|span| &span.links).map(String::as_str).collect();
    assert!(firsts.iter().all(|first| commits.iter().any(|span| span.id == *first)));
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_reads_all_that_alerts_and_dashboards_ask_about() {
    let collector = Collector::start().await;
    let model = ModelEndpoint::start().unwrap();
    model.reply_by(|_| ModelReply::Text("Seventeen.".to_owned()));
    let settings = vec![
        ("CLEW_TELEMETRY__OTLP_ENDPOINT", collector.endpoint()),
        ("CLEW_ADMIN__LISTEN", "127.0.0.1:0".to_owned()),
        ("CLEW_HTTP__LISTEN", "127.0.0.1:0".to_owned()),
        ("CLEW_GENERATOR__ENDPOINT__URL", model.url()),
        ("CLEW_GENERATOR__ENDPOINT__MODEL", "scripted".to_owned()),
        ("CLEW_GENERATOR__ENDPOINT__WINDOW", "8192".to_owned()),
        ("CLEW_RETRIEVER__MAINTENANCE_INTERVAL_SECS", "1".to_owned()),
        ("CLEW_RETRIEVER__CHECK_INTERVAL_SECS", "1".to_owned()),
    ];
    let cluster = Cluster::start_with(1, settings).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    let documents = (0..8).map(|i| document(&format!("d{i}"), text_with(&[&word('c', i)])));
    remember(&client, &notes, documents.collect()).await;
    by_words(&client, &notes, &word('c', 5)).await;
    cluster.run(&["ask", "--corpus", "notes", QUESTION]);
    let http = cluster.gateway().http();
    let health = get(http.trim_start_matches("http://"), "/healthz");
    assert!(health.is_some_and(|(status, _)| status == 200));

    let admin: Vec<String> = cluster.nodes().map(admin_of).collect();
    let scrape = || -> Vec<String> {
        let scraped =
            |address: &String| get(address, "/metrics").filter(|(status, _)| *status == 200);
        admin.iter().filter_map(scraped).map(|(_, text)| text).collect()
    };
    // Maintenance counts rows, and may have run before the last document.
    let scraped = eventually("nodes answer, and all is checked and counted", async || {
        let scraped = scrape();
        let samples: Vec<_> = scraped.iter().map(|text| parse(text)).collect();
        let sum = |name: &str, labels: &str| -> f64 {
            let of = samples.iter().filter_map(|samples| samples.get(name)).flatten();
            of.filter(|(of, _)| of.contains(labels)).map(|(_, value)| value).sum()
        };
        let is_checked = sum("clew_invariant_checks_total", "") > 0.0;
        let is_counted = sum("clew_table_rows", "table=\"sources\"") == 8.0;
        let is_exported =
            samples.iter().any(|it| it.contains_key("clew_telemetry_spans_exported_total"));
        (samples.len() == 5 && is_checked && is_counted && is_exported).then_some(scraped)
    })
    .await;
    let mut all: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for text in &scraped {
        for (name, samples) in parse(text) {
            all.entry(name).or_default().extend(samples);
        }
    }
    let value = |name: &str, labels: &str| all[name].get(labels).copied();
    let search = "code=\"OK\",method=\"clew.query.v1.QueryService/Search\"";
    assert!(
        value("clew_rpc_requests_total", search) >= Some(1.0),
        "{:?}",
        all["clew_rpc_requests_total"]
    );
    let lag = &all["clew_index_lag_seconds"];
    assert_eq!(lag.len(), 2, "one for each shard: {lag:?}");
    assert!(lag.values().all(|seconds| *seconds == 0.0), "{lag:?}");
    assert!(all["clew_invariant_breaches_total"].values().all(|breaches| *breaches == 0.0));
    assert_eq!(value("clew_shards", "state=\"running\""), Some(2.0));
    assert_eq!(value("clew_leases", "standing=\"held\""), Some(2.0));
    assert_eq!(value("clew_cluster_members", "role=\"retriever\",state=\"serving\""), Some(1.0));
    assert!(all["clew_queue_capacity"].keys().any(|labels| labels.contains("queue=\"encoder\"")));
    assert!(all["clew_process_resident_memory_bytes"][""] > 1e6);
    // Names of corpora belong to their tenants.
    assert!(scraped.iter().all(|text| !text.contains("notes")));

    let scrape = cluster.write("scrape.txt", &scraped.concat());
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut check = Command::new(workspace.join(".cache/python/bin/python"));
    check.arg(workspace.join("tests/telemetry/check.py")).args(["--scrape", &scrape]);
    let checked = Ran::of(check);
    assert_eq!(checked.code, Some(0), "{}\n{}", checked.stdout, checked.stderr);
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_of_the_start_of_a_lost_peer_by_name_and_of_the_drain() {
    let home = Home::new();
    let [owner, encoder, admin] = [free_address(), free_address(), free_address()];
    let config = format!(
        r#"[cluster]
members = [
    {{ id = "retriever-0", address = "http://{owner}", roles = ["retriever"] }},
    {{ id = "encoder-0", address = "http://{encoder}", roles = ["encoder"] }},
]
"#
    );
    let config = home.write("cluster.toml", config);
    let node = |role: &str, listen: &str| {
        let mut command = home.serve_command_at(listen);
        command.args(["--roles", role, "--config"]).arg(&config);
        command.env("CLEW_CLUSTER__NODE_ID", format!("{role}-0"));
        command
    };
    let mut retriever = node("retriever", &owner);
    retriever.env("CLEW_ADMIN__LISTEN", &admin);
    let starting = tokio::task::spawn_blocking(move || Server::start(retriever));
    let report = health(&admin, |report| report["phase"] == "starting").await;
    assert_eq!(report["ready"], false, "it waits for an encoder: {report}");
    assert_eq!(get(&admin, "/health/ready").unwrap().0, 503);
    assert_eq!(get(&admin, "/health/live").unwrap().0, 200);

    let mut embedding = Server::start(node("encoder", &encoder));
    let mut serving = starting.await.unwrap();
    let report = health(&admin, |report| report["ready"] == true).await;
    assert_eq!(report["phase"], "serving");
    assert_eq!(get(&admin, "/health/ready").unwrap().0, 200);

    embedding.kill();
    let lost = |report: &Value| {
        let parts = report["degraded"].as_array().unwrap().iter();
        let parts: Vec<&str> = parts.filter_map(|trouble| trouble["part"].as_str()).collect();
        parts.contains(&"peer encoder-0") && parts.contains(&"role encoder")
    };
    let report = health(&admin, lost).await;
    assert_eq!((&report["alive"], &report["ready"]), (&Value::from(true), &Value::from(false)));
    let embedding = Server::start(node("encoder", &encoder));
    health(&admin, |report| report["ready"] == true).await;

    let ending = tokio::task::spawn_blocking(move || serving.end());
    let report = health(&admin, |report| report["phase"] == "draining").await;
    assert_eq!(report["ready"], false);
    assert!(ending.await.unwrap().success());
    assert!(get(&admin, "/health").is_none(), "nobody is there any more");
    assert!(embedding.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_a_log_tell_their_trace_with_and_without_a_collector() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.arg("--log-json").env("CLEW_LOG", "debug");
    let server = Server::start(command);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    by_words(&client, &notes, "nothing").await;
    let line = eventually("the search is logged", async || {
        let log = server.log();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut answered =
            lines.filter(|line| line["fields"]["method"] == "clew.query.v1.QueryService/Search");
        answered.next()
    })
    .await;
    assert_eq!(line["fields"]["code"], "OK", "{line}");
    let (trace, span) = (line["trace_id"].as_str().unwrap(), line["span_id"].as_str().unwrap());
    assert!(trace.len() == 32 && span.len() == 16 && trace.bytes().any(|b| b != b'0'), "{line}");
    // Every line that begins with a brace is one JSON object. Lines about addresses are plain text.
    for line in server.log().lines().filter(|line| line.starts_with('{')) {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    assert!(server.terminate().success());
}

/// Word in everything that the tenant of this test writes.
const CANARY: &str = "kanarienvogel";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_tenant_wrote_is_told_and_a_document_has_a_tag() {
    let collector = Collector::start().await;
    let model = ModelEndpoint::start().unwrap();
    // A model that repeats what it was told, as some servers do in their refusals.
    model.reply_by(|request| match request.last() {
        text if text.contains("unreadable") => ModelReply::Refusal(400, text.to_owned()),
        text => ModelReply::Text(text.to_owned()),
    });
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_LOG", "trace").env("CLEW_ADMIN__LISTEN", "127.0.0.1:0");
    command.env("CLEW_TELEMETRY__OTLP_ENDPOINT", collector.endpoint());
    command.env("CLEW_TELEMETRY__METRICS_INTERVAL_SECS", "1");
    command.env("CLEW_GENERATOR__ENDPOINT__URL", model.url());
    command.env("CLEW_GENERATOR__ENDPOINT__MODEL", "scripted");
    command.env("CLEW_GENERATOR__ENDPOINT__WINDOW", "8192");
    command.env("CLEW_GRAPH_BUILDER__READER", "model");
    command.env("CLEW_RETRIEVER__CHECK_INTERVAL_SECS", "1");
    let mut server = Server::start(command);
    let admin = admin_of(&server);
    let client = server.client().await;
    let notes = create(&client, "notes").await;

    let fine = format!("people/{CANARY}@example.org");
    let aside = format!("/home/{CANARY}/notes.md");
    let text = format!("The {CANARY} left unreadable notes about its keeper.");
    accept(&client, &notes, vec![document(&aside, text)]).await;
    let tag = id(&aside).log_tag();
    let told_of = |log: &str| {
        log.lines().any(|line| line.contains("could not be derived") && line.contains(&tag))
    };
    eventually("a document is set aside", async || told_of(&server.log()).then_some(())).await;
    let status =
        home.run_at(&server, &["status", "--corpus", "notes", "--document", &aside, "--json"]);
    assert_eq!(status.done()["log_tag"], tag.as_str());
    let text = format!("The {CANARY} sings at dawn, says its keeper in Skerryvore.");
    accept(&client, &notes, vec![document(&fine, text)]).await;
    eventually("a reply that makes no sense is told", async || {
        server.log().contains("it stays due").then_some(())
    })
    .await;

    let question = format!("When does the {CANARY} sing?");
    let user = ["--corpus", "chats", "--user", CANARY];
    create(&client, "chats").await;
    let turn =
        format!(r#"{{"session": "{CANARY}", "role": "user", "text": "I keep a {CANARY}."}}"#);
    let turns = home.write("turns.jsonl", turn).to_string_lossy().into_owned();
    let asked: [&[&str]; 7] = [
        &["search", "--corpus", "notes", &question],
        &["search", "--corpus", "notes", "--document", &fine, &question],
        &["search", "--corpus", "notes", "--where", &format!("bird={CANARY}"), &question],
        &["ask", "--corpus", "notes", &question],
        &[&["chat", "append"], &user[..], &[&turns]].concat(),
        &[&["chat", "recall"], &user[..], &[&question]].concat(),
        &["forget", "--corpus", "notes", "--document", &fine, "--document", &aside],
    ];
    for arguments in asked {
        let ran = home.run_at(&server, arguments);
        // The model's reply is not an answer, so `ask` may fail. The other commands succeed.
        assert!(ran.code == Some(0) || arguments[0] == "ask", "{arguments:?}: {ran:?}");
    }
    let scraped = get(&admin, "/metrics").unwrap().1;
    assert!(server.end().success());

    let log = server.log();
    for method in ["QueryService/Search", "IngestService/ForgetDocuments", "ChatService/Recall"] {
        assert!(log.contains(method), "every line is shown:\n{log}");
    }
    assert!(collector.all().contains("shard.accept"), "what is told comes");
    for (what, told) in [("log", log), ("metrics", scraped), ("collector", collector.all())] {
        let told_of = told.lines().find(|line| line.to_lowercase().contains(CANARY));
        assert_eq!(told_of, None, "in the {what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_collector_requests_go_on_and_what_is_lost_is_counted() {
    let collector = Collector::start().await;
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_TELEMETRY__OTLP_ENDPOINT", collector.endpoint());
    command.env("CLEW_ADMIN__LISTEN", "127.0.0.1:0");
    let server = Server::start(command);
    let admin = admin_of(&server);
    drop(collector);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let documents = (0..40).map(|i| document(&format!("d{i}"), text_with(&[&word('c', i)])));
    remember(&client, &notes, documents.collect()).await;
    assert_eq!(by_words(&client, &notes, &word('c', 5)).await[0].document_id, "d5");
    eventually("the failed export is counted", async || {
        let metrics = parse(&get(&admin, "/metrics")?.1);
        let failed = metrics.get("clew_telemetry_exports_total")?.get("outcome=\"error\"")?;
        (*failed >= 1.0).then_some(())
    })
    .await;
    let began = std::time::Instant::now();
    assert!(server.terminate().success());
    assert!(began.elapsed() < PATIENCE / 2, "its end does not wait for the collector");
}

/// Waits until `/health` answers as expected.
async fn health(admin: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    eventually("health is as expected", async || {
        let (_, body) = get(admin, "/health")?;
        let report: Value = serde_json::from_str(&body).unwrap();
        is_expected(&report).then_some(report)
    })
    .await
}

/// Returns the admin address of a server.
fn admin_of(server: &Server) -> String {
    let log = server.log();
    let line = log.lines().find_map(|line| line.strip_prefix("metrics and health on http://"));
    line.unwrap_or_else(|| panic!("no admin port:\n{log}")).to_owned()
}

/// Spans of one trace.
#[derive(Debug)]
struct Trace(Vec<Span>);

/// Returns the trace that begins and ends as `expected`, once all of it has arrived.
async fn trace_with(collector: &Collector, expected: &[(&str, &str)]) -> Trace {
    let is =
        |span: &Span, (service, name): (&str, &str)| span.service == service && span.name == name;
    let (first, last) = (expected[0], expected[expected.len() - 1]);
    let id = eventually("the trace comes", async || {
        let spans = collector.spans();
        // A client opens several streams, of which one carries the document.
        let firsts = spans.iter().filter(|span| is(span, first) && span.parent.is_empty());
        let mut whole = firsts
            .filter(|root| spans.iter().any(|span| span.trace == root.trace && is(span, last)));
        whole.next().map(|root| root.trace.clone())
    })
    .await;
    // Spans that end after the last expected one have to arrive as well.
    let of_trace =
        || collector.spans().into_iter().filter(|span| span.trace == id).collect::<Vec<_>>();
    let mut seen = of_trace().len();
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let spans = of_trace();
        if spans.len() == seen {
            return Trace(spans);
        }
        seen = spans.len();
    }
}

impl Trace {
    /// Asserts that spans of these services and names are each the parent of the next.
    fn goes(&self, way: &[(&str, &str)]) {
        let is_whole = |first: &Span| {
            let mut parents = vec![first];
            for (service, name) in &way[1..] {
                let of = |span: &&Span| {
                    span.service == *service
                        && span.name == *name
                        && parents.iter().any(|parent| parent.id == span.parent)
                };
                parents = self.0.iter().filter(of).collect();
            }
            !parents.is_empty()
        };
        let mut firsts = self.0.iter().filter(|s| (s.service.as_str(), s.name.as_str()) == way[0]);
        assert!(firsts.any(is_whole), "no way {way:?} in\n{self}");
    }
}

/// One line per span: service, name, and the parent.
impl std::fmt::Display for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for span in &self.0 {
            let kind = match (span.is_server, span.is_client) {
                (true, _) => "server",
                (_, true) => "client",
                _ => "",
            };
            let (service, name, id) = (&span.service, &span.name, &span.id);
            writeln!(f, "{id} below {:16} {service:16} {kind:6} {name}", span.parent)?;
        }
        Ok(())
    }
}
