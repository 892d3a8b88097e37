use clew_core::{Document, Labels, MediaType, Timestamp};
use proptest::prelude::*;

use super::*;

const MODEL: &str = "model";

fn settings(tokens: u32) -> MemorySettings {
    MemorySettings { ratio: 4, segment_tokens: tokens }
}

fn status(id: &str, version: u64, bytes: u64) -> DocumentStatus {
    DocumentStatus {
        document_id: id.parse().unwrap(),
        state: DocumentState::Indexed,
        version: Version(version),
        live_version: Some(Version(version)),
        accepted_at: Timestamp::from_micros(0),
        bytes,
        chunks: 1,
        tokens: 1,
        nodes: 0,
        failure: None,
        labels: Labels::default(),
        source_version: None,
    }
}

/// Returns the records after a plan was carried out. Every token has four bytes.
fn formed(records: &[MemoryRecord], plan: Plan, settings: MemorySettings) -> Vec<MemoryRecord> {
    let mut records = records.to_vec();
    let gone = |key: &String| plan.outdated.contains(key);
    let extended = plan.extended.as_ref().map(|record| record.key.clone());
    records.retain(|record| !gone(&record.key) && Some(&record.key) != extended.as_ref());
    let mut parts = plan.extended.map_or(Vec::new(), |record| record.parts);
    parts.extend(plan.added);
    let bytes: usize = parts.iter().map(|part| part.span.end - part.span.start).sum();
    let tokens = bytes.div_ceil(TOKEN_BYTES) as u64;
    let key = key(MODEL, settings.ratio, &parts);
    let (model, ratio) = (MODEL.to_owned(), settings.ratio);
    records.push(MemoryRecord { key, model, ratio, parts, tokens, slots: tokens / 4, bytes: 1 });
    records.sort_by_key(|record| {
        let first = &record.parts[0];
        (first.version, first.document_id.clone(), first.span.start)
    });
    records
}

fn all_formed(documents: &[DocumentStatus], settings: MemorySettings) -> Vec<MemoryRecord> {
    let mut records = Vec::new();
    while let Some(plan) = plan(documents, &records, MODEL, settings, &HashSet::new()) {
        records = formed(&records, plan, settings);
    }
    records
}

#[test]
fn documents_are_read_whole_where_they_fit_and_new_ones_go_on() {
    let mut documents = vec![status("a", 1, 1000), status("b", 2, 1000), status("c", 3, 1500)];
    let records = all_formed(&documents, settings(800));
    let covered: Vec<Vec<&str>> = records
        .iter()
        .map(|record| record.parts.iter().map(|part| part.document_id.as_str()).collect())
        .collect();
    assert_eq!(covered, [vec!["a", "b"], vec!["c"]]);
    documents.push(status("d", 4, 400));
    let plan = plan(&documents, &records, MODEL, settings(800), &HashSet::new()).unwrap();
    assert_eq!(plan.extended.as_ref(), Some(&records[1]));
    assert_eq!(plan.added.len(), 1);
}

#[test]
fn a_memory_holds_documents_that_need_the_same_labels() {
    let labelled = |id: &str, version: u64, labels: &[&str]| DocumentStatus {
        labels: Labels::parse(labels).unwrap(),
        ..status(id, version, 100)
    };
    let documents = [
        labelled("a", 1, &[]),
        labelled("b", 2, &["x"]),
        labelled("c", 3, &[]),
        labelled("d", 4, &["x"]),
        labelled("e", 5, &["x", "y"]),
    ];
    let covered = |records: &[MemoryRecord]| -> Vec<String> {
        let ids = |record: &MemoryRecord| {
            record.parts.iter().map(|part| part.document_id.as_str()).collect::<String>()
        };
        records.iter().map(ids).collect()
    };
    let first = all_formed(&documents[..2], settings(300));
    assert_eq!(covered(&first), ["a", "b"]);
    let mut records = first;
    while let Some(plan) = plan(&documents, &records, MODEL, settings(300), &HashSet::new()) {
        records = formed(&records, plan, settings(300));
    }
    assert_eq!(covered(&records), ["ac", "bd", "e"]);
}

#[test]
fn a_long_document_is_read_in_parts_over_several_memories() {
    let records = all_formed(&[status("a", 1, 10_000)], settings(1000));
    let spans: Vec<(usize, usize)> = records
        .iter()
        .flat_map(|record| record.parts.iter().map(|part| (part.span.start, part.span.end)))
        .collect();
    assert_eq!(spans, [(0, 4000), (4000, 8000), (8000, 10_000)]);
    assert_eq!(records.len(), 3);
}

#[test]
fn memories_of_another_model_are_replaced_by_what_covers_their_documents() {
    let documents = [status("a", 1, 100), status("b", 2, 100)];
    let mut records = all_formed(&documents, settings(300));
    records[0].model = "another".to_owned();
    let plan = plan(&documents, &records, MODEL, settings(300), &HashSet::new()).unwrap();
    assert_eq!(plan.outdated, [records[0].key.clone()]);
    assert_eq!(plan.extended, None);
}

#[test]
fn documents_that_are_set_aside_hold_up_no_others() {
    let documents = [status("a", 1, 100), status("b", 2, 100), status("c", 3, 100)];
    let aside = HashSet::from([("a".parse().unwrap(), Version(1))]);
    let plan = plan(&documents, &[], MODEL, settings(300), &aside).unwrap();
    let ids: Vec<&str> = plan.added.iter().map(|part| part.document_id.as_str()).collect();
    assert_eq!(ids, ["b", "c"]);
}

#[test]
fn only_what_may_be_found_is_told() {
    let records = all_formed(&[status("a", 1, 100), status("b", 2, 100)], settings(300));
    let filter = |ids: &[&str]| Filter {
        documents: ids.iter().map(|id| id.parse().unwrap()).collect(),
        ..Filter::default()
    };
    assert!(admits(&Filter::default(), &records[0]));
    assert!(admits(&filter(&["a", "b", "c"]), &records[0]));
    assert!(!admits(&filter(&["a"]), &records[0]));
    let attributes = vec![("chat.user".to_owned().try_into().unwrap(), "ada".to_owned())];
    assert!(!admits(&Filter { attributes, ..filter(&["a", "b"]) }, &records[0]));
}

#[test]
fn a_cut_lies_between_words_and_the_title_is_told_once() {
    let id: DocumentId = "a".parse().unwrap();
    let document = Document {
        id: id.clone(),
        text: "Ariadne held the thread é.".to_owned(),
        media_type: MediaType::Plain,
        title: "Crete".to_owned(),
        attributes: Default::default(),
        event_time: None,
        labels: Labels::default(),
        source_version: None,
    };
    let accepted_at = Timestamp::from_micros(0);
    let stored = StoredDocument { document, version: Version(1), accepted_at };
    let documents = HashMap::from([(id.clone(), stored)]);
    let part = |start, end| MemoryPart {
        document_id: id.clone(),
        version: Version(1),
        span: Span::new(start, end),
    };
    let (parts, texts) = cut(&[part(0, 15)], &documents).unwrap();
    assert_eq!((texts[0].title.as_str(), texts[0].text.as_str()), ("Crete", "Ariadne held"));
    let end = parts[0].span.end;
    let (_, texts) = cut(&[part(end, 27)], &documents).unwrap();
    assert_eq!((texts[0].title.as_str(), texts[0].text.as_str()), ("", " the thread é."));
    assert!(cut(&[part(0, 3)], &HashMap::new()).is_none());
}

proptest! {
    #[test]
    fn every_byte_is_read_once_and_no_memory_is_too_long(
        lengths in prop::collection::vec(1_u64..9_000, 0..12),
        tokens in 256_u32..1_500,
    ) {
        let documents: Vec<DocumentStatus> = (1_u64..)
            .zip(&lengths)
            .map(|(version, bytes)| status(&format!("d{version:02}"), version, *bytes))
            .collect();
        let records = all_formed(&documents, settings(tokens));
        for record in &records {
            let bytes: usize = record.parts.iter().map(|part| part.span.end - part.span.start).sum();
            prop_assert!(bytes <= tokens as usize * TOKEN_BYTES);
        }
        for status in &documents {
            let parts = records.iter().flat_map(|record| &record.parts);
            let mut spans: Vec<Span> =
                parts.filter(|part| part.document_id == status.document_id).map(|part| part.span).collect();
            spans.sort_by_key(|span| span.start);
            prop_assert_eq!(spans[0].start, 0);
            prop_assert_eq!(spans.last().unwrap().end as u64, status.bytes);
            prop_assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start));
            // A document that fits into one memory is not split.
            prop_assert!(spans.len() == 1 || status.bytes > u64::from(tokens) * TOKEN_BYTES as u64);
        }
    }
}
