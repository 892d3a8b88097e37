//! Conversions of what readers are asked and of what they find.

use clew_core::{
    Error, FoundSpan, Limits, PassageRead, PassagesRead, ReadPassage, Span, Violations,
};

use crate::encoder::v1 as wire;

/// Maximum bytes of the passages of one ReadSpans request, headings included, below the 4 MiB of a
/// message.
pub const READ_BYTES: usize = 3 << 20;

/// Converts a question and the passages to read for it for the wire.
pub fn reading_to_wire(question: &str, passages: Vec<ReadPassage>) -> wire::ReadSpansRequest {
    let passage = |ReadPassage { heading, text }| wire::ReadPassage { heading, text };
    let passages = passages.into_iter().map(passage).collect();
    wire::ReadSpansRequest { question: question.to_owned(), passages }
}

/// Returns the question and the passages of a ReadSpans request.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn reading_from_wire(
    request: wire::ReadSpansRequest,
    limits: &Limits,
) -> Result<(String, Vec<ReadPassage>), Error> {
    let wire::ReadSpansRequest { question, passages } = request;
    let mut violations = Violations::default();
    if question.trim().is_empty() || question.len() > limits.query_bytes {
        let problem = format!("expected 1 to {} bytes, some not white space", limits.query_bytes);
        violations.push("question", problem);
    }
    let bytes: usize = passages.iter().map(|it| it.heading.len() + it.text.len()).sum();
    if !(1..=limits.reranked).contains(&passages.len()) {
        let problem = format!("expected 1 to {}, got {}", limits.reranked, passages.len());
        violations.push("passages", problem);
    } else if bytes > READ_BYTES {
        let problem = format!("expected at most {READ_BYTES} bytes together, got {bytes}");
        violations.push("passages", problem);
    }
    violations.into_result()?;
    let passage = |wire::ReadPassage { heading, text }| ReadPassage { heading, text };
    Ok((question, passages.into_iter().map(passage).collect()))
}

/// Converts what a reader found for the wire.
pub fn read_to_wire(read: PassagesRead) -> wire::ReadSpansResponse {
    let span = |FoundSpan { span, share }| wire::FoundSpan {
        start: span.start as u64,
        end: span.end as u64,
        share,
    };
    let passage = |PassageRead { answers, relevance, spans }| wire::PassageRead {
        answers,
        relevance,
        spans: spans.into_iter().map(span).collect(),
    };
    let passages = read.passages.into_iter().map(passage).collect();
    wire::ReadSpansResponse { passages, tokens: read.tokens }
}

/// Converts what a reader found in the passages of `request` from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the response does not fit the request.
pub fn read_from_wire(
    response: wire::ReadSpansResponse,
    request: &wire::ReadSpansRequest,
) -> Result<PassagesRead, Error> {
    let wire::ReadSpansResponse { passages: read, tokens } = response;
    let (results, passages) = (read.len(), request.passages.len());
    if results != passages {
        let problem = format!("a reader sent {results} results for {passages} passages");
        return Err(Error::internal(problem));
    }
    let read = read.into_iter().zip(&request.passages);
    let passages = read.map(|(read, passage)| passage_from_wire(read, &passage.text));
    Ok(PassagesRead { passages: passages.collect::<Result<_, _>>()?, tokens })
}

fn passage_from_wire(read: wire::PassageRead, text: &str) -> Result<PassageRead, Error> {
    let wire::PassageRead { answers, relevance, spans } = read;
    let most = PassageRead::MOST_SPANS;
    if spans.len() > most {
        let problem = format!("a reader sent {} spans of one passage, above {most}", spans.len());
        return Err(Error::internal(problem));
    }
    let spans = spans.into_iter().map(|span| span_from_wire(span, text));
    Ok(PassageRead {
        answers: probability(answers)?,
        relevance: probability(relevance)?,
        spans: spans.collect::<Result<_, _>>()?,
    })
}

fn span_from_wire(found: wire::FoundSpan, text: &str) -> Result<FoundSpan, Error> {
    let wire::FoundSpan { start, end, share } = found;
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    match range.filter(|&(start, end)| {
        start < end && text.is_char_boundary(start) && text.is_char_boundary(end)
    }) {
        Some((start, end)) => {
            Ok(FoundSpan { span: Span::new(start, end), share: probability(share)? })
        }
        None => {
            let bytes = text.len();
            let problem = format!(
                "a reader sent the span {start}..{end}, which is no words of a passage of {bytes} bytes"
            );
            Err(Error::internal(problem))
        }
    }
}

fn probability(value: f32) -> Result<f32, Error> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(value),
        false => Err(Error::internal(format!("a reader sent {value} as a probability"))),
    }
}

#[cfg(test)]
mod tests {
    use clew_core::ErrorKind;
    use prost::Message;

    use super::*;

    fn passage(heading: &str, text: &str) -> ReadPassage {
        ReadPassage { heading: heading.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn questions_with_passages_survive_the_wire() {
        let passages = vec![passage("Bees", "They dance."), passage("", ""), passage("é", "東京")];
        let sent = reading_to_wire("who?", passages.clone());
        let arrived = reading_from_wire(sent, &Limits::default()).unwrap();
        assert_eq!(arrived, ("who?".to_owned(), passages));
    }

    #[test]
    fn a_request_is_refused_with_every_field_at_fault() {
        let limits = Limits::default();
        let refused = |question: &str, passages: Vec<ReadPassage>| {
            let error = reading_from_wire(reading_to_wire(question, passages), &limits);
            let error = error.unwrap_err();
            error.fields_at_fault().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let short = || vec![passage("h", "t")];
        assert_eq!(refused(" \n", short()), ["question"]);
        assert_eq!(refused(&"q".repeat(limits.query_bytes + 1), short()), ["question"]);
        assert_eq!(refused("q", Vec::new()), ["passages"]);
        assert_eq!(
            refused("", vec![passage("", "t"); limits.reranked + 1]),
            ["question", "passages"]
        );
        // Headings count as well.
        let (half, rest) = ("h".repeat(READ_BYTES / 2), "t".repeat(READ_BYTES / 2 + 1));
        assert_eq!(refused("q", vec![passage(&half, &rest)]), ["passages"]);
    }

    #[test]
    fn the_largest_request_fits_into_a_message() {
        let limits = Limits::default();
        let text = "t".repeat(READ_BYTES / limits.reranked);
        let question = "q".repeat(limits.query_bytes);
        let request = reading_to_wire(&question, vec![passage("", &text); limits.reranked]);
        assert!(request.encoded_len() < 4 << 20, "{}", request.encoded_len());
        reading_from_wire(request, &limits).unwrap();
    }

    #[test]
    fn what_was_found_survives_the_wire() {
        let passages = vec![passage("h", "東京 is large"), passage("h", "")];
        let found = |start, end, share| FoundSpan { span: Span::new(start, end), share };
        let spans = vec![found(0, 6, 0.75), found(10, 15, 0.0)];
        let read = PassagesRead {
            passages: vec![
                PassageRead { answers: 0.5, relevance: 1.0, spans },
                PassageRead { answers: 0.0, relevance: 0.25, spans: Vec::new() },
            ],
            tokens: 41,
        };
        let asked = reading_to_wire("who?", passages);
        assert_eq!(read_from_wire(read_to_wire(read.clone()), &asked).unwrap(), read);
    }

    #[test]
    fn what_does_not_fit_the_request_is_an_error_of_the_reader() {
        let asked = reading_to_wire("who?", vec![passage("", "東京")]);
        let sound = || wire::PassageRead {
            answers: 0.5,
            relevance: 0.5,
            spans: vec![wire::FoundSpan { start: 0, end: 3, share: 0.5 }],
        };
        let kind = |passages: Vec<wire::PassageRead>| {
            let response = wire::ReadSpansResponse { passages, tokens: 1 };
            read_from_wire(response, &asked).map_err(|error| error.kind())
        };
        assert!(kind(vec![sound()]).is_ok());
        let span = |start, end, share| wire::PassageRead {
            spans: vec![wire::FoundSpan { start, end, share }],
            ..sound()
        };
        for (what, passages) in [
            ("no result", vec![]),
            ("a result too many", vec![sound(), sound()]),
            ("an empty span", vec![span(3, 3, 0.5)]),
            ("a span that ends before it starts", vec![span(3, 0, 0.5)]),
            ("a span that cuts a character", vec![span(0, 4, 0.5)]),
            ("a span beyond the text", vec![span(3, 7, 0.5)]),
            ("a span beyond all texts", vec![span(3, u64::MAX, 0.5)]),
            ("a share above one", vec![span(0, 3, 1.5)]),
            ("a share that is no number", vec![span(0, 3, f32::NAN)]),
            ("an answer below nothing", vec![wire::PassageRead { answers: -0.1, ..sound() }]),
            (
                "an infinite relevance",
                vec![wire::PassageRead { relevance: f32::INFINITY, ..sound() }],
            ),
            (
                "too many spans",
                vec![wire::PassageRead { spans: vec![sound().spans[0]; 6], ..sound() }],
            ),
        ] {
            assert_eq!(kind(passages).unwrap_err(), ErrorKind::Internal, "{what}");
        }
    }
}
