//! Runs: large ingestions in parts, and how far each is.

use clew_proto::ingest::v1::{PartStage, Run, RunCounts, RunPart, RunStage};
use maud::{Markup, html};

use super::Shown;
use crate::shell::{self, Tab, Where};
use crate::table::Column::{Number, Words};
use crate::table::table;
use crate::text::{count, counted, time};
use crate::visitor::{OfCorpus, Visitor};

/// Parts of a run that are shown.
const SHOWN: usize = 50;

/// Lists the runs, whose stages and parts the services do not tell there, or shows the one that the
/// address names.
pub(crate) async fn show(OfCorpus(corpus): OfCorpus, visitor: Visitor) -> Shown {
    let at = |run: &Run| visitor.of(&corpus, "runs", &[("run", &run.name)]);
    let content = if visitor.query.has("run") {
        let name = visitor.query.raw("run").parse()?;
        let run = visitor.client.run(&corpus, &name).await?.run.unwrap_or_default();
        html! {
            h1 { "Run" }
            (one(&run, &at(&run)))
            p { a href=(visitor.of(&corpus, "runs", &[])) { "All runs" } }
        }
    } else {
        let runs = visitor.client.runs(&corpus).await?;
        html! {
            h1 { "Runs" }
            @if runs.is_empty() {
                p { "No run is known. " code { "clew ingest --run NAME" } " begins one." }
            }
            @for run in &runs { (one(run, &at(run))) }
        }
    };
    Ok(shell::page(&visitor, Where::Of(&corpus, Tab::Runs), "Runs", content))
}

fn one(run: &Run, address: &str) -> Markup {
    let counts = run.counts.unwrap_or_default();
    html! {
        section class="group" {
            h2 { a href=(address) { bdi { (run.name) } } " " (stage(run.stage())) }
            @if let Some(fault) = &run.fault {
                p class="problem" { (fault.message) " (" code { (fault.reason) } ")" }
            }
            p {
                (count(run.ended_parts.into())) " of " (counted(run.parts.into(), "part")) " ended"
                @if run.failed_parts > 0 { ", " (count(run.failed_parts.into())) " failed" }
                "; begun " (time(run.started_at.as_ref()))
                @if run.ended_at.is_some() { ", ended " (time(run.ended_at.as_ref())) }
                "."
            }
            @if run.parts > 0 {
                progress max=(run.parts) value=(run.ended_parts) aria-label=(format!("Parts of {} that ended", run.name)) {}
            }
            (figures(&counts))
            @if !run.reported.is_empty() { (parts(&run.reported)) }
        }
    }
}

fn figures(counts: &RunCounts) -> Markup {
    let figures = [
        ("listed", counts.listed),
        ("sent", counts.sent),
        ("accepted", counts.accepted),
        ("unchanged", counts.unchanged),
        ("refused", counts.refused),
        ("unreadable", counts.unreadable),
        ("forgotten", counts.forgotten),
    ];
    html! {
        dl class="figures" {
            @for (name, figure) in figures { div { dt { (name) } dd { (count(figure)) } } }
        }
    }
}

fn parts(parts: &[RunPart]) -> Markup {
    let columns = [
        Number("Part"),
        Words("State"),
        Number("Attempts"),
        Number("Accepted"),
        Number("Refused"),
        Words("Last heard"),
        Words("Problem"),
    ];
    let rows = html! {
        @for part in parts.iter().take(SHOWN) {
            @let counts = part.counts.unwrap_or_default();
            tr {
                th scope="row" class="number" { (part.part) }
                td { (part_stage(part.stage())) }
                td class="number" { (part.attempts) }
                td class="number" { (count(counts.accepted)) }
                td class="number" { (count(counts.refused)) }
                td { (time(part.updated_at.as_ref())) }
                td { (part.problem) }
            }
        }
    };
    html! {
        details {
            summary { (counted(parts.len() as u64, "part")) " reported" }
            (table("Parts", &columns, &rows))
        }
    }
}

fn stage(stage: RunStage) -> Markup {
    html! {
        @match stage {
            RunStage::Unspecified => {},
            RunStage::Running => span class="state busy" { "running" },
            RunStage::Accepted => span class="state busy" { "accepted, being indexed" },
            RunStage::Done => span class="state good" { "done" },
            RunStage::Failed => span class="state bad" { "failed" },
        }
    }
}

fn part_stage(stage: PartStage) -> &'static str {
    match stage {
        PartStage::Unspecified => "unknown",
        PartStage::Listing => "listing",
        PartStage::Sending => "sending",
        PartStage::Accepted => "accepted",
        PartStage::Failed => "failed",
    }
}
