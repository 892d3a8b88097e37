//! One step of answering.

use clew_text::display_line;
use serde::{Deserialize, Serialize};

use crate::words::{bytes, cell, count, share, shortened};

/// Maximum width, in columns, of a reason on a step's line.
const MOST_REASON: f64 = 160.0;

/// A range of a stored document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRange {
    /// Id of the document.
    pub document_id: String,
    /// Version of the document.
    #[serde(default)]
    pub version: u64,
    /// Beginning, in bytes of the document's text.
    pub start: u64,
    /// End, in bytes of the document's text.
    pub end: u64,
}

/// A point of a working memory at the end of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracePoint {
    /// Number of the point, from 1, unique within one question.
    pub number: u32,
    /// Change of the point during the step.
    pub fate: TracePointFate,
    /// Names of the entities that it is about.
    pub entities: Vec<String>,
    /// Text of the point.
    pub text: String,
    /// Numbers of the points that it was merged from.
    #[serde(default)]
    pub merged_from: Vec<u32>,
    /// Segments that it comes from.
    #[serde(default)]
    pub segments: Vec<String>,
}

/// A change of a point during a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TracePointFate {
    /// The point is unchanged.
    #[default]
    Kept,
    /// The point has a new text.
    Updated,
    /// The point is new.
    Inserted,
    /// The point was merged from others.
    Merged,
}

impl TracePointFate {
    /// Returns the change in words for a person.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Kept => "as before",
            Self::Updated => "updated",
            Self::Inserted => "new",
            Self::Merged => "merged",
        }
    }
}

/// One step of answering. In JSON, the field `step` holds its kind in snake case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum TraceStep {
    /// Shards were searched.
    Searched {
        /// Text that was searched for.
        query: String,
        /// Search mode: `dense`, `sparse` or `hybrid`.
        mode: String,
        /// Number of items found.
        hits: u64,
        /// Cosine similarity of the best item, if embeddings were compared.
        best_dense_score: Option<f32>,
        /// Duration in milliseconds.
        took_ms: f64,
    },
    /// Retrieval was judged: does it support an answer?
    Judged {
        /// Support, 0 to 1.
        confidence: f32,
        /// Minimum support for a question to count as answered.
        threshold: f32,
        /// Basis of the judgement.
        rationale: String,
    },
    /// The answer was composed from passages.
    Read {
        /// Number of passages read.
        passages: u64,
        /// Number of sentences compared with the question.
        sentences: u64,
        /// Duration in milliseconds.
        took_ms: f64,
        /// The passages, best first.
        #[serde(default)]
        places: Vec<TraceRange>,
    },
    /// A node of the tree was entered.
    Entered {
        /// Name of the node, for people.
        node: String,
        /// The node from which it was entered. Empty at the top.
        parent: String,
        /// Summary of the node.
        summary: String,
        /// Reason for entering it.
        reason: String,
        /// Score of the node, if nodes were scored.
        score: Option<f32>,
    },
    /// The walk turned back from a node whose text or children did not answer.
    TurnedBack {
        /// Name of the node.
        node: String,
        /// Reason for turning back.
        reason: String,
    },
    /// The text of a segment was read at a leaf of the tree.
    LeafRead {
        /// Name of the leaf.
        node: String,
        /// Whether it answers.
        answers: bool,
        /// Reason for the judgement.
        reason: String,
    },
    /// A walk ended.
    Walked {
        /// Number of nodes entered, including segments.
        nodes: u64,
        /// Number of times the walk turned back.
        turns: u64,
        /// Bytes of segments and summaries that were read.
        bytes_read: u64,
        /// Bytes of all text that could have been read.
        bytes_total: u64,
        /// Reason for the end.
        ended: String,
    },
    /// Entities were taken up, so that their segments count as evidence from now on.
    EntitiesChosen {
        /// Names of the entities.
        entities: Vec<String>,
        /// Reason for the choice.
        reason: String,
    },
    /// An edge of the graph was followed to an entity.
    EdgeFollowed {
        /// Name of the entity where the edge starts.
        head: String,
        /// The relation.
        relation: String,
        /// Name of the entity where the edge ends.
        tail: String,
        /// Name of the entity that was reached, one of the two.
        to: String,
        /// Similarity of the edge to what the navigation was looking for.
        score: f32,
        /// Subject that the navigation was looking for.
        reason: String,
    },
    /// A working memory of points went through a step.
    Evolved {
        /// Number of the step, from 0.
        number: u32,
        /// All its points at the end of the step, by number.
        points: Vec<TracePoint>,
        /// Names of entities that points brought in this step and that the graph of the corpus
        /// lacks.
        #[serde(default)]
        brought: Vec<String>,
    },
    /// Segments were gathered as evidence.
    Gathered {
        /// Number of segments.
        segments: u64,
        /// Number of segments left out because the window was full.
        dropped: u64,
        /// Bytes of their texts.
        bytes: u64,
    },
    /// Search queries were drafted from knowledge of the corpus as a whole.
    Drafted {
        /// Number of queries, clues and key points together.
        lines: u64,
        /// Answers of the compressed memories themselves.
        answers: Vec<String>,
        /// Duration in milliseconds.
        took_ms: f64,
    },
    /// The gathered evidence was judged: does it suffice to answer?
    Reflected {
        /// Whether it suffices.
        suffices: bool,
        /// Reason for the judgement.
        reason: String,
        /// Description of what is missing.
        missing: String,
    },
}

impl TraceStep {
    /// Returns the step on one line, for a person.
    pub fn line(&self) -> String {
        match self {
            Self::Searched { hits, took_ms, .. } => {
                format!("searched: {hits} passages in {took_ms:.0} ms")
            }
            Self::Judged { confidence, threshold, rationale } => format!(
                "judged: confidence {confidence:.2}, threshold {threshold:.2} ({})",
                display_line(rationale)
            ),
            Self::Read { passages, sentences, took_ms, .. } => {
                format!("read: {passages} passages, {sentences} sentences in {took_ms:.0} ms")
            }
            Self::Entered { node, reason, score, .. } => {
                let score = score.map(|score| format!(" ({score:.2})")).unwrap_or_default();
                format!("entered {}{score}{}", display_line(node), because(reason))
            }
            Self::TurnedBack { node, reason } => {
                format!("turned back from {}{}", display_line(node), because(reason))
            }
            Self::LeafRead { node, answers, reason } => {
                let answers = if *answers { "it answers" } else { "it does not answer" };
                format!("read leaf {}, {answers}{}", display_line(node), because(reason))
            }
            Self::Walked { nodes, turns, bytes_read, bytes_total, ended } => format!(
                "walked: {}, {}, {}{}",
                count(*nodes, "node", "nodes"),
                count(*turns, "turn back", "turns back"),
                share(*bytes_read, *bytes_total),
                because(ended)
            ),
            Self::EntitiesChosen { entities, reason } => {
                let names = shortened(&entities.join(", "), MOST_REASON, cell);
                format!("took up {names}{}", because(reason))
            }
            Self::EdgeFollowed { head, relation, tail, score, .. } => {
                format!("followed {} ({score:.2})", edge(head, relation, tail))
            }
            Self::Evolved { number, points, .. } => {
                let of = |fate| points.iter().filter(|point| point.fate == fate).count();
                let changed =
                    [TracePointFate::Inserted, TracePointFate::Updated, TracePointFate::Merged]
                        .map(|fate| (of(fate), fate));
                let changed = changed.iter().filter(|(number, _)| *number > 0);
                let changed: Vec<String> =
                    changed.map(|(number, fate)| format!("{number} {}", fate.words())).collect();
                let changed =
                    if changed.is_empty() { "none changed".to_owned() } else { changed.join(", ") };
                let points = count(points.len() as u64, "point", "points");
                format!("memory after step {number}: {points}, {changed}")
            }
            Self::Gathered { segments, dropped, bytes: size } => {
                let dropped = if *dropped > 0 {
                    format!(", {dropped} dropped for want of room")
                } else {
                    String::new()
                };
                let segments = count(*segments, "segment", "segments");
                format!("gathered: {segments}, {}{dropped}", bytes(*size))
            }
            Self::Drafted { lines, answers, took_ms } => {
                let answers = shortened(&answers.join(", "), MOST_REASON, cell);
                let lines = count(*lines, "line", "lines");
                format!("drafted: {lines} in {took_ms:.0} ms{}", because(&answers))
            }
            Self::Reflected { suffices: true, reason, .. } => {
                format!("reflected: it suffices{}", because(reason))
            }
            Self::Reflected { reason, missing, .. } => {
                let why = if missing.trim().is_empty() { reason } else { missing };
                format!("reflected: it does not suffice{}", because(why))
            }
        }
    }
}

/// Returns an edge with an arrow.
pub(crate) fn edge(head: &str, relation: &str, tail: &str) -> String {
    format!("{} -- {} --> {}", display_line(head), display_line(relation), display_line(tail))
}

fn because(reason: &str) -> String {
    let reason = shortened(reason, MOST_REASON, cell);
    if reason.is_empty() { reason } else { format!(": {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_was_done() {
        let check = |json: &str, expected: &str| {
            let step: TraceStep = serde_json::from_str(json).unwrap();
            assert_eq!(step.line(), expected);
        };
        check(
            r#"{"step":"searched","query":"q","mode":"hybrid","hits":3,"took_ms":12.4}"#,
            "searched: 3 passages in 12 ms",
        );
        check(
            r#"{"step":"judged","confidence":0.9,"threshold":0.5,"rationale":"it\nsays"}"#,
            "judged: confidence 0.90, threshold 0.50 (it says)",
        );
        check(
            r#"{"step":"read","passages":3,"sentences":20,"took_ms":7.5}"#,
            "read: 3 passages, 20 sentences in 8 ms",
        );
        check(
            r#"{"step":"entered","node":"d#1.0","parent":"","summary":"s","reason":"","score":0.5}"#,
            "entered d#1.0 (0.50)",
        );
        check(
            r#"{"step":"turned_back","node":"d#1.0","reason":"nothing"}"#,
            "turned back from d#1.0: nothing",
        );
        check(
            r#"{"step":"leaf_read","node":"d#0.0","answers":true,"reason":"it says"}"#,
            "read leaf d#0.0, it answers: it says",
        );
        check(
            r#"{"step":"walked","nodes":1,"turns":2,"bytes_read":50,"bytes_total":2000,"ended":"x"}"#,
            "walked: 1 node, 2 turns back, 50 bytes of 2.0 kB read (2.5 %): x",
        );
        check(
            r#"{"step":"entities_chosen","entities":["A","B"],"reason":"named"}"#,
            "took up A, B: named",
        );
        check(
            r#"{"step":"edge_followed","head":"A","relation":"r","tail":"B","to":"B","score":0.53,"reason":""}"#,
            "followed A -- r --> B (0.53)",
        );
        check(
            r#"{"step":"evolved","number":1,"points":[
                {"number":1,"fate":"kept","entities":["A","B"],"text":"t"},
                {"number":2,"fate":"inserted","entities":["A","C"],"text":"u"}]}"#,
            "memory after step 1: 2 points, 1 new",
        );
        check(
            r#"{"step":"gathered","segments":1,"dropped":2,"bytes":1200}"#,
            "gathered: 1 segment, 1.2 kB, 2 dropped for want of room",
        );
        check(
            r#"{"step":"reflected","suffices":false,"reason":"r","missing":"the builder"}"#,
            "reflected: it does not suffice: the builder",
        );
    }
}
