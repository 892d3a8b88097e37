//! Structure building: the tree of summaries and the graph of documents that are searchable.
//!
//! A document is cut into segments. Each segment is summarised, and its entities and relations are
//! extracted. Then groups of summaries are summarised, level by level, up to the root. Segments are
//! read with a summary of the whole document as background (QRMeM, section 2.1: its summary T),
//! which is sketched beforehand from some of the segments. Nodes that were made from the same text
//! before, for this version or an earlier one, are reused. A crash therefore costs at most the work
//! since the last commit, and a document that grows costs only its new segments and the nodes above
//! them.
//!
//! Before a commit, the summaries of its nodes are embedded, so that no question has to. Nodes
//! whose summaries cannot be embedded are stored nevertheless.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    CorpusSettings, DocumentId, DocumentShape, Encoder, EntityKey, EntityVectors, Error,
    Extraction, ExtractionTask, GraphBuilder, Priority, Recipe, Signs, Span, StoredDocument,
    StructureSettings, Summary, SummaryLevel, SummaryTask, TextKind, Version,
};
use clew_index::{CorpusTreeRow, DocumentNodes, NodeRow, SegmentNode, ShardReader, SummaryVector};
use clew_runtime::deadline::ask;
use ractor::ActorRef;

use crate::shard::actor::writer;

/// Number of segments that are made before a commit.
const SEGMENTS_AT_ONCE: usize = 64;
/// Maximum number of nodes of a document in a commit. More are only committed if an earlier version
/// of a large document had them already.
const NODES_AT_ONCE: usize = 512;
/// Number of nodes above documents that are made before a commit.
const UPPER_AT_ONCE: usize = 256;
/// Bound against a hung graph builder, not an estimate: a model may take minutes for 64 segments.
const READ_PATIENCE: Duration = Duration::from_secs(3600);
/// Number of entity names, or of summaries, that one call embeds.
const EMBEDDED_AT_ONCE: usize = 256;
/// The same as for chunks.
const EMBED_PATIENCE: Duration = Duration::from_secs(600);
const COMMIT_PATIENCE: Duration = Duration::from_secs(600);

/// Components that trees and graphs are built with.
pub(crate) struct StructureBuilder {
    pub corpus: Arc<CorpusSettings>,
    pub reader: ShardReader,
    pub builder: Arc<dyn GraphBuilder>,
    pub writer: ActorRef<writer::Message>,
}

/// A document whose tree is being built.
struct Growing {
    stored: Arc<StoredDocument>,
    settings: StructureSettings,
    recipe: Recipe,
    segments: Vec<Span>,
    shape: DocumentShape,
    /// Nodes that exist, as `[level][ordinal]`. Committed ones have neither extraction nor vector
    /// here: only their summaries and keys are read again.
    nodes: Vec<Vec<Option<NodeRow>>>,
    /// Number of committed nodes.
    known: u64,
    /// Level and ordinal of nodes that are made but not committed.
    fresh: Vec<(u32, u32)>,
    /// Summary of the document, of this version or an earlier one. Empty while it is not known.
    summary: String,
    /// Summaries of segments that were made for the sketch, before the segments are read.
    sketched: HashMap<u32, String>,
    /// Entities that have a vector.
    embedded: BTreeSet<EntityKey>,
}

/// Content of a node.
#[derive(Default)]
struct Content {
    summary: String,
    extraction: String,
    vector: Option<SummaryVector>,
}

/// A node that has to be made, with its key.
struct Missing {
    document: usize,
    level: u32,
    ordinal: u32,
    span: Span,
    key: String,
}

impl StructureBuilder {
    /// Builds and commits the trees of documents. `cutter` measures segments in tokens, and
    /// `embedder` embeds entities and summaries.
    pub(crate) async fn make(
        &self,
        cutter: &Arc<dyn Encoder>,
        embedder: &Arc<dyn Encoder>,
        documents: Vec<Arc<StoredDocument>>,
    ) -> Result<(), Error> {
        let Some((settings, recipe)) = self.corpus.structure.zip(self.corpus.structure_recipe())
        else {
            return Ok(());
        };
        let mut growing = self.begin(cutter, documents, settings, recipe).await?;
        self.sketch(&mut growing).await?;
        self.make_segments(embedder, &mut growing).await?;
        let most = growing.iter().map(|document| document.shape.root_level()).max().unwrap_or(0);
        for level in 1..=most {
            self.make_level(&mut growing, level).await?;
        }
        self.commit(embedder.as_ref(), &mut growing).await
    }

    /// Cuts documents into segments, and takes over nodes that were made before.
    async fn begin(
        &self,
        cutter: &Arc<dyn Encoder>,
        documents: Vec<Arc<StoredDocument>>,
        settings: StructureSettings,
        recipe: Recipe,
    ) -> Result<Vec<Growing>, Error> {
        let ids: Vec<DocumentId> =
            documents.iter().map(|stored| stored.document.id.clone()).collect();
        let versions: Vec<(DocumentId, Version)> =
            documents.iter().map(|stored| (stored.document.id.clone(), stored.version)).collect();
        let known = self.reader.nodes_made(&versions);
        let mut made: HashMap<DocumentId, Vec<(Version, Vec<NodeRow>)>> = HashMap::new();
        for ((id, version), rows) in self.reader.made_nodes(&ids).await? {
            made.entry(id).or_default().push((version, rows));
        }
        let encoder = Arc::clone(cutter);
        let cut = move || {
            let token_spans = |text: &str| encoder.token_spans(text);
            let cut = |stored: Arc<StoredDocument>| {
                let max_tokens = settings.segment_tokens;
                let segments = clew_text::segments(&stored.document, max_tokens, &token_spans);
                Growing::new(stored, settings, recipe, segments)
            };
            documents.into_iter().map(cut).collect::<Vec<Growing>>()
        };
        let mut growing = tokio::task::spawn_blocking(cut)
            .await
            .map_err(|panic| Error::internal("cutting segments panicked").with_source(panic))?;
        for (document, known) in growing.iter_mut().zip(known) {
            let made = made.remove(&document.stored.document.id).unwrap_or_default();
            let is_own = |(version, _): &(Version, _)| *version == document.stored.version;
            let (own, others): (Vec<_>, Vec<_>) = made.into_iter().partition(is_own);
            let rows = |of: Vec<(Version, Vec<NodeRow>)>| of.into_iter().flat_map(|(_, rows)| rows);
            document.take_over(rows(own).collect(), rows(others).collect(), known);
        }
        Ok(growing)
    }

    /// Sketches what documents are about, if they have segments to be read and no version of them
    /// has a root. If the sketch covers all segments of a document and its tree has no level
    /// between them and the root, the sketch is the root. For a longer document it is only the
    /// background while segments are read.
    async fn sketch(&self, growing: &mut [Growing]) -> Result<(), Error> {
        let unknown: Vec<usize> =
            (0..growing.len()).filter(|at| growing[*at].is_to_be_sketched()).collect();
        let looked_at: Vec<Missing> =
            unknown.iter().flat_map(|at| growing[*at].looked_at(*at)).collect();
        for some in looked_at.chunks(SEGMENTS_AT_ONCE) {
            let texts: Vec<&str> =
                some.iter().map(|node| growing[node.document].text(node)).collect();
            let summaries = self.summarise_segments(growing, some, &texts).await?;
            for (node, summary) in some.iter().zip(summaries) {
                growing[node.document].sketched.insert(node.ordinal, summary);
            }
        }
        for some in unknown.chunks(SEGMENTS_AT_ONCE) {
            let tasks = some.iter().map(|at| SummaryTask {
                level: SummaryLevel::Inner,
                parts: growing[*at].sketch(),
                max_bytes: growing[*at].settings.summary_bytes as usize,
            });
            let summaries = self.summarise(tasks.collect()).await?;
            for (at, summary) in some.iter().zip(summaries) {
                growing[*at].tell(*at, summary.text);
            }
        }
        Ok(())
    }

    /// Summarises and extracts the missing segments, some at a time, and embeds their entities.
    async fn make_segments(
        &self,
        embedder: &Arc<dyn Encoder>,
        growing: &mut [Growing],
    ) -> Result<(), Error> {
        let mut missing = missing(growing, 0);
        // Segments of the sketch are committed with the first round, so that a crash does not cost
        // them twice.
        let is_sketched =
            |node: &Missing| growing[node.document].sketched.contains_key(&node.ordinal);
        missing.sort_by_key(|node| !is_sketched(node));
        for some in missing.chunks(SEGMENTS_AT_ONCE) {
            let texts: Vec<&str> =
                some.iter().map(|node| growing[node.document].text(node)).collect();
            let summaries = self.summarise_segments(growing, some, &texts).await?;
            let task = |(node, text): (&Missing, &&str)| ExtractionTask {
                text: (*text).to_owned(),
                background: growing[node.document].background(),
                ..ExtractionTask::default()
            };
            let tasks = some.iter().zip(&texts).map(task).collect();
            let deadline = Instant::now() + READ_PATIENCE;
            let mut extractions = self.builder.extract(tasks, deadline).await?;
            expect(some.len(), extractions.len())?;
            embed_entities(embedder.as_ref(), growing, some, &mut extractions).await?;
            let extractions: Vec<String> = extractions
                .iter()
                .map(|extraction| Ok(SegmentNode::encode(extraction)?))
                .collect::<Result<_, Error>>()?;
            for ((node, summary), extraction) in some.iter().zip(summaries).zip(extractions) {
                let content = Content { summary, extraction, vector: None };
                growing[node.document].put(node, content);
            }
            // If one round is enough, it is committed with the levels above.
            if missing.len() > SEGMENTS_AT_ONCE {
                self.commit(embedder.as_ref(), growing).await?;
            }
        }
        Ok(())
    }

    /// Returns the summaries of segments. Uses known summaries where there are some; a segment that
    /// is short enough for a summary is its own.
    async fn summarise_segments(
        &self,
        growing: &[Growing],
        segments: &[Missing],
        texts: &[&str],
    ) -> Result<Vec<String>, Error> {
        let mut summaries: Vec<Option<String>> = Vec::with_capacity(segments.len());
        let mut tasks = Vec::new();
        for (node, text) in segments.iter().zip(texts) {
            let max_bytes = growing[node.document].settings.summary_bytes as usize;
            let line = clew_text::one_line(text);
            let known = growing[node.document].sketched.get(&node.ordinal).cloned();
            summaries.push(known.or_else(|| (line.len() <= max_bytes).then_some(line)));
            if summaries.last().is_some_and(Option::is_none) {
                let parts = vec![(*text).to_owned()];
                tasks.push(SummaryTask { level: SummaryLevel::Leaf, parts, max_bytes });
            }
        }
        let mut made = self.summarise(tasks).await?.into_iter();
        let text = |summary: Option<String>| {
            summary.unwrap_or_else(|| made.next().map(|made| made.text).unwrap_or_default())
        };
        Ok(summaries.into_iter().map(text).collect())
    }

    async fn summarise(&self, tasks: Vec<SummaryTask>) -> Result<Vec<Summary>, Error> {
        let expected = tasks.len();
        if expected == 0 {
            return Ok(Vec::new());
        }
        let made = self.builder.summarise(tasks, Instant::now() + READ_PATIENCE).await?;
        expect(expected, made.len())?;
        Ok(made)
    }

    /// Summarises the missing nodes of a level, whose children exist.
    async fn make_level(&self, growing: &mut [Growing], level: u32) -> Result<(), Error> {
        for some in missing(growing, level).chunks(SEGMENTS_AT_ONCE) {
            let tasks = some.iter().map(|node| SummaryTask {
                level: SummaryLevel::Inner,
                parts: growing[node.document].parts(node),
                max_bytes: growing[node.document].settings.summary_bytes as usize,
            });
            let summaries = self.summarise(tasks.collect()).await?;
            for (node, summary) in some.iter().zip(summaries) {
                let content = Content { summary: summary.text, ..Content::default() };
                growing[node.document].put(node, content);
            }
        }
        Ok(())
    }

    /// Commits the nodes that were made, some at a time.
    async fn commit(&self, embedder: &dyn Encoder, growing: &mut [Growing]) -> Result<(), Error> {
        loop {
            let mut documents: Vec<DocumentNodes> =
                growing.iter_mut().filter_map(Growing::fresh).collect();
            if documents.is_empty() {
                return Ok(());
            }
            let rows = documents.iter_mut().flat_map(|of| &mut of.rows);
            let summaries = rows.map(|row| (row.summary.as_str(), &mut row.vector));
            embed_summaries(embedder, summaries.collect()).await;
            let deadline = Instant::now() + COMMIT_PATIENCE;
            let commit = ask(&self.writer, deadline, "committing nodes", |reply| {
                writer::Message::CommitNodes { documents, reply }
            });
            let dropped: Vec<DocumentId> = commit.await?;
            // A document that was replaced or forgotten meanwhile becomes due again in its new
            // state.
            tracing::debug!(dropped = dropped.len(), "committed nodes");
        }
    }

    /// Builds and commits the missing nodes above documents, level by level. `embedder` embeds
    /// their summaries, if there is one.
    pub(crate) async fn make_upper(&self, embedder: Option<&dyn Encoder>) -> Result<(), Error> {
        let Some(settings) = self.corpus.structure else { return Ok(()) };
        loop {
            let gaps = self.reader.missing_tree_nodes(UPPER_AT_ONCE).await?;
            if gaps.is_empty() {
                return Ok(());
            }
            let tasks = gaps.iter().map(|gap| SummaryTask {
                level: SummaryLevel::Inner,
                parts: gap.parts.clone(),
                max_bytes: settings.summary_bytes as usize,
            });
            let summaries = self.summarise(tasks.collect()).await?;
            let rows = gaps.into_iter().zip(summaries).map(|(gap, summary)| CorpusTreeRow {
                key: gap.key,
                level: gap.level,
                summary: summary.text,
                vector: None,
            });
            let mut rows: Vec<CorpusTreeRow> = rows.collect();
            if let Some(embedder) = embedder {
                let summaries = rows.iter_mut().map(|row| (row.summary.as_str(), &mut row.vector));
                embed_summaries(embedder, summaries.collect()).await;
            }
            let deadline = Instant::now() + COMMIT_PATIENCE;
            ask(&self.writer, deadline, "committing nodes above documents", |reply| {
                writer::Message::CommitUpper { rows, reply }
            })
            .await?;
        }
    }
}

/// Embeds the entities of segments, by name and by what the segments say of them. Each entity of a
/// document is embedded once, at the first segment that names it.
async fn embed_entities(
    embedder: &dyn Encoder,
    growing: &mut [Growing],
    segments: &[Missing],
    extractions: &mut [Extraction],
) -> Result<(), Error> {
    let mut named: Vec<(usize, u32, String)> = Vec::new();
    let mut first = 0;
    for of_document in segments.chunk_by(|a, b| a.document == b.document) {
        let document = &mut growing[of_document[0].document];
        let of: Vec<&Extraction> = extractions[first..first + of_document.len()].iter().collect();
        for entity in clew_graph::describe(&of, &document.embedded) {
            named.push((first + entity.extraction, entity.entity, entity.text));
            document.embedded.insert(entity.key);
        }
        first += of_document.len();
    }
    let (encoder, dimension) = (embedder.identity().fingerprint(), embedder.identity().dimension);
    for extraction in extractions.iter_mut() {
        let encoder = encoder.clone();
        extraction.vectors = Some(EntityVectors { encoder, dimension, of: Vec::new() });
    }
    for some in named.chunks(EMBEDDED_AT_ONCE) {
        let texts = some.iter().map(|(.., text)| text.clone()).collect();
        let deadline = Instant::now() + EMBED_PATIENCE;
        let made = embedder.embed(texts, TextKind::Passage, Priority::Bulk, deadline).await?;
        for ((extraction, entity, _), made) in some.iter().zip(made) {
            if let Some(vectors) = &mut extractions[*extraction].vectors {
                vectors.of.push((*entity, Signs::of(&made.vector)));
            }
        }
    }
    Ok(())
}

/// Sets the vectors of summaries that have none by `embedder`. If it fails, the others stay
/// without: a question embeds their summaries itself.
async fn embed_summaries(
    embedder: &dyn Encoder,
    summaries: Vec<(&str, &mut Option<SummaryVector>)>,
) {
    let encoder = embedder.identity().fingerprint();
    let mut lacking = summaries;
    lacking.retain(|(summary, vector)| {
        let has_one = vector.as_ref().is_some_and(|vector| vector.encoder() == encoder);
        !has_one && !summary.is_empty()
    });
    for some in lacking.chunks_mut(EMBEDDED_AT_ONCE) {
        let texts = some.iter().map(|(summary, _)| (*summary).to_owned()).collect();
        let deadline = Instant::now() + EMBED_PATIENCE;
        match embedder.embed(texts, TextKind::Passage, Priority::Bulk, deadline).await {
            Ok(made) => {
                for ((_, vector), made) in some.iter_mut().zip(made) {
                    let (encoder, components) = (encoder.clone(), made.vector);
                    **vector = SummaryVector::new(encoder, components);
                }
            }
            Err(error) => {
                let error = error.chain();
                tracing::warn!(error, "nodes of trees are stored without vectors");
                return;
            }
        }
    }
}

fn expect(expected: usize, got: usize) -> Result<(), Error> {
    match expected == got {
        true => Ok(()),
        false => Err(Error::internal(format!(
            "expected {expected} results from the graph builder, got {got}"
        ))),
    }
}

/// Returns the missing nodes of a level, document by document.
fn missing(growing: &[Growing], level: u32) -> Vec<Missing> {
    let of = |(document, growing): (usize, &Growing)| {
        let count = growing.shape.levels().get(level as usize).copied().unwrap_or(0);
        let missing = |ordinal| {
            if growing.node(level, ordinal).is_some() {
                return None;
            }
            Some(growing.missing(document, level, ordinal))
        };
        (0..count).filter_map(missing).collect::<Vec<Missing>>()
    };
    growing.iter().enumerate().flat_map(of).collect()
}

impl Growing {
    fn new(
        stored: Arc<StoredDocument>,
        settings: StructureSettings,
        recipe: Recipe,
        segments: Vec<Span>,
    ) -> Self {
        let count = u32::try_from(segments.len()).unwrap_or(u32::MAX);
        let shape = DocumentShape::new(count, settings.max_children);
        let nodes = shape.levels().iter().map(|count| vec![None; *count as usize]).collect();
        Self {
            stored,
            settings,
            recipe,
            segments,
            shape,
            nodes,
            known: 0,
            fresh: Vec::new(),
            summary: String::new(),
            sketched: HashMap::new(),
            embedded: BTreeSet::new(),
        }
    }

    /// Returns whether there are segments to be read without a summary of the document. A document
    /// of a single segment needs none.
    fn is_to_be_sketched(&self) -> bool {
        let is_missing = |ordinal| self.node(0, ordinal).is_none();
        let count = self.shape.levels().first().copied().unwrap_or(0);
        self.summary.is_empty() && count > 1 && (0..count).any(is_missing)
    }

    /// Returns those of [`DocumentShape::sketched`] that are not made yet. `document` is this
    /// document's index.
    fn looked_at(&self, document: usize) -> Vec<Missing> {
        let missing = self.shape.sketched().into_iter().filter(|at| self.node(0, *at).is_none());
        missing.map(|ordinal| self.missing(document, 0, ordinal)).collect()
    }

    /// Returns the summaries of the segments of [`DocumentShape::sketched`].
    fn sketch(&self) -> Vec<String> {
        let summary = |ordinal: u32| {
            let made = self.node(0, ordinal).map(|node| &node.summary);
            made.or_else(|| self.sketched.get(&ordinal)).cloned()
        };
        self.shape.sketched().into_iter().filter_map(summary).collect()
    }

    /// Sets the document's summary. If it was made from everything that the root is made from, it
    /// also becomes the root.
    fn tell(&mut self, document: usize, summary: String) {
        let is_root = self.shape.is_sketched_as_root() && self.node(1, 0).is_none();
        if is_root {
            let root = self.missing(document, 1, 0);
            let summary = summary.clone();
            self.put(&root, Content { summary, ..Content::default() });
        }
        self.summary = summary;
    }

    /// Returns the background that a model gets with a segment: the document's title on a line of
    /// its own, and its summary. A segment's key depends on the title only: with the summary, one
    /// more sentence would make every segment new.
    fn background(&self) -> String {
        let title = &self.stored.document.title;
        match self.summary.is_empty() {
            true => title.clone(),
            false => format!("{title}\n{}", self.summary),
        }
    }

    fn missing(&self, document: usize, level: u32, ordinal: u32) -> Missing {
        let (key, span) = (self.key(level, ordinal), self.span(level, ordinal));
        Missing { document, level, ordinal, span, key }
    }

    fn node(&self, level: u32, ordinal: u32) -> Option<&NodeRow> {
        self.nodes.get(level as usize)?.get(ordinal as usize)?.as_ref()
    }

    fn text(&self, node: &Missing) -> &str {
        node.span.of(&self.stored.document.text).unwrap_or_default()
    }

    /// Returns the summaries of a node's children.
    fn parts(&self, node: &Missing) -> Vec<String> {
        let children = self.shape.children(node.level, node.ordinal);
        let child = |ordinal| self.node(node.level - 1, ordinal).map(|child| child.summary.clone());
        children.filter_map(child).collect()
    }

    /// Returns the key of a node: a hash of a segment's title and text, or of the children's keys.
    fn key(&self, level: u32, ordinal: u32) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("clew tree node v1");
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(&level.min(1).to_le_bytes());
        if level == 0 {
            part(self.stored.document.title.as_bytes());
            let span = self.span(level, ordinal);
            part(span.of(&self.stored.document.text).unwrap_or_default().as_bytes());
        } else {
            for child in self.shape.children(level, ordinal) {
                // A child that does not exist yet has the key that it will have.
                match self.node(level - 1, child) {
                    Some(node) => part(node.key.as_bytes()),
                    None => part(self.key(level - 1, child).as_bytes()),
                }
            }
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    fn span(&self, level: u32, ordinal: u32) -> Span {
        if level == 0 {
            return self.segments.get(ordinal as usize).copied().unwrap_or(Span::new(0, 0));
        }
        let children = self.shape.children(level, ordinal);
        let first = self.span(level - 1, children.start);
        let last = self.span(level - 1, children.end.saturating_sub(1));
        Span::new(first.start, last.end)
    }

    /// Takes over the nodes of this version, and those of earlier versions with the same keys.
    fn take_over(&mut self, own: Vec<NodeRow>, others: Vec<NodeRow>, known: u64) {
        // Rows that were added since the count are another writer's. The commit is then refused,
        // and the work starts again.
        self.known = known;
        let mut roots = own.iter().chain(&others).filter(|row| row.is_root);
        self.summary = roots.next().map(|root| root.summary.clone()).unwrap_or_default();
        let mut of_key: HashMap<String, NodeRow> = HashMap::new();
        let mut taken = HashSet::new();
        for row in own {
            let slot = self.nodes.get_mut(row.level as usize);
            let slot = slot.and_then(|level| level.get_mut(row.ordinal as usize));
            if let Some(slot) = slot {
                taken.insert((row.level, row.ordinal));
                *slot = Some(NodeRow { extraction: String::new(), vector: None, ..row });
            }
        }
        of_key.extend(others.into_iter().map(|row| (row.key.clone(), row)));
        if of_key.is_empty() {
            return;
        }
        let levels = self.shape.levels().to_vec();
        for (level, count) in (0..).zip(levels) {
            for ordinal in 0..count {
                if taken.contains(&(level, ordinal)) {
                    continue;
                }
                let Some(row) = of_key.get(&self.key(level, ordinal)) else { continue };
                let NodeRow { summary, extraction, vector, key, .. } = row.clone();
                let span = self.span(level, ordinal);
                let node = Missing { document: 0, level, ordinal, span, key };
                self.put(&node, Content { summary, extraction, vector });
            }
        }
    }

    fn put(&mut self, node: &Missing, content: Content) {
        let Content { summary, extraction, vector } = content;
        let row = NodeRow {
            level: node.level,
            ordinal: node.ordinal,
            is_root: node.level == self.shape.root_level(),
            span: node.span,
            summary,
            key: node.key.clone(),
            extraction,
            vector,
        };
        self.nodes[node.level as usize][node.ordinal as usize] = Some(row);
        self.fresh.push((node.level, node.ordinal));
    }

    /// Returns nodes to commit, as many as are committed at once.
    fn fresh(&mut self) -> Option<DocumentNodes> {
        let fresh = self.fresh.drain(..self.fresh.len().min(NODES_AT_ONCE));
        let nodes = &mut self.nodes;
        let row = |(level, ordinal): (u32, u32)| {
            let node = nodes.get_mut(level as usize)?.get_mut(ordinal as usize)?.as_mut()?;
            let (extraction, vector) = (take(&mut node.extraction), node.vector.take());
            Some(NodeRow { extraction, vector, ..node.clone() })
        };
        let rows: Vec<NodeRow> = fresh.filter_map(row).collect();
        let known = self.known;
        self.known += rows.len() as u64;
        (!rows.is_empty()).then(|| DocumentNodes {
            document_id: self.stored.document.id.clone(),
            version: self.stored.version,
            recipe: self.recipe,
            title: self.stored.document.title.clone(),
            known,
            nodes: self.shape.nodes().into(),
            rows,
        })
    }
}
