//! Pages of lists in OpenAI's shape: `limit`, and the id `after` which a page begins.

use serde_json::{Value, json};

use crate::refusal::Refusal;

/// Maximum items of a page, and their number if the client says nothing.
const MOST: u32 = 100;
const DEFAULT: u32 = 20;

/// A page that is asked for.
#[derive(Debug, PartialEq)]
pub(crate) struct Listing {
    /// Maximum items.
    pub limit: u32,
    /// Id after which it begins.
    pub after: Option<String>,
}

impl Listing {
    /// Reads the query of a URL. What else it has is ignored, except for what would give a client
    /// other items than it expects.
    pub fn of(query: Option<&str>) -> Result<Self, Refusal> {
        let mut listing = Self { limit: DEFAULT, after: None };
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value).ok_or_else(|| Refusal::param(name, "expected UTF-8"))?;
            match name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
                    let problem = || format!("expected 1 to {MOST}, got `{value}`");
                    listing.limit = limit.ok_or_else(|| Refusal::param("limit", problem()))?;
                }
                "after" => listing.after = Some(value),
                "before" | "filter" => {
                    return Err(Refusal::param(name, "expected none; use `after` and `limit`"));
                }
                _ => {}
            }
        }
        Ok(listing)
    }

    /// Returns the page as a list.
    pub fn page(&self, items: Vec<Value>, has_more: bool) -> Value {
        let id = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
        let (first, last) = (id(items.first()), id(items.last()));
        json!({
            "object": "list",
            "data": items,
            "first_id": first,
            "last_id": last,
            "has_more": has_more,
        })
    }
}

/// Returns a value of a URL's query without its escapes.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(query: &str) -> Option<(u32, Option<String>)> {
        Listing::of(Some(query)).ok().map(|listing| (listing.limit, listing.after))
    }

    #[test]
    fn a_page_has_a_limit_and_a_beginning() {
        assert_eq!(Listing::of(None).unwrap(), Listing { limit: 20, after: None });
        let after = Some("a b/ü".to_owned());
        assert_eq!(parsed("limit=7&after=a+b%2F%C3%BC&order=asc"), Some((7, after)));
        for bad in ["limit=0", "limit=101", "limit=x", "after=%f", "after=%FF", "before=a"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_page_names_its_ends() {
        let listing = Listing { limit: 2, after: None };
        let page = listing.page(vec![json!({"id": "a"}), json!({"id": "b"})], true);
        assert_eq!((&page["first_id"], &page["last_id"]), (&json!("a"), &json!("b")));
        assert_eq!(listing.page(Vec::new(), false)["last_id"], Value::Null);
    }
}
