//! Forms with files (`multipart/form-data`, RFC 7578), whole in memory: the listener bounds them.

use bytes::Bytes;

use crate::refusal::Refusal;

/// Maximum number of parts.
const MOST_PARTS: usize = 16;

/// A form that was sent.
#[derive(Debug)]
pub(super) struct Form(Vec<Part>);

/// Field of a form.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    /// Name of the field.
    pub name: String,
    /// Name of the file; empty if it is none.
    pub filename: String,
    /// Its content.
    pub bytes: Bytes,
}

impl Form {
    /// Parses the body of a request with this `Content-Type`.
    ///
    /// # Errors
    /// Returns a refusal if it is no such form, or not whole.
    pub fn of(content_type: &str, body: &Bytes) -> Result<Self, Refusal> {
        let boundary = boundary(content_type).ok_or_else(|| {
            Refusal::param("Content-Type", "expected `multipart/form-data; boundary=…`")
        })?;
        let broken =
            |problem: &str| Refusal::param("file", format!("expected a form, got {problem}"));
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first delimiter may be at the very beginning.
        let mut at = match body.starts_with(&delimiter[2..]) {
            true => delimiter.len() - 2,
            false => find(body, &delimiter, 0).ok_or_else(|| broken("no part"))? + delimiter.len(),
        };
        let mut parts = Vec::new();
        while !body[at..].starts_with(b"--") {
            if parts.len() == MOST_PARTS {
                return Err(broken("too many parts"));
            }
            let end = find(body, &delimiter, at).ok_or_else(|| broken("a part without an end"))?;
            let head = find(body, b"\r\n\r\n", at).filter(|head| *head < end);
            let head = head.ok_or_else(|| broken("a part without a head"))?;
            let (name, filename) =
                disposition(&body[at..head]).ok_or_else(|| broken("a part without a name"))?;
            parts.push(Part { name, filename, bytes: body.slice(head + 4..end) });
            at = end + delimiter.len();
        }
        Ok(Self(parts))
    }

    /// Returns the field of this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.0.iter().find(|part| part.name == name)
    }
}

/// Returns the boundary that a content type names.
fn boundary(content_type: &str) -> Option<&str> {
    let (media_type, parameters) = content_type.split_once(';')?;
    if !media_type.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|one| one.trim().strip_prefix("boundary="))?;
    let boundary = boundary.trim().trim_matches('"');
    (1..=70).contains(&boundary.len()).then_some(boundary)
}

/// Returns the names of the field and of the file that the head of a part tells.
fn disposition(head: &[u8]) -> Option<(String, String)> {
    let head = std::str::from_utf8(head).ok()?;
    let line = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let named = |name: &str| quoted(line, &format!("; {name}=\""));
    Some((named("name")?, named("filename").unwrap_or_default()))
}

/// Returns the text in quotes after `start`.
fn quoted(line: &str, start: &str) -> Option<String> {
    let (_, rest) = line.split_once(start)?;
    let (mut text, mut escaped) = (String::new(), false);
    for character in rest.chars() {
        match character {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return Some(text.replace("%22", "\"")),
            other => {
                text.push(other);
                escaped = false;
            }
        }
    }
    None
}

/// Returns where `part` is in `bytes`, from `from` on.
fn find(bytes: &[u8], part: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        // A search for the first byte is fast; the rest is rarely compared.
        at += bytes.get(at..)?.iter().position(|byte| *byte == part[0])?;
        if bytes[at..].starts_with(part) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=b0";

    fn parsed(body: &str) -> Result<Vec<(String, String, String)>, String> {
        let form = Form::of(TYPE, &Bytes::copy_from_slice(body.as_bytes()));
        let form = form.map_err(|refusal| refusal.body()["error"]["message"].to_string())?;
        let told = |part: Part| {
            let text = String::from_utf8(part.bytes.to_vec()).unwrap();
            (part.name, part.filename, text)
        };
        Ok(form.0.into_iter().map(told).collect())
    }

    #[test]
    fn a_form_has_fields_and_files() {
        let body = "--b0\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n\
                    --b0\r\ncontent-type: text/plain\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".md\"\r\n\r\n\
                    one\r\n--b1\r\n\r\n--b0--\r\n";
        let expected = [("purpose", "", "assistants"), ("file", "a \"b\".md", "one\r\n--b1\r\n")];
        let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(parsed(body).unwrap(), expected);
        assert_eq!(parsed("before\r\n--b0--").unwrap(), []);
    }

    #[test]
    fn what_is_no_whole_form_is_refused() {
        let head = "Content-Disposition: form-data; name=\"file\"";
        for body in [
            "".to_owned(),
            "--b0".to_owned(),
            "--b0\r\n".to_owned(),
            format!("--b0\r\n{head}\r\n\r\ntext"),
            format!("--b0\r\n{head}\r\n--b0--"),
            "--b0\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b0--".to_owned(),
            format!("--b0\r\n{head}\r\n\r\n\r\n").repeat(17) + "--b0--",
        ] {
            assert!(parsed(&body).is_err(), "{body}");
        }
        for other in ["", "application/json", "multipart/form-data", "multipart/mixed; boundary=b0"]
        {
            assert!(Form::of(other, &Bytes::from_static(b"--b0--")).is_err(), "{other}");
        }
    }
}
