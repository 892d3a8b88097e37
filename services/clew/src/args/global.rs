//! Options of every command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clew_client::{Client, Credentials};
use clew_core::Error;
use clew_telemetry::LogFormat;
use clew_tls::ClientTls;

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct GlobalArgs {
    /// Server to call, such as http://127.0.0.1:7421.
    #[arg(long, global = true, env = "CLEW_ENDPOINT", value_name = "ADDRESS")]
    pub endpoint: Option<String>,
    /// API key to show the server. Anyone who lists the processes of this machine can read a key on
    /// the command line, so prefer the variable.
    #[arg(long, global = true, env = "CLEW_API_KEY", value_name = "KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Certificate (PEM) of the authority that certifies a server at an https:// address [default:
    /// those that this system trusts].
    #[arg(long, global = true, env = "CLEW_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate (PEM) to show a server that asks for one.
    #[arg(long, global = true, env = "CLEW_CLIENT_CERTIFICATE", value_name = "FILE")]
    pub client_certificate: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    #[arg(long, global = true, env = "CLEW_CLIENT_KEY", value_name = "FILE")]
    pub client_key: Option<PathBuf>,
    /// Data directory to open in this process if there is no endpoint: a folder or
    /// s3://bucket/prefix [default: .clew].
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "endpoint")]
    pub data_dir: Option<PathBuf>,
    /// Place of the snapshots of corpora, for a data directory that this process opens: a folder or
    /// s3://bucket/prefix.
    #[arg(long, global = true, value_name = "PLACE", conflicts_with = "endpoint")]
    pub snapshots: Option<String>,
    /// Configuration file (TOML); `clew config reference` describes all keys.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the embedding model [default: the one that was installed with this program or that
    /// it fetched]. For `generate`, `train-memory` and `bench generate`: folder of the language
    /// model.
    #[arg(long, global = true, env = "CLEW_MODEL_DIR", value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Log lines to show: a level, or directives such as `info,clew_retriever=debug`.
    #[arg(long, global = true, env = "CLEW_LOG", value_name = "FILTER", default_value = "warn")]
    pub log: String,
    /// Write log lines as JSON objects.
    #[arg(long, global = true)]
    pub log_json: bool,
    /// Print one JSON document on standard output, and everything else on standard error.
    #[arg(long, global = true)]
    pub json: bool,
}

impl GlobalArgs {
    /// Connects to the server at `endpoint`. Each call may take at most `patience`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if only one of the client certificate and its
    /// key is given, and the errors of [`Client::connect_as`].
    pub async fn connect(&self, endpoint: &str, patience: Duration) -> Result<Client, Error> {
        let identity = match (self.client_certificate.clone(), self.client_key.clone()) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => {
                let problem = "expected both --client-certificate and --client-key, or neither";
                return Err(Error::invalid("client_key", problem));
            }
        };
        let tls = ClientTls { ca: self.ca.clone(), identity };
        let credentials = Credentials { api_key: self.api_key.clone(), tls };
        Client::connect_as(&credentials, endpoint, patience).await
    }

    /// Returns the format of log lines.
    pub fn log_format(&self) -> LogFormat {
        if self.log_json { LogFormat::Json } else { LogFormat::Text }
    }
}
