//! Choice between the reasoner that asks a language model and the one that needs none.

use std::sync::Arc;

use clew_core::{Account, Encoders, Guide, Reasoner};

use crate::ExtractiveReasoner;
use crate::prompted::Prompted;

/// Implementation of the reasoners and guides of a node.
#[derive(Clone)]
pub enum ModelOrRules {
    /// A language model.
    Model(Prompted),
    /// Extractive rules: they choose sentences of the evidence, which the current encoder compares.
    Rules(Arc<dyn Encoders>),
}

impl ModelOrRules {
    /// Returns a reasoner that works on `account`.
    pub fn reasoner(&self, account: &Account) -> Arc<dyn Reasoner> {
        match self {
            Self::Model(prompted) => Arc::new(prompted.on_account(account)),
            Self::Rules(encoders) => Arc::new(extractive(encoders, account)),
        }
    }

    /// Returns a guide that works on `account`.
    pub fn guide(&self, account: &Account) -> Arc<dyn Guide> {
        match self {
            Self::Model(prompted) => Arc::new(prompted.on_account(account)),
            Self::Rules(encoders) => Arc::new(extractive(encoders, account)),
        }
    }
}

fn extractive(encoders: &Arc<dyn Encoders>, account: &Account) -> ExtractiveReasoner {
    ExtractiveReasoner::new(account.metered(Arc::clone(encoders)))
}
