//! Parts of the receipts of forgetting, as JSON: the result of the scan, and the snapshots that
//! still hold what was forgotten.

use clew_proto::ingest::v1::{ErasureScan, HoldingSnapshot, Leftover};
use serde_json::{Value, json};

/// Returns the result of a scan; null if there was none.
pub fn scan(scan: Option<&ErasureScan>) -> Value {
    let Some(scan) = scan else { return Value::Null };
    let leftover = |left: &Leftover| json!({ "place": left.place, "problem": left.problem });
    json!({
        "tables": scan.tables,
        "files": scan.files,
        "texts": scan.texts,
        "searched_files": scan.searched_files,
        "searched_bytes": scan.searched_bytes,
        "unsearched_files": scan.unsearched_files,
        "leftovers": scan.leftovers.iter().map(leftover).collect::<Vec<_>>(),
        "leftover_count": scan.leftover_count,
    })
}

/// Returns the snapshots that still hold what was forgotten.
pub fn snapshots(snapshots: &[HoldingSnapshot]) -> Value {
    let told = |holding: &HoldingSnapshot| {
        json!({
            "snapshot": holding.snapshot,
            "taken_at": holding.taken_at.as_ref().map(timestamp),
            "documents": holding.documents,
            "problem": holding.problem,
        })
    };
    snapshots.iter().map(told).collect()
}

/// Returns a point in time as RFC 3339 text.
pub fn timestamp(time: &clew_proto::Timestamp) -> String {
    let micros =
        time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1000);
    clew_core::Timestamp::from_micros(micros).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_scanned_is_null_and_what_was_has_its_leftovers() {
        assert_eq!(scan(None), Value::Null);
        let left = Leftover { place: "shard-0/nodes".to_owned(), problem: "rows: 2".to_owned() };
        let scanned = ErasureScan {
            tables: 4,
            leftovers: vec![left],
            leftover_count: 1,
            ..ErasureScan::default()
        };
        let told = scan(Some(&scanned));
        assert_eq!((&told["tables"], &told["leftover_count"]), (&json!(4), &json!(1)));
        let expected = json!([{ "place": "shard-0/nodes", "problem": "rows: 2" }]);
        assert_eq!(told["leftovers"], expected);
    }
}
