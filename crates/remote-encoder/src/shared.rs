//! What the couriers of one model share: the board, the model, and what members offer.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use clew_core::{EncoderIdentity, Error};
use clew_runtime::peer::Peer;
use tokio::sync::watch;

use crate::board::{Board, nobody};
use crate::model::{Description, Model};

/// What the couriers share.
pub(crate) struct Shared {
    pub board: Board,
    model: OnceLock<Arc<Model>>,
    expected: Option<EncoderIdentity>,
    pub told: watch::Sender<Told>,
}

/// The models that members offer, as they told, by the members' names and addresses.
type Told = BTreeMap<(String, String), Vec<EncoderIdentity>>;

impl Shared {
    /// Nothing is known of the members yet; they work with `expected` if there is one.
    pub(crate) fn new(board: Board, expected: Option<EncoderIdentity>) -> Self {
        Self { board, model: OnceLock::new(), expected, told: watch::Sender::default() }
    }

    /// The model that is worked with, if it is known already.
    pub(crate) fn identity(&self) -> Option<EncoderIdentity> {
        let known = self.model.get().map(|model| &model.identity);
        known.or(self.expected.as_ref()).cloned()
    }

    /// The model that is worked with.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::Unavailable`] while no member has described it.
    pub(crate) fn model(&self) -> Result<&Arc<Model>, Error> {
        self.model.get().ok_or_else(nobody)
    }

    /// A member offers these models, or if there are none it is not known what it offers.
    pub(crate) fn tells(&self, peer: &Peer, offered: Vec<EncoderIdentity>) {
        let member = member(peer);
        self.told.send_modify(|told| match offered.is_empty() {
            true => drop(told.remove(&member)),
            false => drop(told.insert(member, offered)),
        });
    }

    /// Admits a member that offers the model of the others. The first member's model becomes that of
    /// all, unless one is expected.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH`;
    /// [`clew_core::ErrorKind::InvalidInput`] for a tokenizer that cannot be used.
    pub(crate) async fn admit(&self, description: Description) -> Result<(), Error> {
        let (identity, offered) = (description.identity.clone(), description.offered.clone());
        if let Some(expected) = self.identity().filter(|expected| *expected != identity) {
            return Err(expected.missing_among(&offered));
        }
        if self.model.get().is_none() {
            // Two members that come at the same time both get here; one of them is first.
            let model =
                tokio::task::spawn_blocking(move || Model::try_new(description)).await.map_err(
                    |panic| Error::internal("the tokenizer panicked").with_source(panic),
                )??;
            self.model.get_or_init(|| Arc::new(model));
            // Whoever waits for it looks again.
            self.told.send_modify(|_| {});
        }
        match &self.model()?.identity {
            first if *first != identity => Err(first.missing_among(&offered)),
            _ => Ok(()),
        }
    }
}

/// A member's name and address.
pub(crate) fn member(peer: &Peer) -> (String, String) {
    (peer.name().to_owned(), peer.address().to_owned())
}
