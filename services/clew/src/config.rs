//! Configuration of the program `clew`: the keys of every node, and those of all roles.

use std::path::PathBuf;

use clew_console::ConsoleConfig;
use clew_core::Error;
use clew_endpoint::EndpointConfig;
use clew_gateway::GatewayConfig;
use clew_generator::GeneratorConfig;
use clew_graph_builder::GraphBuilderConfig;
use clew_http::HttpConfig;
use clew_index::ObjectStoreSettings;
use clew_mcp::McpConfig;
use clew_memory_encoder::{EncoderConfig, MemoryModelConfig, ReaderConfig, RerankerConfig};
use clew_node::NodeConfig;
use clew_remote::RemoteEncoderConfig;
use clew_retriever::{RetrieverConfig, StorageConfig};
use clew_runtime::config::Sources;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::global::GlobalArgs;

/// Configuration of the program `clew`. Sources, each overriding the one before: defaults, file,
/// environment (`CLEW_LISTEN`, `CLEW_ENCODER__THREADS`, ...), flags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ClewConfig {
    /// Keys that every node has.
    #[serde(flatten)]
    pub node: NodeConfig,
    /// Keys of the roles and of commands.
    #[serde(flatten)]
    pub roles: RolesConfig,
}

/// Configuration keys of the roles, and of commands that need no server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolesConfig {
    /// Data directory, in which everything is kept: a folder or `s3://bucket/prefix`; also
    /// `--data-dir`. Without a cluster, one process at a time works on it. A second process on the
    /// same folder is refused. A second process on the same bucket takes the data over, and the
    /// first one refuses requests from then on.
    pub data_dir: PathBuf,
    /// Access to storage that is not a folder, and the place of snapshots.
    pub storage: StorageConfig,
    /// Settings for embedding.
    pub encoder: EncoderConfig,
    /// Settings for forming compressed memories and drafting from them.
    pub memory_model: MemoryModelConfig,
    /// Settings for reranking.
    pub reranker: RerankerConfig,
    /// Settings for reading passages for answers.
    pub reader: ReaderConfig,
    /// Settings for shards.
    pub retriever: RetrieverConfig,
    /// Limits and settings for requests of clients.
    pub gateway: GatewayConfig,
    /// Access by HTTP.
    pub http: HttpConfig,
    /// Tools for agents, by the Model Context Protocol.
    pub mcp: McpConfig,
    /// Pages for people, in a browser.
    pub console: ConsoleConfig,
    /// Settings for reading evidence and generating.
    pub generator: GeneratorConfig,
    /// Settings for reading texts for trees and graphs.
    pub graph_builder: GraphBuilderConfig,
    /// Settings for embedding on other nodes.
    pub remote_encoder: RemoteEncoderConfig,
    /// Settings of `clew ingest`.
    pub ingest: IngestConfig,
    /// Language model behind an OpenAI-compatible endpoint, which judges answers. Only `clew eval
    /// answers` uses it. Without it, answers are scored by rules alone.
    pub judge: Option<EndpointConfig>,
}

impl Default for RolesConfig {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from(".clew"),
            storage: StorageConfig::default(),
            encoder: EncoderConfig::default(),
            memory_model: MemoryModelConfig::default(),
            reranker: RerankerConfig::default(),
            reader: ReaderConfig::default(),
            retriever: RetrieverConfig::default(),
            gateway: GatewayConfig::default(),
            http: HttpConfig::default(),
            mcp: McpConfig::default(),
            console: ConsoleConfig::default(),
            generator: GeneratorConfig::default(),
            graph_builder: GraphBuilderConfig::default(),
            remote_encoder: RemoteEncoderConfig::default(),
            ingest: IngestConfig::default(),
            judge: None,
        }
    }
}

/// Settings of `clew ingest`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IngestConfig {
    /// Access to buckets that documents are read from. Reading and listing is enough. Values that
    /// are not set come from the environment, as for `storage.s3`.
    pub s3: ObjectStoreSettings,
}

impl IngestConfig {
    fn validate(&self) -> Result<(), Error> {
        let problem = self.s3.problem();
        problem.map_or(Ok(()), |(key, problem)| {
            Err(Error::invalid(key.replacen("storage", "ingest", 1), problem))
        })
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

impl ClewConfig {
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
        let config = Self::read(&Sources::gather(global.config.as_deref(), flags)?)?;
        config.node.validate_sections()?;
        config.roles.validate()?;
        Ok(config)
    }

    fn read(sources: &Sources) -> Result<Self, Error> {
        sources.refuse_others_than(&Self::default())?;
        Ok(Self { node: sources.read()?, roles: sources.read()? })
    }
}

impl RolesConfig {
    fn validate(&self) -> Result<(), Error> {
        self.encoder.validate()?;
        self.memory_model.validate()?;
        self.reranker.validate()?;
        self.storage.validate()?;
        self.retriever.validate()?;
        self.gateway.validate()?;
        self.http.validate()?;
        self.console.validate()?;
        self.generator.validate()?;
        self.graph_builder.validate()?;
        self.remote_encoder.validate()?;
        self.ingest.validate()?;
        self.judge.as_ref().map_or(Ok(()), |judge| judge.validate("judge"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let flags = Flags { data_dir: None, listen: None, encoder: None, storage: None };
        let sources = Sources::gather(Some(file.path()), flags).unwrap();
        ClewConfig::read(&sources).unwrap_err().message().to_owned()
    }

    #[test]
    fn a_key_at_fault_is_named_with_its_path_wherever_it_stands() {
        for (text, path) in [
            ("shutdwon_secs = 1", "shutdwon_secs"),
            ("shutdown_secs = 'x'", "shutdown_secs"),
            ("[clustre]\nheartbeat_ms = 100", "clustre"),
            ("[cluster]\nheartbeat = 100", "cluster.heartbeat"),
            ("[cluster.redis_tls]\ncertificat = 'x'", "cluster.redis_tls.certificat"),
            ("[retriever]\nsearchs = 1", "retriever.searchs"),
            ("[retriever]\nsearches = 'many'", "retriever.searches"),
        ] {
            let message = refused(text);
            assert!(message.starts_with(&format!("`{path}`: ")), "{text}: {message}");
            assert!(message.ends_with("(TOML file)"), "{text}: {message}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_all_that_are_known() {
        let message = refused("no_such_key = 1");
        let known = serde_json::to_value(ClewConfig::default()).unwrap();
        for key in known.as_object().unwrap().keys() {
            assert!(message.contains(&format!("`{key}`")), "{key}: {message}");
        }
        assert!(message.contains("`listen`") && message.contains("`judge`"), "{message}");
    }
}
