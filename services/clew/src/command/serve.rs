//! Command `clew serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use clew_auth::Guard;
use clew_cluster::{Quotas, Role};
use clew_gateway::HttpListener;
use clew_node::Signals;
use clew_telemetry::{Admin, Health, ProcessPhase};
use clew_tls::{ConnectionLimits, Tls, incoming};
use tokio::net::TcpListener;

use crate::args::global::GlobalArgs;
use crate::config::{ClewConfig, RolesConfig};
use crate::node::RunningNode;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:7421]; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Roles of this node in a cluster, with commas between them: gateway, retriever, encoder,
    /// graph-builder, generator. The node reaches the other roles through the configured cluster
    /// (`cluster.redis`, `cluster.members` or `cluster.services`). Without this option, all roles
    /// run here and no cluster is needed.
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    pub roles: Vec<Role>,
    /// Print the effective configuration and end.
    #[arg(long)]
    pub print_config: bool,
}

/// Runs the server until it is told to end.
pub async fn run(global: &GlobalArgs, arguments: ServeArgs) -> anyhow::Result<()> {
    let config = ClewConfig::load(global, arguments.listen)?;
    if arguments.print_config {
        let rendered = clew_runtime::config::render(&config)?;
        return std::io::Write::write_all(&mut std::io::stdout(), rendered.as_bytes())
            .context("standard output is closed");
    }
    if !arguments.roles.is_empty() {
        return Ok(
            Box::pin(crate::roles::run(config, arguments.roles.into_iter().collect())).await?
        );
    }
    let mut signals = Signals::listen()?;
    let listen = &config.node.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("cannot listen on `{listen}`; choose another address with --listen")
    })?;
    let address = listener.local_addr()?;
    clew_node::may_listen("listen", address, &config.node.tls, &config.node.auth)?;
    let http = HttpListener::bind(config.roles.http.clone(), beside(listen)).await?;
    if let Some(http) = &http {
        let (tls, auth) = (&config.node.tls, &config.node.auth);
        clew_node::may_listen("http.listen", http.address(), tls, auth)?;
    }
    let tls = Tls::load(&config.node.tls, []).await?;
    let guard = Guard::start(&config.node.auth, tls.is_some(), Quotas::local()).await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let health = Health::default();
    // Before models load, so that whoever waits for the server sees that it starts.
    let admin = Admin::start(&config.node.admin, &health).await?;
    if let Some(admin) = &admin {
        eprintln!("metrics and health on http://{}", admin.address());
    }
    let starting = Box::pin(RunningNode::start(&config));
    let Some(started) = signals.unless_told(starting).await else { return Ok(()) };
    let node = started?;
    node.watch(&health);
    let server = clew_gateway::router(node.backends.clone(), guard).await?;
    let RolesConfig { mcp, console, .. } = &config.roles;
    let stop_http = http
        .map(|http| http.start(server.services(), tls.clone(), *mcp, console, false))
        .transpose()?;
    health.enter(ProcessPhase::Serving);
    node.models.reader.prepare();

    // Tests and scripts wait for this line.
    eprintln!("listening on {scheme}://{address}");
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut wait = stopped.clone();
    let mut serving = tokio::spawn(server.serve(
        incoming(listener, tls, ConnectionLimits::default()),
        async move {
            drop(wait.wait_for(|stopped| *stopped).await);
        },
    ));
    tokio::select! {
        () = signals.told() => {}
        ended = &mut serving => return Ok(ended??),
    }
    eprintln!("shutting down: finishing what was accepted");
    health.enter(ProcessPhase::Draining);
    stop.send_replace(true);
    let patience = config.node.shutdown();
    // Streams of clients that stay are cut when the time is up. What was acknowledged is safe.
    let deadline = Instant::now() + patience / 2;
    let http = async {
        match stop_http {
            Some(stop) => stop(deadline).await.is_ok(),
            None => true,
        }
    };
    let grpc = tokio::time::timeout_at(deadline.into(), &mut serving);
    let (http, grpc) = tokio::join!(http, grpc);
    let drained = http && grpc.is_ok();
    serving.abort();
    node.stop().await?;
    eprintln!("{}", if drained { "ended gracefully" } else { "ended; some clients were cut off" });
    Ok(())
}

/// Returns the address for HTTP if none is configured: on this machine alone, at the port after
/// that of `listen`, or at a free one if that is free as well.
fn beside(listen: &str) -> Option<SocketAddr> {
    let port = match listen.rsplit_once(':')?.1.parse::<u16>().ok()? {
        0 => 0,
        port => port.checked_add(1)?,
    };
    Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_beside_grpc() {
        let address = |listen| beside(listen).map(|address| address.to_string());
        assert_eq!(address("127.0.0.1:7421").as_deref(), Some("127.0.0.1:7422"));
        assert_eq!(address("0.0.0.0:80").as_deref(), Some("127.0.0.1:81"));
        assert_eq!(address("[::1]:0").as_deref(), Some("127.0.0.1:0"));
        assert_eq!([address("localhost"), address("a:65535"), address("a:b")], [None, None, None]);
    }
}
