//! The strategies of answering, as the wire has them.

use clew_core::CorpusSettings;
use clew_proto::query::v1 as wire;
use clew_strategy::{RequiredData, STRATEGIES};

/// Returns all strategies, the default first. `corpus` is the corpus that is to be asked; without
/// one, it counts as having what a strategy needs.
pub fn strategies(corpus: Option<&CorpusSettings>) -> Vec<wire::Strategy> {
    let has_structure = corpus.is_none_or(|settings| settings.structure.is_some());
    let strategies = STRATEGIES.iter().map(|listed| {
        let (needs, can_run) = match listed.needs {
            RequiredData::Chunks => (wire::StrategyNeeds::Chunks, true),
            RequiredData::Tree => (wire::StrategyNeeds::Tree, has_structure),
            RequiredData::Graph => (wire::StrategyNeeds::Graph, has_structure),
        };
        wire::Strategy {
            name: listed.strategy.name().to_owned(),
            description: listed.does.to_owned(),
            needs: needs.into(),
            cost: listed.cost.to_owned(),
            can_run,
        }
    });
    strategies.collect()
}
