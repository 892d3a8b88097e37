//! `ChatService`: chat memory, in which turns are stored as documents.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_auth::{Bill, Caller};
use clew_core::{
    Account, Budget, Corpus, CorpusName, Cost, Document, DocumentId, DocumentStatus, Documents,
    Erasure, ErasureScan, Error, Grouping, Guide, HoldingSnapshot, IfThere, Novelty, Partial,
    Query, Retrieved, Retriever, SpeakerRole, StoredDocument, StoredTurns, TimeUse, Turn,
    TurnAddress, TurnId,
};
use clew_proto::chat::v1 as wire;
use clew_proto::chat::v1::chat_service_server::ChatService;
use clew_proto::convert::chat::{
    self as convert, Appended, Inference, ToForget, TurnSelection, WhichTurns,
};
use clew_proto::convert::conversations::{self, ConversationPage};
use clew_proto::convert::ingest::labels_to_wire;
use clew_proto::convert::shard as convert_shard;
use clew_proto::{respond, to_status};
use clew_runtime::timing::{Part, measured};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use tonic::{Request, Response, Status};

use crate::Backends;
use crate::ingest_service::forget;
use crate::query_service::Queries;
use crate::reading::{Responses, while_read};
use crate::structure::{CorpusStructure, read_documents};

/// Number of turns that are listed or forgotten at once.
const PAGE: usize = 256;
/// Maximum number of turns that a receipt names, and of bytes of each turn's text in a preview.
const MAX_TOLD: usize = 1_000;
const TOLD_BYTES: usize = 200;
/// Number of turns that a model processes at the same time.
const HEARD_AT_ONCE: usize = 4;
/// Interval between checks whether turns are searchable.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Handler of `ChatService`.
pub(crate) struct Chats {
    backends: Arc<Backends>,
    /// Handler that answers questions, so that all questions share one queue.
    queries: Arc<Queries>,
}

impl Chats {
    pub fn new(backends: Arc<Backends>, queries: Arc<Queries>) -> Self {
        Self { backends, queries }
    }

    async fn memory(
        &self,
        caller: &Caller,
        corpus: &CorpusName,
        account: &Account,
        deadline: Instant,
    ) -> Result<CorpusStructure, Error> {
        let corpus = self.backends.corpora.of(caller).get(corpus, deadline).await?;
        Ok(CorpusStructure::over(&self.backends, corpus, account))
    }

    async fn append(
        &self,
        request: Request<wire::AppendTurnsRequest>,
    ) -> Result<wire::AppendTurnsResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        caller.has_tokens().await?;
        let waits = !request.get_ref().without_waiting;
        let appended = convert::append_from_wire(request.into_inner())?;
        caller.access().check_attached(&appended.labels)?;
        let corpus = self.backends.corpora.of(&caller).get(&appended.corpus, deadline).await?;
        // This is not a question: each turn that a model processes has a budget of its own.
        let mut bill = Bill::open(&caller, Budget::UNBOUNDED);
        let guide = self.backends.reasoners.guide(bill.account());
        let documents = documents(&corpus, &appended, guide.as_ref(), deadline).await?;
        bill.settle().await;
        for document in &documents {
            self.backends.moderation.check(document, deadline).await?;
        }
        caller.take_bytes(documents.iter().map(|document| document.text.len()).sum()).await?;
        let ids = documents.iter().map(|document| document.id.clone()).collect();
        let mut accepting = Vec::new();
        for document in documents {
            let shard = corpus.shard_of(&document.id);
            accepting.push(shard.accept(document, IfThere::Replace, deadline).await?);
        }
        let accepted = try_join_all(accepting).await?;
        if waits {
            until_found(&corpus, ids, deadline).await?;
        }
        let told = appended.turns.iter().zip(accepted).map(|(turn, accepted)| wire::AppendedTurn {
            number: turn.id.number,
            version: accepted.version.0,
            unchanged: accepted.novelty == Novelty::Unchanged,
        });
        Ok(wire::AppendTurnsResponse { turns: told.collect() })
    }

    async fn recall(
        &self,
        request: Request<wire::RecallRequest>,
    ) -> Result<wire::RecallResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        caller.has_tokens().await?;
        let limits = &self.backends.limits;
        let recalling = convert::recall_from_wire(request.into_inner(), limits)?;
        let inference = recalling.inference;
        let budget = match inference {
            Inference::Model => self.backends.reasoners.budget(deadline).await?,
            Inference::Rules => Budget::default(),
        };
        let mut bill = Bill::open(&caller, budget);
        let memory = self.memory(&caller, &recalling.corpus, bill.account(), deadline).await?;
        let settings = memory.corpus.settings().chat.clone().unwrap_or_default();
        let settings = settings.chosen(&recalling.choice)?;
        let mut asked = recalling.by(settings);
        let _permit = self.queries.enter()?;
        let mut cost = Cost::default();
        if let (Inference::Model, Some(asked_at)) = (inference, asked.asked_at) {
            let guide = self.backends.reasoners.guide(bill.account());
            let (range, spent) = guide.time_range(&asked.question, asked_at, deadline).await?;
            // If the model infers nothing, the question asks about no time. Rules must not guess
            // one.
            asked.time = if range.is_some() { asked.time } else { TimeUse::Ignore };
            (asked.range, cost) = (range, spent);
        }
        let mut recalled = clew_chat::recall(&memory.search, &memory, &asked, deadline).await?;
        recalled.cost += cost;
        bill.settle().await;
        Ok(convert::recalled_to_wire(recalled))
    }

    async fn list(
        &self,
        request: Request<wire::ListTurnsRequest>,
    ) -> Result<Responses<wire::ListTurnsResponse>, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let wanted = Arc::new(convert::list_from_wire(request.into_inner())?);
        let account = Account::open(caller.owner(), Budget::default());
        let memory = self.memory(&caller, &wanted.corpus, &account, deadline).await?;
        let pages = stream::try_unfold(None, move |after: Option<DocumentId>| {
            let (memory, wanted) = (memory.clone(), Arc::clone(&wanted));
            async move {
                let page = page(&memory, &wanted, after.as_ref(), deadline).await?;
                Ok::<_, Error>(page.map(|Page { documents, last }| (documents, Some(last))))
            }
        });
        let told = |document: Document| {
            let (_, turn) = Turn::of(&document)?;
            let session = turn.id.session.to_string();
            let turn = Some(convert::turn_to_wire(turn));
            let labels = labels_to_wire(&document.labels);
            Some(Ok(wire::ListTurnsResponse { session, turn, key: document.title, labels }))
        };
        let told = pages.map_ok(move |page| stream::iter(page.into_iter().filter_map(told)));
        let told = told.map_err(|error| to_status(&error)).try_flatten();
        Ok(while_read(told, self.backends.config.reader_patience()))
    }

    async fn users(
        &self,
        request: Request<wire::ListUsersRequest>,
    ) -> Result<wire::ListUsersResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let page = conversations::users_from_wire(request.into_inner())?;
        let size = page.query.limit;
        let found = self.conversations(&caller, page, deadline).await?;
        Ok(conversations::users_to_wire(found, size))
    }

    async fn sessions(
        &self,
        request: Request<wire::ListSessionsRequest>,
    ) -> Result<wire::ListSessionsResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let page = conversations::sessions_from_wire(request.into_inner())?;
        let size = page.query.limit;
        let found = self.conversations(&caller, page, deadline).await?;
        Ok(conversations::sessions_to_wire(found, size))
    }

    /// Returns the users or sessions of a page and, if there is one, the next one after it. Fails
    /// if a shard does not answer: its turns would be missing in the counts.
    async fn conversations(
        &self,
        caller: &Caller,
        ConversationPage { corpus, mut query }: ConversationPage,
        deadline: Instant,
    ) -> Result<Vec<StoredTurns>, Error> {
        let corpus = self.backends.corpora.of(caller).get(&corpus, deadline).await?;
        query.limit += 1;
        let pages = corpus.shards().iter().map(|shard| shard.conversations(&query, deadline));
        let pages = measured(Part::Store, try_join_all(pages)).await?;
        Ok(clew_chat::united_conversations(pages, query.limit))
    }

    async fn forget(
        &self,
        request: Request<wire::ForgetTurnsRequest>,
    ) -> Result<wire::ForgetTurnsResponse, Error> {
        let caller = Caller::of(&request)?;
        let deadline = self.backends.config.deadline(&request);
        let ToForget { of, which, preview } =
            convert::forget_from_wire(request.into_inner(), &self.backends.limits)?;
        let bill = Bill::open(&caller, Budget::default());
        let memory = self.memory(&caller, &of.corpus, bill.account(), deadline).await?;
        let mut forgetting = Forgetting::new(&memory, preview, deadline);
        match which {
            WhichTurns::All => {
                let mut after = None;
                while let Some(page) = page(&memory, &of, after.as_ref(), deadline).await? {
                    if preview {
                        forgetting.tell_all(page.documents);
                    } else {
                        let ids: Vec<_> = page.documents.into_iter().map(|of| of.id).collect();
                        forgetting.forget(&ids).await?;
                    }
                    after = Some(page.last);
                }
            }
            WhichTurns::Numbered(numbers) => {
                let session =
                    of.session.ok_or_else(|| Error::internal("no session was asked for"))?;
                let id = |number: &u32| {
                    let turn = TurnId { session: session.clone(), number: *number };
                    TurnAddress { user: of.user.clone(), turn }.document_id()
                };
                let ids = numbers.iter().map(id).collect::<Result<Vec<_>, _>>()?;
                for ids in ids.chunks(PAGE) {
                    forgetting.forget(ids).await?;
                }
            }
            WhichTurns::About(words, k) => {
                let mut query = Query::new(words, k);
                query.filter = of.filter;
                query.grouping = Grouping::Documents;
                let _permit = self.queries.enter()?;
                let found = memory.search.retrieve(&query, deadline).await?;
                let Retrieved { evidence, shards_missing, .. } = found;
                let found = Partial { found: evidence, shards_missing }.complete()?;
                let ids: Vec<_> = found.into_iter().map(|hit| hit.document_id).collect();
                forgetting.forget(&ids).await?;
            }
        }
        Ok(forgetting.receipt())
    }
}

/// Converts turns to documents, in order.
async fn documents(
    corpus: &Corpus,
    appended: &Appended,
    guide: &dyn Guide,
    deadline: Instant,
) -> Result<Vec<Document>, Error> {
    let Appended { user, turns, inference, labels, .. } = appended;
    let labelled = |document: Document| Document { labels: labels.clone(), ..document };
    let by_rules = turns.iter().map(|turn| clew_chat::turn_document(turn, user).map(labelled));
    let mut documents = by_rules.collect::<Result<Vec<_>, _>>()?;
    if *inference == Inference::Rules {
        return Ok(documents);
    }
    let ids: Vec<_> = documents.iter().map(|document| document.id.clone()).collect();
    let kept = read_documents(corpus, &ids, deadline).await?.into_iter();
    let mut kept: HashMap<_, _> =
        kept.map(|(stored, _)| (stored.document.id.clone(), stored.document)).collect();
    let mut heard = Vec::new();
    for (place, turn) in turns.iter().enumerate() {
        match kept.remove(&ids[place]) {
            // A model's replies vary: appending the same turn again must not change it.
            Some(same) if Turn::of(&same).is_some_and(|(_, known)| known == *turn) => {
                documents[place] = labelled(same);
            }
            _ if turn.role == SpeakerRole::Assistant => {}
            _ => heard.push(heard_by(guide, place, user, turn, deadline)),
        }
    }
    let mut heard = stream::iter(heard).buffer_unordered(HEARD_AT_ONCE);
    while let Some((place, document)) = heard.try_next().await? {
        documents[place] = labelled(document);
    }
    Ok(documents)
}

/// Converts a turn to a document, with the statements that a model finds in it.
async fn heard_by(
    guide: &dyn Guide,
    place: usize,
    user: &str,
    turn: &Turn,
    deadline: Instant,
) -> Result<(usize, Document), Error> {
    let speaker = if turn.role == SpeakerRole::User { "" } else { &turn.speaker };
    let facts = guide.facts(speaker, &turn.text, deadline).await?;
    Ok((place, clew_chat::turn_document_with(turn, user, &facts.texts)?))
}

/// Documents of turns, in the order of their ids.
struct Page {
    documents: Vec<Document>,
    last: DocumentId,
}

/// Returns the wanted turns among the next [`PAGE`] documents, or `None` after the last.
async fn page(
    memory: &CorpusStructure,
    wanted: &TurnSelection,
    after: Option<&DocumentId>,
    deadline: Instant,
) -> Result<Option<Page>, Error> {
    let ids = memory.ids(&wanted.prefix(), after, PAGE, deadline).await?.complete()?;
    let Some(last) = ids.last().cloned() else { return Ok(None) };
    let read = memory.documents(&ids, deadline).await?.complete()?.into_iter();
    let mut documents: Vec<Document> = read.map(|whole| whole.document).collect();
    documents.retain(|document| wanted.filter.admits(document));
    documents.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(Some(Page { documents, last }))
}

/// Turns that are forgotten so far, or would be.
struct Forgetting<'a> {
    memory: &'a CorpusStructure,
    preview: bool,
    deadline: Instant,
    receipt: wire::ForgetTurnsResponse,
    sessions: BTreeSet<DocumentId>,
    scan: ErasureScan,
    snapshots: Vec<HoldingSnapshot>,
}

impl<'a> Forgetting<'a> {
    fn new(memory: &'a CorpusStructure, preview: bool, deadline: Instant) -> Self {
        Self {
            memory,
            preview,
            deadline,
            receipt: wire::ForgetTurnsResponse::default(),
            sessions: BTreeSet::new(),
            scan: ErasureScan::default(),
            snapshots: Vec::new(),
        }
    }

    fn tell(&mut self, turn: TurnId, text: &str) {
        self.receipt.turns += 1;
        if self.receipt.first.len() < MAX_TOLD {
            self.receipt.first.push(wire::ForgottenTurn {
                session: turn.session.to_string(),
                number: turn.number,
                text: text[..text.floor_char_boundary(TOLD_BYTES)].to_owned(),
            });
        }
        self.sessions.insert(turn.session);
    }

    /// Adds turns that would be forgotten to the receipt.
    fn tell_all(&mut self, documents: Vec<Document>) {
        let turn = |document: &Document| Turn::of(document).map(|(_, turn)| turn);
        let mut turns: Vec<Turn> = documents.iter().filter_map(turn).collect();
        turns.sort_by(|a, b| a.id.cmp(&b.id));
        for turn in turns {
            self.receipt.text_bytes += turn.text.len() as u64;
            self.tell(turn.id, &turn.text);
        }
    }

    async fn forget(&mut self, ids: &[DocumentId]) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        if self.preview {
            let read = self.memory.documents(ids, self.deadline).await?.complete()?.into_iter();
            self.tell_all(read.map(|whole| whole.document).collect());
            return Ok(());
        }
        let Erasure { documents, scan, snapshots } =
            forget(&self.memory.corpus, ids, self.deadline).await?;
        for gone in documents {
            self.receipt.chunks += gone.chunks;
            self.receipt.text_bytes += gone.bytes;
            if let Some(address) = TurnAddress::of(&gone.document_id).filter(|_| gone.versions > 0)
            {
                self.tell(address.turn, "");
            }
        }
        self.scan.add(scan);
        HoldingSnapshot::unite(&mut self.snapshots, snapshots);
        Ok(())
    }

    fn receipt(mut self) -> wire::ForgetTurnsResponse {
        self.receipt.sessions = self.sessions.len() as u64;
        if !self.preview {
            self.receipt.verified = self.scan.is_clean();
            self.receipt.scan = Some(convert_shard::scan_to_wire(self.scan));
        }
        let snapshots = self.snapshots.into_iter();
        self.receipt.snapshots = snapshots.map(convert_shard::holding_to_wire).collect();
        self.receipt
    }
}

/// Waits until the newest versions of documents are searchable or set aside.
async fn until_found(
    corpus: &Corpus,
    mut ids: Vec<DocumentId>,
    deadline: Instant,
) -> Result<(), Error> {
    loop {
        let waits = |(_, status): &(StoredDocument, DocumentStatus)| {
            status.live_version != Some(status.version) && status.failure.is_none()
        };
        // Another caller may have forgotten a document in the meantime.
        let read = read_documents(corpus, &ids, deadline).await?.into_iter();
        ids = read.filter(waits).map(|(stored, _)| stored.document.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        if Instant::now() + LOOK_INTERVAL >= deadline {
            return Err(Error::deadline("waiting until turns can be found"));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

#[tonic::async_trait]
impl ChatService for Chats {
    async fn append_turns(
        &self,
        request: Request<wire::AppendTurnsRequest>,
    ) -> Result<Response<wire::AppendTurnsResponse>, Status> {
        respond(self.append(request).await)
    }

    async fn recall(
        &self,
        request: Request<wire::RecallRequest>,
    ) -> Result<Response<wire::RecallResponse>, Status> {
        let recalled = Chats::recall(self, request).await;
        respond(recalled)
    }

    type AnswerStream = Responses<wire::AnswerResponse>;

    async fn answer(
        &self,
        request: Request<wire::AnswerRequest>,
    ) -> Result<Response<Self::AnswerStream>, Status> {
        let answering = async {
            let caller = Caller::of(&request)?;
            let deadline = self.backends.config.deadline(&request);
            let asked = convert::answer_from_wire(request.into_inner())?;
            self.queries.answer(caller, asked, deadline).await
        };
        let events = answering.await.map_err(|error| to_status(&error))?;
        let told = events.map_ok(|event| wire::AnswerResponse { event: Some(event) });
        Ok(Response::new(told.boxed()))
    }

    type ListTurnsStream = Responses<wire::ListTurnsResponse>;

    async fn list_turns(
        &self,
        request: Request<wire::ListTurnsRequest>,
    ) -> Result<Response<Self::ListTurnsStream>, Status> {
        respond(self.list(request).await)
    }

    async fn list_users(
        &self,
        request: Request<wire::ListUsersRequest>,
    ) -> Result<Response<wire::ListUsersResponse>, Status> {
        respond(self.users(request).await)
    }

    async fn list_sessions(
        &self,
        request: Request<wire::ListSessionsRequest>,
    ) -> Result<Response<wire::ListSessionsResponse>, Status> {
        respond(self.sessions(request).await)
    }

    async fn forget_turns(
        &self,
        request: Request<wire::ForgetTurnsRequest>,
    ) -> Result<Response<wire::ForgetTurnsResponse>, Status> {
        respond(self.forget(request).await)
    }
}
