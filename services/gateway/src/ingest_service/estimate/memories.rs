//! Estimates of the compressed memories of an ingestion.

use std::collections::VecDeque;
use std::time::Instant;

use clew_core::{COUNTED_BYTES, CorpusSettings, Document, Error, MemorySettings, MemoryText};

use super::run::Run;
use super::sample::Samples;
use crate::Backends;

/// Bytes of text that are read at once, and bytes per token in the calculation of a memory's room.
/// The retriever uses the same values.
const BATCH_BYTES: usize = 512 << 10;
const ROOM_TOKEN_BYTES: usize = 4;
/// Bytes of a part's entry in the header of a memory's file: an id, a version and a span.
const PART_BYTES: u64 = 100;
/// Maximum number of documents of a shard, and of memories, that are simulated one by one.
const MOST_GONE_THROUGH: u64 = 10_000;
const MOST_FORMED: u64 = 10_000;

/// Compressed memories that an ingestion would form.
#[derive(Debug, Default)]
pub(super) struct Memories {
    pub count: u64,
    pub tokens: u64,
    pub bytes: u64,
}

/// Estimates the memories of an ingestion of documents like the samples.
pub(super) async fn estimate(
    backends: &Backends,
    settings: &CorpusSettings,
    samples: &Samples,
    run: &Run,
    deadline: Instant,
) -> Result<Memories, Error> {
    let shards = u64::from(settings.shards.max(1));
    let Some(settings) = settings.memory else { return Ok(Memories::default()) };
    let Some(model) = backends.memory_encoder.memory_model(deadline).await? else {
        return Ok(Memories::default());
    };
    let (texts, bytes) = counted(&samples.documents);
    let tokens = backends.memory_encoder.count_tokens(texts, deadline).await?;
    let tokens_per_byte = tokens as f64 / bytes.max(1) as f64;
    let gone_through = run.documents.div_ceil(shards).min(most_gone_through(run, settings));
    let sizes = sizes(samples, run, gone_through);
    // Documents differ in length, so the bytes of text give the factor.
    let shares = run.text_bytes as f64 / sizes.iter().sum::<usize>().max(1) as f64;
    let formed = form(sizes, settings, tokens_per_byte);
    let scaled = |n: u64| (n as f64 * shares).ceil() as u64;
    let slots: u64 = formed.iter().map(|tokens| model.slots(*tokens, settings.ratio)).sum();
    Ok(Memories {
        count: scaled(formed.len() as u64),
        tokens: scaled(formed.iter().sum()),
        bytes: scaled(slots)
            .saturating_mul(model.slot_bytes)
            .saturating_add(run.documents.saturating_mul(PART_BYTES)),
    })
}

/// Returns the number of documents of mean size to simulate so that they fill at most
/// [`MOST_FORMED`] memories.
fn most_gone_through(run: &Run, settings: MemorySettings) -> u64 {
    let each = (run.text_bytes / run.documents.max(1)).max(1);
    let whole = u64::from(settings.segment_tokens) * ROOM_TOKEN_BYTES as u64;
    (MOST_FORMED.saturating_mul(whole) / each).clamp(1, MOST_GONE_THROUGH)
}

/// Returns as much of the samples as the model counts at once, and the bytes of those texts.
fn counted(samples: &[Document]) -> (Vec<MemoryText>, usize) {
    let (mut texts, mut bytes, mut left) = (Vec::new(), 0, COUNTED_BYTES);
    for Document { title, text: whole, .. } in samples {
        let text = &whole[..whole.floor_char_boundary(left.saturating_sub(title.len()))];
        if title.len() > left || (text.is_empty() && !whole.is_empty()) {
            break;
        }
        left -= title.len() + text.len();
        bytes += text.len();
        texts.push(MemoryText { title: title.clone(), text: text.to_owned() });
    }
    (texts, bytes)
}

/// Returns the sizes of `count` documents like the samples. Samples may be truncated; the sizes are
/// scaled to the ingestion's mean length.
fn sizes(samples: &Samples, run: &Run, count: u64) -> Vec<usize> {
    let sampled = samples.sizes();
    let mean = sampled.iter().sum::<usize>() as f64 / sampled.len().max(1) as f64;
    let longer = run.text_bytes as f64 / run.documents.max(1) as f64 / mean.max(1.0);
    let size = |size: &usize| (*size as f64 * longer).ceil() as usize;
    sampled.iter().map(size).cycle().take(count as usize).collect()
}

/// Returns the tokens of each memory that documents of these sizes are read into, one after
/// another. A document goes into the last memory if it fits; one that is too long for any memory
/// continues in the next.
fn form(sizes: Vec<usize>, settings: MemorySettings, tokens_per_byte: f64) -> Vec<u64> {
    let whole = settings.segment_tokens as usize * ROOM_TOKEN_BYTES;
    let mut formed: Vec<u64> = Vec::new();
    // Remaining bytes of each document, and whether it was begun.
    let mut left: VecDeque<(usize, bool)> =
        sizes.into_iter().filter(|size| *size > 0).map(|size| (size, false)).collect();
    while let Some(&(first, is_begun)) = left.front() {
        let room_in = |tokens: &u64| whole.saturating_sub(*tokens as usize * ROOM_TOKEN_BYTES);
        let last = formed.last().map(room_in).filter(|room| *room > 0);
        let last = last.filter(|room| is_begun || first <= *room);
        let mut room = last.unwrap_or(whole).min(BATCH_BYTES);
        let mut read = 0;
        while let Some((size, is_begun)) = left.front_mut() {
            if *size > room {
                if read == 0 {
                    read = room;
                    (*size, *is_begun) = (*size - room, true);
                }
                break;
            }
            room -= *size;
            read += *size;
            left.pop_front();
        }
        let tokens = (read as f64 * tokens_per_byte).ceil() as u64;
        match formed.last_mut().filter(|_| last.is_some()) {
            Some(going_on) => *going_on += tokens,
            None => formed.push(tokens),
        }
    }
    formed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formed(sizes: &[usize], segment_tokens: u32) -> Vec<u64> {
        form(sizes.to_vec(), MemorySettings { ratio: 4, segment_tokens }, 0.25)
    }

    #[test]
    fn a_large_run_is_gone_through_in_part() {
        let settings = MemorySettings { ratio: 4, segment_tokens: 256 };
        let run = |documents, text_bytes| Run { documents, text_bytes };
        assert_eq!(most_gone_through(&run(10_000, 10_000), settings), MOST_GONE_THROUGH);
        assert_eq!(most_gone_through(&run(10_000, 160 << 30), settings), 1);
        let documents = most_gone_through(&run(10_000, 10_000 << 14), settings);
        assert_eq!(documents, MOST_FORMED / 16);
    }

    #[test]
    fn as_much_of_the_samples_is_counted_as_the_model_takes() {
        let sample = |title: &str, bytes: usize| Document {
            id: "a".parse().unwrap(),
            text: "é".repeat(bytes / 2),
            media_type: clew_core::MediaType::Plain,
            title: title.to_owned(),
            attributes: clew_core::Attributes::new(),
            event_time: None,
            labels: clew_core::Labels::default(),
            source_version: None,
        };
        let (texts, bytes) = counted(&[sample("odd", COUNTED_BYTES), sample("", 10)]);
        assert_eq!((texts.len(), bytes), (1, COUNTED_BYTES - 4));
    }

    #[test]
    fn documents_share_memories_as_far_as_they_fit() {
        assert_eq!(formed(&[], 1000), Vec::<u64>::new());
        assert_eq!(formed(&[1000, 1000, 1000], 1000), [750]);
        // The third document does not fit behind the first two.
        assert_eq!(formed(&[1600, 1600, 1600], 1000), [800, 400]);
        // A document that is longer than a memory fills several.
        assert_eq!(formed(&[10_000], 1000), [1000, 1000, 500]);
        // Several batches go into one memory.
        assert_eq!(formed(&[2 * BATCH_BYTES], 1_000_000), [2 * BATCH_BYTES as u64 / 4]);
    }
}
