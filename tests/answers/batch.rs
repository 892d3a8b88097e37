//! Tests of batches of searches: each search finds what it finds by itself.

use clew_client::Client;
use clew_core::{CorpusName, Filter, Grouping, Query, SearchMode};
use clew_proto::query::v1::SearchResponse;

use crate::client::{create_in_shards, document, exhaustive, id, remember};
use crate::harness::{Home, eventually};
use crate::processes::Cluster;

/// Number of shards in a cluster of two retrievers, each of which owns some of them.
const SHARDS: u32 = 4;

/// Returns documents of different lengths, so that no two have the same score.
fn documents() -> Vec<clew_core::Document> {
    let words = ["dog", "cat", "mother", "father", "friend", "train", "tea", "book"];
    let text = |(i, word): (usize, &&str)| {
        let rest = "in the city ".repeat(i);
        document(&format!("d{i}"), format!("The {word} lives in the old house {rest}by the river."))
    };
    words.iter().enumerate().map(text).collect()
}

/// Returns searches with settings of their own, two of which are the same. They compare with every
/// vector as it is stored: scores by vectors in memory differ a little from those of the first
/// searches, which read them.
fn searches() -> Vec<Query> {
    let filter = Filter { documents: vec![id("d1"), id("d5")], ..Filter::default() };
    let plain = Query::new("who lives in the old house", 3);
    let searches = vec![
        plain.clone(),
        Query { mode: SearchMode::Sparse, ..Query::new("the train in the city", 2) },
        Query { mode: SearchMode::Dense, ..Query::new("a warm drink", 4) },
        Query { filter, ..Query::new("the river", 10) },
        Query { grouping: Grouping::Documents, k: 100, ..exhaustive("house") },
        Query { mode: SearchMode::Sparse, ..Query::new("quicksand", 5) },
        plain,
    ];
    searches.into_iter().map(|search| Query { exact: true, ..search }).collect()
}

/// Asserts that a batch finds what its searches find one after another. Returns the results. Costs
/// are not compared, because a cache may know the texts of later searches.
async fn found_alike(client: &Client, corpus: &CorpusName) -> Vec<SearchResponse> {
    let batch = client.search_batch(corpus, searches()).await.unwrap();
    assert!(batch.timing.is_some_and(|timing| timing.total.is_some()));
    assert_eq!(batch.results.len(), searches().len());
    for (query, found) in searches().into_iter().zip(&batch.results) {
        let text = query.text.clone();
        let alone = client.search(corpus, query).await.unwrap();
        let without_cost = SearchResponse { cost: None, ..found.clone() };
        let next_page_token = String::new();
        let alone = SearchResponse { timing: None, cost: None, next_page_token, ..alone };
        assert_eq!(alone, without_cost, "{text}");
    }
    batch.results
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_finds_over_two_shards_what_single_searches_find() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create_in_shards(&client, "notes", 2).await;
    remember(&client, &notes, documents()).await;
    let found = found_alike(&client, &notes).await;
    assert_eq!(found[0].evidence.len(), 3);
    assert_eq!(found[1].evidence[0].document_id, "d5", "it has the train");
    assert_eq!(found[3].evidence.len(), 2, "the filter is its own");
    assert!(found[5].evidence.is_empty(), "nothing has the word");
    assert!(found.iter().all(|found| found.shards_missing.is_empty()));
    for (query, found) in searches().into_iter().zip(&found) {
        let alone = client.search(&notes, query).await.unwrap();
        assert_eq!(alone.cost, found.cost);
    }
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_too_and_each_search_names_a_shard_that_does_not_answer() {
    // Longer than the test, so that nobody takes over the shards of the killed retriever.
    let settings = vec![("CLEW_CLUSTER__LEASE_TTL_MS", "600000".to_owned())];
    let mut cluster = Cluster::start_with(2, settings).await;
    let client = cluster.client().await;
    let tales = create_in_shards(&client, "tales", SHARDS).await;
    remember(&client, &tales, documents()).await;
    let shards = eventually("every shard has an owner", async || {
        let shards = client.topology().await.ok()?.shards;
        (shards.len() == SHARDS as usize && shards.iter().all(|shard| !shard.owner.is_empty()))
            .then_some(shards)
    })
    .await;
    found_alike(&client, &tales).await;

    let killed = shards[0].owner.clone();
    let gone = shards.iter().filter(|shard| shard.owner == killed).map(|shard| shard.shard);
    let gone: Vec<u32> = gone.collect();
    assert!(gone.len() < SHARDS as usize, "the other retriever owns some: {shards:?}");
    cluster.kill(&killed);
    let found = client.search_batch(&tales, searches()).await.unwrap().results;
    assert_eq!(found.len(), searches().len());
    assert!(found.iter().all(|found| found.shards_missing == gone), "{found:?}");
    drop(client);
    cluster.stop();
}
