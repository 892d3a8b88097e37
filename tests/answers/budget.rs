//! Tests that a question takes no more of a language model than its budget, whatever the number of
//! its steps and the nodes on which they run.

use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest};
use serde_json::{Value, json};

use crate::client::{create, remember, structured};
use crate::harness::{Home, Ran, Server};
use crate::processes::Cluster;
use crate::tales::tales;

/// Maximum number of calls for a question. Each of these strategies would make more.
const CALLS: usize = 3;
const STRATEGIES: [&str; 2] = ["memwalker", "hgmem"];

/// Replies in the form that the prompts ask for, but never answers and never gives up.
fn leads_on(request: &ModelRequest) -> ModelReply {
    let format = request.body["response_format"].to_string();
    let asks = |key: &str| format.contains(&format!("\"{key}\""));
    let reply = if asks("updated") {
        let point = json!({ "entities": ["Theseus"], "text": "Theseus left Ariadne on Naxos." });
        json!({ "updated": [], "inserted": [point] })
    } else if asks("judgement") {
        let concern = json!({ "point": 1, "concern": "what came then" });
        json!({ "judgement": "global", "concerns": [concern] })
    } else if asks("merged") {
        json!({ "merged": [] })
    } else if asks("query") {
        json!({ "query": "What came then?" })
    } else if asks("notes") {
        json!({ "notes": [], "suffices": false, "answer": "", "citations": [] })
    } else if asks("action") && asks("answer") {
        json!({ "reasoning": "no", "action": "back", "answer": "", "quote": "" })
    } else if asks("action") {
        json!({ "reasoning": "on", "action": "1" })
    } else {
        json!({ "entities": [{ "name": "Theseus", "kind": "person" }] })
    };
    ModelReply::Text(reply.to_string())
}

fn settings(endpoint: &ModelEndpoint) -> Vec<(&'static str, String)> {
    vec![
        ("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url()),
        ("CLEW_GENERATOR__ENDPOINT__MODEL", "test".to_owned()),
        ("CLEW_GENERATOR__BUDGET__CALLS", CALLS.to_string()),
    ]
}

/// Asks in different ways through `run`, and asserts that the budget holds.
fn assert_held(endpoint: &ModelEndpoint, run: impl Fn(&[&str]) -> Ran) {
    for strategy in STRATEGIES {
        let before = endpoint.requests().len();
        let ask = ["ask", "--corpus", "notes", "--strategy", strategy, "--json"];
        let failed: Value = run(&[&ask[..], &["What became of Theseus?"]].concat()).error();
        assert_eq!(failed["reason"], "BUDGET_SPENT", "{strategy}: {failed}");
        assert_eq!(endpoint.requests().len() - before, CALLS, "{strategy}");
    }
    // A question that needs one call is answered, and says that the budget sufficed.
    let asked =
        run(&["ask", "--corpus", "notes", "--strategy", "direct", "--json", "Who ruled Crete?"])
            .done();
    assert_eq!(
        (&asked["cost"]["model_calls"], &asked["cost"]["out_of_budget"]),
        (&json!(1), &json!(false))
    );
    // Requests that fail and are sent again count as calls, too.
    let before = endpoint.requests().len();
    endpoint.script(vec![ModelReply::Status(500, None); 4 * CALLS]);
    let failed =
        run(&["ask", "--corpus", "notes", "--strategy", "direct", "--json", "Who built the maze?"])
            .error();
    assert!(!failed["reason"].is_null(), "{failed}");
    assert!(endpoint.requests().len() - before <= CALLS, "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_steps_of_a_question_draw_on_one_budget_in_one_process() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    endpoint.reply_by(leads_on);
    let mut command = home.serve_command();
    command.envs(settings(&endpoint));
    let server = Server::start(command);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, tales()).await;
    structured(&client, &notes).await;
    assert_held(&endpoint, |arguments| home.run_at(&server, arguments));
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_steps_of_a_question_draw_on_one_budget_in_a_cluster() {
    let endpoint = ModelEndpoint::start().unwrap();
    endpoint.reply_by(leads_on);
    let cluster = Cluster::start_with(1, settings(&endpoint)).await;
    let client = cluster.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, tales()).await;
    structured(&client, &notes).await;
    assert_held(&endpoint, |arguments| cluster.run(arguments));
    cluster.stop();
}
