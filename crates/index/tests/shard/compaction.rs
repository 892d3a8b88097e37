//! Tests that compaction keeps every row and takes little memory whatever the rows are.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use clew_core::{Document, Timestamp};
use clew_index::{MaintenancePlan, MaintenanceStep, ShardSettings, TableKind, Tuning};

use crate::fixture::{Fixture, derive, document, open, stored, with_dimension};

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns pseudo-random words of about `bytes` bytes, with a line break after every quarter of a
/// kilobyte.
fn text(seed: u64, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let (mut state, mut line) = (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, 0);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(&format!("{:x}", state >> 40));
        let ends = text.len() - line > 256;
        line = if ends { text.len() } else { line };
        text.push(if ends { '\n' } else { ' ' });
    }
    text
}

#[tokio::test]
async fn compacting_keeps_every_row_however_large() {
    let mut fixture = Fixture::new().await;
    let mut kept: Vec<Document> = Vec::new();
    for commit in 0..6 {
        // Some have a few bytes, some more than is merged at a time.
        let sizes = [10, 100, 50_000, if commit % 3 == 0 { 2 << 20 } else { 1_000 }];
        let documents = sizes.iter().enumerate().map(|(i, bytes)| {
            let seed = commit * 10 + i as u64;
            document(&format!("d{seed}"), &text(seed, *bytes))
        });
        let documents: Vec<_> = documents.collect();
        kept.extend(documents.iter().cloned());
        fixture.ingest(documents, commit as i64 + 1).await;
    }
    let forgotten = [kept.remove(9).id, kept.remove(2).id];
    fixture.shard.forget(&forgotten).await.unwrap();
    let chunks = fixture.shard.statistics().await.unwrap().chunks.rows;

    let steps = [TableKind::Sources, TableKind::Chunks].map(MaintenanceStep::Compact);
    let report = fixture.shard.maintain(&MaintenancePlan { steps: steps.to_vec() }, PATIENCE).await;
    assert_eq!(report.unwrap().done, steps);
    let statistics = fixture.shard.statistics().await.unwrap();
    assert_eq!((statistics.sources.fragments, statistics.chunks.fragments), (1, 1));
    assert_eq!(statistics.chunks.rows, chunks);
    for _ in 0..2 {
        let reader = fixture.reader();
        for document in &kept {
            assert_eq!(stored(&reader, &document.id).await.unwrap().document, *document);
        }
        for forgotten in &forgotten {
            assert!(stored(&reader, forgotten).await.is_none());
        }
        fixture.reopen().await;
    }
}

/// Shard whose memory use is measured while it is compacted.
struct Case {
    name: &'static str,
    commits: u64,
    documents: u64,
    bytes: usize,
    table: TableKind,
}

const CASES: [Case; 2] = [
    // More chunks than fit into two fragments, in many fragments.
    Case { name: "chunks", commits: 60, documents: 8, bytes: 128 << 10, table: TableKind::Chunks },
    // Long documents, most of them in a fragment that an earlier compaction left.
    Case {
        name: "documents",
        commits: 64,
        documents: 64,
        bytes: 128 << 10,
        table: TableKind::Sources,
    },
];

/// Dimension of the vectors, that of the default model.
const DIMENSION: usize = 384;

fn measured_settings() -> ShardSettings {
    with_dimension(DIMENSION as u32, Tuning::default())
}

async fn fill(folder: &Path, case: &Case) {
    let mut shard = open(folder, measured_settings()).await.unwrap();
    let all = text(1, 2 * case.bytes);
    for commit in 0..=case.commits {
        if commit == case.commits && case.table == TableKind::Sources {
            let plan = MaintenancePlan { steps: vec![MaintenanceStep::Compact(case.table)] };
            shard.maintain(&plan, PATIENCE).await.unwrap();
        }
        let documents = (0..case.documents).map(|number| {
            let seed = commit * case.documents + number;
            let start = seed as usize * 7919 % case.bytes;
            document(&format!("d{seed}"), &all[start..start + case.bytes])
        });
        let documents: Vec<_> = documents.collect();
        let now = Timestamp::from_micros(commit as i64 + 1);
        let offered = shard.accept(documents.clone(), now).await.unwrap();
        if case.table == TableKind::Chunks {
            let derived = documents.into_iter().zip(offered).map(|(document, accepted)| {
                let mut derived = derive(document, accepted.version);
                for chunk in &mut derived.chunks {
                    let vector = &mut chunk.vectors[0];
                    *vector = vector.repeat(DIMENSION / vector.len());
                }
                derived
            });
            shard.commit_derived(derived.collect()).await.unwrap();
        }
    }
}

/// Returns a line of this process' status, in MiB.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

/// Environment variable that tells the measured process its case and the shard's folder.
const SHARD: &str = "CLEW_TEST_SHARD";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, which takes a minute; BENCHMARKS.md has the command"]
async fn compacting_takes_little_memory() {
    if let Ok(shard) = std::env::var(SHARD) {
        let (case, folder) = shard.split_once(':').unwrap();
        let case = CASES.iter().find(|known| known.name == case).unwrap();
        return compact(Path::new(folder), case).await;
    }
    for case in &CASES {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("corpora/notes/shard-0");
        fill(&folder, case).await;
        // In a separate process, which has used no memory for anything else.
        let name = "compaction::compacting_takes_little_memory";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", name]);
        command.env(SHARD, format!("{}:{}", case.name, folder.display()));
        assert!(command.status().unwrap().success(), "{}", case.name);
    }
}

#[allow(clippy::print_stdout, reason = "what is measured is told")]
async fn compact(folder: &Path, case: &Case) {
    let mut shard = open(folder, measured_settings()).await.unwrap();
    let table = |statistics: &clew_index::ShardStatistics| {
        *statistics.tables().iter().find(|(kind, _)| *kind == case.table).unwrap().1
    };
    let before = table(&shard.statistics().await.unwrap());
    let (resident, began) = (memory("VmRSS:"), Instant::now());
    let plan = MaintenancePlan { steps: vec![MaintenanceStep::Compact(case.table)] };
    shard.maintain(&plan, PATIENCE).await.unwrap();
    let (took, peak) = (began.elapsed(), memory("VmHWM:"));
    let after = table(&shard.statistics().await.unwrap());
    println!(
        "{}: {} rows, {} MiB, {} -> {} fragments, {resident} -> {peak} MiB resident, {:.1} s",
        case.name,
        before.rows,
        before.bytes >> 20,
        before.fragments,
        after.fragments,
        took.as_secs_f64(),
    );
    assert_eq!(after.rows, before.rows);
    assert!(after.fragments <= 2, "{after:?}");
}
