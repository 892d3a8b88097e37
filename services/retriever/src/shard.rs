//! One shard: its line of actors, and the handle by which everyone else reaches it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    Clock, CorpusSettings, Document, DocumentId, Encoder, EncoderIdentity, Error, ShardIndex,
};
use clew_index::{
    Accepted, CandidateQuery, Candidates, Forgotten, Place, Shard, ShardReader, ShardSettings,
    Takeover,
};
use clew_runtime::admission::{Gate, Permit};
use clew_runtime::deadline::{ask, within};
use clew_runtime::supervise::{self, Line, LineState};
use ractor::{Actor, ActorCell, ActorRef};
use tokio::sync::watch;

use crate::RetrieverConfig;
use crate::indexer::{self, Indexer};
use crate::maintainer::{self, Maintainer};
use crate::writer::{self, Writer};

/// What a shard is made from; enough to make it anew at any time.
pub(crate) struct ShardLine {
    pub place: Place,
    pub shard: ShardIndex,
    pub settings: Arc<CorpusSettings>,
    pub encoder: Arc<dyn Encoder>,
    pub clock: Arc<dyn Clock>,
    pub config: RetrieverConfig,
}

/// A line that runs.
#[derive(Clone)]
pub(crate) struct Running {
    writer: ActorRef<writer::Message>,
    indexer: ActorRef<indexer::Message>,
    maintainer: ActorRef<()>,
    reader: ShardReader,
}

/// What was removed of forgotten documents.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// One entry for each id, in the order asked.
    pub documents: Vec<Forgotten>,
}

/// Opening reads the light columns of all rows: seconds for millions.
const OPEN_PATIENCE: Duration = Duration::from_secs(300);
/// How long a caller waits for a shard that is just starting.
const START_PATIENCE: Duration = Duration::from_secs(30);

impl Line for ShardLine {
    type Handle = Running;

    fn name(&self) -> String {
        format!("{}/{}", self.settings.name, self.shard)
    }

    async fn start(&self, supervisor: ActorCell, _generation: u64) -> Result<Running, Error> {
        same_encoder(&self.settings.encoder, self.encoder.identity())?;
        let deadline = Instant::now() + OPEN_PATIENCE;
        let shard = within(deadline, "opening the shard", async {
            let settings = ShardSettings::of(&self.settings);
            // The lock of the directory keeps every other process away.
            Shard::open(&self.place, settings, Takeover::Uncontested).await.map_err(Error::from)
        })
        .await?;
        let reader = shard.reader();
        let spawned = |error| Error::internal("an actor did not start").with_source(error);
        let arguments = writer::Arguments {
            shard,
            clock: Arc::clone(&self.clock),
            commit_bytes: self.config.commit_bytes,
        };
        let (writer, _) = Actor::spawn_linked(None, Writer, arguments, supervisor.clone())
            .await
            .map_err(spawned)?;
        let arguments = indexer::Arguments {
            settings: Arc::clone(&self.settings),
            reader: reader.clone(),
            encoder: Arc::clone(&self.encoder),
            writer: writer.clone(),
            clock: Arc::clone(&self.clock),
            derive_bytes: self.config.derive_bytes,
            derive_batches: self.config.derive_batches,
        };
        let (indexer, _) = Actor::spawn_linked(None, Indexer, arguments, supervisor.clone())
            .await
            .map_err(spawned)?;
        let arguments = maintainer::Arguments {
            writer: writer.clone(),
            reader: reader.clone(),
            interval: self.config.maintenance_interval(),
        };
        let (maintainer, _) =
            Actor::spawn_linked(None, Maintainer, arguments, supervisor).await.map_err(spawned)?;
        Ok(Running { writer, indexer, maintainer, reader })
    }
}

/// How everyone else reaches a shard. Cheap to clone.
#[derive(Clone)]
pub struct ShardHandle {
    shard: ShardIndex,
    supervisor: ActorRef<supervise::Message>,
    state: watch::Receiver<LineState<Running>>,
    accepting: Gate,
    searching: Gate,
}

impl ShardHandle {
    pub(crate) async fn start(line: ShardLine) -> Result<Self, Error> {
        let (shard, config) = (line.shard, line.config.clone());
        let (supervisor, state) = supervise::keep_running(line).await?;
        let retry_after = Duration::from_millis(200);
        Ok(Self {
            shard,
            supervisor,
            state,
            accepting: Gate::new(
                "the shard's queue of documents",
                config.accept_queue_bytes,
                retry_after,
            ),
            searching: Gate::new("the shard's queue of searches", config.searches, retry_after),
        })
    }

    /// Which shard this is.
    pub fn index(&self) -> ShardIndex {
        self.shard
    }

    /// The running line; waits for one that is just starting.
    async fn running(&self, deadline: Instant) -> Result<Running, Error> {
        let mut state = self.state.clone();
        let started = |state: &LineState<Running>| !matches!(state, LineState::Starting);
        let patience = deadline.min(Instant::now() + START_PATIENCE);
        let state = tokio::time::timeout_at(patience.into(), state.wait_for(started)).await;
        match state {
            Err(_elapsed) => Err(Error::deadline("the shard starts")),
            Ok(Err(_gone)) => Err(stopped()),
            Ok(Ok(state)) => match &*state {
                LineState::Running(running) => Ok(running.clone()),
                LineState::Failed(error) => {
                    Err(Error::new(error.kind(), error.reason(), error.message()))
                }
                LineState::Stopped | LineState::Starting => Err(stopped()),
            },
        }
    }

    /// The shard's tables as they are now, for reading.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Unavailable`] while the shard restarts;
    /// [`clew_core::ErrorKind::DataLoss`] if its tables cannot be read.
    pub async fn reader(&self, deadline: Instant) -> Result<ShardReader, Error> {
        Ok(self.running(deadline).await?.reader)
    }

    /// Takes room for a document of `bytes` in the shard's queue, waiting for it until `deadline`.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Exhausted`]; [`clew_core::ErrorKind::Unavailable`] at shutdown.
    pub async fn admit(&self, bytes: usize, deadline: Instant) -> Result<Permit, Error> {
        self.accepting.enter(bytes, deadline).await
    }

    /// Accepts a document: when this returns it is committed and synced.
    ///
    /// # Errors
    /// Nothing was accepted, or it is not known whether it was: sending it again is safe.
    pub async fn accept(
        &self,
        document: Document,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Accepted, Error> {
        let document = Box::new(document);
        let writer = self.running(deadline).await?.writer;
        ask(&writer, deadline, "accepting the document", |reply| writer::Message::Accept {
            document,
            permit,
            reply,
        })
        .await
    }

    /// Forgets documents, down to the bytes on disk.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::DeadlineExceeded`] or [`clew_core::ErrorKind::Unavailable`]: asking
    /// again is safe and finishes what was begun.
    pub async fn forget(&self, ids: Vec<DocumentId>, deadline: Instant) -> Result<Receipt, Error> {
        let writer = self.running(deadline).await?.writer;
        let documents =
            ask(&writer, deadline, "forgetting", |reply| writer::Message::Forget { ids, reply })
                .await?;
        Ok(Receipt { documents })
    }

    /// Does what maintenance the tables want, now.
    ///
    /// # Errors
    /// Those of the tables; [`clew_core::ErrorKind::DeadlineExceeded`].
    pub async fn maintain(&self, deadline: Instant) -> Result<(), Error> {
        let writer = self.running(deadline).await?.writer;
        ask(&writer, deadline, "maintaining the tables", |reply| writer::Message::Maintain {
            reply,
        })
        .await
    }

    /// The candidates of one search.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Exhausted`] when too many searches run;
    /// [`clew_core::ErrorKind::DeadlineExceeded`]; those of the tables.
    pub async fn candidates(
        &self,
        query: &CandidateQuery<'_>,
        deadline: Instant,
    ) -> Result<Candidates, Error> {
        let _permit = self.searching.try_enter(1)?;
        let reader = self.reader(deadline).await?;
        within(deadline, "searching the shard", async {
            reader.candidates(query).await.map_err(Error::from)
        })
        .await
    }

    /// Stops taking documents, finishes what was accepted, and ends the actors. What is not yet
    /// derived stays due and is derived after the next start.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::DeadlineExceeded`] if it had to be cut short.
    pub async fn stop(&self, deadline: Instant) -> Result<(), Error> {
        self.accepting.close();
        let running = match &*self.state.borrow() {
            LineState::Running(running) => Some(running.clone()),
            LineState::Starting | LineState::Failed(_) | LineState::Stopped => None,
        };
        let mut drained = Ok(());
        if let Some(running) = running {
            running.indexer.stop(None);
            running.maintainer.stop(None);
            drained = self.accepting.drained(deadline).await;
            let patience = deadline.saturating_duration_since(Instant::now());
            let ended = running.writer.get_cell().drain_and_wait(Some(patience)).await;
            drained = drained.and(ended.map_err(|_| Error::deadline("finishing commits")));
        }
        self.supervisor.stop(None);
        let patience = deadline.max(Instant::now() + Duration::from_millis(200));
        let mut state = self.state.clone();
        let ended = |state: &LineState<Running>| matches!(state, LineState::Stopped);
        match tokio::time::timeout_at(patience.into(), state.wait_for(ended)).await {
            Ok(_) => drained,
            Err(_elapsed) => Err(Error::deadline("stopping the shard")),
        }
    }
}

/// Refuses to mix vectors of two models.
fn same_encoder(made_with: &EncoderIdentity, loaded: &EncoderIdentity) -> Result<(), Error> {
    if made_with == loaded {
        return Ok(());
    }
    let describe = |encoder: &EncoderIdentity| {
        let EncoderIdentity { model, revision, dimension, max_tokens } = encoder;
        format!("`{model}` (dimension {dimension}, window {max_tokens}, revision {revision})")
    };
    Err(Error::new(
        clew_core::ErrorKind::WrongState,
        "ENCODER_MISMATCH",
        format!(
            "the corpus was made with encoder {}, but {} is loaded; configure the former",
            describe(made_with),
            describe(loaded)
        ),
    ))
}

fn stopped() -> Error {
    Error::new(
        clew_core::ErrorKind::Unavailable,
        "SHUTTING_DOWN",
        "the shard is shutting down; ask another node or retry later",
    )
}
