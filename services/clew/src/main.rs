//! `clew`: the command line, and the server with all roles in one process.

mod args;
mod cli;
mod command;
mod config;
mod connection;
mod default_model;
mod node;
mod observed;
mod output;
mod patience;
mod progress;
mod roles;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::output::Output;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.global.json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.error(
                &anyhow::Error::new(error).context("the asynchronous runtime did not start"),
            );
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(observed::run(cli, &output));
    clew_runtime::shutdown(runtime);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli, output: &Output) -> anyhow::Result<()> {
    let global = cli.global;
    match cli.command {
        Command::Serve(arguments) => Box::pin(command::serve::run(&global, arguments)).await,
        Command::Corpus(arguments) => command::corpus::run(&global, arguments, output).await,
        Command::Doctor => command::doctor::run(&global, output).await,
        Command::Ingest(arguments) => {
            Box::pin(command::ingest::run(&global, arguments, output)).await
        }
        Command::Run(arguments) => command::run::run(&global, arguments, output).await,
        Command::Search(arguments) => command::search::run(&global, arguments, output).await,
        Command::Ask(arguments) => command::ask::run(&global, arguments, output).await,
        Command::Strategies(arguments) => {
            command::strategies::run(&global, arguments, output).await
        }
        Command::Trace(arguments) => command::trace::run(&arguments),
        Command::Memory(arguments) => command::memory::run(&global, arguments, output).await,
        Command::Tree(arguments) => command::tree::run(&global, arguments, output).await,
        Command::Graph(arguments) => command::graph::run(&global, arguments, output).await,
        Command::Outline(arguments) => command::outline::run(&global, arguments, output).await,
        Command::Generate(arguments) => command::generate::run(&global, arguments, output).await,
        Command::Chat(arguments) => command::chat::run(&global, arguments, output).await,
        Command::TrainMemory(arguments) => {
            command::train_memory::run(&global, arguments, output).await
        }
        Command::List(arguments) => command::list::run(&global, arguments, output).await,
        Command::Forget(arguments) => command::forget::run(&global, arguments, output).await,
        Command::Status(arguments) => command::status::run(&global, arguments, output).await,
        Command::Document(arguments) => command::document::run(&global, arguments, output).await,
        Command::Whoami => command::whoami::run(&global, output).await,
        Command::Check(arguments) => command::check::run(&global, arguments, output).await,
        Command::Config(arguments) => command::config::run(&global, arguments, output),
        Command::Mcp(arguments) => Box::pin(command::mcp::run(&global, arguments)).await,
        Command::Key(arguments) => command::key::run(arguments, output),
        Command::Completions(arguments) => command::completions::run(&arguments, Cli::command()),
        Command::Man(arguments) => command::man::run(&arguments, Cli::command()),
        Command::Cluster(arguments) => command::cluster::run(&global, arguments, output).await,
        Command::Eval(arguments) => Box::pin(command::eval::run(&global, arguments, output)).await,
        Command::Bench(arguments) => {
            Box::pin(command::bench::run(&global, arguments, output)).await
        }
    }
}
