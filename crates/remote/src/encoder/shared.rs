//! State that the sessions of one model share: the dispatcher, the model, and the models that
//! members offer.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use clew_core::{EncoderIdentity, Error};
use clew_runtime::peer::Peer;
use tokio::sync::watch;

use super::dispatcher::{Dispatcher, no_peer_error};
use super::model::{Description, Model};

/// State that the sessions share.
pub(crate) struct Shared {
    pub dispatcher: Dispatcher,
    model: OnceLock<Arc<Model>>,
    expected: Option<EncoderIdentity>,
    pub offers: watch::Sender<Offers>,
}

/// Models that members offer, by the members' names and addresses.
type Offers = BTreeMap<(String, String), Vec<EncoderIdentity>>;

impl Shared {
    /// Creates the state before any member is known. The sessions work with `expected`, if it is
    /// given.
    pub(crate) fn new(dispatcher: Dispatcher, expected: Option<EncoderIdentity>) -> Self {
        Self { dispatcher, model: OnceLock::new(), expected, offers: watch::Sender::default() }
    }

    /// Returns the model in use, if it is known already.
    pub(crate) fn identity(&self) -> Option<EncoderIdentity> {
        let known = self.model.get().map(|model| &model.identity);
        known.or(self.expected.as_ref()).cloned()
    }

    /// Returns the model in use.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::Unavailable`] while no member has described it.
    pub(crate) fn model(&self) -> Result<&Arc<Model>, Error> {
        self.model.get().ok_or_else(no_peer_error)
    }

    /// Records the models that a member offers. An empty list means that they are not known.
    pub(crate) fn set_offered(&self, peer: &Peer, offered: Vec<EncoderIdentity>) {
        let member = member(peer);
        self.offers.send_modify(|offers| match offered.is_empty() {
            true => drop(offers.remove(&member)),
            false => drop(offers.insert(member, offered)),
        });
    }

    /// Admits a member that offers the model of the others. The first member's model becomes that
    /// of all, unless one is expected.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::WrongState`] with the reason `ENCODER_MISMATCH` if the
    /// member describes another model, and [`clew_core::ErrorKind::InvalidInput`] if the tokenizer
    /// cannot be used.
    pub(crate) async fn admit(&self, description: Description) -> Result<(), Error> {
        let (identity, offered) = (description.identity.clone(), description.offered.clone());
        if let Some(expected) = self.identity().filter(|expected| *expected != identity) {
            return Err(expected.missing_among(&offered));
        }
        if self.model.get().is_none() {
            // Two members that come at the same time both get here. One of them wins.
            let model =
                tokio::task::spawn_blocking(move || Model::try_new(description)).await.map_err(
                    |panic| Error::internal("the tokenizer panicked").with_source(panic),
                )??;
            self.model.get_or_init(|| Arc::new(model));
            // Waiting callers look again.
            self.offers.send_modify(|_| {});
        }
        match &self.model()?.identity {
            first if *first != identity => Err(first.missing_among(&offered)),
            _ => Ok(()),
        }
    }
}

/// Returns the name and address of a member.
pub(crate) fn member(peer: &Peer) -> (String, String) {
    (peer.name().to_owned(), peer.address().to_owned())
}
