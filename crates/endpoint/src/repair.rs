//! Finds the JSON in a reply and repairs common mistakes of models without guessing what they
//! meant.
//!
//! Removed or repaired are: a model's thoughts and prose around the JSON, code fences, commas
//! before a closing bracket, and, if the model finished its reply, missing closing brackets. A text
//! that ends within a string, a name without a value, or two different values are not repaired.

use serde_json::Value;

/// Maximum number of positions in a reply where JSON is looked for. Prose has a few brackets, too.
const MOST_BEGINNINGS: usize = 64;

/// Returns the text of the only JSON value in `reply` that `admit` accepts. `is_done` says whether
/// the model finished its reply. `admit` returns the problem with a value.
///
/// # Errors
/// Returns a description of the problem for the model to read.
pub(crate) fn find(
    reply: &str,
    is_done: bool,
    admit: impl Fn(&Value) -> Option<String>,
) -> Result<String, String> {
    let reply = without_thoughts(reply).trim();
    if reply.is_empty() {
        return Err("it is empty".to_owned());
    }
    if let Ok(value) = serde_json::from_str(reply) {
        return admit(&value).map_or_else(|| Ok(reply.to_owned()), Err);
    }
    let mut found: Option<(String, Value)> = None;
    let mut problem = None;
    for (text, value) in values(reply, is_done) {
        match admit(&value) {
            Some(wrong) => problem = problem.or(Some(wrong)),
            None if found.as_ref().is_some_and(|(_, other)| *other != value) => {
                return Err("it holds more than one JSON value".to_owned());
            }
            None => found = Some((text, value)),
        }
    }
    match (found, problem) {
        (Some((text, _)), _) => Ok(text),
        (None, Some(problem)) => Err(problem),
        (None, None) if is_done => Err("it holds no valid JSON".to_owned()),
        (None, None) => Err("it was cut off; be shorter".to_owned()),
    }
}

/// Returns `reply` without the model's thoughts before it.
pub(crate) fn without_thoughts(reply: &str) -> &str {
    const END: &str = "</think>";
    match reply.rfind(END) {
        Some(end) => &reply[end + END.len()..],
        None => reply,
    }
}

/// Returns the outermost objects and arrays of a text, repaired.
fn values(reply: &str, is_done: bool) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    let mut from = 0;
    for _ in 0..MOST_BEGINNINGS {
        let Some(begin) = reply[from..].find(['{', '[']).map(|at| from + at) else { break };
        let mended = mend(&reply[begin..], is_done);
        let read = mended.and_then(|Mended { text, length }| {
            let value = serde_json::from_str(&text).ok()?;
            Some((text, value, length))
        });
        match read {
            Some((text, value, length)) => {
                from = begin + length;
                values.push((text, value));
            }
            // The bracket belongs to prose, or the value that it begins is broken.
            None => from = begin + 1,
        }
    }
    values
}

struct Mended {
    text: String,
    /// Number of bytes of the reply that the text was made of.
    length: usize,
}

/// Repairs the value that begins with the first character of `reply`, an opening bracket. Returns
/// `None` if its brackets do not match, or if it is incomplete and may not be completed.
fn mend(reply: &str, is_done: bool) -> Option<Mended> {
    let mut text = String::new();
    let mut open = Vec::new();
    let (mut is_in_string, mut is_escaped) = (false, false);
    for (at, character) in reply.char_indices() {
        if is_in_string {
            is_in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
        } else {
            match character {
                '"' => is_in_string = true,
                '{' => open.push('}'),
                '[' => open.push(']'),
                '}' | ']' => {
                    if open.pop() != Some(character) {
                        return None;
                    }
                    drop_last_comma(&mut text);
                }
                _ => {}
            }
        }
        text.push(character);
        if open.is_empty() {
            return Some(Mended { text, length: at + character.len_utf8() });
        }
    }
    if is_in_string || !is_done {
        return None;
    }
    while let Some(bracket) = open.pop() {
        drop_last_comma(&mut text);
        text.push(bracket);
    }
    Some(Mended { text, length: reply.len() })
}

/// Removes a comma at the end of `text`, unless nothing precedes it.
fn drop_last_comma(text: &mut String) {
    let trimmed = text.trim_end();
    if let Some(rest) = trimmed.strip_suffix(',')
        && !rest.trim_end().ends_with(['{', '[', ','])
    {
        text.truncate(rest.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn find_any(reply: &str, is_done: bool) -> Result<String, String> {
        find(reply, is_done, |_| None)
    }

    #[test]
    fn json_is_found_and_mended() {
        let cases = [
            (r#" {"a": 1} "#, r#"{"a": 1}"#),
            ("\"text\"", "\"text\""),
            ("```json\n{\"a\": [1]}\n```", r#"{"a": [1]}"#),
            ("Here {you} are: {\"a\": 1}. Anything else?", r#"{"a": 1}"#),
            ("<think>{\"a\": 2}? No.</think>\n{\"a\": 1}", r#"{"a": 1}"#),
            (r#"{"a": [1, 2, ], }"#, r#"{"a": [1, 2]}"#),
            (r#"{"a": "}, ]\" {",}"#, r#"{"a": "}, ]\" {"}"#),
            (r#"{"a": [1, {"b": "c"}"#, r#"{"a": [1, {"b": "c"}]}"#),
            (r#"{"a": [1,"#, r#"{"a": [1]}"#),
            ("{\"a\": 1}\n\n{\"a\": 1}", r#"{"a": 1}"#),
        ];
        for (reply, expected) in cases {
            assert_eq!(find_any(reply, true).as_deref(), Ok(expected), "{reply}");
        }
    }

    #[test]
    fn nothing_is_guessed() {
        let cases = [
            ("", "it is empty"),
            ("I cannot do that.", "it holds no valid JSON"),
            (r#"{"a": "begun"#, "it holds no valid JSON"),
            (r#"{"a":"#, "it holds no valid JSON"),
            (r#"{"a""#, "it holds no valid JSON"),
            ("{,}", "it holds no valid JSON"),
            (r#"{"a": 1} or {"a": 2}"#, "it holds more than one JSON value"),
        ];
        for (reply, expected) in cases {
            assert_eq!(find_any(reply, true).as_ref().map_err(String::as_str), Err(expected));
        }
    }

    #[test]
    fn what_was_cut_off_is_not_completed() {
        let cut = r#"{"a": [1, 2"#;
        assert_eq!(find_any(cut, true).as_deref(), Ok(r#"{"a": [1, 2]}"#));
        assert_eq!(find_any(cut, false).unwrap_err(), "it was cut off; be shorter");
        assert_eq!(find_any(r#"{"a": 1} and"#, false).as_deref(), Ok(r#"{"a": 1}"#));
    }

    #[test]
    fn of_several_values_the_one_that_is_admitted_is_taken() {
        let admit = |value: &Value| (!value.is_object()).then(|| "no object".to_owned());
        assert_eq!(find("see [1]: {\"a\": 1}", true, admit).as_deref(), Ok(r#"{"a": 1}"#));
        assert_eq!(find("see [1]", true, admit).unwrap_err(), "no object");
    }

    proptest! {
        #[test]
        fn whatever_a_model_says_is_valid_json_or_an_error(reply in r#"[{}\[\],:"\\a1 é]{0,30}"#) {
            if let Ok(text) = find_any(&reply, true) {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
            }
        }

        #[test]
        fn valid_json_stays_as_it_is(numbers in prop::collection::vec(any::<i64>(), 0..5), text: String) {
            let valid = json!({"numbers": numbers, "text": text}).to_string();
            prop_assert_eq!(find_any(&valid, true), Ok(valid.clone()));
            let fenced = format!("```json\n{valid}\n```");
            prop_assert_eq!(find_any(&fenced, true), Ok(valid));
        }
    }
}
