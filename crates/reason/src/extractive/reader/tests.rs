//! Claims about answers in the words of the evidence.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Assignment, ChildChoice, Concerns, EntityChoice, Error, ErrorKind, Evidence, FoundSpan,
    MemoryPoint, Navigator, OneEncoder, PassageRead, PassagesRead, Planner, ReadPassage, Reading,
    Reasoner, Reflection, Span, SpanReader, TriageStep,
};
use proptest::prelude::*;

use super::calibrated::ANSWERED;
use crate::extractive::ExtractiveReasoner;
use crate::extractive::fixtures::{BagOfWords, ScriptedReader, passage};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn over(reader: Arc<dyn SpanReader>) -> ExtractiveReasoner {
    ExtractiveReasoner::with_reader(Arc::new(OneEncoder(Arc::new(BagOfWords::new()))), reader)
}

fn told(lines: &[(&str, &str, f32)]) -> ExtractiveReasoner {
    over(Arc::new(ScriptedReader::new(lines)))
}

/// Reads with a reader that finds, for questions with the first text, the second one with that
/// probability.
async fn read(lines: &[(&str, &str, f32)], question: &str, evidence: &[Evidence]) -> Reading {
    told(lines).read(&Assignment::new(question, evidence), soon()).await.unwrap()
}

async fn judge(lines: &[(&str, &str, f32)], question: &str, evidence: &[Evidence]) -> Reflection {
    told(lines).judge(question, evidence, soon()).await.unwrap()
}

fn quotes(reading: &Reading) -> Vec<&str> {
    reading.citations.iter().map(|citation| citation.quote.as_str()).collect()
}

fn titled(title: &str, text: &str, score: f32) -> Evidence {
    Evidence { title: title.to_owned(), ..passage(&title.replace(' ', "-"), 0, text, score) }
}

fn said(document: &str, day: &str, text: &str) -> Evidence {
    Evidence { event_time: day.parse().ok(), ..passage(document, 0, text, 0.5) }
}

const POLICY: &str =
    "The handbook is new. Purchases over 5,000 EUR need approval by Jonas Weber. Ask him early.";
const ROTA: &str = "Maria leads the on-call rotation. It changes on Mondays.";

#[tokio::test]
async fn the_words_that_answer_are_said_and_their_sentence_is_cited_at_its_bytes() {
    let evidence = [passage("policy", 7, POLICY, 0.9), passage("rota", 0, ROTA, 0.5)];
    let question = "Who approves purchases above 5000 euros?";
    let reading = read(&[("approves", "by Jonas Weber.", 0.9)], question, &evidence).await;
    assert_eq!(reading.text, "by Jonas Weber");
    assert_eq!((reading.confidence, reading.threshold), (0.9, ANSWERED));
    let [citation] = &reading.citations[..] else { panic!("{reading:?}") };
    assert_eq!(citation.quote, "Purchases over 5,000 EUR need approval by Jonas Weber.");
    let start = 7 + POLICY.find("Purchases").unwrap();
    assert_eq!(citation.span, Span::new(start, start + citation.quote.len()));
    assert_eq!(citation.document_id, evidence[0].document_id);
    assert_eq!(reading.sentences, 5);
    assert_eq!(reading.rationale, "answered with a probability of 0.90");
    // Six words of the question with each of the passages.
    assert_eq!((reading.cost.embedded_tokens, reading.cost.reranked_tokens), (0, 2 * 6 + 17 + 10));
}

#[tokio::test]
async fn what_no_words_answer_is_not_in_memory_and_what_is_missing_is_named() {
    let evidence = [passage("rota", 0, ROTA, 0.9)];
    let question = "What is Maria's phone number?";
    for lines in [&[][..], &[("phone", "on-call rotation", 0.2)]] {
        let reading = read(lines, question, &evidence).await;
        assert!(reading.text.is_empty() && reading.citations.is_empty(), "{reading:?}");
        assert!(reading.confidence < reading.threshold);
        let best = if lines.is_empty() { "0.00" } else { "0.20" };
        let expected = format!("no answer is likelier than {best}, missing: \"phone\", \"number\"");
        assert_eq!(reading.rationale, expected);
        let judged = judge(lines, question, &evidence).await;
        assert_eq!((judged.suffices, judged.missing.as_str()), (false, "phone, number"));
    }
}

#[tokio::test]
async fn passages_that_agree_are_surer_together_than_a_surer_one_alone() {
    let evidence = [
        passage("a", 0, "The harp is by Ada Byron.", 0.9),
        passage("b", 0, "The harp is by Rolf.", 0.8),
        passage("c", 0, "Its maker: Ada Byron!", 0.7),
    ];
    let lines = [("made", "Ada Byron", 0.45), ("made", "Rolf", 0.6)];
    let reading = read(&lines, "Who made the harp?", &evidence).await;
    assert_eq!(reading.text, "Ada Byron");
    assert!((reading.confidence - (1.0 - 0.55 * 0.55)).abs() < 1e-6);
}

#[tokio::test]
async fn parts_of_a_list_are_joined_in_the_order_of_the_texts() {
    let evidence = [
        passage("a", 0, "Ada and her brother Rolf founded it. Cid joined later.", 0.9),
        passage("b", 0, "A founder, Bea, left.", 0.8),
    ];
    let lines = [
        ("found", "Rolf", 0.9),
        ("found", "Bea", 0.8),
        ("found", "Ada", 0.7),
        ("found", "Cid", 0.2),
    ];
    let reading = read(&lines, "Who are the founders?", &evidence).await;
    assert_eq!(reading.text, "Ada, Rolf and Bea");
    assert_eq!(quotes(&reading), ["Ada and her brother Rolf founded it.", "A founder, Bea, left."]);
    assert!((reading.confidence - 0.9).abs() < 1e-6);
    // One is asked for.
    let reading = read(&lines, "Who founded it?", &evidence).await;
    assert_eq!(reading.text, "Rolf");
    // A name in full and in part is one.
    let evidence = [passage("a", 0, "Ada Byron came. Byron was a founder, as was Bea.", 0.9)];
    let lines = [("found", "Ada Byron", 0.9), ("found", "Byron was", 0.8), ("found", "Bea", 0.7)];
    let reading = read(&lines[..1], "Who are the founders?", &evidence).await;
    assert_eq!(reading.text, "Ada Byron");
}

#[tokio::test]
async fn answers_that_contradict_each_other_come_with_their_days_the_newest_first() {
    let evidence = [
        said("a", "2024-03-01", "Maria leads Atlas."),
        said("b", "2024-05-02", "Jonas leads Atlas now."),
        said("c", "2024-04-01", "Maria leads Atlas, as ever."),
    ];
    let lines = [("lead", "Maria", 0.8), ("lead", "Jonas", 0.7)];
    let reading = read(&lines, "Who leads Atlas?", &evidence).await;
    assert_eq!(reading.text, "Jonas (2024-05-02); Maria (2024-04-01)");
    assert_eq!(quotes(&reading), ["Jonas leads Atlas now.", "Maria leads Atlas, as ever."]);
    let reading = read(&lines, "Who leads Atlas now?", &evidence).await;
    assert_eq!(reading.text, "Jonas");
    let reading = read(&lines, "Who led Atlas previously, as lead?", &evidence).await;
    assert_eq!(reading.text, "Maria");
    // Without a day nobody knows which holds.
    let undated = [evidence[0].clone(), passage("b", 0, "Jonas leads Atlas.", 0.5)];
    let reading = read(&lines, "Who leads Atlas?", &undated).await;
    assert_eq!(reading.text, "Maria");
    // Two names in one document are no contradiction.
    let one = [said("a", "2024-03-01", "Maria leads Atlas with Jonas.")];
    assert_eq!(read(&lines, "Who leads Atlas?", &one).await.text, "Maria");
}

#[tokio::test]
async fn questions_in_other_languages_are_answered_by_quotes() {
    let german = "Jonas Weber genehmigt Einkäufe über 5000 Euro.";
    let chinese = "5000欧元以上的采购由约纳斯批准。";
    let evidence = [passage("a", 0, german, 0.9), passage("b", 0, chinese, 0.8)];
    for (question, quote) in [
        ("Wer genehmigt Einkäufe über 5000 Euro?", Some(german)),
        // Its words are not those of the sentence, for an encoder that counts words.
        ("5000欧元以上的采购由谁批准?", None),
    ] {
        let reader = Arc::new(ScriptedReader::new(&[("", "Jonas", 0.9)]));
        let reading =
            over(reader.clone()).read(&Assignment::new(question, &evidence), soon()).await.unwrap();
        assert!(reader.asked().is_empty());
        assert_eq!(quotes(&reading).first().copied(), quote);
        let expected =
            "read for quotes, because it is not in English, which the reader was trained on: best";
        assert!(reading.rationale.starts_with(expected), "{reading:?}");
    }
}

#[tokio::test]
async fn without_a_reader_everything_is_quoted_as_ever() {
    let encoders = Arc::new(OneEncoder(Arc::new(BagOfWords::new())));
    let quoting = ExtractiveReasoner::new(encoders);
    let evidence = [passage("a", 0, POLICY, 0.9), passage("b", 0, ROTA, 0.5)];
    for question in [
        "Who needs approval for purchases over 5,000 EUR by Jonas Weber?",
        "Is Maria on the on-call rotation?",
        "Does Maria or Jonas Weber need approval for purchases?",
        "Wer ist Jonas Weber?",
        "Maria leads the on-call rotation",
    ] {
        let reading = quoting.read(&Assignment::new(question, &evidence), soon()).await.unwrap();
        assert!(reading.rationale.starts_with("best sentence cosine"), "{reading:?}");
        assert_eq!(reading.text, quotes(&reading).join(" "));
        assert_eq!(reading.cost.reranked_tokens, 0);
    }
}

#[tokio::test]
async fn yes_and_no_are_said_only_in_the_words_of_a_sentence() {
    let evidence = [
        said("a", "2024-03-01", "user: Maria leads the team."),
        said("b", "2024-05-02", "user: Maria doesn't lead the team."),
    ];
    let question = "Does Maria lead the team?";
    let reading = read(&[], question, &evidence[..1]).await;
    assert_eq!((reading.text.as_str(), quotes(&reading)[0]), ("Yes", "Maria leads the team."));
    assert!(reading.confidence >= reading.threshold);
    assert_eq!(read(&[], question, &evidence[1..]).await.text, "No");
    let reading = read(&[], question, &evidence).await;
    assert_eq!(reading.text, "No (2024-05-02); Yes (2024-03-01)");
    // Everything else is quoted, whatever the reader finds.
    let vague = [passage("a", 0, "Maria helps Jonas to lead the team.", 0.9)];
    let reading = read(&[("", "Maria", 1.0)], question, &vague).await;
    assert_eq!(reading.text, "Maria helps Jonas to lead the team.");
    assert!(
        reading.rationale.starts_with("read for quotes, because nothing says yes or no"),
        "{reading:?}"
    );
}

#[tokio::test]
async fn an_option_is_said_as_the_question_writes_it() {
    let evidence = [passage("a", 0, "Its door was painted blue in May.", 0.9)];
    let lines = [("door", "blue", 0.75), ("door", "May", 1.0)];
    let reading = read(&lines, "Was the door red or blue?", &evidence).await;
    assert_eq!((reading.text.as_str(), reading.confidence), ("blue", 0.75));
    // The words that are found are none of the options.
    let reading = read(&lines, "Was the door red or green?", &evidence).await;
    assert!(
        reading.rationale.starts_with("read for quotes, because the reader cannot tell"),
        "{reading:?}"
    );
    assert!(reading.cost.reranked_tokens > 0);
}

#[tokio::test]
async fn options_are_compared_by_what_is_read_of_each() {
    let evidence = [
        titled("Ada", "Ada was born on 3 May 1912 in Tara.", 0.9),
        titled("Bea", "Bea was born in June 1911.", 0.8),
    ];
    let lines = [("Ada born", "3 May 1912", 0.9), ("Bea born", "June 1911", 0.8)];
    let reader = Arc::new(ScriptedReader::new(&lines));
    let question = "Who is older, Ada or Bea?";
    let reading =
        over(reader.clone()).read(&Assignment::new(question, &evidence), soon()).await.unwrap();
    assert_eq!((reading.text.as_str(), reading.confidence), ("Bea", 0.8));
    let expected = ["Bea was born in June 1911.", "Ada was born on 3 May 1912 in Tara."];
    assert_eq!(quotes(&reading), expected);
    assert_eq!(reader.asked(), ["When was Ada born?", "When was Bea born?"]);
    assert!(reading.rationale.contains("by way of “3 May 1912”"), "{reading:?}");
    // Of one of them nothing is known.
    let reading = read(&lines[..1], question, &evidence).await;
    assert!(reading.rationale.starts_with("read for quotes, because"), "{reading:?}");
}

fn film() -> [Evidence; 2] {
    [
        titled("Titanic", "Titanic is a film of 1997. It was directed by James Cameron.", 0.9),
        titled("James Cameron", "James Cameron was born in Kapuskasing, in Ontario.", 0.5),
    ]
}

const BORN: &str = "Where was the director of Titanic born?";
const STEPS: [(&str, &str, f32); 2] =
    [("director of Titanic?", "James Cameron", 0.9), ("James Cameron born?", "Kapuskasing", 0.8)];

#[tokio::test]
async fn a_question_of_two_steps_is_answered_by_way_of_the_first() {
    let reading = read(&STEPS, BORN, &film()).await;
    assert_eq!(reading.text, "Kapuskasing");
    // Both steps have to be right.
    assert!((reading.confidence - 0.72).abs() < 1e-6);
    let expected =
        ["James Cameron was born in Kapuskasing, in Ontario.", "It was directed by James Cameron."];
    assert_eq!(quotes(&reading), expected);
    let expected = "answered with a probability of 0.72, by way of “James Cameron”";
    assert_eq!(reading.rationale, expected);
    // The answer to the first step is not the answer.
    let mut lines = STEPS.to_vec();
    lines[1].1 = "nowhere";
    lines.push(("born?", "James Cameron", 0.9));
    assert_eq!(read(&lines, BORN, &film()).await.text, "");
}

/// Finds the last of these words in passages that have all of them.
struct Following([&'static str; 3]);

#[async_trait]
impl SpanReader for Following {
    async fn reader_model(&self, _: Instant) -> Result<Option<String>, Error> {
        Ok(Some("following".to_owned()))
    }

    async fn read_spans(
        &self,
        _: &str,
        passages: Vec<ReadPassage>,
        _: Instant,
    ) -> Result<PassagesRead, Error> {
        let read = |passage: &ReadPassage| {
            let places = self.0.map(|words| passage.text.find(words));
            let [Some(_), Some(_), Some(start)] = places else { return PassageRead::default() };
            let span = Span::new(start, start + self.0[2].len());
            PassageRead {
                answers: 0.9,
                relevance: 0.9,
                spans: vec![FoundSpan { span, share: 1.0 }],
            }
        };
        Ok(PassagesRead { passages: passages.iter().map(read).collect(), tokens: 1 })
    }
}

#[tokio::test]
async fn a_passage_answers_after_the_sentence_that_leads_to_it_and_both_are_cited() {
    let question = "In which town was whoever directed Titanic born?";
    let reader = Arc::new(Following(["Titanic: It was directed", "born in", "Kapuskasing"]));
    let reading = over(reader).read(&Assignment::new(question, &film()), soon()).await.unwrap();
    assert_eq!((reading.text.as_str(), reading.confidence), ("Kapuskasing", 0.9));
    let expected =
        ["James Cameron was born in Kapuskasing, in Ontario.", "It was directed by James Cameron."];
    assert_eq!(quotes(&reading), expected);
    let [born, _] = &reading.citations[..] else { panic!("{reading:?}") };
    assert_eq!(born.document_id.as_str(), "James-Cameron");
    // What stands in the leading sentence is not found in the passage that it leads to.
    let reader = Arc::new(Following(["Titanic: It", "born in", "directed by"]));
    let reading = over(reader).read(&Assignment::new(question, &film()), soon()).await.unwrap();
    assert_eq!(reading.text, "");
}

#[tokio::test]
async fn no_passage_is_read_again_where_one_alone_answers_surely() {
    for (probability, calls) in [(0.9, 1), (0.6, 2)] {
        let reader = Arc::new(ScriptedReader::new(&[("town", "Kapuskasing", probability)]));
        let question = "In which town was whoever directed it born?";
        let reading =
            over(reader.clone()).read(&Assignment::new(question, &film()), soon()).await.unwrap();
        assert_eq!((reading.text.as_str(), reader.asked().len()), ("Kapuskasing", calls));
        // A place that is read twice is one place.
        assert_eq!(reading.confidence, probability);
    }
}

#[tokio::test]
async fn an_answer_by_way_of_another_passage_needs_less() {
    let question = "Where was the director of Titanic born?";
    for (probability, said) in [(0.4, "Kapuskasing"), (0.2, "")] {
        let mut lines = STEPS;
        lines[1].2 = probability;
        let reading = read(&lines, question, &film()).await;
        assert_eq!((reading.text.as_str(), reading.threshold < ANSWERED), (said, !said.is_empty()));
        assert_eq!(judge(&lines, question, &film()).await.suffices, !said.is_empty());
    }
    // From one passage alone, the same is too little.
    let reading = read(&[("", "Kapuskasing", 0.4)], "Where was he born?", &film()[1..]).await;
    assert_eq!((reading.text.as_str(), reading.threshold), ("", ANSWERED));
}

#[tokio::test]
async fn two_have_the_same_if_each_has_it() {
    let evidence = [
        titled("Ada", "Ada works in Team Harp.", 0.9),
        titled("Bea", "Bea works in Team Lute.", 0.8),
        titled("Cid", "Cid works in the Team Harp.", 0.7),
    ];
    let lines = [
        ("does Ada work", "Team Harp", 0.9),
        ("does Bea work", "Team Lute", 0.7),
        ("does Cid work", "the Team Harp", 0.8),
    ];
    for (other, said, confidence) in [("Cid", "Yes", 0.8), ("Bea", "No", 0.7)] {
        let question = format!("Do Ada and {other} work in the same team?");
        let reading = read(&lines, &question, &evidence).await;
        assert_eq!((reading.text.as_str(), reading.confidence), (said, confidence));
        assert_eq!(reading.citations.len(), 2);
    }
    let question = "Do Ada and Dora work in the same team?";
    let reading = read(&lines, question, &evidence).await;
    assert!(reading.rationale.starts_with("read for quotes, because nothing says"), "{reading:?}");
}

#[tokio::test]
async fn the_question_that_is_left_is_what_is_missing() {
    let judged = judge(&STEPS, BORN, &film()[..1]).await;
    assert!(!judged.suffices);
    assert_eq!(judged.missing, "Where was James Cameron born?");
    assert!(judge(&STEPS, BORN, &film()).await.suffices);
    let choice = EntityChoice {
        question: BORN.to_owned(),
        reason: judged.missing,
        candidates: ["Titanic", "Kate Winslet", "James Cameron"].map(str::to_owned).to_vec(),
        most: 2,
        ..EntityChoice::default()
    };
    let (chosen, _) = told(&STEPS).choose_entities(&choice, soon()).await.unwrap();
    assert_eq!(chosen, [2, 0]);
    // A name that is found although the question cannot be taken apart.
    let lines = [("", "James Cameron", 0.3)];
    let question = "In which town did whoever made Titanic grow up?";
    let judged = judge(&lines, question, &film()[..1]).await;
    assert!(judged.missing.starts_with("James Cameron, "), "{judged:?}");
    let judged = judge(&lines, question, &film()).await;
    assert!(!judged.missing.contains("Cameron"), "{judged:?}");
}

#[tokio::test]
async fn words_may_stand_anywhere_in_their_passage() {
    let text = "“Go.” she said\nThen (in Paris) we slept. The end";
    for (words, answer, quote) in [
        ("“Go.”", "Go", "“Go.” she said"),
        ("(in Paris", "in Paris", "Then (in Paris) we slept."),
        ("slept. The end", "slept. The end", "Then (in Paris) we slept. The end"),
        ("The end", "The end", "The end"),
        (text, "“Go.” she said Then (in Paris) we slept. The end", text),
    ] {
        let evidence = [passage("a", 3, text, 0.9)];
        let reading = read(&[("", words, 0.9)], "What did she say?", &evidence).await;
        assert_eq!((reading.text.as_str(), quotes(&reading)), (answer, vec![quote]));
        let span = reading.citations[0].span;
        assert_eq!(&text[span.start - 3..span.end - 3], quote);
    }
    // Marks alone are no answer.
    let evidence = [passage("a", 0, "What? ... Nothing.", 0.9)];
    assert!(read(&[("", "...", 0.9)], "What did she say?", &evidence).await.text.is_empty());
}

#[tokio::test]
async fn a_time_of_the_speaker_is_said_as_the_day_that_it_means() {
    let evidence = [said("a", "2023-05-08", "user: I went to the museum yesterday.")];
    for question in ["When did I go to the museum?", "On which day was I in the museum?"] {
        let reading = read(&[("", "yesterday", 0.9)], question, &evidence).await;
        assert_eq!(reading.text, "7 May 2023");
        assert_eq!(quotes(&reading), ["I went to the museum yesterday."]);
    }
    // The rules reckon where the reader finds nothing.
    let reading = read(&[], "When did I go to the museum?", &evidence).await;
    assert!(reading.text.starts_with("On Sunday, 2023-05-07."), "{reading:?}");
    assert!(reading.cost.embedded_tokens > 0 && reading.cost.reranked_tokens > 0);
}

#[tokio::test]
async fn counts_and_lengths_of_time_are_reckoned_by_rules_first() {
    let evidence = [
        said("a", "2024-05-01", "user: I bought a walnut harp from Rolf today. It was late."),
        said("b", "2024-05-21", "user: I bought a birch harp at the fair. It was early."),
        said("c", "2024-05-11", "user: The concert was yesterday! I own two lutes."),
        said("d", "2024-05-01", "assistant: Walnut wants nylon strings. Tune it daily."),
    ];
    let reader = Arc::new(ScriptedReader::new(&[("", "Rolf", 0.9)]));
    let question = "How many harps did I buy?";
    let reading =
        over(reader.clone()).read(&Assignment::new(question, &evidence), soon()).await.unwrap();
    assert!(reading.text.starts_with("2 harps, counted"), "{reading:?}");
    assert!(reader.asked().is_empty());
    // A statement that says the number holds it in its words.
    let evidence = [said("a", "2024-05-01", "user: I own three lutes of oak.")];
    let reading = read(&[("", "three", 0.9)], "How many lutes do I own?", &evidence).await;
    assert_eq!(reading.text, "three");
    let reading = read(&[], "How many lutes do I own?", &evidence).await;
    assert_eq!(reading.text, "I own three lutes of oak.");
}

#[tokio::test]
async fn what_the_assistant_said_goes_before_what_the_user_said() {
    let evidence = [
        passage("a", 0, "user: I like steel strings.", 0.9),
        passage("b", 0, "assistant: Take nylon strings for the harp.", 0.8),
    ];
    let lines = [("strings", "steel", 0.9), ("strings", "nylon", 0.6)];
    let reading = read(&lines, "Which kind of strings did you recommend?", &evidence).await;
    assert_eq!((reading.text.as_str(), reading.confidence), ("nylon", 0.6));
}

#[tokio::test]
async fn a_long_question_is_asked_by_its_end() {
    let preface = "I was in Tara once, long ago, and it was very fine there. ".repeat(20);
    let evidence = [passage("a", 0, "The harp is by Rolf.", 0.9)];
    let reader = Arc::new(ScriptedReader::new(&[("made", "Rolf", 0.9)]));
    let question = format!("{preface}Who made the harp?");
    let reading =
        over(reader.clone()).read(&Assignment::new(&question, &evidence), soon()).await.unwrap();
    assert_eq!(reading.text, "Rolf");
    let asked = &reader.asked()[0];
    assert!(asked.ends_with("Who made the harp?") && asked.len() < 300, "{asked}");
}

#[tokio::test]
async fn a_leaf_answers_and_a_child_is_chosen_by_the_reader() {
    let navigator = told(&[("founded", "Ada", 0.9), ("founded", "Bea", 0.15)]);
    let leaf = passage("leaf", 7, "It was founded by Ada.", 0.1);
    let read = navigator.read_leaf("Who founded it?", &[], &leaf, soon()).await.unwrap();
    assert_eq!(read.answer.unwrap().text, "Ada");
    let read = navigator.read_leaf("Who sold it?", &[], &leaf, soon()).await.unwrap();
    assert_eq!((read.answer, read.cost.embedded_tokens), (None, 0));
    let mut choice = ChildChoice {
        question: "Who founded it?".to_owned(),
        summaries: ["It was sold.", "About Bea.", "About Ada."].map(str::to_owned).to_vec(),
        may_turn_back: true,
        ..ChildChoice::default()
    };
    let triage = navigator.choose_child(&choice, soon()).await.unwrap();
    assert_eq!(triage.step, TriageStep::Enter(2));
    assert_eq!(triage.reasoning, "its summary is 0.90 relevant to the question");
    assert!(triage.cost.reranked_tokens > 0 && triage.cost.embedded_tokens == 0);
    choice.summaries.pop();
    choice.found = vec![0.0, 0.0];
    let triage = navigator.choose_child(&choice, soon()).await.unwrap();
    assert_eq!(triage.step, TriageStep::TurnBack);
    assert!(triage.reasoning.ends_with("the most relevant summary is 0.15 relevant"));
}

fn point(entities: &[&str], text: &str) -> MemoryPoint {
    let entities = entities.iter().map(|entity| (*entity).to_owned()).collect();
    MemoryPoint { entities, text: text.to_owned() }
}

#[tokio::test]
async fn points_resolve_a_question_or_show_where_more_is_needed() {
    let planner = told(&STEPS);
    let film = point(&["Titanic", "James Cameron"], "Titanic was directed by James Cameron");
    let other = point(&["Titanic", "1997"], "Titanic is a film of 1997");
    let born = point(&["James Cameron", "Ontario"], "James Cameron was born in Kapuskasing");
    let concerns =
        async |points: &[MemoryPoint]| planner.concerns(BORN, points, 3, soon()).await.unwrap().0;
    assert_eq!(concerns(&[other.clone(), film.clone(), born]).await, Concerns::Resolved);
    let asked = "Where was James Cameron born?".to_owned();
    assert_eq!(concerns(&[other.clone(), film]).await, Concerns::Local(vec![(1, asked.clone())]));
    let words = ["director", "born"].map(str::to_owned).to_vec();
    assert_eq!(concerns(&[other]).await, Concerns::Global(words));
    let named = planner.subquery(BORN, &[], &asked, &[], soon()).await.unwrap();
    assert_eq!(named.texts, [asked]);
    let (_, cost) = planner.concerns(BORN, &[], 3, soon()).await.unwrap();
    assert_eq!(cost.reranked_tokens, 0);
}

#[tokio::test]
async fn a_passed_deadline_is_the_readers_to_report() {
    let evidence = [passage("a", 0, POLICY, 0.9)];
    let assignment = Assignment::new("Who approves it?", &evidence);
    let error = told(&[]).read(&assignment, Instant::now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

/// A reader that returns what it is given, whatever it reads.
struct Fixed(Mutex<Vec<PassageRead>>);

#[async_trait]
impl SpanReader for Fixed {
    async fn reader_model(&self, _: Instant) -> Result<Option<String>, Error> {
        Ok(Some("fixed".to_owned()))
    }

    async fn read_spans(
        &self,
        _: &str,
        passages: Vec<ReadPassage>,
        _: Instant,
    ) -> Result<PassagesRead, Error> {
        let all = self.0.lock().unwrap();
        let read = all.iter().cycle().take(if all.is_empty() { 0 } else { passages.len() });
        Ok(PassagesRead { passages: read.cloned().collect(), tokens: 1 })
    }
}

#[tokio::test]
async fn a_reader_that_leaves_passages_out_is_at_fault() {
    let evidence = [passage("a", 0, POLICY, 0.9)];
    let reasoner = over(Arc::new(Fixed(Mutex::default())));
    let assignment = Assignment::new("Who approves it?", &evidence);
    let error = reasoner.read(&assignment, soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

fn any_read() -> impl Strategy<Value = PassageRead> {
    let span = (0usize..60, 0usize..30, 0.0f32..=1.0).prop_map(|(start, length, share)| {
        FoundSpan { span: Span::new(start, start + length), share }
    });
    let probability = prop_oneof![0.0f32..=1.0, Just(1.0), Just(f32::NAN)];
    (probability, 0.0f32..=1.0, prop::collection::vec(span, 0..5))
        .prop_map(|(answers, relevance, spans)| PassageRead { answers, relevance, spans })
}

fn any_told() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "Ada ",
        "built ",
        "the mill",
        ". ",
        "\n",
        "“",
        ")",
        "in 1912 ",
        "yesterday ",
        "é",
        "糸",
        ", ",
        "not ",
        "is ",
        "The ",
        "user: ",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn whatever_a_reader_says_citations_are_exact_and_confidence_is_a_probability(
        question in prop::sample::select(vec![
            "Who built the mill?",
            "Which mills did Ada build?",
            "Is Ada the builder of it?",
            "Who is older, Ada or Bea?",
            "Was it Ada or Bea?",
            "Where was the builder of Mill born?",
            "When did Ada build the mill?",
            "What did you say of the mill?",
        ]),
        evidence in prop::collection::vec((any_told(), prop::option::of(1u32..28)), 1..5),
        read in prop::collection::vec(any_read(), 1..4),
    ) {
        let evidence: Vec<Evidence> = evidence
            .iter()
            .enumerate()
            .map(|(n, (text, day))| Evidence {
                event_time: day.map(|day| format!("2024-05-{day:02}").parse().unwrap()),
                ..passage(&format!("d{n}"), 5 * n, text, 0.5)
            })
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reasoner = over(Arc::new(Fixed(Mutex::new(read))));
        let assignment = Assignment::new(question, &evidence);
        let reading = runtime.block_on(reasoner.read(&assignment, soon())).unwrap();
        prop_assert!((0.0..=1.0).contains(&reading.confidence));
        prop_assert_eq!(reading.text.is_empty(), reading.confidence < reading.threshold);
        prop_assert_eq!(reading.text.is_empty(), reading.citations.is_empty());
        for citation in &reading.citations {
            let is_there = evidence.iter().any(|item| {
                let start = citation.span.start.checked_sub(item.span.start);
                let end = citation.span.end.checked_sub(item.span.start);
                item.document_id == citation.document_id
                    && start.zip(end).and_then(|(start, end)| item.text.get(start..end))
                        == Some(citation.quote.as_str())
            });
            prop_assert!(is_there, "{:?}", citation);
        }
        let judged = runtime.block_on(reasoner.judge(question, &evidence, soon())).unwrap();
        prop_assert!(!judged.suffices || judged.missing.is_empty());
    }
}
