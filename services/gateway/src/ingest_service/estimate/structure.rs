//! Trees and graph of typical documents, built without asking a model.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Add;
use std::time::Instant;

use clew_core::{
    CorpusSettings, CorpusTree, CorpusTreeKey, Cost, DocumentId, DocumentShape, EncoderIdentity,
    EntityVectors, Error, Extraction, ExtractionTask, GraphBuilder, Signs, StructureSettings,
    Summary, SummaryLevel, SummaryTask, Version,
};

use super::run::Run;
use super::sample::{Cut, CutDocument};

/// Bytes of a tree node's key.
const KEY_BYTES: u64 = 32;
/// Maximum number of documents above which nodes are built for an estimate.
const MOST_BELOW: u64 = 256;

/// Contents of the trees and graph of typical documents, and the cost of building them.
#[derive(Debug, Default)]
pub(super) struct Structured {
    /// Number of nodes of the documents' own trees.
    pub nodes: u64,
    /// Bytes of the nodes' summaries, keys and titles.
    pub summary_bytes: u64,
    /// Tokens of the nodes' summaries, as they are embedded.
    pub summary_tokens: f64,
    /// Stored bytes of the extractions.
    pub extraction_bytes: u64,
    pub entities: u64,
    pub relations: u64,
    pub cost: Calls,
    pub upper: Upper,
}

/// Tree nodes above some documents.
#[derive(Debug, Default)]
pub(super) struct Upper {
    pub documents: u64,
    pub nodes: u64,
    /// Bytes of the nodes' summaries and keys.
    pub summary_bytes: u64,
    /// Tokens of the nodes' summaries, as they are embedded.
    pub summary_tokens: f64,
    pub cost: Calls,
}

/// Calls to a model and their tokens, which may be scaled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub calls: f64,
    pub prompt_tokens: f64,
    pub completion_tokens: f64,
}

impl Calls {
    fn add_cost(&mut self, cost: &Cost) {
        self.calls += cost.model_calls as f64;
        self.prompt_tokens += cost.prompt_tokens as f64;
        self.completion_tokens += cost.completion_tokens as f64;
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self {
            calls: self.calls * factor,
            prompt_tokens: self.prompt_tokens * factor,
            completion_tokens: self.completion_tokens * factor,
        }
    }
}

impl Add for Calls {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            completion_tokens: self.completion_tokens + other.completion_tokens,
        }
    }
}

/// Number of tokens of summaries. They have as many tokens per byte as the chunks of the samples,
/// whose language they share.
#[derive(Clone, Copy)]
struct TokenRate {
    of_byte: f64,
    /// Maximum number of tokens that the model reads of a text.
    most: f64,
}

impl TokenRate {
    fn of(cut: &Cut, encoder: &EncoderIdentity) -> Self {
        let of_byte = cut.tokens as f64 / cut.key_bytes.max(1) as f64;
        Self { of_byte, most: f64::from(encoder.max_tokens) }
    }

    fn tokens(self, summary: &str) -> f64 {
        (summary.len() as f64 * self.of_byte).min(self.most)
    }
}

/// Builds the trees of documents as the indexer would, with a builder in rehearsal. Then builds the
/// nodes above as many such documents as the ingestion has, or above [`MOST_BELOW`] if it has more.
pub(super) async fn rehearse(
    builder: &dyn GraphBuilder,
    settings: &CorpusSettings,
    cut: &Cut,
    run: &Run,
    deadline: Instant,
) -> Result<Structured, Error> {
    let Some(structure) = settings.structure else { return Ok(Structured::default()) };
    let (documents, max_bytes) = (cut.documents.as_slice(), structure.summary_bytes as usize);
    let rate = TokenRate::of(cut, &settings.encoder);
    let shape = |of: &CutDocument| {
        let segments = u32::try_from(of.segments.len()).unwrap_or(u32::MAX);
        DocumentShape::new(segments, structure.max_children)
    };
    let shapes: Vec<DocumentShape> = documents.iter().map(shape).collect();
    let mut growing = Growing {
        builder,
        documents,
        shapes,
        max_bytes,
        rate,
        deadline,
        made: Structured::default(),
    };
    let leaves = growing.leaves().await?;
    let sketches = growing.sketch(&leaves).await?;
    growing.extract(&sketches, &settings.encoder).await?;
    let roots = growing.grow(leaves, &sketches).await?;
    let mut made = growing.made;
    let below = run.documents.min(MOST_BELOW) as usize;
    let roots = roots.iter().cycle().take(below).cloned().collect();
    made.upper = above(builder, &structure, roots, rate, deadline).await?;
    Ok(made)
}

/// Trees that are built together, level by level.
struct Growing<'a> {
    builder: &'a dyn GraphBuilder,
    documents: &'a [CutDocument],
    shapes: Vec<DocumentShape>,
    /// Maximum bytes of a summary.
    max_bytes: usize,
    rate: TokenRate,
    deadline: Instant,
    made: Structured,
}

impl Growing<'_> {
    /// Returns the summaries of segments, by document. A segment that is short enough for a summary
    /// is its own.
    async fn leaves(&mut self) -> Result<Vec<Vec<String>>, Error> {
        let max_bytes = self.max_bytes;
        let mut summaries: Vec<Vec<String>> = Vec::with_capacity(self.documents.len());
        let (mut tasks, mut of_task) = (Vec::new(), Vec::new());
        for (document, of) in self.documents.iter().enumerate() {
            let mut own = Vec::with_capacity(of.segments.len());
            for (segment, span) in of.segments.iter().enumerate() {
                let text = span.of(&of.document.text).unwrap_or_default();
                let line = clew_text::one_line(text);
                if line.len() > max_bytes {
                    let parts = vec![text.to_owned()];
                    tasks.push(SummaryTask { level: SummaryLevel::Leaf, parts, max_bytes });
                    of_task.push((document, segment));
                }
                own.push(line);
            }
            summaries.push(own);
        }
        for (summary, (document, segment)) in self.summarise(tasks).await?.into_iter().zip(of_task)
        {
            summaries[document][segment] = summary;
        }
        for (document, own) in summaries.iter().enumerate() {
            own.iter().for_each(|summary| self.add_node(document, summary));
        }
        Ok(summaries)
    }

    /// Returns a sketch of what each document is about, from the summaries of some segments.
    /// Documents of a single segment have `None`.
    async fn sketch(&mut self, leaves: &[Vec<String>]) -> Result<Vec<Option<String>>, Error> {
        let (mut tasks, mut of_task) = (Vec::new(), Vec::new());
        for (document, (shape, own)) in self.shapes.iter().zip(leaves).enumerate() {
            if own.len() > 1 {
                let sketched = shape.sketched().into_iter();
                let parts = sketched.filter_map(|at| own.get(at as usize).cloned()).collect();
                tasks.push(self.inner(parts));
                of_task.push(document);
            }
        }
        let mut sketches = vec![None; self.documents.len()];
        for (summary, document) in self.summarise(tasks).await?.into_iter().zip(of_task) {
            sketches[document] = Some(summary);
        }
        Ok(sketches)
    }

    /// Extracts the entities and relations of segments, with their documents' sketches as
    /// background.
    async fn extract(
        &mut self,
        sketches: &[Option<String>],
        encoder: &EncoderIdentity,
    ) -> Result<(), Error> {
        let mut tasks: Vec<ExtractionTask> = Vec::new();
        for (CutDocument { document, segments }, sketch) in self.documents.iter().zip(sketches) {
            let background = match sketch {
                Some(sketch) => format!("{}\n{sketch}", document.title),
                None => document.title.clone(),
            };
            tasks.extend(segments.iter().map(|span| ExtractionTask {
                text: span.of(&document.text).unwrap_or_default().to_owned(),
                background: background.clone(),
                ..ExtractionTask::default()
            }));
        }
        if tasks.is_empty() {
            return Ok(());
        }
        let mut found = self.builder.extract(tasks, self.deadline).await?.into_iter();
        for CutDocument { segments, .. } in self.documents {
            let mut of_document: Vec<Extraction> = found.by_ref().take(segments.len()).collect();
            add_vectors(&mut of_document, encoder);
            for extraction in &of_document {
                self.made.cost.add_cost(&extraction.cost);
                self.made.entities += extraction.entities.len() as u64;
                self.made.relations += extraction.relations.len() as u64;
                self.made.extraction_bytes += stored_bytes(extraction)?;
            }
        }
        Ok(())
    }

    /// Builds the levels above the segments. Returns the summaries of the roots.
    async fn grow(
        &mut self,
        mut summaries: Vec<Vec<String>>,
        sketches: &[Option<String>],
    ) -> Result<Vec<String>, Error> {
        let most = self.shapes.iter().map(DocumentShape::root_level).max().unwrap_or(0);
        for level in 1..=most {
            let (mut tasks, mut of_task) = (Vec::new(), Vec::new());
            for (document, shape) in self.shapes.iter().enumerate() {
                let count = shape.levels().get(level as usize).copied().unwrap_or(0);
                if count == 0 || shape.is_sketched_as_root() {
                    continue;
                }
                for ordinal in 0..count {
                    let children = shape.children(level, ordinal);
                    let children = children.start as usize..children.end as usize;
                    let parts = summaries[document].get(children).unwrap_or_default().to_vec();
                    tasks.push(self.inner(parts));
                    of_task.push(document);
                }
                summaries[document].clear();
            }
            for (summary, document) in self.summarise(tasks).await?.into_iter().zip(of_task) {
                self.add_node(document, &summary);
                summaries[document].push(summary);
            }
        }
        let mut roots = Vec::with_capacity(summaries.len());
        for (document, (mut own, sketch)) in summaries.into_iter().zip(sketches).enumerate() {
            let is_made = self.shapes[document].is_sketched_as_root();
            let root = if is_made { sketch.clone() } else { own.pop() };
            if is_made && let Some(root) = &root {
                self.add_node(document, root);
            }
            roots.extend(root);
        }
        Ok(roots)
    }

    fn inner(&self, parts: Vec<String>) -> SummaryTask {
        SummaryTask { level: SummaryLevel::Inner, parts, max_bytes: self.max_bytes }
    }

    async fn summarise(&mut self, tasks: Vec<SummaryTask>) -> Result<Vec<String>, Error> {
        let told = summarise(self.builder, tasks, self.deadline).await?;
        told.iter().for_each(|summary| self.made.cost.add_cost(&summary.cost));
        Ok(told.into_iter().map(|summary| summary.text).collect())
    }

    fn add_node(&mut self, document: usize, summary: &str) {
        let title = &self.documents[document].document.title;
        self.made.nodes += 1;
        self.made.summary_bytes += (summary.len() + title.len()) as u64 + KEY_BYTES;
        self.made.summary_tokens += self.rate.tokens(summary);
    }
}

/// Adds placeholders of the vectors that are stored with a document's entities.
fn add_vectors(extractions: &mut [Extraction], encoder: &EncoderIdentity) {
    let described = {
        let all: Vec<&Extraction> = extractions.iter().collect();
        clew_graph::describe(&all, &BTreeSet::new())
    };
    let signs = Signs::of(&vec![0.0; encoder.dimension as usize]);
    for extraction in extractions.iter_mut() {
        let (encoder, dimension) = (encoder.fingerprint(), encoder.dimension);
        extraction.vectors = Some(EntityVectors { encoder, dimension, of: Vec::new() });
    }
    for entity in described {
        if let Some(vectors) = &mut extractions[entity.extraction].vectors {
            vectors.of.push((entity.entity, signs.clone()));
        }
    }
}

/// Returns the bytes of an extraction as shards store it.
fn stored_bytes(extraction: &Extraction) -> Result<u64, Error> {
    let mut counting = Counting(0);
    serde_json::to_writer(&mut counting, extraction)
        .map_err(|error| Error::internal("writing an extraction").with_source(error))?;
    Ok(counting.0)
}

/// Writer that counts the bytes written to it.
struct Counting(u64);

impl io::Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Builds the nodes above documents whose trees have these roots.
async fn above(
    builder: &dyn GraphBuilder,
    settings: &StructureSettings,
    roots: Vec<String>,
    rate: TokenRate,
    deadline: Instant,
) -> Result<Upper, Error> {
    let max_bytes = settings.summary_bytes as usize;
    let mut made = Upper { documents: roots.len() as u64, ..Upper::default() };
    // Document ids decide where a group of neighbours ends, and the real ids are not known.
    let key = |number: usize| {
        let id: DocumentId = format!("sample {number:06}").parse()?;
        let key = CorpusTreeKey::of_document(&id, Version(1), 0);
        Ok((id, key))
    };
    let documents = (0..roots.len()).map(key).collect::<Result<Vec<_>, Error>>()?;
    let tree = CorpusTree::new(&documents, settings.max_children);
    let mut summaries: HashMap<CorpusTreeKey, String> =
        documents.iter().map(|(_, key)| *key).zip(roots).collect();
    let mut nodes: Vec<_> = tree.nodes().collect();
    nodes.sort_by_key(|(_, node)| (node.level, node.documents.start));
    for level in nodes.chunk_by(|(_, a), (_, b)| a.level == b.level) {
        let part = |child: &CorpusTreeKey| summaries.get(child).cloned();
        let tasks = level.iter().map(|(_, node)| SummaryTask {
            level: SummaryLevel::Inner,
            parts: node.children.iter().filter_map(part).collect(),
            max_bytes,
        });
        let told = summarise(builder, tasks.collect(), deadline).await?;
        for (summary, (key, _)) in told.into_iter().zip(level) {
            made.cost.add_cost(&summary.cost);
            made.nodes += 1;
            made.summary_bytes += summary.text.len() as u64 + KEY_BYTES;
            made.summary_tokens += rate.tokens(&summary.text);
            summaries.insert(**key, summary.text);
        }
    }
    Ok(made)
}

async fn summarise(
    builder: &dyn GraphBuilder,
    tasks: Vec<SummaryTask>,
    deadline: Instant,
) -> Result<Vec<Summary>, Error> {
    match tasks.is_empty() {
        true => Ok(Vec::new()),
        false => builder.summarise(tasks, deadline).await,
    }
}
