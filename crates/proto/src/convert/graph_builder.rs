//! Conversions of the messages of `clew.graph_builder.v1`.

use clew_core::{
    Entity, EntityKind, Error, Extraction, ExtractionTask, Limits, Quote, Relation, Span, Summary,
    SummaryLevel, SummaryTask, Violations,
};

use crate::convert::query;
use crate::graph_builder::v1 as wire;

/// Maximum bytes of text that [`batches`] puts into one message: well below the 4 MiB that a server
/// accepts, and small enough that several servers share the work of one caller.
const MESSAGE_BYTES: usize = 256 << 10;

/// Groups tasks into one batch for each message, in order. `bytes` returns the size of a task; a
/// task that is larger than a message should be gets a batch of its own.
pub fn batches<T>(tasks: Vec<T>, bytes: impl Fn(&T) -> usize, limits: &Limits) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut filled = 0;
    for task in tasks {
        let size = bytes(&task);
        match batches.last_mut() {
            Some(last) if last.len() < limits.graph_tasks && filled + size <= MESSAGE_BYTES => {
                last.push(task);
                filled += size;
            }
            _ => {
                batches.push(vec![task]);
                filled = size;
            }
        }
    }
    batches
}

/// Converts the responses to tasks, one for each, in order.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if there is not one response for each task, and the
/// errors of `convert`.
pub fn in_order<T, W, R>(
    tasks: &[T],
    responses: Vec<W>,
    convert: impl Fn(W, &T) -> Result<R, Error>,
) -> Result<Vec<R>, Error> {
    if responses.len() != tasks.len() {
        let problem = format!("{} responses to {} tasks", responses.len(), tasks.len());
        return Err(Error::internal(format!("a graph builder sent {problem}")));
    }
    responses.into_iter().zip(tasks).map(|(response, task)| convert(response, task)).collect()
}

/// Converts summary tasks for the wire.
pub fn summarise_to_wire(tasks: &[SummaryTask]) -> wire::SummariseRequest {
    let tasks = tasks.iter().map(|task| wire::SummaryTask {
        level: match task.level {
            SummaryLevel::Leaf => wire::SummaryLevel::Leaf,
            SummaryLevel::Inner => wire::SummaryLevel::Inner,
        }
        .into(),
        parts: task.parts.clone(),
        max_bytes: u32::try_from(task.max_bytes).unwrap_or(u32::MAX),
    });
    wire::SummariseRequest { tasks: tasks.collect(), ..Default::default() }
}

/// Converts summary tasks from the wire, and checks them against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn summarise_from_wire(
    request: wire::SummariseRequest,
    limits: &Limits,
) -> Result<Vec<SummaryTask>, Error> {
    let mut violations = Violations::default();
    check_count(request.tasks.len(), limits, &mut violations);
    let mut tasks = Vec::with_capacity(request.tasks.len().min(limits.graph_tasks));
    for (i, task) in request.tasks.into_iter().enumerate() {
        let level = match task.level() {
            wire::SummaryLevel::Leaf => Some(SummaryLevel::Leaf),
            wire::SummaryLevel::Inner => Some(SummaryLevel::Inner),
            wire::SummaryLevel::Unspecified => None,
        };
        let Some(level) = level else {
            let problem = format!("expected leaf or inner, got {}", task.level);
            violations.push(format!("tasks[{i}].level"), problem);
            continue;
        };
        let max_bytes = usize::try_from(task.max_bytes).unwrap_or(usize::MAX);
        let task = SummaryTask { level, parts: task.parts, max_bytes };
        check_task(i, task.check(limits), &mut violations);
        tasks.push(task);
    }
    violations.into_result()?;
    Ok(tasks)
}

/// Converts a summary for the wire.
pub fn summary_to_wire(summary: Summary) -> wire::SummariseResponse {
    let quotes = summary.quotes.into_iter().map(|quote| wire::Quote {
        part: index_to_wire(quote.part),
        span: Some(query::span_to_wire(quote.span)),
    });
    let summary = wire::Summary {
        text: summary.text,
        quotes: quotes.collect(),
        cost: Some(query::cost_to_wire(summary.cost)),
    };
    wire::SummariseResponse { summary: Some(summary), spent: None }
}

/// Converts the summary of `task` from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the response does not fit the task.
pub fn summary_from_wire(
    response: wire::SummariseResponse,
    task: &SummaryTask,
) -> Result<Summary, Error> {
    let summary = response.summary.ok_or_else(|| unfit("a response without a summary"))?;
    if summary.text.len() > task.max_bytes {
        return Err(unfit("a summary that is longer than asked for"));
    }
    let quote = |quote: wire::Quote| {
        let part = quote.part as usize;
        let text = task.parts.get(part).ok_or_else(|| unfit("a quote of no part"))?;
        Ok(Quote { part, span: part_of(text, quote.span)? })
    };
    let quotes = summary.quotes.into_iter().map(quote).collect::<Result<_, Error>>()?;
    let cost = query::cost_from_wire(summary.cost.unwrap_or_default());
    Ok(Summary { text: summary.text, quotes, cost })
}

/// Converts extraction tasks for the wire.
pub fn extract_to_wire(tasks: &[ExtractionTask]) -> wire::ExtractRequest {
    let tasks = tasks.iter().cloned().map(|task| {
        let ExtractionTask { text, background, question, speaker } = task;
        wire::ExtractionTask { text, background, question, speaker }
    });
    wire::ExtractRequest { tasks: tasks.collect(), ..Default::default() }
}

/// Converts extraction tasks from the wire, and checks them against `limits`.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn extract_from_wire(
    request: wire::ExtractRequest,
    limits: &Limits,
) -> Result<Vec<ExtractionTask>, Error> {
    let mut violations = Violations::default();
    check_count(request.tasks.len(), limits, &mut violations);
    let mut tasks = Vec::with_capacity(request.tasks.len().min(limits.graph_tasks));
    for (i, task) in request.tasks.into_iter().enumerate() {
        let wire::ExtractionTask { text, background, question, speaker } = task;
        let task = ExtractionTask { text, background, question, speaker };
        check_task(i, task.check(limits), &mut violations);
        tasks.push(task);
    }
    violations.into_result()?;
    Ok(tasks)
}

/// Converts the extraction from a passage for the wire.
pub fn extraction_to_wire(extraction: Extraction) -> wire::ExtractResponse {
    let entities = extraction.entities.into_iter().map(|entity| wire::Entity {
        name: entity.name,
        kind: kind_to_wire(entity.kind).into(),
        mentions: entity.mentions.into_iter().map(query::span_to_wire).collect(),
    });
    let relations = extraction.relations.into_iter().map(|relation| wire::Relation {
        head: index_to_wire(relation.head),
        text: relation.text,
        tail: index_to_wire(relation.tail),
        evidence: Some(query::span_to_wire(relation.evidence)),
    });
    let extraction = wire::Extraction {
        entities: entities.collect(),
        relations: relations.collect(),
        key_phrases: extraction.key_phrases,
        cost: Some(query::cost_to_wire(extraction.cost)),
    };
    wire::ExtractResponse { extraction: Some(extraction), spent: None }
}

/// Converts the extraction from the passage of `task` from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the response does not fit the task.
pub fn extraction_from_wire(
    response: wire::ExtractResponse,
    task: &ExtractionTask,
) -> Result<Extraction, Error> {
    let extraction =
        response.extraction.ok_or_else(|| unfit("a response without an extraction"))?;
    let entity = |entity: wire::Entity| {
        let kind = kind_from_wire(entity.kind())?;
        let mentions = entity.mentions.into_iter().map(|span| part_of(&task.text, Some(span)));
        Ok(Entity { name: entity.name, kind, mentions: mentions.collect::<Result<_, Error>>()? })
    };
    let entities =
        extraction.entities.into_iter().map(entity).collect::<Result<Vec<_>, Error>>()?;
    let relation = |relation: wire::Relation| {
        let (head, tail) = (relation.head as usize, relation.tail as usize);
        if head.max(tail) >= entities.len() {
            return Err(unfit("a relation of an entity that is not there"));
        }
        let evidence = part_of(&task.text, relation.evidence)?;
        Ok(Relation { head, text: relation.text, tail, evidence })
    };
    let relations = extraction.relations.into_iter().map(relation);
    Ok(Extraction {
        relations: relations.collect::<Result<_, Error>>()?,
        entities,
        key_phrases: extraction.key_phrases,
        vectors: None,
        cost: query::cost_from_wire(extraction.cost.unwrap_or_default()),
    })
}

fn check_count(tasks: usize, limits: &Limits, violations: &mut Violations) {
    if !(1..=limits.graph_tasks).contains(&tasks) {
        let problem = format!("expected 1 to {} tasks, got {tasks}", limits.graph_tasks);
        violations.push("tasks", problem);
    }
}

/// Adds the violations of a task, with its position in the request.
fn check_task(i: usize, checked: Result<(), Error>, violations: &mut Violations) {
    for violation in checked.as_ref().err().map(Error::violations).unwrap_or_default() {
        violations.push(format!("tasks[{i}].{}", violation.field), violation.description.clone());
    }
}

pub(crate) fn kind_to_wire(kind: EntityKind) -> wire::EntityKind {
    match kind {
        EntityKind::Person => wire::EntityKind::Person,
        EntityKind::Organisation => wire::EntityKind::Organisation,
        EntityKind::Place => wire::EntityKind::Place,
        EntityKind::Time => wire::EntityKind::Time,
        EntityKind::Other => wire::EntityKind::Other,
    }
}

pub(crate) fn kind_from_wire(kind: wire::EntityKind) -> Result<EntityKind, Error> {
    match kind {
        wire::EntityKind::Person => Ok(EntityKind::Person),
        wire::EntityKind::Organisation => Ok(EntityKind::Organisation),
        wire::EntityKind::Place => Ok(EntityKind::Place),
        wire::EntityKind::Time => Ok(EntityKind::Time),
        wire::EntityKind::Other => Ok(EntityKind::Other),
        wire::EntityKind::Unspecified => Err(unfit("an entity of no kind")),
    }
}

fn index_to_wire(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// Converts a span from the wire, which must lie in `text`.
fn part_of(text: &str, span: Option<crate::query::v1::Span>) -> Result<Span, Error> {
    let span = span.and_then(query::span_from_wire).filter(|span| span.of(text).is_some());
    span.ok_or_else(|| unfit("a span that is no part of its text"))
}

fn unfit(problem: &str) -> Error {
    Error::internal(format!("a graph builder sent {problem}"))
}

#[cfg(test)]
mod tests {
    use clew_core::{Cost, ErrorKind};

    use super::*;

    fn summary_task() -> SummaryTask {
        let parts = vec!["One. Two.".to_owned(), "Drei ü.".to_owned()];
        SummaryTask { level: SummaryLevel::Inner, parts, max_bytes: 20 }
    }

    fn extraction_task() -> ExtractionTask {
        ExtractionTask {
            text: "Ada met Zoë.".to_owned(),
            background: "people".to_owned(),
            question: "Who?".to_owned(),
            speaker: "Bob".to_owned(),
        }
    }

    fn extraction() -> Extraction {
        let entity = |name: &str, kind, start, end| Entity {
            name: name.to_owned(),
            kind,
            mentions: vec![Span::new(start, end)],
        };
        Extraction {
            entities: vec![
                entity("Ada", EntityKind::Person, 0, 3),
                entity("Zoë", EntityKind::Other, 8, 12),
            ],
            relations: vec![Relation {
                head: 0,
                text: "met".to_owned(),
                tail: 1,
                evidence: Span::new(0, 13),
            }],
            key_phrases: vec!["Ada".to_owned()],
            vectors: None,
            cost: Cost { model_calls: 2, ..Cost::default() },
        }
    }

    #[test]
    fn tasks_and_what_was_made_of_them_survive_the_wire() {
        let limits = Limits::default();
        let tasks = vec![summary_task()];
        assert_eq!(summarise_from_wire(summarise_to_wire(&tasks), &limits).unwrap(), tasks);
        let tasks = vec![extraction_task()];
        assert_eq!(extract_from_wire(extract_to_wire(&tasks), &limits).unwrap(), tasks);
        let summary = Summary {
            text: "One. Drei ü.".to_owned(),
            quotes: vec![
                Quote { part: 0, span: Span::new(0, 4) },
                Quote { part: 1, span: Span::new(0, 8) },
            ],
            cost: Cost { prompt_tokens: 3, ..Cost::default() },
        };
        let wire = summary_to_wire(summary.clone());
        assert_eq!(summary_from_wire(wire, &summary_task()).unwrap(), summary);
        let wire = extraction_to_wire(extraction());
        assert_eq!(extraction_from_wire(wire, &extraction_task()).unwrap(), extraction());
    }

    #[test]
    fn requests_are_refused_with_every_field_at_fault() {
        let limits = Limits::default();
        let none = summarise_from_wire(wire::SummariseRequest::default(), &limits).unwrap_err();
        assert_eq!(none.fields_at_fault(), ["tasks"]);
        let unset = wire::SummaryTask::default();
        let (level, parts) = (wire::SummaryLevel::Leaf.into(), vec!["x".to_owned()]);
        let empty = wire::SummaryTask { level, parts, max_bytes: 0 };
        let request = wire::SummariseRequest { tasks: vec![unset, empty], ..Default::default() };
        let error = summarise_from_wire(request, &limits).unwrap_err();
        assert_eq!(error.fields_at_fault(), ["tasks[0].level", "tasks[1].max_bytes"]);
        let speaker = "x".repeat(limits.title_bytes + 1);
        let long = wire::ExtractionTask { speaker, ..wire::ExtractionTask::default() };
        let tasks = vec![long; limits.graph_tasks + 1];
        let request = wire::ExtractRequest { tasks, ..Default::default() };
        let error = extract_from_wire(request, &limits).unwrap_err();
        assert_eq!(error.fields_at_fault()[..2], ["tasks", "tasks[0].speaker"]);
    }

    #[test]
    fn what_does_not_fit_its_task_is_not_taken() {
        let refused = |change: &dyn Fn(&mut wire::Extraction)| {
            let mut response = extraction_to_wire(extraction());
            change(response.extraction.as_mut().unwrap());
            let error = extraction_from_wire(response, &extraction_task()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal);
        };
        refused(&|extraction| extraction.relations[0].tail = 2);
        refused(&|extraction| extraction.relations[0].evidence = None);
        // Within "ë".
        refused(&|extraction| extraction.entities[1].mentions[0].end = 11);
        refused(&|extraction| extraction.entities[0].kind = 0);
        let summary = Summary { text: "x".repeat(21), ..Summary::default() };
        assert!(summary_from_wire(summary_to_wire(summary), &summary_task()).is_err());
    }

    #[test]
    fn batches_keep_order_and_fill_messages() {
        let limits = Limits::default();
        let sizes = vec![MESSAGE_BYTES, 1, MESSAGE_BYTES - 1, 1, 2 * MESSAGE_BYTES, 5, 5];
        let cut = batches(sizes.clone(), |size| *size, &limits);
        assert_eq!(cut.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1, 1, 2]);
        assert_eq!(cut.concat(), sizes);
        let many = batches(vec![0usize; limits.graph_tasks + 1], |size| *size, &limits);
        assert_eq!(many.iter().map(Vec::len).collect::<Vec<_>>(), [limits.graph_tasks, 1]);
    }
}
