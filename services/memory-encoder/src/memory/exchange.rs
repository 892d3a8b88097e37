//! Exchange of slots between this node's thread and the streams to other nodes.
//!
//! ```text
//! thread ─► outbox of each node that needs them ─► stream to that node
//!   ▲
//!   └────── inbox ◄─────────────────────────────── streams of other nodes
//! ```
//!
//! Each queue has room for all slots that can be under way ([`Share::most_waiting`]). So nobody
//! waits for room, and a queue that is full is a mistake of another node.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use clew_model::memory::{Exchange, PassSlots, Share};
use clew_proto::convert::encoder::LayerSlots;
use tokio::sync::mpsc;

/// Interval at which a thread that waits for slots looks at what else there is to do.
const GLANCE: Duration = Duration::from_millis(20);
/// Silence after which the other nodes count as lost. They send slots layer by layer, and draft in
/// between.
const SILENCE: Duration = Duration::from_secs(60);

/// Queue of slots to another node.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// Share of that node.
    share: Share,
    passes: usize,
    sender: mpsc::Sender<LayerSlots>,
}

/// Queue of slots of other nodes.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    sender: SyncSender<LayerSlots>,
    failure: Arc<OnceLock<String>>,
}

/// Other end of an [`Inbox`].
#[derive(Debug)]
pub(crate) struct Received {
    receiver: Receiver<LayerSlots>,
    failure: Arc<OnceLock<String>>,
}

/// Connection of this node's thread to the others.
pub(super) struct Streams<'a> {
    pub received: &'a Received,
    pub outboxes: &'a [Outbox],
    /// Function that does what is more urgent than waiting, and returns whether somebody still
    /// waits for the memory.
    pub meanwhile: &'a dyn Fn() -> bool,
}

impl Outbox {
    /// Creates the queue to the node that has `share`, of `passes` passes at most.
    pub(crate) fn new(share: Share, passes: usize, sender: mpsc::Sender<LayerSlots>) -> Self {
        Self { share, passes, sender }
    }

    /// Adds slots if the node needs them.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if the node left or receives more than can be under way.
    pub(super) fn give(&self, slots: &LayerSlots) -> Result<(), Error> {
        let pass = usize::try_from(slots.pass).unwrap_or(usize::MAX);
        if !self.share.needs(pass, self.passes) {
            return Ok(());
        }
        self.sender.try_send(slots.clone()).map_err(|error| {
            lost(match error {
                mpsc::error::TrySendError::Full(_) => "takes slots too slowly",
                mpsc::error::TrySendError::Closed(_) => "left",
            })
        })
    }
}

impl Inbox {
    /// Creates a queue of slots for a thread that has `share` of a model of `layers` layers.
    pub(crate) fn new(share: Share, layers: usize) -> (Self, Received) {
        let (sender, receiver) = sync_channel(share.most_waiting(layers));
        let failure = Arc::new(OnceLock::new());
        (Self { sender, failure: Arc::clone(&failure) }, Received { receiver, failure })
    }

    /// Adds slots of another node.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unavailable`] if the thread is done, or if more slots come than can be
    /// under way.
    pub(crate) fn give(&self, slots: LayerSlots) -> Result<(), Error> {
        self.sender.try_send(slots).map_err(|error| {
            lost(match error {
                TrySendError::Full(_) => "sends slots too early",
                TrySendError::Disconnected(_) => "sends slots that nobody waits for",
            })
        })
    }

    /// Tells the thread that a node is lost. It does not wait for that node any more.
    pub(super) fn fail(&self, reason: String) {
        // Only the first loss matters: it is the cause of the others.
        drop(self.failure.set(reason));
    }
}

impl Exchange for Streams<'_> {
    fn give(&mut self, slots: PassSlots) -> Result<(), clew_model::Error> {
        let PassSlots { pass, layer, bytes } = slots;
        // Models have fewer layers than 2^32.
        let layer = u32::try_from(layer).unwrap_or(u32::MAX);
        let slots = LayerSlots { pass: pass as u64, layer, bytes: bytes.into() };
        let all = self.outboxes.iter().try_for_each(|outbox| outbox.give(&slots));
        all.map_err(|error| unlike("nodes that take slots", error.message()))
    }

    fn take(&mut self) -> Result<PassSlots, clew_model::Error> {
        let Received { receiver, failure } = self.received;
        let slots = next(receiver, failure, SILENCE, self.meanwhile, "slots of the other nodes")?;
        let pass = usize::try_from(slots.pass).unwrap_or(usize::MAX);
        Ok(PassSlots { pass, layer: slots.layer as usize, bytes: slots.bytes.into() })
    }
}

impl Received {
    /// Waits for `message`, which a peer sends beside slots, as [`Streams`] waits for slots.
    ///
    /// # Errors
    /// Returns [`clew_model::Error::Exchange`] if a node is lost, if the message does not come for
    /// `patience`, or if `meanwhile` returns false.
    pub(super) fn wait_for<T>(
        &self,
        message: &Receiver<T>,
        patience: Duration,
        meanwhile: &dyn Fn() -> bool,
        expected: &str,
    ) -> Result<T, clew_model::Error> {
        next(message, &self.failure, patience, meanwhile, expected)
    }
}

fn next<T>(
    receiver: &Receiver<T>,
    failure: &OnceLock<String>,
    patience: Duration,
    meanwhile: &dyn Fn() -> bool,
    expected: &str,
) -> Result<T, clew_model::Error> {
    // Counted in glances, because drafting in between is no silence of the others.
    for _ in 0..patience.div_duration_f32(GLANCE) as usize {
        let is_open = match receiver.recv_timeout(GLANCE) {
            Ok(message) => return Ok(message),
            Err(error) => error == RecvTimeoutError::Timeout,
        };
        if let Some(failure) = failure.get() {
            return Err(unlike(expected, failure.as_str()));
        }
        if !is_open {
            return Err(unlike(expected, "the end of all streams"));
        }
        if !meanwhile() {
            return Err(unlike(expected, "that nobody waits for the memory"));
        }
    }
    Err(unlike(expected, format!("none for {} seconds", patience.as_secs())))
}

fn unlike(expected: &str, found: impl Into<String>) -> clew_model::Error {
    clew_model::Error::Exchange { expected: expected.to_owned(), found: found.into() }
}

fn lost(what: &str) -> Error {
    let problem = format!("a node that reads a text together with others {what}; retry");
    Error::new(ErrorKind::Unavailable, "PEER_LOST", problem)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn slots(pass: u64) -> LayerSlots {
        LayerSlots { pass, layer: 0, bytes: vec![1, 2].into() }
    }

    fn streams<'a>(received: &'a Received, meanwhile: &'a dyn Fn() -> bool) -> Streams<'a> {
        Streams { received, outboxes: &[], meanwhile }
    }

    const SHARE: Share = Share { own: 0, nodes: 2, pass_rows: 4096 };

    #[test]
    fn slots_come_in_order_and_more_than_can_be_under_way_are_refused() {
        let (inbox, received) = Inbox::new(SHARE, 2);
        inbox.give(slots(1)).unwrap();
        inbox.give(slots(3)).unwrap();
        assert!(inbox.give(slots(5)).unwrap_err().message().contains("too early"));
        let mut streams = streams(&received, &|| true);
        assert_eq!(streams.take().unwrap().pass, 1);
        assert_eq!(streams.take().unwrap(), PassSlots { pass: 3, layer: 0, bytes: vec![1, 2] });
        drop(received);
        assert!(inbox.give(slots(1)).unwrap_err().message().contains("nobody waits"));
    }

    #[test]
    fn a_wait_ends_with_the_streams_a_loss_or_the_last_caller() {
        let (inbox, received) = Inbox::new(SHARE, 2);
        inbox.fail("the first reason".to_owned());
        inbox.fail("another".to_owned());
        let error = streams(&received, &|| true).take().unwrap_err().to_string();
        assert!(error.contains("the first reason"), "{error}");
        let (inbox, received) = Inbox::new(SHARE, 2);
        drop(inbox);
        let error = streams(&received, &|| true).take().unwrap_err().to_string();
        assert!(error.contains("end of all streams"), "{error}");
        let (_inbox, received) = Inbox::new(SHARE, 2);
        let began = Instant::now();
        let error = streams(&received, &|| false).take().unwrap_err().to_string();
        assert!(error.contains("nobody waits") && began.elapsed() < SILENCE / 2, "{error}");
    }

    #[test]
    fn only_those_who_need_slots_get_them() {
        let (sender, mut sent) = mpsc::channel(1);
        // Node 1 of 2 computes the passes 1 and 3 of four.
        let outbox = Outbox::new(Share { own: 1, ..SHARE }, 4, sender);
        outbox.give(&slots(1)).unwrap();
        assert!(sent.try_recv().is_err(), "its own");
        outbox.give(&slots(2)).unwrap();
        assert!(outbox.give(&slots(2)).unwrap_err().message().contains("too slowly"));
        assert_eq!(sent.try_recv().unwrap(), slots(2));
        drop(sent);
        assert!(outbox.give(&slots(0)).unwrap_err().message().contains("left"));
    }
}
