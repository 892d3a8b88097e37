//! Decoders compute what the reference computes, however their work is divided and whatever is
//! computed with it.
//!
//! The models are random and tiny. Those in `fixtures/decoders` are always read. `CLEW_GOLDEN_DIR`
//! may name a folder of more models in the same layout, listed in `decoders/manifest.json`.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::path::{Path, PathBuf};

use clew_model::decoder::{Decoder, DecoderStep, Sequence, WantedLogits};
use clew_model::sampling::TokenChoice;
use clew_model::{DeviceChoice, Error, Precision};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::device::{device, has_bfloat16, tolerance};

/// Maximum difference of a logit. Two correct computations in 32-bit floats differ by a few 1e-5.
const LOGITS: f32 = 1e-4;
/// The same in bfloat16, relative to the spread of the logits. Weights and states are rounded to 8
/// bits, an error of up to 0.4 % each. The reference's own bfloat16 is off by a hundredth on
/// average. The maximum is that of tens of thousands of logits.
const BFLOAT16_MOST: f32 = 0.25;
const BFLOAT16_MEAN: f32 = 0.025;

/// Model, and the reference's results for it.
struct Case {
    folder: PathBuf,
    prompt: Vec<u32>,
    /// Logits after each token of the prompt.
    logits: Vec<Vec<f32>>,
    /// Likeliest continuation, token by token.
    greedy: Vec<u32>,
    /// Logits that the reference chose each token of the continuation from.
    greedy_logits: Vec<Vec<f32>>,
}

impl Case {
    fn read(folder: PathBuf) -> Self {
        let file = std::fs::read(folder.join("golden.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let ids = |name: &str| -> Vec<u32> {
            let tensor = tensors.tensor(name).unwrap();
            let size = tensor.dtype().bitsize() / 8;
            // Little-endian and not negative, of any size.
            let ids = tensor.data().chunks_exact(size);
            ids.map(|id| id.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte))).collect()
        };
        let rows = |name: &str| -> Vec<Vec<f32>> {
            let tensor = tensors.tensor(name).unwrap();
            let width = *tensor.shape().last().unwrap();
            let values = tensor.data().as_chunks::<4>().0.iter();
            let values: Vec<f32> = values.map(|value| f32::from_le_bytes(*value)).collect();
            values.chunks_exact(width).map(<[f32]>::to_vec).collect()
        };
        Self {
            prompt: ids("input_ids"),
            logits: rows("logits"),
            greedy: ids("greedy_ids"),
            greedy_logits: rows("greedy_logits"),
            folder,
        }
    }

    fn name(&self) -> String {
        self.folder.file_name().unwrap().to_string_lossy().into_owned()
    }

    fn load(&self, precision: Precision) -> Decoder {
        Decoder::load(&self.folder, device(), precision, 2)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    fn length(&self) -> usize {
        self.prompt.len() + self.greedy.len()
    }
}

/// Returns the models of the repository.
fn own() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/decoders");
    ["qwen2", "llama", "mistral"].map(|name| Case::read(folder.join(name))).into()
}

/// Returns the models of `CLEW_GOLDEN_DIR`, if it is set.
fn golden() -> Vec<Case> {
    let Some(folder) = std::env::var_os("CLEW_GOLDEN_DIR").map(PathBuf::from) else {
        return Vec::new();
    };
    let folder = folder.join("decoders");
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let names = manifest["decoders"].as_array().unwrap().iter();
    names.map(|case| Case::read(folder.join(case["name"].as_str().unwrap()))).collect()
}

fn cases() -> Vec<Case> {
    own().into_iter().chain(golden()).collect()
}

fn step(
    decoder: &Decoder,
    sequence: &mut Sequence,
    tokens: &[u32],
    wanted: WantedLogits,
) -> Vec<Vec<f32>> {
    decoder.step(&mut [DecoderStep { sequence, tokens, wanted }]).unwrap()
}

fn difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn likeliest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    u32::try_from(best.0).unwrap()
}

#[test]
fn golden_logits_and_greedy_continuations_are_the_references() {
    for case in cases() {
        let decoder = case.load(Precision::Float32);
        let mut sequence = decoder.sequence(case.length());
        let logits = step(&decoder, &mut sequence, &case.prompt, WantedLogits::All);
        let off = difference(&logits, &case.logits);
        assert!(off <= tolerance(LOGITS), "{}: logits are off by {off}", case.name());

        let mut next = likeliest(logits.last().unwrap());
        let mut continued = vec![next];
        let mut seen = vec![logits.last().unwrap().clone()];
        while continued.len() < case.greedy.len() {
            let logits = step(&decoder, &mut sequence, &[next], WantedLogits::Last).remove(0);
            next = likeliest(&logits);
            continued.push(next);
            seen.push(logits);
        }
        assert_eq!(continued, case.greedy, "{}", case.name());
        let off = difference(&seen, &case.greedy_logits);
        assert!(off <= tolerance(LOGITS), "{}: cached logits are off by {off}", case.name());
    }
}

#[test]
fn the_device_chooses_the_token_with_the_highest_logit() {
    for case in cases() {
        let decoder = case.load(Precision::Float32);
        let logits =
            step(&decoder, &mut decoder.sequence(case.length()), &case.prompt, WantedLogits::All);
        let sequence = &mut decoder.sequence(case.length());
        let wanted = WantedLogits::All;
        let steps = &mut [DecoderStep { sequence, tokens: &case.prompt, wanted }];
        let choices = vec![TokenChoice::default(); logits.len()];
        let chosen = decoder.step_and_choose(steps, || choices).unwrap();
        let expected: Vec<_> = logits.iter().map(|logits| Some(likeliest(logits))).collect();
        assert_eq!(chosen, expected, "{}", case.name());
    }
}

#[test]
fn long_and_short_sequences_side_by_side_are_those_of_the_processor() {
    for case in own() {
        let decoder = case.load(Precision::Float32);
        let exact = Decoder::load(&case.folder, DeviceChoice::Cpu, Precision::Float32, 1).unwrap();
        let most = decoder.positions().min(400);
        let text: Vec<u32> = case.prompt.iter().copied().cycle().take(most).collect();
        let lengths = [1, most / 5, most - 9];
        for together in [1, lengths.len()] {
            // Sequences that end leave their room to the next.
            let mut sequences = vec![decoder.sequence(most), decoder.sequence(most)];
            step(&decoder, &mut sequences[0], &text[..most / 2], WantedLogits::Nothing);
            sequences.remove(0);
            step(&decoder, &mut sequences[0], &text[..3], WantedLogits::Nothing);
            let mut sequences: Vec<Sequence> =
                lengths[..together].iter().map(|_| decoder.sequence(most)).collect();
            let mut alone: Vec<Sequence> =
                lengths[..together].iter().map(|_| exact.sequence(most)).collect();
            for sizes in [&lengths[..], &[1, 3, 2], &[1, 1, 1]] {
                let read = sequences.iter().map(Sequence::length).zip(sizes);
                let pieces: Vec<&[u32]> = read.map(|(at, size)| &text[at..at + size]).collect();
                let steps = |sequences: &mut [Sequence], decoder: &Decoder| {
                    let wanted = WantedLogits::All;
                    let steps = sequences.iter_mut().zip(&pieces);
                    let steps =
                        steps.map(|(sequence, tokens)| DecoderStep { sequence, tokens, wanted });
                    decoder.step(&mut steps.collect::<Vec<_>>()).unwrap()
                };
                let off = difference(&steps(&mut sequences, &decoder), &steps(&mut alone, &exact));
                assert!(off <= tolerance(LOGITS), "{}: off by {off}", case.name());
            }
        }
    }
}

#[test]
fn golden_logits_are_near_in_bfloat16() {
    if !has_bfloat16() {
        return;
    }
    for case in cases() {
        let decoder = case.load(Precision::BFloat16);
        let mut sequence = decoder.sequence(case.length());
        let logits = step(&decoder, &mut sequence, &case.prompt, WantedLogits::All);
        let off = difference(&logits, &case.logits);
        let pairs = logits.iter().flatten().zip(case.logits.iter().flatten());
        let count = (logits.len() * logits[0].len()) as f32;
        let mean = pairs.map(|(a, b)| (a - b).abs()).sum::<f32>() / count;
        let squares = case.logits.iter().flatten().map(|logit| logit * logit).sum::<f32>();
        let spread = (squares / count).sqrt();
        let (off, mean) = (off / spread, mean / spread);
        assert!(off <= BFLOAT16_MOST && mean <= BFLOAT16_MEAN, "{}: {off} {mean}", case.name());
    }
}

#[test]
fn a_text_in_pieces_is_the_text_at_once() {
    for case in cases() {
        let decoder = case.load(Precision::Float32);
        let text: Vec<u32> = case.prompt.iter().chain(&case.greedy).copied().collect();
        let mut whole = decoder.sequence(text.len());
        let expected = step(&decoder, &mut whole, &text, WantedLogits::All);
        for size in [1, 7, 64] {
            let mut sequence = decoder.sequence(text.len());
            let pieces = text.chunks(size);
            let logits: Vec<_> = pieces
                .flat_map(|piece| step(&decoder, &mut sequence, piece, WantedLogits::All))
                .collect();
            let off = difference(&logits, &expected);
            assert!(off <= tolerance(LOGITS), "{} in pieces of {size}: off by {off}", case.name());
        }
    }
}

#[test]
fn a_sequence_is_the_same_in_company() {
    for case in cases() {
        let decoder = case.load(Precision::Float32);
        let length = case.prompt.len();
        let texts = [&case.prompt[..], &case.prompt[length / 2..], &case.prompt[..3]];
        let alone = texts.map(|text| {
            step(&decoder, &mut decoder.sequence(length), text, WantedLogits::Last).remove(0)
        });
        // The second joins when the first has read half of its text.
        let mut sequences = texts.map(|_| decoder.sequence(length));
        let [first, second, third] = &mut sequences;
        step(&decoder, first, &texts[0][..length / 2], WantedLogits::Nothing);
        let mut steps = [
            DecoderStep {
                sequence: first,
                tokens: &texts[0][length / 2..],
                wanted: WantedLogits::Last,
            },
            DecoderStep { sequence: second, tokens: texts[1], wanted: WantedLogits::Last },
            DecoderStep { sequence: third, tokens: texts[2], wanted: WantedLogits::Last },
        ];
        let together = decoder.step(&mut steps).unwrap();
        let off = difference(&together, &alone);
        assert!(off <= tolerance(LOGITS), "{}: off by {off} in company", case.name());
    }
}

#[test]
fn what_cannot_be_read_is_refused_before_anything_is() {
    let case = &own()[0];
    let decoder = case.load(Precision::Float32);
    let mut sequence = decoder.sequence(4);
    step(&decoder, &mut sequence, &[1, 2], WantedLogits::Nothing);
    let mut refused = |tokens: &[u32]| {
        let sequence = &mut sequence;
        decoder
            .step(&mut [DecoderStep { sequence, tokens, wanted: WantedLogits::Last }])
            .unwrap_err()
    };
    assert!(matches!(refused(&[1, 2, 3]), Error::TooLong { tokens: 5, most: 4 }));
    let foreign = u32::try_from(decoder.vocabulary()).unwrap();
    assert!(matches!(refused(&[foreign]), Error::ForeignTokens { .. }));
    assert!(matches!(refused(&[]), Error::ForeignTokens { .. }));
    assert_eq!(sequence.length(), 2);
    assert_eq!(step(&decoder, &mut sequence, &[3, 4], WantedLogits::Last).len(), 1);
}
