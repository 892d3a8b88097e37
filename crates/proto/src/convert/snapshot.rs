//! Conversions of snapshots: messages of `clew.corpus.v1` and `clew.shard.v1`.

use std::collections::BTreeSet;
use std::time::Duration;

use clew_core::{
    Copied, CorpusName, Error, Restoration, RestoreStep, ShardCopy, SnapshotDeletion, SnapshotName,
    SnapshotRetention, SnapshotSummary, Violations,
};

use crate::convert::{
    distinct_document_ids, duration_to_wire, optional_timestamp_from_wire, timestamp_from_wire,
    timestamp_to_wire,
};
use crate::{corpus::v1 as corpus_wire, shard::v1 as shard_wire};

/// Maximum number of documents that a restoration may leave out.
pub const MOST_LEFT_OUT: usize = 10_000;

/// Converts the progress of copying for the wire.
pub fn copied_to_wire(copied: Copied) -> corpus_wire::CopyProgress {
    let Copied { files, of_files, bytes, of_bytes } = copied;
    corpus_wire::CopyProgress { files, of_files, bytes, of_bytes }
}

fn copied_from_wire(progress: Option<corpus_wire::CopyProgress>) -> Copied {
    let corpus_wire::CopyProgress { files, of_files, bytes, of_bytes } =
        progress.unwrap_or_default();
    Copied { files, of_files, bytes, of_bytes }
}

/// Converts a snapshot for the wire.
pub fn summary_to_wire(snapshot: SnapshotSummary) -> corpus_wire::Snapshot {
    let SnapshotSummary { corpus, name, taken_at, documents, files, bytes } = snapshot;
    corpus_wire::Snapshot {
        corpus: corpus.into(),
        name: name.into(),
        taken_at: Some(timestamp_to_wire(taken_at)),
        documents,
        files,
        bytes,
    }
}

/// Converts a snapshot from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn summary_from_wire(snapshot: corpus_wire::Snapshot) -> Result<SnapshotSummary, Error> {
    let corpus_wire::Snapshot { corpus, name, taken_at, documents, files, bytes } = snapshot;
    let taken_at = timestamp_from_wire("snapshot.taken_at", &taken_at.unwrap_or_default())?;
    let (corpus, name) = (corpus.parse()?, name.parse()?);
    Ok(SnapshotSummary { corpus, name, taken_at, documents, files, bytes })
}

/// Converts the progress of copying a shard for the wire.
pub fn shard_copy_to_wire(copy: ShardCopy) -> shard_wire::CopyToSnapshotResponse {
    shard_wire::CopyToSnapshotResponse {
        progress: Some(copied_to_wire(copy.copied)),
        digest: copy.digest.unwrap_or_default(),
    }
}

/// Converts the progress of copying a shard from the wire.
pub fn shard_copy_from_wire(copy: shard_wire::CopyToSnapshotResponse) -> ShardCopy {
    let copied = copied_from_wire(copy.progress);
    ShardCopy { copied, digest: Some(copy.digest).filter(|digest| !digest.is_empty()) }
}

/// Converts a client's request to restore a corpus from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn restoration_of_client(
    request: corpus_wire::RestoreCorpusRequest,
) -> Result<Restoration, Error> {
    let corpus_wire::RestoreCorpusRequest { name, snapshot, leave_out } = request;
    restoration_from_wire(shard_wire::RestoreCorpusRequest {
        name,
        snapshot,
        leave_out,
        begun: None,
    })
}

/// Converts a restoration for the wire.
pub fn restoration_to_wire(asked: &Restoration) -> shard_wire::RestoreCorpusRequest {
    shard_wire::RestoreCorpusRequest {
        name: asked.corpus.to_string(),
        snapshot: asked.snapshot.to_string(),
        leave_out: asked.leave_out.iter().map(ToString::to_string).collect(),
        begun: asked.begun.map(timestamp_to_wire),
    }
}

/// Converts a restoration from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn restoration_from_wire(
    request: shard_wire::RestoreCorpusRequest,
) -> Result<Restoration, Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(request.name.parse());
    let snapshot = violations.take(request.snapshot.parse());
    let begun = optional_timestamp_from_wire("begun", request.begun.as_ref(), &mut violations);
    let leave_out = match request.leave_out.len() {
        0..=MOST_LEFT_OUT => {
            distinct_document_ids("leave_out", &request.leave_out, &mut violations)
        }
        count => {
            let problem = format!("expected at most {MOST_LEFT_OUT} ids, got {count}");
            violations.push("leave_out", problem);
            Vec::new()
        }
    };
    violations.into_result()?;
    match (corpus, snapshot) {
        (Some(corpus), Some(snapshot)) => Ok(Restoration { corpus, snapshot, leave_out, begun }),
        _ => Err(Error::internal("a field was neither taken nor refused")),
    }
}

/// Maximum number of snapshots that may be named in one call.
pub const MOST_DELETED: usize = 100;
/// Maximum number of snapshots that a retention may keep.
pub const MOST_KEPT: u32 = 10_000;

/// Snapshots of a corpus that are to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doomed {
    /// The snapshots of these names.
    Named(Vec<SnapshotName>),
    /// The snapshots that this rule does not keep.
    Expired(SnapshotRetention),
}

/// Returns the corpus and the snapshots that a DeleteSnapshots request asks to delete.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn doomed_from_wire(
    request: &corpus_wire::DeleteSnapshotsRequest,
) -> Result<(CorpusName, Doomed), Error> {
    let mut violations = Violations::default();
    let corpus = violations.take(request.name.parse());
    let doomed = match request.retention {
        None => named_from_wire(&request.snapshots, &mut violations).map(Doomed::Named),
        Some(_) if !request.snapshots.is_empty() => {
            violations.push("retention", "expected none where snapshots are named");
            None
        }
        Some(retention) => retention_from_wire(retention, &mut violations).map(Doomed::Expired),
    };
    violations.into_result()?;
    match (corpus, doomed) {
        (Some(corpus), Some(doomed)) => Ok((corpus, doomed)),
        _ => Err(Error::internal("a field was neither taken nor refused")),
    }
}

fn named_from_wire(names: &[String], violations: &mut Violations) -> Option<Vec<SnapshotName>> {
    if !(1..=MOST_DELETED).contains(&names.len()) {
        let count = names.len();
        violations.push(
            "snapshots",
            format!("expected 1 to {MOST_DELETED}, or a retention; got {count}"),
        );
        return None;
    }
    let mut seen = BTreeSet::new();
    for (place, name) in names.iter().enumerate() {
        let field = format!("snapshots[{place}]");
        match name.parse::<SnapshotName>() {
            Ok(name) if seen.insert(name.clone()) => {}
            Ok(_) => violations.push(field, "duplicate name: each may come once"),
            Err(error) => {
                for violation in error.violations() {
                    violations.push(&field, violation.description.clone());
                }
            }
        }
    }
    names.iter().map(|name| name.parse().ok()).collect()
}

fn retention_from_wire(
    retention: corpus_wire::SnapshotRetention,
    violations: &mut Violations,
) -> Option<SnapshotRetention> {
    let corpus_wire::SnapshotRetention { older_than, keep } = retention;
    let older_than = older_than.and_then(|age| Duration::try_from(age).ok());
    if older_than.is_none() {
        violations.push("retention.older_than", "expected a duration of zero or more");
    }
    if keep > MOST_KEPT {
        violations.push("retention.keep", format!("expected at most {MOST_KEPT}, got {keep}"));
    }
    Some(SnapshotRetention { older_than: older_than?, keep: keep as usize })
}

/// Converts a retention for the wire.
pub fn retention_to_wire(retention: SnapshotRetention) -> corpus_wire::SnapshotRetention {
    corpus_wire::SnapshotRetention {
        older_than: Some(duration_to_wire(retention.older_than)),
        keep: u32::try_from(retention.keep).unwrap_or(u32::MAX),
    }
}

/// Converts the result of deleting a snapshot for the wire.
pub fn deletion_to_wire(
    snapshot: &SnapshotName,
    description: Option<SnapshotSummary>,
    deleted: Result<u64, Error>,
) -> corpus_wire::SnapshotDeletion {
    let refusal = deleted.as_ref().err().map(|error| corpus_wire::SnapshotRefusal {
        reason: error.reason().to_owned(),
        message: error.message().to_owned(),
    });
    corpus_wire::SnapshotDeletion {
        snapshot: snapshot.to_string(),
        description: description.map(summary_to_wire),
        files: deleted.unwrap_or(0),
        refusal,
    }
}

/// Converts a request to delete a snapshot for the wire.
pub fn snapshot_deletion_to_wire(deletion: &SnapshotDeletion) -> shard_wire::DeleteSnapshotRequest {
    shard_wire::DeleteSnapshotRequest {
        name: deletion.corpus.to_string(),
        snapshot: deletion.snapshot.to_string(),
        dry_run: deletion.is_dry_run,
    }
}

/// Converts a request to delete a snapshot from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn snapshot_deletion_from_wire(
    request: &shard_wire::DeleteSnapshotRequest,
) -> Result<SnapshotDeletion, Error> {
    let (corpus, snapshot) = (request.name.parse()?, request.snapshot.parse()?);
    Ok(SnapshotDeletion { corpus, snapshot, is_dry_run: request.dry_run })
}

/// Converts the progress of restoring a corpus for the wire.
pub fn restore_step_to_wire(step: RestoreStep) -> shard_wire::RestoreCorpusResponse {
    shard_wire::RestoreCorpusResponse {
        progress: Some(copied_to_wire(step.copied)),
        begun: Some(timestamp_to_wire(step.begun)),
        left_out: step.left_out,
        done: step.is_done,
    }
}

/// Converts the progress of restoring a corpus from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn restore_step_from_wire(
    step: shard_wire::RestoreCorpusResponse,
) -> Result<RestoreStep, Error> {
    Ok(RestoreStep {
        copied: copied_from_wire(step.progress),
        begun: timestamp_from_wire("begun", &step.begun.unwrap_or_default())?,
        left_out: step.left_out,
        is_done: step.done,
    })
}

#[cfg(test)]
mod tests {
    use clew_core::Timestamp;

    use super::*;

    const COPIED: Copied = Copied { files: 1, of_files: 2, bytes: 3, of_bytes: 4 };

    #[test]
    fn what_is_told_of_snapshots_round_trips() {
        let taken_at = Timestamp::from_micros(7);
        let (corpus, name) = ("notes".parse().unwrap(), "nightly".parse().unwrap());
        let summary = SnapshotSummary { corpus, name, taken_at, documents: 1, files: 2, bytes: 3 };
        assert_eq!(summary_from_wire(summary_to_wire(summary.clone())).unwrap(), summary);
        for digest in [None, Some("ab".to_owned())] {
            let copy = ShardCopy { copied: COPIED, digest };
            assert_eq!(shard_copy_from_wire(shard_copy_to_wire(copy.clone())), copy);
        }
        for begun in [None, Some(taken_at)] {
            let asked = Restoration {
                corpus: "notes".parse().unwrap(),
                snapshot: "nightly".parse().unwrap(),
                leave_out: vec!["a".parse().unwrap(), "b".parse().unwrap()],
                begun,
            };
            assert_eq!(restoration_from_wire(restoration_to_wire(&asked)).unwrap(), asked);
        }
        for is_dry_run in [false, true] {
            let (corpus, snapshot) = ("notes".parse().unwrap(), "nightly".parse().unwrap());
            let deletion = SnapshotDeletion { corpus, snapshot, is_dry_run };
            let wire = snapshot_deletion_to_wire(&deletion);
            assert_eq!(snapshot_deletion_from_wire(&wire).unwrap(), deletion);
        }
        let step = RestoreStep { copied: COPIED, begun: taken_at, left_out: 5, is_done: true };
        assert_eq!(restore_step_from_wire(restore_step_to_wire(step)).unwrap(), step);
    }

    #[test]
    fn what_is_to_be_deleted_is_named_or_kept_by_a_rule_and_never_both() {
        let ask = |snapshots: &[&str], retention| {
            doomed_from_wire(&corpus_wire::DeleteSnapshotsRequest {
                name: "notes".to_owned(),
                snapshots: snapshots.iter().map(ToString::to_string).collect(),
                retention,
                dry_run: false,
            })
        };
        let retention =
            SnapshotRetention { older_than: Duration::from_millis(86_400_500), keep: 7 };
        let wire = retention_to_wire(retention);
        assert_eq!(ask(&[], Some(wire)).unwrap().1, Doomed::Expired(retention));
        let named = Doomed::Named(vec!["b".parse().unwrap(), "a".parse().unwrap()]);
        assert_eq!(ask(&["b", "a"], None).unwrap().1, named);
        let fields = |asked: Result<_, Error>| -> Vec<String> {
            let error = asked.unwrap_err();
            error.violations().iter().map(|violation| violation.field.clone()).collect()
        };
        assert_eq!(fields(ask(&[], None)), ["snapshots"]);
        assert_eq!(fields(ask(&["a", "../b", "a"], None)), ["snapshots[1]", "snapshots[2]"]);
        assert_eq!(fields(ask(&["a"], Some(wire))), ["retention"]);
        let negative = prost_types::Duration { seconds: -1, nanos: 0 };
        for older_than in [None, Some(negative)] {
            let bad = corpus_wire::SnapshotRetention { older_than, keep: MOST_KEPT + 1 };
            assert_eq!(fields(ask(&[], Some(bad))), ["retention.older_than", "retention.keep"]);
        }
    }

    #[test]
    fn every_field_at_fault_is_named() {
        let request = corpus_wire::RestoreCorpusRequest {
            name: "No".to_owned(),
            snapshot: "../x".to_owned(),
            leave_out: vec!["a".to_owned(), "a".to_owned()],
        };
        let error = restoration_of_client(request).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["corpus", "snapshot", "leave_out[1]"]);
        let many = vec!["a".to_owned(); MOST_LEFT_OUT + 1];
        let request = corpus_wire::RestoreCorpusRequest {
            name: "a".to_owned(),
            snapshot: "b".to_owned(),
            leave_out: many,
        };
        assert_eq!(restoration_of_client(request).unwrap_err().violations().len(), 1);
    }
}
