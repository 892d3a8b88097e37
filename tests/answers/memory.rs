//! Tests of the tree and the graph of a corpus: built behind the documents, walked for questions,
//! and shown to people.

use std::time::Duration;

use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest};
use serde_json::{Value, json};

use crate::client::{
    accept, counts, create, create_in_shards, document, idle, remember, structured,
};
use crate::harness::{Home, Ran, Server, eventually};
use crate::processes::Cluster;
use crate::tales::{CRETE, tales};

/// Returns all strategies, as the command line lists them.
fn strategies(home: impl FnOnce(&[&str]) -> Ran) -> Vec<String> {
    let listed = home(&["strategies", "--json"]).done();
    let name = |listed: &Value| listed["name"].as_str().unwrap().to_owned();
    let names: Vec<String> = listed["strategies"].as_array().unwrap().iter().map(name).collect();
    assert!(names.len() > 20, "{names:?}");
    names
}

/// Walks to the Minotaur, in the form that the prompts ask for.
fn walks(request: &ModelRequest) -> ModelReply {
    let format = request.body["response_format"].to_string();
    let asks = |key: &str| format.contains(&format!("\"{key}\""));
    // The points of a working memory have numbers of their own.
    let shown = request.last();
    let shown = shown.split_once("Passages:\n").map_or(shown, |(_, passages)| passages);
    let quote = "Theseus killed the Minotaur.";
    let numbered = |word: &str| -> Option<u32> {
        shown.split('[').skip(1).find_map(|part| {
            let (number, text) = part.split_once(']')?;
            text.contains(word).then(|| number.parse().ok())?
        })
    };
    let reply = if asks("updated") {
        let point = json!({ "entities": ["Theseus", "Minotaur"], "text": quote });
        json!({ "updated": [], "inserted": [point] })
    } else if asks("judgement") {
        let is_known = shown.contains("Minotaur: ");
        let concern = json!({ "point": 1, "concern": "who killed him" });
        match is_known {
            true => json!({ "judgement": "resolved", "concerns": [] }),
            false => json!({ "judgement": "global", "concerns": [concern] }),
        }
    } else if asks("merged") {
        json!({ "merged": [] })
    } else if asks("query") {
        json!({ "query": "Who killed the Minotaur in the Labyrinth?" })
    } else if asks("notes") {
        match numbered("Minotaur") {
            Some(number) => json!({
                "notes": [], "suffices": true, "answer": "Theseus did.",
                "citations": [{ "passage": number, "quote": quote }],
            }),
            None => json!({ "notes": [], "suffices": false, "answer": "", "citations": [] }),
        }
    } else if asks("action") && asks("answer") {
        match shown.contains(quote) {
            true => json!({
                "reasoning": "it says so", "action": "answer", "answer": "Theseus did.",
                "quote": quote,
            }),
            false => json!({ "reasoning": "no", "action": "back", "answer": "", "quote": "" }),
        }
    } else if asks("action") {
        let number = numbered("Minotaur").unwrap_or(1);
        json!({ "reasoning": "it names him", "action": number.to_string() })
    } else if asks("suffices") {
        let suffices = shown.contains(quote);
        json!({ "reasoning": "so", "suffices": suffices, "missing": "who killed him" })
    } else if asks("kind") {
        json!({ "entities": [{ "name": "Ariadne", "kind": "person" }] })
    } else if asks("entities") {
        json!({ "reasoning": "next", "entities": [1] })
    } else if asks("questions") {
        json!({ "questions": ["Who fought in the Labyrinth?"] })
    } else if asks("passage") {
        json!({ "passage": quote })
    } else if asks("points") {
        json!({ "points": ["the maze of Crete"] })
    } else if asks("clues") {
        json!({ "queries": ["Who fought in the Labyrinth?"], "clues": [quote] })
    } else {
        json!({ "queries": ["Theseus killed the Minotaur"] })
    };
    ModelReply::Text(reply.to_string())
}

fn steps(asked: &Value) -> Vec<&str> {
    asked["trace"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_walks_in_a_cluster_with_a_model_and_shows_its_way() {
    let endpoint = ModelEndpoint::start().unwrap();
    endpoint.reply_by(walks);
    let settings = vec![
        ("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url()),
        ("CLEW_GENERATOR__ENDPOINT__MODEL", "test".to_owned()),
    ];
    let cluster = Cluster::start_with(2, settings).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    remember(&client, &notes, tales()).await;
    structured(&client, &notes).await;
    for strategy in &strategies(|arguments| cluster.run(arguments)) {
        let file = cluster.write(&format!("{strategy}.json"), "");
        // Replies are cached, so each question has words of its own.
        let question = format!("Who killed the Minotaur, by way of {strategy}?");
        let ask = ["ask", "--corpus", "notes", "--strategy", strategy, "--trace", &file, "--json"];
        let asked = cluster.run(&[&ask[..], &[&question]].concat()).done();
        assert_eq!(asked["answer"], "Theseus did.", "{strategy}: {asked}");
        assert_eq!(asked["citations"][0]["quote"], "Theseus killed the Minotaur.", "{strategy}");
        assert!(asked["cost"]["model_calls"].as_u64().unwrap() > 0, "{strategy}: {asked}");
        let expected: &[&str] = match strategy.split('-').next() {
            Some("memwalker") => &["entered", "walked"],
            Some("qrmem" | "linked" | "full") => &["gathered", "read"],
            Some("hgmem") => &["evolved", "gathered", "read"],
            _ => &["read"],
        };
        for step in expected {
            assert!(steps(&asked).contains(step), "{strategy}: {asked}");
        }
        let shown = cluster.run(&["trace", "show", &file]);
        assert!(shown.stdout.contains("Theseus did."), "{strategy}: {shown:?}");
        let drawn = cluster.run(&["trace", "show", &file, "--svg", "-"]);
        assert!(drawn.stdout.starts_with("<svg"), "{strategy}: {drawn:?}");
        let has_points = strategy == "hgmem";
        assert_eq!(shown.stdout.contains("P1: "), has_points, "{strategy}: {shown:?}");
        assert_eq!(drawn.stdout.contains(">P1 "), has_points, "{strategy}: {drawn:?}");
    }
    let summarise = ["ask", "--corpus", "notes", "--strategy", "memorag", "--task", "summarise"];
    let summary = cluster.run(&[&summarise[..], &["--json", "What is told of Crete?"]].concat());
    let summary = summary.done();
    assert_eq!(summary["answer"], "Theseus did.", "{summary}");
    let searched = summary["trace"].as_array().unwrap().iter().map(|step| &step["query"]);
    assert!(searched.into_iter().any(|query| query == "the maze of Crete"), "{summary}");
    // The tree and the graph of both shards are shown as one.
    let tree = cluster.run(&["tree", "--corpus", "notes", "--depth", "9", "--json"]).done();
    let nodes = tree["nodes"].as_array().unwrap();
    let names = |node: &Value| node["node"].as_str().unwrap().to_owned();
    assert!(nodes.iter().any(|node| names(node) == "crete#0.0"), "{tree}");
    assert_eq!(nodes.iter().filter(|node| names(node).contains("#0.0")).count(), 13);
    let around = cluster.run(&["graph", "around", "--corpus", "notes", "Ariadne", "--json"]).done();
    assert!(around.to_string().contains("gave"), "{around}");
    let paths = ["graph", "paths", "--corpus", "notes", "Ariadne", "Minotaur", "--json"];
    let paths = cluster.run(&paths).done();
    assert_eq!(paths["paths"][0].as_array().unwrap().len(), 2, "{paths}");
    let ranked = cluster.run(&["graph", "rank", "--corpus", "notes", "Minotaur", "--json"]).done();
    assert_eq!(ranked["segments"][0]["item"], "crete#0", "{ranked}");
    let refused = ["graph", "paths", "--corpus", "notes", "Nobody", "Minotaur", "--json"];
    let refused = cluster.run(&refused).error();
    assert_eq!(refused["violations"][0]["field"], "from", "{refused}");
    // An exported graph can be queried as well, without the corpus.
    let export = ["graph", "export", "--corpus", "notes", "Ariadne", "--hops", "8"];
    let file = cluster.write("notes.graphml", &cluster.run(&export).stdout);
    let paths = ["graph", "paths", "--file", &file, "Ariadne", "Minotaur", "--json"];
    let paths = cluster.run(&paths).done();
    assert_eq!(paths["paths"][0].as_array().unwrap().len(), 2, "{paths}");
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_walks_without_a_model_and_forgets_with_its_documents() {
    let home = Home::new();
    let file = home.write("crete.txt", CRETE);
    let file = file.to_str().unwrap();
    let taken = home.run_embedded(&["ingest", "--corpus", "notes", file, "--json"]).done();
    assert_eq!(taken["accepted"], 1, "{taken}");
    let described = home.run_embedded(&["status", "--corpus", "notes", "--json"]).done();
    assert_eq!(described["structured_documents"], 1, "{described}");
    for strategy in &strategies(|arguments| home.run_embedded(arguments)) {
        let question = "Who killed the Minotaur?";
        let ask = ["ask", "--corpus", "notes", "--strategy", strategy, "--json", question];
        let asked = home.run_embedded(&ask).done();
        assert!(!steps(&asked).is_empty(), "{strategy}: {asked}");
        assert_eq!(asked["cost"]["model_calls"], 0, "{strategy}");
    }
    let summarise = ["ask", "--corpus", "notes", "--strategy", "memorag", "--task", "summarise"];
    let limits = ["--evidence-tokens", "60", "--asked-at", "2024-05-20T10:00:00Z", "--json"];
    let asked = [&summarise[..], &limits, &["Summarise what is told of Crete."]].concat();
    let summary = home.run_embedded(&asked).done();
    assert_eq!(summary["outcome"], "answered", "{summary}");
    let quoted = summary["citations"].as_array().unwrap().iter();
    assert!(quoted.clone().all(|citation| CRETE.contains(citation["quote"].as_str().unwrap())));
    assert!(quoted.count() > 1, "{summary}");
    let found = home.run_embedded(&["search", "--corpus", "notes", "Minotaur", "--json"]).done();
    let id = found["evidence"][0]["document_id"].as_str().unwrap();
    let forget = ["forget", "--corpus", "notes", "--document", id, "--json"];
    let receipt = home.run_embedded(&forget).done();
    assert_eq!(receipt["documents"][0]["nodes"], 1, "{receipt}");
    let around = ["graph", "around", "--corpus", "notes", "Ariadne", "--json"];
    let around = home.run_embedded(&around).done();
    assert!(!around.to_string().contains("ariadne"), "{around}");
    // A corpus that was created without structure says so.
    let create = ["corpus", "create", "plain", "--no-structure", "--json"];
    home.run_embedded(&create).done();
    let ask = ["ask", "--corpus", "plain", "--strategy", "memwalker", "--json", "Who?"];
    assert_eq!(home.run_embedded(&ask).error()["reason"], "NO_STRUCTURE");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_walks_in_a_cluster_without_a_model() {
    let cluster = Cluster::start(2).await;
    let client = cluster.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    remember(&client, &notes, tales()).await;
    structured(&client, &notes).await;
    for strategy in &strategies(|arguments| cluster.run(arguments)) {
        let ask = ["ask", "--corpus", "notes", "--strategy", strategy, "--json"];
        let asked = cluster.run(&[&ask[..], &["Who killed the Minotaur?"]].concat()).done();
        assert!(steps(&asked).contains(&"judged"), "{strategy}: {asked}");
        assert_eq!(asked["cost"]["model_calls"], 0, "{strategy}");
    }
    cluster.stop();
}

/// Number of parts of the long text, each with its number. A segment holds one or several parts.
const SEGMENTS: usize = 500;

fn segment(number: usize) -> String {
    // Longer than a summary may be, so that it is summarised.
    let filler =
        format!("The keeper of gate {number} counted his keys again and again. ").repeat(20);
    format!("Here begins part {number} of the chronicle. {filler}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_of_a_long_text_is_not_made_again_after_a_kill() {
    let home = Home::new();
    let endpoint = ModelEndpoint::start().unwrap();
    endpoint.reply_by(|request| {
        // Slow replies leave time for a kill in between.
        std::thread::sleep(Duration::from_millis(10));
        let format = request.body["response_format"].to_string();
        ModelReply::Text(match format.contains("entities") {
            true => json!({ "entities": [{ "name": "Keeper", "kind": "person" }] }).to_string(),
            false if format.contains("relations") => json!({ "relations": [] }).to_string(),
            false => "Keys were counted.".to_owned(),
        })
    });
    let serve = || {
        let mut command = home.serve_command();
        command.env("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url());
        command.env("CLEW_GENERATOR__ENDPOINT__MODEL", "test");
        command.env("CLEW_GRAPH_BUILDER__READER", "model");
        Server::start(command)
    };
    let mut server = serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let text: String = (0..SEGMENTS).map(segment).collect();
    accept(&client, &notes, vec![document("chronicle", text)]).await;
    idle(&client, &notes).await;
    // Requests for leaves show how much is committed.
    let asked = || {
        let requests = endpoint.requests();
        let is_leaf = |request: &&ModelRequest| {
            request.body["response_format"].is_null() && request.last().contains("Here begins part")
        };
        requests.iter().filter(is_leaf).map(|request| request.last().to_owned()).collect::<Vec<_>>()
    };
    // The second group of 64 is requested once the first one is committed. Most texts of a group
    // are too long to be their own summaries.
    eventually("a group is committed", async || (asked().len() > 80).then_some(())).await;
    server.kill();
    let before = asked();
    let server = serve();
    let client = server.client().await;
    structured(&client, &notes).await;
    let all = asked();
    let again = &all[before.len()..];
    let repeated = |some: &[String]| again.iter().filter(|text| some.contains(text)).count();
    assert_eq!(repeated(&before[..40]), 0, "of {} before and {} after", before.len(), again.len());
    assert!(repeated(&before) < 64, "of {} before and {} after", before.len(), again.len());
    assert!(counts(&client, &notes).await.nodes > 100);
    assert!(server.terminate().success());
}
