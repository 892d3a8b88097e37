//! `clew-loadtest`: runs scenarios against a server and checks what they expect.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use clew_loadtest::{ClientKey, LocalServer, Observed, Report, RunPlan, Scenario, Target, report};
use clew_tls::ClientTls;
use tokio::sync::watch;

/// Measure a Clew server under load that does not wait for its answers.
///
/// Each scenario creates corpora whose facts are known. It sends requests at fixed rates, whether
/// or not earlier ones are answered, and judges the answers. The report has latencies from when
/// each request was due, what was refused, and which expectations hold.
///
/// The exit status is 0 if all expectations hold, 1 if not, and 2 if a scenario could not run.
#[derive(Debug, Parser)]
#[command(name = "clew-loadtest", version, max_term_width = 100)]
struct Cli {
    /// Scenario files (TOML); loadtest/scenarios has some.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    look: LookOptions,
    #[command(flatten)]
    run: RunOptions,
}

/// Server to test.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
struct ServerOptions {
    /// Address of the server to test.
    #[arg(
        long,
        env = "CLEW_ENDPOINT",
        value_name = "ADDRESS",
        default_value = "http://127.0.0.1:7421"
    )]
    endpoint: String,
    /// API key of tenants whose scenario names no variable for their own.
    #[arg(long, env = "CLEW_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Certificate (PEM) of the authority that certifies a server at an https:// address [default:
    /// those that this system trusts].
    #[arg(long, env = "CLEW_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate (PEM) to show a server that asks for one.
    #[arg(long, env = "CLEW_CLIENT_CERTIFICATE", value_name = "FILE", requires = "client_key")]
    client_certificate: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    #[arg(long, env = "CLEW_CLIENT_KEY", value_name = "FILE", requires = "client_certificate")]
    client_key: Option<PathBuf>,
    /// Start this program (`clew`) with `serve` instead, configured as the scenario says, on a new
    /// and empty data directory for each scenario.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "endpoint")]
    serve: Option<PathBuf>,
}

/// Parts of the server to observe during a run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What to look at meanwhile")]
struct LookOptions {
    /// Admin address of a node, whose /metrics are read before and after each phase; may be
    /// repeated.
    #[arg(long, value_name = "ADDRESS")]
    admin: Vec<String>,
    /// Process id of the server on this machine, whose memory is observed; may be repeated.
    #[arg(long, value_name = "ID")]
    pid: Vec<u32>,
    /// Data directory of the server on this machine, whose files are counted.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Settings of the runs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run")]
struct RunOptions {
    /// Seed of arrivals, texts and questions [default: that of the scenario].
    #[arg(long)]
    seed: Option<u64>,
    /// Multiply all rates by this factor.
    #[arg(long, value_name = "FACTOR")]
    rates: Option<f64>,
    /// Delete existing corpora with the scenario's names first.
    #[arg(long)]
    replace: bool,
    /// Keep the scenario's corpora after the run.
    #[arg(long)]
    keep: bool,
    /// Folder for reports: for each scenario an HTML page, JSON, text, and the log of a server that
    /// was started.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the reports as JSON, one document per line, instead of text.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: threads could not be started: {error}");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(run_all(&cli)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the scenarios one after the other. Returns whether all expectations hold.
async fn run_all(cli: &Cli) -> anyhow::Result<bool> {
    let mut scenarios = Vec::new();
    // All scenarios are read before the first begins, so that errors show early.
    for path in &cli.scenarios {
        let mut scenario = Scenario::load(path).map_err(|error| anyhow::anyhow!(error.chain()))?;
        if let Some(factor) = cli.run.rates {
            scenario.scale_rates(factor).map_err(|error| anyhow::anyhow!(error.chain()))?;
        }
        scenario.seed = cli.run.seed.unwrap_or(scenario.seed);
        scenarios.push((path, scenario));
    }
    if let Some(folder) = &cli.run.out {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        let mut interrupts = 0;
        while tokio::signal::ctrl_c().await.is_ok() {
            interrupts += 1;
            if interrupts > 1 {
                std::process::exit(130);
            }
            eprintln!("stopping; again to leave at once, without a report");
            stop.send_replace(true);
        }
    });
    let mut holds = true;
    for (path, scenario) in scenarios {
        if *stopped.borrow() {
            return Ok(false);
        }
        let name =
            path.file_stem().map_or_else(|| "scenario".into(), |stem| stem.to_string_lossy());
        eprintln!("{}: at most {} s after preparation", name, scenario.most_time().as_secs());
        let report = run_one(cli, &name, scenario, stopped.clone()).await?;
        holds &= report.holds() && report.ended_early.is_empty();
        publish(cli, &name, &report)?;
    }
    Ok(holds)
}

async fn run_one(
    cli: &Cli,
    name: &str,
    scenario: Scenario,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<Report> {
    let ServerOptions { endpoint, api_key, ca, client_certificate, client_key, serve } =
        &cli.server;
    let LookOptions { admin, pid, data_dir } = &cli.look;
    let api_key = api_key.as_deref().map(ClientKey::new);
    let identity = client_certificate.clone().zip(client_key.clone());
    let tls = ClientTls { ca: ca.clone(), identity };
    let mut target = Target { endpoint: endpoint.clone(), api_key, tls };
    let mut observed =
        Observed { processes: pid.clone(), data_dir: data_dir.clone(), admins: admin.clone() };
    // The server ends when it is dropped after the run.
    let mut local = None;
    if let Some(program) = serve {
        let folder = cli.run.out.clone().unwrap_or_else(std::env::temp_dir);
        let log = folder.join(format!("{name}.server.log"));
        let started = LocalServer::start(program, &scenario.server, &log);
        let server = started.map_err(|error| anyhow::anyhow!(error.chain()))?;
        eprintln!("{name}: {} serves at {}", program.display(), server.endpoint);
        target.endpoint.clone_from(&server.endpoint);
        observed.processes.push(server.id());
        observed.data_dir = Some(server.data_dir());
        observed.admins.extend(server.admin.clone());
        local = Some(server);
    }
    let RunOptions { replace, keep, .. } = cli.run;
    let plan = RunPlan { scenario, target, observed, replace, keep };
    let say = |line: &str| eprintln!("{name}: {line}");
    let ran = Box::pin(clew_loadtest::run(plan, stop, &say)).await;
    drop(local);
    ran.map_err(|error| anyhow::anyhow!(error.chain()))
}

/// Prints a report, and writes it to the folder of reports if there is one.
fn publish(cli: &Cli, name: &str, report: &Report) -> anyhow::Result<()> {
    let json = serde_json::to_string(report).context("a report could not be written as JSON")?;
    let shown = if cli.run.json { format!("{json}\n") } else { format!("{report}\n") };
    std::io::stdout().write_all(shown.as_bytes()).context("standard output is closed")?;
    let Some(folder) = &cli.run.out else { return Ok(()) };
    let write = |path: &Path, content: &str| {
        std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&folder.join(format!("{name}.json")), &json)?;
    write(&folder.join(format!("{name}.txt")), &report.to_string())?;
    let page = folder.join(format!("{name}.html"));
    write(&page, &report::page::render(report))?;
    eprintln!("{name}: the page is {}", page.display());
    Ok(())
}
