//! Trains a small language model from scratch, then its memory, and measures what it remembers.
//!
//! ```sh
//! cargo run -p clew-model --example memory_demonstration -- BOOKS OUT [four numbers of steps]
//! ```
//!
//! BOOKS is a folder of long texts in English, such as novels of Project Gutenberg. The last of
//! them by name is held out: perplexity is measured on it. OUT gets the models, their loss curves,
//! and the measurements as `measured.json`, `measured.md` and `measured.svg`. A run that was
//! stopped resumes from its last checkpoint.
//!
//! There are four trainings. First all parameters are trained, on recall (`texts.rs`), and then
//! also on texts that are read uncompressed. Then the parameters of memory tokens alone are
//! trained, on texts of which all windows but the last are compressed by a ratio drawn for each
//! window. Finally these parameters are trained on recall from compressed texts.

mod measure;
mod model;
mod report;
mod texts;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clew_model::DeviceChoice;
use clew_model::memory::training::{
    AdamW, LearningRate, MemoryTokenLayout, Sequences, Trained, Trainer, TrainerOptions, Training,
    TrainingStep,
};

use measure::{Measured, Questions};
use texts::{Task, Texts};

/// Number of tokens in a window.
pub const WINDOW: usize = 64;
/// Number of compressed windows before the one that is read uncompressed.
pub const WINDOWS: usize = 4;
/// Ratios that are trained and measured.
pub const RATIOS: [usize; 4] = [2, 4, 8, 16];
/// Number of sequences in a step.
const BATCH: usize = 8;
/// Highest learning rate.
const RATE: f64 = 3e-3;
/// Default number of steps of each training.
const STEPS: [usize; 4] = [280, 350, 200, 350];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [books, out, steps @ ..] = arguments.as_slice() else {
        anyhow::bail!("expected BOOKS OUT [four numbers of steps]");
    };
    let steps: Vec<usize> = steps
        .iter()
        .map(|steps| steps.parse().context("a number of steps"))
        .collect::<Result<_, _>>()?;
    let [base_recall_steps, base_steps, memory_steps, recall_steps] = match steps[..] {
        [] => STEPS,
        [base_recall, base, memory, recall] => [base_recall, base, memory, recall],
        _ => anyhow::bail!("expected four numbers of steps, or none"),
    };
    let out = PathBuf::from(out);
    std::fs::create_dir_all(&out).context("the folder for results cannot be made")?;
    let books = books_of(Path::new(books))?;
    let start = out.join("start");
    let tokenizer = model::write_start(&start, &books)?;
    let mut texts = Texts::new(&books, &tokenizer)?;

    let mut base = start;
    for (name, task, steps) in
        [("base-recall", Task::BaseRecall, base_recall_steps), ("base", Task::Base, base_steps)]
    {
        let sequences = texts.sequences(steps * BATCH, task)?;
        let layout = MemoryTokenLayout::default();
        let training = Training::load(&base, DeviceChoice::Cpu, Trained::All, &layout)?;
        base = train(name, training, sequences, steps, &out)?;
    }
    // State in which memory tokens begin, to compare with what they have learnt.
    let untrained = out.join("untrained");
    let with_memory = {
        let sequences = texts.sequences(memory_steps * BATCH, Task::Texts)?;
        let (window, ratios) = (Some(WINDOW), Some(RATIOS.to_vec()));
        let layout = MemoryTokenLayout { window, ratios, ..MemoryTokenLayout::default() };
        let training = Training::load(&base, DeviceChoice::Cpu, Trained::Memory, &layout)?;
        std::fs::create_dir_all(&untrained)?;
        training.write(&untrained)?;
        train("memory", training, sequences, memory_steps, &out)?
    };
    let tuned = {
        let sequences = texts.sequences(recall_steps * BATCH, Task::Recall)?;
        let layout = MemoryTokenLayout::default();
        let training = Training::load(&with_memory, DeviceChoice::Cpu, Trained::Memory, &layout)?;
        train("recall", training, sequences, recall_steps, &out)?
    };
    let questions = Questions::new(&mut texts);
    let measured = Measured {
        chance: 1.0 / texts::ANSWERS as f64,
        untrained: questions.measure(&untrained)?,
        trained_on_texts: questions.measure(&with_memory)?,
        tuned_on_recall: questions.measure(&tuned)?,
    };
    report::write(&measured, &out)
}

/// Returns the texts of all `.txt` files in a folder, in the order of their names.
fn books_of(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).context("the folder of books cannot be read")?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).context("a book is no text");
    let books = paths.iter().map(read).collect::<anyhow::Result<Vec<String>>>()?;
    ensure!(books.len() > 1, "expected two books or more, one of them to measure on");
    Ok(books)
}

fn train(
    name: &str,
    training: Training,
    sequences: Sequences,
    steps: usize,
    out: &Path,
) -> anyhow::Result<PathBuf> {
    let rate = LearningRate { peak: RATE, warm_up: steps / 20, steps };
    let options = TrainerOptions {
        rate,
        adamw: AdamW { square_kept: 0.98, ..AdamW::default() },
        batch: BATCH,
        checkpoint_every: 100,
        checkpoints_kept: 1,
        ..TrainerOptions::new(steps, RATE, RATIOS.to_vec())
    };
    let mut trainer = Trainer::open(training, sequences, options, &out.join(name))?;
    let tell = |step: &TrainingStep| {
        if step.step.is_multiple_of(20) {
            let speed = step.tokens as f64 / step.seconds;
            eprintln!("{name} {}: loss {:.3}, {speed:.0} tokens/s", step.step, step.loss);
        }
        true
    };
    Ok(trainer.run(tell)?)
}
