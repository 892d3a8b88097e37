//! Command `clew run`.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::{Args, Subcommand};
use clew_core::{CorpusName, Error, ErrorKind, RUN_NOT_FOUND, RunName};
use clew_proto::ingest::v1 as wire;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::{Output, timestamp};
use crate::progress::Progress;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(subcommand)]
    pub action: RunAction,
}

/// Actions on runs.
#[derive(Debug, Subcommand)]
pub enum RunAction {
    /// Show a run: its stage, what its parts have done, and their problems.
    Show(NamedRun),
    /// List the runs of a corpus, the newest first.
    List {
        /// Name of the corpus.
        #[arg(long)]
        corpus: CorpusName,
    },
    /// Wait until everything that a run accepted can be found; fails if the run fails. Waits also
    /// for a run that has not begun.
    Wait {
        #[command(flatten)]
        run: NamedRun,
        /// Wait at most this many seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
        timeout_secs: u64,
    },
    /// Delete what is kept of a run. Its documents stay.
    Delete(NamedRun),
}

/// A run of a corpus.
#[derive(Debug, Args)]
pub struct NamedRun {
    /// Name of the corpus.
    #[arg(long)]
    pub corpus: CorpusName,
    /// Name of the run.
    #[arg(value_name = "RUN")]
    pub name: RunName,
}

/// Interval between two looks at a run that is waited for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which a server may be away while a run is waited for.
const AWAY_PATIENCE: Duration = Duration::from_secs(60);

/// Shows, lists, waits for or deletes runs.
pub async fn run(global: &GlobalArgs, arguments: RunArgs, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let done = match arguments.action {
        RunAction::Show(run) => show(&connection, &run, output).await,
        RunAction::List { corpus } => list(&connection, &corpus, output).await,
        RunAction::Wait { run, timeout_secs } => {
            wait(&connection, &run, Duration::from_secs(timeout_secs), output).await
        }
        RunAction::Delete(run) => delete(&connection, &run, output).await,
    };
    connection.close().await?;
    done
}

async fn show(connection: &Connection, run: &NamedRun, output: &Output) -> anyhow::Result<()> {
    let found = connection.client.run(&run.corpus, &run.name).await?;
    print(&found, output)
}

async fn list(connection: &Connection, corpus: &CorpusName, output: &Output) -> anyhow::Result<()> {
    let runs = connection.client.runs(corpus).await?;
    let documents: Vec<Value> = runs.iter().map(document).collect();
    output.print(&json!({ "runs": documents }), |_| match runs.is_empty() {
        true => "no run\n".to_owned(),
        false => runs.iter().map(|run| format!("{}\n", line(run))).collect(),
    })
}

async fn delete(connection: &Connection, run: &NamedRun, output: &Output) -> anyhow::Result<()> {
    let NamedRun { corpus, name } = run;
    connection.client.delete_run(corpus, name).await?;
    let shown = json!({ "corpus": corpus, "deleted": name });
    output.print(&shown, |_| format!("deleted run {name}; its documents stay"))
}

async fn wait(
    connection: &Connection,
    run: &NamedRun,
    timeout: Duration,
    output: &Output,
) -> anyhow::Result<()> {
    let found = ended(connection, run, timeout).await?;
    print(&found, output)?;
    let ended = found.run.unwrap_or_default();
    if ended.stage() != wire::RunStage::Failed {
        return Ok(());
    }
    let NamedRun { corpus, name } = run;
    match ended.reported.iter().find(|part| part.stage() == wire::PartStage::Failed) {
        Some(part) => bail!("run `{name}` failed at part {}: {}", part.part, problem(part)),
        None => bail!(
            "documents of run `{name}` could not be indexed; `clew status --corpus {corpus}` says why"
        ),
    }
}

/// Returns a run once it is done or has failed, and shows its progress until then. The server may
/// be away for a while.
async fn ended(
    connection: &Connection,
    run: &NamedRun,
    timeout: Duration,
) -> anyhow::Result<wire::GetRunResponse> {
    let until = Instant::now() + timeout;
    let mut progress = Progress::new("answered");
    let mut away_since = None;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let looked =
            tokio::time::timeout(left, connection.client.run(&run.corpus, &run.name)).await;
        match looked {
            Ok(Ok(found)) => {
                away_since = None;
                let shown = found.run.clone().unwrap_or_default();
                if matches!(shown.stage(), wire::RunStage::Done | wire::RunStage::Failed) {
                    progress.finish();
                    return Ok(found);
                }
                let counts = shown.counts.unwrap_or_default();
                let answered = [counts.unchanged, counts.refused];
                let answered = answered.into_iter().fold(counts.accepted, u64::saturating_add);
                let message = format!(
                    "documents, {} of {} parts ended, {} documents of the corpus pending",
                    shown.ended_parts, shown.parts, found.pending_documents
                );
                progress.set(answered, counts.listed.max(answered), &message);
            }
            Ok(Err(error)) if error.reason() == RUN_NOT_FOUND => {
                away_since = None;
                progress.set(0, 0, "documents, the run has not begun");
            }
            Ok(Err(error)) => {
                let since = *away_since.get_or_insert_with(Instant::now);
                if !error.is_retryable() || since.elapsed() > AWAY_PATIENCE {
                    return Err(error.into());
                }
                tracing::info!(error = error.chain(), "looks again");
            }
            // The time is over, as below.
            Err(_elapsed) => {}
        }
        if Instant::now() + LOOK_INTERVAL >= until {
            let NamedRun { corpus, name } = run;
            let problem = format!(
                "run `{name}` has not ended after {} s; wait again, or see `clew run show --corpus {corpus} {name}`",
                timeout.as_secs()
            );
            let kind = ErrorKind::DeadlineExceeded;
            return Err(Error::new(kind, "DEADLINE_EXCEEDED", problem).into());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Prints a run with its stage and parts.
fn print(found: &wire::GetRunResponse, output: &Output) -> anyhow::Result<()> {
    let run = found.run.clone().unwrap_or_default();
    let mut shown = document(&run);
    shown["stage"] = json!(run_stage(&run));
    shown["pending_documents"] = json!(found.pending_documents);
    shown["reported"] = run.reported.iter().map(part_document).collect();
    output.print(&shown, |_| {
        let mut text = format!("{}: {}\n", run_stage(&run), line(&run));
        for part in &run.reported {
            text.push_str(&format!("  {}\n", part_line(part)));
        }
        let silent = run.parts as usize - run.reported.len().min(run.parts as usize);
        if silent > 0 {
            text.push_str(&format!("  {silent} parts have not begun\n"));
        }
        text
    })
}

fn run_stage(run: &wire::Run) -> String {
    run.stage().as_str_name().trim_start_matches("RUN_STAGE_").to_lowercase()
}

fn part_stage(part: &wire::RunPart) -> String {
    part.stage().as_str_name().trim_start_matches("PART_STAGE_").to_lowercase()
}

/// Returns the problem of a part in words.
fn problem(part: &wire::RunPart) -> &str {
    if part.problem.is_empty() { "it did not say why" } else { &part.problem }
}

fn document(run: &wire::Run) -> Value {
    let fault = run.fault.as_ref();
    json!({
        "run": run.name,
        "parts": run.parts,
        "ended_parts": run.ended_parts,
        "failed_parts": run.failed_parts,
        "listed_all": run.listed_all,
        "counts": counts_document(run.counts),
        "started_at": run.started_at.as_ref().map(timestamp),
        "ended_at": run.ended_at.as_ref().map(timestamp),
        "fault": fault.map(|fault| json!({ "reason": fault.reason, "message": fault.message })),
    })
}

fn part_document(part: &wire::RunPart) -> Value {
    json!({
        "part": part.part,
        "attempts": part.attempts,
        "stage": part_stage(part),
        "listed_all": part.listed_all,
        "counts": counts_document(part.counts),
        "problem": part.problem,
        "started_at": part.started_at.as_ref().map(timestamp),
        "updated_at": part.updated_at.as_ref().map(timestamp),
    })
}

fn counts_document(counts: Option<wire::RunCounts>) -> Value {
    let counts = counts.unwrap_or_default();
    json!({
        "listed": counts.listed,
        "sent": counts.sent,
        "accepted": counts.accepted,
        "unchanged": counts.unchanged,
        "refused": counts.refused,
        "unreadable": counts.unreadable,
        "forgotten": counts.forgotten,
    })
}

fn line(run: &wire::Run) -> String {
    if let Some(fault) = &run.fault {
        return format!("{}: cannot be read: {} [{}]", run.name, fault.message, fault.reason);
    }
    let began = run.started_at.as_ref().map(timestamp).unwrap_or_default();
    let ended = run.ended_at.as_ref().map(|time| format!(", ended {}", timestamp(time)));
    let failed = match run.failed_parts {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    format!(
        "{}, {} of {} parts ended{failed}, {}; began {began}{}",
        run.name,
        run.ended_parts,
        run.parts,
        counts_line(run.counts),
        ended.unwrap_or_default(),
    )
}

fn part_line(part: &wire::RunPart) -> String {
    let told = part.updated_at.as_ref().map(timestamp).unwrap_or_default();
    let again = match part.attempts {
        0 | 1 => String::new(),
        attempts => format!(", attempt {attempts}"),
    };
    let mut line = format!(
        "part {}: {}{again}, {}; last report {told}",
        part.part,
        part_stage(part),
        counts_line(part.counts)
    );
    if part.stage() == wire::PartStage::Failed || !part.problem.is_empty() {
        line.push_str(&format!("; {}", problem(part)));
    }
    line
}

fn counts_line(counts: Option<wire::RunCounts>) -> String {
    let counts = counts.unwrap_or_default();
    format!(
        "{} listed, {} sent, {} accepted, {} unchanged, {} refused, {} unreadable, {} forgotten",
        counts.listed,
        counts.sent,
        counts.accepted,
        counts.unchanged,
        counts.refused,
        counts.unreadable,
        counts.forgotten
    )
}
