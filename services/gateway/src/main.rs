//! `clew-gateway`: the front node of a cluster.

use std::process::ExitCode;

use clew_cluster::Role;
use clew_console::ConsoleConfig;
use clew_gateway::GatewayConfig;
use clew_http::HttpConfig;
use clew_mcp::McpConfig;
use clew_remote::RemoteEncoderConfig;
use serde::{Deserialize, Serialize};

/// Configuration of the role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Config {
    gateway: GatewayConfig,
    http: HttpConfig,
    mcp: McpConfig,
    console: ConsoleConfig,
    remote_encoder: RemoteEncoderConfig,
}

fn main() -> ExitCode {
    clew_node::service_main(|node, config: Config| {
        clew_node::run(node, [Role::Gateway].into(), async move |node, mut server| {
            let Config { gateway, http, mcp, console, remote_encoder } = config;
            let stop = clew_gateway::start(
                &node,
                &mut server,
                gateway,
                http,
                mcp,
                console,
                remote_encoder,
            );
            let stops = stop.await?.into_iter().collect();
            Ok((server, stops))
        })
    })
}
