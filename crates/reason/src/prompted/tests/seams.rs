//! Implementations of the core's traits, with a scripted model.

use clew_core::{
    Assignment, Evidence, ExtractionTask, GraphBuilder, Reasoner, Span, SummaryLevel, SummaryTask,
};

use super::super::*;
use super::runner::{Scripted, soon};
use crate::extractive::fixtures::passage;

const GIFT: &str = "Ariadne gave Theseus a ball of thread. He tied it to the gate.";
const FIGHT: &str = "Theseus killed the Minotaur.  He followed\nthe thread out.";

/// Returns two passages, of which the better one, the gift, comes last.
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
    let reading =
        prompted.read(&Assignment::new("How did he get out?", &evidence()), soon()).await.unwrap();
    assert!(model.last_prompt().contains(&format!("[1]\n{GIFT}\n\n[2]\n{FIGHT}")));
    let cited: Vec<(&str, Span, &str)> = reading
        .citations
        .iter()
        .map(|citation| (citation.document_id.as_str(), citation.span, citation.quote.as_str()))
        .collect();
    let expected = [
        ("gift", Span::new(28, 44), "a ball of thread"),
        ("fight", Span::new(130, 157), "He followed\nthe thread out."),
        // A quote that does not occur cites the whole passage.
        ("fight", Span::new(100, 157), FIGHT),
    ];
    assert_eq!(cited, expected);
    assert_eq!((reading.text.as_str(), reading.threshold), ("By a thread.", 0.5));
    // Three of four quotes occur.
    assert_eq!(reading.confidence, 0.875);
    assert_eq!(reading.rationale, "[1] She gave a thread.");
    assert_eq!(reading.cost.model_calls, 1);
}

#[tokio::test]
async fn what_has_a_time_is_read_in_its_order_and_cited_by_its_number_there() {
    let reply = r#"{"notes": [{"passage": 1, "note": "First."}], "suffices": true,
        "answer": "By a thread.", "citations": [{"passage": 3, "quote": "a ball of thread"}]}"#;
    let time = |time: &str| time.parse().ok();
    // Best first: the second turn of a day, a passage without time, the day before, the first turn.
    let evidence = [
        Evidence { event_time: time("2024-05-21"), ..passage("turn-2", 7, GIFT, 0.9) },
        passage("timeless", 0, "A myth.", 0.8),
        Evidence { event_time: time("2024-05-20"), ..passage("before", 100, FIGHT, 0.7) },
        Evidence { event_time: time("2024-05-21"), ..passage("turn-1", 0, "Oh!", 0.6) },
    ];
    let model = Scripted::new(8000, &[reply, reply]);
    let prompted = Prompted::new(model.clone());
    let assignment =
        Assignment { asked_at: time("2024-05-22"), ..Assignment::new("How?", &evidence) };
    let reading = prompted.read(&assignment, soon()).await.unwrap();
    let prompt = model.last_prompt();
    let places = [r#"{"passage": 1, "day": "Monday, "#, r#""text": "Oh!"}"#, GIFT, "A myth."]
        .map(|text| prompt.find(text).unwrap_or_else(|| panic!("{text} in {prompt}")));
    assert!(places.is_sorted(), "{prompt}");
    assert_eq!(reading.citations[0].document_id.as_str(), "turn-2");
    assert_eq!(reading.confidence, 1.0);
    assert_eq!(reading.rationale, "[3] First.", "notes are told by rank");
    let assignment = Assignment::new("How?", &evidence);
    prompted.read(&assignment, soon()).await.unwrap();
    assert!(model.last_prompt().contains(&format!("[1] (Tuesday, 2024-05-21)\n{GIFT}")));
}

#[tokio::test]
async fn what_is_too_much_in_the_order_of_time_is_the_worst_and_not_the_last() {
    let reply = r#"{"notes": [], "suffices": true, "answer": "So.",
        "citations": [{"passage": 2, "quote": "best"}]}"#;
    let told = |document: &str, time: &str, score| Evidence {
        event_time: time.parse().ok(),
        ..passage(document, 0, &format!("{document} ").repeat(300), score)
    };
    let evidence = [
        told("worst", "2024-05-20", 0.1),
        told("good", "2024-05-21", 0.5),
        told("best", "2024-05-22", 0.9),
    ];
    let model = Scripted::new(3400, &[reply]);
    let prompted = Prompted::new(model.clone());
    let asked_at = "2024-05-23".parse().ok();
    let assignment = Assignment { asked_at, ..Assignment::new("Which?", &evidence) };
    let reading = prompted.read(&assignment, soon()).await.unwrap();
    let prompt = model.last_prompt();
    assert!(!prompt.contains("worst"), "{prompt}");
    assert!(prompt.find("good good") < prompt.find("best best") && prompt.contains("good good"));
    assert_eq!(reading.citations[0].document_id.as_str(), "best");
}

#[tokio::test]
async fn what_the_evidence_does_not_say_is_not_answered() {
    let reply =
        r#"{"notes": [], "suffices": false, "answer": "Perhaps by boat.", "citations": []}"#;
    let prompted = Prompted::new(Scripted::new(8000, &[reply]));
    let reading =
        prompted.read(&Assignment::new("How did he get home?", &evidence()), soon()).await.unwrap();
    assert_eq!((reading.confidence, reading.text.as_str()), (0.0, ""));
    assert!(reading.confidence < reading.threshold && reading.citations.is_empty());
}

#[tokio::test]
async fn without_evidence_the_model_is_not_asked() {
    let prompted = Prompted::new(Scripted::new(8000, &[]));
    for evidence in [vec![], vec![passage("blank", 0, " \n", 1.0)]] {
        let reading = prompted.read(&Assignment::new("How?", &evidence), soon()).await.unwrap();
        assert_eq!((reading.confidence, reading.cost.model_calls), (0.0, 0));
    }
    let broken = Evidence { span: Span::new(0, 1), ..passage("broken", 0, GIFT, 1.0) };
    let error = prompted.read(&Assignment::new("How?", &[broken]), soon()).await.unwrap_err();
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

const NAMED: &str = r#"{"entities": [{"name": "Theseus", "kind": "person"},
    {"name": "Ariadne", "kind": "person"}]}"#;
const RELATED: &str =
    r#"{"relations": [{"head": 1, "relation": "gave to", "tail": 2, "quote": "gave Theseus"}]}"#;
const ASKED: &str = r#"{"questions": ["Where did he tie the thread?",
    "Where did he tie the red thread?", "Who had a ball?"]}"#;

/// Returns the replies for a passage that is read for two of the model's own questions.
fn doubts() -> [&'static str; 7] {
    let (at_gate, tied) = (
        r#"{"entities": [{"name": "gate", "kind": "place"}, {"name": "thread", "kind": "other"},
            {"name": "Theseus", "kind": "person"}]}"#,
        r#"{"relations": [
            {"head": "thread", "relation": "was tied to", "tail": "gate", "quote": "tied it"},
            {"head": "Ariadne", "relation": "gave to", "tail": "Theseus", "quote": ""}]}"#,
    );
    let (ball, held) = (
        r#"{"entities": [{"name": "Minos", "kind": "person"}]}"#,
        r#"{"relations": [
            {"head": "Ariadne", "relation": "had", "tail": "thread", "quote": "a ball of thread"},
            {"head": "thread", "relation": "was tied to", "tail": "gate", "quote": "tied it"}]}"#,
    );
    [NAMED, RELATED, ASKED, at_gate, tied, ball, held]
}

fn gift() -> ExtractionTask {
    let (text, background) = (GIFT.to_owned(), "A tale of Crete.".to_owned());
    ExtractionTask { text, background, ..ExtractionTask::default() }
}

/// Returns the entities, and the relations as sentences.
fn told(found: &clew_core::Extraction) -> (Vec<&str>, Vec<String>) {
    let names: Vec<&str> = found.entities.iter().map(|entity| entity.name.as_str()).collect();
    let sentence = |relation: &clew_core::Relation| {
        format!("{} {} {}", names[relation.head], relation.text, names[relation.tail])
    };
    let relations = found.relations.iter().map(sentence).collect();
    (names, relations)
}

#[tokio::test]
async fn a_passage_is_read_again_for_questions_about_it() {
    let model = Scripted::new(8000, &doubts());
    let prompted = Prompted::new(model.clone()).with_questions(5);
    let found = prompted.extract(vec![gift()], soon()).await.unwrap();
    let (names, relations) = told(&found[0]);
    // Each once and in text order; the passage does not name Minos.
    assert_eq!(names, ["Ariadne", "Theseus", "thread", "gate"]);
    let expected = ["Ariadne gave to Theseus", "Ariadne had thread", "thread was tied to gate"];
    assert_eq!(relations, expected);
    // Three questions, of which two are kept: 2 + 1 + 2 * 2 calls.
    assert_eq!(found[0].cost.model_calls, 7);
    let asked = model.asked.lock().unwrap();
    let prompts: Vec<&str> =
        asked.iter().map(|request| request.messages[1].text.as_str()).collect();
    assert!(prompts[2].contains("[1] Ariadne gave to Theseus"), "{}", prompts[2]);
    assert!(prompts[2].contains("A tale of Crete."));
    for (call, question) in [(3, "tie the thread?"), (4, "tie the thread?"), (5, "a ball?")] {
        assert!(prompts[call].contains(question), "{}", prompts[call]);
    }
    // Entities found for one question are known for the next.
    assert!(prompts[6].contains("gate") && prompts[6].contains("Who had a ball?"));
}

#[tokio::test]
async fn passages_are_read_once_by_default_and_for_a_given_question() {
    let given = ExtractionTask { question: "Who gave it?".to_owned(), ..gift() };
    for (most, task) in [(0, gift()), (5, given)] {
        let model = Scripted::new(8000, &doubts());
        let prompted = Prompted::new(model.clone()).with_questions(most);
        let found = prompted.extract(vec![task], soon()).await.unwrap();
        assert_eq!(told(&found[0]).0, ["Ariadne", "Theseus"]);
        assert_eq!(found[0].cost.model_calls, 2);
    }
    let prompted = Prompted::new(Scripted::new(8000, &doubts()));
    let found = prompted.extract(vec![gift()], soon()).await.unwrap();
    assert_eq!(found[0].cost.model_calls, 2);
}

#[tokio::test]
async fn no_more_questions_are_asked_than_wanted() {
    let model = Scripted::new(8000, &doubts());
    let prompted = Prompted::new(model.clone()).with_questions(1);
    let found = prompted.extract(vec![gift()], soon()).await.unwrap();
    assert_eq!(found[0].cost.model_calls, 5);
}

#[tokio::test]
async fn a_spent_budget_ends_the_questions_and_other_failures_the_task() {
    for calls in 2..7 {
        let budget = Budget { calls, ..Budget::default() };
        let model = Scripted::new(8000, &doubts());
        let prompted = Prompted::new(model.clone()).with_budget(budget).with_questions(5);
        let found = prompted.extract(vec![gift()], soon()).await.unwrap();
        let (names, relations) = told(&found[0]);
        assert_eq!(names.len(), if calls > 3 { 4 } else { 2 });
        assert_eq!(relations.len(), if calls > 4 { 2 } else { 1 });
        assert_eq!(found[0].cost.model_calls, calls);
    }
    let budget = Budget { calls: 1, ..Budget::default() };
    let prompted = Prompted::new(Scripted::new(8000, &doubts())).with_budget(budget);
    let error = prompted.with_questions(5).extract(vec![gift()], soon()).await.unwrap_err();
    assert_eq!(error.reason(), "BUDGET_SPENT");

    let prompted = Prompted::new(Scripted::new(8000, &doubts()[..4])).with_questions(5);
    let error = prompted.extract(vec![gift()], soon()).await.unwrap_err();
    assert_eq!(error.reason(), "MODEL_GONE");
}
