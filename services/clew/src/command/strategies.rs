//! Command `clew strategies`.

use clap::Args;
use clew_core::CorpusName;
use clew_proto::query::v1 as wire;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::Output;

/// Arguments of `strategies`.
#[derive(Debug, Args)]
pub struct StrategiesArgs {
    /// Corpus to be asked: also show which strategies can answer from it.
    #[arg(long)]
    pub corpus: Option<CorpusName>,
}

/// Lists the strategies of answering: those of a server (--endpoint), or of the corpus that is
/// named, or else of this program, which needs no data.
pub async fn run(
    global: &GlobalArgs,
    arguments: StrategiesArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let corpus = arguments.corpus.as_ref();
    let strategies = if global.endpoint.is_some() || corpus.is_some() {
        let connection = Connection::open(global).await?;
        let listed = connection.client.strategies(corpus).await;
        connection.close().await?;
        listed?
    } else {
        clew_gateway::strategies(None)
    };
    let listed: Vec<Value> = strategies.iter().map(as_json).collect();
    output.print(&json!({ "strategies": listed }), |_| table(&strategies, corpus.is_some()))
}

fn needs(strategy: &wire::Strategy) -> &'static str {
    match strategy.needs() {
        wire::StrategyNeeds::Unspecified => "unknown",
        wire::StrategyNeeds::Chunks => "chunks",
        wire::StrategyNeeds::Tree => "tree",
        wire::StrategyNeeds::Graph => "graph",
    }
}

fn as_json(strategy: &wire::Strategy) -> Value {
    json!({
        "name": strategy.name,
        "does": strategy.description,
        "needs": needs(strategy),
        "cost": strategy.cost,
        "can_run": strategy.can_run,
    })
}

/// Returns the strategies as a table, with whether they can run if that is `told`.
fn table(strategies: &[wire::Strategy], told: bool) -> String {
    let runs = |word: &str| if told { format!("{word:<8} ") } else { String::new() };
    let mut text =
        format!("{:<22} {}{:<7} {:<26} does\n", "name", runs("can run"), "needs", "cost");
    for strategy in strategies {
        let wire::Strategy { name, description, cost, can_run, .. } = strategy;
        let (needs, runs) = (needs(strategy), runs(if *can_run { "yes" } else { "no" }));
        text.push_str(&format!("{name:<22} {runs}{needs:<7} {cost:<26} {description}\n"));
    }
    text
}
