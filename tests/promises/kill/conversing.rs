//! Test of conversations: two writers deliver turns twice, in any order and with wrong clocks, and
//! the server is killed in between. The memory must be the same as after one delivery in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clew_client::Client;
use clew_core::{Attributes, SpeakerRole, Timestamp, Turn, TurnId};
use clew_proto::chat::v1 as wire;
use clew_proto::convert::chat::{Appended, Inference};
use fastrand::Rng;
use futures::TryStreamExt;

use crate::client::{corpus, create_in_shards};
use crate::harness::{Home, PATIENCE, Server};
use crate::seed::random;
use crate::words::word;

const ROUNDS: usize = 3;
const KILLS: usize = 3;
const SESSIONS: u32 = 4;
const TURNS: u32 = 10;
const USER: &str = "ada";

/// Returns turns, each with a word that no other has.
fn conversations(random: &mut Rng) -> Vec<Turn> {
    let mut turns = Vec::new();
    for session in 0..SESSIONS {
        for number in 0..TURNS {
            let role = if number % 2 == 0 { SpeakerRole::User } else { SpeakerRole::Assistant };
            // Simulates the clocks of two devices, half an hour apart.
            let skew = random.i64(0..2) * 1_800;
            let seconds = i64::from(session) * 86_400 + i64::from(number) * 60 + skew;
            turns.push(Turn {
                id: TurnId { session: format!("s{session}").parse().unwrap(), number },
                speaker: String::new(),
                role,
                text: format!("I keep {} in the garden.", named(session, number)),
                time: Some(Timestamp::from_micros((1_716_000_000 + seconds) * 1_000_000)),
                attributes: Attributes::new(),
            });
        }
    }
    turns
}

fn named(session: u32, number: u32) -> String {
    word('c', (session * TURNS + number) as usize)
}

/// Delivers turns in batches of one session each, and repeats each batch until it is acknowledged.
async fn deliver(endpoint: String, mut turns: Vec<Turn>, batch: usize, seed: u64) {
    let mut random = Rng::with_seed(seed);
    while !turns.is_empty() {
        let rest = turns.split_off(batch.min(turns.len()));
        let mut sessions: BTreeMap<String, Vec<Turn>> = BTreeMap::new();
        for turn in std::mem::replace(&mut turns, rest) {
            sessions.entry(turn.id.session.to_string()).or_default().push(turn);
        }
        for turns in sessions.into_values() {
            let appended = Appended {
                labels: Default::default(),
                corpus: corpus("chats"),
                user: USER.to_owned(),
                turns,
                inference: Inference::Rules,
            };
            while append(&endpoint, appended.clone()).await.is_none() {
                let pause = Duration::from_millis(random.u64(5..60));
                tokio::time::sleep(pause).await;
            }
        }
    }
}

async fn append(endpoint: &str, turns: Appended) -> Option<wire::AppendTurnsResponse> {
    let client = Client::connect(endpoint, Duration::from_secs(5)).await.ok()?;
    client.append_turns(turns).await.ok()
}

/// Returns all stored turns.
async fn kept(client: &Client) -> Vec<wire::ListTurnsResponse> {
    let of_user = wire::ListTurnsRequest {
        corpus: "chats".to_owned(),
        user: USER.to_owned(),
        ..wire::ListTurnsRequest::default()
    };
    client.list_turns(of_user).await.unwrap().try_collect().await.unwrap()
}

/// Returns the rounds that are recalled for words that all turns contain.
async fn recalled(client: &Client) -> BTreeSet<(String, Vec<u32>)> {
    let asked = wire::RecallRequest {
        corpus: "chats".to_owned(),
        user: USER.to_owned(),
        question: "What do I keep in the garden?".to_owned(),
        k: Some(100),
        ..wire::RecallRequest::default()
    };
    let items = client.recall(asked).await.unwrap().items.into_iter();
    let numbers = |item: &wire::RecalledItem| item.turns.iter().map(|turn| turn.number).collect();
    items.map(|item| (item.session.clone(), numbers(&item))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn any_delivery_of_turns_makes_the_memory_of_one_in_order() {
    let mut random = random();
    for _ in 0..ROUNDS {
        let turns = conversations(&mut random);
        let ordered = Home::new();
        let server = ordered.serve();
        let client = server.client().await;
        create_in_shards(&client, "chats", 2).await;
        deliver(server.endpoint.clone(), turns.clone(), turns.len(), 0).await;
        let expected = (kept(&client).await, recalled(&client).await);
        assert_eq!((expected.0.len(), expected.1.len()), (turns.len(), turns.len() / 2));

        let home = Home::new();
        let mut server = home.serve();
        let endpoint = server.endpoint.clone();
        create_in_shards(&server.client().await, "chats", 2).await;
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let mut turns = turns.clone();
            random.shuffle(&mut turns);
            let (batch, seed) = (random.usize(1..8), random.u64(..));
            writers.spawn(deliver(endpoint.clone(), turns, batch, seed));
        }
        for _ in 0..KILLS {
            tokio::time::sleep(Duration::from_millis(random.u64(50..500))).await;
            server.kill();
            let address = endpoint.trim_start_matches("http://");
            server = Server::start(home.serve_command_at(address));
        }
        let delivered = async {
            while let Some(written) = writers.join_next().await {
                written.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, delivered).await.expect("the writers finish");
        let client = server.client().await;
        assert!(kept(&client).await == expected.0, "a turn is missing, or another");
        assert_eq!(recalled(&client).await, expected.1);
        home.run_at(&server, &["check", "--corpus", "chats", "--json"]).done();
    }
}
