//! Service of one agent over standard input and output.

use clew_core::{Error, ErrorKind};
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;

use crate::server::McpServer;

/// Answers the agent at the other end of standard input and output until it closes its end.
/// Nothing else may be written to standard output meanwhile.
///
/// # Errors
/// Returns [`ErrorKind::InvalidInput`] if what comes first is not of the protocol.
pub async fn serve_stdio(server: McpServer) -> Result<(), Error> {
    let serving = match Box::pin(server.serve(stdio_pipes())).await {
        Ok(serving) => serving,
        // The agent went before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => {
            let problem = "expected messages of the Model Context Protocol on standard input; let an agent start this command";
            return Err(Error::new(ErrorKind::InvalidInput, "NOT_MCP", problem).with_source(error));
        }
    };
    serving.waiting().await.map(drop).map_err(|error| {
        Error::internal("the task that serves the agent ended early").with_source(error)
    })
}
