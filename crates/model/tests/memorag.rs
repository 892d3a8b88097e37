//! Memory models compute what the reference computes, however a text is cut and whatever is read
//! beside it.
//!
//! The models are random and tiny. Those in `fixtures/memory` are always read. `CLEW_GOLDEN_DIR`
//! may name a folder of more models in the same layout.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::path::{Path, PathBuf};

use clew_model::decoder::WantedLogits;
use clew_model::memory::{
    MemoryInput, MemoryModel, MemorySnapshot, MemoryState, RatioSchedule, SlotData, Uncompressed,
};
use clew_model::{DeviceChoice, Precision};
use safetensors::SafeTensors;
use serde_json::{Value, json};

use crate::device::{device, tolerance};

/// Maximum difference of a logit. Two correct computations in 32-bit floats differ by a few 1e-5.
const LOGITS: f32 = 1e-4;
/// Maximum difference of a key or value.
const SLOTS: f32 = 5e-5;

/// Numbers `[.., width]`, and the width.
struct Numbers(Vec<f32>, usize);

impl Numbers {
    fn rows(&self) -> Vec<&[f32]> {
        self.0.chunks_exact(self.1).collect()
    }
}

/// Tensors of a file by name.
struct Tensors(Vec<u8>);

impl Tensors {
    fn read(path: &Path) -> Self {
        Self(std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    fn ids(&self, name: &str) -> Vec<u32> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let data = tensors.tensor(name).unwrap().data().to_vec();
        data.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id)).collect()
    }

    fn numbers(&self, name: &str) -> Option<Numbers> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = tensors.tensor(name).ok()?;
        let values = tensor.data().as_chunks::<4>().0.iter();
        let values = values.map(|value| f32::from_le_bytes(*value)).collect();
        Some(Numbers(values, *tensor.shape().last().unwrap_or(&1)))
    }
}

/// Model with the layout of one case, and the case.
struct Case {
    name: String,
    model: MemoryModel,
    tensors: Tensors,
    manifest: Value,
}

/// Returns the folders of models with their manifests.
fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/memory");
    let golden =
        std::env::var_os("CLEW_GOLDEN_DIR").map(|folder| Path::new(&folder).join("memorag"));
    let of = |root: PathBuf| {
        let entries = std::fs::read_dir(&root);
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", root.display()));
        let folders = entries.map(|entry| entry.unwrap().path());
        folders.filter(|path| path.join("manifest.json").exists()).collect::<Vec<_>>()
    };
    let mut folders = of(own);
    assert_eq!(folders.len(), 2, "the models of the repository");
    folders.extend(golden.into_iter().flat_map(of));
    folders
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns the model of `folder` with some settings changed.
fn model(folder: &Path, settings: &Value) -> MemoryModel {
    let mut config = json(&folder.join("config.json"));
    for (name, value) in settings.as_object().into_iter().flatten() {
        config[name] = value.clone();
    }
    let changed = tempfile::tempdir().unwrap();
    std::fs::write(changed.path().join("config.json"), config.to_string()).unwrap();
    std::fs::copy(folder.join("model.safetensors"), changed.path().join("model.safetensors"))
        .unwrap();
    MemoryModel::load(changed.path(), device(), Precision::Float32, 2)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for folder in folders() {
        for manifest in json(&folder.join("manifest.json"))["cases"].as_array().unwrap() {
            if manifest.get("reference_fails").is_some() {
                continue;
            }
            let name = manifest["name"].as_str().unwrap();
            let tensors = Tensors::read(&folder.join(format!("cases/{name}.safetensors")));
            cases.push(Case {
                name: format!("{}/{name}", folder.file_name().unwrap().to_string_lossy()),
                model: model(&folder, &manifest["beacon"]),
                tensors,
                manifest: manifest.clone(),
            });
        }
    }
    cases
}

impl Case {
    fn number(&self, at: &[&str]) -> Option<usize> {
        at.iter()
            .try_fold(&self.manifest, |value, name| value.get(name))?
            .as_u64()
            .map(|n| n as usize)
    }

    /// Returns an empty memory, with the ratios that the reference drew if it drew some.
    fn memory(&self) -> MemoryState {
        let schedule = match self.is_by_chance() {
            true => RatioSchedule::told(self.told().unwrap_or_else(|| self.shown())),
            false => self.model.settings().ratios.schedule(0),
        };
        let uncompressed = Uncompressed {
            first: self.number(&["skip", "skip_first"]).unwrap_or(0),
            from: self.number(&["skip", "skip_last"]),
        };
        self.model.memory_beside(schedule, uncompressed)
    }

    /// Returns whether the reference drew a ratio for each window.
    fn is_by_chance(&self) -> bool {
        let mix = self.manifest["beacon"]["beacon_ratio_mix"].as_str().unwrap();
        self.model.settings().ratios.all().len() > 1 && mix.ends_with("random")
    }

    /// Returns the ratios of the windows, if the manifest lists them.
    fn told(&self) -> Option<Vec<usize>> {
        let ratios = self.manifest["ratios"].as_array()?.iter();
        Some(ratios.map(|ratio| ratio.as_u64().unwrap() as usize).collect())
    }

    fn shown(&self) -> Vec<usize> {
        shown_ratios(&self.manifest, self.model.settings().window)
    }

    fn read(
        &self,
        memory: &mut MemoryState,
        tokens: &[u32],
        wanted: WantedLogits,
    ) -> Vec<Vec<f32>> {
        self.model.read(&mut [MemoryInput { memory, tokens, wanted }]).unwrap()
    }

    fn context(&self) -> Vec<u32> {
        self.tensors.ids("context_ids")
    }

    /// Refuses a memory whose keys and values differ from the reference's.
    fn check_slots(&self, memory: &MemoryState, prefix: &str) {
        let extent = memory.extent();
        let snapshot = self.model.save(memory).unwrap();
        let (sink, all) = (extent.sink, extent.sink + extent.memory);
        for (part, range, is_front) in [
            ("sink", 0..sink, true),
            ("beacon", sink..all, true),
            ("raw", 0..extent.open.len(), false),
        ] {
            for (what, is_key) in [("k", true), ("v", false)] {
                let name = format!("{prefix}.{part}_{what}");
                let Some(expected) = self.tensors.numbers(&name) else {
                    assert!(range.is_empty(), "{}: {name} is not there", self.name);
                    continue;
                };
                let layers = snapshot.layers.iter().flat_map(|layer| {
                    let data = if is_front { &layer.front } else { &layer.open };
                    slots(data.as_ref().unwrap(), is_key, range.clone())
                });
                let found: Vec<f32> = layers.collect();
                let off = difference(&found, &expected.0);
                assert!(off <= tolerance(SLOTS), "{}: {name} is off by {off}", self.name);
            }
        }
    }
}

/// Infers the ratios of the windows from the cache. A complete window of `window` words has
/// `window / ratio` memory tokens, or its words if the ratio is 0. An open window has its first
/// memory token after `ratio` words.
fn shown_ratios(case: &Value, window: usize) -> Vec<usize> {
    let count = |value: &Value| value.as_u64().unwrap() as usize;
    let steps = |name: &str| case[name].as_array().cloned().unwrap_or_default();
    let ratio = |slots: usize| if slots == window { 0 } else { window / slots };
    let (mut ratios, mut words, mut memory, mut complete) = (Vec::new(), 0, 0, 0);
    for step in steps("context_windows").iter().chain(&steps("prompt_windows")) {
        words += count(&step["n_raw"]);
        memory += count(&step["n_beacon"]);
        if words == window {
            let slots = if memory == 0 { window } else { memory };
            ratios.push(ratio(slots));
            complete += slots;
            (words, memory) = (0, 0);
        }
    }
    let end = &case["memory_after_greedy"];
    // The last of the greedy tokens is not read.
    let read = steps("greedy_ids").len().saturating_sub(1);
    assert!(words + read < 2 * window, "of several windows the ratios do not show");
    if words + read >= window {
        ratios.push(ratio(count(&end["beacon"]) - complete));
    }
    let first = end["raw_is_beacon"].as_array().unwrap().iter().position(|flag| count(flag) == 1);
    ratios.push(first.unwrap_or(window));
    ratios
}

fn slots(data: &SlotData, is_key: bool, range: std::ops::Range<usize>) -> Vec<f32> {
    let data = if is_key { &data.keys } else { &data.values };
    let shape = data.shape().to_vec();
    let (all, width) = (shape[1], shape[2]);
    let values = data.clone().try_into_vec::<f32>().unwrap();
    let heads = values.chunks_exact(all * width);
    heads.flat_map(|head| head[range.start * width..range.end * width].to_vec()).collect()
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "as many numbers");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn likeliest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    u32::try_from(best.0).unwrap()
}

#[test]
fn memorag_contexts_prompts_and_greedy_continuations_are_the_references() {
    for case in cases() {
        let mut memory = case.memory();
        let context = case.context();
        if !context.is_empty() {
            let last = case.read(&mut memory, &context, WantedLogits::Last);
            if let Some(expected) = case.tensors.numbers("context_logits_last") {
                let off = difference(&last[0], &expected.0);
                assert!(
                    off <= tolerance(LOGITS),
                    "{}: the context's last logits are off by {off}",
                    case.name
                );
            }
        }
        case.check_slots(&memory, "memory");
        let prompt = case.read(&mut memory, &case.tensors.ids("prompt_ids"), WantedLogits::All);
        let expected = case.tensors.numbers("prompt_logits").unwrap();
        let off = difference(&prompt.concat(), &expected.0);
        assert!(off <= tolerance(LOGITS), "{}: logits of the prompt are off by {off}", case.name);
        let greedy = case.tensors.ids("greedy_ids");
        let expected = case.tensors.numbers("greedy_logits").unwrap();
        let mut logits = prompt.last().unwrap().clone();
        for (at, (id, expected)) in greedy.iter().zip(expected.rows()).enumerate() {
            let off = difference(&logits, expected);
            assert!(
                off <= tolerance(LOGITS),
                "{}: logits of token {at} are off by {off}",
                case.name
            );
            assert_eq!(likeliest(&logits), *id, "{}: token {at}", case.name);
            // Nothing follows the last token, so the reference does not read it.
            if at + 1 < greedy.len() {
                logits = case.read(&mut memory, &[*id], WantedLogits::Last).remove(0);
            }
        }
        if case.tensors.numbers("memory_final.beacon_k").is_some() {
            case.check_slots(&memory, "memory_final");
        }
    }
}

#[test]
fn memorag_snapshots_keep_what_was_read_and_questions_leave_a_memory_as_it_was() {
    for case in cases() {
        let mut memory = case.memory();
        let context = case.context();
        if context.is_empty() {
            continue;
        }
        case.read(&mut memory, &context, WantedLogits::Nothing);
        let (bytes, off) = case.model.save(&memory).unwrap().to_bytes(Default::default()).unwrap();
        assert_eq!(off, 0.0);
        let restored = MemorySnapshot::from_bytes(&bytes).unwrap();
        let restored = case.model.restore(restored).unwrap();
        case.model.prepare(&mut memory);
        let prompt = case.tensors.ids("prompt_ids");
        let answer = |memory: &MemoryState| {
            case.read(&mut memory.clone(), &prompt, WantedLogits::All).concat()
        };
        let kept = answer(&memory);
        // The same numbers in another order of sums.
        assert!(difference(&kept, &answer(&restored)) <= tolerance(LOGITS), "{}", case.name);
        // A GPU may have found a faster kernel in the meantime.
        let repeated = if device() == DeviceChoice::Cpu { 0.0 } else { tolerance(LOGITS) };
        assert!(difference(&kept, &answer(&memory)) <= repeated, "{}", case.name);
    }
}

#[test]
fn a_text_in_pieces_and_a_prompt_token_by_token_are_those_at_once() {
    // Where the ratio is to fit the text, the length of the first piece decides.
    for case in cases().into_iter().filter(|case| !case.name.ends_with("mix_adapt")) {
        let (context, prompt) = (case.context(), case.tensors.ids("prompt_ids"));
        let mut at_once = case.memory();
        case.read(&mut at_once, &context, WantedLogits::Nothing);
        let expected = case.read(&mut at_once, &prompt, WantedLogits::All).concat();
        // Where there is a sink, the first piece has to hold a window.
        let first = context.len().min(2 * case.model.settings().window);
        let (begin, rest) = context.split_at(first);
        let mut memory = case.memory();
        for piece in [begin].into_iter().chain(rest.chunks(3)) {
            case.read(&mut memory, piece, WantedLogits::Nothing);
        }
        let tokens = prompt.iter();
        let found = tokens.flat_map(|id| case.read(&mut memory, &[*id], WantedLogits::All));
        let found: Vec<Vec<f32>> = found.collect();
        let off = difference(&found.concat(), &expected);
        assert!(off <= tolerance(LOGITS), "{}: logits are off by {off}", case.name);
    }
}

#[test]
fn the_ratio_of_an_open_window_shows_whether_greedy_tokens_complete_it_or_not() {
    let case = |greedy: usize, beacon: usize, flags: &[u8]| {
        json!({
            "context_windows": [{ "n_raw": 8, "n_beacon": 2 }],
            "prompt_windows": [{ "n_raw": 4, "n_beacon": 2 }],
            "greedy_ids": vec![7; greedy],
            "memory_after_greedy": { "beacon": beacon, "raw_is_beacon": flags },
        })
    };
    assert_eq!(shown_ratios(&case(4, 2, &[0, 0, 1, 0, 0, 1, 0, 0, 1, 0]), 8), [4, 2], "left open");
    assert_eq!(shown_ratios(&case(5, 6, &[]), 8), [4, 2, 8], "just completed");
    assert_eq!(
        shown_ratios(&case(9, 6, &[0, 0, 0, 0, 1]), 8),
        [4, 2, 4],
        "completed, another begun"
    );
}

#[test]
fn ratios_that_a_manifest_tells_are_those_that_show() {
    let told = cases().into_iter().filter(|case| case.is_by_chance() && case.told().is_some());
    let compared =
        told.map(|case| assert_eq!(Some(case.shown()), case.told(), "{}", case.name)).count();
    assert!(compared >= 4, "two cases of each model of the repository");
}
