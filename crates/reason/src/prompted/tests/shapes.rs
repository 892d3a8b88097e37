//! The table of shapes that are repaired and refused, row by row.

use clew_core::MemoryPoint;

use super::super::reply::Record;
use super::super::*;

const KEYS: [&str; 3] = ["action", "answer", "sure"];

fn record(text: &str) -> Result<Record, ReplyShape> {
    Reply { text, is_whole: true }.record("a record", &KEYS).map_err(|refused| refused.found)
}

fn action(text: &str) -> Result<usize, ReplyShape> {
    record(text)?.index("action", 3).map_err(|refused| refused.found)
}

fn texts(text: &str) -> Result<Vec<String>, ReplyShape> {
    Reply { text, is_whole: true }.texts("texts", "facts").map_err(|refused| refused.found)
}

fn rows(text: &str) -> Result<Vec<String>, ReplyShape> {
    let records = Reply { text, is_whole: true }.records("rows", "events", &["date", "event"]);
    let records = records.map_err(|refused| refused.found)?;
    records.iter().map(|row| row.text("event").map_err(|refused| refused.found)).collect()
}

#[test]
fn shapes_of_an_object_that_are_repaired() {
    for text in [
        // Thoughts.
        "<think>Perhaps {\"action\": 1}?</think>\n{\"action\": 2}",
        "Perhaps {\"action\": 1}?</think>{\"action\": 2}",
        // Fences and prose.
        "```json\n{\"action\": 2}\n```",
        "Here it is [as asked], {well}: {\"action\": 2}. I hope it helps.",
        // Commas and comments.
        "{\"action\": 2,}",
        "{// the second\n\"action\": /* surely */ 2 # yes\n}",
        // Keys.
        "{action: 2}",
        "{'action': 2}",
        "{“action”: 2}",
        "{\"Action\": 2}",
        "{\"action\": 2, \"other key\": None, 'is-it': True}",
        // Line breaks in strings.
        "{\"answer\": \"two\nlines\", \"action\": 2}",
        // Numbers.
        "{\"action\": \"2\"}",
        "{\"action\": \"[2]\"}",
        "{\"action\": \"Passage 2.\"}",
        "{\"action\": 2.0}",
        // The same twice.
        "{\"action\": 2} or, again, {\"action\": 2}",
        "{\"action\": 2, \"action\": 2}",
        // Lines.
        "Action: 2",
        "I compared them.\n\n**Action:** 2",
        "### Action: [2]",
        "- Action: Summary 2\n- Answer: that",
        "action : 2\nAction: 2",
    ] {
        assert_eq!(action(text), Ok(1), "{text}");
    }
    for text in ["{\"sure\": true}", "{sure: 'Yes.'}", "Sure: **yes**", "{\"sure\": True}"] {
        assert_eq!(record(text).unwrap().flag("sure"), Ok(true), "{text}");
    }
    let list = Ok(vec!["one".to_owned()]);
    assert_eq!(record("{answer: \"one\"}").unwrap().texts("answer"), list);
    let escaped = record(r#"{"answer": "\ud83d\ude00 \"\n\u00e9 it\'s"}"#).unwrap();
    assert_eq!(escaped.text("answer").unwrap(), "😀 \"\né it's");
}

#[test]
fn shapes_of_an_object_that_are_refused() {
    for (text, found) in [
        ("", ReplyShape::Nothing),
        (" \n", ReplyShape::Nothing),
        ("<think>2</think>", ReplyShape::Nothing),
        ("I would take the second one.", ReplyShape::Prose),
        ("[1, 2]", ReplyShape::Prose),
        ("{\"other\": 2}", ReplyShape::Prose),
        ("<think>{\"action\": 2}", ReplyShape::CutOff),
        ("{\"action\": 2", ReplyShape::CutOff),
        ("{\"answer\": {\"action\": 2}", ReplyShape::CutOff),
        ("{\"answer\": \"and so", ReplyShape::CutOff),
        ("{\"answer\": tr", ReplyShape::CutOff),
        ("{'answer': 'it's', 'action': 2}", ReplyShape::BrokenJson),
        (r#"{"answer": "\_", "action": 2}"#, ReplyShape::BrokenJson),
        (r#"{"answer": "\ud83d!", "action": 2}"#, ReplyShape::BrokenJson),
        ("{\"answer\": \"a\" \"action\": 2}", ReplyShape::BrokenJson),
        ("{\"answer\": NaN, \"action\": 2}", ReplyShape::BrokenJson),
        ("{\"answer\": oh {\"action\": 2}}", ReplyShape::BrokenJson),
        ("{\"action\": 1, \"action\": 2}", ReplyShape::BrokenJson),
        ("{\"action\": 1} {\"action\": 2}", ReplyShape::Several),
        ("Action: 1\nAction: 2", ReplyShape::Several),
        ("{\"answer\": \"a\"}", ReplyShape::Missing("action")),
        ("{\"action\": null}", ReplyShape::Missing("action")),
        ("{\"action\": 4}", ReplyShape::OutOfRange("action")),
        ("{\"action\": 0}", ReplyShape::OutOfRange("action")),
        ("{\"action\": -1}", ReplyShape::OutOfRange("action")),
        ("{\"action\": 1.5}", ReplyShape::Wrong("action")),
        ("{\"action\": \"2 or 3\"}", ReplyShape::Wrong("action")),
        ("{\"action\": [2]}", ReplyShape::Wrong("action")),
        ("Action: not 2", ReplyShape::Wrong("action")),
    ] {
        assert_eq!(action(text), Err(found), "{text}");
    }
    let cut = Reply { text: "Answer: that\nAction: 1", is_whole: false };
    assert_eq!(cut.record("a record", &KEYS).unwrap_err().found, ReplyShape::CutOff);
    let deep = format!("{{\"action\": {}{}}}", "[".repeat(40), "]".repeat(40));
    assert_eq!(action(&deep), Err(ReplyShape::BrokenJson));
    for text in ["{sure: 'probably'}", "{sure: 1}", "Sure: yes, mostly"] {
        let refused = record(text).unwrap().flag("sure").unwrap_err();
        assert_eq!(refused.found, ReplyShape::Wrong("sure"), "{text}");
    }
}

#[test]
fn shapes_of_lists() {
    for text in [
        "{\"facts\": [\"one\", \"two\"]}",
        "[\"one\", \"two\",]",
        "```\n['one', 'two']\n```",
        "1. one\n2. two",
        "Here they are:\n\n- one\n* two",
        "[1] one\n[2] two",
        "1) one\n2) two",
    ] {
        assert_eq!(texts(text), Ok(vec!["one".to_owned(), "two".to_owned()]), "{text}");
    }
    for text in ["None", "n/a", "[]", "{\"facts\": []}", "{\"facts\": null}", "{facts: \"none\"}"] {
        assert_eq!(texts(text), Ok(Vec::new()), "{text}");
    }
    assert_eq!(texts("{\"facts\": \"one\"}"), Ok(vec!["one".to_owned()]));
    for (text, found) in [
        ("", ReplyShape::Nothing),
        ("There are two.", ReplyShape::Prose),
        ("- one\nand so on", ReplyShape::Prose),
        ("Here they are:", ReplyShape::Prose),
        ("[\"one\", \"tw", ReplyShape::CutOff),
        ("[\"one\"] or [\"two\"]", ReplyShape::Several),
        ("{\"facts\": [{\"fact\": \"one\"}]}", ReplyShape::Wrong("facts")),
        ("{\"facts\": 1}", ReplyShape::Prose),
    ] {
        let expected = match text {
            // A number counts as the text of its digits.
            "{\"facts\": 1}" => Err(ReplyShape::Wrong("facts")),
            _ => Err(found),
        };
        assert_eq!(texts(text), expected, "{text}");
    }
    for text in [
        "[{\"date\": \"2024\", \"event\": \"moved\"}]",
        "{\"events\": {\"date\": \"2024\", \"event\": \"moved\"}}",
        "2024 | moved",
        "Events:\n- 2024 | moved",
    ] {
        assert_eq!(rows(text), Ok(vec!["moved".to_owned()]), "{text}");
    }
    assert_eq!(rows("none"), Ok(Vec::new()));
    assert_eq!(rows("2024 | moved | far"), Err(ReplyShape::Prose));
    assert_eq!(rows("2024 | "), Err(ReplyShape::Prose));
    assert_eq!(rows("{\"events\": [\"moved\"]}"), Err(ReplyShape::Wrong("events")));
}

#[test]
fn shapes_of_texts() {
    let read = |text, is_whole| {
        Reply { text, is_whole }.prose("a text", "summary").map_err(|refused| refused.found)
    };
    for text in [
        "It is so.",
        "```\nIt is so.\n```",
        "Summary: It is so.",
        "**Summary:**\nIt is so.",
        "<think>Hm.</think> It is so.",
        "{\"summary\": \"It is so.\"}",
    ] {
        assert_eq!(read(text, true).as_deref(), Ok("It is so."), "{text}");
    }
    assert_eq!(read("It is so. And yet it is n", false).as_deref(), Ok("It is so."));
    assert_eq!(read("It is s", false), Err(ReplyShape::CutOff));
    assert_eq!(read("Summary:", true), Err(ReplyShape::Nothing));
}

#[test]
fn acts_refuse_what_the_model_was_not_shown_or_does_not_say() {
    fn found<A: Act>(act: &A, text: &str) -> Option<ReplyShape> {
        act.parse(Reply { text, is_whole: true }).err().map(|refused| refused.found)
    }
    let read = ReadEvidence { passages: vec![Passage::default(); 2], ..ReadEvidence::default() };
    let uncited = r#"{"notes": [], "suffices": true, "answer": "So.", "citations": []}"#;
    assert_eq!(found(&read, uncited), Some(ReplyShape::Missing("citations")));
    let unseen = r#"{"notes": [], "suffices": true, "answer": "So.", "citations": [3]}"#;
    assert_eq!(found(&read, unseen), Some(ReplyShape::Wrong("citations")));
    let unseen = r#"{"suffices": true, "answer": "So.", "citations": [{"passage": 3}]}"#;
    assert_eq!(found(&read, unseen), Some(ReplyShape::OutOfRange("passage")));
    let choose = ChooseChild { summaries: vec![String::new()], ..ChooseChild::default() };
    assert_eq!(found(&choose, "Action: back"), Some(ReplyShape::OutOfRange("action")));
    let points = vec![MemoryPoint::default(); 2];
    let merge = MergePoints { points: points.clone(), ..MergePoints::default() };
    let alone = r#"{"merged": [{"points": [2, 2], "text": "So."}]}"#;
    assert_eq!(found(&merge, alone), Some(ReplyShape::Wrong("points")));
    let update = UpdatePoints { points: points.clone(), ..UpdatePoints::default() };
    let twice = r#"{"updated": [{"point": 1, "text": "a"}, {"point": 1, "text": "b"}]}"#;
    assert_eq!(found(&update, twice), Some(ReplyShape::Several));
    let raise = RaiseConcerns { points, most: 3, ..RaiseConcerns::default() };
    let unsaid = r#"{"judgement": "global", "concerns": []}"#;
    assert_eq!(found(&raise, unsaid), Some(ReplyShape::Missing("concerns")));
    let candidates = vec!["Minos".to_owned(), "Ariadne".to_owned()];
    let choose = ChooseEntities { candidates, most: 2, ..ChooseEntities::default() };
    for unseen in
        ["{entities: [3]}", "{entities: [0]}", "{entities: ['Daedalus']}", "Entities: 1, 3"]
    {
        assert_eq!(found(&choose, unseen), Some(ReplyShape::OutOfRange("entities")), "{unseen}");
    }
    assert_eq!(found(&choose, "{entities: [true]}"), Some(ReplyShape::Wrong("entities")));
    assert_eq!(found(&choose, "{reasoning: 'So.'}"), Some(ReplyShape::Missing("entities")));
    let monday = "2024-05-20".parse().unwrap();
    let range = InferTimeRange { question: String::new(), asked_at: monday };
    let backwards = r#"{"start": "2024-05-20", "end": "2024-05-18"}"#;
    assert_eq!(found(&range, backwards), Some(ReplyShape::Wrong("end")));
    assert_eq!(found(&range, r#"{"start": "last week"}"#), Some(ReplyShape::Wrong("start")));
}

#[test]
fn entities_are_chosen_by_number_or_name_each_once() {
    let candidates = ["Minos", "Ariadne", "1", "Crete, the island", "ariadne"].map(str::to_owned);
    let chosen = |text, most| {
        let candidates = candidates.to_vec();
        let act = ChooseEntities { candidates, most, ..ChooseEntities::default() };
        act.parse(Reply { text, is_whole: true }).map_err(|refused| refused.found)
    };
    for (text, expected) in [
        ("{entities: [2, 1, 2]}", vec![1, 0]),
        ("{entities: ['MINOS', 'Ariadne', 'ariadne']}", vec![0, 1, 4]),
        // A number is a number; a text that equals a candidate's name means that candidate.
        ("{entities: [1]}", vec![0]),
        ("{entities: ['1']}", vec![2]),
        ("{entities: 'Entity 2'}", vec![1]),
        ("Entities: Crete, the island", vec![3]),
        ("Entities: [2, 4]", vec![1, 3]),
        ("Entities: none", vec![]),
        ("{entities: []}", vec![]),
        ("None.", vec![]),
    ] {
        assert_eq!(chosen(text, 5), Ok(expected), "{text}");
    }
    assert_eq!(chosen("{entities: [4, 3, 2]}", 2), Ok(vec![3, 2]));
}

#[test]
fn queries_come_once_and_no_more_than_asked_for() {
    let act = ElaborateQuery { most: 2, ..ElaborateQuery::default() };
    let text = r#"{"queries": ["Who?", "", "None", "Who?", "When?", "Where?"]}"#;
    let queries = act.parse(Reply { text, is_whole: true }).unwrap();
    assert_eq!(queries, ["Who?", "When?"]);
}

#[test]
fn a_summary_that_is_too_long_loses_sentences_then_words() {
    let act = |max_bytes| Summarise {
        level: clew_core::SummaryLevel::Leaf,
        texts: Vec::new(),
        max_bytes,
    };
    let said = |max_bytes| {
        let reply = Reply { text: "It is so. And yet it moves.", is_whole: true };
        act(max_bytes).parse(reply).unwrap()
    };
    assert_eq!(said(100), "It is so. And yet it moves.");
    assert_eq!(said(12), "It is so.");
    assert_eq!(said(7), "It is");
    assert_eq!(said(1), "I");
}
