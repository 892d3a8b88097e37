//! Contexts that expressions of time depend on.

/// The context that the meaning of an expression depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The time at which it is said: "yesterday", "two weeks ago", "May last year".
    Relative,
    /// The nearest one, because the expression names one of many: "on Monday", "in March", "before
    /// Christmas".
    Recurring,
    /// No context: "3 May 2024", "in 2023".
    Absolute,
}
