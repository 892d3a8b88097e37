//! A small world for tests: fakes of the traits that return what they are told and record what they
//! are asked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_chat::turn_document;
use clew_core::{
    Answer, Assignment, Attributes, ChildChoice, ChunkId, Citation, CorpusName, CorpusTreeKey,
    Cost, DocumentId, DocumentRange, Embedding, Encoder, EncoderIdentity, Entity, EntityChoice,
    EntityKey, EntityKind, EntityNode, Error, ErrorKind, Evidence, Extraction, ExtractionTask,
    Filter, GraphBuilder, GraphMemory, GraphQuery, LeafReading, Named, Navigator, Partial,
    Priority, Query, Reading, Reasoner, Reflection, Relation, RelationEdge, Retrieved, Retriever,
    SegmentId, ShardIndex, Span, SpeakerRole, Subgraph, Summary, SummaryTask, TextKind, TraceEvent,
    Tree, TreeNode, TreeNodeId, Triage, TriageStep, Turn, TurnId, Version,
};

use clew_core::{
    Clues, Concerns, Document, Documents, Findings, MemoryPoint, MergedPoint, Planner,
    PointChanges, PointState, Rewording, Task, WholeDocument,
};

use crate::{AnswerObserver, Question, Seams, Strategy, TreeMemory};

/// Bytes of a segment's text if a test does not say otherwise.
pub(crate) const SEGMENT_BYTES: usize = 100;

/// World with everything that a strategy sees.
pub(crate) struct World {
    pub(crate) question: Question,
    pub(crate) retriever: FakeRetriever,
    pub(crate) documents: FakeDocuments,
    pub(crate) reasoner: FakeReasoner,
    pub(crate) tree: FakeTree,
    pub(crate) graph: FakeGraph,
    pub(crate) navigator: ScriptedNavigator,
    pub(crate) planner: ScriptedPlanner,
    pub(crate) encoder: FakeEncoder,
    pub(crate) graph_builder: FakeGraphBuilder,
    pub(crate) seen: Seen,
}

impl Default for World {
    fn default() -> Self {
        let question = Question::new("what?", Instant::now() + Duration::from_secs(60));
        Self {
            question,
            retriever: FakeRetriever::default(),
            documents: FakeDocuments::default(),
            reasoner: FakeReasoner::default(),
            tree: FakeTree::default(),
            graph: FakeGraph::default(),
            navigator: ScriptedNavigator::default(),
            planner: ScriptedPlanner::default(),
            encoder: FakeEncoder::default(),
            graph_builder: FakeGraphBuilder::default(),
            seen: Seen::default(),
        }
    }
}

impl World {
    /// Adds a turn of a user at the beginning of a day. Returns its hit.
    pub(crate) fn said(&mut self, day: u32, text: &str, score: f32) -> Evidence {
        let id = TurnId { session: format!("day-{day}").parse().unwrap(), number: 0 };
        let time = format!("2024-05-{day:02}T08:00:00Z").parse().ok();
        let (role, speaker, text) = (SpeakerRole::User, String::new(), text.to_owned());
        let turn = Turn { id, role, speaker, text, time, attributes: Attributes::new() };
        let document = turn_document(&turn, "ada").unwrap();
        let passage = evidence(document.id.as_str(), 0, document.text.len(), score);
        let hit = Evidence { text: document.text.clone(), event_time: time, ..passage };
        self.documents.all.push(document);
        hit
    }

    pub(crate) async fn ask(&self, strategy: &dyn Strategy) -> Result<Answer, Error> {
        let memory = TreeMemory { tree: &self.tree, planner: &self.planner };
        strategy.answer(&self.question, self.seams(&memory), &self.seen).await
    }

    pub(crate) fn seams<'a>(&'a self, memory: &'a TreeMemory<'a>) -> Seams<'a> {
        Seams {
            retriever: &self.retriever,
            documents: &self.documents,
            reasoner: &self.reasoner,
            tree: &self.tree,
            graph: &self.graph,
            navigator: &self.navigator,
            planner: &self.planner,
            memory,
            encoder: &self.encoder,
            graph_builder: &self.graph_builder,
        }
    }

    /// Returns the reported steps, each in a few words.
    pub(crate) fn steps(&self) -> Vec<String> {
        self.seen.0.lock().unwrap().iter().map(Shown::in_words).collect()
    }

    /// Returns the steps whose words begin with `kind`.
    pub(crate) fn steps_of(&self, kind: &str) -> Vec<String> {
        let mut steps = self.steps();
        steps.retain(|step| step.starts_with(kind));
        steps
    }

    /// Returns the trace.
    pub(crate) fn trace(&self) -> Vec<TraceEvent> {
        let shown = self.seen.0.lock().unwrap();
        let event = |shown: &Shown| match shown {
            Shown::Event(event) => Some(event.clone()),
            Shown::Text(_) => None,
        };
        shown.iter().filter_map(event).collect()
    }
}

enum Shown {
    Event(TraceEvent),
    Text(String),
}

impl Shown {
    fn in_words(&self) -> String {
        let event = match self {
            Self::Text(text) => return format!("text {text}"),
            Self::Event(event) => event,
        };
        match event {
            TraceEvent::Searched { query, hits, .. } => format!("searched {query} {hits}"),
            TraceEvent::Judged { confidence, .. } => format!("judged {confidence}"),
            TraceEvent::Entered { node, parent, .. } => format!("entered {node} from {parent}"),
            TraceEvent::TurnedBack { node, reason } => format!("back from {node}: {reason}"),
            TraceEvent::LeafRead { node, answers, .. } => format!("leaf {node} {answers}"),
            TraceEvent::Walked { ended, .. } => format!("walked: {ended}"),
            TraceEvent::EntitiesChosen { entities, .. } => format!("chose {}", entities.join(",")),
            TraceEvent::EdgeFollowed { head, relation, tail, to, score, .. } => {
                format!("edge {head} {relation} {tail} to {to} {score:.2}")
            }
            TraceEvent::Evolved { step, points, brought } => {
                let points: Vec<String> = points.iter().map(point_in_words).collect();
                let brought = if brought.is_empty() { "" } else { " brought " }.to_owned()
                    + &brought.join(",");
                format!("evolved {step}: {}{brought}", points.join("; "))
            }
            TraceEvent::Drafted { lines, answers, .. } => {
                format!("drafted {lines} lines [{}]", answers.join(", "))
            }
            TraceEvent::Gathered { segments, dropped, bytes } => {
                format!("gathered {segments} dropped {dropped} bytes {bytes}")
            }
            TraceEvent::Reflected { suffices, .. } => format!("reflected {suffices}"),
            TraceEvent::Read { passages, .. } => format!("read {}", passages.len()),
        }
    }
}

/// Describes a point, such as `inserted 1 ISSUS,XODAR of b#0`.
fn point_in_words(point: &PointState) -> String {
    let PointState { number, fate, entities, segments, merged_from, .. } = point;
    let segments: Vec<String> = segments.iter().map(ToString::to_string).collect();
    let from: Vec<String> = merged_from.iter().map(ToString::to_string).collect();
    let from = if from.is_empty() { String::new() } else { format!(" from {}", from.join("+")) };
    let fate = format!("{fate:?}").to_lowercase();
    format!("{fate} {number}{from} {} of {}", entities.join(","), segments.join(","))
}

#[derive(Default)]
pub(crate) struct Seen(Mutex<Vec<Shown>>);

impl AnswerObserver for Seen {
    fn trace(&self, event: TraceEvent) {
        self.0.lock().unwrap().push(Shown::Event(event));
    }

    fn text(&self, delta: &str) {
        self.0.lock().unwrap().push(Shown::Text(delta.to_owned()));
    }
}

/// Returns a cost that is recognised by its number of calls.
pub(crate) fn calls(model_calls: u64) -> Cost {
    Cost { model_calls, ..Cost::default() }
}

pub(crate) fn document(id: &str) -> DocumentId {
    id.parse().unwrap()
}

/// Returns the passage `start..end` of a document.
pub(crate) fn evidence(id: &str, start: usize, end: usize, score: f32) -> Evidence {
    let corpus: CorpusName = "test".parse().unwrap();
    Evidence {
        chunk_id: ChunkId::derive(&corpus, &document(id), Version(1), start as u32),
        document_id: document(id),
        version: Version(1),
        title: String::new(),
        span: Span::new(start, end),
        text: format!("{id}:{start}")
            .chars()
            .chain("..".chars().cycle())
            .take(end - start)
            .collect(),
        event_time: None,
        score,
        dense_score: None,
        sparse_score: None,
    }
}

/// Returns a segment with this text, padded with spaces.
pub(crate) fn saying(segment: Evidence, said: Option<&str>) -> Evidence {
    match said {
        Some(said) => Evidence { text: format!("{said:SEGMENT_BYTES$}"), ..segment },
        None => segment,
    }
}

/// Retriever that finds for each query what it is told, or nothing.
#[derive(Default)]
pub(crate) struct FakeRetriever {
    pub(crate) found: BTreeMap<String, Vec<Evidence>>,
    pub(crate) documents_found: Vec<Evidence>,
    pub(crate) shards_missing: Vec<ShardIndex>,
    pub(crate) cost: Cost,
    /// Whether it refuses batches, as when too many searches wait.
    pub(crate) refuses_batches: bool,
    queries: Mutex<Vec<Query>>,
    batches: Mutex<Vec<usize>>,
}

impl FakeRetriever {
    /// Returns the sizes of the batches.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap().clone()
    }

    pub(crate) fn queries(&self) -> Vec<Query> {
        self.queries.lock().unwrap().clone()
    }
}

#[async_trait]
impl Retriever for FakeRetriever {
    async fn retrieve(&self, query: &Query, _: Instant) -> Result<Retrieved, Error> {
        self.queries.lock().unwrap().push(query.clone());
        let evidence = match query.grouping {
            clew_core::Grouping::Chunks => self.found.get(&query.text).cloned().unwrap_or_default(),
            clew_core::Grouping::Documents => self.documents_found.clone(),
        };
        let shards_missing = self.shards_missing.clone();
        Ok(Retrieved { evidence, shards_missing, cost: self.cost })
    }

    async fn retrieve_all(
        &self,
        queries: &[Query],
        deadline: Instant,
    ) -> Result<Vec<Retrieved>, Error> {
        if self.refuses_batches {
            return Err(Error::exhausted("the queue of searches", Duration::ZERO));
        }
        self.batches.lock().unwrap().push(queries.len());
        let mut retrieved = Vec::new();
        for query in queries {
            retrieved.push(self.retrieve(query, deadline).await?);
        }
        Ok(retrieved)
    }
}

/// Documents that it is told.
#[derive(Default)]
pub(crate) struct FakeDocuments {
    pub(crate) all: Vec<Document>,
    /// Shard that does not answer.
    pub(crate) missing: Option<ShardIndex>,
}

#[async_trait]
impl Documents for FakeDocuments {
    async fn documents(
        &self,
        ids: &[DocumentId],
        _: Instant,
    ) -> Result<Partial<Vec<WholeDocument>>, Error> {
        let asked = self.all.iter().filter(|document| ids.contains(&document.id));
        let whole = |document: &Document| {
            let passage = evidence(document.id.as_str(), 0, document.text.len(), 0.0);
            let (text, event_time) = (document.text.clone(), document.event_time);
            let passage = Evidence { text, event_time, ..passage };
            WholeDocument { document: document.clone(), passage }
        };
        Ok(Partial::whole(asked.map(whole).collect()).missing(self.missing))
    }

    async fn ids(
        &self,
        prefix: &str,
        after: Option<&DocumentId>,
        limit: usize,
        _: Instant,
    ) -> Result<Partial<Vec<DocumentId>>, Error> {
        let mut ids: Vec<DocumentId> =
            self.all.iter().map(|document| document.id.clone()).collect();
        ids.sort();
        ids.retain(|id| id.as_str().starts_with(prefix) && after.is_none_or(|after| id > after));
        ids.truncate(limit);
        Ok(Partial::whole(ids).missing(self.missing))
    }
}

/// Reasoner that reads an answer from whatever it is given.
pub(crate) struct FakeReasoner {
    pub(crate) confidence: f32,
    pub(crate) cost: Cost,
    pub(crate) citations: Vec<Citation>,
    read: Mutex<Vec<Evidence>>,
    points: Mutex<Vec<MemoryPoint>>,
    tasks: Mutex<Vec<Task>>,
}

impl Default for FakeReasoner {
    fn default() -> Self {
        let (citations, read, points, tasks) = Default::default();
        Self { confidence: 0.9, cost: calls(1000), citations, read, points, tasks }
    }
}

impl FakeReasoner {
    /// Returns the evidence of the last reading, in its order.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        self.read.lock().unwrap().clone()
    }

    /// Returns the points of the last reading.
    pub(crate) fn points(&self) -> Vec<MemoryPoint> {
        self.points.lock().unwrap().clone()
    }

    /// Returns the task of each reading.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        self.tasks.lock().unwrap().clone()
    }

    /// Returns the places of the last reading, in the order of scores.
    pub(crate) fn read_last(&self) -> Vec<String> {
        let mut read = self.read.lock().unwrap().clone();
        read.sort_by(|a, b| b.score.total_cmp(&a.score));
        read.iter().map(|item| format!("{}:{}", item.document_id, item.span.start)).collect()
    }
}

#[async_trait]
impl Reasoner for FakeReasoner {
    async fn read(&self, assignment: &Assignment<'_>, _: Instant) -> Result<Reading, Error> {
        *self.read.lock().unwrap() = assignment.evidence.to_vec();
        *self.points.lock().unwrap() = assignment.points.to_vec();
        self.tasks.lock().unwrap().push(assignment.task);
        let citations = self.citations.clone();
        Ok(Reading { citations, ..reading(self.confidence, self.cost) })
    }
}

pub(crate) fn reading(confidence: f32, cost: Cost) -> Reading {
    Reading {
        confidence,
        threshold: 0.5,
        rationale: String::new(),
        text: "a clew".to_owned(),
        citations: Vec::new(),
        sentences: 4,
        cost,
    }
}

/// Encoder into the plane: a query lies along the first axis, and a passage at the cosine that it
/// is told, else 0.
#[derive(Default)]
pub(crate) struct FakeEncoder {
    cosines: BTreeMap<String, f32>,
    /// Whether different queries have different vectors, each along an axis of its own.
    pub(crate) tells_queries_apart: bool,
    queries: Mutex<Vec<String>>,
    embedded: Mutex<Vec<(Vec<String>, TextKind)>>,
}

impl FakeEncoder {
    /// Returns a vector along the first axis and one of its own.
    fn apart(&self, text: &str) -> Vec<f32> {
        let mut queries = self.queries.lock().unwrap();
        if !queries.iter().any(|known| known == text) {
            queries.push(text.to_owned());
        }
        let own = queries.iter().position(|known| known == text).unwrap();
        let mut vector = vec![0.0; 32];
        vector[0] = 0.8;
        vector[2 + own] = 0.6;
        vector
    }

    pub(crate) fn tell(&mut self, text: &str, cosine: f32) {
        self.cosines.insert(text.to_owned(), cosine);
    }

    /// Returns the fingerprint of the model with the vectors of these summaries, for a tree that
    /// stores them.
    pub(crate) fn stored(&self, summaries: &[&str]) -> (String, BTreeMap<String, Vec<f32>>) {
        let vector = |summary: &&str| {
            let cosine = self.cosines.get(*summary).copied().unwrap_or(0.0);
            ((*summary).to_owned(), vec![cosine, (1.0 - cosine * cosine).sqrt()])
        };
        (self.identity().fingerprint(), summaries.iter().map(vector).collect())
    }

    pub(crate) fn calls(&self) -> Vec<(Vec<String>, TextKind)> {
        self.embedded.lock().unwrap().clone()
    }
}

#[async_trait]
impl Encoder for FakeEncoder {
    fn identity(&self) -> &EncoderIdentity {
        static IDENTITY: LazyLock<EncoderIdentity> = LazyLock::new(|| EncoderIdentity {
            model: "of the plane".to_owned(),
            revision: String::new(),
            dimension: 2,
            max_tokens: 64,
        });
        &IDENTITY
    }

    /// Returns one token per byte.
    fn token_spans(&self, text: &str) -> Vec<Span> {
        (0..text.len()).map(|at| Span::new(at, at + 1)).collect()
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        kind: TextKind,
        _: Priority,
        _: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        self.embedded.lock().unwrap().push((texts.clone(), kind));
        let embedding = |text: &String| {
            if kind == TextKind::Query && self.tells_queries_apart {
                let vector = self.apart(text);
                return Embedding { vector, tokens: 1, truncated: false };
            }
            let cosine = match kind {
                TextKind::Query => 1.0,
                TextKind::Passage => self.cosines.get(text).copied().unwrap_or(0.0),
            };
            let vector = vec![cosine, (1.0 - cosine * cosine).sqrt()];
            Embedding { vector, tokens: 1, truncated: false }
        };
        Ok(texts.iter().map(embedding).collect())
    }
}

/// Hand-made tree.
#[derive(Default)]
pub(crate) struct FakeTree {
    pub(crate) tops: Vec<TreeNode>,
    pub(crate) children: Vec<(TreeNodeId, Vec<TreeNode>)>,
    pub(crate) gone: Vec<TreeNodeId>,
    /// Texts of segments, by ordinal.
    pub(crate) texts: BTreeMap<u32, &'static str>,
    pub(crate) missing: MissingOfTree,
    /// Vectors of summaries, with the fingerprint of the model that made them.
    pub(crate) vectors: Option<(String, BTreeMap<String, Vec<f32>>)>,
}

/// Shards that do not answer when a tree is asked for its top, for children, or for a segment.
#[derive(Default)]
pub(crate) struct MissingOfTree {
    pub(crate) tops: Option<ShardIndex>,
    pub(crate) children: Option<ShardIndex>,
    pub(crate) segment: Option<ShardIndex>,
}

/// Creates a node above documents, over those from `first` to `last`.
pub(crate) fn upper(number: u8, first: &str, last: &str, children: u32) -> TreeNode {
    TreeNode {
        id: TreeNodeId::Upper { shard: ShardIndex(0), key: CorpusTreeKey([number; 16]) },
        title: String::new(),
        summary: format!("upper {number}"),
        span: None,
        documents: (document(first), document(last)),
        bytes: 1000,
        children,
        vector: None,
    }
}

/// Creates a node of a document. Its summary is its name, `document#level.ordinal`.
pub(crate) fn node(id: &str, level: u32, ordinal: u32, children: u32) -> TreeNode {
    let width = SEGMENT_BYTES * 10usize.pow(level);
    let start = width * ordinal as usize;
    let node_id =
        TreeNodeId::Document { document_id: document(id), version: Version(1), level, ordinal };
    TreeNode {
        title: id.to_owned(),
        summary: node_id.to_string(),
        id: node_id,
        span: Some(Span::new(start, start + width)),
        documents: (document(id), document(id)),
        bytes: width as u64,
        children,
        vector: None,
    }
}

impl FakeTree {
    pub(crate) fn put(&mut self, parent: &TreeNode, children: Vec<TreeNode>) {
        self.children.push((parent.id.clone(), children));
    }

    /// Returns nodes with the stored vectors of a model.
    fn shown(&self, nodes: &[TreeNode], encoder: Option<&str>) -> Vec<TreeNode> {
        let of_model = self.vectors.as_ref().filter(|(model, _)| Some(model.as_str()) == encoder);
        let vector = |node: &TreeNode| of_model?.1.get(&node.summary).cloned();
        nodes.iter().map(|node| TreeNode { vector: vector(node), ..node.clone() }).collect()
    }
}

#[async_trait]
impl Tree for FakeTree {
    async fn tops(
        &self,
        _: &str,
        _: &Filter,
        encoder: Option<&str>,
        _: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error> {
        Ok(Partial::whole(self.shown(&self.tops, encoder)).missing(self.missing.tops))
    }

    async fn children(
        &self,
        node: &TreeNodeId,
        encoder: Option<&str>,
        _: Instant,
    ) -> Result<Partial<Vec<TreeNode>>, Error> {
        let is_here =
            |(parent, _): &&(TreeNodeId, _)| parent == node && !self.gone.contains(parent);
        let children =
            self.children.iter().find(is_here).map(|(_, list)| self.shown(list, encoder));
        Ok(Partial::whole(children.unwrap_or_default()).missing(self.missing.children))
    }

    async fn segment(
        &self,
        node: &TreeNodeId,
        _: Instant,
    ) -> Result<Partial<Option<Evidence>>, Error> {
        let TreeNodeId::Document { document_id, ordinal, .. } = node else {
            return Ok(Partial::whole(None));
        };
        let start = SEGMENT_BYTES * *ordinal as usize;
        let text = evidence(document_id.as_str(), start, start + SEGMENT_BYTES, 0.0);
        let text = saying(text, self.texts.get(ordinal).copied());
        let text = (!self.gone.contains(node)).then_some(text);
        Ok(Partial::whole(text).missing(self.missing.segment))
    }

    fn covers(&self, node: &TreeNode, found: &Evidence) -> bool {
        let (first, last) = &node.documents;
        let is_among = (first..=last).contains(&&found.document_id);
        let overlaps = |span: Span| span.start < found.span.end && found.span.start < span.end;
        is_among && node.span.is_none_or(overlaps)
    }
}

/// Hand-made graph over segments of [`SEGMENT_BYTES`] each. A text names an entity if it has its
/// key as a word.
#[derive(Default)]
pub(crate) struct FakeGraph {
    pub(crate) entities: Vec<EntityNode>,
    pub(crate) relations: Vec<RelationEdge>,
    pub(crate) gone: Vec<SegmentId>,
    /// Texts of segments, by ordinal.
    pub(crate) texts: BTreeMap<u32, &'static str>,
    /// Bytes of each segment's text, if it is not as long as its span.
    pub(crate) text_bytes: Option<usize>,
    /// Shards that do not answer when it is asked for a subgraph, or for segments.
    pub(crate) missing: (Option<ShardIndex>, Option<ShardIndex>),
    /// Entities most like any query, if all entities have vectors.
    pub(crate) alike: Option<Vec<EntityKey>>,
    queries: Mutex<Vec<GraphQuery>>,
    asked_for: Mutex<Vec<SegmentId>>,
}

pub(crate) fn segment(id: &str, ordinal: u32) -> SegmentId {
    SegmentId { document_id: document(id), version: Version(1), ordinal }
}

impl FakeGraph {
    pub(crate) fn entity(&mut self, key: &str, segments: &[(&str, u32)]) {
        self.entities.push(EntityNode {
            key: EntityKey(key.to_owned()),
            name: key.to_uppercase(),
            kind: EntityKind::Person,
            aliases: Vec::new(),
            segments: segments.iter().map(|(id, ordinal)| segment(id, *ordinal)).collect(),
            mentioned_in: segments.len() as u64,
            titled: Vec::new(),
            description: String::new(),
        });
        self.entities.sort_by(|a, b| a.key.cmp(&b.key));
    }

    /// Makes an existing entity the title of documents.
    pub(crate) fn title(&mut self, key: &str, documents: &[&str]) {
        let entity = self.entities.iter_mut().find(|entity| entity.key.0 == key).unwrap();
        entity.titled = documents.iter().map(|id| document(id)).collect();
    }

    pub(crate) fn relation(&mut self, head: &str, text: &str, tail: &str, at: (&str, u32)) {
        self.relations.push(RelationEdge {
            head: EntityKey(head.to_owned()),
            text: text.to_owned(),
            tail: EntityKey(tail.to_owned()),
            segment: segment(at.0, at.1),
            evidence: Span::new(0, 1),
        });
    }

    pub(crate) fn queries(&self) -> Vec<GraphQuery> {
        self.queries.lock().unwrap().clone()
    }

    /// Returns the segments whose texts were asked for, in order.
    pub(crate) fn asked_for(&self) -> Vec<SegmentId> {
        self.asked_for.lock().unwrap().clone()
    }

    fn is_seed(&self, entity: &EntityNode, query: &GraphQuery) -> bool {
        let is_word = |text: &String| text.split_whitespace().any(|word| word == entity.key.0);
        let is_at = |DocumentRange { document_id, version, span }: &DocumentRange| {
            entity.segments.iter().any(|segment| {
                let start = SEGMENT_BYTES * segment.ordinal as usize;
                let is_text = segment.document_id == *document_id && segment.version == *version;
                is_text && start < span.end && span.start < start + SEGMENT_BYTES
            })
        };
        let is_alike = |alike: &Vec<EntityKey>| query.like.is_some() && alike.contains(&entity.key);
        self.alike.as_ref().is_some_and(is_alike)
            || query.entities.contains(&entity.key)
            || query.texts.iter().any(is_word)
            || query.places.iter().any(is_at)
    }
}

#[async_trait]
impl GraphMemory for FakeGraph {
    async fn subgraph(&self, query: &GraphQuery, _: Instant) -> Result<Partial<Subgraph>, Error> {
        self.queries.lock().unwrap().push(query.clone());
        let seeds: Vec<EntityKey> = self
            .entities
            .iter()
            .filter(|entity| self.is_seed(entity, query))
            .map(|entity| entity.key.clone())
            .collect();
        let mut keys = seeds.clone();
        for _ in 0..query.hops {
            let before = keys.clone();
            let touching = self
                .relations
                .iter()
                .filter(|r| before.contains(&r.head) || before.contains(&r.tail));
            keys.extend(
                touching.flat_map(|relation| [relation.head.clone(), relation.tail.clone()]),
            );
        }
        let entities = self.entities.iter().filter(|e| keys.contains(&e.key)).cloned();
        let relations =
            self.relations.iter().filter(|r| keys.contains(&r.head) && keys.contains(&r.tail));
        let part = Subgraph {
            seeds,
            entities: entities.take(query.most_entities).collect(),
            relations: relations.take(query.most_relations).cloned().collect(),
            is_cut: false,
            is_compared: query.like.is_some() && self.alike.is_some(),
            is_being_built: false,
        };
        Ok(Partial::whole(part).missing(self.missing.0))
    }

    async fn segments(
        &self,
        ids: &[SegmentId],
        _: Instant,
    ) -> Result<Partial<Vec<(SegmentId, Evidence)>>, Error> {
        self.asked_for.lock().unwrap().extend_from_slice(ids);
        let text = |id: &SegmentId| {
            let start = SEGMENT_BYTES * id.ordinal as usize;
            let mut text = evidence(id.document_id.as_str(), start, start + SEGMENT_BYTES, 0.0);
            text.text = self.text_bytes.map_or(text.text, |bytes| "x".repeat(bytes));
            (id.clone(), saying(text, self.texts.get(&id.ordinal).copied()))
        };
        let texts = ids.iter().filter(|id| !self.gone.contains(id)).map(text).collect();
        Ok(Partial::whole(texts).missing(self.missing.1))
    }
}

/// Graph builder that extracts from a passage what it is told, by the start of the passage, or
/// nothing.
#[derive(Default)]
pub(crate) struct FakeGraphBuilder {
    found: BTreeMap<String, Extraction>,
    /// Kind of its failure, if it fails.
    pub(crate) failure: Option<ErrorKind>,
    /// Cost of reading one passage.
    pub(crate) cost: Cost,
    calls: Mutex<Vec<Vec<ExtractionTask>>>,
}

impl FakeGraphBuilder {
    /// Adds what the passage at `place`, such as `d:100`, says.
    pub(crate) fn tell(&mut self, place: &str, head: &str, text: &str, tail: &str) {
        let found = self.found.entry(place.to_owned()).or_default();
        let mut index = |name: &str| {
            let known = found.entities.iter().position(|entity| entity.name == name);
            known.unwrap_or_else(|| {
                let (name, kind) = (name.to_owned(), EntityKind::Person);
                found.entities.push(Entity { name, kind, mentions: Vec::new() });
                found.entities.len() - 1
            })
        };
        let (head, tail) = (index(head), index(tail));
        let (text, evidence) = (text.to_owned(), Span::new(0, 1));
        found.relations.push(Relation { head, text, tail, evidence });
    }

    pub(crate) fn calls(&self) -> Vec<Vec<ExtractionTask>> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the starts of the passages that were read, by call.
    pub(crate) fn read(&self) -> Vec<Vec<String>> {
        let places = |tasks: Vec<ExtractionTask>| {
            tasks.iter().map(|task| Self::place(task).to_owned()).collect()
        };
        self.calls().into_iter().map(places).collect()
    }

    fn place(task: &ExtractionTask) -> &str {
        task.text.trim_end_matches('.')
    }
}

#[async_trait]
impl GraphBuilder for FakeGraphBuilder {
    /// Joins the beginnings of the parts.
    async fn summarise(&self, tasks: Vec<SummaryTask>, _: Instant) -> Result<Vec<Summary>, Error> {
        let begun = |part: &String| part.split("..").next().unwrap_or_default().to_owned();
        let summary = |task: &SummaryTask| {
            let text = task.parts.iter().map(begun).collect::<Vec<_>>().join(" ");
            Summary { text, cost: self.cost, ..Summary::default() }
        };
        Ok(tasks.iter().map(summary).collect())
    }

    async fn extract(
        &self,
        tasks: Vec<ExtractionTask>,
        _: Instant,
    ) -> Result<Vec<Extraction>, Error> {
        self.calls.lock().unwrap().push(tasks.clone());
        if let Some(kind) = self.failure {
            return Err(Error::new(kind, "NO_READING", "the passages cannot be read"));
        }
        let found = tasks.iter().map(|task| {
            let found = self.found.get(Self::place(task)).cloned().unwrap_or_default();
            Extraction { cost: self.cost, ..found }
        });
        Ok(found.collect())
    }
}

/// Scripted step at a node or a segment.
pub(crate) enum Play {
    Enter(usize),
    Back,
    Answer,
    Weak,
    Nothing,
    Unreadable,
    Late,
}

/// Navigator that follows a script. Each step costs one call of a model.
#[derive(Default)]
pub(crate) struct ScriptedNavigator {
    walk: Mutex<VecDeque<Play>>,
    pub(crate) named: Vec<String>,
    /// Missing part that each reflection finds; `None` if nothing is missing. After the last,
    /// nothing suffices.
    pub(crate) missing: Vec<Option<String>>,
    /// Names chosen each time.
    pub(crate) chosen: Vec<Vec<String>>,
    pub(crate) elaborated: Vec<String>,
    /// Result of fusing descriptions; `None` if they cannot be fused.
    pub(crate) fused: Option<String>,
    fusions: Mutex<Vec<(String, Vec<String>)>>,
    choices: Mutex<Vec<ChildChoice>>,
    leaves: Mutex<Vec<(String, Vec<String>)>>,
    judged: Mutex<Vec<Vec<String>>>,
    entity_choices: Mutex<Vec<EntityChoice>>,
    relations: Mutex<Vec<String>>,
}

impl ScriptedNavigator {
    pub(crate) fn play(&self, plays: impl IntoIterator<Item = Play>) {
        self.walk.lock().unwrap().extend(plays);
    }

    fn next(&self) -> Result<Play, Error> {
        let play =
            self.walk.lock().unwrap().pop_front().expect("a step that was not in the script");
        match play {
            Play::Unreadable => {
                let kind = ErrorKind::Unavailable;
                Err(Error::new(kind, "UNREADABLE_REPLY", "three replies could not be read"))
            }
            Play::Late => Err(Error::deadline("waiting for a model")),
            play => Ok(play),
        }
    }

    pub(crate) fn choices(&self) -> Vec<ChildChoice> {
        self.choices.lock().unwrap().clone()
    }

    /// Returns the segments read, each with the memory at that time.
    pub(crate) fn leaves(&self) -> Vec<(String, Vec<String>)> {
        self.leaves.lock().unwrap().clone()
    }

    /// Returns the passages judged each time, in order.
    pub(crate) fn judged(&self) -> Vec<Vec<String>> {
        self.judged.lock().unwrap().clone()
    }

    pub(crate) fn entity_choices(&self) -> Vec<EntityChoice> {
        self.entity_choices.lock().unwrap().clone()
    }

    pub(crate) fn relations(&self) -> Vec<String> {
        self.relations.lock().unwrap().clone()
    }

    /// Returns the subject and the descriptions of each fusion.
    pub(crate) fn fusions(&self) -> Vec<(String, Vec<String>)> {
        self.fusions.lock().unwrap().clone()
    }
}

#[async_trait]
impl Navigator for ScriptedNavigator {
    async fn choose_child(&self, choice: &ChildChoice, _: Instant) -> Result<Triage, Error> {
        self.choices.lock().unwrap().push(choice.clone());
        let step = match self.next()? {
            Play::Enter(child) => TriageStep::Enter(child),
            Play::Back => TriageStep::TurnBack,
            _ => panic!("a step for a segment was played at a node"),
        };
        Ok(Triage { reasoning: "it may".to_owned(), step, cost: calls(1) })
    }

    async fn read_leaf(
        &self,
        _: &str,
        memory: &[String],
        leaf: &Evidence,
        _: Instant,
    ) -> Result<LeafReading, Error> {
        self.leaves.lock().unwrap().push((short(leaf), memory.to_vec()));
        let answer = match self.next()? {
            Play::Answer => Some(reading(0.9, calls(1000))),
            Play::Weak => Some(reading(0.1, calls(1000))),
            Play::Nothing => None,
            _ => panic!("a step for a node was played at a segment"),
        };
        Ok(LeafReading { reasoning: "it says".to_owned(), answer, cost: calls(1) })
    }

    async fn judge(&self, _: &str, evidence: &[Evidence], _: Instant) -> Result<Reflection, Error> {
        let mut judged = self.judged.lock().unwrap();
        let missing = self.missing.get(judged.len()).cloned().unwrap_or(Some(String::new()));
        judged.push(evidence.iter().map(short).collect());
        Ok(Reflection {
            reasoning: "so it is".to_owned(),
            suffices: missing.is_none(),
            missing: missing.unwrap_or_default(),
            cost: calls(1),
        })
    }

    async fn name_entities(&self, _: &str, _: Instant) -> Result<Named, Error> {
        Ok(Named { texts: self.named.clone(), cost: calls(1) })
    }

    async fn choose_entities(
        &self,
        choice: &EntityChoice,
        _: Instant,
    ) -> Result<(Vec<usize>, Cost), Error> {
        let mut choices = self.entity_choices.lock().unwrap();
        let names = self.chosen.get(choices.len()).cloned().unwrap_or_default();
        choices.push(choice.clone());
        let index = |name: &String| choice.candidates.iter().position(|c| c == name).unwrap();
        Ok((names.iter().map(index).collect(), calls(1)))
    }

    async fn elaborate(&self, _: &str, relations: &[String], _: Instant) -> Result<Named, Error> {
        *self.relations.lock().unwrap() = relations.to_vec();
        Ok(Named { texts: self.elaborated.clone(), cost: calls(1) })
    }

    async fn fuse(
        &self,
        _: &str,
        subject: &str,
        descriptions: &[String],
        _: Instant,
    ) -> Result<(String, Cost), Error> {
        self.fusions.lock().unwrap().push((subject.to_owned(), descriptions.to_vec()));
        let gone = || Error::new(ErrorKind::Unavailable, "MODEL_GONE", "there is no model");
        Ok((self.fused.clone().ok_or_else(gone)?, calls(1)))
    }
}

fn short(evidence: &Evidence) -> String {
    format!("{}:{}", evidence.document_id, evidence.span.start)
}

/// Planner that plans what it is told and records what it is shown.
#[derive(Default)]
pub(crate) struct ScriptedPlanner {
    pub(crate) clues: Clues,
    pub(crate) imagined: Vec<String>,
    pub(crate) wordings: Vec<String>,
    /// Subqueries of concerns. For any other concern, it is the concern with a question mark.
    pub(crate) subqueries: BTreeMap<String, String>,
    /// Concerns that each look at the memory raises. After these, the question is resolved.
    pub(crate) concerns: Mutex<VecDeque<Concerns>>,
    /// Changes of the memory at each step. After these, it does not change.
    pub(crate) changes: Mutex<VecDeque<PointChanges>>,
    pub(crate) merged: Mutex<VecDeque<Vec<MergedPoint>>>,
    pub(crate) cost: Cost,
    findings: Mutex<Vec<Findings>>,
    memories: Mutex<Vec<Vec<MemoryPoint>>>,
    most: Mutex<Vec<usize>>,
    shown: Mutex<Vec<String>>,
}

impl ScriptedPlanner {
    /// Returns what it was shown, in order.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }

    /// Returns how many clues were asked for, by call.
    pub(crate) fn most(&self) -> Vec<usize> {
        self.most.lock().unwrap().clone()
    }

    /// Returns what was found, at each step.
    pub(crate) fn findings(&self) -> Vec<Findings> {
        self.findings.lock().unwrap().clone()
    }

    /// Returns the memories in which concerns were looked for.
    pub(crate) fn memories(&self) -> Vec<Vec<MemoryPoint>> {
        self.memories.lock().unwrap().clone()
    }

    fn show(&self, what: impl Into<String>) {
        self.shown.lock().unwrap().push(what.into());
    }

    fn named(&self, texts: &[String]) -> Named {
        Named { texts: texts.to_vec(), cost: self.cost }
    }
}

#[async_trait]
impl Planner for ScriptedPlanner {
    async fn clues(
        &self,
        _: &str,
        outline: &str,
        _: &[Evidence],
        most: usize,
        _: Instant,
    ) -> Result<(Clues, Cost), Error> {
        self.show(outline);
        self.most.lock().unwrap().push(most);
        Ok((self.clues.clone(), self.cost))
    }

    async fn key_points(
        &self,
        _: &str,
        outline: &str,
        _: usize,
        _: Instant,
    ) -> Result<Named, Error> {
        self.show(outline);
        Ok(self.named(&self.clues.key_points))
    }

    async fn imagine(&self, _: &str, near: &[Evidence], _: Instant) -> Result<Named, Error> {
        near.iter().for_each(|passage| self.show(passage.span.start.to_string()));
        Ok(self.named(&self.imagined))
    }

    async fn reword(&self, _: &str, how: Rewording, _: usize, _: Instant) -> Result<Named, Error> {
        self.show(format!("{how:?}"));
        Ok(self.named(&self.wordings))
    }

    async fn concerns(
        &self,
        _: &str,
        points: &[MemoryPoint],
        _: usize,
        _: Instant,
    ) -> Result<(Concerns, Cost), Error> {
        self.memories.lock().unwrap().push(points.to_vec());
        let raised = self.concerns.lock().unwrap().pop_front();
        Ok((raised.unwrap_or(Concerns::Resolved), self.cost))
    }

    async fn subquery(
        &self,
        _: &str,
        _: &[MemoryPoint],
        concern: &str,
        _: &[String],
        _: Instant,
    ) -> Result<Named, Error> {
        let told = self.subqueries.get(concern).cloned();
        Ok(self.named(&[told.unwrap_or_else(|| format!("{concern} ?"))]))
    }

    async fn take_in(
        &self,
        _: &str,
        _: &[MemoryPoint],
        findings: &Findings,
        _: Instant,
    ) -> Result<(PointChanges, Cost), Error> {
        self.findings.lock().unwrap().push(findings.clone());
        let changes = self.changes.lock().unwrap().pop_front();
        Ok((changes.unwrap_or_default(), self.cost))
    }

    async fn merge(
        &self,
        _: &str,
        _: &[MemoryPoint],
        _: Instant,
    ) -> Result<(Vec<MergedPoint>, Cost), Error> {
        let merged = self.merged.lock().unwrap().pop_front();
        Ok((merged.unwrap_or_default(), self.cost))
    }
}
