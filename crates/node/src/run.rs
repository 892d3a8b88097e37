//! Lifecycle of a node, from its configuration to its shutdown.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use clew_cluster::Role;
use clew_core::{Error, ErrorKind};
use clew_runtime::config::Sources;
use clew_telemetry::{Admin, LogFormat, Logging, ProcessPhase};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::observed::observed;
use crate::{Node, NodeConfig, NodeServer, Signals, may_listen, metrics};

/// A function that stops a role: it hands over what the role owns and finishes accepted work, until
/// the deadline.
pub type Stop =
    Box<dyn FnOnce(Instant) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> + Send>;

/// Runs a node with `roles` until it receives a signal to end ([`Signals`]), also while it starts
/// and waits for other nodes. `start` starts the roles: it adds their services to the server and
/// returns the functions that stop them, in the order in which to call them.
///
/// # Errors
/// Returns the errors of joining and of `start`, and [`ErrorKind::Unavailable`] if the listener
/// fails.
pub async fn run<F>(
    config: NodeConfig,
    roles: BTreeSet<Role>,
    start: impl FnOnce(Arc<Node>, NodeServer) -> F,
) -> Result<(), Error>
where
    F: Future<Output = Result<(NodeServer, Vec<Stop>), Error>>,
{
    let mut signals = Signals::listen()?;
    let listener = TcpListener::bind(&config.listen).await.map_err(|error| {
        let problem = format!("cannot listen on `{}`; choose another address", config.listen);
        Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem).with_source(error)
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Error::internal("the listener has no address").with_source(error))?;
    may_listen("listen", address, &config.tls, &config.auth)?;
    let scheme = if config.tls.is_on() { "https" } else { "http" };
    let patience = config.shutdown();
    let admin = config.admin.clone();
    let joining = Node::join(config, roles, address);
    let Some(joined) = signals.unless_told(joining).await else { return Ok(()) };
    let node = Arc::new(joined?);
    metrics::observe(&node);
    // Before models load, so that probes see a node that is starting.
    let admin = Admin::start(&admin, node.health()).await?;
    if let Some(admin) = &admin {
        eprintln!("metrics and health on http://{}", admin.address());
    }
    let server = NodeServer::new(&node)?;
    // Boxed because the futures that start roles are large.
    let starting = Box::pin(start(Arc::clone(&node), server));
    let Some(started) = signals.unless_told(starting).await else {
        node.leave().await;
        return Ok(());
    };
    let (server, stops) = match started {
        Ok(started) => started,
        Err(error) => {
            node.leave().await;
            return Err(error);
        }
    };
    let (stop, stopped) = watch::channel(false);
    let mut serving = tokio::spawn(server.serve(listener, node.draining(), stopped));
    node.health().enter(ProcessPhase::Serving);
    // Tests and scripts wait for this line.
    eprintln!("listening on {scheme}://{address}");
    tokio::select! {
        () = signals.told() => {}
        ended = &mut serving => {
            return ended.unwrap_or_else(|panic| {
                Err(Error::internal("the server panicked").with_source(panic))
            });
        }
    }
    eprintln!("shutting down: handing over and finishing what was accepted");
    let deadline = Instant::now() + patience;
    node.drain().await;
    let mut gracefully = true;
    for end in stops {
        if let Err(error) = end(deadline).await {
            gracefully = false;
            tracing::warn!(error = error.chain(), "a role was cut short");
        }
    }
    stop.send_replace(true);
    let rest = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
    gracefully &= tokio::time::timeout(rest, &mut serving).await.is_ok();
    serving.abort();
    node.leave().await;
    eprintln!("{}", if gracefully { "ended gracefully" } else { "ended; some work was cut off" });
    Ok(())
}

/// Command line of a service.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Configuration file (TOML). Sections of other services in it are ignored.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Log lines to show: a level, or directives such as `info,clew_retriever=debug`.
    #[arg(long, env = "CLEW_LOG", default_value = "info", value_name = "FILTER")]
    log: String,
    /// Write log lines as JSON.
    #[arg(long)]
    log_json: bool,
    /// Print the effective configuration and exit.
    #[arg(long)]
    print_config: bool,
}

/// Returns the name of this program for traces.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(Path::file_name);
    name.map_or_else(|| "clew".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Configuration keys that the command line sets.
#[derive(Serialize)]
struct Flags {
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,
}

/// Configuration of a service, as `--print-config` shows it.
#[derive(Serialize)]
struct Shown<'a, C> {
    #[serde(flatten)]
    node: &'a NodeConfig,
    #[serde(flatten)]
    role: &'a C,
}

/// Reads the keys of every node and those of a role, `C`. Ignores those of other roles.
fn configuration<C>(file: Option<&Path>, flags: Flags) -> Result<(NodeConfig, C), Error>
where
    C: Default + Serialize + DeserializeOwned,
{
    let sources = Sources::gather(file, flags)?;
    Ok((sources.read()?, sources.read()?))
}

/// Runs the `main` of a service: reads command line and configuration, then runs `serve` with the
/// keys of every node and those of the role, `C`.
pub fn service_main<C, F>(serve: impl FnOnce(NodeConfig, C) -> F) -> ExitCode
where
    C: Default + Serialize + DeserializeOwned,
    F: Future<Output = Result<(), Error>>,
{
    let arguments = Arguments::parse();
    let format = if arguments.log_json { LogFormat::Json } else { LogFormat::Text };
    let flags = Flags { listen: arguments.listen };
    let served = configuration::<C>(arguments.config.as_deref(), flags).and_then(|(node, role)| {
        match arguments.print_config {
            true => {
                let shown = Shown { node: &node, role: &role };
                print(&clew_runtime::config::render(&shown)?)
            }
            false => {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
                let runtime = runtime.map_err(|error| {
                    Error::internal("the asynchronous runtime did not start").with_source(error)
                })?;
                let ended = runtime.block_on(async {
                    let logging = Logging { filter: &arguments.log, format };
                    let telemetry = observed(arguments.config.as_deref(), &program(), logging)?;
                    let ended = Box::pin(serve(node, role)).await;
                    telemetry.stop().await;
                    ended
                });
                clew_runtime::shutdown(runtime);
                ended
            }
        }
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.chain());
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> Result<(), Error> {
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()).map_err(|error| {
        Error::new(ErrorKind::Unavailable, "UNAVAILABLE", "standard output is closed")
            .with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Config {
        role: Section,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Section {
        batch: u32,
    }

    fn configured(text: &str) -> Result<(NodeConfig, Config), Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        configuration(Some(file.path()), Flags { listen: None })
    }

    #[test]
    fn a_wrong_key_is_named_with_its_section_and_source() {
        for (text, key) in [
            ("[cluster]\nheartbeat = 100", "cluster.heartbeat"),
            ("[role]\nbatches = 1", "role.batches"),
        ] {
            let error = configured(text).unwrap_err();
            let message = error.message();
            assert!(message.starts_with(&format!("`{key}`: unknown field")), "{message}");
            assert!(message.ends_with("(TOML file)"), "{message}");
        }
    }

    #[test]
    fn keys_of_other_roles_are_ignored() {
        let (node, config) = configured(
            "[cluster]\nheartbeat_ms = 100\n[role]\nbatch = 2\n[retriever]\nanything = 1\n",
        )
        .unwrap();
        assert_eq!(node.cluster.heartbeat_ms, 100);
        assert_eq!(config, Config { role: Section { batch: 2 } });
    }
}
