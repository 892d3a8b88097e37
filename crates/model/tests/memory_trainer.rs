//! Properties of training, on tiny random models: true gradients, masks, and checkpoints to resume
//! from.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clew_model::decoder::WantedLogits;
use clew_model::memory::training::{
    Form, LearningRate, MemoryTokenLayout, Sequences, Trained, Trainer, TrainerOptions, Training,
    TrainingSequence,
};
use clew_model::memory::{MemoryInput, MemoryModel, RatioSchedule, Uncompressed};
use clew_model::{Error, Precision};
use clew_testkit::write_tiny_decoder;
use half::bf16;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

use crate::device::device;

const WINDOW: usize = 8;
/// Number of ids of the tiny model, whose tokens are bytes.
const VOCABULARY: usize = 259;

fn tiny() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_tiny_decoder(folder.path(), 3).unwrap();
    folder
}

/// Returns the tiny model with the embedding table as its head.
fn tied() -> TempDir {
    let folder = tiny();
    let config = fs::read_to_string(folder.path().join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    config["tie_word_embeddings"] = true.into();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let mut all = read(folder.path());
    all.remove("lm_head.weight");
    write(folder.path(), &all);
    folder
}

fn layout(projections: &str) -> MemoryTokenLayout {
    let projections = Some(projections.chars().collect());
    MemoryTokenLayout { window: Some(WINDOW), ratios: Some(vec![2, 4]), projections }
}

fn training(folder: &Path, trained: Trained) -> Training {
    Training::load(folder, device(), trained, &layout("qkv")).unwrap()
}

/// Returns three windows and some more tokens.
fn tokens() -> Vec<u32> {
    (0..28).map(|at| (at * at * 7 + 11) % 256).collect()
}

fn told() -> RatioSchedule {
    RatioSchedule::told(vec![2, 4, 2])
}

type Numbers = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn read(folder: &Path) -> Numbers {
    let bytes = fs::read(folder.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |view: &TensorView<'_>| {
        let numbers = view.data().as_chunks::<4>().0.iter();
        (view.shape().to_vec(), numbers.map(|number| f32::from_le_bytes(*number)).collect())
    };
    tensors.tensors().iter().map(|(name, view)| (name.clone(), numbers(view))).collect()
}

fn write(folder: &Path, all: &Numbers) {
    write_in(Dtype::F32, folder, all);
}

fn write_in(format: Dtype, folder: &Path, all: &Numbers) {
    let bytes = all.iter().map(|(name, (shape, numbers))| {
        let bytes: Vec<u8> = match format {
            Dtype::BF16 => {
                let halves = numbers.iter().map(|number| bf16::from_f32(*number));
                halves.flat_map(bf16::to_le_bytes).collect()
            }
            _ => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        };
        (name, shape, bytes)
    });
    let bytes: Vec<_> = bytes.collect();
    let views = bytes.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(format, shape.to_vec(), bytes).unwrap())
    });
    let file = safetensors::serialize(views, None).unwrap();
    fs::write(folder.join("model.safetensors"), file).unwrap();
}

/// Returns the mean loss of the model in a folder.
fn loss(folder: &Path, trained: Trained, sequence: &TrainingSequence) -> f64 {
    let mut training =
        Training::load(folder, device(), trained, &MemoryTokenLayout::default()).unwrap();
    let (sum, labels) = training.loss(sequence, told(), usize::MAX).unwrap();
    sum / labels as f64
}

#[test]
fn gradients_are_the_slopes_of_the_loss() {
    let sequence = TrainingSequence::of(tokens()).unwrap();
    for (base, trained, projections) in [
        (tiny(), Trained::Memory, "qkvo"),
        (tiny(), Trained::Memory, "qk"),
        (tiny(), Trained::All, "qkv"),
        (tied(), Trained::All, "qkv"),
    ] {
        let layout = layout(projections);
        let mut training = Training::load(base.path(), device(), trained, &layout).unwrap();
        let gradients = training.gradients(&sequence, told(), usize::MAX).unwrap();
        let folder = tempfile::tempdir().unwrap();
        training.write(folder.path()).unwrap();
        let all = read(folder.path());
        let names: Vec<String> = gradients.names().map(str::to_owned).collect();
        assert_eq!(names.len(), training.trained().len());
        let mut checked = 0;
        for name in names {
            let gradient = gradients.of(&name).unwrap();
            let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            // A bias of keys changes all scores of a query equally, except for the rotation by
            // positions. Its gradient is small, and the slope is lost in rounding.
            if norm < 1e-3 {
                continue;
            }
            checked += 1;
            let step = 0.02 / norm.max(1.0);
            let at = |step: f64| {
                let mut changed = all.clone();
                let numbers = &mut changed.get_mut(&name).unwrap().1;
                for (number, gradient) in numbers.iter_mut().zip(&gradient) {
                    *number += (step * f64::from(*gradient) / norm) as f32;
                }
                write(folder.path(), &changed);
                loss(folder.path(), trained, &sequence)
            };
            let slope = (at(step) - at(-step)) / (2.0 * step);
            // Losses near 8 are accurate to about 1e-6, so a slope is accurate to 1e-4. The rest is
            // the curvature.
            let off = (slope - norm).abs();
            assert!(off < 2e-4 + 0.02 * norm, "{name}: {slope} is no slope for {norm}");
        }
        assert!(checked > training.trained().len() / 2, "{checked} were large enough");
    }
}

#[test]
fn a_model_in_sixteen_bits_stays_one_and_goes_on_in_thirty_two() {
    let (base, out) = (tiny(), tempfile::tempdir().unwrap());
    write_in(Dtype::BF16, base.path(), &read(base.path()));
    let trained = trainer(base.path(), out.path(), options(2)).unwrap().run(|_| true).unwrap();
    let bytes = fs::read(trained.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    assert!(tensors.tensors().iter().all(|(_, view)| view.dtype() == Dtype::BF16));
    let bytes = fs::read(trained.join("training.safetensors")).unwrap();
    let state = SafeTensors::deserialize(&bytes).unwrap();
    assert!(state.tensors().iter().all(|(_, view)| view.dtype() == Dtype::F32));
    MemoryModel::load(&trained, device(), Precision::Float32, 1).unwrap();
}

#[test]
fn the_losses_of_parts_are_the_loss_of_all() {
    let base = tiny();
    let mut training = training(base.path(), Trained::Memory);
    let tokens = tokens();
    let mut sum = |is_counted: fn(usize) -> bool| {
        let counted = (0..tokens.len()).map(is_counted).collect();
        let sequence = TrainingSequence::masked(tokens.clone(), counted).unwrap();
        training.loss(&sequence, told(), usize::MAX).unwrap()
    };
    let (all, labels) = sum(|_| true);
    assert_eq!(labels, tokens.len() - 1);
    let parts =
        [sum(|at| at < 9), sum(|at| at >= 9 && at % 2 == 0), sum(|at| at >= 9 && at % 2 == 1)];
    assert_eq!(parts.iter().map(|part| part.1).sum::<usize>(), labels);
    // Sums of 27 numbers near 8.
    assert!((parts.iter().map(|part| part.0).sum::<f64>() - all).abs() < 1e-3);
}

#[test]
fn a_training_reads_as_the_memory_does() {
    let base = tiny();
    let mut training = training(base.path(), Trained::Memory);
    let folder = tempfile::tempdir().unwrap();
    training.write(folder.path()).unwrap();
    let tokens = tokens();
    let sequence = TrainingSequence::of(tokens.clone()).unwrap();
    let (expected, _) = training.loss(&sequence, told(), usize::MAX).unwrap();
    let model = MemoryModel::load(folder.path(), device(), Precision::Float32, 1).unwrap();
    let uncompressed = Uncompressed { first: 0, from: Some(24) };
    let mut memory = model.memory_beside(told(), uncompressed);
    let wanted = WantedLogits::All;
    let reading = MemoryInput { memory: &mut memory, tokens: &tokens, wanted };
    let logits = model.read(&mut [reading]).unwrap();
    let losses = logits.iter().zip(&tokens[1..]).map(|(logits, next)| {
        let all: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        all.ln() - f64::from(logits[*next as usize])
    });
    assert!((losses.sum::<f64>() - expected).abs() < 1e-3);
    assert_eq!(memory.extent().windows, [2, 4, 2]);
}

#[test]
fn gradients_end_where_a_pass_does_and_the_loss_stays_the_same() {
    let base = tiny();
    let mut training = training(base.path(), Trained::Memory);
    let sequence = TrainingSequence::of(tokens()).unwrap();
    let name = "model.beacon_embed_tokens.weight";
    let all = training.gradients(&sequence, told(), usize::MAX).unwrap();
    let each = training.gradients(&sequence, told(), 1).unwrap();
    assert!((all.loss - each.loss).abs() < 1e-3);
    let [all, each] = [all, each].map(|gradients| gradients.of(name).unwrap());
    assert_ne!(all, each);
    // The effect on later windows is left out, that on the same window is there.
    assert!(each.iter().any(|gradient| *gradient != 0.0));
}

#[test]
fn nothing_is_learnt_of_a_window_that_nothing_follows() {
    let base = tiny();
    let mut training = training(base.path(), Trained::Memory);
    let sequence = TrainingSequence::of(tokens()[..WINDOW].to_vec()).unwrap();
    let gradients = training.gradients(&sequence, told(), usize::MAX).unwrap();
    assert!(gradients.mean_loss() > 0.0);
    for name in gradients.names() {
        assert!(gradients.of(name).unwrap().is_empty(), "{name}");
    }
}

fn options(steps: usize) -> TrainerOptions {
    let rate = LearningRate { peak: 0.02, warm_up: 2, steps };
    TrainerOptions { rate, batch: 2, ..TrainerOptions::new(steps, 0.02, vec![2, 4]) }
}

fn sequences() -> Sequences {
    let shifted = |shift: u32| {
        let tokens = tokens().into_iter().map(|id| (id + shift) % 256).collect();
        TrainingSequence::of(tokens).unwrap()
    };
    Sequences::new((0..3).map(shifted).collect())
}

fn trainer(base: &Path, out: &Path, options: TrainerOptions) -> Result<Trainer, Error> {
    Trainer::open(training(base, Trained::Memory), sequences(), options, out)
}

#[test]
fn the_loss_falls_and_only_memory_parameters_change() {
    let (base, out) = (tiny(), tempfile::tempdir().unwrap());
    let mut trainer = trainer(base.path(), out.path(), options(25)).unwrap();
    let mut told = 0;
    let trained = trainer
        .run(|_| {
            told += 1;
            true
        })
        .unwrap();
    assert_eq!((told, trainer.done()), (25, 25));
    let points = trainer.curve().points();
    let mean = |points: &[clew_model::memory::training::TrainingStep]| {
        points.iter().map(|point| point.loss).sum::<f64>() / points.len() as f64
    };
    let (first, last) = (mean(&points[..5]), mean(&points[20..]));
    assert!(last < first - 0.1, "{first} to {last}");
    let (before, after) = (read(base.path()), read(&trained));
    for (name, numbers) in &before {
        assert_eq!(numbers, &after[name], "{name}");
    }
    let own: Vec<&String> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    // Three projections with biases in two layers, and the embedding.
    assert_eq!(own.len(), 2 * 6 + 1);
    assert!(own.iter().all(|name| name.contains("beacon_")), "{own:?}");
    let model = MemoryModel::load(&trained, device(), Precision::Float32, 1).unwrap();
    assert_eq!(model.settings().window, WINDOW);
    assert_eq!(model.settings().ratios.all(), [2, 4]);
    assert_eq!(model.vocabulary(), VOCABULARY);
    assert!(trained.join("tokenizer.json").exists());
    let picture = fs::read_to_string(out.path().join("curve.svg")).unwrap();
    assert!(picture.contains("<polyline") && picture.ends_with("</svg>\n"));
}

#[test]
fn a_base_model_is_trained_from_scratch_and_stays_one() {
    let (base, out) = (tiny(), tempfile::tempdir().unwrap());
    let training =
        Training::load(base.path(), device(), Trained::All, &MemoryTokenLayout::default()).unwrap();
    let options = TrainerOptions { ratios: vec![2], ..options(12) };
    let mut trainer = Trainer::open(training, sequences(), options, out.path()).unwrap();
    let trained = trainer.run(|_| true).unwrap();
    let points = trainer.curve().points();
    assert!(points[11].loss < points[0].loss - 0.5, "{points:?}");
    let (before, after) = (read(base.path()), read(&trained));
    assert!(before.keys().eq(after.keys()));
    assert!(before.iter().all(|(name, numbers)| numbers != &after[name]));
}

#[test]
fn a_training_that_was_stopped_ends_as_one_that_was_not() {
    let (base, whole, broken) =
        (tiny(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = TrainerOptions { checkpoint_every: 3, ..options(8) };
    let mut at_once = trainer(base.path(), whole.path(), options.clone()).unwrap();
    let expected = at_once.run(|_| true).unwrap();
    let mut first = trainer(base.path(), broken.path(), options.clone()).unwrap();
    first.run(|step| step.step < 3).unwrap();
    first.step().unwrap();
    drop(first);
    // A checkpoint that was not complete does no harm.
    fs::create_dir(broken.path().join(".step-00000006.partial")).unwrap();
    let mut second = trainer(base.path(), broken.path(), options.clone()).unwrap();
    assert_eq!(second.done(), 3);
    let found = second.run(|_| true).unwrap();
    for file in ["model.safetensors", "training.safetensors", "config.json"] {
        let [expected, found] =
            [&expected, &found].map(|folder| fs::read(folder.join(file)).unwrap());
        assert_eq!(expected, found, "{file}");
    }
    let losses = |trainer: &Trainer| {
        let points = trainer.curve().points().iter();
        points.map(|point| (point.step, point.loss, point.norm)).collect::<Vec<_>>()
    };
    for (whole, resumed) in losses(&at_once).into_iter().zip(losses(&second)) {
        // The curve of a stopped training was read from decimals.
        let off = (whole.1 - resumed.1).abs().max((whole.2 - resumed.2).abs());
        assert!(whole.0 == resumed.0 && off < 1e-12, "{whole:?} beside {resumed:?}");
    }
    let lines = fs::read_to_string(broken.path().join("curve.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 8);
    let mut kept: Vec<_> =
        fs::read_dir(broken.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    kept.sort();
    assert_eq!(kept, ["curve.jsonl", "curve.svg", "step-00000006", "step-00000008"]);
    // A finished training has nothing left to do. Another training cannot resume here.
    assert_eq!(trainer(base.path(), broken.path(), options.clone()).unwrap().done(), 8);
    let other = TrainerOptions { seed: 1, ..options };
    let refused = trainer(base.path(), broken.path(), other).map(|_| ());
    assert!(
        matches!(&refused, Err(Error::Untrainable { found, .. }) if found.contains("options")),
        "{refused:?}"
    );
}

#[test]
fn a_checkpoint_with_a_tensor_of_another_length_is_refused_by_name() {
    let (base, out) = (tiny(), tempfile::tempdir().unwrap());
    let step = trainer(base.path(), out.path(), options(2)).unwrap().run(|_| true).unwrap();
    let file = step.join("training.safetensors");
    let bytes = fs::read(&file).unwrap();
    for what in ["parameter.", "mean.", "square."] {
        let all = SafeTensors::deserialize(&bytes).unwrap();
        let mut all = all.tensors();
        let cut = all.iter_mut().find(|(name, _)| name.starts_with(what)).unwrap();
        let name = cut.0.clone();
        let less = &cut.1.data()[4..];
        cut.1 = TensorView::new(Dtype::F32, vec![less.len() / 4], less).unwrap();
        fs::write(&file, safetensors::serialize(all, None).unwrap()).unwrap();
        let refused = trainer(base.path(), out.path(), options(2)).map(|_| ());
        assert!(
            matches!(&refused, Err(Error::Broken { expected, .. }) if expected.contains(&name)),
            "{name}: {refused:?}"
        );
    }
}

#[test]
fn texts_are_cut_and_questions_count_their_clues() {
    let (base, data) = (tiny(), tempfile::tempdir().unwrap());
    let training = training(base.path(), Trained::Memory);
    let text = data.path().join("book.txt");
    // 45 bytes and an end token: 20, 20 and 6 tokens, of which the last piece is no longer than a
    // window.
    fs::write(&text, "a text of forty-five bytes, which will be cut").unwrap();
    let questions = data.path().join("questions.jsonl");
    let long = "x".repeat(100);
    let lines = [
        r#"{"context": "ten is 10.", "question": "ten?", "clues": ["is", "10"]}"#.to_owned(),
        String::new(),
        format!(r#"{{"context": "{long}", "question": "what?", "clues": "x"}}"#),
    ];
    fs::write(&questions, lines.join("\n")).unwrap();
    let files: Vec<PathBuf> = vec![text, questions.clone()];
    let form = Form::try_new("{{context}} {{question}} {{clues}}").unwrap();
    let longest = 20;
    let sequences = training.sequences(&files, longest, &form);
    let sequences = sequences.unwrap();
    let lengths: Vec<usize> = sequences.all().iter().map(|s| s.tokens().len()).collect();
    assert_eq!((lengths, sequences.left_out), (vec![20, 20], 3));
    let sequences = training.sequences(&files[1..], 40, &form).unwrap();
    let [question] = sequences.all() else { panic!("{sequences:?}") };
    // "ten is 10. ten? is\n10" and the end token.
    assert_eq!((question.tokens().len(), question.labels()), (22, 6));
    assert_eq!(question.tokens()[21], 258);
    fs::write(&questions, "{}").unwrap();
    let broken = training.sequences(&files[1..], 40, &form);
    assert!(matches!(broken, Err(Error::Broken { .. })), "{broken:?}");
    fs::write(&files[0], "short").unwrap();
    let short = training.sequences(&files[..1], 40, &form);
    assert!(matches!(short, Err(Error::Untrainable { .. })), "{short:?}");
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let untrainable = |found: Result<TrainingSequence, Error>| {
        assert!(matches!(found, Err(Error::Untrainable { .. })), "{found:?}");
    };
    untrainable(TrainingSequence::of(vec![1]));
    untrainable(TrainingSequence::masked(vec![1, 2], vec![true]));
    untrainable(TrainingSequence::masked(vec![1, 2, 3], vec![true, false, false]));
    let (base, out) = (tiny(), tempfile::tempdir().unwrap());
    let foreign = TrainingSequence::of(vec![1, VOCABULARY as u32]).unwrap();
    let found = training(base.path(), Trained::Memory).gradients(&foreign, told(), 1).map(|_| ());
    assert!(matches!(found, Err(Error::ForeignTokens { .. })), "{found:?}");
    for wrong in [
        TrainerOptions { ratios: vec![3], ..options(1) },
        TrainerOptions { ratios: vec![0], ..options(1) },
        TrainerOptions { ratios: vec![], ..options(1) },
        TrainerOptions { batch: 0, ..options(1) },
        TrainerOptions { checkpoints_kept: 0, ..options(1) },
        TrainerOptions {
            rate: LearningRate { peak: f64::NAN, warm_up: 1, steps: 2 },
            ..options(1)
        },
        options(0),
    ] {
        let refused = trainer(base.path(), out.path(), wrong.clone()).map(|_| ());
        assert!(matches!(refused, Err(Error::Untrainable { .. })), "{wrong:?}: {refused:?}");
    }
    let training = training(base.path(), Trained::Memory);
    let none = Trainer::open(training, Sequences::default(), options(1), out.path()).map(|_| ());
    assert!(matches!(none, Err(Error::Untrainable { .. })), "{none:?}");
}
