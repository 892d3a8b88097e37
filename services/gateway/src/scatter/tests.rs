//! Tests of searches over shards.

use std::sync::Mutex;
use std::time::Duration;

use clew_core::{
    Accepting, CheckQuery, Checked, ChunkId, ChunkListQuery, Chunking, ClueQuery,
    ConversationQuery, Corpus, CorpusSettings, Counts, DescribedDocument, Document, DocumentId,
    DocumentStatus, DraftedClues, Encoder, EncoderIdentity, Erasure, ErrorKind, ExportPage,
    GraphQuery, IfThere, ListQuery, ListedChunks, ListedMemories, OneEncoder, Reembedded,
    SegmentId, Selection, ShardAdmin, ShardCopy, ShardSearch, ShardStore, SnapshotName, Span,
    StoredDocument, StoredTurns, Subgraph, Timestamp, TreeNode, TreeQuery, Version,
};
use tokio::sync::{Semaphore, mpsc};

use super::*;

fn hit(document: &str, ordinal: u32, score: f32) -> Hit {
    let document_id: DocumentId = document.parse().unwrap();
    let corpus = "notes".parse().unwrap();
    Hit {
        chunk_id: ChunkId::derive(&corpus, &document_id, Version(1), ordinal),
        document_id,
        version: Version(1),
        ordinal,
        score,
        shown: None,
    }
}

fn found(dense: &[(&str, f32)], sparse: &[(&str, f32)], attainable: Option<f32>) -> Candidates {
    let hits = |list: &[(&str, f32)]| list.iter().map(|(d, s)| hit(d, 0, *s)).collect();
    Candidates { dense: hits(dense), sparse: hits(sparse), attainable, view: None }
}

fn order(answers: Vec<Candidates>, mode: SearchMode) -> Vec<String> {
    let mut query = Query::new("q", 10);
    query.mode = mode;
    let answers = (0..).map(ShardIndex).zip(answers).collect();
    let fused = fuse(gather(answers), &query).into_iter();
    fused.map(|found| found.hit.document_id.to_string()).collect()
}

#[test]
fn a_shard_that_does_not_know_a_word_does_not_hide_what_another_knows() {
    // `a` has all words, in a long text. The shard of `b` lacks the rarest word, and `b` has
    // the others.
    let first = found(&[], &[("a", 9.0)], Some(12.0));
    let second = found(&[], &[("b", 4.5)], Some(5.0));
    for mode in [SearchMode::Sparse, SearchMode::Hybrid] {
        assert_eq!(order(vec![first.clone(), second.clone()], mode), ["a", "b"]);
    }
}

#[test]
fn without_attainable_scores_ranks_decide() {
    let only = found(&[("a", 0.9), ("b", 0.8)], &[("b", 3.0)], None);
    assert_eq!(order(vec![only], SearchMode::Hybrid), ["b", "a"]);
}

#[test]
fn scores_are_compared_where_not_all_shares_are_known() {
    // A shard does not know its attainable score while its text index is being built.
    let indexed = found(&[], &[("a", 4.0)], Some(5.0));
    let other = found(&[], &[("b", 1.9)], None);
    for mode in [SearchMode::Sparse, SearchMode::Hybrid] {
        assert_eq!(order(vec![indexed.clone(), other.clone()], mode), ["a", "b"]);
    }
}

#[test]
fn one_ranking_alone_keeps_its_order() {
    let dense = found(&[("a", 0.9), ("b", 0.2)], &[], None);
    assert_eq!(order(vec![dense], SearchMode::Dense), ["a", "b"]);
    let sparse = found(&[], &[("b", 9.0), ("a", 2.0)], Some(10.0));
    assert_eq!(order(vec![sparse], SearchMode::Sparse), ["b", "a"]);
}

/// Encoder that reports each text, and embeds it only when a test permits.
struct Held {
    identity: EncoderIdentity,
    asked: mpsc::UnboundedSender<String>,
    may: Semaphore,
}

#[async_trait]
impl Encoder for Held {
    fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    fn token_spans(&self, _: &str) -> Vec<Span> {
        Vec::new()
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        _: TextKind,
        _: Priority,
        _: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        self.asked.send(texts.concat()).unwrap();
        self.may.acquire().await.unwrap().forget();
        Ok(vec![Embedding { vector: vec![1.0], tokens: 1, truncated: false }])
    }
}

#[tokio::test]
async fn a_storm_of_one_tenant_is_refused_before_it_is_embedded_and_another_has_its_turn() {
    let (asked, mut embedded) = mpsc::unbounded_channel();
    let identity = EncoderIdentity {
        model: "held".to_owned(),
        revision: "1".to_owned(),
        dimension: 1,
        max_tokens: 8,
    };
    let encoder = Arc::new(Held { identity, asked, may: Semaphore::new(0) });
    let queue = FairQueue::new("searches", 1, Duration::from_secs(60)).bounded_as("test", 2);
    let of = |tenant: &str| {
        let name = format!("{tenant}.notes").parse().unwrap();
        let chunking = Chunking::Tokens { max_tokens: 8, overlap_tokens: 0 };
        let (encoder_of, made) = (encoder.identity.clone(), Timestamp::from_micros(0));
        let settings = CorpusSettings::plain(name, 0, chunking, encoder_of, made);
        let corpus = Arc::new(Corpus::new(Arc::new(settings), Vec::new()));
        let encoders = Arc::new(OneEncoder(Arc::clone(&encoder) as Arc<dyn Encoder>));
        let shards = Shards::new(corpus, Duration::from_secs(60));
        Scatter { shards, encoders, queue: queue.clone(), limits: Limits::default() }
    };
    let search = |tenant: &'static str| {
        let scatter = of(tenant);
        let deadline = Instant::now() + Duration::from_secs(60);
        async move { scatter.retrieve(&Query::new(tenant, 1), deadline).await }
    };
    // One search is embedded and two wait; then comes one of another tenant.
    let mut storm: Vec<_> = (0..3).map(|_| tokio::spawn(search("stormy"))).collect();
    assert_eq!(embedded.recv().await.unwrap(), "stormy");
    while queue.waiting() < 2 {
        tokio::task::yield_now().await;
    }
    let refused = search("stormy").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    assert!(refused.retry_after().is_some());
    storm.push(tokio::spawn(search("calm")));
    while queue.waiting() < 3 {
        tokio::task::yield_now().await;
    }
    encoder.may.add_permits(4);
    for search in storm {
        search.await.unwrap().unwrap();
    }
    let rest: Vec<_> = std::iter::from_fn(|| embedded.try_recv().ok()).collect();
    // The refused search is not among them, and the tenants take turns.
    assert_eq!(rest, ["stormy", "calm", "stormy"]);
}

/// Encoder that embeds each text as its length, and keeps the calls.
struct Counting {
    identity: EncoderIdentity,
    calls: Mutex<Vec<Vec<String>>>,
}

#[async_trait]
impl Encoder for Counting {
    fn identity(&self) -> &EncoderIdentity {
        &self.identity
    }

    fn token_spans(&self, _: &str) -> Vec<Span> {
        Vec::new()
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        _: TextKind,
        _: Priority,
        _: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        self.calls.lock().unwrap().push(texts.clone());
        let embedded = |text: &String| Embedding {
            vector: vec![text.len() as f32],
            tokens: u32::try_from(text.len()).unwrap(),
            truncated: false,
        };
        Ok(texts.iter().map(embedded).collect())
    }
}

/// Shard that holds documents and keeps the calls. It finds documents by their first letters, those
/// of earlier letters of the query first.
struct FakeShard {
    index: ShardIndex,
    documents: Vec<&'static str>,
    asked: Mutex<Vec<Vec<CandidateQuery>>>,
    read: Mutex<Vec<Vec<ChunkRef>>>,
    /// States in which chunks were looked for.
    read_in: Mutex<Vec<Option<ViewName>>>,
    /// Name of the state that it keeps for pages.
    view: Option<ViewName>,
    /// Document that is gone when it is to be read.
    gone: Option<&'static str>,
    ranks: bool,
    shows: bool,
}

impl FakeShard {
    fn of(index: u32, documents: &[&'static str]) -> Self {
        Self {
            index: ShardIndex(index),
            documents: documents.to_vec(),
            asked: Mutex::default(),
            read: Mutex::default(),
            read_in: Mutex::default(),
            view: ViewName::new(index + 100),
            gone: None,
            ranks: true,
            shows: true,
        }
    }

    fn found(&self, query: &CandidateQuery) -> Candidates {
        let hit = |(place, letter): (usize, char)| {
            let mut documents = self.documents.iter();
            let document = documents.find(|document| document.starts_with(letter))?;
            let shown = query.with_texts.then(|| text_of(document));
            Some(Hit { shown, ..hit(document, 0, 1.0 / (place + 1) as f32) })
        };
        let hits = query.text.chars().enumerate().filter_map(hit).take(query.limit);
        let hits: Vec<Hit> = hits.collect();
        let (dense, sparse) = match query.mode {
            SearchMode::Sparse => (Vec::new(), hits),
            SearchMode::Dense | SearchMode::Hybrid => (hits, Vec::new()),
        };
        let view = self.view.filter(|_| query.view != SearchedView::Newest);
        Candidates { dense, sparse, attainable: Some(2.0), view }
    }
}

fn text_of(document: &str) -> ChunkText {
    let (span, title) = (Span::new(0, 1), String::new());
    ChunkText { span, text: format!("the text of {document}"), title, event_time: None }
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "gone")
}

impl Shard for FakeShard {
    fn index(&self) -> ShardIndex {
        self.index
    }
}

#[async_trait]
impl ShardSearch for FakeShard {
    async fn candidates_of_all(
        &self,
        queries: &[CandidateQuery],
        _: Instant,
    ) -> Result<Vec<Candidates>, Error> {
        self.asked.lock().unwrap().push(queries.to_vec());
        match self.ranks {
            true => Ok(queries.iter().map(|query| self.found(query)).collect()),
            false => Err(silent()),
        }
    }

    async fn chunks(
        &self,
        wanted: &[ChunkRef],
        view: Option<ViewName>,
        _: Instant,
    ) -> Result<Vec<(ChunkRef, ChunkText)>, Error> {
        self.read.lock().unwrap().push(wanted.to_vec());
        self.read_in.lock().unwrap().push(view);
        if !self.shows {
            return Err(silent());
        }
        let there = wanted.iter().filter(|chunk| self.gone != Some(chunk.document_id.as_str()));
        Ok(there.map(|chunk| (chunk.clone(), text_of(chunk.document_id.as_str()))).collect())
    }

    async fn chunks_of(
        &self,
        _: &ChunkListQuery,
        _: Instant,
    ) -> Result<Option<ListedChunks>, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn tree(&self, _: &TreeQuery, _: Instant) -> Result<Vec<TreeNode>, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn subgraph(&self, _: &GraphQuery, _: Instant) -> Result<Subgraph, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn segments(
        &self,
        _: &[SegmentId],
        _: Instant,
    ) -> Result<Vec<(SegmentId, Evidence)>, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn clues(&self, _: &ClueQuery, _: Instant) -> Result<DraftedClues, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn memories(&self, _: Instant) -> Result<ListedMemories, Error> {
        unreachable!("searches do not ask for it")
    }
}

#[async_trait]
impl ShardStore for FakeShard {
    async fn accept(&self, _: Document, _: IfThere, _: Instant) -> Result<Accepting, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn forget(&self, _: &[DocumentId], _: Instant) -> Result<Erasure, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn documents(
        &self,
        _: &[DocumentId],
        _: Instant,
    ) -> Result<Vec<(StoredDocument, DocumentStatus)>, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn list(&self, _: &ListQuery, _: Instant) -> Result<Vec<DocumentStatus>, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn conversations(
        &self,
        _: &ConversationQuery,
        _: Instant,
    ) -> Result<Vec<StoredTurns>, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn select(
        &self,
        _: &Selection,
        _: Option<&DocumentId>,
        _: usize,
        _: Instant,
    ) -> Result<Vec<DocumentStatus>, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn count_selected(&self, _: &Selection, _: Instant) -> Result<u64, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn describe(
        &self,
        _: &[DocumentId],
        _: Instant,
    ) -> Result<Vec<DescribedDocument>, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn counts(&self, _: Instant) -> Result<Counts, Error> {
        unreachable!("searches do not ask for it")
    }
}

#[async_trait]
impl ShardAdmin for FakeShard {
    async fn check(&self, _: &CheckQuery, _: Instant) -> Result<Checked, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn maintain(&self, _: Instant) -> Result<(), Error> {
        unreachable!("searches do not ask for it")
    }

    async fn reembedded(&self, _: Instant) -> Result<Reembedded, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn export(&self, _: &str, _: Instant) -> Result<ExportPage, Error> {
        unreachable!("searches do not ask for it")
    }

    async fn copy_to_snapshot(&self, _: &SnapshotName, _: Instant) -> Result<ShardCopy, Error> {
        unreachable!("searches do not ask for it")
    }
}

/// Search over shards that keep the calls.
struct Searched {
    scatter: Scatter,
    encoder: Arc<Counting>,
    shards: Vec<Arc<FakeShard>>,
}

impl Searched {
    fn over(shards: Vec<FakeShard>) -> Self {
        let identity = EncoderIdentity {
            model: "counting".to_owned(),
            revision: "1".to_owned(),
            dimension: 1,
            max_tokens: 8,
        };
        let encoder = Arc::new(Counting { identity, calls: Mutex::default() });
        let shards: Vec<Arc<FakeShard>> = shards.into_iter().map(Arc::new).collect();
        let chunking = Chunking::Tokens { max_tokens: 8, overlap_tokens: 0 };
        let (made, count) = (Timestamp::from_micros(0), u32::try_from(shards.len()).unwrap());
        let identity = encoder.identity.clone();
        let name = "notes".parse().unwrap();
        let settings = CorpusSettings::plain(name, count, chunking, identity, made);
        let all = shards.iter().map(|shard| Arc::clone(shard) as Arc<dyn Shard>).collect();
        let corpus = Arc::new(Corpus::new(Arc::new(settings), all));
        let scatter = Scatter {
            shards: Shards::new(corpus, Duration::from_secs(60)),
            encoders: Arc::new(OneEncoder(Arc::clone(&encoder) as Arc<dyn Encoder>)),
            queue: FairQueue::new("searches", 2, Duration::from_secs(60)),
            limits: Limits { searches: 4, ..Limits::default() },
        };
        Self { scatter, encoder, shards }
    }

    async fn all(&self, queries: &[Query]) -> Result<Vec<Retrieved>, Error> {
        self.scatter.retrieve_all(queries, Instant::now() + Duration::from_secs(60)).await
    }

    async fn one(&self, query: &Query) -> Retrieved {
        self.scatter.retrieve(query, Instant::now() + Duration::from_secs(60)).await.unwrap()
    }

    async fn page(&self, query: &Query, start: &PageStart) -> Page {
        let deadline = Instant::now() + Duration::from_secs(60);
        self.scatter.page(query, start, deadline).await.unwrap()
    }

    /// Returns the texts of all pages from `start` on, page by page.
    async fn pages(&self, query: &Query, start: PageStart) -> Vec<Vec<String>> {
        let (mut pages, mut next) = (Vec::new(), Some(start));
        while let Some(start) = next {
            let page = self.page(query, &start).await;
            pages.push(texts(&page.retrieved));
            next = page.next;
            assert!(pages.len() < 100, "it never ends");
        }
        pages
    }

    /// Forgets the calls so far, and which shards did not answer.
    fn anew(&mut self) {
        self.encoder.calls.lock().unwrap().clear();
        for shard in &self.shards {
            shard.asked.lock().unwrap().clear();
            shard.read.lock().unwrap().clear();
        }
        let corpus = Arc::clone(&self.scatter.shards.corpus);
        self.scatter.shards = Shards::new(corpus, Duration::from_secs(60));
    }
}

fn texts(found: &Retrieved) -> Vec<String> {
    found.evidence.iter().map(|item| item.text.clone()).collect()
}

fn two_shards() -> Vec<FakeShard> {
    vec![FakeShard::of(0, &["ant", "cat"]), FakeShard::of(1, &["bee", "dog"])]
}

/// Returns searches of each mode; two of them find `cat`.
fn batch() -> Vec<Query> {
    let sparse = Query { mode: SearchMode::Sparse, ..Query::new("cb", 1) };
    let dense = Query { mode: SearchMode::Dense, ..Query::new("dacb", 3) };
    vec![Query::new("abc", 2), sparse, dense, Query::new("xyz", 5)]
}

#[tokio::test]
async fn a_batch_is_embedded_once_and_asks_each_shard_once_and_finds_what_single_searches_find() {
    let mut searched = Searched::over(two_shards());
    let together = searched.all(&batch()).await.unwrap();
    assert_eq!(*searched.encoder.calls.lock().unwrap(), [["abc", "dacb", "xyz"]]);
    for shard in &searched.shards {
        let asked = shard.asked.lock().unwrap();
        let texts: Vec<&str> = asked[0].iter().map(|query| query.text.as_str()).collect();
        assert_eq!((asked.len(), texts), (1, vec!["abc", "cb", "dacb", "xyz"]));
        let read = shard.read.lock().unwrap();
        let unique: BTreeSet<&ChunkRef> = read[0].iter().collect();
        assert_eq!((read.len(), unique.len()), (1, read[0].len()), "each chunk once");
    }
    searched.anew();
    for (query, found) in batch().iter().zip(&together) {
        assert_eq!(searched.one(query).await, *found);
    }
    assert_eq!(searched.encoder.calls.lock().unwrap().len(), 3);
    assert_eq!(together[0].evidence[0].text, "the text of ant");
    assert_eq!(together[2].evidence.len(), 3);
    assert!(together[3].evidence.is_empty());
    let costs: Vec<u64> = together.iter().map(|found| found.cost.embedded_tokens).collect();
    assert_eq!(costs, [3, 0, 4, 3]);
    assert!(together.iter().all(|found| found.cost.shards_searched == 2));
}

#[tokio::test]
async fn a_shard_that_does_not_rank_is_named_by_each_search_of_a_batch() {
    let mut shards = two_shards();
    shards[1].ranks = false;
    let mut searched = Searched::over(shards);
    let together = searched.all(&batch()).await.unwrap();
    assert!(together.iter().all(|found| found.shards_missing == [ShardIndex(1)]));
    searched.anew();
    for (query, found) in batch().iter().zip(&together) {
        assert_eq!(searched.one(query).await, *found);
    }
}

#[tokio::test]
async fn a_shard_that_shows_nothing_is_named_by_the_searches_that_lack_its_passages() {
    let mut shards = two_shards();
    shards[1].shows = false;
    let mut searched = Searched::over(shards);
    let queries = [Query::new("ba", 1), Query::new("ac", 2)];
    let together = searched.all(&queries).await.unwrap();
    assert_eq!(together[0].shards_missing, [ShardIndex(1)]);
    assert_eq!(together[0].evidence[0].text, "the text of ant", "the next best takes the place");
    assert!(together[1].shards_missing.is_empty());
    for (query, found) in queries.iter().zip(&together) {
        searched.anew();
        assert_eq!(searched.one(query).await, *found);
    }
}

#[tokio::test]
async fn a_search_whose_passage_is_gone_is_repeated_without_the_others() {
    let mut shards = two_shards();
    shards[0].gone = Some("cat");
    let searched = Searched::over(shards);
    let together = searched.all(&batch()).await.unwrap();
    assert_eq!(texts(&together[1]), ["the text of cat"]);
    let asked = searched.shards[0].asked.lock().unwrap();
    let again: Vec<(&str, bool)> =
        asked[1].iter().map(|query| (query.text.as_str(), query.with_texts)).collect();
    assert_eq!((asked.len(), again), (2, vec![("cb", true), ("dacb", true)]));
    assert_eq!(searched.encoder.calls.lock().unwrap().len(), 1, "nothing is embedded again");
}

#[tokio::test]
async fn a_bad_query_and_too_many_are_refused_before_anything_is_done_and_nothing_is_not() {
    let searched = Searched::over(two_shards());
    let bad = [Query::new("a", 1), Query::new(" ", 0)];
    let error = searched.all(&bad).await.unwrap_err();
    assert_eq!(error.fields_at_fault(), ["queries[1].text", "queries[1].k"]);
    let error = searched.all(&vec![Query::new("a", 1); 5]).await.unwrap_err();
    assert_eq!(error.fields_at_fault(), ["queries"]);
    assert!(searched.all(&[]).await.unwrap().is_empty());
    assert!(searched.encoder.calls.lock().unwrap().is_empty());
    assert!(searched.shards.iter().all(|shard| shard.asked.lock().unwrap().is_empty()));
}

#[tokio::test]
async fn a_batch_takes_as_many_turns_as_it_has_searches() {
    let mut searched = Searched::over(two_shards());
    searched.scatter.queue = FairQueue::new("searches", 1, Duration::from_secs(60));
    let deadline = Instant::now() + Duration::from_secs(60);
    let running = searched.scatter.queue.enter("another", deadline).await.unwrap();
    let waiting = searched.scatter.clone();
    let batch = tokio::spawn(async move { waiting.retrieve_all(&batch(), deadline).await });
    while searched.scatter.queue.waiting() < 4 {
        tokio::task::yield_now().await;
    }
    assert!(searched.encoder.calls.lock().unwrap().is_empty(), "it waits before it is embedded");
    drop(running);
    assert_eq!(batch.await.unwrap().unwrap().len(), 4);
}

/// Shards of the documents `a0` to `z0`, a letter each.
fn alphabet() -> Vec<FakeShard> {
    const LETTERS: [&str; 26] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        "s", "t", "u", "v", "w", "x", "y", "z",
    ];
    let of = |shard: usize| {
        let own = LETTERS.iter().skip(shard).step_by(3).copied().collect::<Vec<_>>();
        FakeShard::of(u32::try_from(shard).unwrap(), &own)
    };
    (0..3).map(of).collect()
}

const WORDS: &str = "sphinxofblackquartzjudgemyvow";

#[tokio::test]
async fn pages_together_are_one_search_and_the_last_says_so() {
    let searched = Searched::over(alphabet());
    // Each letter counts once.
    let mut letters: Vec<char> = WORDS.chars().collect();
    let mut known = HashSet::new();
    letters.retain(|letter| known.insert(*letter));
    let letters: String = letters.into_iter().collect();
    for mode in SearchMode::ALL {
        for grouping in [Grouping::Chunks, Grouping::Documents] {
            let all = Query { mode, grouping, ..Query::new(letters.clone(), 1000) };
            let whole = texts(&searched.one(&all).await);
            assert_eq!(whole.len(), 26);
            for k in [1, 5, 13, 25, 26, 27] {
                let query = Query { k, ..all.clone() };
                let pages = searched.pages(&query, PageStart::default()).await;
                assert_eq!(pages.concat(), whole, "{mode:?} by {k}");
                assert_eq!(pages.len(), 26usize.div_ceil(k), "{mode:?} by {k}: no empty page");
            }
        }
    }
}

#[tokio::test]
async fn a_page_ranks_and_reads_the_states_that_the_first_one_ranked() {
    let mut searched = Searched::over(two_shards());
    let query = Query { mode: SearchMode::Dense, ..Query::new("abcd", 2) };
    let first = searched.page(&query, &PageStart::default()).await;
    let views = |searched: &Searched| {
        let of = |shard: &Arc<FakeShard>| {
            (shard.asked.lock().unwrap()[0][0].clone(), shard.read_in.lock().unwrap()[0])
        };
        searched.shards.iter().map(of).collect::<Vec<_>>()
    };
    for (shard, (asked, read_in)) in views(&searched).into_iter().enumerate() {
        assert_eq!((asked.view, asked.limit), (SearchedView::Kept, 3));
        assert_eq!(read_in, searched.shards[shard].view);
    }
    let next = first.next.unwrap();
    searched.anew();
    for shard in &searched.shards {
        shard.read_in.lock().unwrap().clear();
    }
    let second = searched.page(&query, &next).await;
    assert!(second.next.is_none());
    for (shard, (asked, read_in)) in views(&searched).into_iter().enumerate() {
        let name = searched.shards[shard].view;
        assert_eq!((asked.view, asked.limit), (SearchedView::Named(name.unwrap()), 5));
        assert_eq!(read_in, name);
    }
    // A search that has no pages keeps nothing.
    searched.anew();
    searched.one(&query).await;
    assert_eq!(views(&searched)[0].0.view, SearchedView::Newest);
}

#[tokio::test]
async fn nothing_comes_twice_and_nothing_is_skipped_if_the_states_are_gone() {
    let old =
        Searched::over(vec![FakeShard::of(0, &["d", "e", "f"]), FakeShard::of(1, &["g", "h"])]);
    for mode in SearchMode::ALL {
        let query = Query { mode, ..Query::new("abcdefgh", 2) };
        let first = old.page(&query, &PageStart::default()).await;
        assert_eq!(texts(&first.retrieved), ["the text of d", "the text of e"]);
        // Others came that rank first, and one that was returned is gone.
        let new = Searched::over(vec![
            FakeShard::of(0, &["a", "b", "e", "f"]),
            FakeShard::of(1, &["g", "h"]),
        ]);
        let rest = new.pages(&query, first.next.unwrap()).await.concat();
        let expected = ["a", "b", "f", "g", "h"].map(text_of).map(|shown| shown.text);
        assert_eq!(rest, expected, "{mode:?}");
    }
}

#[tokio::test]
async fn what_a_silent_shard_has_comes_once_it_answers() {
    let mut shards = two_shards();
    shards[1].ranks = false;
    let query = Query { mode: SearchMode::Dense, ..Query::new("abcd", 1) };
    let partial = Searched::over(shards).page(&query, &PageStart::default()).await;
    assert_eq!(partial.retrieved.shards_missing, [ShardIndex(1)]);
    let rest = Searched::over(two_shards()).pages(&query, partial.next.unwrap()).await.concat();
    let expected = ["bee", "cat", "dog"].map(text_of).map(|shown| shown.text);
    assert_eq!(rest, expected);
}

#[tokio::test]
async fn pages_end_where_one_search_does() {
    let mut searched = Searched::over(alphabet());
    searched.scatter.limits.results = 7;
    for (k, lengths) in [(3, vec![3, 3, 1]), (7, vec![7])] {
        let query = Query { k, ..Query::new(WORDS, 3) };
        let pages = searched.pages(&query, PageStart::default()).await;
        let found: Vec<usize> = pages.iter().map(Vec::len).collect();
        assert_eq!(found, lengths);
    }
}
