//! Parts of the receipts of forgetting in words: the result of the scan, and the snapshots that
//! still hold what was forgotten.

use clew_proto::ingest::v1::{ErasureScan, HoldingSnapshot};

/// Describes both in words, one line each.
pub fn in_words(scan: Option<&ErasureScan>, snapshots: &[HoldingSnapshot]) -> String {
    let mut told = String::new();
    if let Some(scan) = scan {
        told += &match scan.leftover_count {
            0 => format!(
                "a scan of {} tables and {} files found nothing of it; {} files written in their place ({} bytes) were \
                 searched for {} parts of the texts, {} were not\n",
                scan.tables,
                scan.files,
                scan.searched_files,
                scan.searched_bytes,
                scan.texts,
                scan.unsearched_files
            ),
            count => format!("a scan found {count} leftovers:\n"),
        };
        for left in &scan.leftovers {
            told += &format!("  {}: {}\n", left.place, left.problem);
        }
    }
    for HoldingSnapshot { snapshot, documents, problem, .. } in snapshots {
        told += &match (snapshot.as_str(), problem.as_str()) {
            ("", problem) => format!("which snapshots hold it is not known: {problem}\n"),
            (snapshot, "") => {
                format!("snapshot `{snapshot}` still holds {documents} of the documents\n")
            }
            (snapshot, problem) => {
                format!("snapshot `{snapshot}` may still hold documents: {problem}\n")
            }
        };
    }
    if snapshots.iter().any(|holding| !holding.snapshot.is_empty()) {
        told += "it leaves a snapshot with the snapshot only: delete those, or restore them with --leave-out\n";
    }
    told
}

#[cfg(test)]
mod tests {
    use clew_proto::ingest::v1::Leftover;

    use super::*;

    #[test]
    fn what_is_left_is_told_with_its_place() {
        let mut scan = ErasureScan { tables: 4, files: 9, ..ErasureScan::default() };
        assert!(in_words(Some(&scan), &[]).contains("4 tables and 9 files found nothing"));
        scan.leftover_count = 1;
        let (place, problem) = ("shard-0/nodes".to_owned(), "rows of the documents: 2".to_owned());
        scan.leftovers.push(Leftover { place, problem });
        let held = |snapshot: &str, problem: &str| HoldingSnapshot {
            snapshot: snapshot.to_owned(),
            problem: problem.to_owned(),
            documents: 1,
            ..HoldingSnapshot::default()
        };
        let told = in_words(Some(&scan), &[held("nightly", ""), held("torn", "it is damaged")]);
        assert_eq!(
            told,
            "a scan found 1 leftovers:\n  shard-0/nodes: rows of the documents: 2\n\
             snapshot `nightly` still holds 1 of the documents\n\
             snapshot `torn` may still hold documents: it is damaged\n\
             it leaves a snapshot with the snapshot only: delete those, or restore them with --leave-out\n"
        );
    }
}
