//! Tests of a shard whose corpus moves from one model to another.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use clew_core::{
    Access, Candidates, CheckQuery, Chunking, CorpusSettings, Document, EncoderIdentity,
    ReembedStep, SearchMode, SourceVersion, Timestamp,
};
use clew_index::{
    DerivedDocument, Error, MaintenanceStep, ShardReader, ShardSettings, ShardWriter, Tuning,
};

use crate::fixture::{Search, derive, document, embed, id, model, open};

const PATIENCE: Duration = Duration::from_secs(5);
/// Number that the source of each document gives it.
const NUMBER: SourceVersion = SourceVersion(3);

/// Corpus of one shard in a folder. The vectors of its models depend on the words.
struct Moving {
    corpus: CorpusSettings,
    shard: ShardWriter,
    folder: tempfile::TempDir,
    tuning: Tuning,
}

impl Moving {
    async fn new(tuning: Tuning) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (name, chunking) = ("notes".parse().unwrap(), Chunking::Sections { max_tokens: 200 });
        let made = Timestamp::from_micros(0);
        let corpus = CorpusSettings::plain(name, 1, chunking, model("first", 16), made);
        let settings = ShardSettings { tuning, ..ShardSettings::of(&corpus) };
        let shard = open(folder.path(), settings).await.unwrap();
        Self { corpus, shard, folder, tuning }
    }

    fn settings(&self) -> ShardSettings {
        ShardSettings { tuning: self.tuning, ..ShardSettings::of(&self.corpus) }
    }

    async fn take(&mut self, step: ReembedStep) {
        self.corpus = self.corpus.after(&step).unwrap();
        self.shard.settle(self.settings()).await.unwrap();
    }

    /// Opens the shard again, as after `kill -9`.
    async fn reopen(&mut self) {
        self.shard = open(self.folder.path(), self.settings()).await.unwrap();
    }

    fn reader(&self) -> ShardReader {
        self.shard.reader()
    }

    async fn accept(&mut self, names: &[&str]) {
        let documents = names.iter().map(|name| Document {
            source_version: Some(NUMBER),
            ..document(name, &format!("{name}\nand more"))
        });
        self.shard.accept(documents.collect(), Timestamp::from_micros(1)).await.unwrap();
    }

    /// Commits the chunks of up to `most` documents that are due or outdated. Returns how many
    /// documents.
    async fn make(&mut self, most: usize) -> usize {
        let (reader, now) = (self.reader(), Timestamp::from_micros(9));
        let mut due = reader.due(now, most, &HashSet::new());
        due.extend(reader.outdated(now, most - due.len(), &HashSet::new()));
        let due: Vec<_> = due.into_iter().map(|it| (it.document_id, it.version)).collect();
        let stored = reader.read_sources(&due).await.unwrap();
        let derived = stored.into_iter().map(|it| self.derive(derive(it.document, it.version)));
        let committed = self.shard.commit_derived(derived.collect()).await.unwrap();
        assert_eq!((committed.documents, committed.dropped.len()), (due.len() as u64, 0));
        due.len()
    }

    fn derive(&self, mut derived: DerivedDocument) -> DerivedDocument {
        derived.recipe = self.corpus.recipes().wanted;
        for row in &mut derived.chunks {
            let vectors = self.settings().vectors.into_iter();
            row.vectors = vectors.map(|it| vector(&it.encoder, &row.chunk.key_text)).collect();
        }
        derived
    }

    async fn search(
        &self,
        text: &str,
        encoder: Option<&EncoderIdentity>,
    ) -> Result<Candidates, Error> {
        let mut search = Search::new(text);
        search.mode = SearchMode::Dense;
        let mut query = search.query();
        query.vector = Some(vector(encoder.unwrap_or(&self.corpus.encoder), text));
        query.encoder = encoder.map_or_else(String::new, EncoderIdentity::fingerprint);
        self.reader().with_access(&Access::all()).candidates(&query).await
    }

    /// Asserts that every document is found first by its own words, with the searched model and
    /// with `others`.
    async fn assert_found(&self, names: &[&str], others: &[&EncoderIdentity]) {
        for encoder in std::iter::once(None).chain(others.iter().map(|&it| Some(it))) {
            for name in names {
                let found = self.search(name, encoder).await.unwrap().dense;
                assert_eq!(found[0].document_id, id(name), "{encoder:?}");
                assert!(found[0].score > 0.999, "{}", found[0].score);
                let all: BTreeSet<_> =
                    found.iter().map(|hit| hit.document_id.to_string()).collect();
                assert_eq!(all.len(), names.len(), "{encoder:?}");
            }
        }
        for name in names {
            let status = self.reader().status(&id(name)).unwrap();
            assert_eq!(status.source_version, Some(NUMBER), "{name}");
        }
        let query = CheckQuery { after: None, limit: 100 };
        let checked = self.reader().with_access(&Access::all()).check(&query).await.unwrap();
        assert!(checked.breaches.is_empty(), "{:?}", checked.breaches);
    }

    async fn maintain(&mut self) -> Vec<MaintenanceStep> {
        let plan = self.shard.maintenance_plan().await.unwrap();
        self.shard.maintain(&plan, PATIENCE).await.unwrap().done
    }

    fn outdated(&self) -> u64 {
        let told = self.reader().reembedded();
        assert_eq!(told.recipe, self.corpus.recipes().wanted);
        told.outdated
    }
}

/// Returns the vector that a model makes of a text. Each model sees other words in it, and uses its
/// own dimensions.
fn vector(encoder: &EncoderIdentity, text: &str) -> Vec<f32> {
    let words: Vec<String> =
        text.split_whitespace().map(|word| format!("{}{word}", encoder.model)).collect();
    embed(&words.join(" ")).into_iter().take(encoder.dimension as usize).collect()
}

async fn a_move(tuning: Tuning) -> Moving {
    let (first, next) = (model("first", 16), model("next", 8));
    let mut moving = Moving::new(tuning).await;
    moving.accept(&["apricot", "basalt", "cobalt"]).await;
    assert_eq!(moving.make(9).await, 3);
    moving.maintain().await;
    let mut names = vec!["apricot", "basalt", "cobalt"];
    moving.assert_found(&names, &[]).await;
    let ids = |found: Candidates| -> BTreeSet<String> {
        found.dense.iter().map(|hit| hit.chunk_id.to_string()).collect()
    };
    let before = ids(moving.search("basalt", None).await.unwrap());

    moving.take(ReembedStep::Start(next.clone())).await;
    assert_eq!(moving.outdated(), 3);
    moving.assert_found(&names, &[]).await;
    // New documents come first and are found by both models.
    moving.accept(&["dolomite"]).await;
    assert_eq!(moving.make(1).await, 1);
    assert_eq!(moving.outdated(), 3);
    names.push("dolomite");
    moving.assert_found(&names, &[]).await;
    assert_eq!(
        moving.search("dolomite", Some(&next)).await.unwrap().dense[0].document_id,
        id("dolomite")
    );
    assert_eq!(moving.make(1).await, 1);
    moving.reopen().await;
    assert_eq!(moving.outdated(), 2);
    moving.assert_found(&names, &[]).await;
    moving.maintain().await;
    assert_eq!(moving.make(9).await, 2);
    assert_eq!(moving.outdated(), 0);
    moving.assert_found(&names, &[&first, &next]).await;
    moving.maintain().await;
    moving.assert_found(&names, &[&first, &next]).await;
    let kept = ids(moving.search("basalt", Some(&first)).await.unwrap());
    assert!(before.is_subset(&kept));

    for step in [ReembedStep::CutOver, ReembedStep::Back, ReembedStep::CutOver] {
        moving.take(step).await;
        assert_eq!(moving.outdated(), 0);
        moving.assert_found(&names, &[&first, &next]).await;
    }
    moving.shard.forget(&[id("apricot")]).await.unwrap();
    moving.accept(&["erbium"]).await;
    assert_eq!(moving.make(9).await, 1);
    names.remove(0);
    names.push("erbium");
    moving.assert_found(&names, &[&first, &next]).await;
    moving
}

#[tokio::test]
async fn every_document_is_found_by_both_models_until_one_is_given_up() {
    let tuning = Tuning { vectors_linger: Duration::ZERO, ..Tuning::default() };
    let mut moving = a_move(tuning).await;
    let (first, next) = (model("first", 16), model("next", 8));
    let names = ["basalt", "cobalt", "dolomite", "erbium"];
    moving.take(ReembedStep::Confirm).await;
    assert_eq!(moving.outdated(), 0);
    // Callers that do not know of it yet still search the old vectors, and new documents have no
    // vectors of the old model.
    moving.assert_found(&names, &[&first, &next]).await;
    moving.accept(&["fluorite"]).await;
    assert_eq!(moving.make(9).await, 1);
    let names = ["basalt", "cobalt", "dolomite", "erbium", "fluorite"];
    moving.assert_found(&names, &[&next]).await;
    assert!(moving.maintain().await.contains(&MaintenanceStep::DropVectors));
    moving.assert_found(&names, &[&next]).await;
    let refused = moving.search("basalt", Some(&first)).await.unwrap_err();
    assert!(matches!(refused, Error::OtherVectors), "{refused}");
    moving.reopen().await;
    moving.assert_found(&names, &[&next]).await;

    // Back to the first model: its earlier vectors are gone, so all of them are made again.
    moving.take(ReembedStep::Start(first.clone())).await;
    assert_eq!(moving.outdated(), 5);
    assert_eq!(moving.make(9).await, 5);
    moving.assert_found(&names, &[&first, &next]).await;
    moving.take(ReembedStep::Abandon).await;
    assert!(moving.maintain().await.contains(&MaintenanceStep::DropVectors));
    moving.assert_found(&names, &[&next]).await;
    moving.take(ReembedStep::Start(first.clone())).await;
    assert_eq!(moving.outdated(), 5);
}

#[tokio::test]
async fn vectors_that_linger_are_dropped_later() {
    let mut moving = a_move(Tuning::default()).await;
    moving.take(ReembedStep::Confirm).await;
    assert!(!moving.maintain().await.contains(&MaintenanceStep::DropVectors));
    moving.assert_found(&["basalt", "cobalt", "dolomite", "erbium"], &[&model("first", 16)]).await;
}

#[tokio::test]
async fn each_model_has_a_vector_index_once_its_vectors_are_there() {
    let tuning = Tuning {
        index_rows: 2,
        vector_index_rows: 4,
        vectors_linger: Duration::ZERO,
        ..Tuning::default()
    };
    let mut moving = a_move(tuning).await;
    assert_eq!(moving.shard.statistics().await.unwrap().vector_indexes_missing, 0);
    moving.take(ReembedStep::Confirm).await;
    moving.maintain().await;
    moving.assert_found(&["basalt", "cobalt", "dolomite", "erbium"], &[]).await;
    assert_eq!(moving.shard.statistics().await.unwrap().vector_indexes_missing, 0);
}

#[tokio::test]
async fn what_was_made_for_another_set_of_models_is_dropped() {
    let mut moving = Moving::new(Tuning::default()).await;
    moving.accept(&["apricot"]).await;
    let reader = moving.reader();
    let due = reader.due(Timestamp::from_micros(9), 9, &HashSet::new());
    let due: Vec<_> = due.into_iter().map(|it| (it.document_id, it.version)).collect();
    let stored = reader.read_sources(&due).await.unwrap().pop().unwrap();
    let derived = moving.derive(derive(stored.document, stored.version));
    moving.take(ReembedStep::Start(model("next", 8))).await;
    let committed = moving.shard.commit_derived(vec![derived]).await.unwrap();
    assert_eq!((committed.documents, committed.dropped), (0, vec![id("apricot")]));
    assert_eq!(moving.make(9).await, 1);
    moving.assert_found(&["apricot"], &[]).await;
    // Existing vectors are not made again.
    let made =
        moving.reader().vectors(&model("next", 8), &[id("apricot")], &["apricot"]).await.unwrap();
    assert_eq!(made["apricot"], vector(&model("next", 8), "apricot"));
    for (encoder, text) in [(model("other", 12), "apricot"), (model("next", 8), "other text")] {
        let none = moving.reader().vectors(&encoder, &[id("apricot")], &[text]).await.unwrap();
        assert!(none.is_empty());
    }
}
