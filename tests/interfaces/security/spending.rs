//! Tests of what tenants spend on models: it is charged however their requests end, and is of no
//! use to others.

use std::time::{Duration, Instant};

use clew_client::{Client, QuestionRequest};
use clew_core::{ErrorKind, ExtractionTask, GraphBuilder};
use clew_proto::from_status;
use clew_proto::graph_builder::v1 as graph;
use clew_proto::graph_builder::v1::graph_builder_service_client::GraphBuilderServiceClient;
use clew_testkit::{ModelEndpoint, ModelReply};
use serde_json::json;

use super::world::World;
use crate::client::{create, document, remember};
use crate::harness::{PATIENCE, eventually};
use crate::tales::answer;

const CRETE: &str = "Ariadne gave Theseus a ball of thread. Theseus killed the Minotaur.";

fn model(endpoint: &ModelEndpoint) -> Vec<(&'static str, String)> {
    vec![
        ("CLEW_GENERATOR__ENDPOINT__URL", endpoint.url()),
        ("CLEW_GENERATOR__ENDPOINT__MODEL", "test".to_owned()),
    ]
}

fn task() -> Vec<ExtractionTask> {
    let text = format!("{CRETE} Minos ruled Crete, and Daedalus built the Labyrinth for him.");
    vec![ExtractionTask { text, ..ExtractionTask::default() }]
}

/// Waits until a question of `client` is refused because a quota is used up. Returns the retry
/// delay.
async fn refused(client: &Client) -> Duration {
    eventually("the quota is used up", async || {
        let notes = "notes".parse().unwrap();
        let question = QuestionRequest { text: "Who?".to_owned(), ..QuestionRequest::default() };
        let error = client.answer(&notes, question).await.err()?;
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Exhausted, "QUOTA_SPENT"));
        error.retry_after()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_or_runs_out_of_time_is_charged_what_was_spent() {
    let quotas = ["acme", "other"].map(|tenant| {
        format!("[[tenant]]\nname = '{tenant}'\ntokens_per_second = 1.0\nburst_secs = 10.0\n")
    });
    let (world, endpoint) = (World::with(&quotas.concat()), ModelEndpoint::start().unwrap());
    endpoint.reply_by(|_| ModelReply::Stalled("{".to_owned()));
    let server = world.serve_with(&model(&endpoint));
    let question = || QuestionRequest {
        text: "Who killed the Minotaur?".to_owned(),
        ..QuestionRequest::default()
    };
    // More than the cost of the question and the passage that it is compared with.
    let prompt = Duration::from_secs(150);

    let leaver = world.client(&server, "other").await;
    let notes = create(&leaver, "notes").await;
    remember(&leaver, &notes, vec![document("crete", CRETE)]).await;
    let events = leaver.answer(&notes, question()).await.unwrap();
    eventually("the model is asked", async || (endpoint.requests().len() == 1).then_some(())).await;
    drop(events);
    let wait = refused(&leaver).await;
    assert!(wait > prompt, "the prompt was sent: {wait:?}");

    let acme = world.client(&server, "acme").await;
    let notes = create(&acme, "notes").await;
    remember(&acme, &notes, vec![document("crete", CRETE)]).await;
    let hurried = Client::over(world.wire(&server, "acme").await, Duration::from_secs(3));
    let mut events = Box::pin(hurried.answer(&notes, question()).await.unwrap());
    let ended = async {
        loop {
            match futures::StreamExt::next(&mut events).await {
                Some(Ok(_)) => {}
                ended => break ended,
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await.unwrap();
    assert_eq!(ended.unwrap().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    let wait = refused(&acme).await;
    assert!(wait > prompt, "the prompt was sent: {wait:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_read_come_out_of_quotas() {
    let quotas = "[[tenant]]\nname = 'other'\nbytes_per_second = 1.0\nburst_secs = 50.0\n\
                  [[tenant]]\nname = 'acme'\ntokens_per_second = 1.0\nburst_secs = 10.0\n";
    let (world, endpoint) = (World::with(quotas), ModelEndpoint::start().unwrap());
    endpoint.reply_by(|_| {
        let reply = json!({ "entities": [{ "name": "Ariadne", "kind": "person" }] });
        ModelReply::Text(reply.to_string())
    });
    let mut settings = model(&endpoint);
    settings.push(("CLEW_GRAPH_BUILDER__READER", "model".to_owned()));
    let server = world.serve_with(&settings);
    let soon = || Instant::now() + PATIENCE;
    for (key, used_up) in [("other", "bytes"), ("acme", "tokens")] {
        let client = world.client(&server, key).await;
        let read = client.extract(task(), soon()).await.unwrap();
        assert_eq!(read[0].entities[0].name, "Ariadne");
        let calls = endpoint.requests().len();
        let error = client.extract(task(), soon()).await.unwrap_err();
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Exhausted, "QUOTA_SPENT"));
        assert!(error.message().contains(used_up) && error.retry_after().is_some(), "{error}");
        assert_eq!(endpoint.requests().len(), calls, "{key}");
    }
    // Only the server decides on whose account a request runs.
    let account = Some(clew_proto::query::v1::Account::default());
    let task = graph::ExtractionTask { text: CRETE.to_owned(), ..Default::default() };
    let message = graph::ExtractRequest { tasks: vec![task], account, rehearsal: false };
    let mut client = GraphBuilderServiceClient::new(world.wire(&server, "acme").await);
    let error = from_status(&client.extract(message).await.unwrap_err());
    assert_eq!(error.violations()[0].field, "account", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_while_texts_are_read_is_charged_what_was_spent() {
    let quota = "[[tenant]]\nname = 'other'\ntokens_per_second = 1.0\nburst_secs = 10.0\n";
    let (world, endpoint) = (World::with(quota), ModelEndpoint::start().unwrap());
    endpoint.reply_by(|_| ModelReply::Stalled("{".to_owned()));
    let mut settings = model(&endpoint);
    settings.push(("CLEW_GRAPH_BUILDER__READER", "model".to_owned()));
    let server = world.serve_with(&settings);
    let client = world.client(&server, "other").await;
    tokio::select! {
        read = client.extract(task(), Instant::now() + PATIENCE) => panic!("{read:?}"),
        () = eventually("the model is asked", async || {
            (endpoint.requests().len() == 1).then_some(())
        }) => {}
    }
    eventually("the quota is used up", async || {
        let asked = tokio::time::timeout(
            Duration::from_millis(200),
            client.extract(task(), Instant::now() + PATIENCE),
        );
        let error = asked.await.ok()?.unwrap_err();
        assert_eq!(error.reason(), "QUOTA_SPENT");
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_share_no_reply_of_a_model() {
    let (world, endpoint) = (World::new(), ModelEndpoint::start().unwrap());
    endpoint.reply_by(answer);
    let server = world.serve_with(&model(&endpoint));
    for tenant in ["acme", "other"] {
        let client = world.client(&server, tenant).await;
        let notes = create(&client, "notes").await;
        remember(&client, &notes, vec![document("crete", CRETE)]).await;
    }
    for (tenant, calls) in [("acme", 1), ("acme", 1), ("other", 2), ("other", 2), ("acme", 2)] {
        let ask = ["ask", "--corpus", "notes", "--json", "Who killed the Minotaur?"];
        let asked = world.run(&server, tenant, &ask).done();
        assert_eq!(asked["answer"], "Theseus did.", "{asked}");
        assert_eq!(endpoint.requests().len(), calls, "{tenant}: {asked}");
    }
}
