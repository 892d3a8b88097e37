//! Server whose callers hold different labels.

use std::collections::BTreeMap;

use clew_auth::ApiKey;
use clew_client::{Client, Credentials};

use crate::harness::{Home, PATIENCE, Server};

/// Labels that callers hold, separated by commas; `*` means all.
const HELD: [&str; 7] = ["*", "", "team", "secret", "other", "team,secret", "team,secret,other"];

/// Server with tiny models, and a key for each set of labels.
pub struct Services {
    server: Server,
    keys: BTreeMap<&'static str, ApiKey>,
    _home: Home,
}

impl Services {
    pub async fn start() -> Self {
        let home = Home::new();
        let model = home.path("memory-model");
        std::fs::create_dir(&model).unwrap();
        clew_testkit::write_tiny_memory_model(&model, 5).unwrap();
        let keys: BTreeMap<_, _> =
            HELD.into_iter().map(|held| (held, ApiKey::generate().unwrap())).collect();
        let entry = |(held, key): (&&str, &ApiKey)| {
            let labels: Vec<_> = held.split(',').filter(|label| !label.is_empty()).collect();
            let scopes = "scopes = ['read', 'write', 'admin']";
            format!(
                "[[key]]\nname = '{held}.'\nhash = '{}'\n{scopes}\nlabels = {labels:?}\n",
                key.hash()
            )
        };
        let file = home.write("keys.toml", keys.iter().map(entry).collect::<String>());
        let mut command = home.serve_command();
        command.env("CLEW_AUTH__KEYS_FILE", file);
        command.env("CLEW_MEMORY_MODEL__FOLDER", &model);
        command.env("CLEW_MEMORY_MODEL__DRAFT_TOKENS", "16");
        command.env("CLEW_RETRIEVER__MEMORY_INTERVAL_MS", "50");
        let server = tokio::task::spawn_blocking(move || Server::start(command)).await.unwrap();
        Self { server, keys, _home: home }
    }

    /// Connects a client that holds the given labels. `None` means all labels.
    pub async fn client_of(&self, held: Option<&[&str]>) -> Client {
        let held = held.map_or_else(|| "*".to_owned(), |held| held.join(","));
        let api_key = Some(self.keys[held.as_str()].reveal().to_owned());
        let credentials = Credentials { api_key, ..Credentials::default() };
        Client::connect_as(&credentials, &self.server.endpoint, PATIENCE).await.unwrap()
    }
}
