//! Implementation of the trait `MemoryEncoder` over memory models on other nodes.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_cluster::Role;
use clew_core::{
    DraftTask, DraftedClues, Error, ErrorKind, FormTask, FormedMemory, KeptMemory, MemoryEncoder,
    MemoryModelIdentity, MemoryText, SNAPSHOT_BYTES, check_counted,
};
use clew_node::Node;
use clew_proto::convert::encoder::{self as convert, AskedMemory, Incoming};
use clew_proto::encoder::v1 as wire;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::encoder::v1::form_memory_response::Payload as Told;
use clew_proto::encoder::v1::generate_clues_request::Payload as Asked;
use clew_runtime::admission::Permit;
use clew_runtime::deadline::{request, within};
use clew_runtime::peer::{Channel, Link, Peer, PeerState};
use clew_runtime::pool::Pool;
use futures::stream;
use tonic::Streaming;

use super::described::{BELIEVED, Described};
use super::options::SERVICE;
use crate::failed::failed;

/// Maximum number of calls under way on one encoder.
const CREDITS: u32 = 64;
/// Silence after which an encoder that reads texts counts as lost. It reports its progress every
/// few seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// Client that forms memories on other nodes and drafts from them there.
///
/// Questions about one memory go to the same encoder as long as it serves, because it keeps the
/// memory ready. An encoder that takes over is sent the memory.
pub struct RemoteMemoryEncoder {
    encoders: Pool,
    /// Memory model that the encoders have.
    described: Described<MemoryModelIdentity>,
}

impl RemoteMemoryEncoder {
    /// Returns one encoder that stands for the memory models of the cluster's encoders. They are
    /// asked which model they have, if any, only when it is needed.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn of(node: &Node) -> Result<Self, Error> {
        Ok(Self::new(node.pool(Some(Role::Encoder), "memory encoders", SERVICE, CREDITS).await?))
    }

    /// Returns the memory encoder that the roles of `node` share ([`clew_node::SharedSeams`]).
    ///
    /// # Errors
    /// Returns the errors of [`Self::of`].
    pub async fn shared(node: &Node) -> Result<Arc<dyn MemoryEncoder>, Error> {
        let connect = async { Ok(Arc::new(Self::of(node).await?) as Arc<dyn MemoryEncoder>) };
        node.seams().memory_encoder.or_connect(connect).await
    }

    /// Creates a client of the memory models of `encoders`, which all have the same model or none.
    pub fn new(encoders: Pool) -> Self {
        Self { encoders, described: Described::new("NO_MEMORY_MODEL", BELIEVED) }
    }

    /// Returns the encoder that is asked about this memory first, if it has room.
    fn keeper(&self, key: &str) -> Option<(Link, Permit)> {
        // Rendezvous hashing: when a member comes or goes, only its memories move.
        let hash = |peer: &&Peer| {
            BuildHasherDefault::<DefaultHasher>::default().hash_one((key, peer.name()))
        };
        let members = self.encoders.members();
        let serving = members.iter().filter(|peer| peer.state() == PeerState::Serving);
        serving.max_by_key(hash)?.try_enter(1).ok()
    }
}

#[async_trait]
impl MemoryEncoder for RemoteMemoryEncoder {
    async fn memory_model(&self, deadline: Instant) -> Result<Option<MemoryModelIdentity>, Error> {
        let asking = self.described.get(deadline, |patience| {
            self.encoders.call(1, patience, move |channel| describe(channel, patience))
        });
        within(deadline, "asking encoders for their memory model", asking).await
    }

    async fn count_tokens(&self, texts: Vec<MemoryText>, deadline: Instant) -> Result<u64, Error> {
        check_counted(&texts)?;
        let asked = &convert::counted_to_wire(texts);
        self.encoders.call(1, deadline, |channel| count(channel, asked.clone(), deadline)).await
    }

    async fn form(&self, task: FormTask, deadline: Instant) -> Result<FormedMemory, Error> {
        // The parts share the bytes, so a retry copies none.
        let messages = convert::form_to_wire(task);
        self.encoders.call(1, deadline, |channel| form(channel, messages.clone(), deadline)).await
    }

    async fn draft(
        &self,
        memory: &dyn KeptMemory,
        task: &DraftTask,
        deadline: Instant,
    ) -> Result<DraftedClues, Error> {
        let (key, draft) = (memory.key().to_owned(), task.clone());
        let asked = AskedMemory { key, draft, snapshot_bytes: 0 };
        let asked = Asking { memory, asked, deadline };
        if let Some((link, _permit)) = self.keeper(&asked.asked.key) {
            let drafting = link.run(asked.of(link.channel()));
            match within(deadline, "drafting from a memory", drafting).await {
                Err(error) if error.is_retryable() && Instant::now() < deadline => {
                    tracing::debug!(error = error.chain(), "another encoder is asked");
                }
                done => return done,
            }
        }
        self.encoders.call(1, deadline, |channel| asked.of(channel)).await
    }
}

async fn describe(channel: Channel, deadline: Instant) -> Result<MemoryModelIdentity, Error> {
    let mut client = EncoderServiceClient::new(channel);
    let described =
        client.describe_memory(request(wire::DescribeMemoryRequest::default(), deadline));
    convert::memory_model_from_wire(described.await.map_err(failed)?.into_inner())
}

async fn count(
    channel: Channel,
    texts: wire::DescribeMemoryRequest,
    deadline: Instant,
) -> Result<u64, Error> {
    let mut client = EncoderServiceClient::new(channel);
    let described = client.describe_memory(request(texts, deadline)).await.map_err(failed)?;
    described.into_inner().tokens.ok_or_else(|| {
        let problem = "an encoder of an earlier release does not count tokens; retry when all are of this one";
        Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem)
    })
}

async fn form(
    channel: Channel,
    messages: Vec<wire::FormMemoryRequest>,
    deadline: Instant,
) -> Result<FormedMemory, Error> {
    let mut client = EncoderServiceClient::new(channel);
    let sent = client.form_memory(request(stream::iter(messages), deadline));
    let mut events = sent.await.map_err(failed)?.into_inner();
    let formed = loop {
        match next(&mut events).await? {
            Told::TokensRead(_) => {}
            Told::Formed(formed) => break formed,
            Told::SnapshotPart(_) => return Err(unfit("a snapshot before what it is of")),
        }
    };
    let wire::FormedMemory { model, tokens, slots, snapshot_bytes } = formed;
    if snapshot_bytes > SNAPSHOT_BYTES as u64 {
        return Err(unfit("a snapshot that is too large"));
    }
    let mut snapshot = Incoming::announced(snapshot_bytes);
    while !snapshot.is_whole() {
        match next(&mut events).await? {
            Told::SnapshotPart(part) => snapshot.add(&part).map_err(of_encoder)?,
            Told::TokensRead(_) => {}
            Told::Formed(_) => return Err(unfit("two memories")),
        }
    }
    let snapshot = snapshot.whole().map_err(of_encoder)?;
    Ok(FormedMemory { model, snapshot, tokens, slots })
}

/// Returns the next event of an encoder.
async fn next(events: &mut Streaming<wire::FormMemoryResponse>) -> Result<Told, Error> {
    loop {
        let told = tokio::time::timeout(SILENCE, events.message()).await.map_err(|_elapsed| {
            let problem = "an encoder fell silent over texts that it reads; retry";
            Error::new(ErrorKind::Unavailable, "PEER_LOST", problem)
        })?;
        match told.map_err(failed)? {
            Some(wire::FormMemoryResponse { payload: Some(told) }) => return Ok(told),
            // A newer encoder sent an event that this release does not know.
            Some(wire::FormMemoryResponse { payload: None }) => {}
            None => return Err(unfit("no memory, or a part of one")),
        }
    }
}

/// Question for a memory.
struct Asking<'a> {
    memory: &'a dyn KeptMemory,
    asked: AskedMemory,
    deadline: Instant,
}

impl Asking<'_> {
    /// Asks the encoder behind `channel`, and sends it the memory if it lacks it.
    async fn of(&self, channel: Channel) -> Result<DraftedClues, Error> {
        let mut client = EncoderServiceClient::new(channel);
        if let Some(drafted) = self.ask(&mut client, Arc::default()).await? {
            return Ok(drafted);
        }
        let snapshot = self.memory.bytes(self.deadline).await?;
        if snapshot.is_empty() {
            return Err(Error::invalid("snapshot", "expected the bytes of a memory, got none"));
        }
        let drafted = self.ask(&mut client, snapshot).await?;
        drafted.ok_or_else(|| unfit("that it misses a memory which came with the question"))
    }

    async fn ask(
        &self,
        client: &mut EncoderServiceClient<Channel>,
        snapshot: Arc<Vec<u8>>,
    ) -> Result<Option<DraftedClues>, Error> {
        let asked = AskedMemory { snapshot_bytes: snapshot.len() as u64, ..self.asked.clone() };
        let parts = convert::snapshot_parts(snapshot).map(Asked::SnapshotPart);
        let payloads = std::iter::once(Asked::Ask(convert::ask_to_wire(asked))).chain(parts);
        let messages =
            payloads.map(|payload| wire::GenerateCluesRequest { payload: Some(payload) });
        let sent = client.generate_clues(request(stream::iter(messages), self.deadline));
        Ok(convert::drafted_from_wire(sent.await.map_err(failed)?.into_inner()))
    }
}

/// Blames the encoder, not the caller, for bytes that are not as announced.
fn of_encoder(error: Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidInput => unfit("another snapshot than it announced").with_source(error),
        _ => error,
    }
}

fn unfit(problem: &str) -> Error {
    Error::internal(format!("an encoder sent {problem}"))
}
