//! File of wrong answers.

use std::collections::HashMap;

use clew_eval::{AnswerLog, AnswerMiss, Haystacks, fingerprint};

use crate::command::eval::json_lines;

/// Returns the wrong answers of `logs` to questions of `haystacks` as JSON Lines, in the order of
/// hashes of their ids. So the first lines are a sample of all that does not depend on how the data
/// set is ordered, and the strategies' answers to one question stand together.
///
/// # Errors
/// Returns the errors of reading the haystacks.
pub(super) fn lines(haystacks: Haystacks, logs: &[AnswerLog]) -> anyhow::Result<String> {
    let mut answers = HashMap::new();
    for log in logs {
        for record in log.records() {
            let of_question: &mut Vec<_> = answers.entry(record.question_id.as_str()).or_default();
            of_question.push((log.run(), record));
        }
    }
    let mut misses = Vec::new();
    for haystack in haystacks {
        for question in haystack?.answerable() {
            let answered = answers.remove(question.id.as_str()).unwrap_or_default();
            let missed = |(run, record)| AnswerMiss::of(run, question, record);
            misses.extend(answered.into_iter().filter_map(missed));
        }
    }
    misses.sort_by_cached_key(|miss| fingerprint(miss.question_id.as_bytes()));
    json_lines::text(&misses)
}
