//! The list of all strategies, with their requirements and costs.

use clew_core::Error;

use crate::{
    Chat, Direct, FullContext, GraphWalk, HgMem, Hyde, Iterative, Linked, MemWalker, MemoRag,
    Naive, QrmemEntity, QrmemExpand, QrmemReflect, RecurrentSummary, Rewrite, Route, Strategy,
    SummaryLevels,
};

/// Entry of the list of strategies.
pub struct StrategyEntry {
    /// The strategy.
    pub strategy: &'static dyn Strategy,
    /// Description in one line.
    pub does: &'static str,
    /// Data that the corpus must have.
    pub needs: RequiredData,
    /// Approximate or maximum number of searches for a question, and of model calls if a model is
    /// configured.
    pub cost: &'static str,
}

/// Data that a strategy needs besides chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredData {
    /// Nothing else.
    Chunks,
    /// Tree of summaries.
    Tree,
    /// Graph of entities.
    Graph,
}

const fn listed(
    strategy: &'static dyn Strategy,
    needs: RequiredData,
    cost: &'static str,
    does: &'static str,
) -> StrategyEntry {
    StrategyEntry { strategy, does, needs, cost }
}

use RequiredData::{Chunks, Graph, Tree};

/// All strategies; the first is the default.
pub static STRATEGIES: [StrategyEntry; 27] = [
    listed(&Direct, Chunks, "1 search, 1 call", "searches once and reads the best passages"),
    listed(
        &Linked,
        Graph,
        "1 to 3 searches, 1 to 5 calls",
        "follows names from the best passages to others, and searches for what is missing",
    ),
    listed(
        &MemWalker::DEPTH_FIRST,
        Tree,
        "1 search, 2 calls a node",
        "walks down the tree, turns back where a segment does not answer",
    ),
    listed(
        &MemWalker::BEST_FIRST,
        Tree,
        "1 search, 2 calls a node",
        "walks the tree, the best unvisited node of all next",
    ),
    listed(
        &MemWalker::BEAM,
        Tree,
        "1 search, 2 calls a node",
        "walks the tree, three nodes on each level",
    ),
    listed(
        &QrmemEntity,
        Graph,
        "1 search, up to 12 calls",
        "reads the segments of the question's entities, then of others",
    ),
    listed(
        &QrmemExpand,
        Graph,
        "up to 4 searches, 8 calls",
        "follows edges like the question, searches again with what they tell",
    ),
    listed(
        &QrmemReflect::QUERY_ORIENTED,
        Graph,
        "1 search, up to 16 calls",
        "says what is missing, follows the edge most like it",
    ),
    listed(
        &QrmemReflect::OFFLINE,
        Graph,
        "1 search, up to 11 calls",
        "the same over the stored graph alone",
    ),
    listed(
        &QrmemReflect::FULL,
        Chunks,
        "1 search, a call a passage",
        "the same over a graph built for the question",
    ),
    listed(
        &HgMem,
        Graph,
        "up to 7 searches, 15 calls",
        "grows a working memory of points, asks for what it lacks",
    ),
    listed(
        &MemoRag,
        Tree,
        "up to 9 searches, 2 calls",
        "drafts clues out of the top of the tree, searches for each",
    ),
    listed(
        &Chat,
        Chunks,
        "1 search, 1 call",
        "recalls rounds of conversations, reads them with their days",
    ),
    listed(&Naive::HYBRID, Chunks, "1 search, 1 call", "baseline: one hybrid search"),
    listed(&Naive::DENSE, Chunks, "1 search, 1 call", "baseline: one search by vectors"),
    listed(&Naive::SPARSE, Chunks, "1 search, 1 call", "baseline: one search by words"),
    listed(
        &FullContext::LEFT,
        Chunks,
        "1 search, 1 call",
        "baseline: the documents from their beginning, as far as a window goes",
    ),
    listed(
        &FullContext::RIGHT,
        Chunks,
        "1 search, 1 call",
        "baseline: the documents to their end, as far as a window goes",
    ),
    listed(&Hyde, Chunks, "2 searches, 2 calls", "baseline: searches for an imagined passage"),
    listed(
        &Rewrite::PLAIN,
        Chunks,
        "up to 4 searches, 2 calls",
        "baseline: searches with the question rewritten",
    ),
    listed(
        &Rewrite::DECOMPOSE,
        Chunks,
        "up to 4 searches, 2 calls",
        "baseline: searches with the question taken apart",
    ),
    listed(
        &Rewrite::DISAMBIGUATE,
        Chunks,
        "up to 4 searches, 2 calls",
        "baseline: searches with what the question may mean",
    ),
    listed(
        &RecurrentSummary,
        Chunks,
        "2 searches, a call a group",
        "baseline: carries a summary over the documents, reads what is like it",
    ),
    listed(
        &SummaryLevels,
        Tree,
        "1 search, 1 call",
        "baseline: nodes of all levels of the tree in one ranking",
    ),
    listed(
        &GraphWalk,
        Graph,
        "up to 1 search, 2 calls",
        "baseline: personalised PageRank from the question's entities",
    ),
    listed(
        &Iterative,
        Chunks,
        "up to 4 searches, 4 calls",
        "baseline: searches for what is missing, again and again",
    ),
    listed(&Route, Chunks, "as what it chooses", "chooses direct, linked or memwalker-best"),
];

/// Former names of strategies with their present names, so that stored requests keep working.
const EARLIER_NAMES: [(&str, &str); 2] = [("raptor", "summary-levels"), ("hipporag", "graph-walk")];

/// Returns the strategy with this present or former name. The empty name means the default.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] with the known names if there is no such
/// strategy.
pub fn find(name: &str) -> Result<&'static dyn Strategy, Error> {
    let earlier = EARLIER_NAMES.iter().find(|(earlier, _)| *earlier == name);
    let name = earlier.map_or(name, |(_, now)| now);
    let mut named = STRATEGIES.iter().map(|listed| listed.strategy);
    named.find(|strategy| name.is_empty() || strategy.name() == name).ok_or_else(|| {
        let known: Vec<_> = STRATEGIES.iter().map(|listed| listed.strategy.name()).collect();
        Error::invalid("strategy", format!("expected one of {}, got `{name}`", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn strategies_are_found_by_name_and_unknown_ones_refused() {
        for listed in &STRATEGIES {
            let name = listed.strategy.name();
            assert_eq!(find(name).unwrap().name(), name);
        }
        assert_eq!(find("").unwrap().name(), "direct");
        let error = find("oracle").err().unwrap();
        assert!(error.message().contains("`oracle`"), "{error}");
        assert!(error.message().contains("memwalker-beam, qrmem-entity"), "{error}");
    }

    #[test]
    fn a_name_that_a_strategy_had_before_is_understood() {
        for (earlier, now) in EARLIER_NAMES {
            assert_eq!(find(earlier).unwrap().name(), now);
            assert!(STRATEGIES.iter().all(|listed| listed.strategy.name() != earlier));
        }
    }

    #[test]
    fn no_two_have_one_name() {
        let names: BTreeSet<&str> =
            STRATEGIES.iter().map(|listed| listed.strategy.name()).collect();
        assert_eq!(names.len(), STRATEGIES.len());
    }
}
