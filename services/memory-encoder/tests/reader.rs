//! Tests of readers in this process.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clew_core::{ErrorKind, ReadPassage};
use clew_memory_encoder::{EncoderConfig, OwnReader, ReaderConfig};
use clew_model::{ModelOptions, ReaderModel, Scratch};
use clew_telemetry::Severity;
use clew_testkit::{write_tiny_bert, write_tiny_reader};

const QUESTION: &str = "who lives by the river?";

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn passage(heading: &str, text: &str) -> ReadPassage {
    ReadPassage { heading: heading.to_owned(), text: text.to_owned() }
}

/// Folder with a base and an adapter by which `dog` and `cat` are the answers to all questions.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(files.base()).unwrap();
        write_tiny_bert(&files.base(), 3).unwrap();
        write_tiny_reader(&files.base(), &files.adapter(), &["dog", "cat"]).unwrap();
        files
    }

    fn base(&self) -> PathBuf {
        self.folder.path().join("base")
    }

    fn adapter(&self) -> PathBuf {
        self.folder.path().join("reader.safetensors")
    }

    fn config(&self) -> ReaderConfig {
        ReaderConfig { adapter: Some(self.adapter()), ..ReaderConfig::default() }
    }
}

async fn load(config: &ReaderConfig, folder: Option<&Path>) -> Result<OwnReader, clew_core::Error> {
    let encoder = EncoderConfig { threads: 2, batch_tokens: 128, ..EncoderConfig::default() };
    OwnReader::load(config, folder, &encoder).await
}

#[tokio::test]
async fn passages_are_read_as_the_model_reads_them_by_itself() {
    let files = Files::new();
    let own = load(&files.config(), Some(&files.base())).await.unwrap();
    let seam = own.seam();
    let name = seam.reader_model(soon()).await.unwrap().unwrap();
    assert!(own.description(soon()).await.unwrap().unwrap().contains(&name));
    // The fourth passage has several windows, and its answer is in the last one.
    let long = format!("{}and the cat.", "the old house in the city, ".repeat(30));
    let passages = vec![
        passage("", "The dog lives there."),
        passage("a dog", "The mother lives there."),
        passage("", ""),
        passage("a title", &long),
    ];
    let read = seam.read_spans(QUESTION, passages.clone(), soon()).await.unwrap();
    let answers = |i: usize| {
        let found = &read.passages[i];
        let best = found.spans.first().map(|found| found.span.of(&passages[i].text).unwrap());
        (found.answers > 0.9, best)
    };
    assert_eq!(answers(0), (true, Some("dog")));
    assert!(!answers(1).0, "headings have no answers: {read:?}");
    assert_eq!(answers(2), (false, None));
    assert_eq!(answers(3), (true, Some("cat")));

    let adapter = std::fs::read(files.adapter()).unwrap();
    let oracle = ReaderModel::load(&files.base(), &adapter, &ModelOptions::default()).unwrap();
    let expected = oracle.read(QUESTION, &passages, &mut Scratch::default()).unwrap();
    assert_eq!(read.tokens, expected.tokens);
    for (read, expected) in read.passages.iter().zip(&expected.passages) {
        // Sums in another order differ in the last bits.
        assert!((read.answers - expected.answers).abs() < 1e-3, "{read:?} is not {expected:?}");
        assert!((read.relevance - expected.relevance).abs() < 1e-3);
        assert_eq!(read.spans.len(), expected.spans.len());
    }
    assert_eq!(read.passages.len(), expected.passages.len());

    assert_eq!(seam.read_spans(QUESTION, Vec::new(), soon()).await.unwrap().tokens, 0);
    let many = vec![passages[3].clone(); 100];
    let late = seam.read_spans(QUESTION, many, Instant::now()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
    own.stop().await;
    let gone = seam.read_spans(QUESTION, passages, soon()).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn more_windows_than_the_queue_holds_are_refused_at_once() {
    let files = Files::new();
    let encoder = EncoderConfig { threads: 1, queue_tokens: 1024, ..EncoderConfig::default() };
    let own = OwnReader::load(&files.config(), Some(&files.base()), &encoder).await.unwrap();
    let passages = vec![passage("", &"the old house by the river ".repeat(20)); 200];
    let refused = own.seam().read_spans(QUESTION, passages, soon()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    own.stop().await;
}

#[tokio::test]
async fn over_another_embedding_model_there_is_no_reader() {
    let files = Files::new();
    let base = files.base();
    let off = ReaderConfig { enabled: false, ..files.config() };
    for (config, folder) in [
        // The packaged adapter is for a larger model.
        (ReaderConfig::default(), Some(&*base)),
        (ReaderConfig::default(), None),
        (off, Some(&*base)),
    ] {
        let own = load(&config, folder).await.unwrap();
        assert_eq!(own.seam().reader_model(soon()).await.unwrap(), None, "{config:?}");
        let refused = own.seam().read_spans(QUESTION, vec![passage("", "dog")], soon()).await;
        let refused = refused.unwrap_err();
        assert_eq!((refused.kind(), refused.reason()), (ErrorKind::WrongState, "NO_READER"));
        assert_eq!(own.description(soon()).await.unwrap(), None);
        assert!(own.troubles().is_empty() && own.nodes().is_empty());
        own.stop().await;
    }
}

#[tokio::test]
async fn a_base_and_an_adapter_that_are_named_have_to_fit() {
    let files = Files::new();
    let other = tempfile::tempdir().unwrap();
    write_tiny_bert(other.path(), 4).unwrap();
    let other = other.path().to_owned();
    let cut = files.folder.path().join("cut.safetensors");
    let whole = std::fs::read(files.adapter()).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    let named = |model: Option<&PathBuf>, adapter: Option<&PathBuf>| ReaderConfig {
        model: model.cloned(),
        adapter: adapter.cloned(),
        ..ReaderConfig::default()
    };
    let (base, adapter, missing) = (files.base(), files.adapter(), files.folder.path().join("no"));
    for (config, folder, field) in [
        (named(Some(&base), None), None, Some("reader.model")),
        (named(None, Some(&adapter)), Some(&other), Some("reader.model")),
        (named(Some(&other), Some(&adapter)), Some(&base), Some("reader.model")),
        (named(None, Some(&adapter)), None, Some("reader.adapter")),
        (named(None, Some(&missing)), Some(&base), Some("reader.adapter")),
        (named(None, Some(&cut)), Some(&base), None),
        (named(Some(&missing), Some(&adapter)), Some(&base), None),
    ] {
        let refused = load(&config, folder.map(PathBuf::as_path)).await.err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{config:?}: {refused}");
        if let Some(field) = field {
            assert_eq!(refused.fields_at_fault(), [field], "{config:?}: {refused}");
        }
    }
    // The base need not be the embedding model.
    let own = load(&named(Some(&base), Some(&adapter)), Some(&other)).await.unwrap();
    assert!(own.seam().reader_model(soon()).await.unwrap().is_some());
    assert_eq!(own.nodes().len(), 1);
    own.stop().await;
}

#[tokio::test]
async fn a_reader_that_cannot_be_loaded_says_why_and_is_not_loaded_again() {
    let folder = tempfile::tempdir().unwrap();
    let own = load(&ReaderConfig::default(), Some(folder.path())).await.unwrap();
    assert!(own.troubles().is_empty(), "nobody needed it yet");
    for _ in 0..2 {
        let read = own.seam().read_spans(QUESTION, vec![passage("", "dog")], soon()).await;
        let refused = read.unwrap_err();
        assert_eq!((refused.kind(), refused.reason()), (ErrorKind::WrongState, "NO_READER"));
        assert!(refused.message().contains("could not be loaded"), "{refused}");
        assert_eq!(own.seam().reader_model(soon()).await.unwrap(), None);
        assert_eq!(own.description(soon()).await.unwrap_err().message(), refused.message());
        let troubles = own.troubles();
        assert_eq!((troubles.len(), troubles[0].severity), (1, Severity::Degraded));
        assert_eq!(troubles[0].problem, refused.message());
        write_tiny_bert(folder.path(), 3).unwrap();
    }
    own.stop().await;
}

#[tokio::test]
async fn loading_goes_on_when_a_question_cannot_wait_for_it() {
    let files = Files::new();
    // Loading may be quicker than the clock ticks. Then another reader is loaded.
    let mut own = load(&ReaderConfig::default(), Some(&files.base())).await.unwrap();
    let mut tries = 0;
    let late = loop {
        match own.seam().reader_model(Instant::now()).await {
            Err(late) => break late,
            Ok(_) => own.stop().await,
        }
        tries += 1;
        assert!(tries < 20, "no question was late");
        own = load(&ReaderConfig::default(), Some(&files.base())).await.unwrap();
    };
    assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
    // What it finds is that the model is another one, which nobody has to wait for a second time.
    let settled = || async { own.seam().reader_model(Instant::now()).await.is_ok() };
    let deadline = soon();
    while !settled().await {
        assert!(Instant::now() < deadline, "it was given up");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    own.stop().await;

    let own = load(&ReaderConfig::default(), Some(&files.base())).await.unwrap();
    own.stop().await;
    let stopped = own.seam().reader_model(soon()).await.unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Unavailable, "nothing is loaded after the end");
}
