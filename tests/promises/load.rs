//! Tests of the load test against a real server.

use clew_loadtest::{Observed, Report, RunPlan, Scenario, Target, report, run};
use tokio::sync::watch;

use crate::harness::{Home, Server};

/// Everything at the same time, at rates that any machine can do sooner or later. Searches are
/// sparse and answers are not judged, because the texts are made for real models, not for the tiny
/// one.
const MIXED: &str = r#"
    title = "mixed"
    settle_secs = 0
    corpus = { documents = 30, paragraphs = 1, shards = 2 }
    flows = [
        { name = "search", act = { search = { mode = "sparse" } }, deadline_ms = 60000 },
        { name = "answer", act = { answer = {} }, deadline_ms = 60000 },
        { name = "ingest", act = { ingest = { documents = 2 } }, deadline_ms = 60000 },
        { name = "forget", act = { forget = {} }, deadline_ms = 60000 },
    ]
    phases = [
        { name = "growing", secs = 1, per_sec = { ingest = 4 } },
        { name = "all", secs = 3, per_sec = { search = 4, answer = 2, ingest = 1, forget = 1 } },
    ]
    expect = [{ no_failures = {} }, { kept = {} }, { correct = { flow = "search", at_least = 0.5 } }]
"#;

/// More searches than a server can do that runs one at a time and lets none wait.
const FLOOD: &str = r#"
    title = "flood"
    settle_secs = 0
    corpus = { documents = 30, paragraphs = 1, shards = 1 }
    flows = [{ name = "search", act = { search = { mode = "sparse" } } }]
    phases = [{ name = "flood", secs = 2, per_sec = { search = 1000 } }]
    expect = [{ only_refusals = {} }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_searches_is_refused_where_it_is_too_much_and_answered_otherwise() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_RETRIEVER__SEARCHES_AT_ONCE", "1").env("CLEW_RETRIEVER__SEARCH_WAIT_MS", "1");
    let server = Server::start(command);
    let report = loaded(&server, FLOOD, Observed::default()).await;
    let flow = &report.phases[0].flows[0];
    assert!(flow.refused > 0 && flow.done > 0, "{flow:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_under_mixed_load_is_measured_and_keeps_what_it_accepted() {
    let home = Home::new();
    // Long waits, so that nothing is refused on a busy machine.
    let mut command = home.serve_command();
    for wait in
        ["RETRIEVER__SEARCH_WAIT_MS", "ENCODER__QUESTION_WAIT_MS", "GATEWAY__SHARD_PATIENCE_MS"]
    {
        command.env(format!("CLEW_{wait}"), "60000");
    }
    let server = Server::start(command);
    let observed = Observed {
        processes: vec![server.id()],
        data_dir: Some(home.data_dir()),
        ..Observed::default()
    };
    let report = loaded(&server, MIXED, observed).await;
    for flow in ["search", "answer"] {
        assert!(parts(&report, flow).starts_with(&["late", "wire", "queue", "compute", "store"]));
    }
    let first = &report.samples[0];
    assert!(first.resident_bytes > Some(0.0) && first.versions > Some(0.0), "{first:?}");
    assert!(report::page::render(&report).contains("</html>"));
    let corpora = server.client().await.corpora().await.unwrap();
    assert!(corpora.is_empty(), "it leaves nothing behind: {corpora:?}");
}

/// Loads a server with a scenario. Fails unless all that the scenario expects holds.
async fn loaded(server: &Server, scenario: &str, observed: Observed) -> Report {
    let plan = RunPlan {
        scenario: Scenario::parse(scenario).unwrap(),
        target: Target { endpoint: server.endpoint.clone(), ..Target::default() },
        observed,
        replace: false,
        keep: false,
    };
    let (_go_on, stop) = watch::channel(false);
    let report = Box::pin(run(plan, stop, &|line| println!("{line}"))).await.unwrap();
    println!("{report}");
    assert!(report.holds());
    report
}

/// Returns the parts of the latency of a flow in the phase `all`.
fn parts(report: &Report, flow: &str) -> Vec<&'static str> {
    let all = report.phases.iter().find(|phase| phase.name == "all").unwrap();
    let flow = all.flows.iter().find(|known| known.flow == flow).unwrap();
    flow.parts.iter().map(|part| part.part).collect()
}
