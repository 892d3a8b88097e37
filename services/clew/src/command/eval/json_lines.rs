//! JSON Lines.

use serde::Serialize;

/// Returns one line of JSON for each item.
///
/// # Errors
/// Returns an error if an item cannot be written as JSON.
pub fn text<T: Serialize>(items: &[T]) -> anyhow::Result<String> {
    let mut text = String::new();
    for item in items {
        text.push_str(&serde_json::to_string(item)?);
        text.push('\n');
    }
    Ok(text)
}
