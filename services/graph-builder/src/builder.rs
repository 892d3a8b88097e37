//! Construction of the graph builder that the configuration names.

use std::sync::Arc;

use clew_core::{Error, ErrorKind, Generator, GraphBuilders};
use clew_reason::prompted::{Prompted, ReplyCache};

use crate::given::Given;
use crate::{ExtractiveGraphBuilder, GraphBuilderConfig, Reader};

/// Default number of texts that a model reads at once; several take about the time of one.
const TEXTS_AT_ONCE: usize = 8;

/// Returns the configured graph builder: rules, or prompts to `model`. Replies of the model are
/// cached in this process and, through `shared`, on the nodes that share that cache.
///
/// # Errors
/// Returns [`ErrorKind::WrongState`] with the reason `NO_MODEL` if the configuration asks for a
/// model and `model` is `None`, and [`ErrorKind::InvalidInput`] if the configured graph file cannot
/// be read.
pub fn builder(
    config: &GraphBuilderConfig,
    model: Option<Arc<dyn Generator>>,
    shared: Option<Arc<dyn ReplyCache>>,
) -> Result<Arc<dyn GraphBuilders>, Error> {
    let reader = reader(config, model, shared)?;
    match &config.graph {
        Some(file) => Ok(Arc::new(Given::read(file, reader)?)),
        None => Ok(reader),
    }
}

fn reader(
    config: &GraphBuilderConfig,
    model: Option<Arc<dyn Generator>>,
    shared: Option<Arc<dyn ReplyCache>>,
) -> Result<Arc<dyn GraphBuilders>, Error> {
    match (config.reader, model) {
        (Reader::Rules, _) => Ok(Arc::new(ExtractiveGraphBuilder::new(config))),
        (Reader::Model, Some(model)) => {
            let at_once = match config.threads {
                0 => TEXTS_AT_ONCE,
                threads => threads as usize,
            };
            let prompted = Prompted::new(model)
                .with_kept_replies(shared)
                .with_budget(config.budget.budget())
                .with_questions(config.questions as usize)
                .with_tasks_at_once(at_once);
            Ok(prompted.into_graph_builders(Arc::new(ExtractiveGraphBuilder::new(config))))
        }
        (Reader::Model, None) => {
            let problem = "`graph_builder.reader` is `model`, but no language model is configured; \
                           set `generator.endpoint` or `generator.local`";
            Err(Error::new(ErrorKind::WrongState, "NO_MODEL", problem))
        }
    }
}
