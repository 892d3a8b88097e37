//! A sample of each act, with replies that it has to parse.

use std::fmt::Debug;

use clew_core::{
    GradingRule, MemoryPoint, Notes, PassageLayout, ReadingStrategy, Rewording, SummaryLevel, Task,
};

use super::super::*;

/// Callback for each act.
pub(super) trait Visitor {
    fn visit<A: Act<Output: Debug + PartialEq> + Debug>(&mut self, act: A, replies: &[&str]);
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

fn passage(title: &str, time: &str, text: &str) -> Passage {
    Passage { title: title.to_owned(), time: time.parse().ok(), text: text.to_owned() }
}

fn passages() -> Vec<Passage> {
    let gift = "Ariadne gave Theseus a ball of thread. He tied it to the gate.";
    let fight = "Theseus killed the Minotaur and followed the thread out.";
    vec![passage("The gift", "2024-05-20", gift), passage("", "", fight)]
}

fn points() -> Vec<MemoryPoint> {
    let point = |entities, text: &str| MemoryPoint { entities, text: text.to_owned() };
    vec![
        point(texts(["Ariadne", "Theseus"]), "Ariadne gave Theseus a ball of thread."),
        point(texts(["Theseus", "Minotaur"]), "Theseus killed the Minotaur."),
        point(texts(["Daedalus", "Labyrinth"]), "Daedalus built the Labyrinth."),
    ]
}

/// Passes a sample of every act, and of every prompt, to `visitor`.
pub(super) fn visit_all(visitor: &mut impl Visitor) {
    let question = "How did Theseus find his way out?".to_owned();
    let background = "A myth of Crete.".to_owned();
    let text = "Ariadne gave Theseus a ball of thread. He tied it to the gate.".to_owned();
    let monday = "2024-05-20T09:30:00Z".parse().unwrap();
    for level in [SummaryLevel::Leaf, SummaryLevel::Inner] {
        let texts = texts(["Ariadne gave a thread.", "Theseus found the way out."]);
        let replies =
            ["A thread led out.", "Summary: A thread led out.", "{\"summary\": \"A thread.\"}"];
        visitor.visit(Summarise { level, texts, max_bytes: 200 }, &replies);
    }
    for may_turn_back in [false, true] {
        let act = ChooseChild {
            question: question.clone(),
            memory: texts(["It is about Crete."]),
            summaries: texts(["Ariadne gives a thread.", "Daedalus builds a maze."]),
            may_turn_back,
        };
        let replies = [
            r#"{"reasoning": "The thread matters.", "action": "1"}"#,
            "Reasoning: The first tells of the thread.\nAction: 1",
            "{'action': 2}",
        ];
        visitor.visit(act, &replies);
    }
    let act = ReadLeaf {
        question: question.clone(),
        memory: texts(["It is about Crete."]),
        leaf: passage("The gift", "2024-05-20", &text),
    };
    let replies = [
        r#"{"reasoning": "It says so.", "action": "answer", "answer": "By the thread.",
            "quote": "a ball of thread"}"#,
        r#"{"reasoning": "It says so.", "action": "answer", "answer": "By the thread."}"#,
        r#"{"reasoning": "It does not say.", "action": "back", "answer": "", "quote": ""}"#,
        "Reasoning: It does not say.\nAction: back\nAnswer: none",
    ];
    visitor.visit(act, &replies);
    let act = NameEntities {
        text: text.clone(),
        background: background.clone(),
        question: question.clone(),
        speaker: "Homer".to_owned(),
    };
    let replies = [
        r#"{"entities": [{"name": "Ariadne", "kind": "person"}, {"name": "gate", "kind": "other"}]}"#,
        r#"{"entities": []}"#,
        "- Ariadne | person\n- Theseus | person",
    ];
    visitor.visit(act, &replies);
    let act = RelateEntities {
        text: text.clone(),
        entities: texts(["Ariadne", "Theseus"]),
        background: background.clone(),
        question: question.clone(),
    };
    let replies = [
        r#"{"relations": [{"head": 1, "relation": "gave a thread to", "tail": 2, "quote": "Ariadne gave"}]}"#,
        "Ariadne | gave a thread to | Theseus",
        "None",
    ];
    visitor.visit(act, &replies);
    let act = AskQuestions {
        text: text.clone(),
        background: background.clone(),
        known: texts(["Ariadne gave a thread to Theseus"]),
        most: 3,
    };
    let replies =
        [r#"{"questions": ["Who made the thread?"]}"#, "1. Who made it?\n2. Why did she help?"];
    visitor.visit(act, &replies);
    let act = MergeDescriptions {
        subject: "Theseus".to_owned(),
        descriptions: texts(["A prince of Athens.", "He killed the Minotaur."]),
        question: question.clone(),
    };
    visitor.visit(act, &["A prince of Athens who killed the Minotaur."]);
    let act = JudgeEvidence { question: question.clone(), passages: passages() };
    let replies = [
        r#"{"reasoning": "It is told.", "suffices": true, "missing": ""}"#,
        "Reasoning: Unclear.\nSuffices: no\nMissing: who gave the thread",
    ];
    visitor.visit(act, &replies);
    let read = ReadEvidence {
        task: Task::Answer,
        question: question.clone(),
        asked_at: Some(monday),
        points: points(),
        passages: passages(),
        order: vec![1, 0],
        reading: ReadingStrategy::default(),
    };
    let direct = ReadEvidence {
        reading: ReadingStrategy { notes: Notes::Direct, layout: PassageLayout::Text },
        ..read.clone()
    };
    let summarised = ReadEvidence { task: Task::Summarise, order: Vec::new(), ..read.clone() };
    let replies = [
        r#"{"notes": [{"passage": 2, "note": "He followed the thread."}], "suffices": true,
            "answer": "By a thread.", "citations": [{"passage": 2, "quote": "followed the thread out"}]}"#,
        r#"{"notes": [], "suffices": false, "answer": "", "citations": []}"#,
        "Notes: [2] tells it.\nSuffices: yes\nAnswer: By a thread.\nCitations: 1, 2",
    ];
    visitor.visit(read, &replies);
    visitor.visit(summarised, &replies);
    let replies = [
        r#"{"suffices": true, "answer": "By a thread.",
            "citations": [{"passage": 2, "quote": "followed the thread out"}]}"#,
        r#"{"suffices": false, "answer": "", "citations": []}"#,
        "Suffices: yes\nAnswer: By a thread.\nCitations: 1, 2",
    ];
    visitor.visit(direct, &replies);
    let act = ChooseEntities {
        question: question.clone(),
        reason: "It is not told who gave the thread.".to_owned(),
        known: texts(["Theseus"]),
        candidates: texts(["Minos", "Ariadne", "Crete, the island"]),
        most: 2,
    };
    let replies = [
        r#"{"reasoning": "She may have.", "entities": [2, 1]}"#,
        r#"{"reasoning": "None of them.", "entities": []}"#,
        r#"{"entities": ["Ariadne", "[1]"]}"#,
        "Reasoning: She may have.\nEntities: 2, Minos",
        "Entities: Crete, the island",
        "None",
    ];
    visitor.visit(act, &replies);
    let act = ElaborateQuery {
        question: question.clone(),
        relations: texts(["Ariadne gave a thread to Theseus", "Daedalus built the Labyrinth"]),
        most: 3,
    };
    let replies = [
        r#"{"queries": ["What did Theseus do with the thread that Ariadne gave him?"]}"#,
        "1. What did Theseus do with the thread?\n2. What was the way out of the Labyrinth?",
        "None",
    ];
    visitor.visit(act, &replies);
    let memory = "Myths of Crete: Minos, Ariadne, Theseus, the Labyrinth.".to_owned();
    let act = ProposeClues { question: question.clone(), memory: memory.clone(), most: 3 };
    let replies = [
        r#"{"queries": ["Who gave Theseus a thread?"], "clues": ["He tied a thread to the gate."]}"#,
        "Queries:\n1. Who gave it?\n2. What did he tie?\nClues:\n- A thread.\n- A gate.",
    ];
    visitor.visit(act, &replies);
    let act = ListKeyPoints { task: "Summarise the myths.".to_owned(), memory, most: 3 };
    visitor.visit(act, &[r#"{"points": ["The thread"]}"#, "- The thread\n- The maze"]);
    for how in [Rewording::Rewrite, Rewording::Decompose, Rewording::Disambiguate] {
        let replies = [
            r#"{"questions": ["Who gave Theseus the thread?", "What did he tie it to?"]}"#,
            "1. Who gave the thread?\n2. What was it for?",
            "None",
        ];
        visitor.visit(Reword { question: question.clone(), how, most: 3 }, &replies);
    }
    let act = ImaginePassage { question: question.clone(), near: passages() };
    let replies = [
        r#"{"passage": "He unwound a thread on his way in and followed it back to the gate."}"#,
        "He unwound a thread on his way in.",
    ];
    visitor.visit(act, &replies);
    let act = RaiseConcerns { question: question.clone(), points: points(), most: 3 };
    let replies = [
        r#"{"judgement": "resolved", "concerns": []}"#,
        r#"{"judgement": "local", "concerns": [{"point": 2, "concern": "What came after?"}]}"#,
        r#"{"judgement": "global", "concerns": [{"point": 0, "concern": "Who was Minos?"}]}"#,
    ];
    visitor.visit(act, &replies);
    let act = AskSubquery {
        question: question.clone(),
        points: points(),
        concern: "What came after the fight?".to_owned(),
        asked: texts(["Who gave the thread?"]),
    };
    let replies =
        [r#"{"query": "What did Theseus do then?"}"#, "What did Theseus do after the fight?"];
    visitor.visit(act, &replies);
    let act = UpdatePoints {
        question: question.clone(),
        points: points(),
        asked: texts(["Who gave the thread?"]),
        known: vec![passage("Ariadne", "", "A daughter of Minos.")],
        found: passages(),
    };
    let replies = [
        r#"{"updated": [{"point": 1, "text": "Ariadne gave Theseus the thread that led him out."}],
            "inserted": [{"entities": ["Ariadne", "Minos"], "text": "Ariadne is his daughter."}]}"#,
        r#"{"updated": [], "inserted": []}"#,
    ];
    visitor.visit(act, &replies);
    let act = MergePoints { question: question.clone(), points: points() };
    let replies =
        [r#"{"merged": [{"points": [1, 2], "text": "With her thread he did it."}]}"#, "None"];
    visitor.visit(act, &replies);
    let messages = texts(["I moved to Athens last Friday.", "I like red thread."]);
    let replies = [r#"{"facts": ["The user moved to Athens."]}"#, "[]", "- The user likes red."];
    visitor.visit(ExtractFacts { messages: messages.clone() }, &replies);
    let replies = [
        r#"{"events": [{"date": "2024-05-17", "event": "The user moved to Athens."}]}"#,
        "2024/05/17 | The user moved to Athens.",
        "N/A",
    ];
    visitor.visit(ExtractEvents { messages, written_at: monday }, &replies);
    let act = InferTimeRange { question: question.clone(), asked_at: monday };
    let replies = [
        r#"{"reasoning": "Last week.", "start": "2024-05-13", "end": "2024-05-19"}"#,
        r#"{"reasoning": "None is meant.", "start": "", "end": null}"#,
        "N/A",
    ];
    visitor.visit(act, &replies);
    for rule in [
        GradingRule::Complete,
        GradingRule::TimeReasoning,
        GradingRule::KnowledgeUpdate,
        GradingRule::Preference,
        GradingRule::Abstention,
    ] {
        let act = GradeAnswer {
            question: question.clone(),
            expected: "By a thread.".to_owned(),
            answer: "He followed a thread.".to_owned(),
            rule,
        };
        visitor.visit(act, &["yes", "No.", "**Yes**"]);
    }
    let act = GradeNugget {
        question: question.clone(),
        nugget: "LLM response should state: by a thread".to_owned(),
        answer: "He followed a thread.".to_owned(),
    };
    visitor.visit(act, &["yes", "Partly.", "**partially**", "no"]);
    for quality in [Quality::Comprehensiveness, Quality::Diversity] {
        let act = RateAnswer {
            question: question.clone(),
            references: texts(["He followed Ariadne's thread.", "By the thread he had tied."]),
            answer: "He followed a thread.".to_owned(),
            quality,
        };
        let replies = [
            r#"{"reasoning": "It leaves out Ariadne.", "level": 3, "score": 55}"#,
            "Reasoning: It leaves out Ariadne.\nLevel: Level 3\nScore: 60",
        ];
        visitor.visit(act, &replies);
    }
}
