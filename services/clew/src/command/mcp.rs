//! Command `clew mcp`.

use clap::Args;
use clew_core::CorpusName;
use clew_mcp::McpServer;
use clew_node::Signals;

use crate::args::global::GlobalArgs;
use crate::config::ClewConfig;
use crate::connection::{Connection, PATIENCE};

/// Arguments of `mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Corpus to which the agent is restricted [default: all that there are].
    #[arg(long)]
    pub corpus: Option<CorpusName>,
}

/// Answers an agent until it closes standard input, or the process is told to end.
pub async fn run(global: &GlobalArgs, arguments: McpArgs) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let config = ClewConfig::load(global, None)?.roles.mcp;
    let Some(opened) = signals.unless_told(Box::pin(Connection::open(global))).await else {
        return Ok(());
    };
    let connection = opened?;
    let mut server = McpServer::new(connection.client.services(), config).waiting_at_most(PATIENCE);
    if let Some(corpus) = arguments.corpus {
        server = server.restricted_to(corpus);
    }
    let served = signals.unless_told(Box::pin(clew_mcp::serve_stdio(server))).await;
    connection.close().await?;
    Ok(served.unwrap_or(Ok(()))?)
}
