//! Corrections of a reader's probabilities, fitted on its results.

use serde::Serialize;

use super::ReadingRecord;
use crate::calibration::{Calibration, ChosenThreshold, Forecast, LogitFit};

/// Thresholds of the table, in tenths.
const TENTHS: std::ops::RangeInclusive<u32> = 1..=9;

/// Correction of a reader's probability that a passage answers, and the thresholds to choose from.
///
/// With the slope s and the intercept i, a reader that is calibrated by `[a, b, c]`, so that its
/// probability is sigmoid(a · margin + b · verdict + c), is calibrated better by `[s · a, s · b,
/// s · c + i]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SuggestedCalibration {
    /// Slope and intercept that fit all questions.
    #[serde(flatten)]
    pub fit: LogitFit,
    /// Mean negative logarithm of the probability of what was so, before and after. The
    /// probabilities after are from fits on the other half of the questions.
    pub log_loss: [f64; 2],
    /// Expected calibration error, before and after in the same way.
    pub ece: [f64; 2],
    /// Share of the answers given that should be right.
    pub precision: f64,
    /// Lowest threshold on the corrected probability at which that share of the answers given is
    /// right; `None` if there is none.
    pub chosen: Option<ChosenThreshold>,
    /// What thresholds on the corrected probability lead to, ascending.
    pub thresholds: Vec<AtThreshold>,
}

/// Results at a threshold, as shares from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AtThreshold {
    /// Lowest probability at which a question is answered.
    pub threshold: f64,
    /// Mean F1, with abstention.
    pub f1: f64,
    /// Share of all questions that are answered.
    pub answered: f64,
    /// Share of these whose words are right; `None` if there are none.
    pub answered_rightly: Option<f64>,
    /// Share of the other questions whose passage does not answer; `None` if there are none.
    pub refused_rightly: Option<f64>,
    /// Share of the questions whose passage does not answer that are refused; `None` if there are
    /// none.
    pub refused: Option<f64>,
}

impl SuggestedCalibration {
    /// Fits a correction on `records`, and chooses the threshold at which a share of `precision` of
    /// the answers given is right. Returns `None` if there are no records.
    pub fn of(records: &[ReadingRecord], precision: f64) -> Option<Self> {
        let forecasts: Vec<Forecast> = records.iter().map(ReadingRecord::on_passage).collect();
        let fit = LogitFit::of(&forecasts);
        let after = cross_fitted(records);
        let ece = |forecasts: &[Forecast]| Calibration::of(forecasts).map(|of| of.ece);
        let log_loss = |forecasts: &[Forecast]| LogitFit::NOTHING.log_loss(forecasts);
        let correct = |record: &ReadingRecord| ReadingRecord {
            answers: fit.corrected(record.answers),
            ..record.clone()
        };
        let corrected: Vec<_> = records.iter().map(correct).collect();
        let on_answers = corrected.iter().filter(|record| record.is_answered(0.0));
        let on_answers = on_answers.map(|record| Forecast {
            probability: record.answers,
            is_so: record.are_words_right(),
        });
        Some(Self {
            fit,
            log_loss: [log_loss(&forecasts), log_loss(&after)],
            ece: [ece(&forecasts)?, ece(&after)?],
            precision,
            chosen: ChosenThreshold::for_precision(&on_answers.collect::<Vec<_>>(), precision),
            thresholds: TENTHS
                .map(|tenths| AtThreshold::of(&corrected, f64::from(tenths) / 10.0))
                .collect(),
        })
    }
}

impl AtThreshold {
    fn of(records: &[ReadingRecord], threshold: f64) -> Self {
        let (answered, refused): (Vec<_>, Vec<_>) =
            records.iter().partition(|record| record.is_answered(threshold));
        let unanswerable = records.iter().filter(|record| !record.is_answerable).count();
        let refused_rightly = refused.iter().filter(|record| !record.is_answerable).count();
        let answered_rightly = answered.iter().filter(|record| record.are_words_right()).count();
        let share = |of: usize, all: usize| (all > 0).then(|| of as f64 / all as f64);
        let f1: f64 = records.iter().map(|record| record.scores(threshold).1).sum();
        Self {
            threshold,
            f1: f1 / records.len() as f64,
            answered: answered.len() as f64 / records.len() as f64,
            answered_rightly: share(answered_rightly, answered.len()),
            refused_rightly: share(refused_rightly, refused.len()),
            refused: share(refused_rightly, unanswerable),
        }
    }
}

/// Returns the corrected forecasts of all records, each corrected by the fit on the half that it is
/// not in. The halves are by the hash of the id.
fn cross_fitted(records: &[ReadingRecord]) -> Vec<Forecast> {
    let half = |record: &ReadingRecord| blake3::hash(record.id.as_bytes()).as_bytes()[0] & 1;
    let fits = [0, 1].map(|here| {
        let others = records.iter().filter(|record| half(record) != here);
        LogitFit::of(&others.map(ReadingRecord::on_passage).collect::<Vec<_>>())
    });
    let correct =
        |record: &ReadingRecord| fits[usize::from(half(record))].apply(record.on_passage());
    records.iter().map(correct).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::record::tests::result;

    #[test]
    fn probabilities_that_are_too_sure_are_corrected() {
        // Of 0.9, 65 % are so, and of 0.1, 35 %.
        let of = |n: u32| {
            let (answers, so) = if n < 200 { (0.9, 13) } else { (0.1, 7) };
            result(&n.to_string(), n % 20 < so, answers)
        };
        let records: Vec<_> = (0..400).map(of).collect();
        let suggested = SuggestedCalibration::of(&records, 0.6).unwrap();
        // logit(0.65) / logit(0.9) is 0.2817.
        assert!((suggested.fit.slope - 0.2817).abs() < 0.01, "{suggested:?}");
        assert!(suggested.fit.intercept.abs() < 1e-6, "{suggested:?}");
        assert!((suggested.ece[0] - 0.25).abs() < 1e-9, "{suggested:?}");
        assert!(suggested.ece[1] < 0.1 && suggested.log_loss[1] < suggested.log_loss[0]);
        let chosen = suggested.chosen.unwrap();
        assert!((chosen.threshold - 0.65).abs() < 0.01, "{chosen:?}");
        assert_eq!((chosen.precision, chosen.acted_on), (0.65, 0.5));
        let at: Vec<_> = suggested.thresholds.iter().map(|at| at.answered).collect();
        assert_eq!(at, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0], "{suggested:?}");
        let half = suggested.thresholds[4];
        assert_eq!((half.threshold, half.answered_rightly), (0.5, Some(0.65)));
        assert_eq!((half.refused_rightly, half.refused), (Some(0.65), Some(0.65)));
        assert_eq!((half.f1, suggested.thresholds[0].refused_rightly), (0.65, None));
        assert_eq!(SuggestedCalibration::of(&[], 0.9), None);
    }
}
