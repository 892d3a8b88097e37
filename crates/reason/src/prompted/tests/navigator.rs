//! The navigator, with a scripted model.

use clew_core::{
    Assignment, ChildChoice, EntityChoice, Evidence, Navigator, Reasoner, Reflection, Span,
    TriageStep,
};

use super::super::*;
use super::runner::{Scripted, soon};
use crate::extractive::fixtures::passage;

const GIFT: &str = "Ariadne gave Theseus a ball of thread. He tied it to the gate.";
const QUESTION: &str = "How did Theseus find his way out?";

fn children(may_turn_back: bool) -> ChildChoice {
    ChildChoice {
        question: QUESTION.to_owned(),
        memory: vec!["It is about Crete.".to_owned()],
        summaries: vec!["A thread.".to_owned(), "A maze.".to_owned()],
        found: vec![0.0, 0.93],
        may_turn_back,
    }
}

fn gift() -> Evidence {
    passage("gift", 7, GIFT, 0.9)
}

#[tokio::test]
async fn a_child_is_entered_or_turned_back_from_and_hints_are_not_shown() {
    let model = Scripted::new(8000, &["Reasoning: It leads out.\nAction: 1", "Action: back"]);
    let prompted = Prompted::new(model.clone());
    let triage = prompted.choose_child(&children(true), soon()).await.unwrap();
    let step = TriageStep::Enter(0);
    assert_eq!((triage.reasoning.as_str(), triage.step), ("It leads out.", step));
    assert_eq!(triage.cost.model_calls, 1);
    assert!(triage.cost.prompt_tokens > 0 && triage.cost.completion_tokens > 0);
    let prompt = model.last_prompt();
    assert!(prompt.contains("It is about Crete.") && prompt.contains("[2] A maze."));
    assert!(!prompt.contains("0.9"));
    let triage = prompted.choose_child(&children(true), soon()).await.unwrap();
    assert_eq!(triage.step, TriageStep::TurnBack);
}

#[tokio::test]
async fn the_top_is_not_turned_back_from() {
    let prompted = Prompted::new(Scripted::new(8000, &["Action: back", "Action: 2"]));
    let triage = prompted.choose_child(&children(false), soon()).await.unwrap();
    assert_eq!((triage.step, triage.cost.model_calls), (TriageStep::Enter(1), 2));
}

#[tokio::test]
async fn every_step_fails_after_three_unreadable_replies() {
    let evidence = [gift()];
    let names = ["Minos".to_owned()];
    let entities = EntityChoice {
        question: QUESTION.to_owned(),
        candidates: names.to_vec(),
        most: 1,
        ..EntityChoice::default()
    };
    for step in 0..6 {
        let model = Scripted::new(8000, &["Hm.", "Well?", "I could not say."]);
        let prompted = Prompted::new(model.clone());
        let error = match step {
            0 => prompted.choose_child(&children(true), soon()).await.unwrap_err(),
            1 => prompted.read_leaf(QUESTION, &[], &gift(), soon()).await.unwrap_err(),
            2 => prompted.judge(QUESTION, &evidence, soon()).await.unwrap_err(),
            3 => prompted.name_entities(QUESTION, soon()).await.unwrap_err(),
            4 => prompted.choose_entities(&entities, soon()).await.unwrap_err(),
            _ => prompted.elaborate(QUESTION, &names, soon()).await.unwrap_err(),
        };
        assert_eq!(error.reason(), "UNREADABLE_REPLY", "step {step}");
        assert_eq!(model.temperatures().len(), 3, "step {step}");
    }
}

#[tokio::test]
async fn an_answer_from_a_leaf_cites_where_its_quote_stands() {
    let reply = |quote: &str| {
        format!(
            r#"{{"reasoning": "It says so.", "action": "answer", "answer": "By a thread.", "quote": "{quote}"}}"#
        )
    };
    let replies = ["a ball  of thread", "a red thread", ""].map(reply);
    let model = Scripted::new(8000, &replies.each_ref().map(String::as_str));
    let prompted = Prompted::new(model.clone());
    let mut leaf = gift();
    leaf.title = "The gift".to_owned();
    leaf.event_time = "2024-05-20".parse().ok();
    let memory = ["It is about Crete.".to_owned()];
    for (span, quote, confidence) in [
        (Span::new(28, 44), "a ball of thread", 1.0),
        // A quote that does not occur cites the whole leaf, and so does an empty quote.
        (leaf.span, GIFT, 0.5),
        (leaf.span, GIFT, 0.5),
    ] {
        let read = prompted.read_leaf(QUESTION, &memory, &leaf, soon()).await.unwrap();
        let answer = read.answer.unwrap();
        let [citation] = &answer.citations[..] else { panic!("{answer:?}") };
        assert_eq!((citation.span, citation.quote.as_str()), (span, quote));
        assert_eq!((&citation.document_id, citation.version), (&leaf.document_id, leaf.version));
        assert_eq!((answer.confidence, answer.threshold), (confidence, 0.5));
        assert_eq!(
            (answer.text.as_str(), answer.rationale.as_str()),
            ("By a thread.", "It says so.")
        );
        assert_eq!(read.reasoning, answer.rationale);
        assert_eq!((read.cost.model_calls, read.cost), (1, answer.cost));
    }
    let prompt = model.last_prompt();
    assert!(prompt.contains("It is about Crete."));
    assert!(prompt.ends_with(&format!("The gift (Monday, 2024-05-20)\n{GIFT}")), "{prompt}");
}

#[tokio::test]
async fn a_leaf_that_does_not_answer_is_turned_back_from() {
    let reply = r#"{"reasoning": "No.", "action": "back", "answer": "", "quote": ""}"#;
    let prompted = Prompted::new(Scripted::new(8000, &[reply]));
    let read = prompted.read_leaf(QUESTION, &[], &gift(), soon()).await.unwrap();
    assert_eq!((read.answer, read.reasoning.as_str(), read.cost.model_calls), (None, "No.", 1));
    // The model is not called for an empty leaf: the script has no reply left.
    let blank = passage("blank", 0, " \n", 1.0);
    let read = prompted.read_leaf(QUESTION, &[], &blank, soon()).await.unwrap();
    assert_eq!((read.answer, read.cost.model_calls), (None, 0));
    let broken = Evidence { span: Span::new(0, 1), ..gift() };
    let error = prompted.read_leaf(QUESTION, &[], &broken, soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[tokio::test]
async fn evidence_is_judged_best_first_and_what_is_missing_is_told() {
    let reply =
        r#"{"reasoning": "Only half is told.", "suffices": false, "missing": "who waited"}"#;
    let model = Scripted::new(8000, &[reply]);
    let prompted = Prompted::new(model.clone());
    let fight = passage("fight", 0, "Theseus killed the Minotaur.", 0.1);
    let judged = prompted.judge(QUESTION, &[fight, gift()], soon()).await.unwrap();
    let Reflection { reasoning, suffices, missing, cost } = judged;
    assert_eq!((reasoning.as_str(), suffices), ("Only half is told.", false));
    assert_eq!((missing.as_str(), cost.model_calls), ("who waited", 1));
    assert!(model.last_prompt().contains(&format!("[1]\n{GIFT}\n\n[2]\nTheseus killed")));
    // Without evidence nothing suffices, and the model is not called.
    let judged = prompted.judge(QUESTION, &[], soon()).await.unwrap();
    assert!(!judged.suffices && judged.cost.model_calls == 0);
    assert_eq!(
        judged.reasoning,
        prompted.read(&Assignment::new(QUESTION, &[]), soon()).await.unwrap().rationale
    );
}

#[tokio::test]
async fn entities_of_a_question_are_named_by_the_model() {
    let reply = r#"{"entities": [{"name": "Theseus", "kind": "person"}]}"#;
    let model = Scripted::new(8000, &[reply]);
    let prompted = Prompted::new(model.clone());
    let named = prompted.name_entities(QUESTION, soon()).await.unwrap();
    assert_eq!((named.texts, named.cost.model_calls), (vec!["Theseus".to_owned()], 1));
    let prompt = model.last_prompt();
    assert!(prompt.ends_with(&format!("Passage:\n{QUESTION}")), "{prompt}");
    assert!(prompt.contains("Background: (none)"), "{prompt}");
    let named = prompted.name_entities(" ", soon()).await.unwrap();
    assert_eq!((named.texts.len(), named.cost.model_calls), (0, 0));
}

#[tokio::test]
async fn entities_to_look_at_are_chosen_among_the_candidates() {
    let replies = ["Entities: 4", "Entities: Daedalus", "{entities: [2, 1, 2, 3]}"];
    let model = Scripted::new(8000, &replies);
    let prompted = Prompted::new(model.clone());
    let choice = EntityChoice {
        question: QUESTION.to_owned(),
        reason: "Nobody is told of.".to_owned(),
        known: vec!["Theseus".to_owned(), "Crete".to_owned()],
        candidates: ["Minos", "Ariadne", "the gate"].map(str::to_owned).to_vec(),
        most: 2,
    };
    let (chosen, cost) = prompted.choose_entities(&choice, soon()).await.unwrap();
    assert_eq!((chosen, cost.model_calls), (vec![1, 0], 3));
    let prompt = model.last_prompt();
    assert!(prompt.contains("Nobody is told of.") && prompt.contains("Theseus; Crete"));
    assert!(prompt.contains("[1] Minos\n\n[2] Ariadne"), "{prompt}");
    let none = EntityChoice { candidates: Vec::new(), ..choice };
    let error = prompted.choose_entities(&none, soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_question_is_elaborated_with_relations_into_three_queries_at_most() {
    let reply = "1. Who gave it?\n2. What was it?\n3. Where was it tied?\n4. Who was he?";
    let model = Scripted::new(8000, &[reply]);
    let prompted = Prompted::new(model.clone());
    let relations = ["Ariadne gave a thread to Theseus".to_owned()];
    let named = prompted.elaborate(QUESTION, &relations, soon()).await.unwrap();
    assert_eq!(named.texts, ["Who gave it?", "What was it?", "Where was it tied?"]);
    assert_eq!(named.cost.model_calls, 1);
    assert!(model.last_prompt().ends_with("[1] Ariadne gave a thread to Theseus"));
    // Without relations there is nothing to elaborate with.
    let named = prompted.elaborate(QUESTION, &[], soon()).await.unwrap();
    assert_eq!((named.texts, named.cost.model_calls), (vec![QUESTION.to_owned()], 0));
}

#[tokio::test]
async fn descriptions_of_one_relation_are_fused_by_one_call() {
    let model = Scripted::new(8000, &["She gave him a thread and saved him."]);
    let prompted = Prompted::new(model.clone());
    let told = ["Ariadne gave a thread to Theseus", "Ariadne saved Theseus"].map(str::to_owned);
    let subject = "Ariadne and Theseus";
    let (fused, cost) = prompted.fuse(QUESTION, subject, &told, soon()).await.unwrap();
    assert_eq!((fused.as_str(), cost.model_calls), ("She gave him a thread and saved him.", 1));
    let prompt = model.last_prompt();
    for part in [QUESTION, subject, "[1] Ariadne gave a thread", "[2] Ariadne saved"] {
        assert!(prompt.contains(part), "{prompt}");
    }
    // A single description needs no call.
    let (fused, cost) = prompted.fuse(QUESTION, subject, &told[..1], soon()).await.unwrap();
    assert_eq!((fused.as_str(), cost.model_calls), (told[0].as_str(), 0));
}

#[tokio::test]
async fn choices_between_nothing_are_refused_before_the_model_is_asked() {
    let prompted = Prompted::new(Scripted::new(8000, &[]));
    let choice = ChildChoice { found: vec![0.5], ..children(true) };
    let error = prompted.choose_child(&choice, soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let choice = ChildChoice::default();
    let error = prompted.choose_child(&choice, soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
