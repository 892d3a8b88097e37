//! Remember what a user says, recall what is relevant to a question, and forget it again.
//!
//! Start a server with `clew serve`, then:
//!
//! ```sh
//! cargo run --example remember -- --corpus chats --user ada \
//!     --question 'What is my cat called?' 'I moved to Athens.' 'My cat is called Ariadne.'
//! ```

#![allow(clippy::print_stdout, reason = "a program for the command line")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clew_client::Client;
use clew_core::{
    Attributes, Clock, CorpusName, DocumentId, Error, ErrorKind, Labels, SpeakerRole, SystemClock,
    Turn, TurnId,
};
use clew_proto::chat::v1::{ForgetTurnsRequest, RecallRequest};
use clew_proto::convert::chat::{Appended, Inference};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::convert::timestamp_to_wire;

/// Maximum duration of one call.
const PATIENCE: Duration = Duration::from_secs(30);

/// Remember what a user says, recall what is relevant to a question, and forget it again.
#[derive(Parser)]
struct Arguments {
    /// Address of the server.
    #[arg(long, default_value = "http://127.0.0.1:7421")]
    endpoint: String,
    /// Name of the corpus; it is created if it does not exist.
    #[arg(long)]
    corpus: CorpusName,
    /// Name of the user. Nobody recalls what another user said.
    #[arg(long)]
    user: String,
    /// Name of the conversation.
    #[arg(long, default_value = "today")]
    session: DocumentId,
    /// Question to recall something for.
    #[arg(long)]
    question: String,
    /// Forget the conversation at the end.
    #[arg(long)]
    forget: bool,
    /// What the user says, in order.
    #[arg(required = true, value_name = "TEXT")]
    said: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Every call below may be repeated: turns are identified by their numbers.
            let hint = if error.is_retryable() { "; run it again" } else { "" };
            eprintln!("error: {error}{hint}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let Arguments { endpoint, corpus, user, session, question, forget, said } = arguments;
    let client = Client::connect(&endpoint, PATIENCE).await?;
    create(&client, &corpus).await?;

    let now = SystemClock.now();
    let turns = (0..).zip(said).map(|(number, text)| Turn {
        id: TurnId { session: session.clone(), number },
        speaker: String::new(),
        role: SpeakerRole::User,
        text,
        time: Some(now),
        attributes: Attributes::new(),
    });
    let appended = Appended {
        corpus: corpus.clone(),
        user: user.clone(),
        turns: turns.collect(),
        inference: Inference::Rules,
        labels: Labels::default(),
    };
    // Returns when the turns are stored and can be found.
    let stored = client.append_turns(appended).await?.turns;
    println!("{} turns are remembered", stored.len());

    let recalled = client.recall(RecallRequest {
        corpus: corpus.to_string(),
        user: user.clone(),
        question,
        // Without it, Clew understands no "yesterday" in the question.
        asked_at: Some(timestamp_to_wire(now)),
        k: Some(2),
        ..RecallRequest::default()
    });
    for item in recalled.await?.items {
        for turn in item.turns {
            println!("{}: {}", item.session, turn.text);
        }
        for update in item.superseded {
            let (older, newer) =
                (update.older.unwrap_or_default(), update.newer.unwrap_or_default());
            println!("  {:?} is superseded by {:?}", older.text, newer.text);
        }
    }

    if forget {
        let (corpus, session) = (corpus.to_string(), session.to_string());
        let request = ForgetTurnsRequest { corpus, user, session, ..Default::default() };
        let receipt = client.forget_turns(request).await?;
        println!("{} turns are forgotten; verified: {}", receipt.turns, receipt.verified);
    }
    Ok(())
}

/// Creates a corpus for conversations, unless it exists. Turns are too short for trees.
async fn create(client: &Client, name: &CorpusName) -> Result<(), Error> {
    let created = client.create_corpus(NewCorpus {
        name: name.clone(),
        shards: 1,
        chunking: None,
        structure: None,
        retention_days: None,
        memory: None,
        chat: None,
    });
    match created.await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
