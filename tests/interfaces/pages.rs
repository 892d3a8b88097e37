//! Tests of pages of search results: together they are what one search finds, while documents come,
//! change and go, and whichever gateway makes them.

use std::collections::BTreeSet;

use clew_client::{Client, SearchPage};
use clew_core::{
    AttributeName, CorpusName, Document, ErrorKind, Filter, Grouping, Labels, Query, SearchMode,
};
use clew_proto::query::v1::{Evidence, SearchResponse};
use futures::TryStreamExt;

use crate::client::{MOST_RESULTS, create_in_shards, document, id, remember};
use crate::harness::{Home, eventually};
use crate::processes::Cluster;
use crate::security::World;

const SHARDS: u32 = 4;
const DOCUMENTS: usize = 40;

/// Returns documents of different lengths, so that no two have the same score.
fn documents(numbers: std::ops::Range<usize>, word: &str) -> Vec<Document> {
    let one = |number: usize| {
        let rest = format!("by the {word} river ").repeat(number % 19);
        let text = format!("The old house {number} of the city {rest}and its garden.");
        let mut made = document(&format!("d{number:03}"), text);
        let half = if number.is_multiple_of(2) { "even" } else { "odd" };
        made.attributes.insert("half".to_owned().try_into().unwrap(), half.into());
        made
    };
    numbers.map(one).collect()
}

/// Returns searches of every kind. They compare with every vector as it is stored: scores by
/// vectors in memory differ a little from those of the first searches, which read them.
fn searches(k: usize) -> Vec<Query> {
    let name = AttributeName::try_from("half".to_owned()).unwrap();
    let half = Filter { attributes: vec![(name, "even".to_owned())], ..Filter::default() };
    let mut all = Vec::new();
    for mode in SearchMode::ALL {
        for grouping in [Grouping::Chunks, Grouping::Documents] {
            for filter in [Filter::default(), half.clone()] {
                let query = Query::new("the old house by the river", k);
                all.push(Query { mode, grouping, filter, exact: true, ..query });
            }
        }
    }
    all
}

/// A search that is read page by page.
struct Reading {
    query: Query,
    read: Vec<Evidence>,
    page_token: String,
}

impl Reading {
    async fn begin(client: &Client, corpus: &CorpusName, query: Query) -> Self {
        let mut reading = Self { query, read: Vec::new(), page_token: String::new() };
        reading.go_on(client, corpus).await;
        reading
    }

    /// Reads the next page.
    async fn go_on(&mut self, client: &Client, corpus: &CorpusName) {
        let found = self.page(client, corpus).await.unwrap();
        assert_eq!(found.shards_missing, Vec::<u32>::new());
        assert!(found.evidence.len() == self.query.k || found.next_page_token.is_empty());
        self.read.extend(found.evidence);
        self.page_token = found.next_page_token;
    }

    async fn page(
        &self,
        client: &Client,
        corpus: &CorpusName,
    ) -> Result<SearchResponse, clew_core::Error> {
        let page = SearchPage { page_token: self.page_token.clone(), ..SearchPage::default() };
        client.search_page(corpus, self.query.clone(), page).await
    }

    /// Reads the other pages.
    async fn finish(mut self, client: &Client, corpus: &CorpusName) -> Vec<Evidence> {
        while !self.page_token.is_empty() {
            self.go_on(client, corpus).await;
        }
        self.read
    }
}

fn ids(evidence: &[Evidence]) -> Vec<&str> {
    evidence.iter().map(|item| item.document_id.as_str()).collect()
}

fn assert_no_repeats(evidence: &[Evidence]) {
    let chunks: BTreeSet<&str> = evidence.iter().map(|item| item.chunk_id.as_str()).collect();
    assert_eq!(chunks.len(), evidence.len(), "{:?}", ids(evidence));
}

/// Returns what each search finds at once.
async fn at_once(client: &Client, corpus: &CorpusName) -> Vec<Vec<Evidence>> {
    let mut all = Vec::new();
    for query in searches(MOST_RESULTS) {
        all.push(client.search(corpus, query).await.unwrap().evidence);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_together_are_one_search_while_documents_come_and_change() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create_in_shards(&client, "notes", SHARDS).await;
    remember(&client, &notes, documents(0..DOCUMENTS, "quiet")).await;
    let whole = at_once(&client, &notes).await;
    let mut readings = Vec::new();
    for query in searches(7) {
        readings.push(Reading::begin(&client, &notes, query).await);
    }
    remember(&client, &notes, documents(DOCUMENTS..DOCUMENTS + 20, "river")).await;
    for reading in &mut readings {
        reading.go_on(&client, &notes).await;
    }
    remember(&client, &notes, documents(0..DOCUMENTS / 2, "loud")).await;
    for (reading, whole) in readings.into_iter().zip(&whole) {
        let query = reading.query.clone();
        let read = reading.finish(&client, &notes).await;
        assert_eq!(ids(&read), ids(whole), "{query:?}");
        assert_eq!(&read, whole, "{query:?}");
    }
    // A token is of one search.
    let query = searches(7).remove(0);
    let page_token = Reading::begin(&client, &notes, query.clone()).await.page_token;
    let others = [
        Query { text: "another question".to_owned(), ..query.clone() },
        Query { mode: SearchMode::Sparse, ..query.clone() },
        Query { exact: false, ..query.clone() },
    ];
    for other in others {
        let page = SearchPage { page_token: page_token.clone(), ..SearchPage::default() };
        let refused = client.search_page(&notes, other, page).await.unwrap_err();
        assert_eq!(refused.fields_at_fault(), ["page_token"], "{refused}");
    }
    // A new reading sees all that came.
    let now = at_once(&client, &notes).await;
    for ((query, now), whole) in searches(9).into_iter().zip(&now).zip(&whole) {
        let pages = client.search_pages(&notes, query.clone());
        let pages: Vec<SearchResponse> = pages.try_collect().await.unwrap();
        let read: Vec<Evidence> = pages.into_iter().flat_map(|page| page.evidence).collect();
        assert_eq!(&read, now, "{query:?}");
        assert_ne!(&read, whole, "{query:?}");
    }
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_between_two_pages_is_in_no_later_one_and_nothing_comes_twice() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create_in_shards(&client, "notes", SHARDS).await;
    remember(&client, &notes, documents(0..DOCUMENTS, "quiet")).await;
    let mut readings = Vec::new();
    for query in searches(6) {
        readings.push(Reading::begin(&client, &notes, query).await);
    }
    let before: BTreeSet<String> = (0..DOCUMENTS).map(|n| format!("d{n:03}")).collect();
    // Forgetting erases: it rewrites the tables and removes what earlier states had.
    let forgotten: Vec<_> = (20..30).map(|n| id(&format!("d{n:03}"))).collect();
    client.forget(&notes, &forgotten).await.unwrap();
    remember(&client, &notes, documents(DOCUMENTS..DOCUMENTS + 10, "loud")).await;
    for reading in &mut readings {
        let earlier = reading.read.len();
        reading.go_on(&client, &notes).await;
        let gone = forgotten.iter().map(|id| id.as_str()).collect::<BTreeSet<_>>();
        assert!(reading.read[earlier..].iter().all(|item| !gone.contains(&*item.document_id)));
    }

    // So many commits that tables are compacted, and a restart: no state of before is there.
    for number in 60..110 {
        remember(&client, &notes, documents(number..number + 1, "late")).await;
    }
    assert!(server.terminate().success());
    let server = home.serve();
    let client = server.client().await;
    client.forget(&notes, &[id("d030")]).await.unwrap();
    for reading in readings {
        let query = reading.query.clone();
        let earlier = reading.read.len();
        let read = reading.finish(&client, &notes).await;
        assert_no_repeats(&read);
        let later: BTreeSet<&str> = ids(&read[earlier..]).into_iter().collect();
        let gone: Vec<String> = (20..31).map(|n| format!("d{n:03}")).collect();
        assert!(gone.iter().all(|id| !later.contains(id.as_str())), "{query:?}: {later:?}");
        // All that was there all the time was read, unless the search does not find it.
        let all: BTreeSet<&str> = ids(&read).into_iter().collect();
        let is_found = |id: &&String| {
            let number: usize = id[1..].parse().unwrap();
            query.filter == Filter::default() || number.is_multiple_of(2)
        };
        let there = before.iter().filter(|id| !gone.contains(id)).filter(is_found);
        let skipped: Vec<_> = there.filter(|id| !all.contains(id.as_str())).collect();
        assert!(skipped.is_empty(), "{query:?}: {skipped:?}");
    }
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_gateway_goes_on_and_so_does_another_owner_of_the_shards() {
    let mut cluster = Cluster::start(2).await;
    cluster.start_again("gateway-1").await;
    let client = cluster.client().await;
    let other = cluster.node("gateway-1").client().await;
    let notes = create_in_shards(&client, "notes", SHARDS).await;
    remember(&client, &notes, documents(0..DOCUMENTS, "quiet")).await;
    eventually("the other gateway finds everything", async || {
        let query = searches(MOST_RESULTS).remove(0);
        let found = other.search(&notes, query).await.ok()?;
        (found.evidence.len() >= DOCUMENTS && found.shards_missing.is_empty()).then_some(())
    })
    .await;
    let whole = at_once(&client, &notes).await;
    let mut readings = Vec::new();
    for query in searches(11) {
        readings.push(Reading::begin(&client, &notes, query).await);
    }
    remember(&client, &notes, documents(DOCUMENTS..DOCUMENTS + 20, "river")).await;
    for (reading, whole) in readings.iter_mut().zip(&whole) {
        reading.go_on(&other, &notes).await;
        assert_eq!(reading.read, whole[..reading.read.len()], "{:?}", reading.query);
    }
    cluster.restart("retriever-0").await;
    for mut reading in readings {
        while !reading.page_token.is_empty() {
            let found = eventually("all shards answer", async || {
                let found = reading.page(&other, &notes).await.ok()?;
                found.shards_missing.is_empty().then_some(found)
            })
            .await;
            reading.read.extend(found.evidence);
            reading.page_token = found.next_page_token;
        }
        assert_no_repeats(&reading.read);
        assert!(reading.read.len() >= DOCUMENTS / 2);
    }
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_shows_nobody_what_their_key_does_not() {
    let world = World::new();
    let server = world.serve();
    let (acme, hr) = (world.client(&server, "acme").await, world.client(&server, "acme-hr").await);
    let notes = create_in_shards(&acme, "notes", SHARDS).await;
    let mut all = documents(0..20, "quiet");
    for made in all.iter_mut().skip(10) {
        made.labels = Labels::parse(["hr"]).unwrap();
    }
    remember(&hr, &notes, all).await;
    let query = Query { grouping: Grouping::Documents, ..searches(4).remove(0) };
    let reading = Reading::begin(&hr, &notes, query.clone()).await;
    let page_token = reading.page_token.clone();
    let of_hr = reading.finish(&hr, &notes).await;
    assert_eq!(of_hr.len(), 20);
    let seen = Reading { query: query.clone(), read: Vec::new(), page_token: page_token.clone() };
    let seen = seen.finish(&acme, &notes).await;
    assert!(!seen.is_empty() && seen.iter().all(|item| *item.document_id < *"d010"), "{seen:?}");

    let other = world.client(&server, "other").await;
    create_in_shards(&other, "notes", SHARDS).await;
    let operator = world.client(&server, "operator").await;
    for (client, corpus) in [(&other, "notes"), (&operator, "acme.notes")] {
        let page = SearchPage { page_token: page_token.clone(), ..SearchPage::default() };
        let refused = client.search_page(&corpus.parse().unwrap(), query.clone(), page).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(refused.fields_at_fault(), ["page_token"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_reads_page_by_page_with_and_without_a_server() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create_in_shards(&client, "notes", 1).await;
    remember(&client, &notes, documents(0..5, "quiet")).await;
    let arguments = |token: &str| {
        let asked =
            ["search", "--corpus", "notes", "old house", "-k", "2", "--by-document", "--json"];
        let asked = asked.iter().map(|argument| (*argument).to_owned());
        asked.chain(["--page-token".to_owned(), token.to_owned()]).collect::<Vec<String>>()
    };
    let (mut read, mut token) = (Vec::new(), String::new());
    for expected in [2, 2] {
        let arguments = arguments(&token);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let page = home.run_at(&server, &arguments).done();
        let items = page["evidence"].as_array().unwrap().clone();
        assert_eq!(items.len(), expected);
        read.extend(items.into_iter().map(|item| item["document_id"].to_string()));
        token = page["next_page_token"].as_str().unwrap().to_owned();
        assert!(!token.is_empty());
    }
    assert!(server.terminate().success());
    let arguments = arguments(&token);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let page = home.run_embedded(&arguments).done();
    read.push(page["evidence"][0]["document_id"].to_string());
    assert_eq!(
        (page["evidence"].as_array().unwrap().len(), &page["next_page_token"]),
        (1, &"".into())
    );
    assert_eq!(read.iter().collect::<BTreeSet<_>>().len(), 5, "{read:?}");
    arguments[3] = "another question";
    let refused = home.run_embedded(&arguments).error();
    assert!(refused.to_string().contains("page_token"), "{refused}");
}
