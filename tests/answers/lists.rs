//! Tests of lists: users and sessions, the chunks of a document, strategies, and documents that are
//! sent as a list in one message.

use std::collections::BTreeMap;

use clew_client::Client;
use clew_core::{
    ChatSettings, CorpusName, Document, Error, ErrorKind, IfThere, Labels, SpeakerRole, Turn,
    TurnId,
};
use clew_proto::chat::v1 as chat;
use clew_proto::convert::chat::{Appended, Inference};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::{self as ingest, ingest_response::Result as Outcome};
use clew_proto::query::v1::Strategy;
use clew_strategy::STRATEGIES;
use futures::TryStreamExt;

use crate::client::{
    self, chunks, corpus, create, create_in_shards, document, id, remember, send, states,
};
use crate::harness::Home;
use crate::processes::Cluster;

/// Returns what a stream and a message answer: reasons of refusals, and otherwise whether the
/// document is unchanged.
fn outcomes(results: Vec<ingest::IngestResponse>) -> Vec<(String, Result<bool, String>)> {
    let outcome = |response: ingest::IngestResponse| match response.result.unwrap() {
        Outcome::Accepted(accepted) => (response.document_id, Ok(accepted.unchanged)),
        Outcome::Refused(refused) => (response.document_id, Err(refused.reason)),
    };
    results.into_iter().map(outcome).collect()
}

/// Returns good documents, and some that are refused: an empty one and one that comes twice.
fn mixed() -> Vec<Document> {
    vec![
        document("a", "The clew led out of the labyrinth."),
        document("empty", " \n"),
        document("b", "A red thread does not tear."),
        document("a", "Another text under the same id."),
        document("c", "Ariadne waited in Naxos."),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_in_one_message_are_accepted_and_refused_as_in_a_stream() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let streamed = create_in_shards(&client, "streamed", 2).await;
    let together = create_in_shards(&client, "together", 2).await;
    for _ in 0..2 {
        let of_stream: Vec<_> = send(&client, &streamed, mixed())
            .await
            .into_iter()
            .map(|result| result.map(|it| it.unchanged).map_err(|refused| refused.reason))
            .collect();
        let sent = client.ingest_documents(&together, mixed(), IfThere::Replace).await.unwrap();
        let (ids, of_message): (Vec<_>, Vec<_>) = outcomes(sent).into_iter().unzip();
        assert_eq!(ids, ["a", "empty", "b", "a", "c"]);
        assert_eq!(of_message, of_stream);
    }
    client::idle(&client, &together).await;
    let stored = |states: BTreeMap<String, ingest::DocumentState>| {
        states.into_values().map(|it| (it.id, it.text_bytes, it.chunks)).collect::<Vec<_>>()
    };
    let expected = stored(states(&client, &streamed).await);
    assert_eq!(stored(states(&client, &together).await), expected);

    let changed = vec![document("a", "Changed."), document("new", "New.")];
    let sent = client.ingest_documents(&together, changed, IfThere::Refuse).await.unwrap();
    let exists = Err("DOCUMENT_EXISTS".to_owned());
    assert_eq!(outcomes(sent), [("a".to_owned(), exists), ("new".to_owned(), Ok(false))]);
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_no_documents_too_many_or_too_large_ones_changes_nothing() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    let many = |count: usize| (0..count).map(|i| document(&format!("d{i}"), "x")).collect();
    for count in [0, 101] {
        let sent = client.ingest_documents(&notes, many(count), IfThere::Replace).await;
        let refused = sent.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(refused.fields_at_fault(), ["documents"]);
    }
    let long = vec![document("long", "a river ".repeat(1 << 20))];
    assert!(client.ingest_documents(&notes, long, IfThere::Replace).await.is_err());
    let nowhere = client.ingest_documents(&corpus("nowhere"), many(1), IfThere::Replace).await;
    assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(states(&client, &notes).await.is_empty());
    let sent = client.ingest_documents(&notes, many(100), IfThere::Replace).await.unwrap();
    assert_eq!(sent.len(), 100);
    assert!(server.terminate().success());
}

fn turns(corpus: &CorpusName, user: &str, session: &str, count: u32) -> Appended {
    let turn = |number| Turn {
        id: TurnId { session: session.parse().unwrap(), number },
        role: SpeakerRole::User,
        speaker: String::new(),
        text: format!("What about day {number}? I moved to Athens on day {number}."),
        time: None,
        attributes: BTreeMap::new(),
    };
    Appended {
        corpus: corpus.clone(),
        user: user.to_owned(),
        turns: (0..count).map(turn).collect(),
        inference: Inference::Rules,
        labels: Labels::default(),
    }
}

/// Returns the users that all pages list, with the numbers of their turns.
async fn users(
    client: &Client,
    corpus: &CorpusName,
    prefix: &str,
    size: u32,
) -> Vec<(String, u64)> {
    let (mut found, mut page_token) = (Vec::new(), String::new());
    loop {
        let asked = chat::ListUsersRequest {
            corpus: corpus.to_string(),
            prefix: prefix.to_owned(),
            page_size: size,
            page_token,
        };
        let page = client.users_page(asked).await.unwrap();
        assert!(page.users.len() <= size as usize && !page.users.is_empty(), "{page:?}");
        found.extend(page.users.into_iter().map(|of| {
            assert!(of.first_stored_at.is_some() && of.last_stored_at.is_some());
            (of.user, of.turns)
        }));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return found;
        }
    }
}

/// Appends turns of several users to a corpus of several shards, and checks that they are listed.
async fn conversations_are_listed(client: &Client) {
    let chats = create_in_shards(client, "chats", 4).await;
    let said =
        [("ann", "monday", 3), ("ann", "tuesday", 2), ("ann-b", "monday", 1), ("bo", "x", 4)];
    for (user, session, count) in said {
        client.append_turns(turns(&chats, user, session, count)).await.unwrap();
    }
    // No turns: their ids look like addresses, but for the number.
    remember(client, &chats, vec![document("docs/a/b.md", "x"), document("ann/photo", "y")]).await;

    let expected = [("ann-b", 1), ("ann", 5), ("bo", 4)].map(|(user, n)| (user.to_owned(), n));
    for size in [1, 2, 3, 1000] {
        assert_eq!(users(client, &chats, "", size).await, expected, "{size}");
    }
    assert_eq!(users(client, &chats, "ann", 1).await, expected[..2]);
    let asked = chat::ListSessionsRequest {
        corpus: chats.to_string(),
        user: "ann".to_owned(),
        page_size: 1,
        ..Default::default()
    };
    let first = client.sessions_page(asked.clone()).await.unwrap();
    assert_eq!((first.sessions[0].session.as_str(), first.sessions[0].turns), ("monday", 3));
    let page_token = first.next_page_token;
    let second = client.sessions_page(chat::ListSessionsRequest { page_token, ..asked.clone() });
    let second = second.await.unwrap();
    assert_eq!((second.sessions[0].session.as_str(), second.sessions[0].turns), ("tuesday", 2));
    assert_eq!(second.next_page_token, "");
    let nobody = chat::ListSessionsRequest { user: "nobody".to_owned(), ..asked.clone() };
    assert!(client.sessions_page(nobody).await.unwrap().sessions.is_empty());

    let all = chat::ForgetTurnsRequest {
        corpus: chats.to_string(),
        user: "ann".to_owned(),
        session: "monday".to_owned(),
        ..Default::default()
    };
    client.forget_turns(all).await.unwrap();
    let left = client.sessions_page(asked).await.unwrap().sessions;
    assert_eq!(left.iter().map(|of| of.session.as_str()).collect::<Vec<_>>(), ["tuesday"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_sessions_are_counted_over_all_shards() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    conversations_are_listed(&client).await;
    let bad = chat::ListUsersRequest {
        corpus: "chats".to_owned(),
        prefix: "a/b".to_owned(),
        page_token: "zz".to_owned(),
        ..Default::default()
    };
    let refused = client.users_page(bad).await.unwrap_err();
    assert_eq!(refused.fields_at_fault(), ["prefix", "page_token"]);
    let nowhere = chat::ListUsersRequest { corpus: "nowhere".to_owned(), ..Default::default() };
    assert_eq!(client.users_page(nowhere).await.unwrap_err().kind(), ErrorKind::NotFound);
    let listed = home.run_at(&server, &["chat", "users", "--corpus", "chats", "--json"]).done();
    assert_eq!(listed["users"][1]["user"], "ann");
    assert_eq!(listed["users"][1]["turns"], 2);
    let of_ann = ["chat", "sessions", "--corpus", "chats", "--user", "ann", "--json"];
    let listed = home.run_at(&server, &of_ann).done();
    assert_eq!(listed["sessions"][0]["session"], "tuesday");
    assert!(server.terminate().success());
}

/// Returns all chunks of a document, read in pages of `size`.
async fn listed(
    client: &Client,
    corpus: &CorpusName,
    document: &str,
    size: u32,
) -> Vec<ingest::DocumentChunk> {
    let mut asked = ingest::ListChunksRequest {
        corpus: corpus.to_string(),
        document_id: document.to_owned(),
        with_texts: true,
        page_size: size,
        page_token: String::new(),
    };
    let mut found = Vec::new();
    loop {
        let page = client.chunks_page(asked.clone()).await.unwrap();
        assert!(page.chunks.len() <= size as usize, "{size}");
        found.extend(page.chunks);
        asked.page_token = page.next_page_token;
        if asked.page_token.is_empty() {
            assert_eq!(found.len() as u64, page.chunk_count);
            return found;
        }
    }
}

/// Fails unless the chunks that are listed of a document are those that searches find.
async fn chunks_are_those_that_searches_find(client: &Client, notes: &CorpusName) {
    let text = "The old house stands by the river. Nobody lives there any more. ".repeat(40);
    remember(client, notes, vec![document("house", text.clone())]).await;
    let found = chunks(client, notes, &[id("house")]).await.remove("house").unwrap();
    assert!(found.len() > 5, "{}", found.len());
    let found: Vec<_> = found
        .into_iter()
        .map(|item| (item.chunk_id, item.span.map(|span| (span.start, span.end)), item.text))
        .collect();
    for size in [1, 3, 1000] {
        let listed = listed(client, notes, "house", size).await;
        for (ordinal, chunk) in (0..).zip(&listed) {
            assert_eq!((chunk.ordinal, chunk.kind()), (ordinal, ingest::ChunkKind::Passage));
            assert!(chunk.tokens > 0 && chunk.key_text.contains(chunk.text.trim()));
        }
        let listed: Vec<_> = listed
            .into_iter()
            .map(|chunk| (chunk.chunk_id, Some((chunk.start, chunk.end)), chunk.text))
            .collect();
        assert_eq!(listed, found);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chunks_of_a_document_are_listed_in_pages_of_one_version() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    chunks_are_those_that_searches_find(&client, &notes).await;
    let asked = |page_token: &str| ingest::ListChunksRequest {
        corpus: notes.to_string(),
        document_id: "house".to_owned(),
        page_size: 2,
        page_token: page_token.to_owned(),
        ..Default::default()
    };
    let first = client.chunks_page(asked("")).await.unwrap();
    assert!(first.chunks.iter().all(|chunk| chunk.text.is_empty() && chunk.key_text.is_empty()));
    let (_, state) = client.document(&notes, &id("house")).await.unwrap();
    assert_eq!((first.version, first.chunk_count), (state.version, state.chunks.into()));
    remember(&client, &notes, vec![document("house", "It was torn down. ".repeat(60))]).await;
    let refused = client.chunks_page(asked(&first.next_page_token)).await.unwrap_err();
    assert_eq!((refused.kind(), refused.reason()), (ErrorKind::LostRace, "DOCUMENT_REPLACED"));

    let missing = ingest::ListChunksRequest { document_id: "nothing".to_owned(), ..asked("") };
    assert_eq!(client.chunks_page(missing).await.unwrap_err().kind(), ErrorKind::NotFound);
    let bad = client.chunks_page(asked("00")).await.unwrap_err();
    assert_eq!(bad.fields_at_fault(), ["page_token"]);
    let shown = ["document", "chunks", "--corpus", "notes", "house", "--texts", "--json"];
    let shown = home.run_at(&server, &shown).done();
    assert!(shown["chunks"][0]["text"].as_str().unwrap().starts_with("It was torn down."));
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chunks_of_a_turn_are_passages_and_statements_or_keys() {
    use ingest::ChunkKind::{Key, Passage, Statement};
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let kinds = async |corpus: &CorpusName| {
        client.append_turns(turns(corpus, "ann", "monday", 1)).await.unwrap();
        let listed = listed(&client, corpus, "ann/monday/0000000000", 1).await;
        listed.into_iter().map(|chunk| (chunk.kind(), chunk.key_text)).collect::<Vec<_>>()
    };
    let plain = kinds(&create(&client, "plain").await).await;
    let statements: Vec<_> = plain.iter().skip_while(|(kind, _)| *kind == Passage).collect();
    assert!(statements.len() < plain.len(), "{plain:?}");
    assert_eq!(statements, [&(Statement, "I moved to Athens on day 0.".to_owned())]);

    let keys = vec!["value".to_owned(), "fact".to_owned()];
    let new = NewCorpus {
        name: corpus("keyed"),
        shards: 1,
        chunking: None,
        structure: None,
        retention_days: None,
        memory: None,
        chat: Some(ChatSettings { keys, ..ChatSettings::default() }),
    };
    client.create_corpus(new).await.unwrap();
    let keyed = kinds(&corpus("keyed")).await;
    assert!(keyed.len() > 1 && keyed.iter().all(|(kind, _)| *kind == Key), "{keyed:?}");
    assert!(keyed.iter().any(|(_, text)| text == "I moved to Athens on day 0."), "{keyed:?}");
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_lists_conversations_and_chunks_of_shards_on_other_nodes() {
    let cluster = Cluster::start(2).await;
    let client = cluster.client().await;
    conversations_are_listed(&client).await;
    let notes = create_in_shards(&client, "notes", 4).await;
    chunks_are_those_that_searches_find(&client, &notes).await;
    assert!(!client.who_am_i().await.unwrap().has_key);
    drop(client);
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn strategies_are_listed_with_whether_a_corpus_has_what_they_need() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let names = |strategies: &[Strategy]| {
        strategies.iter().map(|strategy| strategy.name.clone()).collect::<Vec<_>>()
    };
    let all = client.strategies(None).await.unwrap();
    let expected: Vec<&str> = STRATEGIES.iter().map(|listed| listed.strategy.name()).collect();
    assert_eq!(names(&all), expected);
    assert!(all.iter().all(|it| it.can_run && !it.description.is_empty() && !it.cost.is_empty()));

    let structured = create(&client, "structured").await;
    assert_eq!(client.strategies(Some(&structured)).await.unwrap(), all);
    home.run_at(&server, &["corpus", "create", "plain", "--no-structure"]);
    let text = "Maria leads the on-call rotation. Jonas approves purchases.";
    remember(&client, &corpus("plain"), vec![document("team", text)]).await;
    let plain = client.strategies(Some(&corpus("plain"))).await.unwrap();
    for strategy in &plain {
        let asked = clew_client::QuestionRequest {
            text: "Who?".to_owned(),
            strategy: strategy.name.clone(),
            ..Default::default()
        };
        let answer = async { client.answer(&corpus("plain"), asked).await?.try_collect().await };
        let answered: Result<Vec<_>, Error> = answer.await;
        let lacks = answered.is_err_and(|error| error.reason() == "NO_STRUCTURE");
        assert_eq!(strategy.can_run, !lacks, "{}", strategy.name);
    }
    let missing = client.strategies(Some(&corpus("nowhere"))).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);

    let here = home.run_embedded(&["strategies", "--json"]).done();
    let served = home.run_at(&server, &["strategies", "--json"]).done();
    assert_eq!(here, served);
    let of_plain = home.run_at(&server, &["strategies", "--corpus", "plain", "--json"]).done();
    assert!(of_plain.to_string().contains("\"can_run\":false"), "{of_plain}");
    assert!(server.terminate().success());
}
