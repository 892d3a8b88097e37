//! The graph builder that the configuration names.

use std::sync::Arc;

use clew_cluster::Cache;
use clew_core::{Error, ErrorKind, Generator, GraphBuilders};

use crate::given::Given;
use crate::{Extractive, GraphBuilderConfig, Reader};

/// Texts that a model reads at once by default: it works on several in about the time of one.
const TEXTS_AT_ONCE: usize = 8;

/// What reads texts: rules, or `model`, whose replies are kept here and with the nodes that share `cache`.
///
/// # Errors
/// [`ErrorKind::WrongState`] with the reason `NO_MODEL` if a model is to read and there is none;
/// [`ErrorKind::InvalidInput`] if the configured graph cannot be read.
pub fn builder(
    config: &GraphBuilderConfig,
    model: Option<Arc<dyn Generator>>,
    cache: Option<Cache>,
) -> Result<Arc<dyn GraphBuilders>, Error> {
    let reader = reader(config, model, cache)?;
    match &config.graph {
        Some(file) => Ok(Arc::new(Given::read(file, reader)?)),
        None => Ok(reader),
    }
}

fn reader(
    config: &GraphBuilderConfig,
    model: Option<Arc<dyn Generator>>,
    cache: Option<Cache>,
) -> Result<Arc<dyn GraphBuilders>, Error> {
    match (config.reader, model) {
        (Reader::Rules, _) => Ok(Arc::new(Extractive::new(config))),
        (Reader::Model, Some(model)) => {
            let at_once = match config.threads {
                0 => TEXTS_AT_ONCE,
                threads => threads as usize,
            };
            let prompted = clew_generator::prompted(model, config.budget.budget(), cache);
            let prompted = prompted.with_questions(config.questions as usize);
            let prompted = prompted.with_tasks_at_once(at_once);
            Ok(prompted.into_graph_builders(Arc::new(Extractive::new(config))))
        }
        (Reader::Model, None) => {
            let problem = "`graph_builder.reader` is `model`, but no language model is configured; \
                           set `generator.endpoint` or `generator.local`";
            Err(Error::new(ErrorKind::WrongState, "NO_MODEL", problem))
        }
    }
}
