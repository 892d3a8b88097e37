//! `clew.generator.v1` and domain values.

use clew_core::{Error, Evidence, Limits, Reading, Violations};

use crate::convert::query;
use crate::generator::v1 as wire;

/// A question and its evidence, for the wire.
pub fn read_to_wire(question: &str, evidence: &[Evidence]) -> wire::ReadRequest {
    wire::ReadRequest {
        question: question.to_owned(),
        evidence: evidence.iter().cloned().map(query::evidence_to_wire).collect(),
    }
}

/// A question and its evidence, from the wire, within `limits`.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] naming the fields at fault.
pub fn read_from_wire(
    request: wire::ReadRequest,
    limits: &Limits,
) -> Result<(String, Vec<Evidence>), Error> {
    let mut violations = Violations::default();
    if request.question.len() > limits.query_bytes {
        let problem = format!("expected at most {} bytes", limits.query_bytes);
        violations.push("question", problem);
    }
    if request.evidence.len() > limits.results {
        violations.push("evidence", format!("expected at most {} items", limits.results));
    }
    violations.into_result()?;
    let evidence = request.evidence.into_iter().map(query::evidence_from_wire);
    Ok((request.question, evidence.collect::<Result<_, _>>()?))
}

/// A reading for the wire.
pub fn reading_to_wire(reading: Reading) -> wire::Reading {
    wire::Reading {
        confidence: reading.confidence,
        threshold: reading.threshold,
        rationale: reading.rationale,
        text: reading.text,
        citations: reading.citations.into_iter().map(query::citation_to_wire).collect(),
        sentences: reading.sentences as u64,
        cost: Some(query::cost_to_wire(reading.cost)),
    }
}

/// A reading from the wire.
///
/// # Errors
/// [`clew_core::ErrorKind::InvalidInput`] if it is malformed.
pub fn reading_from_wire(reading: wire::Reading) -> Result<Reading, Error> {
    let citations = reading.citations.into_iter().map(query::citation_from_wire);
    Ok(Reading {
        confidence: reading.confidence,
        threshold: reading.threshold,
        rationale: reading.rationale,
        text: reading.text,
        citations: citations.collect::<Result<_, _>>()?,
        sentences: usize::try_from(reading.sentences).unwrap_or(usize::MAX),
        cost: query::cost_from_wire(reading.cost.unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use clew_core::{ChunkId, Citation, Cost, Span, Timestamp, Version};

    use super::*;

    #[test]
    fn questions_and_readings_survive_the_wire() {
        let document_id: clew_core::DocumentId = "a".parse().unwrap();
        let evidence = Evidence {
            chunk_id: ChunkId::derive(&"notes".parse().unwrap(), &document_id, Version(2), 1),
            document_id: document_id.clone(),
            version: Version(2),
            title: "title".to_owned(),
            span: Span::new(3, 9),
            text: "thread".to_owned(),
            event_time: Some(Timestamp::from_micros(5)),
            score: 0.5,
            dense_score: Some(0.25),
            sparse_score: None,
        };
        let wire = read_to_wire("who?", std::slice::from_ref(&evidence));
        let back = read_from_wire(wire, &Limits::default()).unwrap();
        assert_eq!(back, ("who?".to_owned(), vec![evidence]));

        let reading = Reading {
            confidence: 0.75,
            threshold: 0.5,
            rationale: "because".to_owned(),
            text: "thread".to_owned(),
            citations: vec![Citation {
                document_id,
                version: Version(2),
                title: "title".to_owned(),
                span: Span::new(3, 9),
                quote: "thread".to_owned(),
            }],
            sentences: 7,
            cost: Cost { embedded_tokens: 9, ..Cost::default() },
        };
        assert_eq!(reading_from_wire(reading_to_wire(reading.clone())).unwrap(), reading);
    }

    #[test]
    fn malformed_evidence_is_refused_by_name() {
        let evidence = vec![crate::query::v1::Evidence::default()];
        let request = wire::ReadRequest { question: "?".to_owned(), evidence };
        let error = read_from_wire(request, &Limits::default()).unwrap_err();
        assert_eq!(error.violations()[0].field, "evidence.chunk_id");
    }
}
