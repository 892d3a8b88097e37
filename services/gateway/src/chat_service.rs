//! `ChatService`: memories of conversations, whose turns are documents.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_chat::{Address, Turn, TurnId};
use clew_core::{Corpus, DocumentId, Documents, Error, Violations, WholeDocument};
use clew_proto::chat::v1 as wire;
use clew_proto::chat::v1::chat_service_server::ChatService;
use clew_proto::convert::chat as convert;
use clew_proto::convert::corpus_name;
use clew_proto::to_status;
use futures::future::try_join_all;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tonic::{Request, Response, Status};

use crate::Backends;
use crate::ingest_service::forget;
use crate::memory::CorpusMemory;
use crate::query_service::Queries;

/// Turns that are told or forgotten at once.
const PAGE: usize = 256;
/// How often it is looked whether turns can be found.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The handler.
pub(crate) struct Chats {
    backends: Arc<Backends>,
    /// Answers, in the one queue that all questions have.
    queries: Arc<Queries>,
}

impl Chats {
    pub fn new(backends: Arc<Backends>, queries: Arc<Queries>) -> Self {
        Self { backends, queries }
    }

    async fn memory(&self, corpus: &str, deadline: Instant) -> Result<CorpusMemory, Error> {
        let corpus = self.backends.corpora.get(&corpus_name(corpus)?, deadline).await?;
        Ok(CorpusMemory::over(&self.backends, corpus))
    }

    async fn append(
        &self,
        request: Request<wire::AppendTurnsRequest>,
    ) -> Result<wire::AppendTurnsResponse, Error> {
        let deadline = self.backends.config.deadline(&request);
        let waits = !request.get_ref().without_waiting;
        let appended = convert::append_from_wire(request.into_inner())?;
        let corpus = self.backends.corpora.get(&appended.corpus, deadline).await?;
        let mut ids = Vec::new();
        let mut accepting = Vec::new();
        for turn in &appended.turns {
            let document = turn.document(&appended.user)?;
            ids.push(document.id.clone());
            accepting.push(corpus.shard_of(&document.id).accept(document, deadline).await?);
        }
        let accepted = try_join_all(accepting).await?;
        if waits {
            try_join_all(ids.iter().map(|id| until_found(&corpus, id, deadline))).await?;
        }
        let told = appended.turns.iter().zip(accepted).map(|(turn, accepted)| wire::AppendedTurn {
            number: turn.id.number,
            version: accepted.version.0,
            unchanged: accepted.unchanged,
        });
        Ok(wire::AppendTurnsResponse { turns: told.collect() })
    }

    async fn recall(
        &self,
        request: Request<wire::RecallRequest>,
    ) -> Result<wire::RecallResponse, Error> {
        let deadline = self.backends.config.deadline(&request);
        let limits = &self.backends.limits;
        let (corpus, asked) = convert::recall_from_wire(request.into_inner(), limits)?;
        let memory = self.memory(corpus.as_str(), deadline).await?;
        let recalled = clew_chat::recall(&memory.search, &memory, &asked, deadline).await?;
        Ok(convert::recalled_to_wire(recalled))
    }

    async fn list(&self, request: Request<wire::ListTurnsRequest>) -> Result<TurnStream, Error> {
        let deadline = self.backends.config.deadline(&request);
        let request = request.into_inner();
        let prefix = prefix(&request.user, &request.session)?;
        let memory = self.memory(&request.corpus, deadline).await?;
        let pages = stream::try_unfold(None, move |after: Option<DocumentId>| {
            let (memory, prefix) = (memory.clone(), prefix.clone());
            async move {
                let ids = memory.ids(&prefix, after.as_ref(), PAGE, deadline).await?;
                let Some(last) = ids.last().cloned() else { return Ok::<_, Error>(None) };
                let mut page = turns(&memory, &ids, deadline).await?;
                page.sort_by(|a, b| a.id.cmp(&b.id));
                Ok(Some((page, Some(last))))
            }
        });
        let told = pages.map_ok(|page| {
            stream::iter(page.into_iter().map(|turn| {
                let session = turn.id.session.to_string();
                Ok(wire::ListTurnsResponse { session, turn: Some(convert::turn_to_wire(turn)) })
            }))
        });
        Ok(told.map_err(|error| to_status(&error)).try_flatten().boxed())
    }

    async fn forget(
        &self,
        request: Request<wire::ForgetTurnsRequest>,
    ) -> Result<wire::ForgetTurnsResponse, Error> {
        let deadline = self.backends.config.deadline(&request);
        let wire::ForgetTurnsRequest { corpus, user, session, numbers, preview } =
            request.into_inner();
        let prefix = prefix(&user, &session)?;
        if session.is_empty() && !numbers.is_empty() {
            return Err(Error::invalid("numbers", "expected a session that they are of"));
        }
        let memory = self.memory(&corpus, deadline).await?;
        let mut told =
            Forgetting { receipt: wire::ForgetTurnsResponse::default(), sessions: BTreeSet::new() };
        told.receipt.verified = !preview;
        if numbers.is_empty() {
            let mut after = None;
            loop {
                let ids = memory.ids(&prefix, after.as_ref(), PAGE, deadline).await?;
                let Some(last) = ids.last().cloned() else { break };
                told.forget(&memory, &ids, preview, deadline).await?;
                after = Some(last);
            }
        } else {
            let session: DocumentId = session.parse()?;
            let id = |number: &u32| {
                let turn = TurnId { session: session.clone(), number: *number };
                Address { user: user.clone(), turn }.document_id()
            };
            let ids = numbers.iter().map(id).collect::<Result<Vec<_>, _>>()?;
            for ids in ids.chunks(PAGE) {
                told.forget(&memory, ids, preview, deadline).await?;
            }
        }
        told.receipt.sessions = told.sessions.len() as u64;
        Ok(told.receipt)
    }
}

/// What was forgotten so far.
struct Forgetting {
    receipt: wire::ForgetTurnsResponse,
    sessions: BTreeSet<DocumentId>,
}

impl Forgetting {
    async fn forget(
        &mut self,
        memory: &CorpusMemory,
        ids: &[DocumentId],
        preview: bool,
        deadline: Instant,
    ) -> Result<(), Error> {
        if preview {
            for turn in turns(memory, ids, deadline).await? {
                self.receipt.turns += 1;
                self.receipt.text_bytes += turn.text.len() as u64;
                self.sessions.insert(turn.id.session);
            }
            return Ok(());
        }
        let (forgotten, verified) = forget(&memory.corpus, ids, deadline).await?;
        for gone in forgotten {
            if gone.versions > 0 {
                self.receipt.turns += 1;
                self.sessions.extend(Address::of(&gone.document_id).map(|of| of.turn.session));
            }
            self.receipt.chunks += gone.chunks;
            self.receipt.text_bytes += gone.bytes;
        }
        self.receipt.verified &= verified;
        Ok(())
    }
}

/// Waits until searches find the newest version of a document, or it is set aside.
async fn until_found(corpus: &Corpus, id: &DocumentId, deadline: Instant) -> Result<(), Error> {
    loop {
        let Some((_, status)) = corpus.shard_of(id).document(id, deadline).await? else {
            // Somebody else has forgotten it meanwhile.
            return Ok(());
        };
        if status.live_version == Some(status.version) || status.failure.is_some() {
            return Ok(());
        }
        if Instant::now() + LOOK_INTERVAL >= deadline {
            return Err(Error::deadline("waiting until turns can be found"));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

async fn turns(
    memory: &CorpusMemory,
    ids: &[DocumentId],
    deadline: Instant,
) -> Result<Vec<Turn>, Error> {
    let read = memory.documents(ids, deadline).await?.into_iter();
    let turn = |WholeDocument { document, .. }| Turn::of(&document).map(|(_, turn)| turn);
    Ok(read.filter_map(turn).collect())
}

/// What the ids of turns begin with: of a session, or of all if it is empty.
fn prefix(user: &str, session: &str) -> Result<String, Error> {
    let mut violations = Violations::default();
    Address::check("user", user, &mut violations);
    if !session.is_empty() {
        Address::check("session", session, &mut violations);
    }
    violations.into_result()?;
    Ok(Address::prefix(user, Some(session).filter(|session| !session.is_empty())))
}

type AnswerStream = Pin<Box<dyn Stream<Item = Result<wire::AnswerResponse, Status>> + Send>>;
type TurnStream = Pin<Box<dyn Stream<Item = Result<wire::ListTurnsResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ChatService for Chats {
    async fn append_turns(
        &self,
        request: Request<wire::AppendTurnsRequest>,
    ) -> Result<Response<wire::AppendTurnsResponse>, Status> {
        self.append(request).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn recall(
        &self,
        request: Request<wire::RecallRequest>,
    ) -> Result<Response<wire::RecallResponse>, Status> {
        let recalled = Chats::recall(self, request).await;
        recalled.map(Response::new).map_err(|error| to_status(&error))
    }

    type AnswerStream = AnswerStream;

    async fn answer(
        &self,
        request: Request<wire::AnswerRequest>,
    ) -> Result<Response<AnswerStream>, Status> {
        let deadline = self.backends.config.deadline(&request);
        let asked = convert::answer_from_wire(request.into_inner());
        let asked = asked.map_err(|error| to_status(&error))?;
        let answering = self.queries.answer(asked, deadline).await;
        let events = answering.map_err(|error| to_status(&error))?;
        let told = events.map_ok(|event| wire::AnswerResponse { event: Some(event) });
        Ok(Response::new(told.boxed()))
    }

    type ListTurnsStream = TurnStream;

    async fn list_turns(
        &self,
        request: Request<wire::ListTurnsRequest>,
    ) -> Result<Response<TurnStream>, Status> {
        self.list(request).await.map(Response::new).map_err(|error| to_status(&error))
    }

    async fn forget_turns(
        &self,
        request: Request<wire::ForgetTurnsRequest>,
    ) -> Result<Response<wire::ForgetTurnsResponse>, Status> {
        self.forget(request).await.map(Response::new).map_err(|error| to_status(&error))
    }
}
