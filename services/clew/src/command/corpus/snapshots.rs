//! Taking, listing, deleting and restoring snapshots.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use clew_core::{CorpusName, DocumentId, SnapshotName, SnapshotRetention};
use clew_proto::convert::snapshot::retention_to_wire;
use clew_proto::corpus::v1 as wire;
use futures::StreamExt;
use serde_json::{Value, json};

use super::describe;
use crate::connection::Connection;
use crate::output::{Output, read, timestamp};
use crate::progress::Progress;

/// Further actions on snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotAction {
    /// Delete snapshots of a corpus, also of one that was deleted: those that are named, or the old
    /// ones. Forgotten documents that only they still hold are gone with them.
    Delete(DeleteSnapshotsArgs),
}

/// Snapshots to delete.
#[derive(Debug, Args)]
pub struct DeleteSnapshotsArgs {
    /// Name of the corpus.
    pub name: CorpusName,
    /// Names of the snapshots; may name one that was not finished.
    // The id differs from `snapshots`, which the global option for the place of snapshots has.
    #[arg(
        id = "named",
        value_name = "SNAPSHOTS",
        required_unless_present = "older_than",
        conflicts_with = "older_than"
    )]
    pub snapshots: Vec<SnapshotName>,
    /// Delete snapshots that were finished longer ago than this, such as 30d: a number of s, m, h,
    /// d or w.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub older_than: Option<Duration>,
    /// Keep this many of the newest snapshots of the corpus, however old.
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with = "named")]
    pub keep: u32,
    /// Only show what would be deleted.
    #[arg(long)]
    pub dry_run: bool,
}

fn age(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a number of s, m, h, d or w such as 30d, got `{text}`");
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(expected()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| expected())?;
    Ok(Duration::from_secs(u64::from(count) * seconds))
}

/// Takes a snapshot.
pub async fn take(
    connection: &Connection,
    name: &CorpusName,
    snapshot: &SnapshotName,
    output: &Output,
) -> anyhow::Result<()> {
    use wire::snapshot_corpus_response::Event;
    let events = connection.client.snapshot_corpus(name, snapshot).await?;
    let mut events = std::pin::pin!(events);
    let mut progress = Progress::new("copied");
    while let Some(event) = events.next().await {
        match event?.event {
            Some(Event::Progress(copied)) => show(&mut progress, copied),
            Some(Event::Snapshot(taken)) => {
                progress.finish();
                return output
                    .print(&document(&taken), |_| format!("took snapshot {}", line(&taken)));
            }
            None => {}
        }
    }
    anyhow::bail!("the server ended before the snapshot was whole; run the command again to go on")
}

/// Lists snapshots.
pub async fn list(
    connection: &Connection,
    name: &CorpusName,
    output: &Output,
) -> anyhow::Result<()> {
    let snapshots = connection.client.snapshots(name).await?;
    let documents: Vec<Value> = snapshots.iter().map(document).collect();
    output.print(&json!({ "snapshots": documents }), |_| {
        snapshots.iter().map(|snapshot| format!("{}\n", line(snapshot))).collect()
    })
}

/// Deletes snapshots.
pub async fn delete(
    connection: &Connection,
    asked: &DeleteSnapshotsArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let DeleteSnapshotsArgs { name, snapshots, older_than, keep, dry_run } = asked;
    let retention = older_than.map(|older_than| {
        retention_to_wire(SnapshotRetention { older_than, keep: *keep as usize })
    });
    let request = wire::DeleteSnapshotsRequest {
        name: name.to_string(),
        snapshots: snapshots.iter().map(ToString::to_string).collect(),
        retention,
        dry_run: *dry_run,
    };
    let told = connection.client.delete_snapshots(request).await?;
    let (refused, deleted): (Vec<_>, Vec<_>) =
        told.iter().partition(|snapshot| snapshot.refusal.is_some());
    let deleted: Vec<Value> = deleted
        .iter()
        .map(|of| {
            let description = of.description.as_ref().map(document);
            json!({ "snapshot": of.snapshot, "files": of.files, "description": description })
        })
        .collect();
    let refusals: Vec<Value> = refused
        .iter()
        .map(|of| {
            let refusal = of.refusal.clone().unwrap_or_default();
            json!({ "snapshot": of.snapshot, "reason": refusal.reason, "message": refusal.message })
        })
        .collect();
    let shown = json!({
        "corpus": name, "dry_run": dry_run, "deleted": deleted, "refused": refusals,
    });
    output.print(&shown, |_| match told.is_empty() {
        true => "no snapshot is to be deleted".to_owned(),
        false => told.iter().map(|of| deletion_line(of, *dry_run)).collect(),
    })?;
    if !refused.is_empty() {
        bail!("{} snapshots were not deleted; the others were", refused.len());
    }
    Ok(())
}

fn deletion_line(told: &wire::SnapshotDeletion, is_dry_run: bool) -> String {
    let name = &told.snapshot;
    if let Some(refusal) = &told.refusal {
        return format!("{name} stays: {}\n", refusal.message);
    }
    let what = match &told.description {
        Some(whole) => line(whole),
        None => format!("{name}, which is not whole: {} files", told.files),
    };
    format!("{} {what}\n", if is_dry_run { "would delete" } else { "deleted" })
}

/// Describes the snapshots that are left of a corpus that was deleted. Empty if there are none.
pub fn kept(corpus: &CorpusName, snapshots: Option<u32>) -> String {
    let how =
        format!("`clew corpus snapshot delete {corpus} --older-than 0s --keep 0` deletes them");
    match snapshots {
        Some(0) => String::new(),
        Some(count) => format!("; {count} snapshots of it are kept and hold them still: {how}"),
        None => format!("; how many snapshots of it are kept is not known: {how}"),
    }
}

/// Restores a corpus.
pub async fn restore(
    connection: &Connection,
    name: &CorpusName,
    snapshot: &SnapshotName,
    leave_out: &[DocumentId],
    output: &Output,
) -> anyhow::Result<()> {
    use wire::restore_corpus_response::Event;
    let events = connection.client.restore_corpus(name, snapshot, leave_out).await?;
    let mut events = std::pin::pin!(events);
    let mut progress = Progress::new("copied");
    while let Some(event) = events.next().await {
        match event?.event {
            Some(Event::Progress(copied)) => show(&mut progress, copied),
            Some(Event::Restored(restored)) => {
                progress.finish();
                let corpus = restored.corpus.unwrap_or_default();
                let mut shown = describe::document(&corpus);
                shown["left_out"] = json!(restored.left_out);
                return output.print(&shown, |_| {
                    format!("restored {}, {} left out", describe::line(&corpus), restored.left_out)
                });
            }
            None => {}
        }
    }
    anyhow::bail!("the server ended before the corpus was whole; run the command again to go on")
}

/// Returns the ids in a file with one id per line.
pub fn read_ids(file: &Path) -> anyhow::Result<Vec<DocumentId>> {
    let text = read(file)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    let id = |(number, line): (usize, &str)| {
        let place = || format!("line {} of `{}`", number + 1, file.display());
        line.parse::<DocumentId>().with_context(place)
    };
    lines.map(id).collect()
}

fn show(progress: &mut Progress, copied: wire::CopyProgress) {
    let message = format!("bytes, {} of {} files", copied.files, copied.of_files);
    progress.set(copied.bytes, copied.of_bytes, &message);
}

fn document(snapshot: &wire::Snapshot) -> Value {
    json!({
        "corpus": snapshot.corpus,
        "snapshot": snapshot.name,
        "taken_at": snapshot.taken_at.as_ref().map(timestamp),
        "documents": snapshot.documents,
        "files": snapshot.files,
        "bytes": snapshot.bytes,
    })
}

fn line(snapshot: &wire::Snapshot) -> String {
    let wire::Snapshot { name, corpus, documents, files, bytes, .. } = snapshot;
    let taken_at = snapshot.taken_at.as_ref().map(timestamp).unwrap_or_default();
    format!("{name} of {corpus}, {taken_at}: {documents} documents, {files} files, {bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_numbers_with_a_unit() {
        for (text, seconds) in [("0s", 0), ("90m", 5_400), ("30d", 2_592_000), ("2w", 1_209_600)] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "d", "30", "-1d", "1.5d", "3 d", "30days", "5é"] {
            assert!(age(bad).is_err(), "{bad}");
        }
    }
}
