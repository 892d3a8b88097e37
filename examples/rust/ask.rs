//! Ask a question and print the answer with the bytes that it rests on.
//!
//! Ingest something first, for example with the example `ingest`, then:
//!
//! ```sh
//! cargo run --example ask -- --corpus handbook 'How are backups restored?'
//! ```

#![allow(clippy::print_stdout, reason = "a program for the command line")]

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clew_client::{Client, QuestionRequest};
use clew_core::{CorpusName, Error};
use clew_proto::query::v1::answer_response::Event;
use clew_proto::query::v1::trace_event::Step;
use clew_proto::query::v1::{Answer, Citation, Outcome};
use futures::TryStreamExt;

/// Maximum duration of the question. It travels with the request: the server and all nodes that
/// work for it stop when it is over.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ask a question and print the answer with the bytes that it rests on.
#[derive(Parser)]
struct Arguments {
    /// Address of the server.
    #[arg(long, default_value = "http://127.0.0.1:7421")]
    endpoint: String,
    /// Name of the corpus.
    #[arg(long)]
    corpus: CorpusName,
    /// Strategy of answering; `clew strategies` lists them.
    #[arg(long, default_value = "direct")]
    strategy: String,
    /// Question to answer.
    question: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if error.is_retryable() {
                eprintln!("the same question may be answered later");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let client = Client::connect(&arguments.endpoint, PATIENCE).await?;
    let question = QuestionRequest {
        text: arguments.question,
        strategy: arguments.strategy,
        ..QuestionRequest::default()
    };
    // The steps come while they are taken, and the answer comes last.
    let mut events = pin!(client.answer(&arguments.corpus, question).await?);
    while let Some(response) = events.try_next().await? {
        match response.event {
            Some(Event::Trace(event)) => match event.step {
                Some(Step::Searched(step)) => eprintln!("found {} passages", step.hits),
                Some(Step::Judged(step)) => eprintln!("confidence {:.2}", step.confidence),
                // Other strategies report other steps, such as a walk down a tree.
                _ => {}
            },
            // For programs that show the text as it is written. The answer has all of it.
            Some(Event::TextDelta(_)) | None => {}
            Some(Event::Answer(answer)) => {
                print(&answer);
                return Ok(());
            }
        }
    }
    Err(Error::internal("the server ended the stream without an answer"))
}

fn print(answer: &Answer) {
    match answer.outcome() {
        Outcome::NotInMemory => println!("not in memory"),
        Outcome::Answered | Outcome::AnsweredWithShardsMissing | Outcome::Unspecified => {
            println!("{}", answer.text);
        }
    }
    for Citation { document_id, span, quote, .. } in &answer.citations {
        let span = span.unwrap_or_default();
        println!("  {document_id} [{}..{}]: {quote:?}", span.start, span.end);
    }
    if !answer.shards_missing.is_empty() {
        println!("  these shards did not answer in time: {:?}", answer.shards_missing);
    }
    let cost = answer.cost.unwrap_or_default();
    println!("  {} tokens embedded, {} model calls", cost.embedded_tokens, cost.model_calls);
}
