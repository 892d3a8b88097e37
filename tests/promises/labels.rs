//! Tests of access labels: whatever a caller asks, no response reveals anything that requires a
//! label which the caller does not hold. A caller who holds the label sees all of it.
//!
//! The callers connect to a real server, each with a key that holds a set of labels.

mod callers;

use std::collections::BTreeMap;
use std::fmt::Debug;

use clew_client::{Client, QuestionRequest};
use clew_core::{
    CorpusName, Document, ErrorKind, Filter, GraphQuery, IfThere, Labels, Like, MemorySettings,
    Query, SearchMode, StructureSettings, Subgraph, Task, TreeNode, TreeNodeId,
};
use clew_proto::chat::v1 as chat;
use clew_proto::convert::chat::{Appended, Inference};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::convert::encoder::identity_from_wire;
use clew_proto::convert::query::filter_to_wire;
use clew_proto::ingest::v1 as ingest;
use clew_proto::ingest::v1::ListChunksRequest;
use clew_proto::ingest::v1::ingest_response::Result as Outcome;
use clew_proto::shard::v1 as shard;
use clew_proto::shard::v1::shard_service_client::ShardServiceClient;
use futures::TryStreamExt;
use serde_json::json;

use self::callers::Services;
use crate::client::{corpus, counts, document, id, idle, remember, send, states};
use crate::harness::{Home, eventually};
use crate::processes::Cluster;

/// Word that only restricted texts contain, and prefix of the ids of restricted documents.
const MARK: &str = "xqvzkwjb";
const HIDDEN: &str = "hidden-";
const QUESTION: &str = "Whom did Ariadne meet in Naxos?";
/// Strategies that are not asked: they build a graph anew or ask a model often, and one that is
/// asked reads what they read. All others are asked.
const REPRESENTED: [&str; 15] = [
    "memwalker-beam",
    "qrmem-reflect-offline",
    "qrmem-reflect-full",
    "chat",
    "naive",
    "naive-dense",
    "naive-sparse",
    "full-context-right",
    "hyde",
    "rewrite",
    "rewrite-decompose",
    "rewrite-disambiguate",
    "recurrent-summary",
    "iterative",
    "route",
];

/// Returns the names of the strategies that are asked.
fn asked() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        clew_strategy::STRATEGIES.iter().map(|entry| entry.strategy.name()).collect();
    assert!(REPRESENTED.iter().all(|name| names.contains(name)));
    names.retain(|name| !REPRESENTED.contains(name));
    names
}

fn labelled(document: Document, labels: &[&str]) -> Document {
    Document { labels: Labels::parse(labels).unwrap(), ..document }
}

/// Returns the document with an attribute that holds the word of restricted texts, if the document
/// is one of them.
fn attributed(document: Document) -> Document {
    let is_hidden = document.id.as_str().starts_with(HIDDEN);
    let value = if is_hidden { MARK.into() } else { "open".into() };
    let attribute = ("kind".to_owned().try_into().unwrap(), value);
    Document { attributes: [attribute].into(), ..document }
}

/// Returns documents of which every third is restricted. All tell of Ariadne.
fn documents() -> Vec<Document> {
    let document = |number: usize| match number % 3 {
        0 => {
            let text = format!(
                "Ariadne met Xqvzkwjb in Naxos on day {number}. Xqvzkwjb sailed with Dionysos to \
                 the island of Xqvzkwjb. In Naxos Ariadne found what Xqvzkwjb had lost."
            );
            labelled(document(&format!("{HIDDEN}{number:02}"), text), &["team", "secret"])
        }
        1 => {
            let text = format!(
                "Ariadne met Theseus in Crete on day {number}. Theseus sailed with Ariadne to \
                 Naxos. In Crete Theseus found the Minotaur."
            );
            labelled(document(&format!("team-{number:02}"), text), &["team"])
        }
        _ => document(
            &format!("open-{number:02}"),
            format!("Ariadne lived in Crete until day {number}. Ariadne met Dionysos in Naxos."),
        ),
    };
    (0..24).map(document).map(attributed).collect()
}

/// Returns whether a response reveals something that is restricted.
fn tells(told: &impl Debug) -> bool {
    let told = format!("{told:?}").to_lowercase();
    told.contains(MARK) || told.contains(HIDDEN)
}

async fn tales(services: &Services) -> CorpusName {
    let all = services.client_of(None).await;
    let new = NewCorpus {
        name: corpus("tales"),
        shards: 2,
        chunking: None,
        structure: Some(StructureSettings::default()),
        retention_days: None,
        memory: Some(MemorySettings { ratio: 4, segment_tokens: 1000 }),
        chat: None,
    };
    all.create_corpus(new).await.unwrap();
    let name = corpus("tales");
    remember(&all, &name, documents()).await;
    eventually("trees and memories are there", async || {
        let counts = counts(&all, &name).await;
        let memories = all.memories(&name).await.unwrap();
        let is_done = counts.unstructured_documents == 0
            && counts.structured_documents == 24
            && memories.covered_documents == 24
            // One root over the documents of each shard.
            && all.read_tree(&name, None).await.unwrap().found.len() == 2;
        is_done.then_some(())
    })
    .await;
    name
}

/// Returns all tree nodes that a caller can reach.
async fn walked(client: &Client, corpus: &CorpusName) -> Vec<TreeNode> {
    let mut found: Vec<TreeNode> = Vec::new();
    let mut todo = client.read_tree(corpus, None).await.unwrap().complete().unwrap();
    while let Some(node) = todo.pop() {
        todo.extend(client.read_tree(corpus, Some(&node.id)).await.unwrap().complete().unwrap());
        found.push(node);
    }
    found
}

async fn answered(client: &Client, corpus: &CorpusName, strategy: &str, task: Task) -> String {
    let asked = QuestionRequest {
        text: QUESTION.to_owned(),
        strategy: strategy.to_owned(),
        task,
        k: None,
        evidence_tokens: None,
        rerank: None,
        asked_at: None,
        filter: Filter::default(),
        memory_use: clew_core::MemoryUse::default(),
        with_attributes: true,
    };
    let events = client.answer(corpus, asked).await.unwrap();
    let events: Vec<_> = events.try_collect().await.unwrap();
    format!("{events:?}")
}

/// Returns the documents that a condition selects, with their attributes, and the number of those
/// that would be forgotten.
async fn selected(
    client: &Client,
    corpus: &CorpusName,
    condition: &str,
) -> (Vec<ingest::DocumentState>, u64) {
    let filter = Filter { condition: Some(condition.parse().unwrap()), ..Filter::default() };
    let filter = Some(filter_to_wire(filter));
    let list = ingest::ListDocumentsRequest {
        corpus: corpus.to_string(),
        filter: filter.clone(),
        with_attributes: true,
        ..Default::default()
    };
    let preview = ingest::ForgetDocumentsRequest {
        corpus: corpus.to_string(),
        filter,
        preview: true,
        ..Default::default()
    };
    let preview = client.forget_selected(preview).await.unwrap();
    let listed = client.documents_page(list).await.unwrap().documents;
    let ids = |ids: &mut dyn Iterator<Item = &String>| ids.cloned().collect::<Vec<_>>();
    let previewed = ids(&mut preview.documents.iter().map(|document| &document.document_id));
    assert_eq!(previewed, ids(&mut listed.iter().map(|state| &state.id)));
    (listed, preview.selected)
}

async fn watched(client: &Client, corpus: &CorpusName) -> u64 {
    let reports: Vec<_> =
        client.watch_until_idle(corpus).await.unwrap().try_collect().await.unwrap();
    reports.last().unwrap().documents
}

/// Returns a request for the chunks of a document with their texts.
fn chunks_of(corpus: &CorpusName, document: &str) -> ListChunksRequest {
    let (corpus, document_id) = (corpus.to_string(), document.to_owned());
    ListChunksRequest { corpus, document_id, with_texts: true, ..ListChunksRequest::default() }
}

/// Returns all entities, by searching for those whose vectors are nearest to a vector.
async fn alike(client: &Client, corpus: &CorpusName) -> Subgraph {
    let encoder = client.corpus(corpus).await.unwrap().encoder;
    let encoder = identity_from_wire(encoder).unwrap();
    let like = Some(Like::vector(&encoder, &vec![1.0; encoder.dimension as usize]));
    let (most_entities, describe) = (1000, true);
    let query = GraphQuery { like, describe, most_entities, ..GraphQuery::default() };
    client.read_graph(corpus, &query).await.unwrap().complete().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_told_of_what_needs_a_label_that_is_not_held() {
    let services = Services::start().await;
    let name = tales(&services).await;
    let holder = services.client_of(Some(&["team", "secret", "other"])).await;
    // Each lacks one of the two labels.
    let strangers = [("team", 16_u64), ("secret", 8)];
    let nodes = walked(&holder, &name).await;
    let is_upper = |node: &&TreeNode| matches!(node.id, TreeNodeId::Upper { .. });
    assert!(nodes.iter().filter(is_upper).any(tells), "{nodes:#?}");
    for (label, seen) in strangers {
        let client = services.client_of(Some(&[label])).await;
        let reports = [
            (watched(&client, &name).await, seen),
            (counts(&client, &name).await.documents, seen),
            (counts(&client, &name).await.structured_documents, seen),
            (watched(&holder, &name).await, 24),
        ];
        assert!(reports.iter().all(|(told, expected)| told == expected), "{label} {reports:?}");
        let told = states(&client, &name).await;
        assert_eq!((told.len() as u64, tells(&told)), (seen, false));
        for condition in ["kind exists", "kind = xqvzkwjb", "not kind = open", "kind != open"] {
            let (listed, count) = selected(&client, &name, condition).await;
            let expected = if condition == "kind exists" { seen } else { 0 };
            assert!(!tells(&listed), "{condition}: {listed:?}");
            assert_eq!((listed.len() as u64, count), (expected, expected), "{condition}");
            let (listed, count) = selected(&holder, &name, condition).await;
            assert!(tells(&listed) && count == listed.len() as u64, "{condition}");
        }
        let page = client.check_page(&name, String::new()).await.unwrap();
        assert!(!tells(&page) && page.documents < 24);
        for hidden in [format!("{HIDDEN}00"), "nobody".to_owned()] {
            let error = client.document(&name, &id(&hidden)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert_eq!(error.message(), format!("document `{hidden}` does not exist"));
            let error = client.chunks_page(chunks_of(&name, &hidden)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert_eq!(error.message(), format!("document `{hidden}` does not exist"));
        }
        let listed = holder.chunks_page(chunks_of(&name, &format!("{HIDDEN}00"))).await.unwrap();
        assert!(tells(&listed));

        for mode in SearchMode::ALL {
            for text in ["Xqvzkwjb", QUESTION] {
                let query = Query { mode, ..Query::new(text, 20) };
                let found = client.search(&name, query.clone()).await.unwrap();
                assert!(!tells(&found), "{mode:?} {found:?}");
                let found = holder.search(&name, query).await.unwrap();
                assert!(tells(&found), "{mode:?}");
            }
        }
        for strategy in asked() {
            let told = answered(&client, &name, strategy, Task::Answer).await;
            assert!(!tells(&told), "{label} {strategy}: {told}");
        }
        assert!(!tells(&answered(&client, &name, "memorag", Task::Summarise).await));

        let walked = walked(&client, &name).await;
        assert!(!tells(&walked) && walked.len() as u64 >= seen);
        for node in nodes.iter().filter(tells) {
            let below = client.read_tree(&name, Some(&node.id)).await.unwrap();
            assert!(below.complete().unwrap().is_empty());
        }
        let query = GraphQuery {
            texts: vec!["Ariadne and Xqvzkwjb in Naxos".to_owned()],
            hops: 3,
            most_entities: 100,
            most_relations: 100,
            ..GraphQuery::default()
        };
        let told = client.read_graph(&name, &query).await.unwrap().complete().unwrap();
        assert!(!tells(&told) && !told.entities.is_empty(), "{told:?}");
        let ariadne = told.entities.iter().find(|node| node.key.0 == "ariadne").unwrap();
        assert_eq!(ariadne.mentioned_in, seen);
        assert!(tells(&holder.read_graph(&name, &query).await.unwrap()));
        let all = alike(&client, &name).await;
        assert!(!tells(&all) && all.is_compared && all.entities.len() > 1, "{all:?}");
        assert!(tells(&alike(&holder, &name).await));
        assert!(!tells(&client.rank_graph(&name, "Ariadne", 1000).await.unwrap()));
        assert!(tells(&holder.rank_graph(&name, "Ariadne", 1000).await.unwrap()));
        let paths = async |client: &Client, to: &str| {
            let found = client.find_paths(&name, "Ariadne", to, 4, 10).await;
            format!("{found:?}").replace(to, "X")
        };
        // The same as for a person of whom no document tells.
        assert_eq!(paths(&client, "Xqvzkwjb").await, paths(&client, "Yqvzkwjb").await);
        assert_ne!(paths(&holder, "Xqvzkwjb").await, paths(&holder, "Yqvzkwjb").await);

        let told = client.memories(&name).await.unwrap();
        assert!(!tells(&told));
        assert_eq!((told.documents, told.covered_documents), (seen, seen), "{told:?}");
    }
    assert!(tells(&holder.memories(&name).await.unwrap()));
    for strategy in ["direct", "linked", "memwalker", "full-context"] {
        assert!(tells(&answered(&holder, &name, strategy, Task::Answer).await), "{strategy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_changed_that_needs_a_label_that_is_not_held() {
    let services = Services::start().await;
    let all = services.client_of(None).await;
    let name = crate::client::create_in_shards(&all, "changes", 2).await;
    let team = services.client_of(Some(&["team"])).await;
    let secret = |id: &str| labelled(document(id, "Xqvzkwjb was here."), &["secret"]);
    remember(&all, &name, vec![secret("hidden-1"), secret("hidden-2"), document("open", "x")])
        .await;

    // Refused are a replacement of a hidden document and a label that the caller does not hold.
    // Other documents of the stream are accepted.
    let offered = vec![
        document("hidden-1", "mine now"),
        labelled(document("mine", "y"), &["team"]),
        labelled(document("theirs", "y"), &["secret", "team"]),
        labelled(document("open", "x"), &["team"]),
    ];
    let reasons: Vec<Option<String>> = send(&team, &name, offered)
        .await
        .into_iter()
        .map(|result| result.err().map(|refused| refused.reason))
        .collect();
    let refused = Some("LABEL_NOT_HELD".to_owned());
    assert_eq!(reasons, [refused.clone(), None, refused.clone(), None]);
    let together = vec![document("hidden-1", "mine now"), secret("theirs")];
    let together = team.ingest_documents(&name, together, IfThere::Replace).await.unwrap();
    for response in together {
        let Some(Outcome::Refused(told)) = response.result else { panic!("{response:?}") };
        assert_eq!(Some(told.reason), refused);
    }
    idle(&all, &name).await;
    let nobody = services.client_of(Some(&[])).await;
    assert!(states(&nobody, &name).await.is_empty(), "`open` needs a label by now");
    let seen: Vec<String> = states(&team, &name).await.into_keys().collect();
    assert_eq!(seen, ["mine", "open"]);
    let (_, state) = all.document(&name, &id("hidden-1")).await.unwrap();
    assert_eq!((state.labels, state.text_bytes), (vec!["secret".to_owned()], 18));

    let receipt = team.forget(&name, &["hidden-2", "mine", "nobody"].map(id)).await.unwrap();
    let found: Vec<bool> = receipt.documents.iter().map(|of| of.found).collect();
    assert_eq!((found.as_slice(), receipt.verified), (&[false, true, false][..], true));
    assert!(all.document(&name, &id("hidden-2")).await.is_ok());

    let error = team.delete_corpus(&name).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Denied, "LABEL_NOT_HELD"));
    let holder = services.client_of(Some(&["team", "secret"])).await;
    assert_eq!(holder.delete_corpus(&name).await.unwrap().documents, 3);
}

fn turns(user: &str, session: &str, texts: &[&str], labels: &[&str]) -> Appended {
    let turn = |(number, text): (u32, &&str)| clew_core::Turn {
        id: clew_core::TurnId { session: session.parse().unwrap(), number },
        role: clew_core::SpeakerRole::User,
        speaker: String::new(),
        text: (*text).to_owned(),
        time: None,
        attributes: BTreeMap::new(),
    };
    Appended {
        corpus: corpus("chats"),
        user: user.to_owned(),
        turns: (0..).zip(texts).map(turn).collect(),
        inference: Inference::Rules,
        labels: Labels::parse(labels).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_with_labels_are_recalled_listed_and_forgotten_by_who_holds_them() {
    let services = Services::start().await;
    let all = services.client_of(None).await;
    crate::client::create_in_shards(&all, "chats", 2).await;
    all.append_turns(turns("ada", "monday", &["I moved to Athens.", "I like it."], &[]))
        .await
        .unwrap();
    let secret = ["My cat is called Xqvzkwjb.", "Xqvzkwjb moved to Athens with me."];
    all.append_turns(turns("ada", "hidden-session", &secret, &["secret"])).await.unwrap();
    let holder = services.client_of(Some(&["secret"])).await;
    let team = services.client_of(Some(&["team"])).await;

    let values = [
        chat::Value::Turn,
        chat::Value::Round,
        chat::Value::Session,
        chat::Value::Facts,
        chat::Value::Summary,
    ];
    for value in values {
        let asked = chat::RecallRequest {
            corpus: "chats".to_owned(),
            user: "ada".to_owned(),
            question: "Who moved to Athens?".to_owned(),
            k: Some(20),
            value: value.into(),
            ..chat::RecallRequest::default()
        };
        let recalled = team.recall(asked.clone()).await.unwrap();
        assert!(!tells(&recalled) && !recalled.items.is_empty(), "{value:?}");
        assert!(tells(&holder.recall(asked).await.unwrap()), "{value:?}");
    }
    let told = answered(&team, &corpus("chats"), "chat", Task::Answer).await;
    assert!(!tells(&told), "{told}");
    let all_turns = chat::ListTurnsRequest {
        corpus: "chats".to_owned(),
        user: "ada".to_owned(),
        ..chat::ListTurnsRequest::default()
    };
    let listed = async |client: &Client| -> Vec<chat::ListTurnsResponse> {
        client.list_turns(all_turns.clone()).await.unwrap().try_collect().await.unwrap()
    };
    let (few, many) = (listed(&team).await, listed(&holder).await);
    assert_eq!((few.len(), many.len(), tells(&few)), (2, 4, false));
    assert!(many.iter().any(|turn| turn.labels == ["secret"]));
    all.append_turns(turns("hidden-user", "s", &["I am here."], &["secret"])).await.unwrap();
    let counted = async |client: &Client| {
        let (corpus, user) = ("chats".to_owned(), "ada".to_owned());
        let users = chat::ListUsersRequest { corpus: corpus.clone(), ..Default::default() };
        let sessions = chat::ListSessionsRequest { corpus, user, ..Default::default() };
        let users = client.users_page(users).await.unwrap();
        let sessions = client.sessions_page(sessions).await.unwrap();
        (tells(&users) || tells(&sessions), users.users[0].turns, sessions.sessions.len())
    };
    assert_eq!(counted(&team).await, (false, 2, 1));
    assert_eq!(counted(&holder).await, (true, 4, 2));

    let corrected = turns("ada", "hidden-session", &["I have no cat."], &[]);
    for refused in [corrected, turns("ada", "tuesday", &["Hello."], &["secret"])] {
        let error = team.append_turns(refused).await.unwrap_err();
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Denied, "LABEL_NOT_HELD"));
    }
    let forget = chat::ForgetTurnsRequest {
        corpus: "chats".to_owned(),
        user: "ada".to_owned(),
        ..chat::ForgetTurnsRequest::default()
    };
    let preview = chat::ForgetTurnsRequest { preview: true, ..forget.clone() };
    let told = team.forget_turns(preview).await.unwrap();
    assert_eq!((told.turns, tells(&told)), (2, false));
    assert_eq!(team.forget_turns(forget).await.unwrap().turns, 2);
    assert_eq!((listed(&team).await.len(), listed(&holder).await.len()), (0, 2));
}

#[test]
fn labels_are_attached_by_the_command_line_and_by_files() {
    let home = Home::new();
    home.write("rows.jsonl", "{\"id\":\"row\",\"text\":\"one\",\"labels\":[\"own\"]}\n");
    home.write("note.txt", "two");
    let ingest = |path: &str| {
        home.run_embedded(&["ingest", "--corpus", "notes", "--label", "team", "--json", path])
            .done()
    };
    assert_eq!(ingest("rows.jsonl")["accepted"], 1);
    assert_eq!(ingest("note.txt")["accepted"], 1);
    for (id, labels) in [("row", json!(["own", "team"])), ("note.txt", json!(["team"]))] {
        let status = ["status", "--corpus", "notes", "--json", "--document", id];
        assert_eq!(home.run_embedded(&status).done()["labels"], labels);
    }
    // The same text with other labels is another version.
    let again = ["ingest", "--corpus", "notes", "--json", "note.txt"];
    let told = home.run_embedded(&again).done();
    assert_eq!((&told["accepted"], &told["unchanged"]), (&json!(1), &json!(0)));

    home.write("turns.jsonl", "{\"session\":\"s\",\"role\":\"user\",\"text\":\"Hello.\"}\n");
    let user = ["--corpus", "chats", "--user", "ada", "--json"];
    let append = [&["chat", "append", "--label", "team"], &user[..], &["turns.jsonl"]].concat();
    home.run_embedded(&append).done();
    let listed = home.run_embedded(&[&["chat", "list"], &user[..]].concat()).done();
    assert_eq!(listed["turns"][0]["labels"], json!(["team"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retriever_that_is_told_nothing_of_a_caller_tells_nothing_that_needs_a_label() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client().await;
    let name = crate::client::create(&client, "notes").await;
    let secret = labelled(document("hidden-1", "Xqvzkwjb was here."), &["secret"]);
    remember(&client, &name, vec![secret, document("open", "Nobody was here.")]).await;
    let silent = shard::ShardRef {
        corpus: name.to_string(),
        corpus_created_at: client.corpus(&name).await.unwrap().created_at,
        ..shard::ShardRef::default()
    };
    let holding = |held: &[&str]| shard::ShardRef {
        held_labels: held.iter().map(|label| (*label).to_owned()).collect(),
        ..silent.clone()
    };
    let retriever = ShardServiceClient::connect(cluster.endpoint("retriever-0")).await.unwrap();
    let counted = async |shard: shard::ShardRef| {
        let request = shard::CountRequest { shard: Some(shard) };
        retriever.clone().count(request).await.unwrap().into_inner().accepted
    };
    assert_eq!(counted(silent.clone()).await, 1);
    assert_eq!(counted(holding(&["other"])).await, 1);
    assert_eq!(counted(holding(&["other", "secret"])).await, 2);
    assert_eq!(counted(shard::ShardRef { holds_all_labels: true, ..silent.clone() }).await, 2);
    let search = async |shard: shard::ShardRef| {
        let request = shard::FindCandidatesRequest {
            shard: Some(shard),
            text: "Xqvzkwjb".to_owned(),
            mode: clew_proto::query::v1::SearchMode::Sparse.into(),
            limit: 10,
            ..shard::FindCandidatesRequest::default()
        };
        let alone = retriever.clone().find_candidates(request.clone()).await.unwrap().into_inner();
        let searches = vec![shard::FindCandidatesRequest { shard: None, ..request.clone() }];
        let batch = shard::FindCandidatesBatchRequest { shard: request.shard, searches };
        let batch = retriever.clone().find_candidates_batch(batch).await.unwrap().into_inner();
        let alone = alone.try_collect::<Vec<_>>().await.unwrap();
        let batch = batch.try_collect::<Vec<_>>().await.unwrap();
        let of_batch: Vec<_> = batch.into_iter().filter_map(|message| message.found).collect();
        assert_eq!(alone, of_batch);
        alone
    };
    assert!(!tells(&search(silent.clone()).await));
    assert!(tells(&search(holding(&["secret"])).await));
    cluster.stop();
}
