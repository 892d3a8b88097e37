//! Methods of `EncoderService` for compressed memories.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind, FormTask, FormedMemory, Limits, MemoryText, SNAPSHOT_BYTES};
use clew_proto::convert::encoder::{self as convert, Incoming};
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::form_memory_request::Payload as Asked;
use clew_proto::encoder::v1::form_memory_response::Payload as Told;
use clew_proto::encoder::v1::generate_clues_request::Payload as Question;
use clew_proto::{from_status, to_status};
use clew_runtime::deadline::{of_request, within};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, future, stream};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};
use tonic::{Request, Status, Streaming};

use super::Responses;
use crate::MemoryPool;
use crate::memory::TEXTS_BYTES;

/// Time limit of a call without a deadline, for reading texts.
const FORM_PATIENCE: Duration = Duration::from_secs(3600);
/// Time limit of a call without a deadline, for a question.
const DRAFT_PATIENCE: Duration = Duration::from_secs(60);
/// Interval of messages about the progress of reading.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// Forms a memory, and reports progress meanwhile. Ends when the client leaves.
pub(super) fn form(
    pool: Arc<MemoryPool>,
    request: Request<Streaming<wire::FormMemoryRequest>>,
) -> Responses<wire::FormMemoryResponse> {
    let deadline = of_request(&request, FORM_PATIENCE);
    let requests = request.into_inner();
    let (progress, read) = watch::channel(0);
    let forming = async move {
        let receiving = receive(&pool, requests);
        let (task, _room) = within(deadline, "receiving texts", receiving).await?;
        pool.form_told(task, deadline, progress).await
    };
    let mut tick = tokio::time::interval(TOLD_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let telling = Telling { forming: Box::pin(forming), read, tick };
    // The work is part of the response. Dropping the response, as when a client leaves, ends the
    // work.
    stream::unfold(Some(telling), next_told).flatten().boxed()
}

/// Memory that is being formed, with its progress.
struct Telling {
    forming: BoxFuture<'static, Result<FormedMemory, Error>>,
    read: watch::Receiver<u64>,
    tick: Interval,
}

type Messages = stream::BoxStream<'static, Result<wire::FormMemoryResponse, Status>>;

async fn next_told(telling: Option<Telling>) -> Option<(Messages, Option<Telling>)> {
    let mut telling = telling?;
    tokio::select! {
        biased;
        formed = &mut telling.forming => Some((ended(formed), None)),
        _ = telling.tick.tick() => {
            let read = *telling.read.borrow();
            Some((one(Ok(told(Told::TokensRead(read)))), Some(telling)))
        }
    }
}

fn told(payload: Told) -> wire::FormMemoryResponse {
    wire::FormMemoryResponse { payload: Some(payload) }
}

fn one(message: Result<wire::FormMemoryResponse, Status>) -> Messages {
    stream::iter([message]).boxed()
}

fn ended(formed: Result<FormedMemory, Error>) -> Messages {
    match formed {
        Ok(formed) => stream::iter(convert::formed_to_wire(formed).map(Ok)).boxed(),
        Err(error) => one(Err(refused(&error))),
    }
}

/// Receives the texts to read, with the permit for their room.
async fn receive(
    pool: &MemoryPool,
    mut requests: impl Stream<Item = Result<wire::FormMemoryRequest, Status>> + Unpin,
) -> Result<(FormTask, clew_runtime::admission::Permit), Error> {
    let Some(Asked::Begin(begin)) = next(&mut requests).await?.and_then(|it| it.payload) else {
        return Err(Error::invalid("begin", "expected how the memory is formed, first"));
    };
    let wire::BeginMemory { ratio, snapshot_bytes } = begin;
    check_announced(snapshot_bytes)?;
    let room = pool.make_room(snapshot_bytes + TEXTS_BYTES as u64)?;
    let mut snapshot = Incoming::announced(snapshot_bytes);
    let mut texts = Texts::default();
    while let Some(request) = next(&mut requests).await? {
        match request.payload {
            Some(Asked::SnapshotPart(part)) if texts.is_empty() => snapshot.add(&part)?,
            Some(Asked::Text(text)) if snapshot.is_whole() => texts.begin(text)?,
            Some(Asked::TextPart(part)) => texts.go_on(&part)?,
            Some(Asked::SnapshotPart(_) | Asked::Text(_) | Asked::Begin(_)) | None => {
                return Err(Error::invalid("payload", "expected the snapshot, then texts"));
            }
        }
    }
    let snapshot = snapshot.whole()?;
    let begun = (!snapshot.is_empty()).then(|| Arc::new(snapshot));
    Ok((FormTask { ratio, begun, texts: texts.whole()? }, room))
}

/// Texts that arrive in parts.
#[derive(Default)]
struct Texts {
    texts: Vec<(String, Vec<u8>)>,
    bytes: usize,
}

impl Texts {
    fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    fn begin(&mut self, wire::MemoryText { title, text }: wire::MemoryText) -> Result<(), Error> {
        let most = Limits::default().title_bytes;
        if title.len() > most {
            let problem = format!("expected at most {most} bytes, got {}", title.len());
            return Err(Error::invalid("text.title", problem));
        }
        // The memory of empty texts is bounded as well.
        self.bytes += title.len() + size_of::<(String, Vec<u8>)>();
        self.texts.push((title, Vec::new()));
        self.go_on(&text)
    }

    fn go_on(&mut self, part: &[u8]) -> Result<(), Error> {
        let Some((_, text)) = self.texts.last_mut() else {
            return Err(Error::invalid("text_part", "expected a text before its continuation"));
        };
        self.bytes += part.len();
        if self.bytes > TEXTS_BYTES {
            let problem = format!("expected at most {TEXTS_BYTES} bytes of all texts, got more");
            return Err(Error::invalid("text", problem));
        }
        text.extend_from_slice(part);
        Ok(())
    }

    fn whole(self) -> Result<Vec<MemoryText>, Error> {
        let text = |(title, text): (String, Vec<u8>)| {
            let text = String::from_utf8(text);
            let text = text.map_err(|_| Error::invalid("text", "expected text in UTF-8"))?;
            Ok(MemoryText { title, text })
        };
        self.texts.into_iter().map(text).collect()
    }
}

/// Drafts from a memory.
pub(super) async fn draft(
    pool: &MemoryPool,
    request: Request<Streaming<wire::GenerateCluesRequest>>,
) -> Result<wire::GenerateCluesResponse, Error> {
    let deadline = of_request(&request, DRAFT_PATIENCE);
    within(deadline, "drafting from a memory", try_draft(pool, request.into_inner(), deadline))
        .await
}

async fn try_draft(
    pool: &MemoryPool,
    mut requests: impl Stream<Item = Result<wire::GenerateCluesRequest, Status>> + Unpin,
    deadline: Instant,
) -> Result<wire::GenerateCluesResponse, Error> {
    let Some(Question::Ask(ask)) = next(&mut requests).await?.and_then(|it| it.payload) else {
        return Err(Error::invalid("ask", "expected what is asked of a memory, first"));
    };
    let ask = convert::ask_from_wire(ask, &Limits::default())?;
    let (key, task) = (&ask.key, &ask.draft);
    if ask.snapshot_bytes == 0 {
        // A caller that arrives while another brings the memory need not send it as well.
        pool.brought(key).await;
        let drafted = pool.draft_ready(key, task, deadline).await?;
        return Ok(convert::drafted_to_wire(drafted));
    }
    check_announced(ask.snapshot_bytes)?;
    let mut flight = Box::pin(pool.flight(key));
    let drafted = match (&mut flight).now_or_never() {
        Some(flight) if !pool.holds(key) => {
            let bring = receive_snapshot(pool, ask.snapshot_bytes, requests);
            pool.draft_brought(flight, key, task, bring, deadline).await?
        }
        now => {
            // Another caller is bringing the memory, or has brought it. This client's parts are
            // read all the same, and discarded. Unread they would fill up the connection, on which
            // the other caller's may arrive as well.
            let drafting = async {
                let flight = match now {
                    Some(flight) => flight,
                    None => flight.await,
                };
                let bring = future::ready(Err(not_brought()));
                pool.draft_brought(flight, key, task, bring, deadline).await
            };
            tokio::select! {
                drafted = drafting => drafted?,
                Err(left) = throw_away(requests) => return Err(left),
            }
        }
    };
    Ok(convert::drafted_to_wire(Some(drafted)))
}

async fn receive_snapshot(
    pool: &MemoryPool,
    announced: u64,
    mut requests: impl Stream<Item = Result<wire::GenerateCluesRequest, Status>> + Unpin,
) -> Result<Arc<Vec<u8>>, Error> {
    let _room = pool.make_room(announced)?;
    let mut snapshot = Incoming::announced(announced);
    while let Some(request) = next(&mut requests).await? {
        match request.payload {
            Some(Question::SnapshotPart(part)) => snapshot.add(&part)?,
            Some(Question::Ask(_)) | None => {
                return Err(Error::invalid("payload", "expected the snapshot"));
            }
        }
    }
    Ok(Arc::new(snapshot.whole()?))
}

async fn throw_away<T>(
    mut requests: impl Stream<Item = Result<T, Status>> + Unpin,
) -> Result<(), Error> {
    while next(&mut requests).await?.is_some() {}
    Ok(())
}

fn not_brought() -> Error {
    let problem = "the memory was to be brought by another question, and was not; retry";
    Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem)
}

fn check_announced(bytes: u64) -> Result<(), Error> {
    if bytes > SNAPSHOT_BYTES as u64 {
        let problem = format!("expected at most {SNAPSHOT_BYTES}, got {bytes}");
        return Err(Error::invalid("snapshot_bytes", problem));
    }
    Ok(())
}

/// Returns the next message of a client, or `None` at the end.
pub(super) async fn next<T>(
    requests: &mut (impl Stream<Item = Result<T, Status>> + Unpin),
) -> Result<Option<T>, Error> {
    let next = requests.next().await.transpose();
    next.map_err(|status| from_status(&status).with_source(status))
}

/// Returns the status of an error. Logs it for the operator unless the client may retry.
pub(super) fn refused(error: &Error) -> Status {
    if !error.is_retryable() {
        tracing::warn!(error = error.chain(), "a memory was refused");
    }
    to_status(error)
}
