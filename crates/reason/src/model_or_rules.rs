//! Choice between the reasoner that asks a language model and the one that needs none.

use std::sync::Arc;

use clew_core::{Account, Encoders, Guide, Reasoner, SpanReader};

use crate::ExtractiveReasoner;
use crate::prompted::Prompted;

/// Implementation of the reasoners and guides of a node.
#[derive(Clone)]
pub enum ModelOrRules {
    /// A language model.
    Model(Prompted),
    /// Extractive rules: they choose words and sentences of the evidence.
    Rules {
        /// Encoders, of which the current one compares sentences.
        encoders: Arc<dyn Encoders>,
        /// Reader that finds the words that answer, if there is one.
        reader: Arc<dyn SpanReader>,
    },
}

impl ModelOrRules {
    /// Returns a reasoner that works on `account`.
    pub fn reasoner(&self, account: &Account) -> Arc<dyn Reasoner> {
        match self {
            Self::Model(prompted) => Arc::new(prompted.on_account(account)),
            Self::Rules { encoders, reader } => Arc::new(extractive(encoders, reader, account)),
        }
    }

    /// Returns a guide that works on `account`.
    pub fn guide(&self, account: &Account) -> Arc<dyn Guide> {
        match self {
            Self::Model(prompted) => Arc::new(prompted.on_account(account)),
            Self::Rules { encoders, reader } => Arc::new(extractive(encoders, reader, account)),
        }
    }
}

fn extractive(
    encoders: &Arc<dyn Encoders>,
    reader: &Arc<dyn SpanReader>,
    account: &Account,
) -> ExtractiveReasoner {
    let (encoders, reader) = (Arc::clone(encoders), Arc::clone(reader));
    ExtractiveReasoner::with_reader(account.metered(encoders), account.reading(reader))
}
