//! What a question asks for.

/// Kind of result that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Task {
    /// Answer to a question.
    #[default]
    Answer,
    /// Summary of a subject, which may be everything.
    Summarise,
}

/// Use of the compressed memories of a corpus for an answer (MemoRAG). If there are none that may
/// be asked, and for a summary, every use works like [`Self::Clues`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryUse {
    /// They draft what to search for, and what is found is read. The paper's figures are for this
    /// use.
    #[default]
    Clues,
    /// They also answer from memory. That answer is searched for as well, and the reader gets it as
    /// a hint.
    Hint,
    /// Their own answer is returned if the cited text says most of it, too; otherwise that of the
    /// reader.
    Answer,
}
