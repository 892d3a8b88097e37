//! The steps of a question, in words.

use std::time::Duration;

use clew_proto::query::v1::trace_event::Step as Wire;
use clew_proto::query::v1::{Outcome, Place, PointFate, SearchMode};

use crate::text::{counted, size, took};

/// A step, and when it was told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Taken {
    pub step: Step,
    /// Time from the question to the moment at which the services told of the step.
    pub at: Duration,
}

/// Something that a step touched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Touched {
    /// A passage.
    Passage(Place),
    /// A node of a tree, as people call it.
    Node(String),
    /// An entity, by its name.
    Entity(String),
}

impl Touched {
    /// Returns what people call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Passage(place) => &place.document_id,
            Self::Node(name) | Self::Entity(name) => name,
        }
    }
}

/// A step of a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// Kind of the step, one or two words.
    pub kind: &'static str,
    /// What happened.
    pub said: String,
    /// Why, as far as the strategy or the model said so; may be empty.
    pub why: String,
    /// How long it took, if the step tells.
    pub took: Option<Duration>,
    /// What it touched, as far as the step tells.
    pub touched: Vec<Touched>,
}

impl Step {
    /// Puts a step into words.
    pub fn of(wire: &Wire) -> Self {
        let (kind, said, why) = match wire {
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
        let took = duration(wire);
        Self { kind, said, why: why.to_owned(), took, touched: touched(wire) }
    }
}

/// Returns how long a step took, if it tells.
fn duration(step: &Wire) -> Option<Duration> {
    let took = match step {
        Wire::Searched(step) => step.took,
        Wire::Read(step) => step.took,
        Wire::Drafted(step) => step.took,
        Wire::Judged(_)
        | Wire::Entered(_)
        | Wire::TurnedBack(_)
        | Wire::LeafRead(_)
        | Wire::Walked(_)
        | Wire::EntitiesChosen(_)
        | Wire::EdgeFollowed(_)
        | Wire::Gathered(_)
        | Wire::Reflected(_)
        | Wire::Evolved(_) => None,
    };
    took.and_then(|took| took.try_into().ok())
}

/// Returns what a step touched, each once.
fn touched(step: &Wire) -> Vec<Touched> {
    let entity = |name: &String| Touched::Entity(name.clone());
    let named: Vec<Touched> = match step {
        Wire::Read(step) => step.places.iter().cloned().map(Touched::Passage).collect(),
        Wire::Entered(step) => vec![Touched::Node(step.node.clone())],
        Wire::TurnedBack(step) => vec![Touched::Node(step.node.clone())],
        Wire::LeafRead(step) => vec![Touched::Node(step.node.clone())],
        Wire::EntitiesChosen(step) => step.entities.iter().map(entity).collect(),
        Wire::EdgeFollowed(step) => [&step.head, &step.tail].into_iter().map(entity).collect(),
        Wire::Evolved(step) => {
            step.points.iter().flat_map(|point| &point.entities).map(entity).collect()
        }
        Wire::Searched(_)
        | Wire::Judged(_)
        | Wire::Walked(_)
        | Wire::Gathered(_)
        | Wire::Reflected(_)
        | Wire::Drafted(_) => Vec::new(),
    };
    let mut once = Vec::with_capacity(named.len());
    for one in named {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
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
    use clew_proto::query::v1::{EdgeFollowed, Evolved, Judged, Point, Searched, Walked};

    use super::*;

    #[test]
    fn steps_are_told_in_words() {
        let searched = Step::of(&Wire::Searched(Searched {
            query: "backups".to_owned(),
            mode: SearchMode::Hybrid.into(),
            hits: 1,
            best_dense_score: Some(0.5),
            took: Some(clew_proto::Duration { seconds: 0, nanos: 2_000_000 }),
        }));
        assert_eq!(searched.said, "“backups”, hybrid: 1 passage, the best at 0.500, 2.0 ms");
        assert_eq!(searched.took, Some(Duration::from_millis(2)));
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
    #[test]
    fn a_step_tells_each_thing_that_it_touched_once() {
        let point = |entities: &[&str]| Point {
            entities: entities.iter().map(ToString::to_string).collect(),
            ..Point::default()
        };
        let points = vec![point(&["Ada", "Bob"]), point(&["Bob", "Eve"])];
        let evolved = Step::of(&Wire::Evolved(Evolved { points, ..Evolved::default() }));
        let names: Vec<&str> = evolved.touched.iter().map(Touched::name).collect();
        assert_eq!(names, ["Ada", "Bob", "Eve"]);
        let followed = EdgeFollowed {
            head: "Ada".to_owned(),
            tail: "Eve".to_owned(),
            to: "Eve".to_owned(),
            ..EdgeFollowed::default()
        };
        let followed = Step::of(&Wire::EdgeFollowed(followed));
        let entities = ["Ada", "Eve"].map(|name| Touched::Entity(name.to_owned()));
        assert_eq!(followed.touched, entities);
        assert_eq!(followed.took, None);
    }
}
