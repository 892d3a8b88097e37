//! Compares encoding and decoding with the results of a reference implementation.
//!
//! `CLEW_GOLDEN_DIR` may name a folder with a `tokenizer.json` and the reference's results for it
//! in `tokenizer/golden.json`. The tokenizer in `fixtures` is always tested.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::path::{Path, PathBuf};

use clew_tokenizer::{SpecialTokens, TextStream, TextTokenizer};
use serde_json::Value;

fn read(folder: &Path, file: &str) -> Vec<u8> {
    std::fs::read(folder.join(file)).unwrap()
}

fn ids(case: &Value) -> Vec<u32> {
    serde_json::from_value(case["ids"].clone()).unwrap()
}

/// Checks decoding `ids` at once and token by token against the reference's texts.
fn check_decoding(tokenizer: &TextTokenizer, case: &Value) {
    for (key, special) in
        [("decoded", SpecialTokens::Written), ("decoded_skip_special", SpecialTokens::LeftOut)]
    {
        let expected = case[key].as_str().unwrap();
        assert_eq!(tokenizer.decode(&ids(case), special), expected);
        let mut stream = TextStream::new(special);
        let mut text = String::new();
        for id in ids(case) {
            text.push_str(&stream.push(tokenizer, id));
            assert!(expected.starts_with(&text), "{text:?} of {expected:?}");
        }
        text.push_str(&stream.finish(tokenizer));
        assert_eq!(text, expected);
    }
}

#[test]
fn golden_texts_and_tokens_are_the_references() {
    let Some(folder) = std::env::var_os("CLEW_GOLDEN_DIR").map(PathBuf::from) else { return };
    let folder = folder.join("tokenizer");
    let tokenizer =
        TextTokenizer::try_new("tokenizer.json", &read(&folder, "tokenizer.json")).unwrap();
    let golden: Value = serde_json::from_slice(&read(&folder, "golden.json")).unwrap();
    for case in golden["encodings"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode(text), ids(case), "{text:?}");
        assert_eq!(tokenizer.spans(text).len(), ids(case).len(), "{text:?}");
        check_decoding(&tokenizer, case);
    }
    for case in golden["decodings"].as_array().unwrap() {
        check_decoding(&tokenizer, case);
    }
    for case in golden["chats"].as_array().unwrap() {
        assert_eq!(tokenizer.encode(case["rendered"].as_str().unwrap()), ids(case));
    }
}

/// Reads a fixture that `generate_golden.py` made with the `tokenizers` library of Python.
#[test]
fn golden_tokens_of_the_own_fixture_are_the_references() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let tokenizer =
        TextTokenizer::try_new("byte_pairs.json", &read(&fixtures, "byte_pairs.json")).unwrap();
    let golden: Value = serde_json::from_slice(&read(&fixtures, "golden.json")).unwrap();
    for case in golden["encodings"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode(text), ids(case), "{text:?}");
        check_decoding(&tokenizer, case);
    }
}
