//! Replies that are generated side by side. Each is the same as it would be alone, ends as
//! requested, has the requested format, and leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::collections::BTreeMap;
use std::sync::Arc;

use clew_core::{ChatMessage, ChatRole, Finish, GenerationRequest, ReplyFormat, Sampling};
use clew_model::generation::{End, GenerationBatch, ReplyId};
use clew_model::{Error, LanguageModel, LanguageModelOptions, Precision};
use serde_json::{Value, json};

use crate::device::device;

fn model(seed: u64) -> Arc<LanguageModel> {
    let folder = tempfile::tempdir().unwrap();
    clew_testkit::write_tiny_decoder(folder.path(), seed).unwrap();
    let options = LanguageModelOptions {
        folder: folder.path().to_owned(),
        tokenizer: None,
        name: None,
        device: device(),
        precision: Precision::Float32,
        threads: 2,
    };
    Arc::new(LanguageModel::load(&options).unwrap())
}

fn request(text: &str, max_tokens: u32) -> GenerationRequest {
    let messages = vec![ChatMessage { role: ChatRole::User, text: text.to_owned() }];
    GenerationRequest { messages, max_tokens, ..GenerationRequest::default() }
}

/// Texts and ends of replies.
type Said = BTreeMap<ReplyId, (String, End)>;

/// Steps until every reply has ended.
fn finish(batch: &mut GenerationBatch) -> Said {
    let mut texts: BTreeMap<ReplyId, String> = BTreeMap::new();
    let mut said = Said::new();
    while !batch.is_empty() {
        for event in batch.step().unwrap() {
            let text = texts.entry(event.reply).or_default();
            text.push_str(&event.text);
            if let Some(end) = event.end {
                said.insert(event.reply, (text.clone(), end));
            }
        }
    }
    said
}

fn alone(model: &Arc<LanguageModel>, request: &GenerationRequest) -> (String, End) {
    let mut batch = GenerationBatch::new(Arc::clone(model), 64);
    let id = batch.add(request).unwrap();
    finish(&mut batch).remove(&id).unwrap()
}

#[test]
fn replies_find_room_or_are_refused() {
    let model = model(3);
    let mut batch = GenerationBatch::new(model, 64).with_room(300);
    let first = batch.add(&request("one", 100)).unwrap();
    batch.add(&request("two", 100)).unwrap();
    let full = batch.add(&request("three", 100)).unwrap_err();
    assert!(matches!(full, Error::Full { tokens, left } if tokens > left), "{full}");
    let outward = clew_core::Error::from(full);
    assert_eq!(outward.kind(), clew_core::ErrorKind::Exhausted);
    assert!(outward.retry_after().is_some());
    batch.cancel(first);
    batch.add(&request("three", 100)).unwrap();
    let long = batch.add(&request("four", 300)).unwrap_err();
    assert!(matches!(long, Error::TooLong { most: 300, .. }), "never, not only now: {long}");
    assert_eq!(finish(&mut batch).len(), 2);
}

#[test]
fn a_reply_is_the_same_in_company_and_whoever_comes_and_goes() {
    let model = model(3);
    let requests: Vec<_> =
        (0..6).map(|i| request(&"some words of a prompt ".repeat(i + 1), 20 + i as u32)).collect();
    let expected: Vec<_> = requests.iter().map(|request| alone(&model, request)).collect();
    // So few tokens per step that prompts are read in pieces.
    for budget in [3, 17, 1000] {
        let mut batch = GenerationBatch::new(Arc::clone(&model), budget);
        let first = [&requests[0], &requests[5]].map(|request| batch.add(request).unwrap());
        for _ in 0..4 {
            batch.step().unwrap();
        }
        batch.cancel(first[0]);
        assert_eq!(batch.len(), 1);
        let ids: Vec<_> = requests.iter().map(|request| batch.add(request).unwrap()).collect();
        let said = finish(&mut batch);
        for (id, (text, end)) in ids.iter().zip(&expected) {
            let (found, found_end) = &said[id];
            assert_eq!(found, text, "budget {budget}");
            assert_eq!(found_end.completion_tokens, end.completion_tokens);
            assert_eq!(found_end.finish.as_ref().unwrap(), end.finish.as_ref().unwrap());
        }
        assert!(!said.contains_key(&first[0]) && said.contains_key(&first[1]));
    }
}

#[test]
fn no_prompt_holds_up_those_who_speak() {
    let model = model(3);
    let mut batch = GenerationBatch::new(Arc::clone(&model), 8);
    let speaking = batch.add(&request("short", 60)).unwrap();
    while batch.step().unwrap().is_empty() {}
    batch.add(&request(&"a very long prompt ".repeat(30), 1)).unwrap();
    for _ in 0..20 {
        let events = batch.step().unwrap();
        assert!(events.iter().any(|event| event.reply == speaking), "a step without a word");
    }
}

#[test]
fn a_reply_ends_before_a_text_that_ends_it_wherever_tokens_end() {
    let model = model(5);
    let free = request("Tell me something.", 40);
    let (text, end) = alone(&model, &free);
    assert_eq!(end.finish.unwrap(), Finish::Length);
    let characters: Vec<char> = text.chars().collect();
    for length in [1, 2, 5] {
        let stop: String = characters[10..10 + length].iter().collect();
        let request =
            GenerationRequest { stop: vec!["never said".to_owned(), stop.clone()], ..free.clone() };
        let (said, end) = alone(&model, &request);
        assert_eq!(said, text[..text.find(&stop).unwrap()]);
        assert_eq!(end.finish.unwrap(), Finish::Stop);
    }
    // Text that only looked like the beginning of a stop text is returned all the same.
    let tail: String = characters[characters.len() - 1..].iter().collect();
    let request = GenerationRequest { stop: vec![format!("{tail}\u{0}never")], ..free.clone() };
    assert_eq!(alone(&model, &request).0, text);
}

#[test]
fn chance_is_repeatable_and_the_window_is_kept() {
    let model = model(7);
    let sampling = Sampling { temperature: 1.0, seed: Some(4), ..Sampling::default() };
    let warm = GenerationRequest { sampling, ..request("Say anything.", 30) };
    let (first, _) = alone(&model, &warm);
    assert_eq!(alone(&model, &warm).0, first);
    let other = Sampling { seed: Some(5), ..sampling };
    assert_ne!(alone(&model, &GenerationRequest { sampling: other, ..warm }).0, first);
    let mut batch = GenerationBatch::new(Arc::clone(&model), 64);
    let long = request("x", u32::MAX);
    assert!(matches!(batch.add(&long), Err(Error::TooLong { most, .. }) if most == model.window()));
    assert!(batch.is_empty());
}

#[test]
fn a_special_token_in_a_message_is_text() {
    let model = model(1);
    let plain = model.encode(&request("a b", 1).messages).unwrap();
    let sly = model.encode(&request("a<|im_end|>b", 1).messages).unwrap();
    let ends = |tokens: &[u32]| tokens.iter().filter(|token| **token == 258).count();
    assert_eq!(ends(&plain), 1);
    assert_eq!(ends(&sly), 1);
}

#[test]
fn a_choice_is_one_of_the_texts() {
    let model = model(11);
    let choices = ["yes", "no", "yes, but", "(none of these?)"].map(str::to_owned);
    for seed in 0..40 {
        let sampling = Sampling { temperature: 1.5, seed: Some(seed), ..Sampling::default() };
        let format = ReplyFormat::Choice(choices.to_vec());
        let request = GenerationRequest { sampling, format, ..request("Is it so?", 60) };
        let (said, end) = alone(&model, &request);
        assert!(choices.contains(&said), "{said:?}");
        assert_eq!(end.finish.unwrap(), Finish::Stop);
    }
}

/// Returns a random schema of bounded values, nested at most `depth` levels.
fn schema(random: &mut fastrand::Rng, depth: usize) -> Value {
    match random.u8(..if depth == 0 { 6 } else { 9 }) {
        0 => json!({ "type": "boolean" }),
        1 => json!({ "type": "null" }),
        2 => {
            let low = random.i32(-500..500);
            json!({ "type": "integer", "minimum": low, "maximum": low + random.i32(0..1000) })
        }
        3 => json!({ "type": "string", "maxLength": random.u8(1..12) }),
        4 => json!({ "enum": ["red", "green", 7, null] }),
        5 => json!({ "type": "string", "pattern": "^[a-z]{2,5}-[0-9]{1,3}$" }),
        6 => {
            let least = random.u8(0..3);
            json!({
                "type": "array", "items": schema(random, depth - 1),
                "minItems": least, "maxItems": least + random.u8(0..3),
            })
        }
        7 => json!({ "anyOf": [schema(random, depth - 1), schema(random, depth - 1)] }),
        _ => {
            let names = ["name", "age", "a b", "ä"];
            let count = random.usize(1..=names.len());
            let parts: serde_json::Map<String, Value> = names[..count]
                .iter()
                .map(|name| ((*name).to_owned(), schema(random, depth - 1)))
                .collect();
            let required = &names[..random.usize(0..=count)];
            json!({
                "type": "object", "properties": parts, "required": required,
                "additionalProperties": false,
            })
        }
    }
}

/// Returns whether a value satisfies a schema of [`schema`]: a second, plain implementation of
/// their meaning.
fn fits(value: &Value, schema: &Value) -> bool {
    if let Some(values) = schema["enum"].as_array() {
        return values.contains(value);
    }
    if let Some(schemas) = schema["anyOf"].as_array() {
        return schemas.iter().any(|schema| fits(value, schema));
    }
    let within = |count: usize, low: &str, high: &str| {
        count as u64 >= schema[low].as_u64().unwrap_or(0)
            && count as u64 <= schema[high].as_u64().unwrap_or(u64::MAX)
    };
    match (schema["type"].as_str().unwrap(), value) {
        ("boolean", Value::Bool(_)) | ("null", Value::Null) => true,
        ("integer", Value::Number(number)) => {
            let number = number.as_i64().unwrap();
            number >= schema["minimum"].as_i64().unwrap()
                && number <= schema["maximum"].as_i64().unwrap()
        }
        ("string", Value::String(text)) if schema["pattern"].is_string() => {
            let (letters, digits) = text.split_once('-').unwrap_or_default();
            (2..=5).contains(&letters.len())
                && letters.bytes().all(|byte| byte.is_ascii_lowercase())
                && (1..=3).contains(&digits.len())
                && digits.bytes().all(|byte| byte.is_ascii_digit())
        }
        ("string", Value::String(text)) => within(text.chars().count(), "minLength", "maxLength"),
        ("array", Value::Array(items)) => {
            within(items.len(), "minItems", "maxItems")
                && items.iter().all(|item| fits(item, &schema["items"]))
        }
        ("object", Value::Object(parts)) => {
            let wanted = schema["required"].as_array().unwrap().iter();
            wanted.into_iter().all(|name| parts.contains_key(name.as_str().unwrap()))
                && parts.iter().all(|(name, part)| {
                    schema["properties"].get(name).is_some_and(|schema| fits(part, schema))
                })
        }
        _ => false,
    }
}

#[test]
fn whatever_the_schema_the_reply_fits_it() {
    let model = model(13);
    let mut random = fastrand::Rng::with_seed(1);
    let mut batch = GenerationBatch::new(Arc::clone(&model), 64);
    let mut asked = BTreeMap::new();
    let cases = 1000;
    for case in 0..cases {
        let schema = schema(&mut random, 3);
        let sampling = Sampling { temperature: 1.0, seed: Some(case), ..Sampling::default() };
        let format = ReplyFormat::JsonSchema(schema.to_string());
        let request = GenerationRequest { sampling, format, ..request("Answer.", 900) };
        asked.insert(batch.add(&request).unwrap(), schema);
        if batch.len() == 8 || case + 1 == cases {
            for (id, (said, end)) in finish(&mut batch) {
                let schema = &asked[&id];
                assert_eq!(end.finish.unwrap(), Finish::Stop, "{schema}: {said}");
                let value: Value = serde_json::from_str(&said)
                    .unwrap_or_else(|error| panic!("{schema}: {said:?}: {error}"));
                assert!(fits(&value, schema), "{schema}: {said}");
            }
        }
    }
}

#[test]
fn a_schema_that_cannot_be_followed_is_refused() {
    let mut batch = GenerationBatch::new(model(1), 64);
    for schema in [r#"{"type": "soup"}"#, r#"{"$ref": "http://elsewhere/schema"}"#, "{"] {
        let format = ReplyFormat::JsonSchema(schema.to_owned());
        let refused = batch.add(&GenerationRequest { format, ..request("Answer.", 10) });
        assert!(matches!(refused, Err(Error::Constraint { .. })), "{schema}: {refused:?}");
    }
    assert!(batch.is_empty());
}
