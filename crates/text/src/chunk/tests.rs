//! Invariants that hold for every text and tokenizer, and examples of where sections are cut.

use std::cell::Cell;
use std::time::{Duration, Instant};

use clew_core::{Attributes, Labels, MediaType};
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::*;

type Tokenizer = fn(&str) -> Vec<Span>;

/// Returns a token for each run without white space.
fn by_word(text: &str) -> Vec<Span> {
    text.split_whitespace()
        .map(|word| {
            let start = word.as_ptr().addr() - text.as_ptr().addr();
            Span::new(start, start + word.len())
        })
        .collect()
}

/// Returns a token for each byte, including white space, so that tokens split characters.
fn by_byte(text: &str) -> Vec<Span> {
    (0..text.len()).map(|at| Span::new(at, at + 1)).collect()
}

/// Returns a token for each character of a short word and a single, unknown token for a long word,
/// so that cutting a word multiplies its tokens.
fn by_character_of_short_words(text: &str) -> Vec<Span> {
    by_word(text)
        .into_iter()
        .flat_map(|word| {
            let content = word.of(text).unwrap();
            if content.chars().count() > 10 {
                return vec![word];
            }
            content
                .char_indices()
                .map(|(at, c)| Span::new(at, at + c.len_utf8()).shifted(word.start))
                .collect()
        })
        .collect()
}

/// Returns more tokens per word the longer the text is, so that the counts of parts never add up.
fn by_word_and_length(text: &str) -> Vec<Span> {
    let repeats = 1 + text.len() / 60;
    by_word(text).into_iter().flat_map(|word| vec![word; repeats]).collect()
}

const TOKENIZERS: [Tokenizer; 4] =
    [by_word, by_byte, by_character_of_short_words, by_word_and_length];

fn document(text: &str, media_type: MediaType, title: &str) -> Document {
    Document {
        id: "d".parse().unwrap(),
        text: text.to_owned(),
        media_type,
        title: title.to_owned(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::default(),
        source_version: None,
    }
}

fn passages<'a>(text: &'a str, chunks: &[Chunk]) -> Vec<&'a str> {
    chunks.iter().map(|chunk| chunk.span.of(text).unwrap()).collect()
}

fn assert_laws(document: &Document, chunking: &Chunking, tokenizer: Tokenizer, window: usize) {
    let text = document.text.as_str();
    let chunks = chunk(document, chunking, &tokenizer, window);
    assert_eq!(chunks, chunk(document, chunking, &tokenizer, window), "deterministic");
    if text.trim().is_empty() {
        return assert!(chunks.is_empty());
    }
    let overlaps = matches!(chunking, Chunking::Tokens { overlap_tokens: 1.., .. });
    assert_eq!(chunks.first().map(|chunk| chunk.span.start), Some(0));
    assert_eq!(chunks.last().map(|chunk| chunk.span.end), Some(text.len()));
    for pair in chunks.windows(2) {
        let (before, after) = (pair[0].span, pair[1].span);
        assert!(before.start <= after.start && before.end < after.end, "{before:?} {after:?}");
        assert!(after.start <= before.end);
        assert!(overlaps || after.start == before.end);
    }
    let max_tokens = (chunking.max_tokens() as usize).min(window - 2).max(1);
    for (index, chunk) in chunks.iter().enumerate() {
        let passage = chunk.span.of(text).expect("cuts no character");
        let trimmed = passage.trim();
        assert_eq!(chunk.ordinal as usize, index);
        assert!(!trimmed.is_empty());
        assert!(cut::is_grapheme_boundary(text, chunk.span.start));
        let header = chunk.key_text.strip_suffix(trimmed).expect("key text ends with the passage");
        let spans = tokenizer(&chunk.key_text);
        assert_eq!(chunk.tokens as usize, spans.len() + 2);
        let passage_tokens = spans.iter().filter(|token| token.start >= header.len()).count();
        let is_single = passage.graphemes(true).filter(|g| !g.trim().is_empty()).count() == 1;
        assert!(passage_tokens <= max_tokens || is_single, "{passage_tokens} in {passage:?}");
        assert!(spans.len() - passage_tokens <= window / 4);
        assert!(spans.len() + 2 <= window || is_single);
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[a-z]{1,9}( [a-z]{1,14}){0,30}[.!?]? ?",
        "\n{0,2}#{1,3} [A-Z][a-z]{1,8}\n{1,2}",
        "\n- [a-z ]{0,20}\n",
        "\n\\| [a-z]{1,5} \\| [a-z]{1,5} \\|\n",
        "\n> [a-z ]{0,9}\n",
        "[ \n\t\u{a0}]{1,30}",
        "[a-z]{40,200}",
        "[日本語。\u{301}\u{600}\u{1f1e9}\u{1f468}\u{200d}é한\u{915}\u{94d}]{1,20}",
        "\r\n|\n```\n[a-z;\n ]{0,60}\n```\n",
        "\\PC{0,20}",
    ];
    proptest::collection::vec(pieces, 0..14).prop_map(|pieces| pieces.concat())
}

fn any_chunking() -> impl Strategy<Value = Chunking> {
    (1..40_u32, 0..30_u32).prop_flat_map(|(max_tokens, overlap_tokens)| {
        prop_oneof![
            Just(Chunking::Tokens { max_tokens, overlap_tokens: 0 }),
            Just(Chunking::Tokens { max_tokens, overlap_tokens }),
            Just(Chunking::Sentences { max_tokens }),
            Just(Chunking::Sections { max_tokens }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn chunks_keep_their_laws(
        text in any_text(),
        title in "[a-z ]{0,30}",
        chunking in any_chunking(),
        tokenizer in proptest::sample::select(TOKENIZERS.to_vec()),
        is_markdown in any::<bool>(),
        window in 3..64_usize,
    ) {
        let media_type = if is_markdown { MediaType::Markdown } else { MediaType::Plain };
        assert_laws(&document(&text, media_type, &title), &chunking, tokenizer, window);
    }
}

fn sections(text: &str, max_tokens: u32) -> Vec<Chunk> {
    let document = document(text, MediaType::Markdown, "Guide");
    chunk(&document, &Chunking::Sections { max_tokens }, &by_word, 256)
}

#[test]
fn sections_begin_at_headings_and_carry_those_above() {
    let text = "Preface.\n\n# Guide\n\n## Setup\n\nInstall it.\n\n### Linux\n\nUse apt.\n\n## Use\n\nRun it.\n";
    let chunks = sections(text, 50);
    assert_eq!(
        passages(text, &chunks),
        [
            "Preface.\n\n",
            "# Guide\n\n## Setup\n\nInstall it.\n\n",
            "### Linux\n\nUse apt.\n\n",
            "## Use\n\nRun it.\n"
        ]
    );
    let keys: Vec<&str> = chunks.iter().map(|chunk| chunk.key_text.as_str()).collect();
    assert_eq!(keys[2], "Guide\nSetup\n### Linux\n\nUse apt.");
    assert_eq!(keys[3], "Guide\n## Use\n\nRun it.");
}

#[test]
fn a_long_section_is_cut_between_paragraphs_then_sentences() {
    let text =
        "# One\n\na b c d e f\n\ng h i j k l\n\nM n o p q r s. T u v w x y z. A b c d e f g.\n";
    let chunks = sections(text, 9);
    assert_eq!(
        passages(text, &chunks),
        [
            "# One\n\na b c d e f\n\n",
            "g h i j k l\n\n",
            "M n o p q r s. ",
            "T u v w x y z. ",
            "A b c d e f g.\n"
        ]
    );
    assert_eq!(chunks[1].key_text, "Guide\nOne\ng h i j k l");
}

#[test]
fn a_heading_is_not_left_alone_above_a_block_that_fills_a_chunk() {
    let text = "# Long one\n\nA b c d. E f g h.\n";
    assert_eq!(passages(text, &sections(text, 8)), ["# Long one\n\nA b c d. ", "E f g h.\n"]);
}

#[test]
fn no_crumb_is_left_at_the_end_of_a_section() {
    let text = "A b c d e. F g h i j. K l m n o. P q r s t.\n\nU.\n";
    assert_eq!(
        passages(text, &sections(text, 20)),
        ["A b c d e. F g h i j. ", "K l m n o. P q r s t.\n\nU.\n"]
    );
}

#[test]
fn lists_tables_and_code_are_cut_between_items_rows_and_lines() {
    let list = "- a b c\n  - d e f\n- g h i\n";
    assert_eq!(passages(list, &sections(list, 4)), ["- a b c\n", "  - d e f\n", "- g h i\n"]);
    let table = "| a | b |\n|---|---|\n| c | d |\n| e | f |\n";
    assert_eq!(passages(table, &sections(table, 6)).len(), 3);
    let code = "```\n# not a heading;\nlet a = b;\n```\n";
    assert_eq!(passages(code, &sections(code, 50)), [code]);
}

#[test]
fn plain_text_is_cut_at_blank_lines() {
    let text = "a b c\nd\n \n# e f\n\n\ng h i";
    let document = document(text, MediaType::Plain, "");
    let chunks = chunk(&document, &Chunking::Sections { max_tokens: 4 }, &by_word, 256);
    assert_eq!(passages(text, &chunks), ["a b c\nd\n \n", "# e f\n\n\n", "g h i"]);
}

#[test]
fn windows_share_the_tokens_asked_for() {
    let text = "a b c d e f g h i j";
    let document = document(text, MediaType::Plain, "");
    let chunking = Chunking::Tokens { max_tokens: 4, overlap_tokens: 2 };
    let chunks = chunk(&document, &chunking, &by_word, 256);
    assert_eq!(passages(text, &chunks), ["a b c d ", "c d e f ", "e f g h ", "g h i j"]);
}

#[test]
fn a_header_gives_way_to_the_passage() {
    let title = "w ".repeat(40);
    let text = format!("# Outer\n\n## Inner\n\n{}", "A b c d e f g h. ".repeat(8));
    let document = document(&text, MediaType::Markdown, title.trim());
    let chunks = chunk(&document, &Chunking::Sections { max_tokens: 20 }, &by_word, 32);
    assert!(chunks.len() > 2);
    for chunk in &chunks {
        assert!(chunk.key_text.starts_with("w w w w w w w w\n"), "{}", chunk.key_text);
        assert!(chunk.tokens <= 32);
    }
}

/// Returns texts of about one megabyte each, of shapes that break naive chunkers.
fn hostile_texts() -> Vec<(&'static str, String)> {
    let fill = |unit: &str| unit.repeat((1 << 20) / unit.len());
    vec![
        ("one word", fill("x")),
        ("one line of words", fill("word ")),
        ("one line of sentences", fill("A sentence. ")),
        ("line breaks after words", fill("a\n")),
        ("headings", fill("# a\n")),
        ("flags", fill("\u{1f1e9}\u{1f1ea}")),
        ("one grapheme", fill("\u{301}")),
        ("families", fill("\u{1f468}\u{200d}")),
        ("no-break spaces in paragraphs", fill("\u{a0}\n\n")),
        ("a letter in white space", format!("{}a{}", fill(" "), fill("\n"))),
        ("full stops", fill(". ")),
        ("brackets after a full stop", format!(".{}", fill(")"))),
        ("bullets on one line", fill("- ")),
        ("quotation marks on one line", fill("> ")),
        ("table rows", format!("| a |\n|---|\n{}", fill("| a |\n"))),
        ("ideographs", fill("日")),
    ]
}

#[test]
fn cost_is_linear_whatever_the_shape_of_the_text() {
    for (name, text) in hostile_texts() {
        for chunking in [
            Chunking::Tokens { max_tokens: 200, overlap_tokens: 40 },
            Chunking::Sentences { max_tokens: 200 },
            Chunking::Sections { max_tokens: 200 },
        ] {
            let tokenised = Cell::new(0);
            let counting = |text: &str| {
                tokenised.set(tokenised.get() + text.len());
                by_word(text)
            };
            let document = document(&text, MediaType::Markdown, "");
            let began = Instant::now();
            chunk(&document, &chunking, &counting, 256);
            let took = began.elapsed();
            assert!(tokenised.get() <= 4 * text.len(), "{name}: {} bytes", tokenised.get());
            assert!(took < Duration::from_secs(30), "{name}, {chunking:?}: {took:?}");
        }
    }
}
