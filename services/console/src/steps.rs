//! The steps of a question, in words.

use clew_proto::query::v1::trace_event::Step as Wire;
use clew_proto::query::v1::{Outcome, PointFate, SearchMode};

use crate::text::{counted, size, took};

/// A step of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Kind of the step, one or two words.
    pub kind: &'static str,
    /// What happened.
    pub said: String,
    /// Why, as far as the strategy or the model said so; may be empty.
    pub why: String,
}

impl Step {
    /// Puts a step into words.
    pub fn of(step: &Wire) -> Self {
        let (kind, said, why) = match step {
            Wire::Searched(step) => {
                let best = step.best_dense_score;
                let best = best.map_or_else(String::new, |best| format!(", the best at {best:.3}"));
                let (mode, hits) = (mode_name(step.mode()), counted(step.hits.into(), "passage"));
                let took = took(step.took.as_ref());
                ("Searched", format!("“{}”, {mode}: {hits}{best}, {took}", step.query), "")
            }
            Wire::Judged(step) => {
                let (confidence, threshold) = (step.confidence, step.threshold);
                let said = format!("confidence {confidence:.2}, and {threshold:.2} is needed");
                ("Judged", said, step.rationale.as_str())
            }
            Wire::Read(step) => {
                let passages = counted(step.passages.into(), "passage");
                let sentences = counted(step.sentences.into(), "sentence");
                let took = took(step.took.as_ref());
                ("Read", format!("{passages}, {sentences} compared with the question, {took}"), "")
            }
            Wire::Entered(step) => {
                let said = format!("{}: {}", step.node, step.summary);
                ("Entered", said, step.reason.as_str())
            }
            Wire::TurnedBack(step) => ("Turned back", step.node.clone(), step.reason.as_str()),
            Wire::LeafRead(step) => {
                let found = if step.answers { "which answers" } else { "which does not answer" };
                ("Read a leaf", format!("{}, {found}", step.node), step.reason.as_str())
            }
            Wire::Walked(step) => {
                let nodes = counted(step.nodes.into(), "node");
                let (read, total) = (size(step.bytes_read), size(step.bytes_total));
                let turns = counted(step.turns.into(), "turn");
                (
                    "Walked",
                    format!("{nodes}, {turns} back, {read} of {total} read"),
                    step.ended.as_str(),
                )
            }
            Wire::EntitiesChosen(step) => {
                ("Chose entities", step.entities.join(", "), step.reason.as_str())
            }
            Wire::EdgeFollowed(step) => {
                let edge = format!("{} – {} – {}", step.head, step.relation, step.tail);
                let said = format!("{edge}, to {} ({:.3})", step.to, step.score);
                ("Followed an edge", said, step.reason.as_str())
            }
            Wire::Gathered(step) => {
                let segments = counted(step.segments.into(), "segment");
                let said = format!("{segments}, {}, {} left out", size(step.bytes), step.dropped);
                ("Gathered", said, "")
            }
            Wire::Reflected(step) => {
                let said = match (step.suffices, step.missing.as_str()) {
                    (true, _) => "it suffices".to_owned(),
                    (false, "") => "it does not suffice".to_owned(),
                    (false, missing) => format!("missing: {missing}"),
                };
                ("Reflected", said, step.reason.as_str())
            }
            Wire::Evolved(step) => {
                let points: Vec<String> = step
                    .points
                    .iter()
                    .map(|point| format!("{} ({})", point.text, fate_name(point.fate())))
                    .collect();
                ("Working memory", format!("step {}: {}", step.step, points.join("; ")), "")
            }
            Wire::Drafted(step) => {
                let lines = counted(step.lines.into(), "line");
                let said =
                    format!("{lines} in {}: {}", took(step.took.as_ref()), step.answers.join("; "));
                ("Drafted", said, "")
            }
        };
        Self { kind, said, why: why.to_owned() }
    }
}

/// Returns the name of a search mode.
pub(crate) fn mode_name(mode: SearchMode) -> &'static str {
    match mode {
        SearchMode::Unspecified | SearchMode::Hybrid => "hybrid",
        SearchMode::Dense => "dense",
        SearchMode::Sparse => "sparse",
    }
}

/// Returns the outcome of a question in words.
pub(crate) fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unspecified => "no outcome",
        Outcome::Answered => "answered",
        Outcome::NotInMemory => "not in memory",
        Outcome::AnsweredWithShardsMissing => "answered, but parts of the corpus did not answer",
    }
}

fn fate_name(fate: PointFate) -> &'static str {
    match fate {
        PointFate::Unspecified | PointFate::Kept => "kept",
        PointFate::Updated => "updated",
        PointFate::Inserted => "new",
        PointFate::Merged => "merged",
    }
}

#[cfg(test)]
mod tests {
    use clew_proto::Duration;
    use clew_proto::query::v1::{Judged, Searched, Walked};

    use super::*;

    #[test]
    fn steps_are_told_in_words() {
        let searched = Step::of(&Wire::Searched(Searched {
            query: "backups".to_owned(),
            mode: SearchMode::Hybrid.into(),
            hits: 1,
            best_dense_score: Some(0.5),
            took: Some(Duration { seconds: 0, nanos: 2_000_000 }),
        }));
        assert_eq!(searched.said, "“backups”, hybrid: 1 passage, the best at 0.500, 2.0 ms");
        let judged =
            Judged { confidence: 0.25, threshold: 0.5, rationale: "too little".to_owned() };
        let judged = Step::of(&Wire::Judged(judged));
        assert_eq!(judged.said, "confidence 0.25, and 0.50 is needed");
        assert_eq!(judged.why, "too little");
        let walked =
            Walked { nodes: 3, turns: 2, bytes_read: 10, bytes_total: 2048, ..Walked::default() };
        let walked = Step::of(&Wire::Walked(walked));
        assert_eq!(walked.said, "3 nodes, 2 turns back, 10 bytes of 2.0 KiB read");
    }
}
