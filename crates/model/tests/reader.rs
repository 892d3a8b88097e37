//! A reader computes what the training program's network computes, on every path and in any batch;
//! refuses an adapter that does not fit, by name; and has its laws for any question and passage.
//!
//! The reference and the script that made it are in `fixtures/reader`.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use clew_core::{ErrorKind, PassageRead, ReadPassage, Span};
use clew_model::{
    DeviceChoice, Error, ModelOptions, PathChoice, PrecisionChoice, ReaderModel, Scratch,
    WindowScore,
};
use clew_packed_bert::{Kernel, KernelPrecision};
use proptest::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::Deserialize;
use tempfile::TempDir;

use crate::device::{device, tolerance};

/// Maximum difference of a logit from the reference: two computations in 32-bit floats of numbers
/// up to 10.
const TOLERANCE: f32 = 2e-5;
/// Maximum difference of a probability if the factors of products are rounded to 8 bits.
const BFLOAT16_TOLERANCE: f32 = 0.05;
/// Name of the adapter in errors.
const ADAPTER: &str = "the reader's adapter";
/// Maximum number of windows over a passage.
const MOST_WINDOWS: usize = 64;

#[derive(Deserialize)]
struct Case {
    question: String,
    heading: String,
    text: String,
    windows: Vec<Window>,
    read: Expected,
}

#[derive(Deserialize)]
struct Window {
    ids: Vec<u32>,
    spans: Vec<(usize, usize)>,
    starts: Vec<f32>,
    ends: Vec<f32>,
    verdict: [f32; 2],
}

#[derive(Deserialize)]
struct Expected {
    answers: f32,
    relevance: f32,
    spans: Vec<(usize, usize, f32)>,
}

impl Case {
    fn passage(&self) -> ReadPassage {
        ReadPassage { heading: self.heading.clone(), text: self.text.clone() }
    }

    fn check_read(&self, read: &PassageRead, off: f32) {
        let is_close = |left: f32, right: f32| (left - right).abs() <= off;
        assert!(is_close(read.answers, self.read.answers), "{read:?}");
        assert!(is_close(read.relevance, self.read.relevance), "{read:?}");
        let spans = |read: &PassageRead| -> Vec<(usize, usize)> {
            read.spans.iter().map(|found| (found.span.start, found.span.end)).collect()
        };
        let expected = self.read.spans.iter();
        assert_eq!(spans(read), expected.map(|(start, end, _)| (*start, *end)).collect::<Vec<_>>());
        for (found, (.., share)) in read.spans.iter().zip(&self.read.spans) {
            assert!(is_close(found.share, *share), "{read:?}");
        }
    }
}

impl Window {
    /// Checks the best candidates beside all spans of the reference.
    fn check_score(&self, score: &WindowScore, off: f32) {
        let is_close = |left: f32, right: f32| (left - right).abs() <= off;
        assert!(is_close(score.answers, self.verdict[0]), "{score:?}");
        assert!(is_close(score.relevance, self.verdict[1]), "{score:?}");
        let none = self.starts[0] + self.ends[0];
        let mut all = Vec::new();
        for (first, (start, _)) in self.spans.iter().enumerate() {
            for (last, (_, end)) in self.spans.iter().enumerate().skip(first).take(8) {
                let score = self.starts[1 + first] + self.ends[1 + last] - none;
                all.push((score, Span::new(*start, *end)));
            }
        }
        all.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        assert_eq!(score.candidates.len(), all.len().min(20));
        for (candidate, (best, _)) in score.candidates.iter().zip(&all) {
            assert!(is_close(candidate.score, *best), "{candidate:?} instead of {best}");
            let mut own = all.iter().filter(|(_, span)| *span == candidate.span);
            assert!(own.any(|(score, _)| is_close(candidate.score, *score)), "{candidate:?}");
        }
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reader").join(name)
}

fn base() -> PathBuf {
    fixture("base")
}

fn adapter() -> Vec<u8> {
    fs::read(fixture("reader.safetensors")).unwrap()
}

fn cases() -> Vec<Case> {
    serde_json::from_slice(&fs::read(fixture("expected.json")).unwrap()).unwrap()
}

fn options(path: PathChoice, precision: PrecisionChoice, batch_tokens: usize) -> ModelOptions {
    // The packed path is the processor's.
    let device = if path == PathChoice::Burn { device() } else { DeviceChoice::Cpu };
    let batch_tokens = NonZeroUsize::new(batch_tokens);
    ModelOptions { device, path, precision, batch_tokens, ..ModelOptions::default() }
}

fn load(options: &ModelOptions) -> Arc<ReaderModel> {
    ReaderModel::load(&base(), &adapter(), options).unwrap()
}

/// Returns the reader on every path that this machine has, in 32-bit floats.
fn exact_readers(batch_tokens: usize) -> Vec<Arc<ReaderModel>> {
    let exact = |path| load(&options(path, PrecisionChoice::Float32, batch_tokens));
    let packed = Kernel::detect(KernelPrecision::Float32).map(|_| exact(PathChoice::Packed));
    [exact(PathChoice::Burn)].into_iter().chain(packed).collect()
}

#[test]
fn golden_windows_are_the_references() {
    let reader = load(&ModelOptions::default());
    assert_eq!(reader.max_tokens(), 64);
    for case in cases() {
        let windows = reader.encode(&case.question, &case.passage());
        assert_eq!(windows.len(), case.windows.len());
        for (window, expected) in windows.iter().zip(&case.windows) {
            assert_eq!(window.ids(), expected.ids);
            let spans: Vec<Span> =
                expected.spans.iter().map(|(start, end)| Span::new(*start, *end)).collect();
            assert_eq!(window.spans(), spans);
        }
    }
}

#[test]
fn golden_scores_and_results_are_the_references_on_every_path() {
    for reader in exact_readers(100) {
        for case in cases() {
            let windows = reader.encode(&case.question, &case.passage());
            let scores = reader.score_windows(&windows, &mut Scratch::default()).unwrap();
            for (score, expected) in scores.iter().zip(&case.windows) {
                expected.check_score(score, tolerance(TOLERANCE));
            }
            case.check_read(&reader.merge(&scores), tolerance(TOLERANCE));
        }
    }
}

#[test]
fn what_is_read_in_bfloat16_is_nearly_the_same() {
    let in_bfloat16 = |kernel: &Kernel| kernel.precision() == KernelPrecision::BFloat16;
    if Kernel::detect(KernelPrecision::BFloat16).filter(in_bfloat16).is_none() {
        return;
    }
    let reader = load(&options(PathChoice::Packed, PrecisionChoice::BFloat16, 100));
    for case in cases() {
        let passages = [case.passage()];
        let read = reader.read(&case.question, &passages, &mut Scratch::default()).unwrap();
        let off = (read.passages[0].answers - case.read.answers).abs();
        assert!(off <= BFLOAT16_TOLERANCE, "off by {off}");
    }
}

#[test]
fn a_passage_is_read_the_same_alone_and_in_company() {
    let cases = cases();
    let passages: Vec<ReadPassage> = cases.iter().map(Case::passage).collect();
    let question = &cases[0].question;
    for (alone, together) in exact_readers(1).into_iter().zip(exact_readers(10_000)) {
        let all = together.read(question, &passages, &mut Scratch::default()).unwrap();
        assert_eq!(all.passages.len(), passages.len());
        let mut tokens = 0;
        for (passage, in_company) in passages.iter().zip(&all.passages) {
            let one = std::slice::from_ref(passage);
            let single = alone.read(question, one, &mut Scratch::default()).unwrap();
            tokens += single.tokens;
            let read = &single.passages[0];
            assert_eq!(read.spans.len(), in_company.spans.len());
            let off = tolerance(TOLERANCE);
            assert!((read.answers - in_company.answers).abs() <= off);
            assert!((read.relevance - in_company.relevance).abs() <= off);
            for (left, right) in read.spans.iter().zip(&in_company.spans) {
                assert_eq!(left.span, right.span);
                assert!((left.share - right.share).abs() <= off);
            }
        }
        assert_eq!(all.tokens, tokens);
    }
}

#[test]
fn the_card_tells_what_the_adapter_tells() {
    let reader = load(&ModelOptions::default());
    let card = reader.card();
    assert_eq!(card.name(), "clew-reader-1 on tiny");
    assert_eq!((card.data[0].name.as_str(), card.data[0].licence.as_str()), ("nothing", "none"));
    assert_eq!(card.quality["f1"], 0.0);
    assert_eq!(card.trained, "it is random");
}

/// Returns whether a reader is loaded over `folder` if it is the base of `adapter`.
fn is_base_of(folder: &Path, adapter: &[u8]) -> Result<bool, Error> {
    let loaded = ReaderModel::load_if_base(folder, adapter, &ModelOptions::default());
    loaded.map(|reader| reader.is_some())
}

#[test]
fn a_folder_is_the_base_if_tokenizer_and_weights_are_those_of_the_training() {
    assert!(is_base_of(&base(), &adapter()).unwrap());
    let space_behind: fn(&mut Vec<u8>) = |content| content.push(b'\n');
    let another_number: fn(&mut Vec<u8>) = |content| *content.last_mut().unwrap() ^= 1;
    for (file, change) in [("tokenizer.json", space_behind), ("model.safetensors", another_number)]
    {
        let folder = changed_base(|folder| {
            let path = folder.join(file);
            let mut content = fs::read(&path).unwrap();
            change(&mut content);
            fs::write(&path, content).unwrap();
        });
        assert!(!is_base_of(folder.path(), &adapter()).unwrap(), "{file}");
        let error = refusal_of(folder.path(), &adapter());
        check(&error, "inconsistent", ADAPTER, "a base of fingerprint");
    }
    let cut = is_base_of(&base(), &adapter()[..1000]);
    assert!(matches!(cut, Err(Error::Broken { .. })));
    let nowhere = is_base_of(Path::new("/no/such/folder"), &adapter());
    assert!(matches!(nowhere, Err(Error::Unreadable { .. })));
}

#[test]
fn an_adapter_that_is_cut_short_or_garbage_is_broken() {
    let whole = adapter();
    for damaged in [
        &whole[..whole.len() / 2],
        &whole[..whole.len() - 1],
        &whole[..7],
        &[],
        b"\xFF\x00 not at all",
        &[whole.as_slice(), &[0]].concat(),
    ] {
        check(&refusal_of(&base(), damaged), "broken", ADAPTER, "a complete safetensors file");
    }
}

#[test]
fn metadata_that_are_missing_or_wrong_are_named() {
    for key in [
        "format",
        "base",
        "base_blake3",
        "calibration",
        "window",
        "question",
        "heading",
        "stride",
        "longest_answer",
        "data",
        "quality",
        "trained",
    ] {
        let error = refusal(|file| drop(file.metadata.remove(key)));
        check(&error, "broken", ADAPTER, &format!("`{key}` in its metadata"));
    }
    let other_base = "0".repeat(64);
    for (key, value, variant, mentions) in [
        ("format", "clew-reader-2", "unsupported", "clew-reader-2"),
        ("base_blake3", "0123", "broken", "64 hexadecimal digits"),
        ("base_blake3", other_base.as_str(), "inconsistent", "tiny of 000000000000"),
        ("calibration", "[1, 2]", "broken", "three numbers"),
        ("calibration", "[1, 2, 1e999]", "broken", "three numbers"),
        ("calibration", "[1, 2, 5000]", "broken", "three numbers"),
        ("window", "many", "broken", "`many`"),
        ("window", "0", "broken", "`window` from 1"),
        ("window", "38", "broken", "room"),
        ("window", "18446744073709551616", "broken", "`window` from 1"),
        ("window", "81", "inconsistent", "80 tokens"),
        ("question", "0", "broken", "`question` from 1"),
        ("stride", "42", "broken", "room"),
        ("longest_answer", "0", "broken", "`longest_answer` from 1"),
        ("data", "{}", "broken", "`data`"),
        ("quality", "good", "broken", "`quality`"),
    ] {
        let error = refusal(|file| drop(file.metadata.insert(key.to_owned(), value.to_owned())));
        check(&error, variant, ADAPTER, mentions);
    }
}

#[test]
fn tensors_that_do_not_fit_the_base_are_named() {
    const MATRIX: &str = "encoder.layer.1.output.dense.weight";
    const SCALES: &str = "encoder.layer.1.output.dense.weight.scale";
    const VECTOR: &str = "encoder.layer.0.output.LayerNorm.weight";
    let of_format = |format, shape: &[usize], bytes| (format, shape.to_vec(), vec![0; bytes]);
    let infinite: Vec<u8> = f32::INFINITY.to_le_bytes().repeat(64);
    let enormous: Vec<u8> = f32::MAX.to_le_bytes().repeat(64);
    for (name, tensor, variant, mentions) in [
        (MATRIX, None, "tensor names", MATRIX),
        (SCALES, None, "tensor names", SCALES),
        ("verdict.bias", None, "tensor names", "verdict.bias"),
        ("span.extra", Some(of_format(Dtype::F32, &[1], 4)), "tensor names", "span.extra"),
        (
            "embeddings.LayerNorm.bias",
            Some(of_format(Dtype::F32, &[64], 256)),
            "tensor names",
            "not known to it embeddings.LayerNorm.bias",
        ),
        (MATRIX, Some(of_format(Dtype::I8, &[32, 64], 2048)), "inconsistent", "[64, 32]"),
        (MATRIX, Some(of_format(Dtype::F32, &[64, 32], 8192)), "unsupported", "F32"),
        (VECTOR, Some(of_format(Dtype::F16, &[64], 128)), "unsupported", "in F32"),
        (VECTOR, Some((Dtype::F32, vec![64], infinite.clone())), "broken", VECTOR),
        (SCALES, Some((Dtype::F32, vec![64], infinite)), "broken", SCALES),
        (SCALES, Some((Dtype::F32, vec![64], enormous)), "broken", "steps to finite numbers"),
        ("span.weight", Some(of_format(Dtype::F32, &[2, 32], 256)), "inconsistent", "[2, 64]"),
    ] {
        let error = refusal(|file| {
            match tensor {
                Some(tensor) => file.tensors.insert(name.to_owned(), tensor),
                None => file.tensors.remove(name),
            };
        });
        check(&error, variant, ADAPTER, mentions);
    }
}

#[test]
fn a_base_that_no_reader_can_have_is_refused() {
    let folder = changed_base(|folder| {
        let path = folder.join("config.json");
        let config = fs::read_to_string(&path).unwrap();
        fs::write(&path, config.replace("\"bert\"", "\"xlm-roberta\"")).unwrap();
    });
    let error = refusal_of(folder.path(), &adapter());
    check(&error, "unsupported", "config.json", "xlm-roberta");
    let folder = changed_base(|folder| {
        let path = folder.join("tokenizer.json");
        let mut json: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let single = json["post_processor"]["single"].as_array_mut().unwrap();
        single.push(single[2].clone());
        fs::write(&path, json.to_string()).unwrap();
    });
    let mut file = File::read(&adapter());
    let mut hash = blake3::Hasher::new();
    for part in ["tokenizer.json", "model.safetensors"] {
        hash.update(&fs::read(folder.path().join(part)).unwrap());
    }
    file.metadata.insert("base_blake3".to_owned(), hash.finalize().to_hex().to_string());
    let error = refusal_of(folder.path(), &file.bytes());
    check(&error, "unsupported", "tokenizer.json", "one behind it");
}

#[test]
fn windows_of_another_reader_are_refused() {
    let mut file = File::read(&adapter());
    file.metadata.insert("window".to_owned(), "50".to_owned());
    let narrow = ReaderModel::load(&base(), &file.bytes(), &ModelOptions::default()).unwrap();
    let passage = ReadPassage { heading: String::new(), text: "the dog ".repeat(100) };
    let windows = load(&ModelOptions::default()).encode("who?", &passage);
    let refused = narrow.score_windows(&windows, &mut Scratch::default());
    assert!(matches!(refused, Err(Error::ForeignTokens { .. })), "{refused:?}");
}

#[test]
fn however_much_is_given_no_more_is_read_than_the_windows_hold() {
    let reader = load(&ModelOptions::default());
    let question = "who went to the river? ".repeat(2000);
    let passage = ReadPassage { heading: question.clone(), text: "the dog lives. ".repeat(10_000) };
    let windows = reader.encode(&question, &passage);
    assert_eq!(windows.len(), MOST_WINDOWS);
    assert!(windows.iter().all(|window| window.ids().len() == reader.max_tokens()));
    // Twelve tokens of the question, six of the heading, and what is around them.
    assert!(windows.iter().all(|window| window.passage_from() == 21));
}

#[test]
fn where_there_are_no_words_nothing_answers() {
    let reader = load(&ModelOptions::default());
    for text in ["", " \n\t ", "\0\0", "\u{200B}\u{FEFF}"] {
        let passages = [ReadPassage { heading: "Vera".to_owned(), text: text.to_owned() }];
        let read = reader.read("who?", &passages, &mut Scratch::default()).unwrap();
        assert_eq!(read.passages, [PassageRead::default()], "{text:?}");
        assert_eq!(read.tokens, 0);
    }
    assert_eq!(reader.read("who?", &[], &mut Scratch::default()).unwrap().passages, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_asked_of_any_passage_the_laws_hold(
        question in texts(),
        heading in texts(),
        text in texts(),
    ) {
        static READER: LazyLock<Arc<ReaderModel>> =
            LazyLock::new(|| load(&ModelOptions::default()));
        let passage = ReadPassage { heading, text };
        let windows = READER.encode(&question, &passage);
        prop_assert!(windows.len() <= MOST_WINDOWS);
        for window in &windows {
            prop_assert!(window.ids().len() <= READER.max_tokens());
            prop_assert!(window.spans().iter().all(|span| span.of(&passage.text).is_some()));
        }
        let passages = [passage];
        let read = READER.read(&question, &passages, &mut Scratch::default()).unwrap();
        check_laws(&passages[0], &read.passages[0])?;
    }
}

/// Returns texts of any characters, and longer ones of words that the tokenizer knows.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "([a-z]{1,5}[ .,\0]|茶|é|e\u{301}|한|\\[SEP\\]|🍵 ){0,200}"]
}

fn check_laws(passage: &ReadPassage, read: &PassageRead) -> Result<(), TestCaseError> {
    for probability in [read.answers, read.relevance] {
        prop_assert!((0.0..=1.0).contains(&probability));
    }
    prop_assert!(read.spans.len() <= PassageRead::MOST_SPANS);
    for (index, found) in read.spans.iter().enumerate() {
        let words = found.span.of(&passage.text);
        prop_assert!(words.is_some_and(|words| !words.is_empty()), "{:?}", found);
        prop_assert!((0.0..=1.0).contains(&found.share));
        for other in &read.spans[..index] {
            prop_assert!(other.share >= found.share);
            let (one, two) = (other.span, found.span);
            prop_assert!(one.end <= two.start || two.end <= one.start);
        }
    }
    // Rounded to 32 bits each.
    prop_assert!(read.spans.iter().map(|found| found.share).sum::<f32>() <= 1.0 + 1e-6);
    Ok(())
}

/// The packaged adapter changes the published model, which is not part of this repository; `make
/// setup` fetches it.
#[test]
fn the_packaged_adapter_reads_with_the_published_base() {
    let adapter = ReaderModel::packaged();
    assert!(adapter.len() <= 12_000_000);
    let folder = published_base();
    assert!(is_base_of(&folder, adapter).unwrap());
    assert!(!is_base_of(&base(), adapter).unwrap());
    let passage = |heading: &str, text: String| ReadPassage { heading: heading.to_owned(), text };
    let long = "The ferry to the island leaves at seven, and nobody has seen it late. ".repeat(40);
    let passages = [
        passage("user, 2023-05-03", "Vera moved to Lisbon in April.".to_owned()),
        passage("", long),
    ];
    let question = "Where does Vera live?";
    let [exact, packed, fast] = [
        options(PathChoice::Burn, PrecisionChoice::Float32, 400),
        options(PathChoice::Auto, PrecisionChoice::Float32, 400),
        ModelOptions::default(),
    ]
    .map(|options| {
        let reader = ReaderModel::load(&folder, adapter, &options).unwrap();
        assert_eq!(reader.card().name(), "clew-reader-1 on all-MiniLM-L6-v2");
        assert!(reader.card().data.iter().all(|data| !data.licence.is_empty()));
        assert_eq!(reader.encode(question, &passages[1]).len(), 3);
        reader.read(question, &passages, &mut Scratch::default()).unwrap()
    });
    for (passage, read) in passages.iter().zip(&fast.passages) {
        check_laws(passage, read).unwrap();
        assert!(!read.spans.is_empty());
    }
    for (exact, packed) in exact.passages.iter().zip(&packed.passages) {
        // Six layers of sums in another order, in logits of about 10.
        assert!((exact.answers - packed.answers).abs() <= tolerance(1e-3));
        assert!((exact.relevance - packed.relevance).abs() <= tolerance(1e-3));
    }
}

/// Returns the folder of the published model: `CLEW_MODEL_DIR`, or where `make setup` puts it.
fn published_base() -> PathBuf {
    let cache = "../../.cache/models/all-MiniLM-L6-v2";
    let folder = std::env::var_os("CLEW_MODEL_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(cache), PathBuf::from);
    assert!(
        folder.join("config.json").exists(),
        "no model in {}: run `make setup`, or set CLEW_MODEL_DIR to a folder of all-MiniLM-L6-v2",
        folder.display()
    );
    folder
}

/// Content of an adapter's file.
struct File {
    metadata: HashMap<String, String>,
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl File {
    fn read(bytes: &[u8]) -> Self {
        let (_, header) = SafeTensors::read_metadata(bytes).unwrap();
        let tensors = SafeTensors::deserialize(bytes).unwrap();
        let tensors = tensors.iter().map(|(name, view)| {
            (name.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        });
        Self { metadata: header.metadata().clone().unwrap(), tensors: tensors.collect() }
    }

    fn bytes(&self) -> Vec<u8> {
        let views = self.tensors.iter().map(|(name, (format, shape, bytes))| {
            (name.as_str(), TensorView::new(*format, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize(views, Some(self.metadata.clone())).unwrap()
    }
}

/// Returns a copy of the base after `change`.
fn changed_base(change: impl FnOnce(&Path)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    for file in [
        "config.json",
        "modules.json",
        "tokenizer.json",
        "model.safetensors",
        "1_Pooling/config.json",
    ] {
        fs::copy(base().join(file), folder.path().join(file)).unwrap();
    }
    change(folder.path());
    folder
}

/// Returns the refusal of an adapter after `change`.
fn refusal(change: impl FnOnce(&mut File)) -> Error {
    let mut file = File::read(&adapter());
    change(&mut file);
    refusal_of(&base(), &file.bytes())
}

fn refusal_of(base: &Path, adapter: &[u8]) -> Error {
    match ReaderModel::load(base, adapter, &ModelOptions::default()) {
        Ok(_) => panic!("the adapter was accepted"),
        Err(error) => error,
    }
}

fn check(error: &Error, variant: &str, file: &str, mentions: &str) {
    let found = match error {
        Error::Broken { file, .. } => ("broken", file.as_str()),
        Error::Unsupported { file, .. } => ("unsupported", file.as_str()),
        Error::Inconsistent { file, .. } => ("inconsistent", file.as_str()),
        Error::TensorNames { file, .. } => ("tensor names", file.as_str()),
        other => panic!("{other}"),
    };
    assert_eq!(found, (variant, file), "{error}");
    let message = error.to_string();
    assert!(message.contains(mentions), "`{message}` does not mention `{mentions}`");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
