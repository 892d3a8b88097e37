//! What a document is called, and where it can be opened.

use clew_core::URL_ATTRIBUTE;
use clew_proto::ingest::v1::Attribute;
use clew_proto::query::v1::Span;

/// Schemes of addresses that run what they hold, in the page of whoever opens them.
const RUNNING: [&str; 3] = ["javascript", "data", "vbscript"];
/// Bytes that stand for themselves in the path of a URI, besides letters and digits.
const PLAIN: &[u8] = b"-._~/";

/// Returns the name of a document for people: its title, or its id if it has none.
pub fn name_of<'a>(title: &'a str, id: &'a str) -> &'a str {
    if title.is_empty() { id } else { title }
}

/// Returns the address of a document, or of the byte range `span` of it: its attribute `url` if
/// that is an address to open, or else the name of its place in the memory, which only Clew
/// understands, such as `clew:handbook/guides/backup.md#bytes=120-184`.
pub fn address_of(corpus: &str, id: &str, span: Option<Span>, attributes: &[Attribute]) -> String {
    let given = attributes.iter().find(|attribute| attribute.name == URL_ATTRIBUTE);
    let given = given.map(|attribute| attribute.value.as_str()).filter(|url| can_be_opened(url));
    given.map(str::to_owned).unwrap_or_else(|| {
        let bytes = span.map(|span| format!("#bytes={}-{}", span.start, span.end));
        format!("clew:{corpus}/{}{}", escaped(id), bytes.unwrap_or_default())
    })
}

/// Returns whether a text is an absolute address that can be given to people. Whoever wrote the
/// document chose it, so it must not be code. Browsers skip white space in front of and within a
/// scheme, so there must be none.
fn can_be_opened(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once(':') else { return false };
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(is_of_scheme)
        && !RUNNING.iter().any(|running| scheme.eq_ignore_ascii_case(running))
        && !rest.is_empty()
        && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Returns an id with every byte escaped that the path of a URI may not have.
fn escaped(id: &str) -> String {
    let mut path = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) {
            true => path.push(char::from(byte)),
            false => path += &format!("%{byte:02X}"),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_without_a_title_is_called_by_its_id() {
        assert_eq!([name_of("Backups", "a.md"), name_of("", "a.md")], ["Backups", "a.md"]);
    }

    #[test]
    fn a_document_is_where_its_attribute_says_or_else_in_the_memory() {
        let span = Some(Span { start: 3, end: 9 });
        let address =
            |id: &str, span, attributes: &[Attribute]| address_of("notes", id, span, attributes);
        assert_eq!(address("a/b c#1", span, &[]), "clew:notes/a/b%20c%231#bytes=3-9");
        assert_eq!(address("ä", None, &[]), "clew:notes/%C3%A4");
        let attribute = |name: &str, value: &str| Attribute {
            name: name.to_owned(),
            value: value.to_owned(),
            typed: None,
        };
        let given = [attribute("lang", "en"), attribute("url", "https://example.com/a")];
        assert_eq!(address("a", span, &given), "https://example.com/a");
        let others =
            ["", "a", "JavaScript:alert(1)", "data:text/html,x", " javascript:x", "java\nscript:x"];
        for other in others.into_iter().chain(["https:", "https://example.com/a b", "1:x"]) {
            assert_eq!(address("a", None, &[attribute("url", other)]), "clew:notes/a", "{other}");
        }
        for other in ["obsidian://open?vault=a", "file:///srv/a.md", "https://example.com/ä"] {
            assert_eq!(address("a", None, &[attribute("url", other)]), other);
        }
    }
}
