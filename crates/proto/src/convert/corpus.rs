//! Conversions of the messages of `clew.corpus.v1`, except those of snapshots and exports.

use clew_core::{
    Breach, ChatSettings, Chunking, CorpusName, CorpusSettings, EncoderIdentity, Error, Invariant,
    MemorySettings, ReembedPhase, Reembedding, StructureSettings, Unusable, Violations,
};

use crate::convert::{chat, document_id, timestamp_from_wire, timestamp_to_wire};
use crate::corpus::v1 as wire;

/// Converts a broken promise for the wire.
pub fn breach_to_wire(breach: &Breach) -> wire::Breach {
    wire::Breach {
        invariant: invariant_to_wire(breach.invariant).into(),
        document_id: breach.document_id.to_string(),
        detail: breach.detail.clone(),
    }
}

/// Converts a broken promise from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn breach_from_wire(breach: wire::Breach) -> Result<Breach, Error> {
    let invariant = breach.invariant();
    Ok(Breach {
        invariant: Invariant::ALL
            .into_iter()
            .find(|&known| invariant_to_wire(known) == invariant)
            .ok_or_else(|| Error::invalid("invariant", "expected one that is known here"))?,
        document_id: document_id("document_id", &breach.document_id)?,
        detail: breach.detail,
    })
}

fn invariant_to_wire(invariant: Invariant) -> wire::Invariant {
    match invariant {
        Invariant::StoredOnce => wire::Invariant::StoredOnce,
        Invariant::TextWhole => wire::Invariant::TextWhole,
        Invariant::ChunksCover => wire::Invariant::ChunksCover,
        Invariant::ChunkTrue => wire::Invariant::ChunkTrue,
        Invariant::TreeTrue => wire::Invariant::TreeTrue,
        Invariant::StateTrue => wire::Invariant::StateTrue,
    }
}

/// Content of a valid CreateCorpus request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCorpus {
    /// Name of the corpus.
    pub name: CorpusName,
    /// Number of shards.
    pub shards: u32,
    /// Way of cutting documents; `None` for what suits the encoder.
    pub chunking: Option<Chunking>,
    /// Settings of trees and graph; `None` if it is to have none.
    pub structure: Option<StructureSettings>,
    /// Number of days for which documents are kept; `None` for ever.
    pub retention_days: Option<u32>,
    /// Settings of compressed memories; `None` if it is to have none.
    pub memory: Option<MemorySettings>,
    /// Settings of the conversations in it; `None` for the defaults.
    pub chat: Option<ChatSettings>,
}

impl TryFrom<wire::CreateCorpusRequest> for NewCorpus {
    type Error = Error;

    fn try_from(request: wire::CreateCorpusRequest) -> Result<Self, Error> {
        let mut violations = Violations::default();
        let name = violations.take(request.name.parse::<CorpusName>());
        let chunking =
            request.chunking.and_then(|chunking| violations.take(chunking_from_wire(chunking)));
        let chat = request.chat.map(|settings| chat::settings_from_wire(settings, &mut violations));
        violations.into_result()?;
        match name {
            Some(name) => Ok(Self {
                name,
                shards: request.shards.max(1),
                chunking,
                structure: (!request.without_structure)
                    .then(|| structure_from_wire(request.structure.unwrap_or_default())),
                retention_days: retention_from_wire(request.retention_days),
                memory: request.memory.map(memory_from_wire),
                chat,
            }),
            None => Err(Error::internal("a field was neither taken nor refused")),
        }
    }
}

impl From<NewCorpus> for wire::CreateCorpusRequest {
    fn from(corpus: NewCorpus) -> Self {
        Self {
            name: corpus.name.into(),
            shards: corpus.shards,
            chunking: corpus.chunking.map(chunking_to_wire),
            without_structure: corpus.structure.is_none(),
            structure: corpus.structure.map(structure_to_wire),
            retention_days: corpus.retention_days.unwrap_or_default(),
            memory: corpus.memory.map(memory_to_wire),
            chat: corpus.chat.map(chat::settings_to_wire),
        }
    }
}

/// Converts settings from the wire; 0 stands for the default.
fn memory_from_wire(memory: wire::CompressedMemory) -> MemorySettings {
    let default = MemorySettings::default();
    let or = |value: u32, default: u32| if value == 0 { default } else { value };
    MemorySettings {
        ratio: or(memory.ratio, default.ratio),
        segment_tokens: or(memory.segment_tokens, default.segment_tokens),
    }
}

fn memory_to_wire(memory: MemorySettings) -> wire::CompressedMemory {
    let MemorySettings { ratio, segment_tokens } = memory;
    wire::CompressedMemory { ratio, segment_tokens }
}

fn retention_from_wire(days: u32) -> Option<u32> {
    Some(days).filter(|days| *days > 0)
}

/// Converts settings from the wire; 0 stands for the default.
fn structure_from_wire(structure: wire::Structure) -> StructureSettings {
    let default = StructureSettings::default();
    let or = |value: u32, default: u32| if value == 0 { default } else { value };
    StructureSettings {
        segment_tokens: or(structure.segment_tokens, default.segment_tokens),
        max_children: or(structure.max_children, default.max_children),
        summary_bytes: or(structure.summary_bytes, default.summary_bytes),
    }
}

fn structure_to_wire(structure: StructureSettings) -> wire::Structure {
    let StructureSettings { segment_tokens, max_children, summary_bytes } = structure;
    wire::Structure { segment_tokens, max_children, summary_bytes }
}

fn chunking_from_wire(chunking: wire::Chunking) -> Result<Chunking, Error> {
    use wire::chunking::Strategy;
    match chunking.strategy {
        Some(Strategy::Tokens(tokens)) => Ok(Chunking::Tokens {
            max_tokens: tokens.max_tokens,
            overlap_tokens: tokens.overlap_tokens,
        }),
        Some(Strategy::Sentences(sentences)) => {
            Ok(Chunking::Sentences { max_tokens: sentences.max_tokens })
        }
        Some(Strategy::Sections(sections)) => {
            Ok(Chunking::Sections { max_tokens: sections.max_tokens })
        }
        None => Err(Error::invalid(
            "corpus.chunking.strategy",
            "expected one of tokens, sentences, sections",
        )),
    }
}

fn chunking_to_wire(chunking: Chunking) -> wire::Chunking {
    use wire::chunking::Strategy;
    let strategy = match chunking {
        Chunking::Tokens { max_tokens, overlap_tokens } => {
            Strategy::Tokens(wire::TokenChunking { max_tokens, overlap_tokens })
        }
        Chunking::Sentences { max_tokens } => {
            Strategy::Sentences(wire::SentenceChunking { max_tokens })
        }
        Chunking::Sections { max_tokens } => {
            Strategy::Sections(wire::SectionChunking { max_tokens })
        }
    };
    wire::Chunking { strategy: Some(strategy) }
}

/// Converts the identity of an encoder for the wire.
pub fn encoder_to_wire(encoder: EncoderIdentity) -> wire::EncoderIdentity {
    let EncoderIdentity { model, revision, dimension, max_tokens } = encoder;
    wire::EncoderIdentity { model, revision, dimension, max_tokens }
}

fn encoder_from_wire(encoder: wire::EncoderIdentity) -> EncoderIdentity {
    let wire::EncoderIdentity { model, revision, dimension, max_tokens } = encoder;
    EncoderIdentity { model, revision, dimension, max_tokens }
}

fn reembedding_to_wire(reembedding: Reembedding) -> wire::Reembedding {
    let Reembedding { first, other, phase, number } = reembedding;
    let phase = match phase {
        ReembedPhase::Filling => wire::ReembeddingPhase::Filling,
        ReembedPhase::CutOver => wire::ReembeddingPhase::CutOver,
        ReembedPhase::Confirmed => wire::ReembeddingPhase::Confirmed,
        ReembedPhase::Abandoned => wire::ReembeddingPhase::Abandoned,
    };
    wire::Reembedding {
        first: Some(encoder_to_wire(first)),
        other: Some(encoder_to_wire(other)),
        phase: phase.into(),
        number,
    }
}

fn reembedding_from_wire(reembedding: wire::Reembedding) -> Result<Reembedding, Error> {
    use wire::ReembeddingPhase as On;
    let phase = match reembedding.phase() {
        On::Filling => Some(ReembedPhase::Filling),
        On::CutOver => Some(ReembedPhase::CutOver),
        On::Confirmed => Some(ReembedPhase::Confirmed),
        On::Abandoned => Some(ReembedPhase::Abandoned),
        On::Unspecified => None,
    };
    let expected = |field, what| Error::invalid(field, format!("expected {what}"));
    let encoder = |field, encoder: Option<wire::EncoderIdentity>| {
        encoder.map(encoder_from_wire).ok_or_else(|| expected(field, "a model"))
    };
    Ok(Reembedding {
        first: encoder("corpus.reembedding.first", reembedding.first)?,
        other: encoder("corpus.reembedding.other", reembedding.other)?,
        phase: phase
            .ok_or_else(|| expected("corpus.reembedding.phase", "one that is known here"))?,
        number: reembedding.number,
    })
}

/// Converts a corpus for the wire, with its counts if they are known.
pub fn corpus_to_wire(
    settings: CorpusSettings,
    counts: Option<wire::CorpusCounts>,
) -> wire::Corpus {
    wire::Corpus {
        name: settings.name.into(),
        shards: settings.shards,
        chunking: Some(chunking_to_wire(settings.chunking)),
        encoder: Some(encoder_to_wire(settings.encoder)),
        created_at: Some(timestamp_to_wire(settings.created_at)),
        counts,
        structure: settings.structure.map(structure_to_wire),
        retention_days: settings.retention_days.unwrap_or_default(),
        memory: settings.memory.map(memory_to_wire),
        chat: settings.chat.map(chat::settings_to_wire),
        reembedding: settings.reembedding.map(reembedding_to_wire),
        shards_missing: Vec::new(),
        fault: None,
    }
}

/// Converts a corpus that cannot be used for the wire.
pub fn unusable_to_wire(unusable: Unusable) -> wire::Corpus {
    let Unusable { name, reason, message } = unusable;
    let fault = Some(wire::CorpusFault { reason, message });
    wire::Corpus { name: name.into(), fault, ..Default::default() }
}

/// Converts a corpus that cannot be used from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn unusable_from_wire(corpus: wire::Corpus) -> Result<Unusable, Error> {
    let wire::CorpusFault { reason, message } = corpus.fault.unwrap_or_default();
    Ok(Unusable { name: corpus.name.parse()?, reason, message })
}

/// Converts the settings of a corpus from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming every invalid field.
pub fn settings_from_wire(corpus: wire::Corpus) -> Result<CorpusSettings, Error> {
    let mut violations = Violations::default();
    let name = violations.take(corpus.name.parse::<CorpusName>());
    let chunking = violations.take(chunking_from_wire(corpus.chunking.unwrap_or_default()));
    let created_at = violations
        .take(timestamp_from_wire("corpus.created_at", &corpus.created_at.unwrap_or_default()));
    let reembedding = corpus.reembedding.and_then(|it| violations.take(reembedding_from_wire(it)));
    let chat = corpus.chat.map(|settings| chat::settings_from_wire(settings, &mut violations));
    violations.into_result()?;
    let (Some(name), Some(chunking), Some(created_at)) = (name, chunking, created_at) else {
        return Err(Error::internal("a field was neither taken nor refused"));
    };
    let encoder = encoder_from_wire(corpus.encoder.unwrap_or_default());
    let structure = corpus.structure.map(structure_from_wire);
    let (shards, retention_days) = (corpus.shards, retention_from_wire(corpus.retention_days));
    let memory = corpus.memory.map(memory_from_wire);
    Ok(CorpusSettings {
        name,
        shards,
        chunking,
        encoder,
        structure,
        retention_days,
        memory,
        chat,
        reembedding,
        created_at,
    })
}

#[cfg(test)]
mod tests {
    use clew_core::{History, KeyMerging, Notes, PassageLayout, ReadingStrategy, TimeUse, Value};

    use super::*;

    #[test]
    fn requests_round_trip() {
        for chunking in [
            None,
            Some(Chunking::Tokens { max_tokens: 100, overlap_tokens: 20 }),
            Some(Chunking::Sentences { max_tokens: 64 }),
            Some(Chunking::Sections { max_tokens: 200 }),
        ] {
            let structure =
                chunking.map(|_| StructureSettings { max_children: 3, ..Default::default() });
            let name = "notes".parse().unwrap();
            let retention_days = chunking.map(|chunking| chunking.max_tokens());
            let memory =
                retention_days.map(|tokens| MemorySettings { ratio: 8, segment_tokens: tokens });
            let chat = memory.map(|_| ChatSettings {
                keys: vec!["value".to_owned(), "date+fact".to_owned()],
                merging: KeyMerging::Rank,
                value: Value::Session,
                time: TimeUse::Ignore,
                history: History::All,
                reading: ReadingStrategy { notes: Notes::Direct, layout: PassageLayout::Text },
            });
            let corpus =
                NewCorpus { name, shards: 3, chunking, structure, retention_days, memory, chat };
            let wire = wire::CreateCorpusRequest::from(corpus.clone());
            assert_eq!(NewCorpus::try_from(wire).unwrap(), corpus);
        }
    }

    #[test]
    fn settings_survive_the_wire_whatever_move_they_tell_of_and_a_bad_move_is_refused() {
        let model = |name: &str| EncoderIdentity {
            model: name.to_owned(),
            revision: "r".to_owned(),
            dimension: 8,
            max_tokens: 256,
        };
        let mut settings = CorpusSettings {
            name: "notes".parse().unwrap(),
            shards: 3,
            chunking: Chunking::Sections { max_tokens: 200 },
            encoder: model("a"),
            structure: Some(StructureSettings::default()),
            retention_days: Some(3),
            memory: Some(MemorySettings::default()),
            chat: Some(ChatSettings::default()),
            reembedding: None,
            created_at: clew_core::Timestamp::from_micros(7),
        };
        let phases = [
            ReembedPhase::Filling,
            ReembedPhase::CutOver,
            ReembedPhase::Confirmed,
            ReembedPhase::Abandoned,
        ];
        for phase in std::iter::once(None).chain(phases.map(Some)) {
            settings.reembedding = phase.map(|phase| {
                let (first, other) = (model("b"), model("c"));
                Reembedding { first, other, phase, number: 2 }
            });
            let wire = corpus_to_wire(settings.clone(), None);
            assert_eq!(settings_from_wire(wire).unwrap(), settings);
        }
        for (field, spoil) in [
            ("phase", (|it| it.phase = 9) as fn(&mut wire::Reembedding)),
            ("phase", |it| it.phase = 0),
            ("first", |it| it.first = None),
            ("other", |it| it.other = None),
        ] {
            let mut wire = corpus_to_wire(settings.clone(), None);
            wire.reembedding.as_mut().map(spoil).unwrap();
            let error = settings_from_wire(wire).unwrap_err();
            assert_eq!(error.violations()[0].field, format!("corpus.reembedding.{field}"));
        }
    }

    #[test]
    fn every_field_at_fault_is_named() {
        let request = wire::CreateCorpusRequest {
            name: "No Good".to_owned(),
            shards: 1,
            chunking: Some(wire::Chunking { strategy: None }),
            ..Default::default()
        };
        let error = NewCorpus::try_from(request).unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["corpus", "corpus.chunking.strategy"]);
    }
}
