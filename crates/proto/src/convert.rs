//! Conversions between wire messages and domain values, by service.

pub mod account;
pub mod attribute;
pub mod chat;
mod condition;
pub mod conversations;
pub mod corpus;
pub mod encoder;
pub mod export;
pub mod generator;
pub mod graph_builder;
pub mod ingest;
pub mod memory;
pub mod query;
pub mod run;
pub mod shard;
pub mod snapshot;

use std::time::Duration;

use clew_core::{CorpusName, DocumentId, Error, Timestamp, Violations};

/// Converts a time for the wire.
pub fn timestamp_to_wire(time: Timestamp) -> prost_types::Timestamp {
    let micros = time.as_micros();
    prost_types::Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: (micros.rem_euclid(1_000_000) * 1000) as i32,
    }
}

/// Converts a time from the wire; fractions of a microsecond are dropped.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming `field` if the time is out of range.
pub fn timestamp_from_wire(field: &str, time: &prost_types::Timestamp) -> Result<Timestamp, Error> {
    let valid_nanos = (0..1_000_000_000).contains(&time.nanos);
    let micros = time
        .seconds
        .checked_mul(1_000_000)
        .and_then(|micros| micros.checked_add(i64::from(time.nanos) / 1000));
    match micros {
        Some(micros) if valid_nanos => Ok(Timestamp::from_micros(micros)),
        _ => Err(Error::invalid(field, "expected a time that microseconds in 64 bits can hold")),
    }
}

/// Converts a time from the wire, if there is one. Adds a violation if it is out of range.
pub(crate) fn optional_timestamp_from_wire(
    field: &str,
    time: Option<&prost_types::Timestamp>,
    violations: &mut Violations,
) -> Option<Timestamp> {
    time.and_then(|time| violations.take(timestamp_from_wire(field, time)))
}

/// Converts a duration for the wire.
pub(crate) fn duration_to_wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos().cast_signed(),
    }
}

/// Parses the name of a corpus from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming `corpus` if the name is invalid.
pub fn corpus_name(name: &str) -> Result<CorpusName, Error> {
    name.parse()
}

/// Parses a document id from the wire, which came in `field`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming `field` if the id is invalid.
pub fn document_id(field: &str, id: &str) -> Result<DocumentId, Error> {
    id.parse::<DocumentId>().map_err(|error| {
        let problem = error.violations().first().map(|v| v.description.clone());
        Error::invalid(field, problem.unwrap_or_default())
    })
}

/// Parses document ids from the wire. Adds a violation for each that is invalid or occurs twice.
pub(crate) fn distinct_document_ids(
    field: &str,
    ids: &[String],
    violations: &mut Violations,
) -> Vec<DocumentId> {
    let mut seen = std::collections::HashSet::new();
    let mut distinct = Vec::with_capacity(ids.len());
    for (i, id) in ids.iter().enumerate() {
        let place = format!("{field}[{i}]");
        if !seen.insert(id) {
            violations.push(place, "duplicate id: each may be named once");
        } else if let Some(id) = violations.take(document_id(&place, id)) {
            distinct.push(id);
        }
    }
    distinct
}

/// Page of a list, as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Maximum number of items.
    pub size: usize,
    /// Key after which the items come; empty for the first page.
    pub after: String,
}

impl Page {
    /// Maximum number of items of a page.
    pub const MAX_SIZE: u32 = 1000;
    const DEFAULT_SIZE: u32 = 100;

    /// Parses a page from `page_size` and `page_token`. The token is the last key of the previous
    /// page in hexadecimal, so that clients treat it as opaque.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
    pub fn from_wire(page_size: u32, page_token: &str) -> Result<Self, Error> {
        let mut violations = Violations::default();
        if page_size > Self::MAX_SIZE {
            violations
                .push("page_size", format!("expected at most {}, got {page_size}", Self::MAX_SIZE));
        }
        let after = bytes_of_token(page_token).and_then(|bytes| String::from_utf8(bytes).ok());
        if after.is_none() {
            violations.push("page_token", "expected a next_page_token of an earlier response");
        }
        violations.into_result()?;
        let size = if page_size == 0 { Self::DEFAULT_SIZE } else { page_size };
        Ok(Self { size: size as usize, after: after.unwrap_or_default() })
    }

    /// Returns the token of the page after the one that ends with `last`.
    pub fn token_after(last: &str) -> String {
        token_of(last.as_bytes())
    }
}

/// Returns bytes as the token of a page: in hexadecimal, so that clients treat it as opaque.
pub fn token_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes that [`token_of`] made a token of, or `None` if it made no such token.
pub fn bytes_of_token(token: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = token.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_round_trip_before_and_after_the_epoch() {
        for micros in [0, 1, -1, 1_716_171_660_000_001, -62_000_000_000_000_001] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(timestamp_from_wire("t", &timestamp_to_wire(time)).unwrap(), time);
        }
        let bad = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
        assert!(timestamp_from_wire("t", &bad).is_err());
    }

    #[test]
    fn page_tokens_are_opaque_and_round_trip() {
        let page = Page::from_wire(0, &Page::token_after("dök/1")).unwrap();
        assert_eq!(page, Page { size: 100, after: "dök/1".to_owned() });
        for bad in ["x", "zz", "ff", "é1"] {
            assert!(Page::from_wire(1, bad).is_err(), "{bad}");
        }
        assert!(Page::from_wire(1001, "").is_err());
    }
}
