//! Reranker of this process: a cross-encoder on its devices, or one behind an endpoint.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use clew_core::{Error, NoReranker, Priority, Reranker, Scored, Violations};
use clew_endpoint::{RerankConfig, RerankEndpoint};
use clew_model::{EncodedPair, ModelOptions, Scratch};
use clew_runtime::tree::RunningPart;
use clew_telemetry::{Severity, Trouble, child};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing::Instrument;

use crate::devices::{Computes, Devices, Names};
use crate::relevance::Relevance;
use crate::{EncoderConfig, OwnReader};

/// Section `reranker`: the model that reorders the candidates of a search if the caller asks for
/// it. Set `model` or `endpoint`. With neither, the reader reranks by the relevance that it reads,
/// if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RerankerConfig {
    /// Folder of a cross-encoder in Hugging Face layout: a BERT or an XLM-RoBERTa with one label.
    /// It runs on `encoder.device`, with threads and a queue of its own, which have the same limits
    /// as those of `encoder`: `threads`, `batch_tokens`, `queue_tokens` and `question_wait_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// Reranker behind an endpoint, instead of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<RerankConfig>,
}

impl RerankerConfig {
    /// Refuses values that contradict each other or are out of range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] with every key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if self.model.is_some() && self.endpoint.is_some() {
            let problem = "expected either `reranker.model` or `reranker.endpoint`, got both";
            violations.push("reranker.endpoint", problem);
        }
        if let Some(endpoint) = &self.endpoint {
            violations.take(endpoint.validate("reranker.endpoint"));
        }
        violations.into_result()
    }
}

/// Reranker of a process. Cheap to clone.
#[derive(Clone)]
pub enum OwnReranker {
    /// No reranker.
    None,
    /// On its own devices.
    Pool(Arc<RerankerPool>),
    /// Behind an endpoint.
    Endpoint(Arc<RerankEndpoint>),
    /// The reader, if it can be loaded.
    Reader(Arc<dyn Reranker>),
}

impl OwnReranker {
    /// Loads and starts the configured reranker, on the devices that `encoder` names, or takes
    /// `reader` for it. An endpoint that does not answer is not an error here.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration or the folder cannot be
    /// used, and [`clew_core::ErrorKind::WrongState`] if an API key is not where the configuration
    /// says.
    pub async fn load(
        config: &RerankerConfig,
        encoder: &EncoderConfig,
        reader: &OwnReader,
    ) -> Result<Self, Error> {
        config.validate()?;
        Ok(match (&config.model, &config.endpoint) {
            (Some(folder), _) => {
                Self::Pool(Arc::new(RerankerPool::load(folder.clone(), encoder).await?))
            }
            (None, Some(config)) => Self::Endpoint(Arc::new(RerankEndpoint::try_new(config)?)),
            (None, None) => match reader {
                OwnReader::None => Self::None,
                OwnReader::Pool(_) => Self::Reader(Arc::new(Relevance::by(reader.seam()))),
            },
        })
    }

    /// Returns the reranker, or [`NoReranker`].
    pub fn seam(&self) -> Arc<dyn Reranker> {
        match self {
            Self::None => Arc::new(NoReranker),
            Self::Pool(pool) => Arc::clone(pool) as Arc<dyn Reranker>,
            Self::Endpoint(endpoint) => Arc::clone(endpoint) as Arc<dyn Reranker>,
            Self::Reader(reranker) => Arc::clone(reranker),
        }
    }

    /// Returns a readable description, or `None` if there is none beside the reader.
    pub fn description(&self) -> Option<String> {
        match self {
            Self::None | Self::Reader(_) => None,
            Self::Pool(pool) => Some(format!("`{}`, in this process", pool.model.name)),
            Self::Endpoint(endpoint) => Some(format!("`{}`, behind an endpoint", endpoint.model())),
        }
    }

    /// Returns the troubles of the devices.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.pool().map_or_else(Vec::new, |pool| pool.devices.troubles())
    }

    /// Returns the devices' nodes for the tree of running parts.
    pub fn nodes(&self) -> Vec<RunningPart> {
        self.pool().map(|pool| pool.devices.node()).into_iter().collect()
    }

    /// Stops the workers.
    pub async fn stop(&self) {
        if let Some(pool) = self.pool() {
            pool.devices.stop().await;
        }
    }

    fn pool(&self) -> Option<&RerankerPool> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::None | Self::Endpoint(_) | Self::Reader(_) => None,
        }
    }
}

/// Cross-encoder on this machine's devices.
pub struct RerankerPool {
    model: Arc<CrossEncoder>,
    devices: Devices<CrossEncoder>,
}

struct CrossEncoder {
    name: String,
    model: Arc<clew_model::RerankerModel>,
}

impl Computes for CrossEncoder {
    type Text = EncodedPair;
    type Result = f32;

    const NAMES: Names = Names {
        part: "reranker",
        queue: "the reranker's queue",
        doing: "reranking",
        stage: "rerank.compute",
        span: |pairs| tracing::info_span!("rerank.compute", pairs),
        severity: Severity::Degraded,
    };

    fn name(&self) -> &str {
        &self.name
    }

    fn tokens(pair: &EncodedPair) -> usize {
        pair.ids.len()
    }

    fn compute(
        &self,
        pairs: &[EncodedPair],
        scratch: &mut Scratch,
    ) -> Result<Vec<f32>, clew_model::Error> {
        self.model.score_pairs(pairs, scratch)
    }

    fn check(&self) -> Result<(), clew_model::Error> {
        self.model.check()
    }
}

impl RerankerPool {
    /// Loads the model in `folder` and starts its workers, on the devices that `encoder` names.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration or the folder cannot be
    /// used, and [`clew_core::ErrorKind::Internal`] if the actor system fails to start.
    pub async fn load(folder: PathBuf, encoder: &EncoderConfig) -> Result<Self, Error> {
        let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
        // A precision or path that suits the encoder may be impossible for a model that reads two
        // texts.
        let device = encoder.model_options()?.device;
        let options = ModelOptions { device, ..ModelOptions::default() };
        let load = move || clew_model::RerankerModel::load(&folder, &options);
        let loaded = tokio::task::spawn_blocking(load)
            .await
            .map_err(|panic| Error::internal("loading the reranker panicked").with_source(panic))?;
        let model = Arc::new(CrossEncoder { name, model: loaded? });
        Ok(Self { devices: Devices::start(Arc::clone(&model), encoder).await?, model })
    }

    /// Tokenises on a thread where blocking is allowed.
    async fn encode(
        &self,
        query: String,
        passages: Vec<String>,
    ) -> Result<Vec<EncodedPair>, Error> {
        let model = Arc::clone(&self.model.model);
        let encode = move || {
            let pairs = passages.iter().map(|passage| model.encode(&query, passage));
            pairs.collect::<Result<Vec<_>, _>>()
        };
        let encoded = tokio::task::spawn_blocking(encode)
            .await
            .map_err(|error| Error::internal("the tokenizer panicked").with_source(error))?;
        encoded.map_err(|error| {
            let problem =
                format!("expected one that leaves the reranker room for a passage: {error}");
            Error::invalid("query", problem)
        })
    }
}

#[async_trait]
impl Reranker for RerankerPool {
    async fn reranker_model(&self, _deadline: Instant) -> Result<Option<String>, Error> {
        Ok(Some(self.model.name.clone()))
    }

    async fn score(
        &self,
        query: &str,
        passages: Vec<String>,
        deadline: Instant,
    ) -> Result<Scored, Error> {
        let span = child(|| tracing::info_span!("rerank.score", passages = passages.len()));
        let scoring = async {
            let arrived = Instant::now();
            let pairs = self.encode(query.to_owned(), passages).await?;
            let tokens = pairs.iter().map(|pair| pair.ids.len() as u64).sum();
            let person = Priority::Interactive;
            let logits = self.devices.compute(pairs, person, arrived, deadline).await?;
            Ok(Scored { scores: logits.into_iter().map(share).collect(), tokens })
        };
        scoring.instrument(span).await
    }
}

/// Returns the probability of a logit. Endpoints return probabilities, and scores of searches have
/// the same range.
fn share(logit: f32) -> f32 {
    (1.0 / (1.0 + (-f64::from(logit)).exp())) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_become_shares_in_the_same_order() {
        let logits = [f32::MIN, -11.0, -10.9, 0.0, 10.9, 11.0, f32::MAX];
        let shares: Vec<f32> = logits.into_iter().map(share).collect();
        assert!(shares.is_sorted() && shares.iter().all(|share| (0.0..=1.0).contains(share)));
        assert!(shares[1] < shares[2] && shares[4] < shares[5] && shares[3] == 0.5, "{shares:?}");
    }

    #[test]
    fn a_model_and_an_endpoint_contradict_each_other() {
        let endpoint = RerankConfig {
            url: "http://localhost:8000/v1".to_owned(),
            model: "reranker".to_owned(),
            ..RerankConfig::default()
        };
        let folder = Some(PathBuf::from("reranker"));
        let both = RerankerConfig { model: folder.clone(), endpoint: Some(endpoint.clone()) };
        let error = both.validate().unwrap_err();
        assert_eq!(error.violations()[0].field, "reranker.endpoint");
        assert!(RerankerConfig { model: folder, endpoint: None }.validate().is_ok());
        assert!(RerankerConfig { model: None, endpoint: Some(endpoint) }.validate().is_ok());
        let unsound = RerankerConfig { endpoint: Some(RerankConfig::default()), model: None };
        let error = unsound.validate().unwrap_err();
        let fields = error.fields_at_fault();
        assert_eq!(fields, ["reranker.endpoint.url", "reranker.endpoint.model"]);
    }
}
