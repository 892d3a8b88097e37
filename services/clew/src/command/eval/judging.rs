//! Judging of answers by a language model.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clew_core::Error;
use clew_endpoint::Endpoint;
use clew_eval::{AnswerRecord, EvalQuestion};
use clew_reason::prompted::{Judge, Prompted};

use super::haystack_corpus::PATIENCE;
use crate::config::ClewConfig;

/// Returns the judge of the configuration. Returns `None` if it names none.
///
/// # Errors
/// Returns the errors of [`Endpoint::try_new`], and an error if the key is not where the
/// configuration says.
pub fn judge(config: &ClewConfig) -> Result<Option<Judge>, Error> {
    let Some(endpoint) = &config.roles.judge else { return Ok(None) };
    let model = Endpoint::try_new(endpoint, endpoint.load_key()?.as_ref())?;
    Ok(Some(Judge::new(Prompted::new(Arc::new(model)))))
}

/// Returns the record of an answer with the verdict of the judge, if there is anything to judge.
///
/// # Errors
/// Returns the errors of the judge: an answer is not recorded as worse because it could not be
/// judged.
pub async fn judged(
    judge: &Judge,
    question: &EvalQuestion,
    record: AnswerRecord,
) -> anyhow::Result<AnswerRecord> {
    let Some(task) = question.judge_task(record.outcome, &record.answer) else { return Ok(record) };
    let said = judge.judge(&task, Instant::now() + PATIENCE).await;
    let (verdict, cost) =
        said.with_context(|| format!("the answer to `{}` cannot be judged", question.id))?;
    Ok(record.judged(verdict, &cost))
}
