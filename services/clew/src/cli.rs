//! Definition of the command line.

use clap::{Parser, Subcommand};

use crate::args::global::GlobalArgs;
use crate::command::ask::AskArgs;
use crate::command::bench::BenchArgs;
use crate::command::chat::ChatArgs;
use crate::command::check::CheckArgs;
use crate::command::cluster::ClusterArgs;
use crate::command::completions::CompletionsArgs;
use crate::command::config::ConfigArgs;
use crate::command::corpus::CorpusArgs;
use crate::command::document::DocumentArgs;
use crate::command::eval::EvalArgs;
use crate::command::forget::ForgetArgs;
use crate::command::generate::GenerateArgs;
use crate::command::graph::GraphArgs;
use crate::command::ingest::IngestArgs;
use crate::command::key::KeyArgs;
use crate::command::list::ListArgs;
use crate::command::man::ManArgs;
use crate::command::mcp::McpArgs;
use crate::command::memory::MemoryArgs;
use crate::command::outline::OutlineArgs;
use crate::command::run::RunArgs;
use crate::command::search::SearchArgs;
use crate::command::serve::ServeArgs;
use crate::command::status::StatusArgs;
use crate::command::strategies::StrategiesArgs;
use crate::command::trace::TraceArgs;
use crate::command::train_memory::TrainMemoryArgs;
use crate::command::tree::TreeArgs;

/// Long-term memory for language-model applications.
///
/// Every command except `serve` calls a running server with --endpoint, or opens a data directory
/// in its own process. Only one process at a time can work on a data directory.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server, by default with all roles in this process.
    Serve(ServeArgs),
    /// Create, list, delete, export, reembed, snapshot and restore corpora.
    Corpus(CorpusArgs),
    /// Ingest documents into a corpus; returns when they can be found.
    Ingest(IngestArgs),
    /// Show, list, wait for and delete named runs of ingestion.
    Run(RunArgs),
    /// Search a corpus for passages.
    Search(SearchArgs),
    /// Answer a question with citations.
    Ask(AskArgs),
    /// List the strategies of answering, with what they need and cost.
    Strategies(StrategiesArgs),
    /// Show how a question was answered, from a file that `clew ask --trace` wrote.
    Trace(TraceArgs),
    /// Show the tree of summaries of a corpus.
    Tree(TreeArgs),
    /// Show the compressed memories of a corpus, or estimate what they would cost.
    Memory(MemoryArgs),
    /// Query the graph of a corpus: entities, relations, paths, ranks.
    Graph(GraphArgs),
    /// Show what a graph builder reads out of texts: summaries, entities, relations.
    Outline(OutlineArgs),
    /// Remember conversations: append turns, recall, ask, list users, sessions and turns, forget.
    Chat(ChatArgs),
    /// Generate a reply with a language model, and print it as it comes.
    Generate(GenerateArgs),
    /// Train the memory of a language model (--model) on this machine; continues where it was
    /// stopped.
    TrainMemory(TrainMemoryArgs),
    /// List the documents of a corpus, with their states and attributes.
    List(ListArgs),
    /// Forget documents, down to the bytes on disk, and print the receipt.
    Forget(ForgetArgs),
    /// Show what a corpus holds, what is pending and what failed.
    Status(StatusArgs),
    /// Show what became of a document: its chunks.
    Document(DocumentArgs),
    /// Check stored data against what Clew promises; fails if a promise does not hold.
    Check(CheckArgs),
    /// Show the configuration, or describe its keys.
    Config(ConfigArgs),
    /// Offer Clew to an agent over standard input and output, by the Model Context Protocol.
    Mcp(McpArgs),
    /// Show who the server takes you for: tenant, scopes, labels and quotas of your key.
    Whoami,
    /// Create an API key, and print it with the entry to store for it.
    Key(KeyArgs),
    /// Examine what a node needs on this machine, or a server (--endpoint), and say what to do
    /// about problems; fails if something does not work.
    Doctor,
    /// Show and control a cluster through any of its gateways (--endpoint).
    Cluster(ClusterArgs),
    /// Measure quality on public data sets.
    Eval(EvalArgs),
    /// Measure speed on this machine.
    Bench(BenchArgs),
    /// Print a script with which a shell completes the words of a command.
    Completions(CompletionsArgs),
    /// Print the manual page of `clew`, or write a page for each command.
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, ValueEnum};
    use clap_complete::Shell;

    use super::*;
    use crate::command::{completions, man};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Returns the name of a manual page for `command` and for each command below it.
    fn pages(command: &clap::Command, parent: &str) -> Vec<String> {
        let name = format!("{parent}{}", command.get_name());
        let below = command.get_subcommands().filter(|below| below.get_name() != "help");
        let below = below.flat_map(|below| pages(below, &format!("{name}-")));
        std::iter::once(format!("{name}.1")).chain(below).collect()
    }

    #[test]
    fn every_shells_script_names_every_command() {
        for shell in Shell::value_variants() {
            let script = completions::script(*shell, Cli::command());
            for command in Cli::command().get_subcommands() {
                let name = command.get_name();
                assert!(script.contains(name), "`{name}` is not in the script for {shell}");
            }
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        man::write_pages(&folder.path().join("man1"), Cli::command()).unwrap();
        let written = std::fs::read_dir(folder.path().join("man1")).unwrap();
        let written: BTreeSet<String> =
            written.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
        let expected: BTreeSet<String> = pages(&Cli::command(), "").into_iter().collect();
        assert!(expected.contains("clew-corpus-create.1"), "{expected:?}");
        assert_eq!(written, expected);
        let page = std::fs::read_to_string(folder.path().join("man1/clew-ingest.1")).unwrap();
        assert!(page.contains("estimate"), "{page}");
    }

    #[test]
    fn snapshots_are_taken_by_two_words_and_deleted_by_name_or_by_age() {
        let parse = |words: &str| {
            Cli::try_parse_from(["clew", "corpus", "snapshot"].into_iter().chain(words.split(' ')))
        };
        for good in [
            "notes nightly",
            "delete notes nightly weekly",
            "delete notes nightly --dry-run",
            "delete notes --older-than 30d",
            "delete notes --older-than 30d --keep 7 --dry-run",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good).err());
        }
        for bad in [
            "notes",
            "delete notes",
            "delete notes nightly --older-than 30d",
            "delete notes nightly --keep 3",
            "delete notes --keep 3",
            "delete notes --older-than soon",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
