//! Encoder services behind wires that can be cut, and pools of them.

use std::time::{Duration, Instant};

use clew_core::Error;
use clew_memory_encoder::service::EncoderEndpoint;
use clew_runtime::peer::{PeerOptions, Reach};
use clew_runtime::pool::Pool;
use clew_testkit::FaultyWire;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// Encoder service behind a wire that can be cut.
pub struct Server {
    wire: FaultyWire,
    serving: JoinHandle<Result<(), Error>>,
}

impl Server {
    pub async fn start(endpoint: EncoderEndpoint) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = FaultyWire::to(listener.local_addr().unwrap()).await.unwrap();
        let serving =
            tokio::spawn(async move { endpoint.serve(listener, std::future::pending()).await });
        Self { wire, serving }
    }

    pub fn kill(&self) {
        self.serving.abort();
        self.wire.cut();
    }

    pub fn member(&self, name: &str) -> (String, String) {
        (name.to_owned(), format!("http://{}", self.wire.address()))
    }
}

/// Creates a pool of these members, and waits until they serve.
pub async fn pool(name: &'static str, members: Vec<(String, String)>) -> Pool {
    let service = "clew.encoder.v1.EncoderService".to_owned();
    let options = PeerOptions { service, credits: 64, reach: Reach::default() };
    let pool = Pool::new(name, options);
    set(&pool, members).await;
    pool
}

/// Sets the members of a pool, and waits until they serve.
pub async fn set(pool: &Pool, members: Vec<(String, String)>) {
    pool.update(members).await.unwrap();
    let deadline = soon();
    while !pool.node().children.iter().all(|peer| peer.state == "serving") {
        assert!(Instant::now() < deadline, "they never served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
