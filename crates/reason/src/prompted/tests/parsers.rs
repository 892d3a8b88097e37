//! No reply makes a parser panic or guess.
//!
//! `CLEW_PARSER_CASES` sets the number of replies for each property, 256 by default. The long run
//! takes some minutes: `CLEW_PARSER_CASES=1000000 cargo test --release -p clew-reason parsers`.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::*;
use super::samples::{Visitor, visit_all};

/// A visitor that parses one reply by every act.
struct ReadBy<'a> {
    text: &'a str,
    is_whole: bool,
}

impl Visitor for ReadBy<'_> {
    fn visit<A: Act<Output: Debug + PartialEq> + Debug>(&mut self, act: A, _: &[&str]) {
        let reply = Reply { text: self.text, is_whole: self.is_whole };
        // The result is the same each time, and there is no panic.
        assert_eq!(act.parse(reply), act.parse(reply));
    }
}

/// A visitor that collects all replies of the samples.
#[derive(Default)]
struct Understood(Vec<String>);

impl Visitor for Understood {
    fn visit<A: Act<Output: Debug + PartialEq> + Debug>(&mut self, act: A, replies: &[&str]) {
        for text in replies {
            let read = act.parse(Reply { text, is_whole: true });
            assert!(read.is_ok(), "{text}: {read:?} of {act:?}");
            self.0.push((*text).to_owned());
        }
    }
}

fn understood() -> Vec<String> {
    let mut understood = Understood::default();
    visit_all(&mut understood);
    understood.0
}

fn cases() -> u32 {
    let set = std::env::var("CLEW_PARSER_CASES").ok();
    set.map_or(256, |cases| cases.parse().expect("CLEW_PARSER_CASES is a number"))
}

fn check(reply: impl Strategy<Value = String>) {
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    let law = |(text, is_whole): (String, bool)| {
        visit_all(&mut ReadBy { text: &text, is_whole });
        Ok(())
    };
    TestRunner::new(config).run(&(reply, any::<bool>()), law).unwrap();
}

#[test]
fn good_replies_are_understood() {
    assert!(understood().len() > 40);
}

#[test]
fn any_text_is_read_or_refused() {
    check("\\PC{0,200}|(?s:.{0,200})");
}

#[test]
fn any_text_of_json_and_lines_is_read_or_refused() {
    let parts = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        ":",
        ",",
        "\n",
        "\\",
        "\\u",
        "d83d",
        " ",
        "//",
        "/*",
        "*/",
        "#",
        "```",
        "```json\n",
        "<think>",
        "</think>",
        "**",
        "|",
        "- ",
        "1. ",
        "1",
        "-1",
        "2.5",
        "1e400",
        "action",
        "Action:",
        "answer",
        "suffices",
        "true",
        "None",
        "notes",
        "citations",
        "passage",
        "points",
        "entities",
        "queries",
        "date",
        "2024-05-20",
        "9999-12",
        "é",
        "“",
        "”",
        "back",
        "yes",
    ]);
    let texts = prop::collection::vec(parts, 0..40);
    check(texts.prop_map(|parts| parts.concat()));
}

#[test]
fn mutated_good_replies_are_read_or_refused() {
    let good = prop::sample::select(understood());
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, any::<char>()), 1..6);
    check((good, edits).prop_map(|(text, edits)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (place, edit, with) in edits {
            let at = place.index(chars.len() + 1);
            match edit {
                0 => chars.insert(at, with),
                1 if at < chars.len() => drop(chars.remove(at)),
                _ if at < chars.len() => chars[at] = with,
                _ => chars.push(with),
            }
        }
        chars.into_iter().collect()
    }));
}

#[test]
fn truncated_good_replies_are_read_or_refused() {
    let good = prop::sample::select(understood());
    check((good, any::<prop::sample::Index>()).prop_map(|(text, end)| {
        let end = text.floor_char_boundary(end.index(text.len() + 1));
        text[..end].to_owned()
    }));
}

/// Checks that JSON without its end is never taken for JSON, whatever it contains.
#[test]
fn json_that_is_cut_off_is_refused() {
    struct Cut;
    impl Visitor for Cut {
        fn visit<A: Act<Output: Debug + PartialEq> + Debug>(&mut self, act: A, replies: &[&str]) {
            for text in replies.iter().filter(|text| text.starts_with('{') && text.ends_with('}')) {
                // From the first key and its colon on.
                let begun = text.find(':').unwrap() + 1;
                for end in (begun..text.len()).filter(|end| text.is_char_boundary(*end)) {
                    let cut = Reply { text: &text[..end], is_whole: false };
                    let read = act.parse(cut);
                    assert!(
                        matches!(read, Err(UnreadableReply { found: ReplyShape::CutOff, .. })),
                        "{}: {read:?} of {act:?}",
                        &text[..end]
                    );
                }
            }
        }
    }
    visit_all(&mut Cut);
}
