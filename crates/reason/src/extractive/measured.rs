//! Measures how many of LongMemEval's questions the rules for forms of questions take up and answer
//! correctly, compared with reading them like any question. The evidence is given, so this measures
//! reading and not retrieval. Similarity is that of words alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::{Duration, Instant};

use clew_core::{
    Embedding, Encoder, EncoderIdentity, OneEncoder, Priority, Span, TextKind, Timestamp,
};
use clew_text::{Term, terms};
use serde_json::Value;

use super::fixtures::passage;
use super::*;

/// Number of passages read for a question.
const PASSAGES: usize = 10;
const DIMENSION: usize = 4096;

/// An encoder that counts the terms of a text, as a unit vector.
struct BagOfTerms(EncoderIdentity);

#[async_trait]
impl Encoder for BagOfTerms {
    fn identity(&self) -> &EncoderIdentity {
        &self.0
    }

    fn token_spans(&self, _: &str) -> Vec<Span> {
        Vec::new()
    }

    async fn embed(
        &self,
        texts: Vec<String>,
        _: TextKind,
        _: Priority,
        _: Instant,
    ) -> Result<Vec<Embedding>, Error> {
        let embedding = |text: &String| {
            let mut vector = vec![0.0f32; DIMENSION];
            for term in terms(text) {
                let hash = blake3::hash(term.as_str().as_bytes());
                let [a, b, ..] = *hash.as_bytes();
                vector[usize::from(u16::from_le_bytes([a, b])) % DIMENSION] += 1.0;
            }
            let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            vector.iter_mut().for_each(|x| *x /= length);
            Embedding { vector, tokens: 0, truncated: false }
        };
        Ok(texts.iter().map(embedding).collect())
    }
}

fn cosine_of_terms(a: &BTreeSet<Term>, b: &BTreeSet<Term>) -> f32 {
    let common = a.intersection(b).count() as f32;
    common / ((a.len() * b.len()) as f32).sqrt().max(1.0)
}

fn set(text: &str) -> BTreeSet<Term> {
    terms(text).collect()
}

/// Parses a time such as `2023/05/20 (Sat) 02:21`.
fn time(written: &str) -> Option<Timestamp> {
    let (day, time) = (written.get(..10)?.replace('/', "-"), written.get(written.len() - 5..)?);
    format!("{day}T{time}:00Z").parse().ok()
}

/// Returns the turns labelled as evidence, and of all others those nearest to the question.
fn evidence(instance: &Value) -> Vec<Evidence> {
    let question = set(instance["question"].as_str().unwrap());
    let sessions = instance["haystack_sessions"].as_array().unwrap();
    let mut turns = Vec::new();
    for (number, (session, date)) in
        sessions.iter().zip(instance["haystack_dates"].as_array().unwrap()).enumerate()
    {
        for (place, turn) in session.as_array().unwrap().iter().enumerate() {
            let text = format!(
                "{}: {}",
                turn["role"].as_str().unwrap(),
                turn["content"].as_str().unwrap()
            );
            let is_evidence = turn["has_answer"] == true;
            let near = cosine_of_terms(&set(&text), &question);
            let score = near + f32::from(u8::from(is_evidence));
            let document = format!("u/s{number}/{place:010}");
            let event_time = time(date.as_str().unwrap());
            turns.push(Evidence { event_time, ..passage(&document, 0, &text, score) });
        }
    }
    turns.sort_by(|a, b| b.score.total_cmp(&a.score));
    turns.truncate(PASSAGES);
    // Removes the label from the score, since the ranking must not know it.
    turns.iter_mut().for_each(|turn| turn.score = turn.score.fract());
    turns
}

/// Returns the documents of the turns labelled as evidence.
fn labelled(instance: &Value) -> BTreeSet<String> {
    let mut labelled = BTreeSet::new();
    for (number, session) in instance["haystack_sessions"].as_array().unwrap().iter().enumerate() {
        for (place, turn) in session.as_array().unwrap().iter().enumerate() {
            if turn["has_answer"] == true {
                labelled.insert(format!("u/s{number}/{place:010}"));
            }
        }
    }
    labelled
}

/// Returns the numbers in a text; of a date, its year, month and day.
fn numbers(text: &str) -> BTreeSet<u32> {
    let words = text.replace(',', "").to_lowercase();
    let words = words.split(|c: char| !c.is_alphanumeric());
    let number = |word: &str| clew_text::spelt_number(word).or_else(|| word.parse().ok());
    words.filter_map(number).collect()
}

/// Returns whether `text` says what is expected, as far as words show: for a figure the number, for
/// anything else most of the words.
fn is_right(text: &str, matter: &Matter, expected: &str) -> bool {
    let head = text.split(": ").next().unwrap_or_default();
    match matter {
        Matter::Reckoning(reckoning::Reckoning::Order { events, .. }) if text.contains('“') => {
            let said: Vec<&str> =
                text.split('“').skip(1).filter_map(|part| part.split('”').next()).collect();
            if events.len() > 2 {
                let places: Option<Vec<usize>> =
                    said.iter().take(events.len()).map(|event| expected.find(event)).collect();
                return places.is_some_and(|places| places.is_sorted());
            }
            let near = |event: &str| cosine_of_terms(&set(event), &set(expected));
            said.len() >= 2 && near(said[0]) > near(said[1])
        }
        _ if !numbers(expected).is_empty() => {
            let all = numbers(expected);
            let figures = numbers(head);
            let made = matches!(matter, Matter::Reckoning(_) | Matter::Counting(_))
                && text.len() > head.len();
            if made { !all.is_disjoint(&figures) } else { !all.is_disjoint(&numbers(text)) }
        }
        _ => {
            let wanted = set(expected);
            wanted.intersection(&set(text)).count() as f32 >= 0.6 * wanted.len() as f32
        }
    }
}

#[tokio::test]
#[ignore = "needs the folder that CLEW_EVAL_DATA names"]
async fn questions_taken_up_and_answered_rightly() {
    let data = std::env::var("CLEW_EVAL_DATA").expect("CLEW_EVAL_DATA names a folder");
    let file = std::path::PathBuf::from(data).join("longmemeval/oracle.jsonl.gz");
    let mut text = String::new();
    let file = std::fs::File::open(file).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let identity = EncoderIdentity {
        model: "bag-of-terms".to_owned(),
        revision: "1".to_owned(),
        dimension: DIMENSION as u32,
        max_tokens: u32::MAX,
    };
    let reader = ExtractiveReasoner::new(Arc::new(OneEncoder(Arc::new(BagOfTerms(identity)))));
    // Number of questions, taken up by rules, answered before, right before, answered now, right
    // now.
    let mut counts: BTreeMap<(String, String), [usize; 6]> = BTreeMap::new();
    for line in text.lines() {
        let instance: Value = serde_json::from_str(line).unwrap();
        let of = |field: &str| instance[field].as_str().unwrap_or_default();
        let expected = match &instance["answer"] {
            Value::String(answer) => answer.clone(),
            other => other.to_string(),
        };
        let (question, evidence) = (of("question"), evidence(&instance));
        let matter = Matter::of(question);
        let assignment = Assignment {
            asked_at: time(of("question_date")),
            ..Assignment::new(question, &evidence)
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let before = reader
            .read_for(&assignment, &Matter::Fact, &Leaning::default(), deadline)
            .await
            .unwrap()
            .reading;
        let after = reader.read(&assignment, deadline).await.unwrap();
        let is_unanswerable = of("question_id").ends_with("_abs");
        let is_right = |reading: &Reading, matter: &Matter| {
            if is_unanswerable {
                return reading.text.is_empty();
            }
            // Preferences are described in other words, so this can only check that the evidence is
            // cited.
            if of("question_type") == "single-session-preference" {
                let labelled = labelled(&instance);
                let mut cited = reading.citations.iter().map(|cited| cited.document_id.as_str());
                return cited.any(|document| labelled.contains(document));
            }
            !reading.text.is_empty() && is_right(&reading.text, matter, &expected)
        };
        let made = after.rationale.starts_with("reckoned") || after.text.starts_with("You said: ");
        let is_refused = after.rationale.starts_with("nothing tells of");
        let kind = if is_unanswerable { "unanswerable" } else { of("question_type") };
        let name = format!("{matter:?}");
        let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '(').collect();
        let count = counts.entry((kind.to_owned(), name.clone())).or_default();
        let flags = [
            true,
            made || is_refused,
            !before.text.is_empty(),
            is_right(&before, &Matter::Fact),
            !after.text.is_empty(),
            is_right(&after, &matter),
        ];
        for (count, flag) in count.iter_mut().zip(flags) {
            *count += usize::from(flag);
        }
        println!(
            "{} {} {} {kind} {name}\n  Q {question}\n  = {expected}\n  < {:.2} {}\n  > {:.2} {} {}",
            if flags[5] { "+" } else { "-" },
            if flags[3] { "(+)" } else { "(-)" },
            if made {
                "made"
            } else if is_refused {
                "refused"
            } else {
                ""
            },
            before.confidence,
            before.text,
            after.confidence,
            after.text,
            if is_refused { &after.rationale } else { "" },
        );
    }
    println!("questions, by rules, before: answered, right; now: answered, right");
    for ((kind, matter), counts) in counts {
        println!("{kind:28} {matter:22} {counts:?}");
    }
}
