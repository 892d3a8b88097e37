//! Forgetting in a shard, and what is left of forgotten documents.

use clew_core::{
    DocumentId, Erasure, ErasureScan, Error, Forgotten, HoldingSnapshot, Leftover, Violations,
};

use super::{ShardRefWithAccess, missing, shard_from_wire};
use crate::convert::{distinct_document_ids, document_id, timestamp_from_wire, timestamp_to_wire};
use crate::ingest::v1 as ingest_wire;
use crate::shard::v1 as wire;

/// Converts a request to forget documents from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn forget_from_wire(
    request: wire::ForgetRequest,
) -> Result<(ShardRefWithAccess, Vec<DocumentId>), Error> {
    let mut violations = Violations::default();
    let shard = violations.take(shard_from_wire(request.shard));
    let ids = distinct_document_ids("document_ids", &request.document_ids, &mut violations);
    violations.into_result()?;
    Ok((shard.ok_or_else(|| missing("shard"))?, ids))
}

/// Converts what was removed of a document for the wire.
pub fn forgotten_to_wire(forgotten: &Forgotten) -> ingest_wire::ForgottenDocument {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    ingest_wire::ForgottenDocument {
        document_id: forgotten.document_id.to_string(),
        found: forgotten.versions > 0,
        versions: count(forgotten.versions),
        chunks: count(forgotten.chunks),
        nodes: count(forgotten.nodes),
        failures: count(forgotten.failures),
        memories: count(forgotten.memories),
        text_bytes: forgotten.bytes,
    }
}

/// Converts what was removed of a document from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the message is malformed.
pub fn forgotten_from_wire(forgotten: ingest_wire::ForgottenDocument) -> Result<Forgotten, Error> {
    Ok(Forgotten {
        document_id: document_id("document_id", &forgotten.document_id)?,
        versions: forgotten.versions.into(),
        chunks: forgotten.chunks.into(),
        nodes: forgotten.nodes.into(),
        failures: forgotten.failures.into(),
        memories: forgotten.memories.into(),
        bytes: forgotten.text_bytes,
    })
}

/// Converts the result of forgetting for the wire.
pub fn erasure_to_wire(erasure: Erasure) -> wire::ForgetResponse {
    wire::ForgetResponse {
        documents: erasure.documents.iter().map(forgotten_to_wire).collect(),
        scan: Some(scan_to_wire(erasure.scan)),
        snapshots: erasure.snapshots.into_iter().map(holding_to_wire).collect(),
    }
}

/// Converts the result of forgetting from the wire. An owner of an earlier release does not scan;
/// the result then says that it is not known what is left.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the message is malformed.
pub fn erasure_from_wire(response: wire::ForgetResponse) -> Result<Erasure, Error> {
    let unscanned = || {
        let mut scan = ErasureScan::default();
        scan.leave("", "the shard's owner is of a release that does not scan".to_owned());
        scan
    };
    Ok(Erasure {
        documents: response
            .documents
            .into_iter()
            .map(forgotten_from_wire)
            .collect::<Result<_, Error>>()?,
        scan: response.scan.map_or_else(unscanned, scan_from_wire),
        snapshots: response
            .snapshots
            .into_iter()
            .map(holding_from_wire)
            .collect::<Result<_, Error>>()?,
    })
}

/// Converts a scan after an erasure for the wire.
pub fn scan_to_wire(scan: ErasureScan) -> ingest_wire::ErasureScan {
    let leftover = |Leftover { place, problem }| ingest_wire::Leftover { place, problem };
    ingest_wire::ErasureScan {
        tables: scan.tables,
        files: scan.files,
        texts: scan.texts,
        searched_files: scan.searched_files,
        searched_bytes: scan.searched_bytes,
        unsearched_files: scan.unsearched_files,
        leftovers: scan.left.into_iter().map(leftover).collect(),
        leftover_count: scan.left_in_all,
    }
}

fn scan_from_wire(scan: ingest_wire::ErasureScan) -> ErasureScan {
    let leftover = |ingest_wire::Leftover { place, problem }| Leftover { place, problem };
    ErasureScan {
        tables: scan.tables,
        files: scan.files,
        texts: scan.texts,
        searched_files: scan.searched_files,
        searched_bytes: scan.searched_bytes,
        unsearched_files: scan.unsearched_files,
        left: scan.leftovers.into_iter().map(leftover).collect(),
        left_in_all: scan.leftover_count,
    }
}

/// Converts a snapshot that holds forgotten documents for the wire.
pub fn holding_to_wire(holding: HoldingSnapshot) -> ingest_wire::HoldingSnapshot {
    let HoldingSnapshot { name, taken_at, documents, problem } = holding;
    let taken_at = taken_at.map(timestamp_to_wire);
    ingest_wire::HoldingSnapshot { snapshot: name, taken_at, documents, problem }
}

fn holding_from_wire(holding: ingest_wire::HoldingSnapshot) -> Result<HoldingSnapshot, Error> {
    let ingest_wire::HoldingSnapshot { snapshot, taken_at, documents, problem } = holding;
    let taken_at = taken_at.map(|time| timestamp_from_wire("snapshots.taken_at", &time));
    let taken_at = taken_at.transpose()?;
    Ok(HoldingSnapshot { name: snapshot, taken_at, documents, problem })
}

#[cfg(test)]
mod tests {
    use clew_core::Timestamp;

    use super::*;

    #[test]
    fn what_is_left_of_forgotten_documents_comes_back_as_it_was_sent() {
        let mut scan = ErasureScan { tables: 4, files: 30, texts: 2, ..ErasureScan::default() };
        (scan.searched_files, scan.searched_bytes, scan.unsearched_files) = (3, 4096, 1);
        scan.leave("shard-3/nodes", "rows of the documents: 2".to_owned());
        let documents = vec![Forgotten::nothing("a".parse().unwrap())];
        let snapshots = vec![HoldingSnapshot {
            name: "nightly".to_owned(),
            taken_at: Some(Timestamp::from_micros(5)),
            documents: 1,
            problem: "it is damaged".to_owned(),
        }];
        let erasure = Erasure { documents, scan, snapshots };
        assert_eq!(erasure_from_wire(erasure_to_wire(erasure.clone())).unwrap(), erasure);
        // If a release does not scan, it is not known what is left.
        let unscanned = wire::ForgetResponse { scan: None, ..erasure_to_wire(erasure) };
        assert!(!erasure_from_wire(unscanned).unwrap().scan.is_clean());
    }
}
