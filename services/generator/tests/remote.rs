//! Tests of a language model over the wire, with real servers on loopback and a real, tiny model.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clew_core::{
    Account, Assignment, Budget, ChatMessage, ChatRole, Error, ErrorKind, Finish,
    GenerationRequest, Generator, Guide, Heard, Limits, Reading, Reasoner, Reasoners, ReplyFormat,
};
use clew_generator::config::LocalConfig;
use clew_generator::{GeneratorConfig, GeneratorRpc, LocalGenerator};
use clew_proto::generator::v1::generator_service_server::GeneratorServiceServer;
use clew_remote::RemoteGenerator;
use clew_runtime::peer::{PeerConfig, PeerOptions};
use clew_runtime::pool::Pool;
use clew_runtime::tree::RunningPart;
use clew_testkit::FaultyWire;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Longest time that a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// Reasoner that reads nothing; these tests only generate.
struct Illiterate;

#[async_trait]
impl Reasoners for Illiterate {
    async fn budget(&self, _: Instant) -> Result<Budget, Error> {
        Ok(Budget::default())
    }

    fn reasoner(&self, _: &Account) -> Arc<dyn Reasoner> {
        Arc::new(Self)
    }

    fn guide(&self, _: &Account) -> Arc<dyn Guide> {
        panic!("nobody walks here")
    }
}

#[async_trait]
impl Reasoner for Illiterate {
    async fn read(&self, _: &Assignment<'_>, _: Instant) -> Result<Reading, Error> {
        Err(Error::internal("nobody reads here"))
    }
}

async fn tiny_model(replies: u32) -> LocalGenerator {
    let folder = tempfile::tempdir().unwrap();
    clew_testkit::write_tiny_decoder(folder.path(), 3).unwrap();
    let config = LocalConfig { replies, ..LocalConfig::of(folder.path().to_owned()) };
    LocalGenerator::load(&config).await.unwrap()
}

/// A generator service behind a connection that a test can cut.
struct Node {
    wire: FaultyWire,
    serving: JoinHandle<()>,
}

impl Node {
    async fn start(model: Option<LocalGenerator>) -> Self {
        let model = model.map(|model| Arc::new(model) as Arc<dyn Generator>);
        let (reasoner, config) = (Arc::new(Illiterate), GeneratorConfig::default());
        let service = GeneratorRpc::new(reasoner, model, Limits::default(), &config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = FaultyWire::to(listener.local_addr().unwrap()).await.unwrap();
        let serving = tokio::spawn(async move {
            let server = Server::builder().add_service(GeneratorServiceServer::new(service));
            server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
        });
        Self { wire, serving }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn pool(nodes: &[Node]) -> Pool {
    let reach = PeerConfig::default().into();
    let pool = Pool::new("generators", PeerOptions { service: String::new(), credits: 8, reach });
    let member = |(place, node): (usize, &Node)| {
        (format!("generator-{place}"), format!("http://{}", node.wire.address()))
    };
    pool.update(nodes.iter().enumerate().map(member).collect()).await.unwrap();
    pool
}

fn ask(max_tokens: u32) -> GenerationRequest {
    let text = "Say something.".to_owned();
    GenerationRequest {
        messages: vec![ChatMessage { role: ChatRole::User, text }],
        max_tokens,
        ..GenerationRequest::default()
    }
}

/// Waits until a model has no replies in progress.
async fn idle(node: impl Fn() -> RunningPart) {
    let deadline = soon();
    while node().queued != 0 {
        assert!(Instant::now() < deadline, "{:?}", node());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_model_elsewhere_says_what_it_says_here() {
    let model = tiny_model(4).await;
    let nodes = [Node::start(Some(model.clone())).await];
    let remote = RemoteGenerator::connect(pool(&nodes).await).await.unwrap();
    assert_eq!(remote.identity(), model.identity());
    let chosen = ReplyFormat::Choice(vec!["yes".to_owned(), "no".to_owned()]);
    let requests =
        [ask(12), GenerationRequest { format: chosen, ..ask(12) }, GenerationRequest::default()];
    for request in requests {
        let here = model.generate(&request, soon(), &mut |_| {}).await;
        let mut heard = String::new();
        let mut hear = |told: Heard<'_>| match told {
            Heard::Text(more) => heard.push_str(more),
            Heard::Asked => {}
            Heard::Anew => panic!("nothing failed"),
        };
        let there = remote.generate(&request, soon(), &mut hear).await;
        match (here, there) {
            (Ok(here), Ok(there)) => {
                assert_eq!((&there.text, there.finish), (&here.text, here.finish));
                assert_eq!(there.usage.prompt_tokens, here.usage.prompt_tokens);
                assert_eq!(there.usage.completion_tokens, here.usage.completion_tokens);
                assert_eq!(heard, there.text);
            }
            (Err(here), Err(there)) => assert_eq!(here.violations(), there.violations()),
            differing => panic!("{differing:?}"),
        }
    }
}

#[tokio::test]
async fn who_has_no_model_says_so() {
    let nodes = [Node::start(None).await];
    let error = RemoteGenerator::connect(pool(&nodes).await).await.err().unwrap();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::WrongState, "NO_MODEL"));
}

#[tokio::test]
async fn a_caller_that_leaves_frees_its_place() {
    // One place: the next request is refused until it is free.
    let model = tiny_model(1).await;
    let nodes = [Node::start(Some(model.clone())).await];
    let remote = RemoteGenerator::connect(pool(&nodes).await).await.unwrap();
    for _ in 0..10 {
        let (heard, speaks) = tokio::sync::oneshot::channel();
        let mut heard = Some(heard);
        let mut hear = |_: Heard<'_>| {
            if let Some(heard) = heard.take() {
                heard.send(()).unwrap();
            }
        };
        let request = ask(900);
        tokio::select! {
            replied = remote.generate(&request, soon(), &mut hear) => panic!("{replied:?}"),
            speaks = speaks => speaks.unwrap(),
        }
        idle(|| model.node()).await;
        let next = remote.generate(&ask(2), soon(), &mut |_| {}).await.unwrap();
        assert_eq!(next.finish, Finish::Length);
    }
}

#[tokio::test]
async fn another_begins_anew_when_one_is_lost_in_the_midst() {
    let model = tiny_model(4).await;
    let expected = model.generate(&ask(900), soon(), &mut |_| {}).await.unwrap();
    let nodes = [Node::start(Some(model.clone())).await, Node::start(Some(model.clone())).await];
    let pool = pool(&nodes).await;
    let remote = RemoteGenerator::connect(pool.clone()).await.unwrap();
    let (mut heard, mut times_anew) = (String::new(), 0);
    let mut hear = |told: Heard<'_>| match told {
        Heard::Text(more) => {
            if heard.is_empty() && times_anew == 0 {
                let busy = pool.members().iter().position(|peer| peer.in_flight() > 0);
                nodes[busy.unwrap()].wire.cut();
            }
            heard.push_str(more);
        }
        Heard::Asked => {}
        Heard::Anew => {
            heard.clear();
            times_anew += 1;
        }
    };
    let replied = remote.generate(&ask(900), soon(), &mut hear).await.unwrap();
    assert_eq!((&replied.text, times_anew), (&expected.text, 1));
    assert_eq!(heard, expected.text);
    idle(|| model.node()).await;
}
