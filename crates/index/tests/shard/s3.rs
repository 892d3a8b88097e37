//! Tests on S3-compatible storage: the life of a shard, owners that race, and corpora that several
//! processes create and delete.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clew_core::{Access, Chunking, CorpusSettings, ErrorKind, ShardIndex, Timestamp};
use clew_index::{
    Error, ObjectStoreSettings, Registry, ShardReader, ShardWriter, Storage, StorageUrl,
    TableStatistics, Takeover, Tuning,
};
use clew_testkit::S3Server;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::fixture::{Search, derive, document, id, model, settings};
use crate::memories::memory;

const MARKER: &str = "zanzibarite";
const PATIENCE: Duration = Duration::from_secs(5);

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn settings_of(server: &S3Server) -> ObjectStoreSettings {
    ObjectStoreSettings {
        endpoint: Some(server.endpoint()),
        access_key_id: Some("test".to_owned()),
        secret_access_key: Some("test-secret".to_owned().into()),
        allow_http: true,
        ..ObjectStoreSettings::default()
    }
}

fn location(server: &S3Server) -> StorageUrl {
    StorageUrl::try_new(&server.url(), &settings_of(server)).unwrap()
}

async fn server() -> S3Server {
    tokio::task::spawn_blocking(|| S3Server::start().unwrap()).await.unwrap()
}

/// Starts a server that verifies signatures, checksums and conditions.
async fn strict_server() -> S3Server {
    tokio::task::spawn_blocking(|| S3Server::start_strict().unwrap()).await.unwrap()
}

fn corpus(name: &str, created_at: i64) -> CorpusSettings {
    let chunking = Chunking::Sentences { max_tokens: 100 };
    CorpusSettings::plain(name.parse().unwrap(), 1, chunking, model("m", 16), at(created_at))
}

/// Returns a registry and the place of a shard of its only corpus.
async fn made(server: &S3Server) -> (Registry, Storage) {
    let registry = Registry::open(&location(server)).await.unwrap();
    let notes = corpus("notes", 1);
    registry.create(&notes).await.unwrap();
    let place = registry.shard_place(&notes, ShardIndex(0));
    (registry, place)
}

async fn open(place: &Storage, takeover: Takeover) -> clew_index::Result<ShardWriter> {
    let tuning = Tuning { index_rows: 4, vector_index_rows: 4, ..Tuning::default() };
    Box::pin(ShardWriter::open(place, settings(tuning), takeover)).await
}

fn by(owner: &str) -> Takeover {
    Takeover::By(owner.to_owned())
}

async fn index_due(shard: &mut ShardWriter) {
    let reader = shard.reader();
    let due = reader.due(at(i64::MAX), 100, &Default::default());
    let wanted: Vec<_> = due.into_iter().map(|due| (due.document_id, due.version)).collect();
    let stored = reader.read_sources(&wanted).await.unwrap();
    let derived = stored.into_iter().map(|one| derive(one.document, one.version)).collect();
    shard.commit_derived(derived).await.unwrap();
}

/// Offers a document as one of several owners. Returns its name if it was accepted, or `None` if
/// another owner was faster.
async fn offer(shard: &mut ShardWriter, name: String, round: i64) -> Option<String> {
    match shard.accept(vec![document(&name, "text")], at(round + 1)).await {
        Ok(_) => Some(name),
        Err(Error::LostRace { .. }) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// Returns the result of the only winner of two.
async fn only_winner(race: [JoinHandle<Option<String>>; 2]) -> String {
    let ended = futures::future::try_join_all(race).await.unwrap();
    let won: Vec<String> = ended.into_iter().flatten().collect();
    assert_eq!(won.len(), 1, "{won:?}");
    won.into_iter().next().unwrap()
}

/// Returns the names of all objects, and of those that hold `marker`.
async fn objects(place: &Storage, marker: &str) -> (Vec<String>, Vec<String>) {
    let store = place.store().expect("a bucket");
    let all: Vec<_> = store.list(None).try_collect().await.unwrap();
    let (mut names, mut marked) = (Vec::new(), Vec::new());
    for object in all {
        let bytes = store.get(&object.location).await.unwrap().bytes().await.unwrap();
        names.push(object.location.to_string());
        if bytes.windows(marker.len()).any(|window| window == marker.as_bytes()) {
            marked.push(object.location.to_string());
        }
    }
    (names, marked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_lives_on_s3_as_in_a_folder() {
    for server in [server().await, strict_server().await] {
        Box::pin(live_as_in_a_folder(&server)).await;
    }
}

/// Has a shard live its life, down to the deletion of its corpus.
async fn live_as_in_a_folder(server: &S3Server) {
    let (registry, place) = made(server).await;
    let mut shard = open(&place, by("a")).await.unwrap();
    let documents = (0..6).map(|i| document(&format!("d{i}"), &format!("plain text {i}")));
    let secret = document("secret", &format!("the {MARKER} lies here\nand {MARKER} there"));
    shard.accept(documents.chain([secret]).collect(), at(1)).await.unwrap();
    index_due(&mut shard).await;
    let plan = shard.maintenance_plan().await.unwrap();
    shard.maintain(&plan, PATIENCE).await.unwrap();
    shard.accept(vec![document("secret", &format!("another {MARKER}"))], at(2)).await.unwrap();
    index_due(&mut shard).await;
    let found = Search::new(MARKER).run(&shard.reader()).await;
    assert_eq!(found.sparse.len(), 1);
    assert!(!objects(&place, MARKER).await.1.is_empty());

    let receipt = shard.forget(&[id("secret")]).await.unwrap().remove(0);
    assert_eq!((receipt.versions, receipt.chunks), (1, 1));
    drop(shard);
    // The pending erasure survives.
    let mut shard = open(&place, by("b")).await.unwrap();
    assert!(shard.is_erasure_wanted());
    assert!(Search::new(MARKER).run(&shard.reader()).await.sparse.is_empty());
    shard.erase(PATIENCE).await.unwrap();
    assert_eq!(objects(&place, MARKER).await.1, Vec::<String>::new());
    let statistics = shard.statistics().await.unwrap();
    let holds = |(_, table): &&(_, &TableStatistics)| table.bytes > 0;
    assert!(statistics.tables().iter().filter(holds).all(|(_, table)| table.versions <= 2));

    let shard = open(&place, by("c")).await.unwrap();
    assert!(!shard.is_erasure_wanted());
    assert_eq!(shard.reader().counts().documents, 6);
    let search = Search { limit: 50, ..Search::new("plain text") };
    let found = search.run(&shard.reader()).await;
    assert_eq!((found.dense.len(), found.sparse.len()), (6, 6));
    drop(shard);

    registry.delete(&"notes".parse().unwrap()).await.unwrap();
    assert_eq!(objects(&place, MARKER).await.0, ["some/where/corpora/notes.json"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_owners_that_commit_at_the_same_time_one_wins() {
    const ROUNDS: i64 = 30;
    let server = server().await;
    let (_registry, place) = made(&server).await;
    drop(open(&place, Takeover::Uncontested).await.unwrap());
    let mut winners = Vec::new();
    for round in 0..ROUNDS {
        let ready = Arc::new(Barrier::new(2));
        let race = ["a", "b"].map(|who| {
            let (place, ready) = (place.clone(), Arc::clone(&ready));
            tokio::spawn(async move {
                let mut shard = open(&place, Takeover::Uncontested).await.unwrap();
                ready.wait().await;
                offer(&mut shard, format!("d{round}-{who}"), round).await
            })
        });
        let won = only_winner(race).await;
        winners.push(won);
    }
    let shard = open(&place, Takeover::Uncontested).await.unwrap();
    assert_eq!(shard.reader().counts().accepted, ROUNDS as u64);
    for name in winners {
        assert!(shard.reader().status(&id(&name)).is_some(), "{name} is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_take_a_shard_over_one_has_it() {
    let server = server().await;
    let (_registry, place) = made(&server).await;
    let mut acknowledged = Vec::new();
    for round in 0..6 {
        let ready = Arc::new(Barrier::new(2));
        let race = ["a", "b"].map(|who| {
            let (place, ready) = (place.clone(), Arc::clone(&ready));
            tokio::spawn(async move {
                let opened = open(&place, by(who)).await;
                ready.wait().await;
                let mut shard = match opened {
                    Ok(shard) => shard,
                    Err(Error::LostRace { .. }) => return None,
                    Err(error) => panic!("{error:?}"),
                };
                offer(&mut shard, format!("d{round}-{who}"), round).await
            })
        });
        let won = only_winner(race).await;
        acknowledged.push(won);
    }
    let shard = open(&place, by("last")).await.unwrap();
    assert_eq!(shard.reader().counts().accepted, acknowledged.len() as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_owner_is_refused_whatever_it_does_and_nothing_of_it_is_seen() {
    for server in [server().await, strict_server().await] {
        Box::pin(refuse_an_earlier_owner(&server)).await;
    }
}

/// Has an owner go on after another took its shard over.
async fn refuse_an_earlier_owner(server: &S3Server) {
    let (_registry, place) = made(server).await;
    let mut a = open(&place, by("a")).await.unwrap();
    a.accept(vec![document("kept", "one\ntwo"), document("gone", MARKER)], at(1)).await.unwrap();
    index_due(&mut a).await;
    a.accept(vec![document("pending", "three")], at(2)).await.unwrap();
    let version = a.reader().status(&id("pending")).unwrap().version;
    assert!(a.reader().is_current().await.unwrap());
    let mut b = open(&place, by("b")).await.unwrap();
    assert!(!a.reader().is_current().await.unwrap());
    b.forget(&[id("gone")]).await.unwrap();
    b.erase(PATIENCE).await.unwrap();
    let late = vec![derive(document("pending", "three"), version)];
    let refused = [
        a.accept(vec![document("late", "late")], at(3)).await.map(drop),
        a.commit_derived(late).await.map(drop),
        a.forget(&[id("kept")]).await.map(drop),
        a.erase(PATIENCE).await,
        a.reload().await,
    ];
    // The earlier owner knows of nothing to erase, so its erasure succeeds.
    for (i, refused) in refused.into_iter().enumerate().filter(|(i, _)| *i != 3) {
        assert!(matches!(refused, Err(Error::LostRace { .. })), "{i}: {refused:?}");
    }
    b.reload().await.unwrap();
    assert_eq!((b.reader().counts().accepted, b.reader().counts().documents), (2, 1));
    index_due(&mut b).await;
    assert_eq!(b.reader().counts().documents, 2);
    assert_eq!(objects(&place, MARKER).await.1, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_who_make_or_delete_a_corpus_one_succeeds() {
    let server = server().await;
    let location = location(&server);
    let registries =
        [Registry::open(&location).await.unwrap(), Registry::open(&location).await.unwrap()];
    let name = corpus("a", 0).name;
    for round in 0..10 {
        let made = registries.clone().map(|registry| {
            tokio::spawn(async move { registry.create(&corpus("a", round)).await.is_ok() })
        });
        let made = futures::future::try_join_all(made).await.unwrap();
        assert_eq!(made.iter().filter(|&&made| made).count(), 1);
        assert_eq!(registries[0].get(&name).await.unwrap(), corpus("a", round));
        if round % 2 == 0 {
            registries[1].retire(&name).await.unwrap();
            assert!(registries[0].list().await.unwrap().is_empty());
            assert_eq!(registries[0].list_all().await.unwrap().retired.len(), 1);
        }
        let deleted = registries.clone().map(|registry| {
            let name = name.clone();
            tokio::spawn(async move { registry.delete(&name).await.is_ok() })
        });
        let deleted = futures::future::try_join_all(deleted).await.unwrap();
        assert_eq!(deleted.iter().filter(|&&deleted| deleted).count(), 1);
        assert!(registries[0].list().await.unwrap().is_empty());
        assert!(registries[0].list_all().await.unwrap().retired.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_gone_is_unavailable_and_no_loss() {
    let server = server().await;
    let (registry, place) = made(&server).await;
    let mut shard = open(&place, by("a")).await.unwrap();
    shard.accept(vec![document("a", "one")], at(1)).await.unwrap();
    index_due(&mut shard).await;
    // Too long for a file that is kept in memory when it is written.
    let long: String =
        (0..200_000_u32).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761))).collect();
    shard.accept(vec![document("unread", &long)], at(2)).await.unwrap();
    drop(server);
    let started = Instant::now();
    let failed = [
        shard.accept(vec![document("b", "two")], at(3)).await.map(drop).unwrap_err(),
        shard
            .reader()
            .with_access(&Access::all())
            .get(&[id("unread")])
            .await
            .map(drop)
            .unwrap_err(),
        registry.list().await.map(drop).unwrap_err(),
        open(&place, by("b")).await.map(drop).unwrap_err(),
    ];
    for (i, error) in failed.into_iter().enumerate() {
        let error = clew_core::Error::from(error);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{i}: {}", error.chain());
    }
    assert!(started.elapsed() < Duration::from_secs(240), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_signed_with_the_secret() {
    let server = strict_server().await;
    made(&server).await;
    let settings = ObjectStoreSettings {
        secret_access_key: Some("another".to_owned().into()),
        ..settings_of(&server)
    };
    let location = StorageUrl::try_new(&server.url(), &settings).unwrap();
    let registry = Registry::open(&location).await.unwrap();
    let error = registry.list().await.map(drop).unwrap_err();
    let error = clew_core::Error::from(error);
    assert!(error.chain().contains("SignatureDoesNotMatch"), "{}", error.chain());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_objects_than_one_request_removes_are_removed() {
    for server in [server().await, strict_server().await] {
        let (registry, place) = made(&server).await;
        let store = place.store().expect("a bucket");
        let below = objects(&place, MARKER).await.0[0].replace("notes.json", "notes/1/shard-0/x/");
        let puts = (0..1_030).map(|number| {
            let path = format!("{below}{number} & more").into();
            let store = Arc::clone(&store);
            async move { store.put(&path, "x".into()).await }
        });
        let puts = futures::stream::iter(puts).buffer_unordered(16);
        puts.try_for_each(|_| async { Ok(()) }).await.unwrap();
        assert_eq!(store.list(None).count().await, 1_031);
        registry.delete(&"notes".parse().unwrap()).await.unwrap();
        assert_eq!(objects(&place, MARKER).await.0, ["some/where/corpora/notes.json"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_memory_is_sent_in_parts_and_read_in_ranges() {
    for server in [server().await, strict_server().await] {
        Box::pin(keep_a_large_memory(&server)).await;
    }
}

/// Has a shard keep a memory of several parts.
async fn keep_a_large_memory(server: &S3Server) {
    let (_registry, place) = made(server).await;
    let mut shard = open(&place, by("a")).await.unwrap();
    shard.accept(vec![document("a", "one"), document("b", "two")], at(1)).await.unwrap();
    index_due(&mut shard).await;
    let snapshot: Bytes = (0..40_u32 << 20).map(|at| (at / 997) as u8).collect::<Vec<_>>().into();
    let stage = async |reader: &ShardReader, digit, name| {
        let version = reader.status(&id(name)).unwrap().live_version.unwrap();
        let record = memory(digit, &[name], &[version]);
        reader.stage_memory(record, snapshot.clone()).await.unwrap().unwrap()
    };
    let staged = stage(&shard.reader(), '1', "a").await;
    assert!(shard.reader().memories().is_empty());
    assert!(!objects(&place, MARKER).await.0.iter().any(|name| name.contains("memories")));
    assert_eq!(server.unfinished_uploads().unwrap().len(), 1);
    assert!(shard.commit_memory(staged, &[]).await.unwrap());
    let key = shard.reader().memories()[0].key.clone();
    drop(shard);
    let mut shard = open(&place, by("b")).await.unwrap();
    assert!(shard.reader().memory(&key).await.unwrap().unwrap() == snapshot);

    // Neither a forgotten document nor a writer that is gone leaves parts.
    let staged = stage(&shard.reader(), '2', "b").await;
    shard.forget(&[id("b")]).await.unwrap();
    assert!(!shard.commit_memory(staged, &[]).await.unwrap());
    assert!(server.unfinished_uploads().unwrap().is_empty());
    drop(stage(&shard.reader(), '3', "a").await);
    let give_up = Instant::now() + PATIENCE;
    while !server.unfinished_uploads().unwrap().is_empty() {
        assert!(Instant::now() < give_up, "the parts are still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(shard.reader().memories().len(), 1);
}
