//! Ingest text files and wait until they can be found.
//!
//! Start a server with `clew serve`, then run this in the root of the repository:
//!
//! ```sh
//! cargo run --example ingest -- --corpus handbook docs/*.md
//! ```

#![allow(clippy::print_stdout, reason = "a program for the command line")]

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clew_client::Client;
use clew_core::{
    Attributes, CorpusName, Document, Error, ErrorKind, Labels, MediaType, StructureSettings,
};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::ingest_response::Result as Fate;
use futures::{TryStreamExt, stream};

/// Maximum duration of one call.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum duration of the whole ingestion. Streams have no other bound.
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(600);
/// Number of times that the documents are sent if the server is away or busy.
const ATTEMPTS: u32 = 5;

/// Ingest text files and wait until they can be found.
#[derive(Parser)]
struct Arguments {
    /// Address of the server.
    #[arg(long, default_value = "http://127.0.0.1:7421")]
    endpoint: String,
    /// Name of the corpus; it is created if it does not exist.
    #[arg(long)]
    corpus: CorpusName,
    /// Text or Markdown files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let run = tokio::time::timeout(PATIENCE_WITH_ALL, run(Arguments::parse()));
    match run.await.unwrap_or_else(|_elapsed| Err(Error::deadline("ingesting"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(Arguments { endpoint, corpus, files }: Arguments) -> Result<(), Error> {
    let documents: Vec<Document> = files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
    let client = Client::connect(&endpoint, PATIENCE).await?;
    create(&client, &corpus).await?;

    // What was accepted is not accepted twice, so after an error everything is sent again.
    let mut attempt = 1;
    while let Err(error) = send(&client, &corpus, documents.clone()).await {
        if !error.is_retryable() || attempt == ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(error.retry_after().unwrap_or(Duration::from_secs(1))).await;
        attempt += 1;
    }

    // Accepted documents are safe. They can be found a little later, when they are indexed.
    let mut reports = pin!(client.watch_until_idle(&corpus).await?);
    while let Some(now) = reports.try_next().await? {
        println!("{} of {} documents can be found", now.indexed_documents, now.documents);
    }
    Ok(())
}

fn read(file: &Path) -> Result<Document, Error> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::invalid("FILE", format!("cannot read `{name}`: {error}")))?;
    let is_markdown = file.extension().is_some_and(|extension| extension == "md");
    Ok(Document {
        id: name.to_string().parse()?,
        text,
        media_type: if is_markdown { MediaType::Markdown } else { MediaType::Plain },
        title: String::new(),
        attributes: Attributes::new(),
        event_time: None,
        labels: Labels::default(),
        source_version: None,
    })
}

/// Creates a corpus with trees and a graph, unless it exists.
async fn create(client: &Client, name: &CorpusName) -> Result<(), Error> {
    let created = client.create_corpus(NewCorpus {
        name: name.clone(),
        shards: 1,
        chunking: None,
        structure: Some(StructureSettings::default()),
        retention_days: None,
        memory: None,
        chat: None,
    });
    match created.await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Sends documents in one stream, and prints the server's answer for each.
async fn send(client: &Client, corpus: &CorpusName, all: Vec<Document>) -> Result<(), Error> {
    let mut responses = pin!(client.ingest(corpus, stream::iter(all)).await?);
    while let Some(response) = responses.try_next().await? {
        let id = response.document_id;
        match response.result {
            Some(Fate::Accepted(accepted)) if accepted.unchanged => println!("{id}: unchanged"),
            Some(Fate::Accepted(accepted)) => println!("{id}: version {}", accepted.version),
            Some(Fate::Refused(refused)) => println!("{id}: refused, {}", refused.message),
            None => return Err(Error::internal(format!("the server did not answer for `{id}`"))),
        }
    }
    Ok(())
}
