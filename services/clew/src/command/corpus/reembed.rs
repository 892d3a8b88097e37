//! Moving a corpus to another embedding model.

use std::time::{Duration, Instant};

use clap::Subcommand;
use clew_core::{CorpusName, ErrorKind};
use clew_proto::corpus::v1 as wire;
use serde_json::{Value, json};
use wire::{ReembedStep as Step, ReembeddingPhase as Phase};

use crate::connection::Connection;
use crate::output::Output;
use crate::progress::Progress;

/// Steps of moving to another embedding model. Each may be run again.
#[derive(Debug, Subcommand)]
pub enum ReembedAction {
    /// Begin to make vectors of another model, besides those that are searched.
    Start {
        /// Name of the corpus.
        name: CorpusName,
        /// Name of the model, which the encoders must offer [default: the one that they offer
        /// besides the model of the corpus].
        #[arg(long, value_name = "MODEL")]
        to: Option<String>,
        /// Wait until all documents have vectors of the new model.
        #[arg(long)]
        wait: bool,
    },
    /// Show the progress.
    Status {
        /// Name of the corpus.
        name: CorpusName,
        /// Wait until all documents have the vectors that are wanted.
        #[arg(long)]
        wait: bool,
    },
    /// Search the vectors of the new model, once all documents have them. Vectors of the old model
    /// are kept, also for new documents.
    CutOver {
        /// Name of the corpus.
        name: CorpusName,
    },
    /// Search the vectors of the old model again.
    Back {
        /// Name of the corpus.
        name: CorpusName,
    },
    /// Remove the vectors of the old model. After that, only another move leads back.
    Confirm {
        /// Name of the corpus.
        name: CorpusName,
    },
    /// Remove the vectors of the new model, before the cut-over.
    Abandon {
        /// Name of the corpus.
        name: CorpusName,
    },
}

/// Interval between two requests for the progress.
const LOOK: Duration = Duration::from_millis(500);
/// Maximum time to wait for a server that is unavailable.
const PATIENCE: Duration = Duration::from_secs(120);

/// Takes a step, or reports the progress of the corpus.
pub async fn run(
    connection: &Connection,
    action: ReembedAction,
    output: &Output,
) -> anyhow::Result<()> {
    let (name, step, model, wait) = match action {
        ReembedAction::Start { name, to, wait } => (name, Some(Step::Start), to, wait),
        ReembedAction::Status { name, wait } => (name, None, None, wait),
        ReembedAction::CutOver { name } => (name, Some(Step::CutOver), None, false),
        ReembedAction::Back { name } => (name, Some(Step::Back), None, false),
        ReembedAction::Confirm { name } => (name, Some(Step::Confirm), None, false),
        ReembedAction::Abandon { name } => (name, Some(Step::Abandon), None, false),
    };
    let mut told = match step {
        Some(step) => {
            let model = model.unwrap_or_default();
            let taken = connection.client.reembed_corpus(&name, step, &model).await?;
            Told { corpus: taken.corpus.unwrap_or_default(), progress: taken.progress }
        }
        None => look(connection, &name).await?,
    };
    if wait {
        told = until_complete(connection, &name).await?;
    }
    output.print(&told.document(), |_| told.text())?;
    match told.set_aside() {
        Some(set_aside) if wait => anyhow::bail!(
            "{set_aside} documents are set aside, as they failed too often: see `clew status --corpus {name}`; \
             ingest them again or forget them"
        ),
        _ => Ok(()),
    }
}

/// Corpus with the progress of its reembedding.
struct Told {
    corpus: wire::Corpus,
    progress: Option<wire::ReembeddingProgress>,
}

async fn look(connection: &Connection, name: &CorpusName) -> Result<Told, clew_core::Error> {
    let told = connection.client.reembedding(name).await?;
    Ok(Told { corpus: told.corpus.unwrap_or_default(), progress: told.progress })
}

/// Waits until every document is done or set aside.
async fn until_complete(connection: &Connection, name: &CorpusName) -> anyhow::Result<Told> {
    let mut progress = Progress::new("embedded");
    let mut unanswered_since = None;
    loop {
        match look(connection, name).await {
            Ok(told) => {
                unanswered_since = None;
                if let Some(counts) = told.counts() {
                    let done = counts.documents.saturating_sub(counts.outdated);
                    progress.set(done, counts.documents, "documents");
                }
                let is_complete = told.progress.is_some_and(|progress| progress.complete);
                if is_complete || told.set_aside().is_some() {
                    progress.finish();
                    return Ok(told);
                }
            }
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let since: Instant = *unanswered_since.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl Told {
    /// Returns the counts of documents, once all shards have counted them for the last step.
    fn counts(&self) -> Option<wire::ReembeddingCounts> {
        self.progress.filter(|progress| progress.heard)?.counts
    }

    /// Returns the number of documents that are set aside, if no others are left.
    fn set_aside(&self) -> Option<u64> {
        let counts = self.counts()?;
        (counts.outdated > 0 && counts.outdated == counts.set_aside).then_some(counts.set_aside)
    }

    fn document(&self) -> Value {
        let progress = self.progress.unwrap_or_default();
        let encoder = self.corpus.encoder.as_ref();
        json!({
            "corpus": self.corpus.name,
            "model": encoder.map(|encoder| &encoder.model),
            "reembedding": self.corpus.reembedding.as_ref().map(document),
            "heard": progress.heard,
            "complete": progress.complete,
            "documents": progress.counts.map(|counts| counts.documents),
            "outdated": progress.counts.map(|counts| counts.outdated),
            "set_aside": progress.counts.map(|counts| counts.set_aside),
        })
    }

    fn text(&self) -> String {
        let name = &self.corpus.name;
        let model = model(self.corpus.encoder.as_ref());
        let moves = under_way(&self.corpus)
            .unwrap_or_else(|| format!("searched by `{model}`, no move is under way"));
        let left = match (self.progress, self.counts()) {
            (None, _) => "not all shards answer".to_owned(),
            (Some(progress), _) if progress.complete => {
                "all documents have their vectors".to_owned()
            }
            (_, Some(counts)) => format!(
                "{} of {} documents lack vectors, {} of them are set aside",
                counts.outdated, counts.documents, counts.set_aside
            ),
            (Some(progress), None) if progress.heard => "not all documents have vectors".to_owned(),
            (Some(_), None) => "not all shards have heard of it yet".to_owned(),
        };
        format!("{name}: {moves}; {left}")
    }
}

/// Returns a reembedding as JSON.
pub fn document(reembedding: &wire::Reembedding) -> Value {
    let phase = reembedding.phase().as_str_name().trim_start_matches("REEMBEDDING_PHASE_");
    json!({
        "phase": phase.to_lowercase(),
        "other_model": model(reembedding.other.as_ref()),
        "first_model": model(reembedding.first.as_ref()),
        "number": reembedding.number,
    })
}

/// Describes a reembedding that is under way.
pub fn under_way(corpus: &wire::Corpus) -> Option<String> {
    let reembedding = corpus.reembedding.as_ref()?;
    let (searched, other) = (model(corpus.encoder.as_ref()), model(reembedding.other.as_ref()));
    match reembedding.phase() {
        Phase::Filling => Some(format!(
            "searched by `{searched}`, vectors of `{other}` are made beside; next: cut-over or abandon"
        )),
        Phase::CutOver => Some(format!(
            "searched by `{searched}`, vectors of `{other}` are kept beside; next: confirm or back"
        )),
        Phase::Confirmed | Phase::Abandoned | Phase::Unspecified => None,
    }
}

fn model(encoder: Option<&wire::EncoderIdentity>) -> String {
    encoder.map(|encoder| encoder.model.clone()).unwrap_or_default()
}
