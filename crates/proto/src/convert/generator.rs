//! Conversions of the messages of `clew.generator.v1`.

use std::num::NonZeroU32;
use std::time::Duration;

use clew_core::{
    Assignment, Budget, ChatMessage, ChatRole, Error, Evidence, Finish, Generated,
    GenerationRequest, GeneratorIdentity, Limits, MemoryPoint, Reading, ReadingStrategy,
    ReplyFormat, Sampling, Task, Timestamp, Usage, Violations,
};

use crate::chat::v1 as chat;
use crate::convert::chat::{layout_from_wire, notes_from_wire};
use crate::convert::{
    account, duration_to_wire, optional_timestamp_from_wire, query, timestamp_to_wire,
};
use crate::generator::v1 as wire;
use crate::generator::v1::generate_request::Format;

/// Converts an assignment for a reader for the wire.
pub fn read_to_wire(assignment: &Assignment<'_>) -> wire::ReadRequest {
    let point = |point: &MemoryPoint| wire::MemoryPoint {
        entities: point.entities.clone(),
        text: point.text.clone(),
    };
    wire::ReadRequest {
        question: assignment.question.to_owned(),
        evidence: assignment.evidence.iter().cloned().map(query::evidence_to_wire).collect(),
        task: query::task_to_wire(assignment.task).into(),
        asked_at: assignment.asked_at.map(timestamp_to_wire),
        points: assignment.points.iter().map(point).collect(),
        account: None,
        notes: chat::Notes::from(assignment.reading.notes).into(),
        layout: chat::Layout::from(assignment.reading.layout).into(),
    }
}

/// Assignment for a reader that owns its content, as it came from another node.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedAssignment {
    task: Task,
    question: String,
    asked_at: Option<Timestamp>,
    points: Vec<MemoryPoint>,
    evidence: Vec<Evidence>,
    reading: ReadingStrategy,
}

impl OwnedAssignment {
    /// Returns the assignment for a reader.
    pub fn borrowed(&self) -> Assignment<'_> {
        let Self { task, question, asked_at, points, evidence, reading } = self;
        let (task, asked_at, reading) = (*task, *asked_at, *reading);
        Assignment { task, question, asked_at, points, evidence, reading }
    }
}

/// Converts an assignment for a reader from the wire, and checks it against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn read_from_wire(
    request: wire::ReadRequest,
    limits: &Limits,
) -> Result<OwnedAssignment, Error> {
    let mut violations = Violations::default();
    if request.question.len() > limits.query_bytes {
        let problem = format!("expected at most {} bytes", limits.query_bytes);
        violations.push("question", problem);
    }
    if request.evidence.len() > limits.results {
        violations.push("evidence", format!("expected at most {} items", limits.results));
    }
    if request.points.len() > limits.points {
        violations.push("points", format!("expected at most {}", limits.points));
    }
    let task = query::task_from_wire(request.task, &mut violations);
    let asked_at = request.asked_at.as_ref();
    let asked_at = optional_timestamp_from_wire("asked_at", asked_at, &mut violations);
    let notes = notes_from_wire("", request.notes, &mut violations);
    let layout = layout_from_wire("", request.layout, &mut violations);
    violations.into_result()?;
    let evidence = request.evidence.into_iter().map(query::evidence_from_wire);
    let point = |wire::MemoryPoint { entities, text }| MemoryPoint { entities, text };
    Ok(OwnedAssignment {
        task,
        question: request.question,
        asked_at,
        points: request.points.into_iter().map(point).collect(),
        evidence: evidence.collect::<Result<_, _>>()?,
        reading: ReadingStrategy {
            notes: notes.unwrap_or_default(),
            layout: layout.unwrap_or_default(),
        },
    })
}

/// Converts a reading for the wire.
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

/// Converts a reading from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the message is malformed.
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

/// Converts the identity of a language model and the budget of a question for the wire.
pub fn identity_to_wire(
    identity: &GeneratorIdentity,
    budget: Budget,
) -> wire::DescribeModelResponse {
    let GeneratorIdentity { model, window } = identity.clone();
    wire::DescribeModelResponse { model, window, budget: Some(account::budget_to_wire(budget)) }
}

/// Converts the identity of a language model and the budget of a question from the wire. Generators
/// of earlier releases send no budget; the default stands for it.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the model has no name or no window, or if the
/// budget is invalid.
pub fn identity_from_wire(
    response: wire::DescribeModelResponse,
) -> Result<(GeneratorIdentity, Budget), Error> {
    let wire::DescribeModelResponse { model, window, budget } = response;
    if model.is_empty() || window == 0 {
        let problem = format!("expected a name and a window, got `{model}` and {window}");
        return Err(Error::invalid("model", problem));
    }
    let budget = budget.map(|budget| account::budget_from_wire("budget", &budget)).transpose()?;
    Ok((GeneratorIdentity { model, window }, budget.unwrap_or_default()))
}

/// Converts a request to a language model for the wire.
pub fn generate_to_wire(request: GenerationRequest) -> wire::GenerateRequest {
    let message = |ChatMessage { role, text }| {
        let role = match role {
            ChatRole::System => wire::ChatRole::System,
            ChatRole::User => wire::ChatRole::User,
            ChatRole::Assistant => wire::ChatRole::Assistant,
        };
        wire::ChatMessage { role: role.into(), text }
    };
    let Sampling { temperature, top_p, top_k, repetition_penalty, seed } = request.sampling;
    wire::GenerateRequest {
        messages: request.messages.into_iter().map(message).collect(),
        max_tokens: request.max_tokens,
        sampling: Some(wire::Sampling { temperature, top_p, top_k, repetition_penalty, seed }),
        stop: request.stop,
        format: match request.format {
            ReplyFormat::Text => None,
            ReplyFormat::Choice(texts) => Some(Format::Choices(wire::Choices { texts })),
            ReplyFormat::JsonSchema(schema) => Some(Format::JsonSchema(schema)),
        },
        most_calls: request.most_calls.map_or(0, NonZeroU32::get),
    }
}

/// Converts a request to a language model from the wire, and checks it.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn generate_from_wire(request: wire::GenerateRequest) -> Result<GenerationRequest, Error> {
    let mut violations = Violations::default();
    let mut messages = Vec::with_capacity(request.messages.len());
    for (place, message) in request.messages.into_iter().enumerate() {
        let role = match message.role() {
            wire::ChatRole::System => ChatRole::System,
            wire::ChatRole::User => ChatRole::User,
            wire::ChatRole::Assistant => ChatRole::Assistant,
            wire::ChatRole::Unspecified => {
                violations.push(format!("messages[{place}].role"), "expected who says it");
                continue;
            }
        };
        messages.push(ChatMessage { role, text: message.text });
    }
    violations.into_result()?;
    let sampling = request.sampling.map(|sampling| {
        let wire::Sampling { temperature, top_p, top_k, repetition_penalty, seed } = sampling;
        Sampling { temperature, top_p, top_k, repetition_penalty, seed }
    });
    let request = GenerationRequest {
        messages,
        max_tokens: request.max_tokens,
        sampling: sampling.unwrap_or_default(),
        stop: request.stop,
        format: match request.format {
            None => ReplyFormat::Text,
            Some(Format::Choices(choices)) => ReplyFormat::Choice(choices.texts),
            Some(Format::JsonSchema(schema)) => ReplyFormat::JsonSchema(schema),
        },
        most_calls: NonZeroU32::new(request.most_calls),
    };
    request.check()?;
    Ok(request)
}

/// Converts the end of a reply for the wire. Its text was sent before.
pub fn generated_to_wire(generated: Generated) -> wire::Generated {
    let Generated { text: _, finish, usage, model } = generated;
    let finish = match finish {
        Finish::Stop => wire::Finish::Stop,
        Finish::Length => wire::Finish::Length,
    };
    wire::Generated {
        finish: finish.into(),
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        took: Some(duration_to_wire(usage.took)),
        calls: usage.calls,
        model,
    }
}

/// Converts the end of a reply from the wire, and adds the `text` that came before.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if the message does not say why the reply ended.
pub fn generated_from_wire(generated: wire::Generated, text: String) -> Result<Generated, Error> {
    let finish = match generated.finish() {
        wire::Finish::Stop => Finish::Stop,
        wire::Finish::Length => Finish::Length,
        wire::Finish::Unspecified => {
            return Err(Error::invalid("finish", "expected why the reply ended"));
        }
    };
    let wire::Generated { prompt_tokens, completion_tokens, calls, model, .. } = generated;
    // A negative time is not worth an error.
    let took = generated.took.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default();
    let usage = Usage { prompt_tokens, completion_tokens, took, calls };
    Ok(Generated { text, finish, usage, model })
}

#[cfg(test)]
mod tests {
    use clew_core::{ChunkId, Citation, Cost, Notes, PassageLayout, Span, Timestamp, Version};

    use super::*;

    #[test]
    fn conversations_and_replies_survive_the_wire() {
        let message = |role, text: &str| ChatMessage { role, text: text.to_owned() };
        let formats = [
            ReplyFormat::Text,
            ReplyFormat::Choice(vec!["yes".to_owned(), "no".to_owned()]),
            ReplyFormat::JsonSchema("{}".to_owned()),
        ];
        for format in formats {
            let request = GenerationRequest {
                messages: vec![
                    message(ChatRole::System, "Be brief."),
                    message(ChatRole::User, "Who?"),
                    message(ChatRole::Assistant, "Theseus."),
                ],
                max_tokens: 7,
                sampling: Sampling {
                    temperature: 0.5,
                    top_p: 0.9,
                    top_k: 4,
                    repetition_penalty: 1.5,
                    seed: Some(0),
                },
                stop: vec!["\n".to_owned()],
                format,
                most_calls: NonZeroU32::new(3),
            };
            assert_eq!(generate_from_wire(generate_to_wire(request.clone())).unwrap(), request);
        }
        let usage = Usage {
            prompt_tokens: 1,
            completion_tokens: 2,
            took: Duration::from_millis(1500),
            calls: 3,
        };
        for finish in [Finish::Stop, Finish::Length] {
            let text = "Theseus did.".to_owned();
            let generated = Generated { text, finish, usage, model: "tiny".to_owned() };
            let sent = generated_to_wire(generated.clone());
            assert_eq!(generated_from_wire(sent, generated.text.clone()).unwrap(), generated);
        }
        let identity = GeneratorIdentity { model: "tiny".to_owned(), window: 64 };
        let budget = Budget::default();
        let back = identity_from_wire(identity_to_wire(&identity, budget)).unwrap();
        assert_eq!(back, (identity, budget));
    }

    #[test]
    fn what_is_missing_is_named() {
        let nobody = wire::ChatMessage { role: 0, text: String::new() };
        let request = wire::GenerateRequest { messages: vec![nobody], ..Default::default() };
        let error = generate_from_wire(request).unwrap_err();
        assert_eq!(error.violations()[0].field, "messages[0].role");
        let error = generate_from_wire(wire::GenerateRequest::default()).unwrap_err();
        assert_eq!(error.violations()[0].field, "messages");
        assert!(generated_from_wire(wire::Generated::default(), String::new()).is_err());
        assert!(identity_from_wire(wire::DescribeModelResponse::default()).is_err());
    }

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
        let assignment = OwnedAssignment {
            task: Task::Summarise,
            question: "who?".to_owned(),
            asked_at: Some(Timestamp::from_micros(7)),
            points: vec![MemoryPoint {
                entities: vec!["Ariadne".to_owned()],
                text: "a".to_owned(),
            }],
            evidence: vec![evidence],
            reading: ReadingStrategy { notes: Notes::Direct, layout: PassageLayout::Text },
        };
        let back = read_from_wire(read_to_wire(&assignment.borrowed()), &Limits::default());
        assert_eq!(back.unwrap(), assignment);

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
        let request = wire::ReadRequest { evidence, ..wire::ReadRequest::default() };
        let error = read_from_wire(request, &Limits::default()).unwrap_err();
        assert_eq!(error.violations()[0].field, "evidence.chunk_id");
    }
}
