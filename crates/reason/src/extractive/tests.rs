//! Claims about reading as a whole.

use std::time::Duration;

use clew_core::ErrorKind;
use proptest::prelude::*;

use super::fixtures::{BagOfWords, passage};
use super::*;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

async fn read(question: &str, evidence: &[Evidence]) -> Reading {
    Extractive::new(Arc::new(BagOfWords::new()))
        .read(&Assignment::new(question, evidence), soon())
        .await
        .unwrap()
}

fn quotes(reading: &Reading) -> Vec<&str> {
    reading.citations.iter().map(|citation| citation.quote.as_str()).collect()
}

fn myth() -> Vec<Evidence> {
    vec![
        passage(
            "crete",
            7,
            "Μῖνος ruled Crete – an island. Ariadne gave Theseus a ball of thread.  Daedalus built \
             the labyrinth for the king.",
            0.9,
        ),
        passage("argo", 0, "Jason sailed on the Argo. Medea helped Jason to the fleece.", 0.5),
    ]
}

#[tokio::test]
async fn the_sentence_that_answers_is_cited_at_its_bytes() {
    let evidence = myth();
    let reading = read("Who gave Theseus the ball of thread?", &evidence).await;
    assert!(reading.confidence >= reading.threshold, "{reading:?}");
    assert_eq!(reading.text, "Ariadne gave Theseus a ball of thread.");
    let [citation] = &reading.citations[..] else { panic!("{reading:?}") };
    assert_eq!(citation.quote, reading.text);
    let start = 7 + evidence[0].text.find("Ariadne").unwrap();
    assert_eq!(citation.span, clew_core::Span::new(start, start + reading.text.len()));
    assert_eq!(citation.document_id, evidence[0].document_id);
    assert_eq!(reading.sentences, 5);
}

#[tokio::test]
async fn what_the_evidence_does_not_tell_is_not_answered() {
    for question in ["Who gave Perseus the winged sandals?", "When was Zurich founded?", "Why?"] {
        let reading = read(question, &myth()).await;
        assert!(reading.confidence < reading.threshold, "{question}: {reading:?}");
        assert!(reading.text.is_empty() && reading.citations.is_empty());
    }
    let reading = read("When was Zurich founded?", &myth()).await;
    assert!(reading.rationale.contains("missing: \"Zurich\", \"founded\""), "{reading:?}");
}

#[tokio::test]
async fn a_name_in_the_title_counts_as_read() {
    let mut evidence = vec![passage("a", 0, "The founding year of the town is 1834.", 0.9)];
    let question = "What is the founding year of Chicago?";
    let untitled = read(question, &evidence).await;
    evidence[0].title = "Chicago".to_owned();
    let titled = read(question, &evidence).await;
    assert!(untitled.confidence < untitled.threshold && titled.confidence >= titled.threshold);
    assert_eq!(titled.citations[0].title, "Chicago");
}

#[tokio::test]
async fn equal_passages_may_come_in_any_order() {
    let mut evidence = myth();
    evidence.push(passage("naxos", 0, "Theseus left Ariadne on Naxos with her thread.", 0.5));
    evidence.iter_mut().for_each(|item| item.score = 0.5);
    let question = "What did Theseus do with Ariadne and the thread?";
    let forward = read(question, &evidence).await;
    evidence.reverse();
    assert_eq!(read(question, &evidence).await, forward);
    assert!(!forward.text.is_empty());
}

#[tokio::test]
async fn what_two_passages_share_is_said_once() {
    let told = "Ariadne gave Theseus a ball of thread.";
    let evidence = [
        passage("a", 0, told, 0.9),
        passage("b", 0, told, 0.8),
        passage("c", 0, "Ariadne gave Theseus a ball of thread!", 0.7),
        // The overlap of two neighbouring chunks, cut at the front.
        passage("a", 8, &told[8..], 0.6),
    ];
    let reading = read("Who gave Theseus a ball of thread?", &evidence).await;
    assert_eq!(quotes(&reading), [told]);
}

#[tokio::test]
async fn no_amount_of_text_is_embedded_or_said_without_bound() {
    let long = |thread: usize| -> String {
        (0..10_000).map(|n| format!("Thread {thread} has knot {n} of many. ")).collect()
    };
    let one_sentence = "thread of knots ".repeat(20_000);
    let mut evidence: Vec<Evidence> =
        (0..30).map(|n| passage(&format!("d{n}"), 0, &long(n), 1.0)).collect();
    evidence.push(passage("run-on", 0, &one_sentence, 2.0));
    let encoder = Arc::new(BagOfWords::new());
    let reader = Extractive::new(encoder.clone());
    let reading = reader
        .read(&Assignment::new("How many knots has the thread?", &evidence), soon())
        .await
        .unwrap();
    assert_eq!(reading.sentences, 48);
    assert_eq!(*encoder.calls.lock().unwrap(), [(TextKind::Query, 1), (TextKind::Passage, 48)]);
    assert!(!reading.text.is_empty() && reading.text.chars().count() <= 600);
    assert!(reading.citations.len() <= 3);
}

#[tokio::test]
async fn nothing_found_is_nothing_known_and_costs_nothing() {
    let encoder = Arc::new(BagOfWords::new());
    let reader = Extractive::new(encoder.clone());
    for evidence in [vec![], vec![passage("blank", 0, " \n ", 0.5)]] {
        let reading =
            reader.read(&Assignment::new("Who gave him thread?", &evidence), soon()).await.unwrap();
        assert_eq!((reading.confidence, reading.text.as_str()), (0.0, ""));
        assert!(reading.confidence < reading.threshold);
        assert_eq!(reading.cost, Cost::default());
    }
    assert!(encoder.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_cost_is_the_tokens_of_the_question_and_the_sentences() {
    let evidence = [passage("a", 0, "One two three. Four five six.", 0.9)];
    let reading = read("What is four?", &evidence).await;
    assert_eq!(reading.cost, Cost { embedded_tokens: 3 + 6, ..Cost::default() });
}

#[tokio::test]
async fn a_passed_deadline_is_the_encoders_to_report() {
    let reader = Extractive::new(Arc::new(BagOfWords::new()));
    let error = reader
        .read(&Assignment::new("Who gave thread?", &myth()), Instant::now())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

#[tokio::test]
async fn a_passage_that_does_not_fit_its_span_is_refused() {
    let mut evidence = myth();
    evidence[1].span.end += 1;
    let reader = Extractive::new(Arc::new(BagOfWords::new()));
    let error =
        reader.read(&Assignment::new("Who gave thread?", &evidence), soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

/// Texts of words of which the question below holds some, so that most cases are answered.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "Ariadne ", "Thésée ", "thread ", "labyrinth ", "gave ", "糸 ", "It ", "She ",
        ]),
        1 => prop::sample::select(vec![". ", "? ", "\n", "\n\n# ", "  ", "。", "| ", ": ", "🧶"]),
    ];
    prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_citation_is_the_text_at_its_span(
        texts in prop::collection::vec((0usize..3, 0usize..50, any_text()), 1..14),
    ) {
        let evidence: Vec<Evidence> = texts
            .iter()
            .enumerate()
            .map(|(n, (document, start, text))| {
                passage(&format!("d{document}"), *start, text, 1.0 / (1.0 + (n / 2) as f32))
            })
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reading =
            runtime.block_on(read("Ariadne gave Thésée thread in the labyrinth", &evidence));
        prop_assert!((0.0..=1.0).contains(&reading.confidence));
        prop_assert_eq!(&reading.text, &quotes(&reading).join(" "));
        prop_assert!(reading.text.chars().count() <= 600);
        for citation in &reading.citations {
            prop_assert_eq!(citation.quote.trim(), &citation.quote);
            let is_there = evidence.iter().any(|item| {
                let start = citation.span.start.checked_sub(item.span.start);
                let end = citation.span.end.checked_sub(item.span.start);
                item.document_id == citation.document_id
                    && start.zip(end).and_then(|(start, end)| item.text.get(start..end))
                        == Some(citation.quote.as_str())
            });
            prop_assert!(is_there, "{:?}", citation);
        }
    }
}
