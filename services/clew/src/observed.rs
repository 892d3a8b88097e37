//! Running a command with logs, traces and metrics.

use clew_telemetry::Logging;

use crate::cli::{Cli, Command};
use crate::output::Output;

/// Runs the command. Its telemetry is sent before this returns.
pub async fn run(cli: Cli, output: &Output) -> anyhow::Result<()> {
    let global = &cli.global;
    let logging = Logging { filter: &global.log, format: global.log_format() };
    let program = program(&cli.command);
    // What the doctor examines may be broken, the configuration first of all.
    let config = global.config.as_deref().filter(|_| !matches!(cli.command, Command::Doctor));
    let telemetry = clew_node::observed(config, &program, logging)?;
    let ended = Box::pin(crate::run(cli, output)).await;
    telemetry.stop().await;
    ended
}

/// Returns the name of this process in traces: a server has the names of its roles.
fn program(command: &Command) -> String {
    match command {
        Command::Serve(serve) if serve.roles.is_empty() => "clew".to_owned(),
        Command::Serve(serve) => {
            let roles: Vec<&str> = serve.roles.iter().map(|role| role.as_str()).collect();
            format!("clew-{}", roles.join("-"))
        }
        _ => "clew-cli".to_owned(),
    }
}
