//! Sessions, each of which carries batches to one member over one long stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind, Priority};
use clew_proto::convert::encoder::{EmbedBatch, batch_to_wire, result_from_wire};
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::encoder::v1::{EmbedRequest, EmbedResponse};
use clew_proto::from_status;
use clew_runtime::backoff::Backoff;
use clew_runtime::deadline::within;
use clew_runtime::peer::{Link, Peer, PeerState, PeerView};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::dispatcher::Assigned;
use super::model::{describe, offered};
use super::shared::Shared;

/// Maximum time for the stream to a member to open.
const OPEN_PATIENCE: Duration = Duration::from_secs(10);
/// First and longest pause before a stream that ended is opened again on the same connection.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Interval at which batches past their deadline are swept, so that an answer that never comes does
/// not occupy its place for ever.
const SWEEP: Duration = Duration::from_millis(500);

/// Session with one member, with its state that others can see.
#[derive(Clone)]
pub(crate) struct Session {
    pub peer: Peer,
    pub shared: Arc<Shared>,
    pub seen: Arc<Seen>,
    /// Closed when the peer is no longer a member.
    pub member: watch::Receiver<()>,
}

/// State of a session that others can see.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether the stream is open and takes batches.
    pub is_ready: AtomicBool,
    /// Whether the member does not offer the model and is not used.
    pub is_refused: AtomicBool,
}

impl Session {
    /// Carries batches as long as the peer is a member, then those that were assigned before.
    pub(crate) async fn run(self) {
        self.carry().await;
        self.shared.set_offered(&self.peer, Vec::new());
    }

    async fn carry(&self) {
        let mut view = self.peer.view();
        let mut member = self.member.clone();
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        loop {
            let link = tokio::select! {
                biased;
                _ = member.changed() => None,
                link = serving(&mut view) => link,
            };
            let Some(link) = link else { return };
            let opened = Instant::now();
            let ended = match self.admitted(&link).await {
                Ok(()) => self.supervised_stream(&link, view.clone()).await,
                Err(error) if error.is_retryable() => Err(error),
                Err(error) => {
                    let (peer, problem) = (self.peer.name(), error.chain());
                    tracing::warn!(peer, problem, "an encoder is not used");
                    // A process does not change its models, but another process may run at this
                    // address later.
                    self.seen.is_refused.store(true, Ordering::Relaxed);
                    tokio::select! {
                        () = link.lost() => {}
                        _ = member.changed() => return,
                    }
                    self.seen.is_refused.store(false, Ordering::Relaxed);
                    Ok(())
                }
            };
            if let Err(error) = ended {
                // Only a debug line: members come and go, and the peers log lost connections.
                let (peer, problem) = (self.peer.name(), error.chain());
                tracing::debug!(peer, problem, "the stream to an encoder ended");
            }
            self.shared.set_offered(&self.peer, Vec::new());
            if opened.elapsed() > PAUSES.1 {
                backoff.reset();
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Asks the member to describe the model in use, and which other models it offers.
    async fn admitted(&self, link: &Link) -> Result<(), Error> {
        loop {
            let wanted = self.shared.identity();
            let described = describe(link, wanted.as_ref()).await;
            let offers = match &described {
                Ok(description) => description.offered.clone(),
                Err(error) if error.reason() == "ENCODER_MISMATCH" => offered(link).await?,
                Err(_) => Vec::new(),
            };
            self.shared.set_offered(&self.peer, offers);
            match self.shared.admit(described?).await {
                // Meanwhile another member has decided the model. This member may offer that one
                // too.
                Err(_) if wanted.is_none() && self.shared.identity().is_some() => {}
                ended => return ended,
            }
        }
    }

    /// Runs a stream in a task of its own, so that a panic ends the stream and not the session.
    async fn supervised_stream(
        &self,
        link: &Link,
        view: watch::Receiver<PeerView>,
    ) -> Result<(), Error> {
        let mut task = JoinSet::new();
        task.spawn(self.clone().run_stream(link.clone(), view));
        match task.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => {
                tracing::error!(peer = self.peer.name(), %panic, "a stream to an encoder panicked; another one is opened");
                Err(Error::internal("a stream to an encoder panicked").with_source(panic))
            }
            None => Ok(()),
        }
    }

    /// Works on one stream until the member leaves or is lost.
    async fn run_stream(self, link: Link, view: watch::Receiver<PeerView>) -> Result<(), Error> {
        let (requests, outgoing) = mpsc::channel(self.shared.dispatcher.max_under_way());
        let mut client = EncoderServiceClient::new(link.channel());
        let open = async {
            let responses = client.embed(ReceiverStream::new(outgoing)).await;
            responses.map_err(|status| from_status(&status).with_source(status))
        };
        let deadline = Instant::now() + OPEN_PATIENCE;
        let responses =
            within(deadline, "opening a stream to an encoder", link.run(open)).await?.into_inner();
        let (registration, jobs) = Registration::take(&self);
        let model = self.shared.model()?;
        let encoder = model.identity.fingerprint();
        let dimension = model.identity.dimension;
        let stream =
            Stream { registration, encoder, dimension, under_way: HashMap::new(), next_id: 0 };
        let mut member = self.member.clone();
        let left = async move { drop(member.changed().await) };
        stream.carry(&link, view, left, jobs, requests, responses).await
    }
}

/// Waits until the peer serves and returns its connection. Returns `None` if it is no longer a
/// peer.
async fn serving(view: &mut watch::Receiver<PeerView>) -> Option<Link> {
    let serves = |view: &PeerView| view.state == PeerState::Serving && view.link.is_some();
    view.wait_for(serves).await.ok()?.link.clone()
}

/// Registration with the dispatcher, given up when dropped.
struct Registration<'a> {
    id: u64,
    session: &'a Session,
}

impl<'a> Registration<'a> {
    fn take(session: &'a Session) -> (Self, mpsc::Receiver<Assigned>) {
        let (id, jobs) = session.shared.dispatcher.join(session.peer.clone());
        session.seen.is_ready.store(true, Ordering::Relaxed);
        (Self { id, session }, jobs)
    }

    /// Records that a batch has ended, in whatever way.
    fn done(&self, priority: Priority) {
        self.session.shared.dispatcher.done(self.id, priority);
    }

    /// Stops taking batches.
    fn leave(&self) {
        self.session.seen.is_ready.store(false, Ordering::Relaxed);
        self.session.shared.dispatcher.leave(self.id);
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// One stream. When it is dropped, the callers of batches under way see that these were lost.
struct Stream<'a> {
    registration: Registration<'a>,
    /// Fingerprint of the model.
    encoder: String,
    dimension: u32,
    under_way: HashMap<u64, Assigned>,
    next_id: u64,
}

impl Stream<'_> {
    async fn carry(
        mut self,
        link: &Link,
        mut view: watch::Receiver<PeerView>,
        left: impl Future<Output = ()>,
        mut jobs: mpsc::Receiver<Assigned>,
        requests: mpsc::Sender<EmbedRequest>,
        mut responses: Streaming<EmbedResponse>,
    ) -> Result<(), Error> {
        let mut requests = Some(requests);
        let mut sweep = tokio::time::interval(SWEEP);
        let mut left = std::pin::pin!(left);
        let mut is_member = true;
        loop {
            tokio::select! {
                () = link.lost() => return Err(stream_ended_error()),
                changed = view.changed(), if requests.is_some() => {
                    let serves = view.borrow_and_update().state == PeerState::Serving;
                    if changed.is_err() || !serves {
                        self.take_no_more(&mut jobs);
                    }
                }
                () = &mut left, if is_member => {
                    is_member = false;
                    self.take_no_more(&mut jobs);
                }
                assigned = jobs.recv(), if requests.is_some() => match assigned {
                    Some(assigned) => {
                        let Some(requests) = &requests else { continue };
                        self.send(assigned, requests)?;
                    }
                    // The member has left and everything is sent. The server ends the stream after
                    // the last answer.
                    None => requests = None,
                },
                response = responses.message() => match response {
                    Ok(Some(response)) => self.answer(response),
                    Ok(None) => return Err(stream_ended_error()),
                    Err(status) => return Err(from_status(&status).with_source(status)),
                },
                _ = sweep.tick() => self.sweep(),
            }
            if requests.is_none() && self.under_way.is_empty() {
                return Ok(());
            }
        }
    }

    /// Stops taking batches. Batches that were assigned before are still carried.
    fn take_no_more(&self, jobs: &mut mpsc::Receiver<Assigned>) {
        self.registration.leave();
        jobs.close();
    }

    fn send(
        &mut self,
        assigned: Assigned,
        requests: &mpsc::Sender<EmbedRequest>,
    ) -> Result<(), Error> {
        let job = &assigned.job;
        let timeout = job.deadline.saturating_duration_since(Instant::now());
        if job.reply.is_closed() || timeout.is_zero() {
            self.registration.done(job.priority);
            return Ok(());
        }
        self.next_id += 1;
        let batch = EmbedBatch {
            id: self.next_id,
            // A copy: the caller sends the batch again if it is lost.
            texts: job.texts.clone(),
            kind: job.kind,
            priority: job.priority,
            timeout,
            trace_parent: job.trace_parent.clone(),
            encoder: self.encoder.clone(),
        };
        // The channel has room for all batches under way, so a failure means that it is closed.
        requests.try_send(batch_to_wire(batch)).map_err(|_| stream_ended_error())?;
        self.under_way.insert(self.next_id, assigned);
        Ok(())
    }

    fn answer(&mut self, response: EmbedResponse) {
        // An unknown id belongs to a batch that was swept.
        let Some(Assigned { job, .. }) = self.under_way.remove(&response.id) else { return };
        let result = result_from_wire(response, job.texts.len(), self.dimension);
        // A caller that has given up does not receive the result.
        job.reply.send(result).ok();
        self.registration.done(job.priority);
    }

    /// Gives up batches whose deadline passed longer ago than an answer takes to arrive.
    fn sweep(&mut self) {
        let now = Instant::now();
        let is_over = |_: &u64, assigned: &mut Assigned| assigned.job.deadline + SWEEP < now;
        let over: Vec<Assigned> =
            self.under_way.extract_if(is_over).map(|(_id, assigned)| assigned).collect();
        for Assigned { job, .. } in over {
            self.registration.done(job.priority);
        }
    }
}

fn stream_ended_error() -> Error {
    let problem = "the stream to an encoder ended; retry";
    Error::new(ErrorKind::Unavailable, "PEER_LOST", problem)
}
