//! Command `clew bench generate`.

use std::time::Instant;

use anyhow::bail;
use clew_core::{ChatMessage, ChatRole, Error, Generated, GenerationRequest, Generator, Heard};
use clew_generator::LocalGenerator;
use clew_generator::config::{LocalConfig, Precision};
use clew_model::Roofline;
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{PATIENCE, median, percentile};

/// Words of a prompt so short that reading it takes no noticeable time.
const FEW_WORDS: usize = 4;

/// Load that is put on the model.
pub struct Load {
    /// Words of each prompt.
    pub words: usize,
    /// Tokens of each reply.
    pub tokens: u32,
    /// Numbers of simultaneous replies.
    pub streams: Vec<u32>,
}

/// Measures a language model in this process.
pub async fn run(config: LocalConfig, load: Load) -> anyhow::Result<Value> {
    let most = load.streams.iter().copied().max().unwrap_or(0);
    if most == 0 || load.streams.contains(&0) || load.tokens < 2 {
        bail!("expected at least one reply at once, of at least two tokens");
    }
    let LocalConfig { device, precision, threads, .. } = config;
    let measuring = move || {
        let precision = precision.of_decoder(device);
        Roofline::measure(device, precision, threads as usize).map(|roofline| (precision, roofline))
    };
    let (precision, roofline) = tokio::task::spawn_blocking(measuring).await??;
    let generator = LocalGenerator::load(&LocalConfig { replies: most, ..config }).await?;
    let parameters = generator.parameters() as f64;
    let bytes = match precision {
        Precision::Float32 => 4.0,
        Precision::BFloat16 => 2.0,
    };
    // Each token takes a multiplication and an addition with each weight, and each step reads all
    // weights.
    let most_read = roofline.flops / (2.0 * parameters);
    let most_said = roofline.bytes_per_second / (bytes * parameters);
    // The first reply warms up.
    reply(&generator, 0, 8, 2).await?;
    let mut reads = Vec::new();
    for seed in 1..=3 {
        let said = reply(&generator, seed, load.words, 1).await?;
        reads.push(said.generated.usage.prompt_tokens as f64 / said.took());
    }
    let mut streams = Vec::new();
    for at_once in &load.streams {
        streams.push(replies(&generator, *at_once, &load).await?);
    }
    let read = median(reads);
    Ok(json!({
        "model": generator.identity().model,
        "device": String::from(device),
        "precision": precision,
        "threads": threads,
        "parameters": generator.parameters(),
        "machine": {
            "gflops": roofline.flops / 1e9,
            "gigabytes_per_second": roofline.bytes_per_second / 1e9,
        },
        "at_most": { "read_tokens_per_second": most_read, "steps_per_second": most_said },
        "read_tokens_per_second": read,
        "read_share": read / most_read,
        "streams": streams,
    }))
}

/// Measures several replies that begin together.
async fn replies(generator: &LocalGenerator, at_once: u32, load: &Load) -> anyhow::Result<Value> {
    let together = async |words: usize| {
        let began = Instant::now();
        let seeds = (0..at_once).map(|stream| 100 + stream as usize);
        let replies = seeds.map(|seed| reply(generator, seed, words, load.tokens));
        let replies = try_join_all(replies).await?;
        let took = began.elapsed().as_secs_f64();
        let said: u64 = replies.iter().map(|said| said.generated.usage.completion_tokens).sum();
        Ok::<_, Error>((replies, said as f64 / took))
    };
    let (_, said) = together(FEW_WORDS).await?;
    let (replies, with_prompts) = together(load.words).await?;
    let mut waits: Vec<f64> = replies.iter().map(|said| said.until(said.first)).collect();
    waits.sort_by(f64::total_cmp);
    let mut times: Vec<f64> = replies.iter().map(Said::took).collect();
    times.sort_by(f64::total_cmp);
    Ok(json!({
        "replies": at_once,
        "said_tokens_per_second": said,
        "with_prompts": {
            "said_tokens_per_second": with_prompts,
            "first_token_seconds": {
                "median": percentile(&waits, 0.5),
                "slowest": percentile(&waits, 1.0),
            },
            "reply_seconds": {
                "fastest": percentile(&times, 0.0),
                "slowest": percentile(&times, 1.0),
            },
        },
    }))
}

/// Reply with the times at which its tokens arrived.
struct Said {
    began: Instant,
    first: Instant,
    last: Instant,
    generated: Generated,
}

impl Said {
    fn until(&self, moment: Instant) -> f64 {
        moment.duration_since(self.began).as_secs_f64()
    }

    fn took(&self) -> f64 {
        self.until(self.last)
    }
}

async fn reply(
    generator: &LocalGenerator,
    seed: usize,
    words: usize,
    max_tokens: u32,
) -> Result<Said, Error> {
    let words: Vec<String> =
        (0..words).map(|word| format!("{}", (seed * 31 + word) % 10)).collect();
    let request = GenerationRequest {
        messages: vec![ChatMessage { role: ChatRole::User, text: words.join(" ") }],
        max_tokens,
        ..GenerationRequest::default()
    };
    let began = Instant::now();
    let mut first = None;
    let mut hear = |heard: Heard<'_>| {
        if let Heard::Text(_) = heard {
            first.get_or_insert_with(Instant::now);
        }
    };
    let generated = generator.generate(&request, began + PATIENCE, &mut hear).await?;
    let last = Instant::now();
    Ok(Said { began, first: first.unwrap_or(last), last, generated })
}
