//! Tests that corpora do not affect each other, even if the register of one is damaged or written
//! by another release. Releases run side by side as in an upgrade node by node, and on the way
//! back.

use std::time::Instant;

use clew_client::Client;
use clew_core::{CorpusName, ErrorKind};
use clew_proto::corpus::v1::Corpus;
use clew_proto::shard::v1 as shards;
use clew_proto::shard::v1::catalogue_service_client::CatalogueServiceClient;
use clew_runtime::deadline::request;
use tonic::Code;

use crate::client::{corpus, create_in_shards, document, exhaustive, id, remember, send};
use crate::harness::{PATIENCE, eventually};
use crate::processes::Cluster;
use crate::words::text_with;

const SHARDS: u32 = 4;
const RETRIEVERS: [&str; 2] = ["retriever-0", "retriever-1"];

/// Waits until every shard of a corpus answers. Asserts that it holds these documents and no
/// others.
async fn holds(client: &Client, name: &CorpusName, documents: &[&str]) {
    eventually("every shard answers", async || {
        let query = exhaustive("the");
        let found = client.search(name, query).await.ok()?;
        found.shards_missing.is_empty().then_some(())
    })
    .await;
    for of in documents {
        let (found, _) = client.document(name, &id(of)).await.unwrap();
        assert_eq!(found.id, *of);
    }
    let counts = client.corpus(name).await.unwrap().counts.unwrap();
    assert_eq!(counts.documents, documents.len() as u64, "{name}");
}

/// Ingests a document and waits until it can be found.
async fn bring(client: &Client, name: &CorpusName, document_id: &str) {
    let document = document(document_id, text_with(&[&format!("x{document_id}")]));
    eventually("every shard takes documents", async || {
        client.corpus(name).await.ok()?.counts.map(drop)
    })
    .await;
    remember(client, name, vec![document]).await;
}

/// Returns the reason why a listed corpus cannot be used. Returns `None` if it can.
async fn fault(client: &Client, name: &CorpusName) -> Option<String> {
    let listed = client.corpora().await.unwrap();
    let found = listed.into_iter().find(|corpus| corpus.name == name.as_str());
    found.unwrap_or_else(|| panic!("{name} is not listed")).fault.map(|fault| fault.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_register_stops_its_corpus_alone_and_it_is_back_with_it() {
    let mut cluster = Cluster::start(2).await;
    let client = cluster.client().await;
    let (bad, good) = (
        create_in_shards(&client, "bad", 2).await,
        create_in_shards(&client, "good", SHARDS).await,
    );
    for name in [&bad, &good] {
        bring(&client, name, "first").await;
    }
    let register = cluster.data_dir().join("corpora/bad/settings.json");
    let written = std::fs::read(&register).unwrap();
    std::fs::write(&register, "{").unwrap();
    let stopped = eventually("the corpus stops", async || client.corpus(&bad).await.err()).await;
    assert_eq!((stopped.kind(), stopped.reason()), (ErrorKind::DataLoss, "DATA_LOSS"));
    // Some of its shards may answer until their owners have closed them.
    let refused = eventually("no shard answers", async || {
        let searched = client.search(&bad, exhaustive("the")).await;
        searched.err().filter(|error| error.kind() == ErrorKind::DataLoss)
    })
    .await;
    assert!(refused.message().contains("restore"), "{refused}");
    assert_eq!(fault(&client, &bad).await.as_deref(), Some("DATA_LOSS"));
    assert_eq!(fault(&client, &good).await, None);

    // All other corpora continue: shards move, corpora are created and deleted.
    cluster.kill("retriever-1");
    holds(&client, &good, &["first"]).await;
    bring(&client, &good, "second").await;
    let new = create_in_shards(&client, "new", SHARDS).await;
    bring(&client, &new, "first").await;
    client.delete_corpus(&new).await.unwrap();
    // A retriever that starts finds the damage.
    cluster.start_again("retriever-1").await;
    cluster.kill("retriever-0");
    holds(&client, &good, &["first", "second"]).await;
    let log = cluster.node("retriever-1").log();
    assert!(log.contains("the corpus cannot be used; others go on"), "{log}");

    let restored = register.with_extension("restored");
    std::fs::write(&restored, written).unwrap();
    std::fs::rename(restored, &register).unwrap();
    holds(&client, &bad, &["first"]).await;
    assert_eq!(fault(&client, &bad).await, None);
}

/// Connects to the catalogue service of one retriever, past the gateway.
async fn catalogue(
    cluster: &Cluster,
    retriever: &str,
) -> CatalogueServiceClient<tonic::transport::Channel> {
    CatalogueServiceClient::connect(cluster.endpoint(retriever)).await.unwrap()
}

/// Makes one retriever create a corpus with the settings of another corpus.
async fn make_at(cluster: &Cluster, retriever: &str, settings: Corpus, name: &CorpusName) {
    // So many shards that some belong to each retriever.
    let shards = 16;
    let corpus = Some(Corpus { name: name.to_string(), shards, counts: None, ..settings });
    let message = shards::CreateCorpusRequest { corpus };
    let mut catalogue = catalogue(cluster, retriever).await;
    catalogue.create_corpus(request(message, Instant::now() + PATIENCE)).await.unwrap();
}

async fn code_at(cluster: &Cluster, retriever: &str, name: &CorpusName) -> Code {
    let message = shards::GetCorpusRequest { name: name.to_string() };
    let mut catalogue = catalogue(cluster, retriever).await;
    let found = catalogue.get_corpus(request(message, Instant::now() + PATIENCE)).await;
    found.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_node_by_node_and_the_way_back_leave_every_corpus_that_a_release_knows_at_work()
{
    let mut cluster = Cluster::start(2).await;
    let client = cluster.client().await;
    let (ours, theirs) = (create_in_shards(&client, "ours", SHARDS).await, corpus("theirs"));
    bring(&client, &ours, "before").await;

    // One of two retrievers runs the next release, which raised the format, and writes a corpus in
    // it.
    cluster.of_next_release.insert("retriever-1".to_owned());
    cluster.restart("retriever-1").await;
    holds(&client, &ours, &["before"]).await;
    let settings = client.corpus(&ours).await.unwrap();
    make_at(&cluster, "retriever-1", settings, &theirs).await;
    assert_eq!(code_at(&cluster, "retriever-1", &theirs).await, Code::Ok);
    assert_eq!(code_at(&cluster, "retriever-0", &theirs).await, Code::FailedPrecondition);
    // Whichever retriever a gateway asks, it finds one that knows the corpus, and the shards that
    // belong there.
    let found = eventually("some of its shards answer", async || {
        client.search(&theirs, exhaustive("the")).await.ok()
    })
    .await;
    assert!(!found.shards_missing.is_empty(), "who does not know it has none: {found:?}");
    bring(&client, &ours, "between").await;
    // The other retriever continues alone with what it knows.
    cluster.kill("retriever-1");
    holds(&client, &ours, &["before", "between"]).await;
    let refused =
        eventually("the gateway looks anew", async || client.corpus(&theirs).await.err()).await;
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::WrongState, "NEWER_FORMAT"));
    assert!(refused.message().contains("use the release that wrote it"), "{refused}");
    assert_eq!(fault(&client, &theirs).await.as_deref(), Some("NEWER_FORMAT"));
    assert_eq!(fault(&client, &ours).await, None);

    // Both run the next release.
    cluster.start_again("retriever-1").await;
    cluster.of_next_release.insert("retriever-0".to_owned());
    cluster.restart("retriever-0").await;
    holds(&client, &ours, &["before", "between"]).await;
    bring(&client, &theirs, "first").await;
    bring(&client, &ours, "after").await;
    for name in [&ours, &theirs] {
        assert_eq!(fault(&client, name).await, None, "{name}");
    }

    // Both run the previous release again. It has the corpora that it knew, with what was ingested
    // since.
    cluster.of_next_release.clear();
    for name in RETRIEVERS {
        cluster.restart(name).await;
    }
    holds(&client, &ours, &["before", "between", "after"]).await;
    bring(&client, &ours, "back").await;
    let refused =
        eventually("the gateway looks anew", async || client.corpus(&theirs).await.err()).await;
    assert_eq!(refused.reason(), "NEWER_FORMAT", "{refused}");
    let accepted = send(&client, &theirs, vec![document("lost", "Never.")]).await;
    assert_eq!(accepted[0].as_ref().unwrap_err().reason, "NEWER_FORMAT");

    // Nothing of the other corpus was touched meanwhile.
    cluster.of_next_release.extend(RETRIEVERS.map(str::to_owned));
    for name in RETRIEVERS {
        cluster.restart(name).await;
    }
    holds(&client, &theirs, &["first"]).await;
    holds(&client, &ours, &["before", "between", "after", "back"]).await;
    cluster.stop();
}
