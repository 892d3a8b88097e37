//! Replies that are generated side by side. Each is the same as it would be alone, ends as
//! requested, has the requested format, and leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::collections::BTreeMap;
use std::sync::Arc;

use clew_core::{ChatMessage, ChatRole, Finish, GenerationRequest, ReplyFormat, Sampling};
use clew_model::generation::{End, GenerationBatch, ReplyId};
use clew_model::sampling::{self, TokenChoice};
use clew_model::{DeviceChoice, Error, LanguageModel, LanguageModelOptions, Precision};
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
    // A GPU in software takes its time.
    let cases = if device() == DeviceChoice::Cpu { 1000 } else { 100 };
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

/// Returns every token that may be chosen if sums are off by a hundred-thousandth.
fn choosable(logits: &[f32], choice: &TokenChoice) -> Vec<Option<u32>> {
    let has = |mask: &Option<Vec<u32>>, token: usize| {
        mask.as_ref().is_some_and(|mask| mask[token / 32] >> (token % 32) & 1 == 1)
    };
    let Sampling { temperature, top_p, top_k, repetition_penalty: penalty, .. } = choice.sampling;
    let penalised = |token: usize, logit: f32| match (has(&choice.said, token), logit > 0.0) {
        (false, _) => logit,
        (true, true) => logit / penalty,
        (true, false) => logit * penalty,
    };
    let tokens = logits.iter().enumerate();
    let tokens = tokens.filter(|(token, logit)| {
        logit.is_finite() && (choice.allowed.is_none() || has(&choice.allowed, *token))
    });
    let mut order: Vec<_> =
        tokens.map(|(token, logit)| (token, f64::from(penalised(token, *logit)))).collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let Some((_, best)) = order.first().copied() else { return vec![None] };
    let top_k = match (temperature == 0.0, top_k as usize) {
        (true, _) => 1,
        (false, 0) => order.len(),
        (false, top_k) => top_k,
    };
    order.truncate(top_k);
    let temperature = if temperature == 0.0 { 1.0 } else { f64::from(temperature) };
    let mut sum = 0.0;
    let ends = order.iter().map(|(token, logit)| {
        sum += ((logit - best) / temperature).exp();
        (*token, sum)
    });
    let ends: Vec<(usize, f64)> = ends.collect();
    let all = sum;
    let of = |off_p: f64, off: f64| {
        let bound = all * (f64::from(top_p) + off_p);
        let kept = ends.iter().position(|(_, end)| *end >= bound).unwrap_or(ends.len() - 1);
        let drawn = ends[kept].1 * (choice.chance + off);
        let drawn = ends[..=kept].iter().find(|(_, end)| *end > drawn);
        Some(drawn.unwrap_or(&ends[kept]).0 as u32)
    };
    let off = [-1e-5, 0.0, 1e-5];
    off.iter().flat_map(|off_p| off.iter().map(|off| of(*off_p, *off))).collect()
}

#[test]
fn a_device_chooses_by_the_definition_of_sampling() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..60 {
        let vocabulary = random.usize(1..4000);
        let rows = random.usize(1..5);
        let spread = 0.1 * 3_f32.powi(random.i32(0..6));
        let row = |random: &mut fastrand::Rng| {
            let logit = |random: &mut fastrand::Rng| match random.u32(0..50) {
                0 => f32::NAN,
                1 => f32::NEG_INFINITY,
                // Rounded, so that some are equal.
                _ => (spread * (random.f32() - 0.5) * 8.0).round() / 8.0,
            };
            (0..vocabulary).map(|_| logit(random)).collect::<Vec<f32>>()
        };
        let logits: Vec<Vec<f32>> = (0..rows).map(|_| row(&mut random)).collect();
        let mask = |random: &mut fastrand::Rng, most: u32| {
            let words = vocabulary.div_ceil(32);
            random.bool().then(|| (0..words).map(|_| random.u32(..most)).collect::<Vec<u32>>())
        };
        let choice = |random: &mut fastrand::Rng| TokenChoice {
            sampling: Sampling {
                temperature: *random.choice([0.0, 0.3, 1.0, 5.0].iter()).unwrap(),
                top_p: *random.choice([0.2, 0.9, 1.0].iter()).unwrap(),
                top_k: *random.choice([0, 1, 5, 40, 5000].iter()).unwrap(),
                repetition_penalty: *random.choice([1.0, 1.3].iter()).unwrap(),
                seed: None,
            },
            chance: *random.choice([0.0, random.clone().f64(), 1.0 - 1e-9].iter()).unwrap(),
            said: mask(random, u32::MAX),
            allowed: mask(random, if round % 10 == 0 { 1 } else { u32::MAX }),
        };
        let choices: Vec<TokenChoice> = (0..rows).map(|_| choice(&mut random)).collect();
        let chosen = sampling::choose(device(), &logits, &choices).unwrap();
        assert_eq!(chosen.len(), rows);
        for ((logits, choice), token) in logits.iter().zip(&choices).zip(chosen) {
            let expected = choosable(logits, choice);
            let sampling = choice.sampling;
            assert!(
                expected.contains(&token),
                "{round}: {token:?}, not {expected:?}: {sampling:?}"
            );
        }
    }
}
