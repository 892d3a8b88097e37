//! Measures the recall of the vector index on questions that were asked, and chooses how many of
//! its partitions searches read.

use std::collections::HashSet;
use std::sync::Arc;

use clew_core::{Access, CandidateQuery, Filter, Grouping, SearchMode, SearchedView};
use tokio::sync::OnceCell;

use crate::error::Result;
use crate::read::resident::masks::Allowed;
use crate::read::search::dense::{Question, ResidentRows, compare_all};
use crate::read::search::{Search, Seen};
use crate::read::table_view::probing::IndexRecall;
use crate::read::view::Snapshot;

/// Number of results by which recall is measured.
const RESULTS: usize = 10;
/// Smallest number of partitions that is tried.
const FEWEST: usize = 4;

/// Measures the recall of the index that searches use. Searches then read the smallest number of
/// partitions with which they find at least `wanted` of the nearest chunks, or all of them.
///
/// Does nothing if the shard has no index, if its vectors are not in memory, if too few questions
/// were asked, or if the recall of the index is known or being measured.
pub(crate) async fn measure(snapshot: &Snapshot, wanted: f32) -> Result<()> {
    let Some(vectors) = snapshot.vectors.of("") else { return Ok(()) };
    let table = &snapshot.chunk_rows;
    let Some(index) = table.nearest(&vectors.name).await? else { return Ok(()) };
    let Some(resident) = table.directions(&vectors.name).await? else { return Ok(()) };
    let resident: Arc<ResidentRows> = Arc::new(resident);
    let probing = table.probing(&vectors.name);
    let fragments = table.fragments().await?;
    let (partitions, rows) = (index.partitions(), fragments.rows());
    let Some(measuring) = probing.begin(partitions, rows) else { return Ok(()) };
    let seen = Seen { access: Access::all(), newest: None };
    let query = CandidateQuery {
        encoder: String::new(),
        text: String::new(),
        vector: None,
        mode: SearchMode::Dense,
        filter: Filter::default(),
        grouping: Grouping::Chunks,
        limit: RESULTS,
        exact: false,
        with_texts: false,
        view: SearchedView::Newest,
    };
    let allowed = OnceCell::new();
    let search = Search { snapshot, fragments, allowed, seen: &seen, query: &query };
    let mut exact = Vec::new();
    for vector in &measuring.questions {
        // A question of another model, from before the corpus moved.
        let is_comparable = vector.len() == vectors.dimension;
        let Some(question) = Question::of(vector).filter(|_| is_comparable) else { continue };
        let all = compare_all(&resident, &question.direction, &Allowed::All, |_| true).await;
        let nearest: HashSet<u64> = search.best(all).iter().map(|ranked| ranked.row).collect();
        exact.push((question, nearest));
    }
    let mut probes = FEWEST.min(partitions);
    let measured = loop {
        let (mut found, mut all) = (0, 0);
        for (question, nearest) in &exact {
            let proposed =
                search.nearest_proposed(&index, question, &resident, &Allowed::All, probes).await?;
            found += proposed.iter().filter(|ranked| nearest.contains(&ranked.row)).count();
            all += nearest.len();
        }
        let share = if all == 0 { 1.0 } else { found as f32 / all as f32 };
        if share >= wanted || probes >= partitions {
            break IndexRecall { share, probes, partitions, rows };
        }
        // Half as many more, so that searches read little more than they need.
        probes = (probes + probes.div_ceil(2)).min(partitions);
    };
    measuring.finish(measured);
    Ok(())
}
