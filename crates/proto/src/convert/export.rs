//! Conversions of exported rows: messages of `clew.corpus.v1` and `clew.shard.v1`.

use bytes::Bytes;
use clew_core::{Error, ExportPage, ExportedRows};

use crate::{corpus::v1 as corpus_wire, shard::v1 as shard_wire};

/// Maximum bytes of rows in one message.
const PART_BYTES: usize = 1 << 20;

/// Cuts the bytes of rows into parts; returns at least one.
fn parts(rows: Vec<u8>) -> impl Iterator<Item = Bytes> {
    let mut rest = Some(Bytes::from(rows));
    std::iter::from_fn(move || {
        let mut part = rest.take()?;
        if part.len() > PART_BYTES {
            rest = Some(part.split_off(PART_BYTES));
        }
        Some(part)
    })
}

/// Converts a page for the wire.
pub fn page_to_wire(page: ExportPage) -> Vec<shard_wire::ExportResponse> {
    use shard_wire::export_response::Payload;
    let mut payloads = Vec::new();
    for ExportedRows { table, arrow } in page.tables {
        let mut parts = parts(arrow);
        let arrow = parts.next().unwrap_or_default();
        payloads.push(Payload::Rows(corpus_wire::ExportedRows { table, arrow }));
        payloads.extend(parts.map(Payload::More));
    }
    let (next, documents) = (page.next.unwrap_or_default(), page.documents);
    payloads.push(Payload::End(shard_wire::PageEnd { next, documents }));
    let message = |payload| shard_wire::ExportResponse { payload: Some(payload) };
    payloads.into_iter().map(message).collect()
}

/// Converts a page from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the page breaks off or begins in the middle.
pub fn page_from_wire(messages: Vec<shard_wire::ExportResponse>) -> Result<ExportPage, Error> {
    use shard_wire::export_response::Payload;
    let mut tables: Vec<ExportedRows> = Vec::new();
    for payload in messages.into_iter().filter_map(|message| message.payload) {
        match payload {
            Payload::Rows(rows) => tables.push(rows_from_wire(rows)),
            Payload::More(more) => match tables.last_mut() {
                Some(rows) => rows.arrow.extend_from_slice(&more),
                None => return Err(Error::internal("an exported page begins in the middle")),
            },
            Payload::End(shard_wire::PageEnd { next, documents }) => {
                let next = Some(next).filter(|next| !next.is_empty());
                return Ok(ExportPage { tables, documents, next });
            }
        }
    }
    Err(Error::internal("an exported page breaks off"))
}

/// Converts rows for a client.
pub fn rows_to_wire(rows: ExportedRows) -> Vec<corpus_wire::ExportCorpusResponse> {
    use corpus_wire::export_corpus_response::Payload;
    let ExportedRows { table, arrow } = rows;
    let mut parts = parts(arrow);
    let arrow = parts.next().unwrap_or_default();
    let first = Payload::Rows(corpus_wire::ExportedRows { table, arrow });
    let payloads = std::iter::once(first).chain(parts.map(Payload::More));
    let message = |payload| corpus_wire::ExportCorpusResponse { payload: Some(payload) };
    payloads.map(message).collect()
}

/// Converts rows, or the beginning of their bytes, from the wire.
pub fn rows_from_wire(rows: corpus_wire::ExportedRows) -> ExportedRows {
    let corpus_wire::ExportedRows { table, arrow } = rows;
    ExportedRows { table, arrow: arrow.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_round_trip_in_small_messages() {
        let rows = |table: &str, bytes: usize| ExportedRows {
            table: table.to_owned(),
            arrow: (0..bytes).map(|at| (at % 251) as u8).collect(),
        };
        for next in [None, Some("documents/a".to_owned())] {
            let tables = vec![rows("a", 0), rows("b", 2 * PART_BYTES + 7), rows("c", PART_BYTES)];
            let page = ExportPage { tables, documents: 3, next };
            let wire = page_to_wire(page.clone());
            assert_eq!(wire.len(), 6);
            assert_eq!(page_from_wire(wire.clone()).unwrap(), page);
            assert!(page_from_wire(wire[..5].to_vec()).is_err());
            assert!(page_from_wire(wire[2..].to_vec()).is_err());
        }
    }
}
