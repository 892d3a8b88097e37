//! Models: `CORPUS`, or `CORPUS:STRATEGY`.

use std::fmt;

/// Id of a model: a corpus, and the strategy that answers from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelId {
    /// Name of the corpus.
    pub corpus: String,
    /// Name of the strategy; empty for the default.
    pub strategy: String,
}

impl ModelId {
    /// Splits an id at its colon, which no name of a corpus has.
    pub fn of(id: &str) -> Self {
        let (corpus, strategy) = id.split_once(':').unwrap_or((id, ""));
        Self { corpus: corpus.to_owned(), strategy: strategy.to_owned() }
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy.as_str() {
            "" => f.write_str(&self.corpus),
            strategy => write!(f, "{}:{strategy}", self.corpus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_corpus_with_or_without_a_strategy() {
        for (id, corpus, strategy) in [
            ("handbook", "handbook", ""),
            ("handbook:memwalker-best", "handbook", "memwalker-best"),
            ("acme.handbook:direct", "acme.handbook", "direct"),
        ] {
            let model = ModelId::of(id);
            assert_eq!((model.corpus.as_str(), model.strategy.as_str()), (corpus, strategy));
            assert_eq!(model.to_string(), id);
        }
    }
}
