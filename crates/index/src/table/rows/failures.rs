//! Rows of `failures`.

use arrow::array::ArrayRef;
use arrow::datatypes::{UInt32Type, UInt64Type};
use arrow::record_batch::RecordBatch;
use clew_core::{DocumentId, ErrorKind, FailureStatus, Recipe, Stage, Version};

use crate::error::Result;
use crate::table::column;
use crate::table::kind::TableKind;
use crate::table::rows::Rows;
use crate::table::rows::arrays::{record_batch, texts, times, u32s, u64s};
use crate::values::facts::FailureFacts;

/// Builds rows for `failures`.
pub(crate) fn batch(rows: &[(DocumentId, FailureFacts)]) -> Result<RecordBatch> {
    let statuses = || rows.iter().map(|(_, facts)| &facts.status);
    let columns: Vec<ArrayRef> = vec![
        texts(rows.iter().map(|(id, _)| id.as_str())),
        u64s(rows.iter().map(|(_, facts)| facts.version.0)),
        u64s(rows.iter().map(|(_, facts)| facts.recipe.0)),
        texts(statuses().map(|status| status.stage.as_str())),
        u32s(statuses().map(|status| status.attempts)),
        texts(statuses().map(|status| kind_name(status.kind))),
        texts(statuses().map(|status| status.message.as_str())),
        times(statuses().map(|status| status.next_try)),
    ];
    record_batch(TableKind::Failures, &[], columns)
}

impl Rows<'_> {
    /// Returns rows of `failures`.
    pub(crate) fn failure_facts(&self) -> Result<Vec<(DocumentId, FailureFacts)>> {
        let recipes = self.numbers::<UInt64Type>(column::RECIPE)?;
        let stages = self.texts(column::STAGE)?;
        let attempts = self.numbers::<UInt32Type>(column::ATTEMPTS)?;
        let kinds = self.texts(column::KIND)?;
        let messages = self.texts(column::MESSAGE)?;
        let fact = |(i, (id, version)): (usize, (DocumentId, Version))| {
            let stage = Stage::ALL.into_iter().find(|stage| stage.as_str() == stages.value(i));
            let status = FailureStatus {
                stage: stage.ok_or_else(|| self.damaged("a stage is unknown"))?,
                attempts: attempts.value(i),
                kind: kind_of_name(kinds.value(i))
                    .ok_or_else(|| self.damaged("a kind of failure is unknown"))?,
                message: messages.value(i).to_owned(),
                next_try: self.time(column::NEXT_TRY, i)?,
            };
            Ok((id, FailureFacts { version, recipe: Recipe(recipes.value(i)), status }))
        };
        self.versions()?.into_iter().enumerate().map(fact).collect()
    }
}

/// Returns the name by which an error kind is stored.
fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "invalid_input",
        ErrorKind::NotFound => "not_found",
        ErrorKind::AlreadyExists => "already_exists",
        ErrorKind::Unauthenticated => "unauthenticated",
        ErrorKind::Denied => "denied",
        ErrorKind::WrongState => "wrong_state",
        ErrorKind::LostRace => "lost_race",
        ErrorKind::Exhausted => "exhausted",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::DeadlineExceeded => "deadline_exceeded",
        ErrorKind::DataLoss => "data_loss",
        ErrorKind::Internal => "internal",
    }
}

/// Returns the error kind that is stored by this name.
fn kind_of_name(name: &str) -> Option<ErrorKind> {
    use ErrorKind::*;
    [
        InvalidInput,
        NotFound,
        AlreadyExists,
        Unauthenticated,
        Denied,
        WrongState,
        LostRace,
        Exhausted,
        Unavailable,
        DeadlineExceeded,
        DataLoss,
        Internal,
    ]
    .into_iter()
    .find(|&kind| kind_name(kind) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_comes_back_as_it_was_stored() {
        let facts = FailureFacts {
            version: Version(3),
            recipe: Recipe(u64::MAX),
            status: FailureStatus {
                stage: Stage::Embedding,
                attempts: 2,
                kind: ErrorKind::DeadlineExceeded,
                message: "time ran out".to_owned(),
                next_try: None,
            },
        };
        let rows = vec![("a".parse().unwrap(), facts)];
        let batch = batch(&rows).unwrap();
        assert_eq!(Rows::new(TableKind::Failures, &batch).failure_facts().unwrap(), rows);
    }

    #[test]
    fn every_kind_of_failure_has_a_name_that_leads_back() {
        for name in ["exhausted", "internal", "data_loss"] {
            assert_eq!(kind_of_name(name).map(kind_name), Some(name));
        }
        assert_eq!(kind_of_name("other"), None);
    }

    #[test]
    fn a_missing_column_is_damage_and_not_a_panic() {
        let batch = batch(&[]).unwrap().project(&[0]).unwrap();
        let error = Rows::new(TableKind::Failures, &batch).failure_facts().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataLoss);
    }
}
