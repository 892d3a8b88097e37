//! The seams of the core, on a scripted model.

use clew_core::{
    Evidence, ExtractionTask, GraphBuilder, Reasoner, Span, SummaryLevel, SummaryTask,
};

use super::super::*;
use super::runner::{Scripted, soon};
use crate::extractive::fixtures::passage;

const GIFT: &str = "Ariadne gave Theseus a ball of thread. He tied it to the gate.";
const FIGHT: &str = "Theseus killed the Minotaur.  He followed\nthe thread out.";

/// The gift is the better passage but comes last.
fn evidence() -> Vec<Evidence> {
    vec![passage("fight", 100, FIGHT, 0.1), passage("gift", 7, GIFT, 0.9)]
}

#[tokio::test]
async fn an_answer_cites_where_its_quotes_stand() {
    let reply = r#"{"notes": [{"passage": 1, "note": "She gave a thread."}], "suffices": true,
        "answer": "By a thread.", "citations": [
            {"passage": 1, "quote": "a ball of thread"},
            {"passage": 2, "quote": "He followed the thread out."},
            {"passage": 2, "quote": "He flew away."},
            {"passage": 1, "quote": "a ball of thread"}]}"#;
    let model = Scripted::new(8000, &[reply]);
    let prompted = Prompted::new(model.clone());
    let reading = prompted.read("How did he get out?", &evidence(), soon()).await.unwrap();
    assert!(model.last_prompt().contains(&format!("[1]\n{GIFT}\n\n[2]\n{FIGHT}")));
    let cited: Vec<(&str, Span, &str)> = reading
        .citations
        .iter()
        .map(|citation| (citation.document_id.as_str(), citation.span, citation.quote.as_str()))
        .collect();
    let expected = [
        ("gift", Span::new(28, 44), "a ball of thread"),
        ("fight", Span::new(130, 157), "He followed\nthe thread out."),
        // What stands nowhere is the whole passage.
        ("fight", Span::new(100, 157), FIGHT),
    ];
    assert_eq!(cited, expected);
    assert_eq!((reading.text.as_str(), reading.threshold), ("By a thread.", 0.5));
    // Three of four quotes are true.
    assert_eq!(reading.confidence, 0.875);
    assert_eq!(reading.rationale, "[1] She gave a thread.");
    assert_eq!(reading.cost.model_calls, 1);
}

#[tokio::test]
async fn what_the_evidence_does_not_say_is_not_answered() {
    let reply =
        r#"{"notes": [], "suffices": false, "answer": "Perhaps by boat.", "citations": []}"#;
    let prompted = Prompted::new(Scripted::new(8000, &[reply]));
    let reading = prompted.read("How did he get home?", &evidence(), soon()).await.unwrap();
    assert_eq!((reading.confidence, reading.text.as_str()), (0.0, ""));
    assert!(reading.confidence < reading.threshold && reading.citations.is_empty());
}

#[tokio::test]
async fn without_evidence_the_model_is_not_asked() {
    let prompted = Prompted::new(Scripted::new(8000, &[]));
    for evidence in [vec![], vec![passage("blank", 0, " \n", 1.0)]] {
        let reading = prompted.read("How?", &evidence, soon()).await.unwrap();
        assert_eq!((reading.confidence, reading.cost.model_calls), (0.0, 0));
    }
    let broken = Evidence { span: Span::new(0, 1), ..passage("broken", 0, GIFT, 1.0) };
    let error = prompted.read("How?", &[broken], soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[tokio::test]
async fn summaries_come_in_the_order_of_their_tasks() {
    let model = Scripted::new(8000, &["The first.", "The third is much too long."]);
    let prompted = Prompted::new(model.clone()).with_tasks_at_once(2);
    let task = |text: &str| SummaryTask {
        level: SummaryLevel::Leaf,
        parts: vec![text.to_owned(), " ".to_owned()],
        max_bytes: 12,
    };
    let tasks = vec![task("One."), task(""), task("Three.")];
    let summaries = prompted.summarise(tasks.clone(), soon()).await.unwrap();
    let said: Vec<&str> = summaries.iter().map(|summary| summary.text.as_str()).collect();
    assert_eq!(said, ["The first.", "", "The third is"]);
    assert!(summaries.iter().zip(&tasks).all(|(said, task)| said.text.len() <= task.max_bytes));
    assert_eq!(summaries[1].cost.model_calls, 0);
    let none = SummaryTask { parts: Vec::new(), ..tasks[0].clone() };
    let error = prompted.summarise(vec![none], soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn entities_and_relations_stand_in_the_passage() {
    let named = r#"{"entities": [{"name": "Theseus", "kind": "person"},
        {"name": "Minos", "kind": "person"}, {"name": "Homer", "kind": "other"},
        {"name": "Ariadne", "kind": "person"}]}"#;
    let related = r#"{"relations": [
        {"head": 2, "relation": "lives near", "tail": 1, "quote": "no such words"},
        {"head": 1, "relation": "was given", "tail": 2, "quote": "gave Theseus"},
        {"head": 1, "relation": "is", "tail": 1, "quote": ""}]}"#;
    let model = Scripted::new(8000, &[named, related]);
    let prompted = Prompted::new(model.clone());
    let task = ExtractionTask {
        text: GIFT.to_owned(),
        speaker: "Homer".to_owned(),
        ..ExtractionTask::default()
    };
    let blank = ExtractionTask::default();
    let found = prompted.extract(vec![blank, task], soon()).await.unwrap();
    assert_eq!(found[0], clew_core::Extraction::default());
    let names: Vec<&str> = found[1].entities.iter().map(|entity| entity.name.as_str()).collect();
    assert_eq!(names, ["Ariadne", "Theseus", "Homer"]);
    assert!(model.last_prompt().contains("[1] Ariadne\n\n[2] Theseus\n\n[3] Homer"));
    for entity in &found[1].entities {
        assert!(entity.mentions.iter().all(|span| span.of(GIFT) == Some(&entity.name)));
    }
    let relations: Vec<(&str, &str)> = found[1]
        .relations
        .iter()
        .map(|relation| (relation.text.as_str(), relation.evidence.of(GIFT).unwrap()))
        .collect();
    let gave = "Ariadne gave Theseus a ball of thread.";
    assert_eq!(relations, [("was given", gave), ("lives near", GIFT)]);
    assert!(!found[1].key_phrases.is_empty());
    assert_eq!(found[1].cost.model_calls, 2);
}
