//! Fixtures: a shard in a temporary folder, with a chunker and an embedding that cost nothing.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clew_core::{
    Access, Attributes, CandidateQuery, Candidates, Chunk, ChunkText, Document, DocumentId,
    EncoderIdentity, Filter, Grouping, Hit, Labels, MediaType, Recipe, Recipes, SearchMode,
    SearchedView, Span, StoredDocument, Timestamp,
};
use clew_index::{
    DerivedDocument, DerivedPart, EmbeddedChunk, SearchMemory, ShardReader, ShardSettings,
    ShardWriter, Storage, Takeover, Tuning, VectorColumn,
};

pub const DIMENSION: usize = 16;
pub const RECIPE: Recipe = Recipe(u64::MAX - 5);
pub const STRUCTURE: Recipe = Recipe(u64::MAX - 6);

/// Shard with its folder.
pub struct Fixture {
    pub shard: ShardWriter,
    pub folder: PathBuf,
    _temporary: tempfile::TempDir,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with_tuning(Tuning::default()).await
    }

    pub async fn with_tuning(tuning: Tuning) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("corpora/notes/shard-0");
        let shard = open(&folder, settings(tuning)).await.unwrap();
        Self { shard, folder, _temporary: temporary }
    }

    /// Opens the shard again, as after a restart.
    pub async fn reopen(&mut self) {
        self.shard = self.open().await.unwrap();
    }

    pub async fn open(&self) -> clew_index::Result<ShardWriter> {
        open(&self.folder, self.shard.settings().clone()).await
    }

    pub fn reader(&self) -> ShardReader {
        self.shard.reader()
    }

    /// Accepts documents at a time and commits all chunks that are due.
    pub async fn ingest(&mut self, documents: Vec<Document>, now: i64) {
        self.shard.accept(documents, Timestamp::from_micros(now)).await.unwrap();
        self.index_due(now).await;
    }

    /// Commits all chunks that are due.
    pub async fn index_due(&mut self, now: i64) {
        loop {
            let derived = self.derive_due(now).await;
            if derived.is_empty() {
                return;
            }
            let committed = self.shard.commit_derived(derived).await.unwrap();
            assert!(committed.dropped.is_empty());
        }
    }

    /// Returns the chunks of documents that are due or outdated.
    pub async fn derive_due(&self, now: i64) -> Vec<DerivedDocument> {
        let reader = self.reader();
        let (now, none) = (Timestamp::from_micros(now), HashSet::new());
        let mut due = reader.due(now, 1000, &none);
        due.extend(reader.outdated(now, 1000, &none));
        let wanted: Vec<_> = due.into_iter().map(|due| (due.document_id, due.version)).collect();
        let stored = reader.read_sources(&wanted).await.unwrap();
        assert_eq!(stored.len(), wanted.len());
        stored.into_iter().map(|stored| derive(stored.document, stored.version)).collect()
    }
}

/// Opens a shard that no other process opens.
pub async fn open(folder: &Path, settings: ShardSettings) -> clew_index::Result<ShardWriter> {
    ShardWriter::open(&Storage::from(folder), settings, Takeover::Uncontested).await
}

pub fn settings(tuning: Tuning) -> ShardSettings {
    with_dimension(DIMENSION as u32, tuning)
}

pub fn with_dimension(dimension: u32, tuning: Tuning) -> ShardSettings {
    let encoder = model("first", dimension);
    ShardSettings {
        corpus: "notes".parse().unwrap(),
        recipes: Recipes { wanted: RECIPE, as_good: None },
        structure: Some((STRUCTURE, 4)),
        searched: encoder.fingerprint(),
        first: encoder.fingerprint(),
        vectors: vec![VectorColumn::first(encoder)],
        tuning,
        memory: SearchMemory::default(),
    }
}

pub fn model(name: &str, dimension: u32) -> EncoderIdentity {
    let (model, revision) = (name.to_owned(), "r".to_owned());
    EncoderIdentity { model, revision, dimension, max_tokens: 256 }
}

pub fn id(name: &str) -> DocumentId {
    name.parse().unwrap()
}

pub fn document(name: &str, text: &str) -> Document {
    Document {
        id: id(name),
        text: text.to_owned(),
        media_type: MediaType::Plain,
        title: String::new(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::default(),
        source_version: None,
    }
}

/// Derives one chunk per line.
pub fn derive(document: Document, version: clew_core::Version) -> DerivedDocument {
    let mut chunks = Vec::new();
    let mut start = 0;
    for line in document.text.split_inclusive('\n') {
        let span = Span::new(start, start + line.len());
        let key_text = format!("{} {}", document.title, line).trim().to_owned();
        let tokens = key_text.split_whitespace().count() as u32 + 2;
        let vector = embed(&key_text);
        let (ordinal, attributes) = (chunks.len() as u32, Attributes::new());
        let chunk = Chunk { ordinal, span, key_text, tokens, attributes };
        chunks.push(EmbeddedChunk { chunk, vectors: vec![vector] });
        start = span.end;
    }
    DerivedDocument { document, version, recipe: RECIPE, chunks }
}

/// Cuts chunks into parts of so many, in the order in which they are committed: the first one last.
pub fn in_parts(derived: DerivedDocument, chunks_of_part: usize) -> Vec<DerivedPart> {
    let DerivedDocument { document, version, recipe, chunks } = derived;
    let document = Arc::new(document);
    let part = |chunks: &[EmbeddedChunk]| {
        let (document, chunks) = (Arc::clone(&document), chunks.to_vec());
        DerivedPart { document, version, recipe, chunks }
    };
    let mut parts: Vec<DerivedPart> = chunks.chunks(chunks_of_part).map(part).collect();
    parts.rotate_left(1);
    parts
}

/// Returns a unit vector that depends on the words.
pub fn embed(text: &str) -> Vec<f32> {
    let mut vector = [1e-3_f32; DIMENSION];
    for word in text.split_whitespace() {
        let mut hasher = DefaultHasher::new();
        word.to_lowercase().hash(&mut hasher);
        let hash = hasher.finish();
        for (i, component) in vector.iter_mut().enumerate() {
            *component += if hash >> i & 1 == 1 { 1.0 } else { -1.0 };
        }
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / length).collect()
}

/// Query of a test.
pub struct Search<'a> {
    pub text: &'a str,
    pub mode: SearchMode,
    pub filter: Filter,
    pub grouping: Grouping,
    pub limit: usize,
    pub exact: bool,
}

impl<'a> Search<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            mode: SearchMode::Hybrid,
            filter: Filter::default(),
            grouping: Grouping::Chunks,
            limit: 10,
            exact: false,
        }
    }

    pub fn query(&self) -> CandidateQuery {
        CandidateQuery {
            encoder: String::new(),
            text: self.text.to_owned(),
            vector: Some(embed(self.text)),
            mode: self.mode,
            filter: self.filter.clone(),
            grouping: self.grouping,
            limit: self.limit,
            exact: self.exact,
            with_texts: true,
            view: SearchedView::Newest,
        }
    }

    pub async fn run(&self, reader: &ShardReader) -> Candidates {
        reader.with_access(&Access::all()).candidates(&self.query()).await.unwrap()
    }
}

/// Returns what is shown of a hit.
pub fn shown(hit: &Hit) -> &ChunkText {
    hit.shown.as_ref().unwrap()
}

/// Returns the files below `folder` whose bytes contain `marker`.
pub fn files_containing(folder: &Path, marker: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_containing(&path, marker));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(marker.len()).any(|window| window == marker.as_bytes()) {
                found.push(path);
            }
        }
    }
    found
}

/// Returns a document as it is stored.
pub async fn stored(reader: &ShardReader, id: &DocumentId) -> Option<StoredDocument> {
    reader
        .with_access(&Access::all())
        .get(std::slice::from_ref(id))
        .await
        .unwrap()
        .pop()
        .map(|(stored, _)| stored)
}
