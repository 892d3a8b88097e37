//! Server with certificates, keys and tenants.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use clew_auth::ApiKey;
use clew_client::{Client, Credentials, Services, Wire};
use clew_cluster::Role;
use clew_testkit::{Authority, Validity};
use clew_tls::{ClientTls, NODE_NAME};

use crate::harness::{Home, PATIENCE, Ran, Server};
use crate::twin::Way;

/// Keys: name, tenant, scopes, and the rest of the entry.
const KEYS: [(&str, &str, &str, &str); 7] = [
    ("acme", "acme", "'read', 'write', 'admin'", ""),
    ("acme-hr", "acme", "'read', 'write'", "labels = ['hr']"),
    ("acme-reader", "acme", "'read'", ""),
    ("acme-writer", "acme", "'write'", ""),
    ("acme-ended", "acme", "'read'", "expires = '2020-01-01T00:00:00Z'"),
    ("other", "other", "'read', 'write', 'admin'", "labels = ['*']"),
    ("operator", "", "'read', 'write', 'admin'", ""),
];

/// Folder with an authority, a node's certificate and a file of keys.
pub(crate) struct World {
    pub home: Home,
    pub keys: BTreeMap<&'static str, ApiKey>,
}

impl World {
    pub fn new() -> Self {
        Self::with("")
    }

    /// Creates the folder. `more` is appended to the file of keys.
    pub fn with(more: &str) -> Self {
        let home = Home::new();
        let authority = Authority::new("cluster").unwrap();
        authority.write(&home.path("ca.crt")).unwrap();
        let folder = home.path("ca.crt").parent().unwrap().to_owned();
        let hosts = ["localhost", "127.0.0.1", NODE_NAME];
        // The certificate that nodes of earlier versions have.
        authority.issue(&folder, "node", &hosts, Validity::Valid).unwrap();
        for role in Role::ALL {
            let role_name = format!("{role}.{NODE_NAME}");
            let names = [&hosts[..], &[role_name.as_str()]].concat();
            authority.issue(&folder, role.as_str(), &names, Validity::Valid).unwrap();
        }
        let mut keys = BTreeMap::new();
        let mut file = String::new();
        for (name, tenant, scopes, rest) in KEYS {
            let key = ApiKey::generate().unwrap();
            let tenant =
                if tenant.is_empty() { String::new() } else { format!("tenant = '{tenant}'") };
            file += &format!(
                "[[key]]\nname = '{name}'\nhash = '{}'\nscopes = [{scopes}]\n{tenant}\n{rest}\n",
                key.hash()
            );
            keys.insert(name, key);
        }
        home.write("keys.toml", file + more);
        Self { home, keys }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path(name)
    }

    /// Configures a process to be encrypted and to require keys.
    pub fn secure(&self, command: &mut Command) {
        for (key, file) in [
            ("CLEW_TLS__CERTIFICATE", "node.crt"),
            ("CLEW_TLS__KEY", "node.key"),
            ("CLEW_TLS__CA", "ca.crt"),
            ("CLEW_AUTH__KEYS_FILE", "keys.toml"),
        ] {
            command.env(key, self.path(file));
        }
        command.env("CLEW_LOG", "debug,h2=info,hyper=info,lance=warn,datafusion=warn");
    }

    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// Starts a server with the additional `settings`.
    pub fn serve_with(&self, settings: &[(&'static str, String)]) -> Server {
        let mut command = self.home.serve_command();
        self.secure(&mut command);
        command.envs(settings.iter().map(|(key, value)| (*key, value)));
        Server::start(command)
    }

    pub fn credentials(&self, key: &str) -> Credentials {
        Credentials {
            api_key: Some(self.keys[key].reveal().to_owned()),
            tls: ClientTls { ca: Some(self.path("ca.crt")), identity: None },
        }
    }

    /// Connects with the certificate in `STEM.crt`, and no key.
    pub async fn certified(&self, server: &Server, stem: &str) -> Wire {
        let identity = [self.path(&format!("{stem}.crt")), self.path(&format!("{stem}.key"))];
        let tls = ClientTls { ca: Some(self.path("ca.crt")), identity: Some(identity.into()) };
        let credentials = Credentials { api_key: None, tls };
        Wire::connect(&server.endpoint, &credentials).await.unwrap()
    }

    pub async fn client(&self, server: &Server, key: &str) -> Client {
        Client::over(self.wire(server, key).await, PATIENCE)
    }

    pub async fn wire(&self, server: &Server, key: &str) -> Wire {
        Wire::connect(&server.endpoint, &self.credentials(key)).await.unwrap()
    }

    /// Returns the services of a server, called with a key in the given way.
    pub async fn services(&self, server: &Server, key: &str, way: Way) -> Services {
        way.to(server, &self.credentials(key)).await
    }

    /// Returns a client with a key that calls in the given way.
    pub async fn client_by(&self, way: Way, server: &Server, key: &str) -> Client {
        Client::over(self.services(server, key, way).await, PATIENCE)
    }

    /// Runs `clew` against a server with a key.
    pub fn run(&self, server: &Server, key: &str, arguments: &[&str]) -> Ran {
        let mut command = self.home.clew();
        command.args(arguments).args(["--endpoint", &server.endpoint]);
        command.env("CLEW_API_KEY", self.keys[key].reveal()).env("CLEW_CA", self.path("ca.crt"));
        Ran::of(command)
    }
}
