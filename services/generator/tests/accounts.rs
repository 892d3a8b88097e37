//! Tests of a question's account over the wire, with real servers on loopback and a scripted model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Account, Assignment, Budget, ChunkId, Cost, Encoder, EncoderIdentity, Encoders, Error,
    Evidence, Limits, NoReader, Owner, Reading, Reasoners, Span, Version,
};
use clew_endpoint::EndpointConfig;
use clew_generator::{GeneratorConfig, GeneratorRpc, Judgement};
use clew_proto::from_status;
use clew_proto::generator::v1 as wire;
use clew_proto::generator::v1::generator_service_client::GeneratorServiceClient;
use clew_proto::generator::v1::generator_service_server::GeneratorServiceServer;
use clew_reason::BudgetConfig;
use clew_remote::RemoteReasoners;
use clew_runtime::peer::{PeerConfig, PeerOptions};
use clew_runtime::pool::Pool;
use clew_testkit::{ModelEndpoint, ModelReply, ModelRequest};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Longest time that a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);
const ATTEMPTS: u32 = 4;

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// Encoders that are never used: a model reads, so no texts are compared.
struct NoEncoders;

#[async_trait]
impl Encoders for NoEncoders {
    fn current(&self) -> Arc<dyn Encoder> {
        panic!("no text is compared here")
    }

    fn offered(&self) -> Vec<EncoderIdentity> {
        Vec::new()
    }

    async fn of(&self, _: &EncoderIdentity, _: Instant) -> Result<Arc<dyn Encoder>, Error> {
        Err(Error::internal("no text is compared here"))
    }
}

/// Replies that the evidence does not suffice.
fn doubts(request: &ModelRequest) -> ModelReply {
    let is_reading = request.body["response_format"].to_string().contains("\"notes\"");
    let reply = match is_reading {
        true => json!({ "notes": [], "suffices": false, "answer": "", "citations": [] }),
        false => json!({ "reasoning": "so", "suffices": false, "missing": "who" }),
    };
    ModelReply::Text(reply.to_string())
}

/// A generator with a scripted model, and a gateway's reasoners that use it.
struct World {
    endpoint: ModelEndpoint,
    address: String,
    reasoners: RemoteReasoners,
    serving: JoinHandle<()>,
}

impl World {
    async fn start(calls: u32) -> Self {
        let endpoint = ModelEndpoint::start().unwrap();
        endpoint.reply_by(doubts);
        let model = EndpointConfig {
            url: endpoint.url(),
            model: "scripted".to_owned(),
            attempts: ATTEMPTS,
            ..EndpointConfig::default()
        };
        let budget = BudgetConfig { calls, ..BudgetConfig::default() };
        let config =
            GeneratorConfig { endpoint: Some(model), budget, ..GeneratorConfig::default() };
        let judgement =
            Judgement::load(&config, Arc::new(NoEncoders), Arc::new(NoReader), None).await.unwrap();
        let model = judgement.model.clone();
        let service = GeneratorRpc::new(Arc::new(judgement), model, Limits::default(), &config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let server = Server::builder().add_service(GeneratorServiceServer::new(service));
            server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
        });
        let reach = PeerConfig::default().into();
        let options = PeerOptions { service: String::new(), credits: 8, reach };
        let pool = Pool::new("generators", options);
        pool.update(vec![("generator".to_owned(), address.clone())]).await.unwrap();
        let reasoners = RemoteReasoners::over(pool, Arc::new(NoEncoders), Arc::new(NoReader), None);
        Self { endpoint, address, reasoners, serving }
    }

    async fn account(&self, tenant: &str) -> Account {
        let budget = self.reasoners.budget(soon()).await.unwrap();
        Account::open(Owner::of(Some(tenant)), budget)
    }

    async fn read(&self, account: &Account, question: &str) -> Result<Reading, Error> {
        let evidence = [evidence()];
        let assignment = Assignment::new(question, &evidence);
        self.reasoners.reasoner(account).read(&assignment, soon()).await
    }

    fn calls(&self) -> u64 {
        self.endpoint.requests().len() as u64
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn evidence() -> Evidence {
    let (text, document_id) = ("Theseus killed the Minotaur.", "crete".parse().unwrap());
    let chunk_id = ChunkId::derive(&"notes".parse().unwrap(), &document_id, Version(1), 0);
    Evidence {
        chunk_id,
        document_id,
        version: Version(1),
        title: String::new(),
        span: Span::new(0, text.len()),
        text: text.to_owned(),
        event_time: None,
        score: 1.0,
        dense_score: None,
        sparse_score: None,
    }
}

#[tokio::test]
async fn all_steps_of_a_question_draw_on_one_budget_on_whatever_nodes_they_are_taken() {
    let world = World::start(4).await;
    let account = world.account("acme").await;
    assert_eq!(account.ledger().left().calls, 4, "what the generators are configured with");
    let guide = world.reasoners.guide(&account);
    let mut reasons = Vec::new();
    for step in 0..4 {
        let question = format!("Who, in step {step}?");
        reasons.push(guide.judge(&question, &[evidence()], soon()).await.err());
        reasons.push(world.read(&account, &question).await.err());
    }
    let reasons: Vec<_> = reasons.iter().map(|e| e.as_ref().map(Error::reason)).collect();
    assert_eq!(reasons[..4], [None; 4]);
    assert_eq!(reasons[4..], [Some("BUDGET_SPENT"); 4]);
    let Cost { model_calls, prompt_tokens, completion_tokens, is_out_of_budget, .. } =
        account.ledger().cost();
    assert_eq!((world.calls(), model_calls, is_out_of_budget), (4, 4, true));
    assert!(prompt_tokens > 100 && completion_tokens >= 4, "{prompt_tokens}, {completion_tokens}");
    // Another question has its own budget.
    let another = world.account("acme").await;
    world.read(&another, "Who else?").await.unwrap();
    assert_eq!(another.ledger().cost().model_calls, 1);
}

#[tokio::test]
async fn requests_that_fail_and_are_repeated_count_and_end_with_the_budget_too() {
    let world = World::start(3).await;
    let account = world.account("acme").await;
    world.endpoint.script(vec![ModelReply::Status(500, None); 20]);
    let guide = world.reasoners.guide(&account);
    assert!(guide.judge("Who?", &[evidence()], soon()).await.is_err());
    assert!(world.read(&account, "Who?").await.is_err());
    assert_eq!((world.calls(), account.ledger().spent().calls), (3, 3));
    let account = world.account("acme").await;
    assert!(world.read(&account, "Who?").await.is_err());
    assert_eq!((world.calls(), account.ledger().spent().calls), (6, 3));
}

#[tokio::test]
async fn what_a_generator_spent_is_known_when_it_fails_and_when_it_is_left() {
    let world = World::start(9).await;
    let account = world.account("acme").await;
    let cites_nothing = json!({
        "notes": [], "suffices": true, "answer": "He.",
        "citations": [{ "passage": 9, "quote": "He." }],
    });
    let unreadable = cites_nothing.to_string();
    world.endpoint.reply_by(move |_| ModelReply::Text(unreadable.clone()));
    let error = world.read(&account, "Who?").await.unwrap_err();
    assert_eq!(error.reason(), "UNREADABLE_REPLY");
    let spent = account.ledger().spent();
    assert_eq!(spent.calls, world.calls());
    assert!(spent.prompt_tokens > 100 && !spent.time.is_zero(), "{spent:?}");

    world.endpoint.script([ModelReply::Stalled("{".to_owned())]);
    let account = world.account("acme").await;
    let known = async {
        while account.ledger().spent().prompt_tokens == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        read = world.read(&account, "Who then?") => panic!("{read:?}"),
        known = tokio::time::timeout(PATIENCE, known) => known.unwrap(),
    }
    let spent = account.ledger().spent();
    assert!(spent.calls == 1 && spent.prompt_tokens > 100, "{spent:?}");
    assert_eq!(account.ledger().left().calls, 8, "what was lent is back");
}

#[tokio::test]
async fn tenants_share_no_reply() {
    let world = World::start(9).await;
    for (tenant, calls) in [("acme", 1), ("acme", 1), ("other", 2), ("other", 2), ("acme", 2)] {
        let account = world.account(tenant).await;
        world.read(&account, "Who?").await.unwrap();
        assert_eq!(world.calls(), calls, "{tenant}");
    }
    for (tenant, calls) in [("acme", 3), ("acme", 3), ("other", 4), ("acme", 4)] {
        let account = world.account(tenant).await;
        let guide = world.reasoners.guide(&account);
        guide.judge("Who?", &[evidence()], soon()).await.unwrap();
        assert_eq!(world.calls(), calls, "{tenant}");
    }
}

#[tokio::test]
async fn a_generator_spends_no_more_than_it_was_sent_and_refuses_what_is_no_account() {
    let world = World::start(9).await;
    let mut client = GeneratorServiceClient::connect(world.address.clone()).await.unwrap();
    let assignment = Assignment::new("Who?", &[]);
    let message = clew_proto::convert::generator::read_to_wire(&assignment);
    let bad = clew_proto::query::v1::Account { owner: vec![0; 5].into(), left: None };
    let refused =
        client.read(wire::ReadRequest { account: Some(bad), ..message }).await.unwrap_err();
    assert_eq!(from_status(&refused).violations()[0].field, "account.owner");
    let nothing = Account::open(Owner::default(), Budget { calls: 0, ..Budget::default() });
    let refused = world.read(&nothing, "Who?").await.unwrap_err();
    assert_eq!((refused.reason(), refused.retry_after()), ("BUDGET_SPENT", None));
    assert!(!refused.is_retryable() && nothing.ledger().cost().is_out_of_budget);
    assert_eq!(world.calls(), 0);
}
