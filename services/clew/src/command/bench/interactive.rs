//! Command `clew bench embed --interactive`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context;
use clew_core::{Priority, TextKind};
use clew_memory_encoder::OwnEncoder;
use serde_json::{Value, json};

use super::{PATIENCE, percentile};

/// Embeds each of `texts` as a question, one after the other. Returns how long one takes, and the
/// parts of that time: the tokenizer, the computation, and the rest, which is waiting and the way
/// from thread to thread.
pub async fn run(own: &OwnEncoder, texts: &[String], rounds: usize) -> anyhow::Result<Value> {
    let encoder = own.encoder();
    let pool = own.pool().context("expected a model on this machine, got an endpoint")?;
    let mut tokens = Vec::with_capacity(texts.len());
    let [mut whole, mut tokenizer, mut compute, mut waiting] = [(); 4].map(|()| Vec::new());
    // The first round warms up and is not counted.
    for round in 0..=rounds {
        for text in texts {
            // Beside the question, which does not tell how long its tokens took.
            let began = Instant::now();
            black_box(pool.model().encode(text, TextKind::Query));
            let tokenized = began.elapsed();
            let (question, busy, began) = (vec![text.clone()], own.busy(), Instant::now());
            let (kind, deadline) = (TextKind::Query, began + PATIENCE);
            let embedded = encoder.embed(question, kind, Priority::Interactive, deadline).await?;
            let (took, computed) = (began.elapsed(), own.busy().saturating_sub(busy));
            if round == 0 {
                tokens.extend(embedded.iter().map(|embedding| f64::from(embedding.tokens)));
                continue;
            }
            whole.push(took);
            tokenizer.push(tokenized);
            compute.push(computed);
            waiting.push(took.saturating_sub(computed).saturating_sub(tokenized));
        }
    }
    tokens.sort_by(f64::total_cmp);
    let of_tokens = |share| percentile(&tokens, share);
    Ok(json!({
        "tokens": { "least": of_tokens(0.0), "p50": of_tokens(0.5), "most": of_tokens(1.0) },
        "question": latencies(whole),
        "tokenizer": latencies(tokenizer),
        "compute": latencies(compute),
        "waiting": latencies(waiting),
    }))
}

fn latencies(times: Vec<Duration>) -> Value {
    let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    json!({ "p50_ms": percentile(&times, 0.5), "p99_ms": percentile(&times, 0.99) })
}
