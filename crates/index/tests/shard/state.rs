//! Tests of accepting, indexing, failing, and the state after a restart.

use std::collections::HashSet;
use std::path::Path;

use clew_core::{
    Accepted, Access, AttributeValue, Document, DocumentState, ErrorKind, Filter, IfThere,
    ListQuery, Novelty, Recipe, Recipes, Selection, Stage, Timestamp,
};
use clew_index::{Error, FailedAttempt, Offer, ShardReader, ShardSettings, Tuning};

use crate::fixture::{Fixture, derive, document, id, open, settings, stored};

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn data_files(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("sources.lance/_versions")).unwrap().count()
}

#[tokio::test]
async fn unchanged_documents_write_nothing() {
    let mut fixture = Fixture::new().await;
    let documents = || vec![document("a", "one"), document("b", "two")];
    let first = fixture.shard.accept(documents(), at(5)).await.unwrap();
    assert!(first.iter().all(|accepted| accepted.novelty == Novelty::New));
    let before = data_files(&fixture.folder);
    let again = fixture.shard.accept(documents(), at(9)).await.unwrap();
    let unchanged = |accepted: &Accepted| Accepted { novelty: Novelty::Unchanged, ..*accepted };
    let expected: Vec<Accepted> = first.iter().map(unchanged).collect();
    assert_eq!(again, expected);
    assert_eq!(data_files(&fixture.folder), before);

    let mixed = vec![document("b", "changed"), document("a", "one")];
    let mixed = fixture.shard.accept(mixed, at(9)).await.unwrap();
    let novelties: Vec<_> = mixed.iter().map(|accepted| accepted.novelty).collect();
    assert_eq!(novelties, [Novelty::Replaced, Novelty::Unchanged]);
    assert!(mixed[0].version > first[1].version);
}

#[tokio::test]
async fn the_oldest_documents_are_told_by_event_times_or_else_by_acceptance() {
    let mut fixture = Fixture::new().await;
    assert_eq!(fixture.reader().oldest().await.unwrap(), None);
    let of_before = Document { event_time: Some(at(2)), ..document("early", "told later") };
    fixture.ingest(vec![document("replaced", "one"), document("kept", "two")], 5).await;
    fixture.ingest(vec![document("replaced", "three")], 8).await;
    let reader = fixture.reader();
    assert_eq!(reader.oldest().await.unwrap(), Some(at(5)));
    assert!(reader.older_than(at(5), 9).await.unwrap().is_empty());
    assert_eq!(reader.older_than(at(6), 9).await.unwrap(), [id("kept")]);
    assert_eq!(reader.older_than(at(9), 1).await.unwrap().len(), 1);
    fixture.ingest(vec![of_before], 9).await;
    let reader = fixture.reader();
    assert_eq!(reader.oldest().await.unwrap(), Some(at(2)));
    assert_eq!(reader.older_than(at(5), 9).await.unwrap(), [id("early")]);
    fixture.shard.forget(&[id("early"), id("kept")]).await.unwrap();
    assert_eq!(fixture.reader().oldest().await.unwrap(), Some(at(8)));
}

#[tokio::test]
async fn an_addition_replaces_nothing_and_may_be_repeated() {
    let mut fixture = Fixture::new().await;
    let addition = |name: &str, text: &str| Offer {
        document: document(name, text),
        access: Access::all(),
        if_there: IfThere::Refuse,
    };
    let offers = || vec![addition("a", "one"), addition("b", "two")];
    let first = fixture.shard.accept_offers(offers(), at(5)).await.unwrap();
    let versions = |outcomes: Vec<clew_index::OfferResult>| -> Vec<_> {
        outcomes.into_iter().map(|outcome| outcome.map(|accepted| accepted.version)).collect()
    };
    let [a, b] = versions(first).try_into().unwrap();
    // Sent again, as after a lost answer: the same content is not a replacement.
    let again = versions(fixture.shard.accept_offers(offers(), at(6)).await.unwrap());
    assert_eq!(again.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [a.unwrap(), b.unwrap()]);

    // The other documents of the commit are accepted.
    let mixed = vec![addition("a", "another"), addition("c", "three"), addition("b", "two")];
    let mixed = fixture.shard.accept_offers(mixed, at(7)).await.unwrap();
    let novelties: Vec<_> = mixed
        .iter()
        .map(|outcome| outcome.as_ref().ok().map(|accepted| accepted.novelty))
        .collect();
    assert_eq!(novelties, [None, Some(Novelty::New), Some(Novelty::Unchanged)]);
    let refused = mixed[0].as_ref().unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::AlreadyExists, "DOCUMENT_EXISTS"));
    assert!(!refused.is_retryable());
    let kept = stored(&fixture.reader(), &id("a")).await.unwrap();
    assert_eq!(kept.document.text, "one");
}

#[tokio::test]
async fn an_id_twice_in_a_request_is_refused_and_nothing_is_written() {
    let mut fixture = Fixture::new().await;
    let twice = vec![document("a", "one"), document("a", "two")];
    let error = fixture.shard.accept(twice, at(1)).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { field: "document.id", .. }));
    assert_eq!(fixture.reader().counts().pending, 0);
}

#[tokio::test]
async fn a_restart_finds_the_state_it_left() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("a", "one\ntwo"), document("b", "three")], 1).await;
    fixture.shard.accept(vec![document("b", "four"), document("c", "five")], at(2)).await.unwrap();
    let failure = FailedAttempt {
        document_id: id("c"),
        version: fixture.reader().status(&id("c")).unwrap().version,
        stage: Stage::Embedding,
        kind: ErrorKind::Unavailable,
        message: "the device is gone".to_owned(),
        next_try: Some(at(50)),
    };
    fixture.shard.record_failures(vec![failure]).await.unwrap();
    let all = ListQuery { after: None, limit: 10, state: None };
    let (list, counts) = (fixture.reader().list(&all), fixture.reader().counts());
    assert_eq!((counts.documents, counts.pending, counts.retrying), (2, 1, 1));
    assert_eq!((counts.chunks, list[1].live_version.is_some()), (3, true));

    fixture.reopen().await;
    assert_eq!(fixture.reader().list(&all), list);
    assert_eq!(fixture.reader().counts(), counts);
    let due = fixture.reader().due(at(3), 10, &HashSet::new());
    assert_eq!(due.iter().map(|due| due.document_id.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn the_stored_text_is_the_accepted_text() {
    let mut fixture = Fixture::new().await;
    let mut whole = document("it's \"a\" name; --", "Text mit ü\n\nund Zeilen.\n");
    whole.title = "A title".to_owned();
    whole.event_time = Some(at(-7));
    let number = AttributeValue::number(-0.5).unwrap();
    for (name, value) in
        [("lang", "de='x'".into()), ("n", 3.into()), ("rate", number), ("draft", false.into())]
    {
        whole.attributes.insert(name.to_owned().try_into().unwrap(), value);
    }
    fixture.shard.accept(vec![whole.clone()], at(1)).await.unwrap();
    assert_eq!(stored(&fixture.reader(), &whole.id).await.unwrap().document, whole);
    // A replacement that is due is not visible while the old version is live.
    fixture.index_due(1).await;
    let mut newer = whole.clone();
    newer.text = "Neu.".to_owned();
    fixture.shard.accept(vec![newer.clone()], at(2)).await.unwrap();
    assert_eq!(stored(&fixture.reader(), &whole.id).await.unwrap().document, whole);
    fixture.index_due(2).await;
    assert_eq!(stored(&fixture.reader(), &whole.id).await.unwrap().document, newer);
    assert_eq!(stored(&fixture.reader(), &id("other")).await, None);
}

#[tokio::test]
async fn a_document_that_keeps_failing_is_set_aside_and_holds_nothing_up() {
    let mut fixture = Fixture::with_tuning(Tuning { attempts: 3, ..Tuning::default() }).await;
    fixture.shard.accept(vec![document("bad", "x"), document("good", "y")], at(1)).await.unwrap();
    for attempt in 1..=3 {
        let now = attempt * 10;
        let due = fixture.reader().due(at(now), 1, &HashSet::from([id("good")]));
        assert_eq!(due[0].attempts, attempt as u32 - 1);
        let failure = FailedAttempt {
            document_id: id("bad"),
            version: due[0].version,
            stage: Stage::Chunking,
            kind: ErrorKind::Internal,
            message: "no".to_owned(),
            next_try: Some(at(now + 10)),
        };
        fixture.shard.record_failures(vec![failure]).await.unwrap();
        let waiting = fixture.reader().due(at(now + 9), 10, &HashSet::new());
        assert!(waiting.iter().all(|due| due.document_id == id("good")));
    }
    let status = fixture.reader().status(&id("bad")).unwrap();
    assert_eq!(status.state, DocumentState::SetAside);
    assert_eq!(status.failure.as_ref().unwrap().attempts, 3);
    assert_eq!(fixture.reader().next_try(), None);
    fixture.index_due(1_000).await;
    assert_eq!(fixture.reader().status(&id("good")).unwrap().state, DocumentState::Indexed);

    // A new version is tried again, and success clears the failure.
    fixture.ingest(vec![document("bad", "better")], 2_000).await;
    let status = fixture.reader().status(&id("bad")).unwrap();
    assert_eq!((status.state, status.failure), (DocumentState::Indexed, None));
    fixture.reopen().await;
    assert_eq!(fixture.reader().counts().set_aside, 0);
}

#[tokio::test]
async fn chunks_of_another_recipe_are_found_until_they_are_made_again() {
    let mut fixture = Fixture::new().await;
    fixture.ingest(vec![document("a", "one\ntwo")], 1).await;
    let newer = ShardSettings {
        recipes: Recipes { wanted: Recipe(3), as_good: None },
        ..settings(Tuning::default())
    };
    fixture.shard = open(&fixture.folder, newer).await.unwrap();
    let reader = fixture.reader();
    assert_eq!((reader.counts().documents, reader.counts().pending), (1, 0));
    assert_eq!((reader.lag().outdated, reader.reembedded().outdated), (1, 1));
    let mut derived = fixture.derive_due(2).await;
    derived[0].recipe = Recipe(3);
    fixture.shard.commit_derived(derived).await.unwrap();
    let counts = reader.counts();
    assert_eq!((counts.documents, reader.lag().outdated, counts.chunks), (1, 0, 2));
    assert_eq!(fixture.shard.statistics().await.unwrap().chunks.rows, 2);
}

#[tokio::test]
async fn bad_chunks_are_refused_before_anything_is_written() {
    let mut fixture = Fixture::new().await;
    fixture.shard.accept(vec![document("a", "one")], at(1)).await.unwrap();
    let good = fixture.derive_due(1).await.pop().unwrap();
    type Damage = fn(&mut clew_index::DerivedDocument);
    let cases: [(&str, Damage); 6] = [
        ("chunks", |d| d.chunks.clear()),
        ("chunk.ordinal", |d| d.chunks[0].chunk.ordinal = 1),
        ("chunk.span", |d| d.chunks[0].chunk.span.end = 99),
        ("chunk.vector", |d| d.chunks[0].vectors[0].truncate(3)),
        ("chunk.vector", |d| d.chunks[0].vectors[0][0] = f32::NAN),
        ("chunk.vector", |d| d.chunks[0].vectors[0].fill(0.0)),
    ];
    for (expected, damage) in cases {
        let mut bad = good.clone();
        damage(&mut bad);
        match fixture.shard.commit_derived(vec![bad]).await.unwrap_err() {
            Error::Invalid { field, .. } => assert_eq!(field, expected),
            other => panic!("{other}"),
        }
    }
    assert_eq!(fixture.reader().counts().chunks, 0);
}

#[tokio::test]
async fn chunks_committed_twice_are_there_once() {
    let mut fixture = Fixture::new().await;
    fixture.shard.accept(vec![document("a", "one\ntwo")], at(1)).await.unwrap();
    let derived = fixture.derive_due(1).await;
    let first = fixture.shard.commit_derived(derived.clone()).await.unwrap();
    assert_eq!((first.documents, first.chunks), (1, 2));
    let second = fixture.shard.commit_derived(derived).await.unwrap();
    assert_eq!((second.documents, second.dropped), (0, vec![id("a")]));
    assert_eq!(fixture.shard.statistics().await.unwrap().chunks.rows, 2);
    let late = derive(document("a", "one\ntwo"), clew_core::Version(0));
    assert_eq!(fixture.shard.commit_derived(vec![late]).await.unwrap().documents, 0);
}

#[tokio::test]
async fn a_folder_of_any_name_holds_a_shard() {
    let temporary = tempfile::tempdir().unwrap();
    for name in ["a b", "ü", "50%", "%20", "a#b", "a?b=c", "a:b"] {
        let folder = temporary.path().join(name).join("shard-0");
        let mut shard = open(&folder, settings(Tuning::default())).await.unwrap();
        shard.accept(vec![document("a", "one")], at(1)).await.unwrap();
        let shard = open(&folder, settings(Tuning::default())).await.unwrap();
        assert_eq!(shard.reader().counts().pending, 1, "{name}");
        assert!(folder.join("sources.lance").is_dir(), "{name}");
    }
}

#[tokio::test]
async fn writes_can_be_driven_from_any_thread() {
    fn is_send<T: Send>(_: &T) {}
    let mut fixture = Fixture::new().await;
    is_send(&fixture.shard.commit_derived(Vec::new()));
    is_send(&fixture.shard.forget(&[]));
    is_send(&fixture.shard.maintain(&clew_index::MaintenancePlan::default(), Default::default()));
    let accepted = tokio::spawn(async move { fixture.shard.accept(Vec::new(), at(1)).await });
    assert!(accepted.await.unwrap().unwrap().is_empty());
}

/// Until the newest version can be found, a document is selected and described by the older one.
#[tokio::test]
async fn a_document_is_selected_by_the_version_that_searches_find() {
    let mut fixture = Fixture::new().await;
    let of_year = |name: &str, year: i64| {
        let mut document = document(name, &format!("{name} of {year}"));
        document.title = format!("Title of {year}");
        document.attributes.insert("year".to_owned().try_into().unwrap(), year.into());
        document
    };
    fixture.ingest(vec![of_year("old", 2019), of_year("replaced", 2019)], 1).await;
    let newer = vec![of_year("replaced", 2024), of_year("new", 2024)];
    fixture.shard.accept(newer, at(2)).await.unwrap();
    let selected = async |reader: &ShardReader, condition: &str| {
        let condition = Some(condition.parse().unwrap());
        let filter = Filter { condition, ..Filter::default() };
        let selection = Selection { filter, ..Selection::default() };
        let selected = reader.with_access(&Access::all()).select(&selection, None, 10).await;
        let ids = selected.unwrap().into_iter().map(|status| status.document_id.to_string());
        ids.collect::<Vec<_>>()
    };
    let described = async |reader: &ShardReader| {
        let ids = ["new", "replaced"].map(id);
        let described = reader.with_access(&Access::all()).describe(&ids).await.unwrap();
        let mut described: Vec<_> = described
            .into_iter()
            .map(|one| {
                let year = one.attributes.into_values().next().unwrap().to_string();
                (one.document_id.to_string(), one.title, year)
            })
            .collect();
        described.sort();
        described
    };
    let told =
        |id: &str, title: &str, year: &str| (id.to_owned(), title.to_owned(), year.to_owned());
    let reader = fixture.reader();
    assert_eq!(selected(&reader, "year = 2019").await, ["old", "replaced"]);
    assert_eq!(selected(&reader, "year = 2024").await, ["new"]);
    let expected = [told("new", "", "2024"), told("replaced", "Title of 2019", "2019")];
    assert_eq!(described(&reader).await, expected);
    let pending = Selection { state: Some(DocumentState::Pending), ..Selection::default() };
    let view = reader.with_access(&Access::all());
    assert_eq!(view.count_selected(&pending).await.unwrap(), 2);

    fixture.index_due(2).await;
    let reader = fixture.reader();
    assert_eq!(selected(&reader, "year = 2019").await, ["old"]);
    assert_eq!(selected(&reader, "year = 2024").await, ["new", "replaced"]);
    let expected =
        [told("new", "Title of 2024", "2024"), told("replaced", "Title of 2024", "2024")];
    assert_eq!(described(&reader).await, expected);
}
