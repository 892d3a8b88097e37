//! Tests of the memory pool with a real, tiny model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

#[path = "shared/kept.rs"]
mod kept;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clew_core::{
    DraftTask, DraftedClues, Error, ErrorKind, FormTask, MemoryEncoder, MemoryText, NoMemoryModel,
    Task,
};
use clew_memory_encoder::{MemoryModelConfig, MemoryPool, memory_encoder};
use clew_model::memory::{MemorySnapshot, SlotData, SnapshotFormat};
use tokio::sync::watch;

use self::kept::Kept;

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);
const QUESTION: &str = "Who keeps the bees?";

fn about(task: Task, question: &str) -> DraftTask {
    DraftTask { task, question: question.to_owned(), answers: false }
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

fn config() -> MemoryModelConfig {
    MemoryModelConfig { threads: 1, draft_tokens: 48, ..MemoryModelConfig::default() }
}

async fn pool_of(seed: u64, config: MemoryModelConfig) -> Arc<MemoryPool> {
    let folder = tempfile::tempdir().unwrap();
    clew_testkit::write_tiny_memory_model(folder.path(), seed).unwrap();
    let config = MemoryModelConfig { folder: Some(folder.path().to_owned()), ..config };
    MemoryPool::load(&config).await.unwrap().unwrap()
}

fn text(title: &str, text: impl Into<String>) -> MemoryText {
    MemoryText { title: title.to_owned(), text: text.into() }
}

fn task(texts: Vec<MemoryText>) -> FormTask {
    FormTask { ratio: 4, begun: None, texts }
}

async fn formed(pool: &MemoryPool, number: u128, words: usize) -> Kept {
    let texts = vec![text("Bees", "the roof is flat and sunny ".repeat(words))];
    Kept::new(number, pool.form(task(texts), soon()).await.unwrap().snapshot)
}

async fn draft(pool: &MemoryPool, memory: &Kept, question: &str) -> DraftedClues {
    pool.draft(memory, &about(Task::Answer, question), soon()).await.unwrap()
}

fn numbers(data: Option<&SlotData>) -> Vec<f32> {
    let both = data.into_iter().flat_map(|data| [&data.keys, &data.values]);
    both.flat_map(|data| data.clone().try_into_vec::<f32>().unwrap()).collect()
}

#[tokio::test]
async fn forming_in_two_goes_is_forming_at_once() {
    let pool = pool_of(3, config()).await;
    let texts = [text("One", "a clew of wool ".repeat(9)), text("", "b ".repeat(100))];
    let at_once = pool.form(task(texts.to_vec()), soon()).await.unwrap();
    let first = pool.form(task(texts[..1].to_vec()), soon()).await.unwrap();
    let begun = Some(Arc::new(first.snapshot));
    let go_on = FormTask { begun, ..task(texts[1..].to_vec()) };
    let (progress, read) = watch::channel(0);
    let second = pool.form_told(go_on, soon(), progress).await.unwrap();
    assert_eq!((second.tokens, second.slots), (at_once.tokens, at_once.slots));
    assert!(second.slots < second.tokens / 2, "{} of {}", second.slots, second.tokens);
    assert_eq!(*read.borrow(), second.tokens - first.tokens, "progress is of these texts");
    let identity = pool.memory_model(soon()).await.unwrap().unwrap();
    assert_eq!(second.model, identity.fingerprint);
    assert_eq!((identity.window, identity.slot_bytes), (64, 256));
    let [at_once, second] = [at_once.snapshot, second.snapshot]
        .map(|bytes| MemorySnapshot::from_bytes(&bytes).unwrap());
    assert_eq!(at_once.extent, second.extent);
    for (a, b) in at_once.layers.iter().zip(&second.layers) {
        for (a, b) in [(&a.front, &b.front), (&a.open, &b.open)] {
            let (a, b) = (numbers(a.as_ref()), numbers(b.as_ref()));
            assert_eq!(a.len(), b.len());
            // Sums of 32-bit floats in another order differ by a few 1e-6.
            assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 5e-5));
        }
    }
    pool.stop().await;
}

#[tokio::test]
async fn drafts_are_the_same_again_alone_and_side_by_side() {
    let pool = pool_of(4, config()).await;
    let memory = formed(&pool, 1, 20).await;
    let questions = [QUESTION, "Why?", "What does the letter say of the garden?", ""];
    let mut alone = Vec::new();
    for question in questions {
        alone.push(draft(&pool, &memory, question).await);
    }
    assert!(alone.iter().any(|drafted| !drafted.clues.clues.is_empty()), "{alone:?}");
    assert_eq!(alone[0].cost.model_calls, 2);
    assert!(alone[0].cost.prompt_tokens > 0 && alone[0].cost.completion_tokens > 0);
    assert_eq!((alone[0].memories, memory.fetched()), (1, 1));
    assert!(alone[0].clues.key_points.is_empty());
    // All wait while a text is read, and are then drafted for side by side.
    let busy = formed(&pool, 2, 170);
    let together = futures::future::join_all(questions.iter().map(|q| draft(&pool, &memory, q)));
    let (_, together) = tokio::join!(busy, together);
    assert_eq!(together, alone);
    let task = DraftTask { answers: true, ..about(Task::Answer, QUESTION) };
    let answered = pool.draft(&memory, &task, soon()).await.unwrap();
    assert_eq!((answered.clues.answers.len(), answered.cost.model_calls), (1, 3));
    assert_eq!(
        (&answered.clues.clues, &answered.clues.queries),
        (&alone[0].clues.clues, &alone[0].clues.queries)
    );
    let task = DraftTask { answers: true, ..about(Task::Summarise, "") };
    assert!(pool.draft(&memory, &task, soon()).await.unwrap().clues.answers.is_empty());
    let summary = pool.draft(&memory, &about(Task::Summarise, ""), soon()).await.unwrap();
    assert_eq!(summary.cost.model_calls, 1);
    assert!(summary.clues.clues.is_empty() && summary.clues.queries.is_empty());
    pool.stop().await;
}

#[tokio::test]
async fn memories_are_told_apart_by_the_prompts_that_they_were_read_with() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompts.md");
    let ours = include_str!("../../../crates/model/prompts/clew.md");
    let told = async |prompts: Option<String>| {
        let pool = pool_of(4, MemoryModelConfig { prompts, ..config() }).await;
        let (identity, memory) = (pool.identity(), formed(&pool, 1, 20).await);
        let drafted = draft(&pool, &memory, QUESTION).await;
        pool.stop().await;
        (identity.prompts, identity.fingerprint, drafted)
    };
    let by_file = async |content: &str| {
        std::fs::write(&file, content).unwrap();
        told(Some(file.to_string_lossy().into_owned())).await
    };
    let own = told(None).await;
    assert_eq!(own.0, "clew@1");
    assert_eq!(by_file(ours).await, own);

    let around = ours.replace("Here is a long text.", "Here is a text.");
    assert_ne!(by_file(&around).await.1, own.1);
    let raised = by_file(&ours.replace("version: 1", "version: 2")).await;
    assert_eq!(raised.0, "clew@2");
    assert_ne!(raised.1, own.1);
    let asked = ours.replace("Name the passages of the text", "Say which passages");
    let other = by_file(&asked).await;
    assert_eq!(other.1, own.1, "what is asked of a memory does not change what it holds");
    assert_ne!(other.2.cost.prompt_tokens, own.2.cost.prompt_tokens);
    assert_eq!(told(Some("memorag".to_owned())).await.0, "memorag@1");

    let prompts = Some("no-such-file.md".to_owned());
    let config = MemoryModelConfig { prompts, folder: Some(folder.path().into()), ..config() };
    let refused = MemoryPool::load(&config).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("no-such-file.md"), "{refused}");
}

#[tokio::test]
async fn drafts_are_served_while_a_long_text_is_read() {
    let pool = pool_of(3, config()).await;
    let memory = formed(&pool, 1, 5).await;
    let (progress, mut read) = watch::channel(0);
    let long = task(vec![text("", "a clew of wool ".repeat(900))]);
    let forming = tokio::spawn({
        let pool = Arc::clone(&pool);
        async move { pool.form_told(long, soon(), progress).await }
    });
    read.wait_for(|read| *read > 0).await.unwrap();
    draft(&pool, &memory, QUESTION).await;
    assert!(!forming.is_finished(), "the draft waited for all of the text");
    let before = *read.borrow();
    let formed = forming.await.unwrap().unwrap();
    assert!(before < formed.tokens, "{before} of {}", formed.tokens);
    pool.stop().await;
}

#[tokio::test]
async fn several_who_miss_a_memory_have_it_brought_once() {
    let pool = pool_of(3, config()).await;
    let memory = formed(&pool, 1, 5).await;
    let drafts = (0..5).map(|_| draft(&pool, &memory, QUESTION));
    let drafts = futures::future::join_all(drafts).await;
    assert!(drafts.iter().all(|drafted| *drafted == drafts[0]));
    assert_eq!(memory.fetched(), 1);
    pool.stop().await;
}

#[tokio::test]
async fn memories_are_kept_within_the_budget_and_asked_for_again() {
    // Each takes a bit more than a third of a mebibyte; a window of 64 keeps 16.
    let pool = pool_of(3, MemoryModelConfig { cache_bytes: 1 << 20, ..config() }).await;
    let [a, b, c, huge] = [(1, 140), (2, 141), (3, 142), (4, 420)]
        .map(|(number, words)| formed(&pool, number, words));
    let (a, b, c, huge) = (a.await, b.await, c.await, huge.await);
    for memory in [&a, &b, &a, &c, &a] {
        draft(&pool, memory, QUESTION).await;
    }
    assert_eq!([&a, &b, &c].map(Kept::fetched), [1, 1, 1]);
    let (memories, bytes) = pool.ready();
    assert!(memories == 2 && bytes <= 1 << 20, "{memories} of {bytes} bytes");
    draft(&pool, &b, QUESTION).await;
    assert_eq!([&a, &b, &c].map(Kept::fetched), [1, 2, 1], "the one asked longest ago had gone");
    for fetched in 1..=2 {
        draft(&pool, &huge, QUESTION).await;
        assert_eq!(huge.fetched(), fetched, "what is larger than the budget is not kept");
    }
    assert!(pool.ready().1 <= 1 << 20);
    pool.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_the_model_is_refused() {
    let (pool, other) = (pool_of(3, config()).await, pool_of(4, config()).await);
    let foreign = formed(&other, 1, 2).await;
    let refused = |error: Error, field: &str| {
        assert_eq!((error.kind(), &*error.violations()[0].field), (ErrorKind::InvalidInput, field));
    };
    refused(pool.draft(&foreign, &about(Task::Answer, ""), soon()).await.unwrap_err(), "snapshot");
    let begun = Some(Arc::clone(&foreign.bytes));
    let go_on = FormTask { begun, ..task(Vec::new()) };
    refused(pool.form(go_on, soon()).await.unwrap_err(), "snapshot");
    let broken = Kept::new(2, foreign.bytes[..100].to_vec());
    refused(pool.draft(&broken, &about(Task::Answer, ""), soon()).await.unwrap_err(), "snapshot");
    for ratio in [0, 3, 128] {
        let error = pool.form(FormTask { ratio, ..task(Vec::new()) }, soon()).await.unwrap_err();
        refused(error, "ratio");
    }
    let own = formed(&pool, 3, 9).await;
    let begun = Some(Arc::clone(&own.bytes));
    let go_on = FormTask { ratio: 2, begun, texts: Vec::new() };
    refused(pool.form(go_on, soon()).await.unwrap_err(), "ratio");
    draft(&pool, &own, QUESTION).await;
    pool.stop().await;
    other.stop().await;
    let stopped = pool.draft(&own, &about(Task::Answer, ""), soon()).await.unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn who_leaves_or_runs_out_of_time_stops_the_reading() {
    let pool = pool_of(3, config()).await;
    let long = || task(vec![text("", "a clew of wool ".repeat(60_000))]);
    let (progress, mut read) = watch::channel(0);
    let forming = tokio::spawn({
        let pool = Arc::clone(&pool);
        async move { pool.form_told(long(), soon(), progress).await }
    });
    read.wait_for(|read| *read > 0).await.unwrap();
    forming.abort();
    // The thread is free long before it could have read everything, and then drops the progress
    // channel.
    let ended = tokio::time::timeout(PATIENCE, async { while read.changed().await.is_ok() {} });
    ended.await.unwrap();
    assert!(*read.borrow() < 500_000, "{} tokens", *read.borrow());
    let (progress, read) = watch::channel(0);
    let late = Instant::now() + Duration::from_millis(20);
    let error = pool.form_told(long(), late, progress).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    formed(&pool, 1, 2).await;
    assert!(*read.borrow() < 500_000);
    pool.stop().await;
}

#[tokio::test]
async fn a_full_queue_refuses_questions_at_once() {
    let pool = pool_of(3, MemoryModelConfig { queue_tokens: 1024, ..config() }).await;
    let memory = formed(&pool, 1, 5).await;
    draft(&pool, &memory, QUESTION).await;
    // Both take more than half of the queue.
    let long = "why ".repeat(600);
    let long = about(Task::Answer, &long);
    let (first, second) =
        tokio::join!(pool.draft(&memory, &long, soon()), pool.draft(&memory, &long, soon()));
    assert!(first.is_ok());
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Exhausted);
    draft(&pool, &memory, QUESTION).await;
    pool.stop().await;
}

#[tokio::test]
async fn snapshots_take_less_in_other_numbers_and_can_be_gone_on_with() {
    let mut sizes = Vec::new();
    for snapshot in [SnapshotFormat::Exact, SnapshotFormat::BFloat16, SnapshotFormat::Int8] {
        let pool = pool_of(3, MemoryModelConfig { snapshot, ..config() }).await;
        let memory = formed(&pool, 1, 40).await;
        sizes.push(memory.bytes.len());
        draft(&pool, &memory, QUESTION).await;
        let begun = Some(Arc::clone(&memory.bytes));
        let go_on = FormTask { begun, ..task(vec![text("", "more")]) };
        assert!(pool.form(go_on, soon()).await.unwrap().tokens > 1000);
        pool.stop().await;
    }
    assert!(sizes[1] < sizes[0] * 2 / 3 && sizes[2] < sizes[1], "{sizes:?}");
}

#[tokio::test]
async fn without_a_model_it_is_said_so() {
    assert!(MemoryPool::load(&config()).await.unwrap().is_none());
    let none = memory_encoder(None);
    assert_eq!(none.memory_model(soon()).await.unwrap(), None);
    let formed = NoMemoryModel.form(task(Vec::new()), soon()).await.unwrap_err();
    let drafted =
        none.draft(&Kept::new(1, vec![1]), &about(Task::Answer, ""), soon()).await.unwrap_err();
    for error in [formed, drafted] {
        assert_eq!((error.kind(), error.reason()), (ErrorKind::WrongState, "NO_MEMORY_MODEL"));
    }
}
