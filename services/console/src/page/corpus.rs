//! One corpus: its settings, its state and its strategies.

use clew_proto::corpus::v1::chunking::Strategy as Cut;
use clew_proto::corpus::v1::{Chunking, Corpus, EncoderIdentity, ReembeddingPhase, Snapshot};
use clew_proto::query::v1::{Strategy, StrategyNeeds};
use maud::{Markup, html};

use super::{Shown, overview};
use crate::shell::{self, Tab, Where};
use crate::table::Column::{Number, Words};
use crate::table::table;
use crate::text::{count, counted, size, time};
use crate::visitor::{OfCorpus, Visitor};

pub(crate) async fn show(OfCorpus(name): OfCorpus, visitor: Visitor) -> Shown {
    let corpus = visitor.client.corpus(&name).await?;
    let strategies = visitor.client.strategies(Some(&name)).await?;
    // Without a place for snapshots there are none, which is no failure of this page.
    let snapshots = match visitor.may_administer() {
        true => visitor.client.snapshots(&name).await.ok(),
        false => None,
    };
    let content = html! {
        h1 { bdi { (corpus.name) } " " (overview::state(&corpus)) }
        @if let Some(fault) = &corpus.fault {
            p class="problem" role="alert" { (fault.message) " (" code { (fault.reason) } ")" }
        }
        (counts(&corpus))
        h2 { "Settings" }
        (settings(&corpus))
        h2 { "Strategies" }
        (ways(&strategies))
        @if let Some(snapshots) = &snapshots {
            h2 { "Snapshots" }
            (kept(snapshots))
        }
    };
    Ok(shell::page(&visitor, Where::Of(&name, Tab::Corpus), "Corpus", content))
}

fn counts(corpus: &Corpus) -> Markup {
    let counts = corpus.counts.unwrap_or_default();
    let figures = [
        ("documents", count(counts.documents)),
        ("searchable", count(counts.indexed_documents)),
        ("waiting", count(counts.pending_documents)),
        ("set aside", count(counts.failed_documents)),
        ("chunks", count(counts.chunks)),
        ("tokens", count(counts.tokens)),
        ("of text", size(counts.text_bytes)),
        ("tree nodes", count(counts.nodes)),
    ];
    html! {
        dl class="figures" {
            @for (name, figure) in figures { div { dt { (name) } dd { (figure) } } }
        }
    }
}

fn settings(corpus: &Corpus) -> Markup {
    html! {
        dl class="pairs" {
            dt { "Embedding model" }
            dd { (model(corpus.encoder.as_ref())) }
            @if let Some(moving) = &corpus.reembedding {
                dt { "Other model" }
                dd { (model(moving.other.as_ref())) ", " (phase(moving.phase())) }
            }
            dt { "Cut into" }
            dd { (cut(corpus.chunking.as_ref())) }
            dt { "Trees and graph" }
            dd {
                @match &corpus.structure {
                    Some(structure) => {
                        "of segments of " (counted(structure.segment_tokens.into(), "token"))
                        ", built for " (counted(corpus.counts.unwrap_or_default().structured_documents, "document"))
                    }
                    None => "none",
                }
            }
            dt { "Shards" }
            dd {
                (corpus.shards)
                @if !corpus.shards_missing.is_empty() {
                    ", of which " (corpus.shards_missing.len()) " did not answer; what is theirs is not counted"
                }
            }
            dt { "Documents are kept" }
            dd {
                @if corpus.retention_days == 0 { "until they are forgotten" }
                @else { "for " (counted(corpus.retention_days.into(), "day")) }
            }
            dt { "Created" }
            dd { (time(corpus.created_at.as_ref())) }
        }
    }
}

fn model(encoder: Option<&EncoderIdentity>) -> Markup {
    html! {
        @match encoder {
            Some(encoder) => {
                code { (encoder.model) } ", " (encoder.dimension) " dimensions, reads "
                (counted(encoder.max_tokens.into(), "token"))
            }
            None => "none",
        }
    }
}

fn phase(phase: ReembeddingPhase) -> &'static str {
    match phase {
        ReembeddingPhase::Unspecified => "in an unknown phase",
        ReembeddingPhase::Filling => "whose vectors are being computed",
        ReembeddingPhase::CutOver => "which searches use now; the earlier one is kept",
        ReembeddingPhase::Confirmed => "confirmed; the earlier one is being removed",
        ReembeddingPhase::Abandoned => "abandoned, and being removed",
    }
}

fn cut(chunking: Option<&Chunking>) -> String {
    let tokens = |most: u32| format!("of at most {}", counted(most.into(), "token"));
    match chunking.and_then(|chunking| chunking.strategy.as_ref()) {
        Some(Cut::Tokens(cut)) => {
            format!("windows {}, which overlap by {}", tokens(cut.max_tokens), cut.overlap_tokens)
        }
        Some(Cut::Sentences(cut)) => format!("whole sentences {}", tokens(cut.max_tokens)),
        Some(Cut::Sections(cut)) => format!("parts of sections {}", tokens(cut.max_tokens)),
        None => "an unknown form".to_owned(),
    }
}

fn ways(strategies: &[Strategy]) -> Markup {
    let columns = [Words("Strategy"), Words("How it answers"), Words("Needs"), Words("Cost")];
    let rows = html! {
        @for strategy in strategies {
            tr {
                th scope="row" { code { (strategy.name) } }
                td { (strategy.description) }
                td {
                    (needs(strategy.needs()))
                    @if !strategy.can_run { " " span class="state busy" { "not here" } }
                }
                td { (strategy.cost) }
            }
        }
    };
    table("Strategies", &columns, &rows)
}

fn needs(needs: StrategyNeeds) -> &'static str {
    match needs {
        StrategyNeeds::Unspecified | StrategyNeeds::Chunks => "chunks",
        StrategyNeeds::Tree => "trees",
        StrategyNeeds::Graph => "the graph",
    }
}

fn kept(snapshots: &[Snapshot]) -> Markup {
    let columns = [Words("Snapshot"), Words("Taken"), Number("Documents"), Number("Size")];
    let rows = html! {
        @for snapshot in snapshots {
            tr {
                th scope="row" { bdi { (snapshot.name) } }
                td { (time(snapshot.taken_at.as_ref())) }
                td class="number" { (count(snapshot.documents)) }
                td class="number" { (size(snapshot.bytes)) }
            }
        }
    };
    html! {
        @if snapshots.is_empty() {
            p { "None." }
        } @else {
            (table("Snapshots", &columns, &rows))
        }
    }
}
