//! Format of stored corpus settings.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clew_core::{CorpusName, CorpusSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Cause, Error, Result};

/// Name of a corpus with its settings, or with the error of [`crate::Registry::get`] if they
/// cannot be read.
pub type Registered = (CorpusName, Result<CorpusSettings>);

/// Corpora of a registry.
#[derive(Debug)]
pub struct Listed {
    /// Corpora that exist, by name.
    pub corpora: Vec<Registered>,
    /// Corpora that were retired and are not deleted yet, each with the time since then, without
    /// those whose settings cannot be read.
    pub retired: Vec<(CorpusSettings, Duration)>,
}

/// Name of the folder of a data directory, or of the part of an object store, that holds the
/// corpora.
pub(super) const CORPORA: &str = "corpora";

/// Newest format of stored corpus settings. Raise it with every change that a release which does
/// not know it would misread.
pub(crate) const FORMAT: u32 = 3;
/// Format of the first releases, which stored no version.
const FIRST_FORMAT: u32 = 1;
/// Format of corpora that moved to another model and have no settings of conversations.
const MOVED_FORMAT: u32 = 2;
const FORMAT_KEY: &str = "format";

/// Number of formats beyond [`FORMAT`] that this process knows and writes.
#[cfg(debug_assertions)]
static AHEAD: AtomicU32 = AtomicU32::new(0);

/// Makes this process act as the next release, which raised the format and writes every corpus in
/// it. Tests of upgrades run such a process beside one that does not. Release builds do not have
/// this function.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub fn act_as_next_release() {
    AHEAD.store(1, Ordering::Relaxed);
}

#[cfg(debug_assertions)]
fn ahead() -> u32 {
    AHEAD.load(Ordering::Relaxed)
}

#[cfg(not(debug_assertions))]
const fn ahead() -> u32 {
    0
}

/// Returns the newest format that this process knows.
fn newest_format() -> u32 {
    FORMAT + ahead()
}

/// Error of reading a corpus that a newer release wrote.
#[derive(Debug, thiserror::Error)]
#[error("it has format {found}, and this release knows none beyond {}", newest_format())]
struct Newer {
    found: u32,
}

/// Returns the format in which settings are written: the oldest that expresses all of them. A
/// release of the first format would search a corpus that moved to another model for vectors that
/// this model did not make. A release of the second would look for turns of conversations by other
/// keys than they have, and would lose how they are recalled when it writes settings.
pub(crate) fn format_of(settings: &CorpusSettings) -> u32 {
    match (&settings.chat, &settings.reembedding) {
        (Some(_), _) => FORMAT,
        (None, Some(_)) => MOVED_FORMAT,
        (None, None) => FIRST_FORMAT,
    }
}

/// Serializes the data of the corpus with these settings, with its format.
pub(super) fn to_json<T: Serialize>(
    written: &T,
    settings: &CorpusSettings,
) -> serde_json::Result<Vec<u8>> {
    let mut json = serde_json::to_value(written)?;
    let format = if ahead() > 0 { newest_format() } else { format_of(settings) };
    json[FORMAT_KEY] = format.into();
    serde_json::to_vec_pretty(&json)
}

/// Parses the stored data of a corpus. Reads the format first, because it decides what else there
/// may be. The first releases wrote none.
pub(super) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> std::result::Result<T, Cause> {
    let json: serde_json::Value = serde_json::from_slice(bytes)?;
    let found =
        json.get(FORMAT_KEY).map_or(Some(u64::from(FIRST_FORMAT)), serde_json::Value::as_u64);
    let found = found.and_then(|found| u32::try_from(found).ok()).unwrap_or(u32::MAX);
    if found > newest_format() {
        return Err(Newer { found }.into());
    }
    Ok(serde_json::from_value(json)?)
}

/// Returns the error of reading a corpus.
pub(super) fn damaged(name: &CorpusName, source: Cause) -> Error {
    if let Some(Newer { found }) = source.downcast_ref() {
        let what = format!("corpus `{name}`");
        return Error::NewerFormat { what, found: *found, known: newest_format() };
    }
    Error::Corrupt { what: format!("the settings of corpus `{name}`"), source }
}
