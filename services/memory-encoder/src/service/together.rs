//! Method of `EncoderService` for a text that several nodes read together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{Error, SNAPSHOT_BYTES, Violations};
use clew_model::memory::Share;
use clew_proto::convert::encoder::{Incoming, IncomingSlots, LayerSlots, slots_to_wire};
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::read_together_request::Payload;
use clew_runtime::admission::Permit;
use clew_runtime::deadline::{of_request, within};
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use tokio::sync::mpsc;
use tonic::{Request, Status, Streaming};

use super::Responses;
use super::memories::{next, refused};
use crate::MemoryPool;
use crate::memory::{Inbox, MOST_NODES, Outbox, ReadingTogether, TEXTS_BYTES, most_bytes};

/// Time limit of a call without a deadline.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Maximum number of rows that a pass computes at once.
const MOST_ROWS: usize = 1 << 16;

/// Computes this node's share of a text. Returns once the share is accepted, and ends when the
/// client leaves.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the share is not one of this model, and
/// [`clew_core::ErrorKind::Exhausted`] if there is no room for it.
pub(super) async fn read(
    pool: Arc<MemoryPool>,
    request: Request<Streaming<wire::ReadTogetherRequest>>,
) -> Result<Responses<wire::ReadTogetherResponse>, Error> {
    let deadline = of_request(&request, PATIENCE);
    let mut requests = request.into_inner();
    let accepting = accept(&pool, &mut requests);
    let accepted = within(deadline, "receiving how a text is read together", accepting).await?;
    // Slots of the own passes: of one pass in the last layers, and of the next in the first.
    let (sender, slots) = mpsc::channel(pool.model().layers());
    let reading = Box::pin(share(pool, accepted, requests, sender, deadline));
    // The work is part of the response. Dropping the response, as when a client leaves, ends the
    // work.
    let answering = Answering { reading: Some(reading), slots };
    Ok(stream::unfold(answering, next_answer).flatten().boxed())
}

/// Share that is being computed, with the slots to send.
struct Answering {
    reading: Option<BoxFuture<'static, Result<(), Error>>>,
    slots: mpsc::Receiver<LayerSlots>,
}

type Messages = stream::BoxStream<'static, Result<wire::ReadTogetherResponse, Status>>;

async fn next_answer(mut answering: Answering) -> Option<(Messages, Answering)> {
    if let Some(reading) = &mut answering.reading {
        let slots = tokio::select! {
            biased;
            Some(slots) = answering.slots.recv() => Some(slots),
            read = reading => {
                answering.reading = None;
                if let Err(error) = read {
                    let status = refused(&error);
                    return Some((stream::iter([Err(status)]).boxed(), answering));
                }
                None
            }
        };
        if let Some(slots) = slots {
            return Some((messages(slots), answering));
        }
    }
    let slots = answering.slots.recv().await?;
    Some((messages(slots), answering))
}

fn messages(slots: LayerSlots) -> Messages {
    let message = |part| Ok(wire::ReadTogetherResponse { slots: Some(part) });
    stream::iter(slots_to_wire(slots).map(message)).boxed()
}

async fn share(
    pool: Arc<MemoryPool>,
    accepted: Accepted,
    mut requests: Streaming<wire::ReadTogetherRequest>,
    sender: mpsc::Sender<LayerSlots>,
    deadline: Instant,
) -> Result<(), Error> {
    let receiving = receive(accepted, &mut requests);
    let (text, _room) = within(deadline, "receiving a text to read together", receiving).await?;
    let (inbox, received) = Inbox::new(text.share, pool.model().layers());
    // The client needs all slots.
    let client = Share { own: 0, ..text.share };
    let outbox = Outbox::new(client, usize::MAX, sender);
    let incoming = IncomingSlots::new(most_bytes(pool.model(), text.share));
    let reading = pool.read_together(text, received, outbox, deadline);
    tokio::select! {
        read = reading => read,
        // A client that has sent everything is not at fault.
        Err(error) = receive_slots(requests, inbox, incoming) => Err(error),
    }
}

/// Share that was accepted.
struct Accepted {
    share: Share,
    snapshot_bytes: u64,
    /// Number of tokens of the text.
    tokens: usize,
    permits: [Permit; 2],
    /// Room for the snapshot and the tokens.
    room: Permit,
}

/// Receives how a text is read, and accepts a share of it.
async fn accept(
    pool: &MemoryPool,
    requests: &mut (impl Stream<Item = Result<wire::ReadTogetherRequest, Status>> + Unpin),
) -> Result<Accepted, Error> {
    let Some(Payload::Begin(begin)) = next(requests).await?.and_then(|it| it.payload) else {
        return Err(Error::invalid("begin", "expected how the text is read, first"));
    };
    let share = check(pool, &begin)?;
    // Checked to be at most as many as the bytes of a text.
    let tokens = usize::try_from(begin.tokens).unwrap_or(usize::MAX);
    let permits = pool.admit_share(tokens)?;
    let room = pool.make_room(begin.snapshot_bytes + size_of::<u32>() as u64 * begin.tokens)?;
    Ok(Accepted { share, snapshot_bytes: begin.snapshot_bytes, tokens, permits, room })
}

/// Receives the memory before a text and the text, with the permit for their room.
async fn receive(
    accepted: Accepted,
    requests: &mut (impl Stream<Item = Result<wire::ReadTogetherRequest, Status>> + Unpin),
) -> Result<(ReadingTogether, Permit), Error> {
    let Accepted { share, snapshot_bytes, tokens: count, permits, room } = accepted;
    let mut snapshot = Incoming::announced(snapshot_bytes);
    let mut tokens: Vec<u32> = Vec::new();
    while !snapshot.is_whole() || tokens.len() < count {
        match next(requests).await?.and_then(|it| it.payload) {
            Some(Payload::SnapshotPart(part)) => snapshot.add(&part)?,
            Some(Payload::Tokens(more))
                if snapshot.is_whole()
                    && (1..=count - tokens.len()).contains(&more.tokens.len()) =>
            {
                tokens.extend(more.tokens);
            }
            _ => return Err(Error::invalid("payload", "expected the snapshot, then the tokens")),
        }
    }
    let snapshot = Arc::new(snapshot.whole()?);
    Ok((ReadingTogether { snapshot, tokens, share, permits }, room))
}

/// Returns the share that is asked for.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every field at fault.
fn check(pool: &MemoryPool, begin: &wire::BeginReading) -> Result<Share, Error> {
    let (model, mut violations) = (pool.model(), Violations::default());
    if begin.model != model.fingerprint() {
        let problem = format!("expected {}, got {}", model.fingerprint(), begin.model);
        violations.push("begin.model", problem);
    }
    let mut within = |field: &str, value: u64, low: u64, high: u64| {
        if !(low..=high).contains(&value) {
            let problem = format!("expected {low} to {high}, got {value}");
            violations.push(format!("begin.{field}"), problem);
        }
        usize::try_from(value).unwrap_or(usize::MAX)
    };
    let slot_bytes = model.slot_bytes(1) as u64;
    within("slot_bytes", begin.slot_bytes, slot_bytes, slot_bytes);
    let nodes = within("nodes", begin.nodes.into(), 2, MOST_NODES as u64);
    let last = u64::from(begin.nodes).saturating_sub(1).max(1);
    let own = within("own", begin.own.into(), 1, last);
    let pass_rows = within("pass_rows", begin.pass_rows.into(), 1, MOST_ROWS as u64);
    within("snapshot_bytes", begin.snapshot_bytes, 1, SNAPSHOT_BYTES as u64);
    within("tokens", begin.tokens, 1, TEXTS_BYTES as u64);
    violations.into_result()?;
    Ok(Share { own, nodes, pass_rows })
}

/// Receives slots until the client has sent all.
async fn receive_slots(
    mut requests: impl Stream<Item = Result<wire::ReadTogetherRequest, Status>> + Unpin,
    inbox: Inbox,
    mut incoming: IncomingSlots,
) -> Result<(), Error> {
    while let Some(request) = next(&mut requests).await? {
        let Some(Payload::Slots(part)) = request.payload else {
            return Err(Error::invalid("payload", "expected slots after the text"));
        };
        if let Some(slots) = incoming.add(part)? {
            inbox.give(slots)?;
        }
    }
    Ok(())
}
