//! Tests with the case studies of the papers, each with our own text of the same shape. The model's
//! replies are written down word for word; everything else is computed. Each prompt must show the
//! basis of the reply, in that order.
//!
//! - MemWalker, table 6: a summary misleads, the segment does not answer, and turning back leads to
//!   the one that does.
//! - QRMeM, table 5: the question does not name the entity that matters, and what is missing leads
//!   to it.
//! - HGMem, table 6 and appendix H: two facts become one point that neither passage states alone.
//! - MemoRAG, table 2: the question is split into parts that can be searched for.
//! - LongMemEval, figure 1 and section 5.5: the present state, from statements at different times.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Answer, Error, Evidence, Finish, Generated, GenerationRequest, Generator, GeneratorIdentity,
    Heard, Outcome, TraceEvent, Usage,
};
use clew_reason::prompted::Prompted;

use crate::testing::{SEGMENT_BYTES, World, evidence, node, saying};
use crate::{Chat, HgMem, MemWalker, MemoRag, QrmemReflect, Seams, Strategy, TreeMemory};

/// Texts that the model must be shown, in this order, and its reply. `@words@` in a reply stands
/// for the number of the passage with these words.
type Line = (&'static [&'static str], &'static str);

/// Model with prepared replies.
struct Scripted {
    identity: GeneratorIdentity,
    lines: Mutex<VecDeque<Line>>,
}

impl Scripted {
    fn new(lines: &[Line]) -> Arc<Self> {
        let identity = GeneratorIdentity { model: "scripted".to_owned(), window: 8000 };
        Arc::new(Self { identity, lines: Mutex::new(lines.iter().copied().collect()) })
    }
}

#[async_trait]
impl Generator for Scripted {
    fn identity(&self) -> &GeneratorIdentity {
        &self.identity
    }

    fn count_tokens(&self, text: &str) -> u32 {
        u32::try_from(text.len().div_ceil(4)).unwrap()
    }

    async fn generate(
        &self,
        request: &GenerationRequest,
        _: Instant,
        heard: &mut (dyn for<'a> FnMut(Heard<'a>) + Send),
    ) -> Result<Generated, Error> {
        let prompt = &request.messages[1].text;
        let line = self.lines.lock().unwrap().pop_front();
        let (shown, reply) = line.unwrap_or_else(|| panic!("nothing is left to reply to {prompt}"));
        let mut rest = prompt.as_str();
        for words in shown {
            let at = rest.find(words);
            rest = &rest[at.unwrap_or_else(|| panic!("{words:?} comes next in {prompt}"))..];
        }
        let text = with_numbers(reply, prompt);
        heard(Heard::Text(&text));
        let usage = Usage {
            prompt_tokens: 1,
            completion_tokens: 1,
            took: Duration::from_millis(1),
            calls: 1,
        };
        let model = self.identity.model.clone();
        Ok(Generated { text, finish: Finish::Stop, usage, model })
    }
}

fn with_numbers(reply: &str, prompt: &str) -> String {
    let number = |words: &str| {
        let before = &prompt[..prompt.find(words).unwrap_or_else(|| panic!("{words:?}: {prompt}"))];
        let from = before.rfind('[').unwrap() + 1;
        before[from..from + before[from..].find(']').unwrap()].to_owned()
    };
    let parts = reply.split('@').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part.to_owned() } else { number(part) }).collect()
}

/// Asks a strategy whose every judgement is a reply of the model. All lines must be used.
async fn ask(world: &World, strategy: &dyn Strategy, lines: &[Line]) -> Answer {
    let model = Scripted::new(lines);
    let prompted = Prompted::new(Arc::clone(&model) as Arc<dyn Generator>);
    let memory = TreeMemory { tree: &world.tree, planner: &prompted };
    let seams = Seams {
        reasoner: &prompted,
        navigator: &prompted,
        planner: &prompted,
        ..world.seams(&memory)
    };
    let answer = strategy.answer(&world.question, seams, &world.seen).await.unwrap();
    assert_eq!(model.lines.lock().unwrap().len(), 0, "replies that nobody asked for");
    assert_eq!(answer.cost.model_calls, lines.len() as u64);
    answer
}

fn part(ordinal: u32, text: &'static str) -> Evidence {
    let start = SEGMENT_BYTES * ordinal as usize;
    saying(evidence("d", start, start + SEGMENT_BYTES, 0.5), Some(text))
}

/// Asserts that the answer has this text and quotes these words.
#[track_caller]
fn assert_answers(answer: &Answer, text: &str, quotes: &[&str]) {
    assert_eq!((&answer.outcome, answer.text.as_str()), (&Outcome::Answered, text));
    let quoted: Vec<&str> = answer.citations.iter().map(|it| it.quote.as_str()).collect();
    assert_eq!(quoted, quotes);
}

#[tokio::test]
async fn memwalker_turns_back_from_a_summary_that_misleads() {
    let mut world = World::default();
    world.question.text = "Who asked Nora to speak at the harbour school?".to_owned();
    let summed = |level, ordinal, children, summary: &str| {
        let summary = summary.to_owned();
        clew_core::TreeNode { summary, ..node("d", level, ordinal, children) }
    };
    let top = summed(2, 0, 2, "A spring on the island.");
    let talk = summed(1, 0, 2, "Nora speaks to the pupils of the harbour school about her lamp.");
    let way = summed(1, 1, 1, "Nora and Idris row to the mainland and talk on the way.");
    let lamp = summed(0, 0, 0, "Nora explains wick and oil.");
    let storms = summed(0, 1, 0, "The pupils want to hear of storms.");
    let oars = summed(0, 10, 0, "Idris tells why he rows her over.");
    world.tree.tops = vec![top.clone()];
    world.tree.put(&top, vec![talk.clone(), way.clone()]);
    world.tree.put(&talk, vec![lamp, storms]);
    world.tree.put(&way, vec![oars]);
    world.tree.texts = [
        (0, "Nora told the pupils of the harbour school how a wick is trimmed."),
        (10, "\"You will be the guest of my class at the harbour school,\" said Idris."),
    ]
    .into();
    let lines: [Line; 7] = [
        (
            &["Who asked Nora", "[1] Nora speaks", "[2] Nora and Idris"],
            r#"{"reasoning": "The first is about the school.", "action": 1}"#,
        ),
        (
            &["[1] Nora explains", "[2] The pupils want"],
            r#"{"reasoning": "She may say who asked her.", "action": 1}"#,
        ),
        (
            &["how a wick is trimmed"],
            r#"{"reasoning": "It does not tell who asked her.", "action": "back", "answer": "", "quote": ""}"#,
        ),
        (
            &["[1] The pupils want"],
            r#"{"reasoning": "Storms do not lead there.", "action": "back"}"#,
        ),
        (&["[1] Nora and Idris row"], r#"{"reasoning": "The way is left.", "action": 1}"#),
        (&["[1] Idris tells why"], r#"{"reasoning": "He has a reason.", "action": 1}"#),
        (
            &["the guest of my class"],
            r#"{"reasoning": "It is his class.", "action": "answer", "answer": "Idris asked her.",
                "quote": "You will be the guest of my class at the harbour school"}"#,
        ),
    ];
    let answer = ask(&world, &MemWalker::DEPTH_FIRST, &lines).await;
    let expected = [
        "searched Who asked Nora to speak at the harbour school? 0",
        "entered d#2.0 from ",
        "entered d#1.0 from d#2.0",
        "entered d#0.0 from d#1.0",
        "leaf d#0.0 false",
        "back from d#0.0: It does not tell who asked her.",
        "back from d#1.0: Storms do not lead there.",
        "entered d#1.1 from d#2.0",
        "entered d#0.10 from d#1.1",
        "leaf d#0.10 true",
        "read 2",
        "walked: a segment answers",
        "judged 1",
        "text Idris asked her.",
    ];
    assert_eq!(world.steps(), expected);
    let quote = "You will be the guest of my class at the harbour school";
    assert_answers(&answer, "Idris asked her.", &[quote]);
    assert_eq!(answer.citations[0].span.start, 10 * SEGMENT_BYTES + 1);
}

#[tokio::test]
async fn qrmem_finds_an_entity_that_the_question_does_not_name() {
    let mut world = World::default();
    world.question.text = "Who of skerry tended a lighthouse in the storm?".to_owned();
    let graph = &mut world.graph;
    for (ordinal, key) in (0..).zip(["skerry", "olaf", "tove", "beacon"]) {
        graph.entity(key, &[("d", ordinal)]);
    }
    graph.relation("skerry", "birthplace of", "olaf", ("d", 1));
    graph.relation("skerry", "birthplace of", "tove", ("d", 2));
    graph.relation("tove", "keeper of", "beacon", ("d", 3));
    graph.texts = [
        (0, "Skerry is an island of nine houses, where Olaf and Tove were born."),
        (1, "Olaf of Skerry built boats all his life."),
        (2, "Tove of Skerry left home early, for work on the coast."),
        (3, "The beacon was kept burning by Tove through the storm of 1921."),
    ]
    .into();
    world.encoder.tell("SKERRY birthplace of OLAF", 0.4);
    world.encoder.tell("SKERRY birthplace of TOVE", 0.7);
    world.encoder.tell("TOVE keeper of BEACON", 0.8);
    let lines: [Line; 5] = [
        (&["Who of skerry"], r#"{"entities": [{"name": "skerry", "kind": "place"}]}"#),
        (
            &["Who of skerry", "an island of nine houses"],
            r#"{"reasoning": "Two people are named.", "suffices": false, "missing": "what they worked as"}"#,
        ),
        (
            &["an island of nine houses", "work on the coast"],
            r#"{"reasoning": "Tove had work.", "suffices": false, "missing": "what Tove kept"}"#,
        ),
        (
            &["an island of nine houses", "The beacon was kept burning"],
            r#"{"reasoning": "Tove kept a beacon.", "suffices": true, "missing": ""}"#,
        ),
        (
            &["were born", "The beacon was kept burning", "Who of skerry"],
            r#"{"notes": [{"passage": @The beacon was@, "note": "Tove kept a beacon in the storm."}],
                "suffices": true, "answer": "Tove.", "citations": [
                {"passage": @The beacon was@, "quote": "kept burning by Tove through the storm"},
                {"passage": @an island of nine@, "quote": "where Olaf and Tove were born"}]}"#,
        ),
    ];
    let answer = ask(&world, &QrmemReflect::QUERY_ORIENTED, &lines).await;
    let expected = [
        "searched Who of skerry tended a lighthouse in the storm? 0",
        "chose SKERRY",
        "gathered 1 dropped 0 bytes 100",
        "reflected false",
        "edge SKERRY birthplace of TOVE to TOVE 0.70",
        "gathered 2 dropped 0 bytes 200",
        "reflected false",
        "edge TOVE keeper of BEACON to BEACON 0.80",
        "gathered 3 dropped 0 bytes 300",
        "reflected true",
        "read 3",
        "judged 1",
        "text Tove.",
    ];
    assert_eq!(world.steps(), expected);
    let quotes = ["kept burning by Tove through the storm", "where Olaf and Tove were born"];
    assert_answers(&answer, "Tove.", &quotes);
}

#[tokio::test]
async fn hgmem_makes_one_point_of_what_no_passage_tells_alone() {
    const WHY: &str = "why must bram row for idris ?";
    const HOW: &str = "how did bram bring shame on the guild ?";
    const SENTENCED: &str =
        "The warden had Bram row for others, for the shame he brought on the guild.";
    const BEATEN: &str = "Before all the guild Idris beat Bram by nine lengths.";
    let mut world = World::default();
    world.question.text = WHY.to_owned();
    world.encoder.tells_queries_apart = true;
    world.graph.entity("bram", &[("d", 0), ("d", 1)]);
    world.graph.entity("warden", &[("d", 0)]);
    world.graph.entity("idris", &[("d", 1)]);
    world.graph.relation("warden", "sentenced", "bram", ("d", 0));
    world.graph.relation("idris", "beat", "bram", ("d", 1));
    world.graph.texts = [(0, SENTENCED), (1, BEATEN)].into();
    world.retriever.found.insert(WHY.to_owned(), vec![part(0, SENTENCED)]);
    world.retriever.found.insert(HOW.to_owned(), vec![part(1, BEATEN)]);
    let lines: [Line; 7] = [
        (
            &[WHY, SENTENCED],
            r#"{"updated": [], "inserted": [{"entities": ["warden", "bram"],
                "text": "The warden has Bram row for others because of a shame."}]}"#,
        ),
        (
            &[WHY, "because of a shame"],
            r#"{"judgement": "global", "concerns": [{"point": 0, "concern": "what the shame was"}]}"#,
        ),
        (
            &["because of a shame", "what the shame was", WHY],
            r#"{"query": "how did bram bring shame on the guild ?"}"#,
        ),
        (
            &["because of a shame", HOW, BEATEN],
            r#"{"updated": [], "inserted": [{"entities": ["idris", "bram"],
                "text": "Idris beat Bram before all the guild."}]}"#,
        ),
        (
            &["because of a shame", "Idris beat Bram before all the guild."],
            r#"{"merged": [{"points": [1, 2],
                "text": "The warden has Bram row for Idris, by whom he was beaten before the guild."}]}"#,
        ),
        (&["by whom he was beaten"], r#"{"judgement": "resolved", "concerns": []}"#),
        (
            &["by whom he was beaten before the guild", "Passages:", WHY],
            r#"{"notes": [{"passage": @The warden had@, "note": "A punishment for a shame."},
                {"passage": @Before all the guild@, "note": "The shame."}], "suffices": true,
                "answer": "As a punishment for his defeat by Idris.", "citations": [
                {"passage": @The warden had@, "quote": "for the shame he brought on the guild"},
                {"passage": @Before all the guild@, "quote": "Idris beat Bram by nine lengths"}]}"#,
        ),
    ];
    let answer = ask(&world, &HgMem, &lines).await;
    let expected =
        ["evolved 0: inserted 1", "reflected false", "evolved 1: merged 3", "reflected true"];
    let steps: Vec<String> = world.trace().iter().filter_map(memory_step).collect();
    assert_eq!(steps, expected);
    assert_eq!(
        world.steps_of("searched"),
        [format!("searched {WHY} 1"), format!("searched {HOW} 1")]
    );
    let quotes = ["for the shame he brought on the guild", "Idris beat Bram by nine lengths"];
    assert_answers(&answer, "As a punishment for his defeat by Idris.", &quotes);
}

/// Returns a step of the working memory in words.
fn memory_step(event: &TraceEvent) -> Option<String> {
    match event {
        TraceEvent::Evolved { step, points, .. } => {
            let points =
                points.iter().map(|it| format!("{:?} {}", it.fate, it.number).to_lowercase());
            Some(format!("evolved {step}: {}", points.collect::<Vec<_>>().join(", ")))
        }
        TraceEvent::Reflected { suffices, .. } => Some(format!("reflected {suffices}")),
        _ => None,
    }
}

#[tokio::test]
async fn memorag_takes_a_question_apart_that_no_passage_is_near_to() {
    const ASKED: &str = "In which of the last three years was the catch largest?";
    let mut world = World::default();
    world.question.text = ASKED.to_owned();
    let summary = "Reports of the harbour for 1920, 1921 and 1922.".to_owned();
    world.tree.tops = vec![clew_core::TreeNode { summary, ..node("d", 1, 0, 3) }];
    let found = [
        ("How large was the catch of 1920?", 0, "In 1920 the boats landed 700 barrels."),
        ("How large was the catch of 1921?", 1, "In 1921 the boats landed 900 barrels."),
        ("The boats landed 900 barrels in all", 1, "In 1921 the boats landed 900 barrels."),
        ("How large was the catch of 1922?", 2, "In 1922 the boats landed 650 barrels."),
    ];
    for (query, ordinal, text) in found {
        world.retriever.found.insert(query.to_owned(), vec![part(ordinal, text)]);
    }
    let lines: [Line; 2] = [
        (
            &["Reports of the harbour for 1920, 1921 and 1922.", ASKED],
            r#"{"queries": ["How large was the catch of 1920?", "How large was the catch of 1921?",
                "How large was the catch of 1922?"], "clues": ["The boats landed 900 barrels in all"]}"#,
        ),
        (
            &["In 1921", ASKED],
            r#"{"notes": [{"passage": @700 barrels@, "note": "1920: 700"}, {"passage": @900 barrels@, "note": "1921: 900"},
                {"passage": @650 barrels@, "note": "1922: 650"}], "suffices": true, "answer": "In 1921.",
                "citations": [{"passage": @900 barrels@, "quote": "In 1921 the boats landed 900 barrels."}]}"#,
        ),
    ];
    let answer = ask(&world, &MemoRag, &lines).await;
    let expected = [
        "searched In which of the last three years was the catch largest? 0",
        "drafted 4 lines []",
        "searched How large was the catch of 1920? 1",
        "searched How large was the catch of 1921? 1",
        "searched How large was the catch of 1922? 1",
        "searched The boats landed 900 barrels in all 1",
        "read 3",
        "judged 1",
        "text In 1921.",
    ];
    assert_eq!(world.steps(), expected);
    assert_answers(&answer, "In 1921.", &["In 1921 the boats landed 900 barrels."]);
}

#[tokio::test]
async fn longmemevals_reading_tells_what_holds_now_of_what_was_said_in_turn() {
    let mut world = World::default();
    world.question.text = "How many hives do I keep now, and since when?".to_owned();
    world.question.asked_at = "2024-05-20T10:00:00Z".parse().ok();
    let hits = vec![
        world.said(3, "I keep four hives on my roof.", 0.9),
        world.said(9, "I keep six hives on my roof now.", 0.4),
        world.said(1, "My roof is flat and sunny.", 0.3),
    ];
    world.retriever.found.insert(world.question.text.clone(), hits);
    let lines: [Line; 1] = [(
        &[
            "2024-05-01",
            "flat and sunny",
            "2024-05-03",
            "four hives",
            "2024-05-09",
            "six hives",
            "Date of the question: Monday, 2024-05-20",
            "How many hives",
        ],
        r#"{"notes": [{"passage": 2, "note": "four on 3 May"}, {"passage": 3, "note": "six on 9 May"}],
            "suffices": true, "answer": "Six, since 9 May at the latest.",
            "citations": [{"passage": 3, "quote": "I keep six hives on my roof now."}]}"#,
    )];
    let answer = ask(&world, &Chat, &lines).await;
    let expected = [
        "searched How many hives do I keep now, and since when? 3",
        "read 3",
        "judged 1",
        "text Six, since 9 May at the latest.",
    ];
    assert_eq!(world.steps(), expected);
    assert_answers(
        &answer,
        "Six, since 9 May at the latest.",
        &["I keep six hives on my roof now."],
    );
    assert_eq!(answer.citations[0].document_id.as_str(), "ada/day-9/0000000000");
}
