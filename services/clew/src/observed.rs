//! Runs a command with what it tells about itself.

use clew_telemetry::Logging;

use crate::cli::{Cli, Command};
use crate::output::Output;

/// Runs the command. What it told is sent before this returns.
pub async fn run(cli: Cli, output: &Output) -> anyhow::Result<()> {
    let global = &cli.global;
    let logging = Logging { filter: &global.log, format: global.log_format() };
    let program = program(&cli.command);
    // What the doctor looks at may be broken, the configuration first.
    let config = global.config.as_deref().filter(|_| !matches!(cli.command, Command::Doctor));
    let telemetry = clew_node::observed(config, &program, logging)?;
    let ended = Box::pin(crate::run(cli, output)).await;
    telemetry.stop().await;
    ended
}

/// What traces call this process: a server by its roles, and whoever asks one.
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
