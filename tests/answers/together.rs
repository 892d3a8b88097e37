//! Tests of encoder processes that read one text together.

use clew_proto::convert::encoder as convert;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_proto::encoder::v1::form_memory_response::Payload;
use clew_testkit::RedisServer;

use crate::harness::{Home, Server, eventually};

/// What the leader logs when it begins to read with peers.
const TOGETHER: &str = "a text is read together";
/// What the leader logs when it goes on without them.
const ALONE: &str = "texts are read without other encoders";

/// Encoders of one cluster, with the same memory model.
struct Encoders {
    home: Home,
    model: tempfile::TempDir,
    redis: RedisServer,
}

impl Encoders {
    fn new() -> Self {
        let model = tempfile::tempdir().unwrap();
        clew_testkit::write_tiny_memory_model(model.path(), 5).unwrap();
        Self { home: Home::new(), model, redis: RedisServer::start().unwrap() }
    }

    /// Starts an encoder that reads texts together with the encoders at `peers`.
    async fn start(&self, peers: &[&Server]) -> Server {
        let mut command = self.home.clew();
        command.args(["serve", "--roles", "encoder", "--listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(self.home.data_dir()).arg("--model").arg(self.home.model());
        command.env("CLEW_CLUSTER__REDIS", self.redis.url());
        command.env("CLEW_LOG", "info,clew_memory_encoder=debug");
        command.env("CLEW_MEMORY_MODEL__FOLDER", self.model.path());
        command.env("CLEW_MEMORY_MODEL__THREADS", "1");
        let peers: Vec<String> =
            peers.iter().map(|peer| format!("\"{}\"", peer.endpoint)).collect();
        command.env("CLEW_MEMORY_MODEL__PEERS", format!("[{}]", peers.join(",")));
        tokio::task::spawn_blocking(move || Server::start(command)).await.unwrap()
    }
}

/// Sentences of a text that is long enough for two encoders, and no longer.
const SENTENCES: usize = 800;

/// Has an encoder form a memory.
async fn formed(endpoint: String) -> Vec<u8> {
    let mut client = EncoderServiceClient::connect(endpoint).await.unwrap();
    let text = "A ship sailed to the port and came home. ".repeat(SENTENCES);
    let texts = vec![clew_core::MemoryText { title: "Tales".to_owned(), text }];
    let task = clew_core::FormTask { ratio: 16, begun: None, texts };
    let requests = futures::stream::iter(convert::form_to_wire(task));
    let mut events = client.form_memory(requests).await.unwrap().into_inner();
    let mut snapshot = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        if let Some(Payload::SnapshotPart(part)) = event.payload {
            snapshot.extend_from_slice(&part);
        }
    }
    snapshot
}

#[tokio::test(flavor = "multi_thread")]
async fn two_encoders_form_the_memory_of_one_and_the_death_of_one_costs_only_time() {
    let encoders = Encoders::new();
    let mut peer = encoders.start(&[]).await;
    let leader = encoders.start(&[&peer]).await;
    let begun = || leader.log().matches(TOGETHER).count();
    let alone = formed(peer.endpoint.clone()).await;
    assert!(!alone.is_empty());
    assert!(formed(leader.endpoint.clone()).await == alone, "bit by bit");
    assert!(begun() == 1 && !leader.log().contains(ALONE), "{}", leader.log());

    let forming = tokio::spawn(formed(leader.endpoint.clone()));
    eventually("they read together", async || (begun() == 2).then_some(())).await;
    peer.kill();
    assert!(forming.await.unwrap() == alone, "bit by bit");
    assert!(leader.log().contains(ALONE), "{}", leader.log());
    assert!(leader.terminate().success());
}
