use proptest::prelude::*;

use super::*;

fn task(level: SummaryLevel, parts: &[&str], max_bytes: usize) -> SummaryTask {
    let parts = parts.iter().map(|part| (*part).to_owned()).collect();
    SummaryTask { level, parts, max_bytes }
}

const CRETE: &str = "King Minos of Crete kept the Minotaur in a labyrinth. It rained that day. Every year \
    Athens sent young people into the labyrinth, and the Minotaur ate them.";
const THESEUS: &str = "Theseus of Athens went to Crete to kill the Minotaur. Was he afraid? Ariadne gave him a \
    ball of thread, with which he found his way out of the labyrinth.\n\n## Sources\n\nNone.";

#[test]
fn a_leaf_tells_what_its_passages_keep_coming_back_to() {
    let summary = summarise(&task(SummaryLevel::Leaf, &[CRETE, THESEUS], 180));
    let expected = "Every year Athens sent young people into the labyrinth, and the Minotaur ate them. \
        Ariadne gave him a ball of thread, with which he found his way out of the labyrinth.";
    assert_eq!(summary.text, expected);
    assert_eq!(summary.quotes.iter().map(|quote| quote.part).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn with_room_for_all_that_is_new_what_states_nothing_is_left_out() {
    let summary = summarise(&task(SummaryLevel::Leaf, &[CRETE, THESEUS], 10_000));
    assert!(summary.text.contains("ball of thread") && summary.text.contains("It rained"));
    assert!(!summary.text.contains("afraid") && !summary.text.contains("Sources"));
}

#[test]
fn an_inner_node_gives_each_child_a_sentence_first() {
    let long =
        "Ships brought grain, oil, wine and wool. Captains sold salt, iron, glass and paper. ";
    let short = "Birds sang all night.";
    let parts = [long, short, "## Mayors!"];
    let text = |level| summarise(&task(level, &parts, 88)).text;
    let of_inner = text(SummaryLevel::Inner);
    assert!(of_inner.contains("Ships") || of_inner.contains("Captains"), "{of_inner}");
    assert!(of_inner.contains("Mayors") && of_inner.contains("Birds"), "{of_inner}");
    let of_leaf = text(SummaryLevel::Leaf);
    assert!(of_leaf.contains("Ships") && of_leaf.contains("Captains"), "{of_leaf}");
}

#[test]
fn a_repeated_sentence_is_said_once() {
    let said = "The thread was red.";
    let summary = summarise(&task(SummaryLevel::Leaf, &[said, said, said], 1000));
    assert_eq!(summary.text, said);
}

#[test]
fn where_no_sentence_fits_the_best_one_is_begun() {
    let summary = summarise(&task(SummaryLevel::Leaf, &["Ariadne  gave\nhim a thread."], 15));
    assert_eq!(summary.text, "Ariadne gave");
    assert_eq!(summary.quotes, [Quote { part: 0, span: Span::new(0, 13) }]);
    let summary = summarise(&task(SummaryLevel::Leaf, &["ααα"], 3));
    assert_eq!(summary.text, "α");
}

#[test]
fn nothing_is_said_of_nothing() {
    for parts in [&[][..], &[""], &[" \n", "\t"]] {
        let summary = summarise(&task(SummaryLevel::Inner, parts, 100));
        assert_eq!(summary, Summary::default());
    }
}

#[test]
fn texts_without_statements_are_summarised_too() {
    let summary = summarise(&task(SummaryLevel::Leaf, &["# Threads\n\nWho has one?"], 100));
    assert_eq!(summary.text, "# Threads Who has one?");
    assert_eq!(summarise(&task(SummaryLevel::Leaf, &["?!"], 100)).text, "?!");
}

proptest! {
    #[test]
    fn a_summary_is_made_of_sentences_in_order_and_within_its_budget(
        parts in prop::collection::vec("([ab é.?\n]|the thread |\u{1f1e9}|e\u{301}){0,60}|\\PC{0,60}", 0..6),
        max_bytes in 1usize..200,
        is_inner: bool,
    ) {
        let level = if is_inner { SummaryLevel::Inner } else { SummaryLevel::Leaf };
        let task = SummaryTask { level, parts, max_bytes };
        let summary = summarise(&task);
        prop_assert!(summary.text.len() <= max_bytes);
        let places: Vec<_> = summary.quotes.iter().map(|quote| (quote.part, quote.span)).collect();
        prop_assert!(places.windows(2).all(|two| two[0].0 < two[1].0 || two[0].1.end <= two[1].1.start));
        let quoted = |quote: &Quote| quote.span.of(&task.parts[quote.part]).map(one_line);
        let texts: Option<Vec<String>> = summary.quotes.iter().map(quoted).collect();
        prop_assert_eq!(texts.expect("spans of parts").join(" "), summary.text.clone());
        if summary.quotes.len() > 1 {
            for quote in &summary.quotes {
                let part = &task.parts[quote.part];
                let spans = crate::sentences(part);
                let mut whole = spans.into_iter().map(|span| trimmed(part, span));
                prop_assert!(whole.any(|span| span == quote.span));
            }
        }
        let has_ink = task.parts.iter().any(|part| !part.trim().is_empty());
        // One character may take four bytes.
        prop_assert!(!summary.text.is_empty() || !has_ink || max_bytes < 4);
        prop_assert_eq!(summarise(&task), summary);
    }
}
