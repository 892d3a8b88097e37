//! What all requests share.

use clew_client::Services;
use clew_core::{Clock, Error, SystemClock, Timestamp};

use crate::ConsoleConfig;
use crate::sealing::Sealer;

/// Where a console is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Whether the services are those of a cluster. Then the console has its page.
    pub is_cluster: bool,
    /// Whether the listener's connections are encrypted.
    pub is_encrypted: bool,
}

/// What all requests share. Nothing of a visitor is here.
#[derive(Debug)]
pub(crate) struct Console {
    /// The services that answer, for callers who present themselves.
    pub services: Services,
    /// What precedes the paths of all pages; empty, or a path without a slash at its end.
    pub base: String,
    /// Where it is shown.
    pub place: Place,
    /// Seals logins.
    pub sealer: Sealer,
}

impl Console {
    /// Creates what the routes share.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configured secret is not there.
    pub fn new(services: Services, config: &ConsoleConfig, place: Place) -> Result<Self, Error> {
        let sealer = Sealer::new(config.secret()?.as_deref(), config.session())?;
        Ok(Self { services, base: config.base_path.clone(), place, sealer })
    }

    /// Returns the time of now.
    pub fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Returns the address of a page, for a path that begins with a slash.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}
