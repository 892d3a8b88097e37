//! What answering a question took.

/// Cost of answering a question, or of a part of that work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of tokens that were embedded.
    pub embedded_tokens: u64,
    /// Number of tokens that a reranker or a reader read.
    pub reranked_tokens: u64,
    /// Number of calls to language models.
    pub model_calls: u64,
    /// Number of tokens sent to language models.
    pub prompt_tokens: u64,
    /// Number of tokens received from language models.
    pub completion_tokens: u64,
    /// Number of shards that were asked.
    pub shards_searched: u64,
    /// Whether something was left undone because a budget of calls, tokens or time was used up.
    pub is_out_of_budget: bool,
}

impl Cost {
    /// Returns the number of tokens that models read and wrote.
    pub fn tokens(&self) -> u64 {
        let read = self.embedded_tokens.saturating_add(self.reranked_tokens);
        read.saturating_add(self.prompt_tokens).saturating_add(self.completion_tokens)
    }

    /// Returns this without `part`, which is contained in it. If a budget has stopped something, it
    /// stays so.
    pub(crate) fn without(mut self, part: &Self) -> Self {
        self.each_with(part, u64::saturating_sub);
        self
    }

    /// Replaces each number by its result with the same number of `other`.
    fn each_with(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        for (number, other) in [
            (&mut self.embedded_tokens, other.embedded_tokens),
            (&mut self.reranked_tokens, other.reranked_tokens),
            (&mut self.model_calls, other.model_calls),
            (&mut self.prompt_tokens, other.prompt_tokens),
            (&mut self.completion_tokens, other.completion_tokens),
            (&mut self.shards_searched, other.shards_searched),
        ] {
            *number = change(*number, other);
        }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        // Endpoints report these numbers; a wrong one must not overflow the sum.
        self.each_with(&other, u64::saturating_add);
        self.is_out_of_budget = self.is_out_of_budget || other.is_out_of_budget;
    }
}
