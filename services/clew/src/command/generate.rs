//! Command `clew generate`.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use clew_core::{
    ChatMessage, ChatRole, Error, Finish, GenerationRequest, Generator, Heard, ReplyFormat,
    Sampling,
};
use clew_generator::LocalGenerator;
use clew_generator::config::{DeviceChoice, LocalConfig, PrecisionChoice};
use serde_json::json;

use crate::args::global::GlobalArgs;
use crate::output::Output;

/// Arguments of `generate`. Here, the global `--model` names the folder of the language model.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Prompt; `-` reads it from standard input.
    pub prompt: String,
    /// System message that precedes the prompt.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Folder of the tokenizer, if it is not the model's.
    #[arg(long, value_name = "DIR")]
    pub tokenizer: Option<PathBuf>,
    /// Device to compute on: `cpu`, or in builds for GPUs `cuda:0` or `vulkan:0`.
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    pub device: DeviceChoice,
    /// Keep the model in bfloat16 instead of 32-bit floats. On a GPU that has it, that is the
    /// default.
    #[arg(long)]
    pub bf16: bool,
    /// Maximum number of tokens of the reply.
    #[arg(long, default_value_t = 256, value_name = "COUNT")]
    pub max_tokens: u32,
    /// Temperature of sampling, at most 2: 0 takes the likeliest token, higher values let less
    /// likely tokens through.
    #[arg(long, default_value_t = 0.0)]
    pub temperature: f32,
    /// Sample only from the likeliest tokens that together have this probability.
    #[arg(long, default_value_t = 1.0)]
    pub top_p: f32,
    /// Sample only from this many of the likeliest tokens; 0 means all.
    #[arg(long, default_value_t = 0)]
    pub top_k: u32,
    /// Divide the likelihood of tokens that occurred before by this number.
    #[arg(long, default_value_t = 1.0)]
    pub repetition_penalty: f32,
    /// Seed of the random choices, which makes a reply repeatable.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Text that ends the reply; may be given up to four times.
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Reply to choose from; may be repeated.
    #[arg(long, value_name = "TEXT", conflicts_with = "schema")]
    pub choice: Vec<String>,
    /// File with a JSON schema that the reply has to match.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
}

/// Bound against a device that hangs, not an estimate.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of bytes of a prompt on standard input.
const MOST_BYTES: u64 = 16 << 20;

/// Lets a model reply. An interrupt (SIGINT) ends the reply where it is.
pub async fn run(
    global: &GlobalArgs,
    arguments: GenerateArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let request = request(&arguments)?;
    request.check()?;
    let precision = if arguments.bf16 { PrecisionChoice::BFloat16 } else { PrecisionChoice::Auto };
    let local = LocalConfig {
        tokenizer: arguments.tokenizer,
        device: arguments.device,
        precision,
        ..LocalConfig::of(language_model(global)?)
    };
    let generator = LocalGenerator::load(&local).await?;
    let streams = !output.is_json();
    let mut text = String::new();
    let mut heard = |heard: Heard<'_>| {
        let Heard::Text(more) = heard else { return };
        text.push_str(more);
        if streams {
            // A reader that has closed standard output is only noticed when the reply has ended.
            let mut out = std::io::stdout().lock();
            drop(out.write_all(more.as_bytes()).and_then(|()| out.flush()));
        }
    };
    let deadline = Instant::now() + PATIENCE;
    let replied = tokio::select! {
        replied = generator.generate(&request, deadline, &mut heard) => Some(replied?),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("no signal handler could be set")?;
            None
        }
    };
    if streams {
        writeln!(std::io::stdout()).context("standard output is closed")?;
    }
    let Some(replied) = replied else {
        anyhow::bail!("interrupted; the reply is not complete");
    };
    let usage = replied.usage;
    let finish = match replied.finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
    };
    let seconds = usage.took.as_secs_f64();
    if streams {
        if std::io::stderr().is_terminal() {
            eprintln!(
                "{} tokens read, {} said in {seconds:.1} s ({finish})",
                usage.prompt_tokens, usage.completion_tokens
            );
        }
        return Ok(());
    }
    let document = json!({
        "text": replied.text,
        "finish": finish,
        "model": replied.model,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "seconds": seconds,
    });
    output.print(&document, |_| String::new())
}

/// Returns the folder that --model names.
pub fn language_model(global: &GlobalArgs) -> Result<PathBuf, Error> {
    global.model.clone().ok_or_else(|| {
        Error::invalid("model", "expected the folder of a language model, --model DIR, got none")
    })
}

fn request(arguments: &GenerateArgs) -> anyhow::Result<GenerationRequest> {
    let mut prompt = arguments.prompt.clone();
    if prompt == "-" {
        prompt.clear();
        std::io::stdin()
            .take(MOST_BYTES)
            .read_to_string(&mut prompt)
            .context("expected text in UTF-8 on standard input")?;
    }
    let format = match (&arguments.schema, arguments.choice.as_slice()) {
        (None, []) => ReplyFormat::Text,
        (None, choices) => ReplyFormat::Choice(choices.to_vec()),
        (Some(file), _) => {
            let schema = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read the schema `{}`", file.display()))?;
            ReplyFormat::JsonSchema(schema)
        }
    };
    let said = |role, text: String| ChatMessage { role, text };
    let system = arguments.system.clone().map(|text| said(ChatRole::System, text));
    Ok(GenerationRequest {
        messages: system.into_iter().chain([said(ChatRole::User, prompt)]).collect(),
        max_tokens: arguments.max_tokens,
        sampling: Sampling {
            temperature: arguments.temperature,
            top_p: arguments.top_p,
            top_k: arguments.top_k,
            repetition_penalty: arguments.repetition_penalty,
            seed: arguments.seed,
        },
        stop: arguments.stop.clone(),
        format,
        most_calls: None,
    })
}
