//! `clew-memory-encoder`: offers one machine's encoder to other nodes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use clew_core::Error;
use clew_memory_encoder::service::EncoderEndpoint;
use clew_memory_encoder::{EncoderConfig, EncoderPool};
use clew_runtime::logging::{self, LogFormat};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Embeds texts for the other services of a cluster, on this machine's devices.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    /// Configuration file (TOML); --print-config shows all keys.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Folder of the embedding model.
    #[arg(long, env = "CLEW_MODEL_DIR", value_name = "DIR")]
    model: Option<PathBuf>,
    /// Print the effective configuration and end.
    #[arg(long)]
    print_config: bool,
    /// Which log lines to show: a level, or directives such as `info,clew_memory_encoder=debug`.
    #[arg(long, env = "CLEW_LOG", value_name = "FILTER", default_value = "warn")]
    log: String,
    /// Log lines as JSON objects.
    #[arg(long)]
    log_json: bool,
}

/// Everything that can be configured. Defaults < file < environment < flags.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// Address to listen on; port 0 takes a free one.
    listen: String,
    /// Seconds a shutdown may take to finish what was begun, 1 to 3,600.
    shutdown_secs: u64,
    /// Embedding.
    encoder: EncoderConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7431".to_owned(),
            shutdown_secs: 30,
            encoder: EncoderConfig::default(),
        }
    }
}

/// What the command line sets, in the shape of the configuration.
#[derive(Serialize)]
struct Flags {
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoder: Option<EncoderFlags>,
}

#[derive(Serialize)]
struct EncoderFlags {
    model: PathBuf,
}

impl Config {
    fn load(arguments: &Arguments) -> Result<Self, Error> {
        let flags = Flags {
            listen: arguments.listen.clone(),
            encoder: arguments.model.clone().map(|model| EncoderFlags { model }),
        };
        let config: Self = clew_runtime::config::load(arguments.config.as_deref(), flags)?;
        if !(1..=3600).contains(&config.shutdown_secs) {
            let problem = format!("expected 1 to 3600, got {}", config.shutdown_secs);
            return Err(Error::invalid("shutdown_secs", problem));
        }
        config.encoder.validate()?;
        Ok(config)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let format = if arguments.log_json { LogFormat::Json } else { LogFormat::Text };
    logging::start(&arguments.log, format);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = runtime
        .context("the asynchronous runtime did not start")
        .and_then(|runtime| runtime.block_on(run(&arguments)));
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::load(arguments)?;
    if arguments.print_config {
        let rendered = clew_runtime::config::render(&config)?;
        return std::io::Write::write_all(&mut std::io::stdout(), rendered.as_bytes())
            .context("standard output is closed");
    }
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let folder = config.encoder.model.clone().context(
        "no embedding model was named; expected its folder in --model, CLEW_MODEL_DIR or the key \
         `encoder.model`",
    )?;
    let pool = Arc::new(EncoderPool::load(folder, &config.encoder).await?);
    // Only now, so that nobody connects to an encoder that cannot embed yet.
    let listener = TcpListener::bind(&config.listen)
        .await
        .with_context(|| format!("cannot listen on `{}`", config.listen))?;
    let address = listener.local_addr()?;
    let endpoint = EncoderEndpoint::of_pool(Arc::clone(&pool), config.encoder.stream_batches);

    // Tests and scripts wait for this line.
    eprintln!("listening on http://{address}");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut serving = tokio::spawn(async move {
        // A dropped sender stops the server just the same.
        endpoint.serve(listener, async { drop(stopped.await) }).await
    });
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        ended = &mut serving => return Ok(ended??),
    }
    eprintln!("shutting down: finishing what was accepted");
    stop.send(()).ok();
    let patience = Duration::from_secs(config.shutdown_secs);
    let drained = tokio::time::timeout(patience, &mut serving).await.is_ok();
    serving.abort();
    pool.stop().await;
    eprintln!("{}", if drained { "ended gracefully" } else { "ended; some callers were cut off" });
    Ok(())
}
