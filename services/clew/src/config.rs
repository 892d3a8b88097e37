//! Configuration of a node: the sections that the roles define.

use std::path::PathBuf;

use clew_auth::AuthConfig;
use clew_cluster::ClusterConfig;
use clew_core::Error;
use clew_endpoint::EndpointConfig;
use clew_gateway::GatewayConfig;
use clew_generator::GeneratorConfig;
use clew_graph_builder::GraphBuilderConfig;
use clew_memory_encoder::{EncoderConfig, MemoryModelConfig, RerankerConfig};
use clew_remote::RemoteEncoderConfig;
use clew_retriever::{RetrieverConfig, StorageConfig};
use clew_runtime::peer::PeerConfig;
use clew_telemetry::{AdminConfig, TelemetryConfig};
use clew_tls::TlsConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::global::GlobalArgs;

/// Configuration of a node. Sources, each overriding the one before: defaults, file, environment
/// (`CLEW_LISTEN`, `CLEW_ENCODER__THREADS`, ...), flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// Data directory, in which everything is kept: a folder or `s3://bucket/prefix`; also
    /// `--data-dir`. Without a cluster, one process at a time works on it. A second process on the
    /// same folder is refused. A second process on the same bucket takes the data over, and the
    /// first one refuses requests from then on.
    pub data_dir: PathBuf,
    /// Access to storage that is not a folder, and the place of snapshots.
    pub storage: StorageConfig,
    /// Address to listen on, `host:port`; also `--listen`. Port 0 selects a free port.
    pub listen: String,
    /// Maximum duration of a shutdown in seconds, 1 to 3,600. During it the node hands over its
    /// shards and finishes its work.
    pub shutdown_secs: u64,
    /// Settings for embedding.
    pub encoder: EncoderConfig,
    /// Settings for forming compressed memories and drafting from them.
    pub memory_model: MemoryModelConfig,
    /// Settings for reranking.
    pub reranker: RerankerConfig,
    /// Settings for shards.
    pub retriever: RetrieverConfig,
    /// Limits and settings for requests of clients.
    pub gateway: GatewayConfig,
    /// Settings for reading evidence and generating.
    pub generator: GeneratorConfig,
    /// Settings for reading texts for trees and graphs.
    pub graph_builder: GraphBuilderConfig,
    /// Discovery of other nodes; by default the node runs alone.
    pub cluster: ClusterConfig,
    /// Connections to other nodes.
    pub peers: PeerConfig,
    /// Certificates.
    pub tls: TlsConfig,
    /// Access control of callers.
    pub auth: AuthConfig,
    /// Settings for embedding on other nodes.
    pub remote_encoder: RemoteEncoderConfig,
    /// Address of metrics and health.
    pub admin: AdminConfig,
    /// Export of traces and metrics.
    pub telemetry: TelemetryConfig,
    /// Language model behind an OpenAI-compatible endpoint, which judges answers. Only `clew eval
    /// answers` uses it. Without it, answers are scored by rules alone.
    pub judge: Option<EndpointConfig>,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from(".clew"),
            storage: StorageConfig::default(),
            listen: "127.0.0.1:7421".to_owned(),
            shutdown_secs: 30,
            encoder: EncoderConfig::default(),
            memory_model: MemoryModelConfig::default(),
            reranker: RerankerConfig::default(),
            retriever: RetrieverConfig::default(),
            gateway: GatewayConfig::default(),
            generator: GeneratorConfig::default(),
            graph_builder: GraphBuilderConfig::default(),
            cluster: ClusterConfig::default(),
            peers: PeerConfig::default(),
            tls: TlsConfig::default(),
            auth: AuthConfig::default(),
            remote_encoder: RemoteEncoderConfig::default(),
            admin: AdminConfig::default(),
            telemetry: TelemetryConfig::default(),
            judge: None,
        }
    }
}

/// Settings from the command line, in the shape of the configuration.
#[derive(Serialize)]
struct Flags {
    #[serde(skip_serializing_if = "Option::is_none")]
    data_dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoder: Option<EncoderFlags>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<StorageFlags>,
}

#[derive(Serialize)]
struct EncoderFlags {
    model: PathBuf,
}

#[derive(Serialize)]
struct StorageFlags {
    snapshots: String,
}

impl NodeConfig {
    /// Loads the effective configuration.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming the key at fault if the configuration
    /// is not valid.
    pub fn load(global: &GlobalArgs, listen: Option<String>) -> Result<Self, Error> {
        let flags = Flags {
            data_dir: global.data_dir.clone(),
            listen,
            encoder: global.model.clone().map(|model| EncoderFlags { model }),
            storage: global.snapshots.clone().map(|snapshots| StorageFlags { snapshots }),
        };
        // Tests of upgrades run one build as two releases.
        #[cfg(debug_assertions)]
        if std::env::var_os("NEXT_RELEASE_OF_CLEW").is_some() {
            clew_retriever::act_as_next_release();
        }
        let config: Self = clew_runtime::config::load(global.config.as_deref(), flags)?;
        config.validate()?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), Error> {
        if !(1..=3600).contains(&self.shutdown_secs) {
            let problem = format!("expected 1 to 3600, got {}", self.shutdown_secs);
            return Err(Error::invalid("shutdown_secs", problem));
        }
        self.encoder.validate()?;
        self.memory_model.validate()?;
        self.reranker.validate()?;
        self.storage.validate()?;
        self.retriever.validate()?;
        self.gateway.validate()?;
        self.generator.validate()?;
        self.graph_builder.validate()?;
        self.remote_encoder.validate()?;
        self.cluster.validate()?;
        self.peers.validate()?;
        self.tls.validate()?;
        self.auth.validate()?;
        self.telemetry.validate()?;
        self.judge.as_ref().map_or(Ok(()), |judge| judge.validate("judge"))
    }
}
