//! Measures the graph of a book.
//!
//! ```sh
//! cargo run --release -p clew-graph --example book -- FILE [QUESTION] [SVG]
//! ```
//!
//! The book is cut into passages of 2,400 bytes, about the segments of 600 tokens that QRMeM reads.

use std::time::Instant;

use clew_core::{ExtractionTask, GraphQuery, Version};
use clew_graph::{Graph, GraphDocument, GraphSegment, Seed, extract, pagerank, svg};

const SEGMENT_BYTES: usize = 2400;

#[expect(clippy::print_stdout, reason = "it is what this program is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("expected the path of a text")?;
    let question = arguments.next().unwrap_or_default();
    let text = std::fs::read_to_string(file)?;

    let began = Instant::now();
    let passages = clew_text::passages(&text, SEGMENT_BYTES);
    let segments: Vec<GraphSegment> = (0..)
        .zip(passages)
        .map(|(ordinal, span)| {
            let text = span.of(&text).unwrap_or_default().to_owned();
            let extraction = extract(&ExtractionTask { text, ..ExtractionTask::default() });
            GraphSegment { ordinal, span, extraction }
        })
        .collect();
    println!("{} segments read in {:.1?}", segments.len(), began.elapsed());

    let (document_id, title) = ("book".parse()?, String::new());
    let document = GraphDocument { document_id, version: Version(1), title, segments };
    let copy = document.clone();
    let (before, began) = (resident_bytes(), Instant::now());
    let mut graph = Graph::default();
    graph.insert(copy);
    println!(
        "{} entities and {} relations put in in {:.1?}; resident before {before}, after {}",
        graph.entities(),
        graph.relations(),
        began.elapsed(),
        resident_bytes()
    );

    let began = Instant::now();
    let texts = vec![question];
    let query = GraphQuery {
        texts,
        hops: 1,
        most_entities: 40,
        most_relations: 400,
        ..GraphQuery::default()
    };
    let part = graph.subgraph(&query);
    println!("seeds {:?}, {} entities in {:.1?}", part.seeds, part.entities.len(), began.elapsed());
    let began = Instant::now();
    let whole = graph.whole();
    println!("the whole told in {:.1?}", began.elapsed());
    let began = Instant::now();
    let seeds: Vec<(Seed, f64)> =
        part.seeds.iter().map(|key| (Seed::Entity(key.clone()), 1.0)).collect();
    let ranking = pagerank(&whole, &seeds, 0.5);
    println!("ranked in {:.1?}", began.elapsed());
    for (key, rank) in ranking.entities.iter().take(8) {
        println!("  {rank:.4} {key}");
    }
    let began = Instant::now();
    let figure = svg(&part, &[]);
    println!("drawn in {:.1?}", began.elapsed());
    if let Some(path) = arguments.next() {
        std::fs::write(path, figure)?;
    }
    let began = Instant::now();
    graph.remove(&document.document_id);
    println!("removed in {:.1?}", began.elapsed());
    Ok(())
}

/// Returns the resident memory of this process in bytes on Linux with pages of 4 KiB, or 0
/// elsewhere.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}
