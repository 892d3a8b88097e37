//! Properties of every memory: however a text is cut, whatever is read beside it, and however it is
//! stored.
//!
//! The models are those of `fixtures/memory`, which the golden tests compare with a reference, in
//! every layout.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod tiny_memories;

use burn::tensor::DType;
use clew_model::decoder::WantedLogits;
use clew_model::memory::{
    MemoryInput, MemoryModel, MemorySnapshot, MemoryState, Mix, RatioSchedule, Ratios, SlotData,
    SnapshotFormat, Uncompressed,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::tiny_memories::{MODELS, model};

/// Maximum difference of logits, whose standard deviation is 3, and of keys and values. The
/// computation is the same, in another order of sums. A wrong mask or position is off by 1 and
/// more.
const ROUNDING: f32 = 3e-5;
const WINDOW: usize = 8;
const VOCABULARY: u32 = 52;

/// Returns a configuration with the same texts in every run, so that all runs take as long and have
/// the same result.
fn cases(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(7);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..Default::default() }
}

/// Text, and how it is read.
#[derive(Clone, Debug)]
struct Plan {
    model: usize,
    schedule: RatioSchedule,
    uncompressed: Uncompressed,
    text: Vec<u32>,
}

impl Plan {
    fn model(&self) -> &'static MemoryModel {
        &MODELS[self.model]
    }

    fn empty(&self) -> MemoryState {
        self.model().memory_beside(self.schedule.clone(), self.uncompressed)
    }

    /// Returns the memory of the text.
    fn memory(&self) -> MemoryState {
        let mut memory = self.empty();
        read(self.model(), &mut memory, &self.text, WantedLogits::Nothing);
        memory
    }
}

fn schedules() -> impl Strategy<Value = RatioSchedule> {
    let ratio = || prop::sample::select(vec![0, 1, 2, 4, 8]);
    let mixes = vec![Mix::InTurn, Mix::EachByChance, Mix::OnceByChance];
    prop_oneof![
        prop::collection::vec(ratio(), 1..8).prop_map(RatioSchedule::told),
        (prop::sample::select(mixes), prop::collection::vec(ratio(), 1..4), any::<u64>()).prop_map(
            |(mix, ratios, seed)| Ratios::try_new(&ratios, mix, WINDOW).unwrap().schedule(seed)
        ),
    ]
}

fn texts(longest: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0..VOCABULARY, 1..longest)
}

fn plans() -> impl Strategy<Value = Plan> {
    let uncompressed = prop_oneof![
        3 => Just(Uncompressed::default()),
        1 => (0_usize..20, prop::option::of(0_usize..60))
            .prop_map(|(first, from)| Uncompressed { first, from }),
    ];
    (0..10_usize, schedules(), uncompressed, texts(70)).prop_map(
        |(model, schedule, uncompressed, text)| Plan { model, schedule, uncompressed, text },
    )
}

fn read(
    model: &MemoryModel,
    memory: &mut MemoryState,
    tokens: &[u32],
    wanted: WantedLogits,
) -> Vec<Vec<f32>> {
    model.read(&mut [MemoryInput { memory, tokens, wanted }]).unwrap()
}

/// Returns the logits after each token of a question that is read into a copy of the memory.
fn answer(model: &MemoryModel, memory: &MemoryState, question: &[u32]) -> Vec<Vec<f32>> {
    read(model, &mut memory.clone(), question, WantedLogits::All)
}

/// Returns the maximum difference of rows of numbers, which must have the same lengths.
fn difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    let lengths = |rows: &[Vec<f32>]| rows.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(a), lengths(b));
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Returns all keys and values.
fn numbers(snapshot: &MemorySnapshot) -> Vec<Vec<f32>> {
    let parts = snapshot.layers.iter().flat_map(|layer| layer.front.iter().chain(&layer.open));
    let tensors = parts.flat_map(|SlotData { keys, values }| [keys, values]);
    tensors.map(|data| data.clone().convert_dtype(DType::F32).try_into_vec().unwrap()).collect()
}

/// Refuses memories that differ by more than rounding.
fn check_same(model: &MemoryModel, a: &MemoryState, b: &MemoryState) {
    assert_eq!(a.extent(), b.extent());
    let [a, b] = [a, b].map(|memory| numbers(&model.save(memory).unwrap()));
    let off = difference(&a, &b);
    assert!(off <= ROUNDING, "keys and values are off by {off}");
}

fn check_close(a: &[Vec<f32>], b: &[Vec<f32>]) {
    let off = difference(a, b);
    assert!(off <= ROUNDING, "logits are off by {off}");
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn reading_in_pieces_is_reading_at_once(
        plan in plans(),
        cuts in prop::collection::vec(1_usize..25, 0..12),
    ) {
        let model = plan.model();
        let mut at_once = plan.empty();
        let whole = read(model, &mut at_once, &plan.text, WantedLogits::All);
        // The sink is taken from what is first read at once, as in the reference, which has to be a
        // whole window.
        let least = if model.settings().sink > 0 { WINDOW } else { 1 };
        let (mut in_pieces, mut parts, mut rest) = (plan.empty(), Vec::new(), plan.text.as_slice());
        for cut in cuts.into_iter().map(|cut| cut.max(least)).chain([usize::MAX]) {
            let (piece, more) = rest.split_at(cut.min(rest.len()));
            if !piece.is_empty() {
                parts.extend(read(model, &mut in_pieces, piece, WantedLogits::All));
            }
            rest = more;
        }
        check_close(&whole, &parts);
        check_same(model, &at_once, &in_pieces);
    }

    #[test]
    fn windows_side_by_side_are_windows_one_by_one(plan in plans(), rows in 0_usize..200) {
        let model = plan.model();
        let (mut beside, mut alone) = (plan.empty(), plan.empty());
        let by = |memory: &mut MemoryState, rows| {
            let (tokens, wanted) = (plan.text.as_slice(), WantedLogits::All);
            model.read_side_by_side(&mut [MemoryInput { memory, tokens, wanted }], rows).unwrap()
        };
        check_close(&by(&mut beside, rows), &by(&mut alone, 1));
        check_same(model, &beside, &alone);
    }

    #[test]
    fn memories_that_are_read_together_are_those_read_alone(
        first in plans(),
        others in prop::collection::vec((schedules(), texts(50)), 1..4),
        wanted in prop::collection::vec(prop::sample::select(vec![0, 1, 2]), 4),
        rows in 0_usize..300,
    ) {
        let model = first.model();
        let others = others.into_iter().map(|(schedule, text)| Plan { schedule, text, ..first.clone() });
        let plans: Vec<Plan> = [first.clone()].into_iter().chain(others).collect();
        let wanted: Vec<WantedLogits> = wanted
            .into_iter()
            .map(|wanted| [WantedLogits::Nothing, WantedLogits::Last, WantedLogits::All][wanted])
            .collect();
        let mut together: Vec<MemoryState> = plans.iter().map(Plan::empty).collect();
        let each = together.iter_mut().zip(&plans).zip(&wanted);
        let mut readings: Vec<MemoryInput<'_>> = each
            .map(|((memory, plan), wanted)| MemoryInput { memory, tokens: &plan.text, wanted: *wanted })
            .collect();
        let answers = model.read_side_by_side(&mut readings, rows).unwrap();
        let mut expected = Vec::new();
        for ((plan, memory), wanted) in plans.iter().zip(&together).zip(wanted) {
            let mut alone = plan.empty();
            expected.extend(read(model, &mut alone, &plan.text, wanted));
            check_same(model, &alone, memory);
        }
        check_close(&expected, &answers);
    }

    #[test]
    fn questions_leave_a_memory_as_it_was_prepared_or_not(plan in plans(), question in texts(30)) {
        let model = plan.model();
        let memory = plan.memory();
        let (bytes, _) = model.save(&memory).unwrap().to_bytes(SnapshotFormat::Exact).unwrap();
        let mut prepared = memory.clone();
        model.prepare(&mut prepared);
        let answered = answer(model, &memory, &question);
        check_close(&answered, &answer(model, &prepared, &question));
        prop_assert_eq!(&answered, &answer(model, &memory, &question));
        for memory in [&memory, &prepared] {
            let (kept, _) = model.save(memory).unwrap().to_bytes(SnapshotFormat::Exact).unwrap();
            prop_assert_eq!(&bytes, &kept, "as it was, bit for bit");
        }
        // A prepared memory may read on, too.
        let mut read_on = memory.clone();
        read(model, &mut read_on, &question, WantedLogits::Nothing);
        read(model, &mut prepared, &question, WantedLogits::Nothing);
        check_same(model, &read_on, &prepared);
        check_close(&answer(model, &read_on, &question), &answer(model, &prepared, &question));
    }

    #[test]
    fn what_is_saved_is_what_is_restored(plan in plans(), question in texts(20)) {
        let model = plan.model();
        let memory = plan.memory();
        let saved = model.save(&memory).unwrap();
        for format in [SnapshotFormat::Exact, SnapshotFormat::BFloat16, SnapshotFormat::Int8] {
            let (bytes, off) = saved.to_bytes(format).unwrap();
            prop_assert_eq!(&saved.to_bytes(format).unwrap().0, &bytes, "the same bytes again");
            let snapshot = MemorySnapshot::from_bytes(&bytes).unwrap();
            let restored = model.restore(snapshot).unwrap();
            prop_assert_eq!(restored.extent(), memory.extent());
            let restored_numbers = numbers(&model.save(&restored).unwrap());
            let found = difference(&numbers(&saved), &restored_numbers);
            prop_assert_eq!(found, off, "what is said to be off is off, and no more");
            let most = numbers(&saved).into_iter().flatten().fold(0.0, |a: f32, b| a.max(b.abs()));
            let bound = match format {
                SnapshotFormat::Exact => 0.0,
                // Half of the last of 8 binary digits, and of 127 steps.
                SnapshotFormat::BFloat16 => most / 256.0,
                SnapshotFormat::Int8 => most / 253.0,
            };
            prop_assert!(off <= bound, "{format:?} is off by {off} of {most}");
            if format == SnapshotFormat::Exact {
                prop_assert_eq!(answer(model, &memory, &question), answer(model, &restored, &question));
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_and_changes_nothing() {
    let model = &MODELS[0];
    let mut memory = model.memory(RatioSchedule::told(vec![2]));
    let before = memory.extent().clone();
    for tokens in [&[][..], &[1, VOCABULARY]] {
        let refused = model.read(&mut [MemoryInput {
            memory: &mut memory,
            tokens,
            wanted: WantedLogits::Last,
        }]);
        assert!(refused.is_err());
        assert_eq!(memory.extent(), &before);
    }
    let mut memory = model.memory(RatioSchedule::told(vec![2, 3]));
    let wanted = WantedLogits::Last;
    let refused = model.read(&mut [MemoryInput { memory: &mut memory, tokens: &[1], wanted }]);
    assert!(refused.unwrap_err().to_string().contains("divide the window of 8"));
    assert!(model.read(&mut []).unwrap().is_empty());
}

/// Returns a memory of a sink, two windows and an open one, of the model at this index in
/// [`MODELS`].
fn some_snapshot(model: usize) -> MemorySnapshot {
    let schedule = Ratios::try_new(&[2, 4], Mix::EachByChance, WINDOW).unwrap().schedule(5);
    let uncompressed = Uncompressed { first: 2, from: None };
    let text = (0..2 + 2 * WINDOW as u32 + 5).collect();
    let plan = Plan { model, schedule, uncompressed, text };
    plan.model().save(&plan.memory()).unwrap()
}

/// Returns the error with which `from_bytes` or the model refuses a file, if one does.
fn refusal(model: &MemoryModel, bytes: &[u8]) -> Option<String> {
    let restored = MemorySnapshot::from_bytes(bytes).and_then(|snapshot| model.restore(snapshot));
    restored.err().map(|error| error.to_string())
}

#[test]
fn files_that_are_cut_short_or_changed_anywhere_are_refused() {
    for format in [SnapshotFormat::Exact, SnapshotFormat::BFloat16, SnapshotFormat::Int8] {
        let (mut bytes, _) = some_snapshot(0).to_bytes(format).unwrap();
        assert_eq!(refusal(&MODELS[0], &bytes), None);
        for length in 0..bytes.len() {
            assert!(MemorySnapshot::from_bytes(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            for change in [1, 2, 4, 8, 16, 32, 64, 128, 255, bytes[at] ^ b'\n'] {
                bytes[at] ^= change;
                let is_refused = change == 0 || MemorySnapshot::from_bytes(&bytes).is_err();
                assert!(is_refused, "{change} at {at} of {format:?}");
                bytes[at] ^= change;
            }
        }
        bytes.push(0);
        assert!(MemorySnapshot::from_bytes(&bytes).is_err(), "something behind it");
    }
}

#[test]
fn memories_of_other_models_are_refused() {
    let (bytes, _) = some_snapshot(0).to_bytes(SnapshotFormat::Exact).unwrap();
    let others: [(&str, Value); 6] = [
        ("mistral", json!({})),
        ("qwen2", json!({"beacon_pos": "append"})),
        ("qwen2", json!({"beacon_sink_size": 1})),
        ("qwen2", json!({"beacon_window": 16, "beacon_stride": 16})),
        ("qwen2", json!({"beacon_param": ["q", "k", "v"], "rope_theta": 1001.0})),
        ("qwen2", json!({"rms_norm_eps": 1e-5})),
    ];
    for (name, settings) in others {
        let refused = refusal(&model(name, &settings), &bytes);
        assert!(refused.unwrap().contains("form it anew"), "{name} with {settings}");
    }
    assert_eq!(refusal(&model("qwen2", &json!({})), &bytes), None, "loaded again it is the same");
}

/// File that is taken apart, to be put together again with other content and the right checksum.
#[derive(Clone)]
struct Crafted {
    header: Value,
    tensors: Value,
    data: Vec<u8>,
}

impl Crafted {
    fn of(snapshot: &MemorySnapshot, format: SnapshotFormat) -> Self {
        let (bytes, _) = snapshot.to_bytes(format).unwrap();
        let begin = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut tensors: Value = serde_json::from_slice(&bytes[8..begin]).unwrap();
        let metadata = tensors.as_object_mut().unwrap().remove("__metadata__").unwrap();
        let header = serde_json::from_str(metadata["clew.memory"].as_str().unwrap()).unwrap();
        Self { header, tensors, data: bytes[begin..].to_vec() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut header = self.header.clone();
        header["checksum"] = "0".repeat(64).into();
        let mut file = self.tensors.clone();
        file["__metadata__"] = json!({"clew.memory": header.to_string()});
        let file = file.to_string();
        let mut bytes = (file.len() as u64).to_le_bytes().to_vec();
        bytes.extend(file.as_bytes());
        bytes.extend(&self.data);
        let zeros = [b'0'; 64];
        let place = bytes.windows(64).position(|window| window == zeros).unwrap();
        let checksum = blake3::hash(&bytes).to_hex();
        bytes[place..place + 64].copy_from_slice(checksum.as_bytes());
        bytes
    }
}

#[test]
fn crafted_headers_are_refused_or_harmless() {
    let model = &MODELS[0];
    let crafted = Crafted::of(&some_snapshot(0), SnapshotFormat::Exact);
    assert_eq!(refusal(model, &crafted.bytes()), None);
    let paths = leaves(&crafted.header, String::new());
    assert!(paths.len() > 20, "{paths:?}");
    let mut harmless = Vec::new();
    for path in paths {
        let mut changes: Vec<Value> =
            [0, 1, 2, 3, 5, 7, 8, 1 << 20, 1 << 63, u64::MAX].map(Value::from).to_vec();
        changes.extend([
            json!(null),
            json!([]),
            json!([0, 3]),
            json!(true),
            json!(-1),
            json!("Told"),
        ]);
        for change in changes {
            let mut crafted = crafted.clone();
            let place = crafted.header.pointer_mut(&path).unwrap();
            if *place == change {
                continue;
            }
            *place = change;
            let snapshot = MemorySnapshot::from_bytes(&crafted.bytes());
            let Ok(mut memory) = snapshot.and_then(|snapshot| model.restore(snapshot)) else {
                continue;
            };
            harmless.push(path.clone());
            read(model, &mut memory, &[1; 30], WantedLogits::All);
        }
    }
    harmless.dedup();
    let schedule = "/extent/schedule/rule/Mixed";
    let ratios = ["ratios/0", "ratios/1", "seed"].map(|name| format!("{schedule}/{name}"));
    harmless.retain(|path| !ratios.contains(path));
    // A schedule may differ, and the place from which text is uncompressed is not reached yet.
    assert_eq!(harmless, ["/extent/uncompressed/from"]);
}

/// Returns the paths of a value's leaves.
fn leaves(value: &Value, path: String) -> Vec<String> {
    match value {
        Value::Object(parts) if !parts.is_empty() => {
            let each = parts.iter().map(|(name, part)| leaves(part, format!("{path}/{name}")));
            each.flatten().filter(|path| path != "/checksum").collect()
        }
        Value::Array(parts) if !parts.is_empty() => {
            let each = parts.iter().enumerate();
            let each = each.map(|(at, part)| leaves(part, format!("{path}/{at}")));
            each.flatten().chain([path.clone()]).collect()
        }
        _ => vec![path],
    }
}

#[test]
fn crafted_tensors_are_refused() {
    let model = &MODELS[0];
    for format in [SnapshotFormat::Exact, SnapshotFormat::BFloat16, SnapshotFormat::Int8] {
        let crafted = Crafted::of(&some_snapshot(0), format);
        assert_eq!(refusal(model, &crafted.bytes()), None);
        let names: Vec<String> = crafted.tensors.as_object().unwrap().keys().cloned().collect();
        let huge = 1_u64 << 62;
        for name in &names {
            let shape = crafted.tensors[name]["shape"].as_array().unwrap().clone();
            let numbers: u64 = shape.iter().map(|side| side.as_u64().unwrap()).product();
            for shape in [
                json!([numbers]),
                json!([1, numbers, 1]),
                json!([numbers, 1, 1]),
                json!([0, huge, 1]),
                json!([huge, 1, 1]),
                json!([huge, huge, huge]),
                json!([2, 2, u64::MAX]),
                json!([]),
            ] {
                let mut crafted = crafted.clone();
                crafted.tensors[name]["shape"] = shape.clone();
                // Of the shape of the scales of 8-bit numbers only the number of scales matters.
                let mut sides = shape.as_array().unwrap().iter().map(|side| side.as_u64().unwrap());
                let all = sides.try_fold(1, u64::checked_mul);
                let is_harmless = name.ends_with("scales") && all == Some(numbers);
                let refused = refusal(model, &crafted.bytes()).is_some();
                assert!(refused || is_harmless, "{name} of {shape}");
            }
            for dtype in ["I64", "F16", "F64", "BOOL", "U8", "F32", "BF16", "I8", "F4"] {
                let mut crafted = crafted.clone();
                if crafted.tensors[name]["dtype"] != dtype {
                    crafted.tensors[name]["dtype"] = dtype.into();
                    assert!(refusal(model, &crafted.bytes()).is_some(), "{name} as {dtype}");
                }
            }
            for offsets in [json!([0, u64::MAX]), json!([u64::MAX, 0]), json!([1, 0]), json!([0])] {
                let mut crafted = crafted.clone();
                crafted.tensors[name]["data_offsets"] = offsets;
                assert!(refusal(model, &crafted.bytes()).is_some());
            }
            let mut without = crafted.clone();
            without.tensors.as_object_mut().unwrap().remove(name);
            assert!(refusal(model, &without.bytes()).is_some(), "without {name}");
            let mut renamed = crafted.clone();
            let tensor = renamed.tensors.as_object_mut().unwrap().remove(name).unwrap();
            renamed.tensors[format!("{name}.more")] = tensor;
            assert!(refusal(model, &renamed.bytes()).is_some(), "{name} by another name");
        }
        if format != SnapshotFormat::Int8 {
            let mut infinite = crafted.clone();
            infinite.data.fill(0xff);
            assert!(refusal(model, &infinite.bytes()).unwrap().contains("finite"));
        }
    }
}

#[test]
fn files_without_a_snapshots_header_are_refused() {
    let crafted = Crafted::of(&some_snapshot(0), SnapshotFormat::Exact);
    let mut later = crafted.clone();
    later.header = json!({"version": 2, "checksum": "", "something": "else"});
    let refused = MemorySnapshot::from_bytes(&later.bytes()).unwrap_err();
    assert!(matches!(refused, clew_model::Error::Unsupported { .. }), "{refused}");
    let mut file = crafted.tensors.clone();
    for metadata in
        [json!(null), json!({}), json!({"clew.memory": "{}"}), json!({"clew.memory": "x"})]
    {
        file["__metadata__"] = metadata;
        let header = file.to_string();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(&crafted.data);
        let refused = MemorySnapshot::from_bytes(&bytes).unwrap_err().to_string();
        assert!(refused.contains("header"), "{refused}");
    }
}

#[test]
fn snapshots_that_somebody_changed_are_refused() {
    let model = &MODELS[0];
    let whole = some_snapshot(0);
    let changes: [fn(&mut MemorySnapshot); 5] = [
        |snapshot| _ = snapshot.layers.pop(),
        |snapshot| snapshot.layers.push(snapshot.layers[0].clone()),
        |snapshot| snapshot.layers[1].front = None,
        |snapshot| snapshot.layers[1].open = snapshot.layers[1].front.clone(),
        |snapshot| snapshot.extent.memory += 1,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut changed = whole.clone();
        change(&mut changed);
        assert!(model.restore(changed).is_err(), "{at}");
    }
}
