//! Configuration section `mcp`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `mcp`: tools for agents, by the Model Context Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpConfig {
    /// Whether the HTTP listener answers agents at `/mcp` and `/mcp/CORPUS`.
    pub enabled: bool,
    /// Whether agents whose key has the scope `write` may forget documents and turns. If not, the
    /// tool `forget` does not exist. An agent that read a hostile text may call any tool that it
    /// has, so turn it on only where somebody confirms what agents do.
    pub forget: bool,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self { enabled: true, forget: false }
    }
}
