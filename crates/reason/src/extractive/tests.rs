//! Claims about reading as a whole.

use std::time::Duration;

use clew_core::{ErrorKind, OneEncoder};
use proptest::prelude::*;

use super::fixtures::{BagOfWords, passage};
use super::*;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

async fn read(question: &str, evidence: &[Evidence]) -> Reading {
    ExtractiveReasoner::new(Arc::new(OneEncoder(Arc::new(BagOfWords::new()))))
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
async fn a_question_that_was_asked_before_is_no_answer_to_itself() {
    let question = "Where did Theseus leave Ariadne?";
    let asked = passage("monday", 0, "user: Where did Theseus leave Ariadne? ", 0.9);
    let reading = read(question, std::slice::from_ref(&asked)).await;
    assert!(reading.confidence < reading.threshold, "{reading:?}");
    let told = "Theseus did leave Ariadne on Naxos.";
    let both = [asked, passage("tuesday", 0, &format!("user: {told}"), 0.5)];
    assert_eq!(quotes(&read(question, &both).await), [told]);
    // Who says more than the question says something.
    let more = "user: Where did Theseus leave Ariadne? It was on Naxos.";
    let more = passage("monday", 0, more, 0.9);
    assert!(!read(question, &[more]).await.text.is_empty());
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
    let reader = ExtractiveReasoner::new(Arc::new(OneEncoder(encoder.clone())));
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
    let reader = ExtractiveReasoner::new(Arc::new(OneEncoder(encoder.clone())));
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
    let reader = ExtractiveReasoner::new(Arc::new(OneEncoder(Arc::new(BagOfWords::new()))));
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
    let reader = ExtractiveReasoner::new(Arc::new(OneEncoder(Arc::new(BagOfWords::new()))));
    let error =
        reader.read(&Assignment::new("Who gave thread?", &evidence), soon()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

/// Returns turns of `ada` on several days, and the assistant's answer to the first.
fn diary() -> Vec<Evidence> {
    let turn = |document: &str, day: &str, text: &str| Evidence {
        event_time: day.parse().ok(),
        ..passage(document, 0, text, 0.5)
    };
    vec![
        turn(
            "ada/1/0",
            "2024-05-01",
            "user: I bought a walnut harp from Rolf today. It cost me $300.",
        ),
        turn(
            "ada/1/1",
            "2024-05-01",
            "assistant: A walnut harp wants nylon strings.\n2. Tune it daily.",
        ),
        turn("ada/2/0", "2024-05-11", "user: The harp concert was yesterday! I own two lutes."),
        turn(
            "ada/3/0",
            "2024-05-20",
            "user: I own three lutes now. I love quiet songs on my harp.",
        ),
        turn(
            "ada/4/0",
            "2024-05-21",
            "user: I bought a birch harp at the fair. Its price was high.",
        ),
    ]
}

async fn remembered(question: &str, asked_at: &str) -> Reading {
    let evidence = diary();
    let assignment =
        Assignment { asked_at: asked_at.parse().ok(), ..Assignment::new(question, &evidence) };
    ExtractiveReasoner::new(Arc::new(OneEncoder(Arc::new(BagOfWords::new()))))
        .read(&assignment, soon())
        .await
        .unwrap()
}

#[tokio::test]
async fn what_is_asked_of_a_diary_is_reckoned_and_quoted() {
    for (question, expected) in [
        (
            "How many days passed between the day I bought the walnut harp from Rolf and the harp concert?",
            "9 days: Wednesday, 2024-05-01, then Friday, 2024-05-10. \
             I bought a walnut harp from Rolf today. The harp concert was yesterday!",
        ),
        (
            "How many weeks ago did I buy a walnut harp from Rolf?",
            "About 4 weeks (31 days) ago: Wednesday, 2024-05-01. \
             I bought a walnut harp from Rolf today.",
        ),
        (
            "How many harps did I buy?",
            "2 harps, counted from what was said: (1) Wednesday, 2024-05-01, (2) Tuesday, 2024-05-21. \
             I bought a walnut harp from Rolf today. I bought a birch harp at the fair.",
        ),
        ("How many lutes do I own now?", "I own three lutes now."),
    ] {
        let reading = remembered(question, "2024-06-01").await;
        assert!(reading.confidence >= reading.threshold, "{question}: {reading:?}");
        assert_eq!(reading.text, expected, "{question}");
    }
    let reading = remembered("What can you recommend for songs on my harp? Any tips?", "").await;
    assert!(reading.text.starts_with("You said: "), "{reading:?}");
    assert!(reading.text.contains("I love quiet songs on my harp."), "{reading:?}");
    let reading = remembered("Which strings did you recommend for the walnut harp?", "").await;
    assert_eq!(reading.citations[0].quote, "A walnut harp wants nylon strings.");
}

#[tokio::test]
async fn an_event_of_which_nothing_tells_is_not_reckoned_with() {
    for question in [
        "How many days passed between the harp concert and my flight to Lisbon?",
        "Which did I buy first, the walnut harp or the zither from Oslo?",
    ] {
        let reading = remembered(question, "2024-06-01").await;
        assert!(reading.confidence < reading.threshold && reading.text.is_empty(), "{reading:?}");
        assert!(reading.rationale.starts_with("nothing tells of"), "{reading:?}");
    }
}

#[tokio::test]
async fn texts_without_times_are_read_as_ever() {
    let evidence = [
        passage("a", 0, "The mill of Tara was built by monks in 1843.", 0.5),
        passage("b", 0, "The forge of Tara was built by monks in 1901.", 0.5),
    ];
    let reading =
        read("Which was built first, the mill of Tara or the forge of Tara?", &evidence).await;
    assert!(reading.confidence >= reading.threshold, "{reading:?}");
    assert_eq!(reading.text, quotes(&reading).join(" "));
    // Nothing is known of the asker.
    let reading = read("What should I know of the mill of Tara built by monks?", &evidence).await;
    assert_eq!(reading.text, quotes(&reading).join(" "));
    assert_eq!(reading.threshold, THRESHOLD);
}

/// Generates texts that contain words of the question below, so that most cases are answered.
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

    #[test]
    fn whatever_is_asked_every_citation_is_the_text_at_its_span(
        question in prop::sample::select(vec![
            "How many days passed between the harp and Ada's lute?",
            "How long ago did I buy the harp?",
            "Which did I buy first, the harp or the lute?",
            "When did I buy the harp?",
            "How many harps did I buy?",
            "How much money did I spend on the harp and the lute?",
            "How much money did I spend on harps?",
            "Any tips for my harp?",
            "Remind me of the 2nd harp you mentioned.",
            "What harp do I own now?",
        ]),
        texts in prop::collection::vec((any_day(), any_told()), 1..8),
    ) {
        let evidence: Vec<Evidence> = texts
            .iter()
            .enumerate()
            .map(|(n, (event_time, text))| Evidence {
                event_time: *event_time,
                ..passage(&format!("d{n}"), 0, text, 0.5)
            })
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let asked_at = "2024-06-01".parse().ok();
        let assignment = Assignment { asked_at, ..Assignment::new(question, &evidence) };
        let reader = ExtractiveReasoner::new(Arc::new(OneEncoder(Arc::new(BagOfWords::new()))));
        let reading = runtime.block_on(reader.read(&assignment, soon())).unwrap();
        prop_assert!((0.0..=1.0).contains(&reading.confidence));
        prop_assert_eq!(reading.text.is_empty(), reading.confidence < reading.threshold);
        prop_assert!(reading.text.ends_with(&quotes(&reading).join(" ")));
        for citation in &reading.citations {
            let is_there = evidence.iter().any(|item| {
                item.document_id == citation.document_id
                    && item.text.get(citation.span.start..citation.span.end)
                        == Some(citation.quote.as_str())
            });
            prop_assert!(is_there, "{:?}", citation);
        }
    }
}

fn any_day() -> impl Strategy<Value = Option<clew_core::Timestamp>> {
    prop::option::of((1u32..28).prop_map(|day| format!("2024-05-{day:02}").parse().unwrap()))
}

/// Generates turns that mention the questions' harps and lutes.
fn any_told() -> impl Strategy<Value = String> {
    let said = prop::sample::select(vec![
        "I bought a harp ",
        "from Ada ",
        "yesterday",
        ". ",
        "I spent $40 on the lute",
        ". ",
        "two harps ",
        "on May 3rd",
        "\n2. A harp",
        "? ",
        "I love my lute",
        "é ",
        "I'm thinking of a harp",
        ".\n",
    ]);
    let speaker = prop::sample::select(vec!["user: ", "assistant: ", "", "Ada: "]);
    (speaker, prop::collection::vec(said, 0..24))
        .prop_map(|(speaker, said)| format!("{speaker}{}", said.concat()))
}
