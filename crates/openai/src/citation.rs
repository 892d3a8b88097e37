//! Citations of an answer as annotations of a chat completion.

use clew_client::{address_of, name_of};
use clew_proto::query::v1::Citation;
use serde_json::{Value, json};

/// Returns the annotations of `text`, one for each citation; none is an empty list, which clients
/// expect.
///
/// An annotation marks the words that it supports. A citation does not say which they are, so a
/// quotation marks itself, and any other citation the whole text.
pub(crate) fn annotations(corpus: &str, text: &str, citations: &[Citation]) -> Vec<Value> {
    let mut from = 0;
    let annotation = |citation: &Citation| {
        let (start, end) = match quoted(text, &citation.quote, from) {
            Some((start, end)) => {
                from = end;
                (start, end)
            }
            None => (0, text.len()),
        };
        let Citation { document_id, span, attributes, .. } = citation;
        let url = address_of(corpus, document_id, *span, attributes);
        json!({
            "type": "url_citation",
            "url_citation": {
                "url": url,
                "title": name_of(&citation.title, &citation.document_id),
                "start_index": characters(text, start),
                "end_index": characters(text, end),
            },
        })
    };
    citations.iter().map(annotation).collect()
}

/// Returns the byte range of a quotation in `text`: the first from `from` on, since citations come
/// in the order of the text, or else the first.
fn quoted(text: &str, quote: &str, from: usize) -> Option<(usize, usize)> {
    let quote = quote.trim();
    if quote.is_empty() {
        return None;
    }
    let later = text[from..].find(quote).map(|at| from + at);
    let start = later.or_else(|| text.find(quote))?;
    Some((start, start + quote.len()))
}

/// Returns the number of characters before a byte, by which OpenAI counts.
fn characters(text: &str, byte: usize) -> usize {
    text[..byte].chars().count()
}

#[cfg(test)]
mod tests {
    use clew_proto::ingest::v1::Attribute;
    use clew_proto::query::v1::Span;

    use super::*;

    fn citation(id: &str, title: &str, quote: &str) -> Citation {
        Citation {
            document_id: id.to_owned(),
            version: 3,
            title: title.to_owned(),
            span: Some(Span { start: 4, end: 9 }),
            quote: quote.to_owned(),
            attributes: Vec::new(),
        }
    }

    fn marked(text: &str, quotes: &[&str]) -> Vec<(u64, u64)> {
        let citations: Vec<_> = quotes.iter().map(|quote| citation("a", "", quote)).collect();
        let index = |annotation: &Value, name: &str| annotation["url_citation"][name].as_u64();
        let range = |annotation: &Value| {
            let start = index(annotation, "start_index").unwrap();
            (start, index(annotation, "end_index").unwrap())
        };
        annotations("notes", text, &citations).iter().map(range).collect()
    }

    #[test]
    fn a_quotation_marks_itself_in_characters() {
        assert_eq!(marked("Zürich is big. Rome is old.", &["Rome is old."]), [(15, 27)]);
        assert_eq!(marked("é é", &["é", "é"]), [(0, 1), (2, 3)]);
    }

    #[test]
    fn another_citation_marks_the_whole_text() {
        assert_eq!(marked("In short: yes.", &["They agreed at length", ""]), [(0, 14), (0, 14)]);
    }

    #[test]
    fn the_quotations_may_come_in_another_order() {
        assert_eq!(marked("one two", &["two", "one"]), [(4, 7), (0, 3)]);
    }

    #[test]
    fn a_document_is_named_by_its_title_and_a_uri() {
        let told = annotations("notes", "x", &[citation("a b/ü#1.md", "Backups", "x")]);
        let citation_of = &told[0]["url_citation"];
        assert_eq!(citation_of["url"], "clew:notes/a%20b/%C3%BC%231.md#bytes=4-9");
        assert_eq!(citation_of["title"], "Backups");
        assert_eq!(
            annotations("notes", "x", &[citation("a", "", "x")])[0]["url_citation"]["title"],
            "a"
        );
        assert!(annotations("notes", "x", &[]).is_empty());
        let mut opened = citation("a", "", "x");
        let address = "https://wiki.example.com/a".to_owned();
        opened.attributes.push(Attribute { name: "url".to_owned(), value: address, typed: None });
        let opened = &annotations("notes", "x", &[opened])[0]["url_citation"]["url"];
        assert_eq!(opened, "https://wiki.example.com/a");
    }
}
