//! Other encoders that read long texts together with this one.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clew_cluster::Address;
use clew_core::{Error, ErrorKind};
use clew_model::memory::{GoOn, MemoryModel, MemoryState, ROWS_AT_ONCE, Share, SnapshotFormat};
use clew_proto::convert::encoder::{
    IncomingSlots, LayerSlots, slots_to_wire, snapshot_parts, tokens_to_wire,
};
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::encoder::v1::encoder_service_server::SERVICE_NAME;
use clew_proto::encoder::v1::read_together_request::Payload;
use clew_proto::from_status;
use clew_runtime::admission::Permit;
use clew_runtime::deadline::{request, within};
use clew_runtime::peer::{Link, Peer, PeerOptions, Reach};
use clew_runtime::pool::Pool;
use clew_runtime::tree::RunningPart;
use futures::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::exchange::{Inbox, Outbox, Received, Streams};

/// Minimum number of passes that each node computes. With fewer, the nodes would mostly wait for
/// each other and for the text.
const PASSES_EACH: usize = 4;
/// Time in which a peer accepts its share, or refuses it. It has nothing to compute for that.
const ACCEPTANCE: Duration = Duration::from_secs(5);
/// Maximum number of nodes that read a text together.
pub(crate) const MOST_NODES: usize = 64;

/// Other encoders that have the same model.
pub(super) struct Peers {
    addresses: Vec<Address>,
    pool: OnceLock<Pool>,
    /// Runtime of the streams, which the model's thread is not part of.
    runtime: Handle,
}

impl Peers {
    /// Creates the peers at these addresses, to which nothing is connected yet. Must be called
    /// within the runtime.
    pub(super) fn at(addresses: Vec<Address>) -> Self {
        Self { addresses, pool: OnceLock::new(), runtime: Handle::current() }
    }

    /// Connects to the peers but the one at `own`, which is this node. Must not have been done
    /// before.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if an address has another scheme than the connections,
    /// and [`ErrorKind::Internal`] if the actor system fails.
    pub(super) async fn connect(&self, reach: Reach, own: Option<&Address>) -> Result<(), Error> {
        let others = self.addresses.iter().filter(|address| Some(*address) != own);
        let names: Vec<String> = others.map(ToString::to_string).collect();
        if names.is_empty() {
            return Ok(());
        }
        let service = SERVICE_NAME.to_owned();
        // This node reads one text at a time.
        let pool =
            Pool::new("peers of the memory model", PeerOptions { service, credits: 1, reach });
        pool.update(names.into_iter().map(|name| (name.clone(), name)).collect()).await?;
        let connected = self.pool.set(pool);
        connected.map_err(|_| Error::internal("the peers of the memory model were connected twice"))
    }

    /// Returns the peers' node for the tree of running parts.
    pub(super) fn node(&self) -> Option<RunningPart> {
        self.pool.get().map(Pool::node)
    }

    /// Gathers peers to read `tokens`, which are whole windows, into `memory`. Returns `None` if
    /// the text is too short or no peer is there.
    ///
    /// # Errors
    /// Returns [`clew_model::Error::Device`] if the memory cannot be copied off the device, and
    /// [`clew_model::Error::Broken`] if it is not a usable one.
    pub(super) fn gather(
        &self,
        model: &MemoryModel,
        memory: &MemoryState,
        tokens: &[u32],
        deadline: Instant,
    ) -> Result<Option<Group>, clew_model::Error> {
        let Some(pool) = self.pool.get() else { return Ok(None) };
        let passes = model.passes(memory, tokens, ROWS_AT_ONCE);
        let most = (passes / PASSES_EACH).min(MOST_NODES).saturating_sub(1);
        let members = pool.members();
        let places: Vec<Place> = members.iter().filter_map(Place::on).take(most).collect();
        if places.is_empty() {
            return Ok(None);
        }
        let (snapshot, _off) = model.save(memory)?.to_bytes(SnapshotFormat::Exact)?;
        let share = Share { own: 0, nodes: places.len() + 1, pass_rows: ROWS_AT_ONCE };
        let text = Text { model, snapshot: Arc::new(snapshot), tokens, passes };
        Ok(Some(Group::open(places, share, &text, deadline, &self.runtime)))
    }
}

/// Place for a share on a peer.
struct Place {
    name: String,
    link: Link,
    _permit: Permit,
}

impl Place {
    /// Returns the place on a peer that serves.
    fn on(peer: &Peer) -> Option<Self> {
        let (link, permit) = peer.try_enter(1).ok()?;
        Some(Self { name: peer.name().to_owned(), link, _permit: permit })
    }
}

/// Text that is read together.
struct Text<'a> {
    model: &'a MemoryModel,
    /// Memory before the text.
    snapshot: Arc<Vec<u8>>,
    tokens: &'a [u32],
    passes: usize,
}

impl Text<'_> {
    /// Returns the messages that begin the work of the node with `share`.
    fn messages(&self, share: Share) -> Vec<wire::ReadTogetherRequest> {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let begin = wire::BeginReading {
            model: self.model.fingerprint().to_owned(),
            slot_bytes: self.model.slot_bytes(1) as u64,
            own: narrow(share.own),
            nodes: narrow(share.nodes),
            pass_rows: narrow(share.pass_rows),
            snapshot_bytes: self.snapshot.len() as u64,
            tokens: self.tokens.len() as u64,
        };
        let parts = snapshot_parts(Arc::clone(&self.snapshot)).map(Payload::SnapshotPart);
        let tokens = tokens_to_wire(self.tokens).map(Payload::Tokens);
        let payloads = std::iter::once(Payload::Begin(begin)).chain(parts).chain(tokens);
        payloads.map(of_payload).collect()
    }
}

fn of_payload(payload: Payload) -> wire::ReadTogetherRequest {
    wire::ReadTogetherRequest { payload: Some(payload) }
}

/// Peers that read one text with this node. Dropping it ends their work.
pub(super) struct Group {
    share: Share,
    received: Received,
    outboxes: Vec<Outbox>,
    /// Receiver of one message from each peer that has accepted its share.
    accepted: Receiver<()>,
    _conversations: JoinSet<()>,
}

impl Group {
    fn open(
        places: Vec<Place>,
        share: Share,
        text: &Text<'_>,
        deadline: Instant,
        runtime: &Handle,
    ) -> Self {
        let layers = text.model.layers();
        let (inbox, received) = Inbox::new(share, layers);
        let shares = (1..share.nodes).map(|own| Share { own, ..share });
        let queues = shares.map(|share| {
            let (sender, outgoing) = mpsc::channel(share.most_waiting(layers));
            (Outbox::new(share, text.passes, sender), (share, outgoing))
        });
        let (outboxes, queues): (Vec<Outbox>, Vec<_>) = queues.unzip();
        let (accepting, accepted) = channel();
        let mut conversations = JoinSet::new();
        for ((share, outgoing), place) in queues.into_iter().zip(places) {
            let own_passes = (0..text.passes).filter(|pass| share.has(*pass)).count();
            let relay = Relay {
                share,
                most_bytes: most_bytes(text.model, share),
                missing: own_passes * layers,
                inbox: inbox.clone(),
                others: outboxes.clone(),
                accepting: accepting.clone(),
            };
            let talking = talk(place, text.messages(share), outgoing, relay, deadline);
            conversations.spawn_on(talking, runtime);
        }
        Self { share, received, outboxes, accepted, _conversations: conversations }
    }

    /// Reads the text, once all peers have accepted their shares, and returns the memory behind it.
    /// `meanwhile` is called while this node waits for others, and `go_on` after each pass; reading
    /// ends if one of them returns false.
    ///
    /// # Errors
    /// Returns the errors of [`MemoryModel::read_together`].
    pub(super) fn read(
        self,
        model: &MemoryModel,
        memory: &MemoryState,
        tokens: &[u32],
        meanwhile: &dyn Fn() -> bool,
        go_on: &mut GoOn<'_>,
    ) -> Result<Option<MemoryState>, clew_model::Error> {
        let Self { share, received, outboxes, accepted, _conversations } = self;
        for _ in 1..share.nodes {
            // Before anything is computed, so that a refusal costs next to nothing.
            received.wait_for(&accepted, ACCEPTANCE, meanwhile, "peers that read a share")?;
        }
        tracing::debug!(nodes = share.nodes, tokens = tokens.len(), "a text is read together");
        let mut streams = Streams { received: &received, outboxes: &outboxes, meanwhile };
        model.read_together(memory, tokens, share, &mut streams, go_on)
    }
}

/// Returns the maximum size in bytes of the slots that a pass adds in one layer.
pub(crate) fn most_bytes(model: &MemoryModel, share: Share) -> u64 {
    let slots = share.pass_rows + 2 * model.settings().window;
    (model.slot_bytes(slots) / model.layers()) as u64
}

/// Passes on the slots of one peer, to this node and to the other peers.
struct Relay {
    /// Share of the peer.
    share: Share,
    most_bytes: u64,
    /// Number of slots that are still to come: one for each of its passes and each layer.
    missing: usize,
    inbox: Inbox,
    others: Vec<Outbox>,
    accepting: Sender<()>,
}

impl Relay {
    fn pass_on(&mut self, slots: LayerSlots) -> Result<(), Error> {
        let pass = usize::try_from(slots.pass).unwrap_or(usize::MAX);
        let missing = self.missing.checked_sub(1).filter(|_| self.share.has(pass));
        self.missing = missing.ok_or_else(|| {
            let problem = format!("a peer sent slots of pass {pass}, which is not one of its own");
            Error::internal(problem)
        })?;
        // A peer does not need its own slots.
        self.others.iter().try_for_each(|other| other.give(&slots))?;
        self.inbox.give(slots)
    }

    fn end(self) -> Result<(), Error> {
        match self.missing {
            0 => Ok(()),
            missing => {
                let problem = format!("a peer ended with {missing} of its slots missing; retry");
                Err(Error::new(ErrorKind::Unavailable, "PEER_LOST", problem))
            }
        }
    }
}

/// Has a peer compute its share, and tells the thread if it does not.
async fn talk(
    place: Place,
    messages: Vec<wire::ReadTogetherRequest>,
    outgoing: mpsc::Receiver<LayerSlots>,
    mut relay: Relay,
    deadline: Instant,
) {
    let inbox = relay.inbox.clone();
    let slots = ReceiverStream::new(outgoing).flat_map(|slots| {
        stream::iter(slots_to_wire(slots).map(|part| of_payload(Payload::Slots(part))))
    });
    let requests = request(stream::iter(messages).chain(slots), deadline);
    let talking = async {
        let mut client = EncoderServiceClient::new(place.link.channel());
        let mut answers = client.read_together(requests).await.map_err(failed)?.into_inner();
        // Fails if the thread is gone; then nobody needs the slots, either.
        relay.accepting.send(()).ok();
        let mut incoming = IncomingSlots::new(relay.most_bytes);
        while let Some(answer) = answers.message().await.map_err(failed)? {
            let Some(part) = answer.slots else { continue };
            if let Some(slots) = incoming.add(part)? {
                relay.pass_on(slots)?;
            }
        }
        relay.end()
    };
    let talked = place.link.run(within(deadline, "reading a text together", talking)).await;
    if let Err(error) = talked {
        inbox.fail(format!("a loss of {}: {}", place.name, error.chain()));
    }
}

fn failed(status: Status) -> Error {
    from_status(&status).with_source(status)
}
