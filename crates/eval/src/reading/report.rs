//! Report of what a reader found: quality, calibration and cost.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::{Serialize, Serializer};

use super::{AtThreshold, ReadingRecord, SuggestedCalibration};
use crate::calibration::{AreaUnderRoc, Calibration, Forecast};
use crate::report::Entries;
use crate::table::{Table, amount, interval, per_cent};
use crate::{AnswerLatency, Error, MetricMean};

/// Name of the group of all questions.
const OVERALL: &str = "overall";

/// Settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadingRun {
    /// Name of the reader.
    pub reader: String,
    /// Name of its weights, see [`crate::fingerprint`].
    pub weights: String,
    /// Lowest probability that a passage answers at which a question counts as answered.
    pub threshold: f64,
}

/// Quality of a reader on passages that it is given: over all questions and, if they come from
/// several data sets, over those of each.
///
/// As JSON: `{"reader", "weights", "threshold", "groups": {"overall": {"n", "answerable", "f1",
/// "em", "f1_of_words", "em_of_words", "abstention", "abstention_precision", "auc", "best",
/// "on_passages", "on_words", "tokens", "seconds", "latency"}, "<source>": {…}}, "calibration":
/// {…}}` with fractions from 0 to 1, tokens and seconds per question, and keys in a stable order.
/// What is not defined, such as abstention if every passage answers, is null. As text: tables, with
/// quality in per cent.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadingReport {
    run: ReadingRun,
    groups: Vec<(String, Group)>,
    suggested: Option<SuggestedCalibration>,
}

/// Averages of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Group {
    /// Number of questions.
    n: usize,
    /// Number of questions whose passage answers.
    answerable: usize,
    /// F1 at the threshold, where saying that there is no answer is right or wrong as well.
    f1: MetricMean,
    /// Exact match in the same way.
    em: MetricMean,
    /// F1 of the best words, whatever the threshold, where the passage answers.
    f1_of_words: Option<MetricMean>,
    /// Exact match in the same way.
    em_of_words: Option<MetricMean>,
    /// Share that is refused at the threshold, where the passage does not answer.
    abstention: Option<MetricMean>,
    /// Share of the refused questions whose passage does not answer.
    abstention_precision: Option<MetricMean>,
    /// How well the probability tells passages that answer from the others.
    auc: Option<AreaUnderRoc>,
    /// The threshold that would have been best.
    best: BestThreshold,
    /// Calibration of the probability that the passage answers.
    on_passages: Calibration,
    /// Calibration of the probability that the best words are the answer.
    on_words: Calibration,
    /// Tokens that were read.
    tokens: MetricMean,
    /// Seconds from question to result.
    seconds: MetricMean,
    latency: AnswerLatency,
}

/// Threshold with the highest F1 on the same questions: what a better threshold could bring at
/// most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BestThreshold {
    /// Lowest probability at which a question is answered; `None` if it is best to answer none.
    pub threshold: Option<f64>,
    /// F1 with abstention.
    pub f1: f64,
    /// Exact match with abstention.
    pub em: f64,
}

impl ReadingReport {
    /// Computes the averages of `records`, which are the results of `run`.
    ///
    /// # Errors
    /// Returns [`Error::NothingToScore`] if there are none.
    pub fn new(run: ReadingRun, records: &[ReadingRecord]) -> Result<Self, Error> {
        let all: Vec<&ReadingRecord> = records.iter().collect();
        let mut by_source: BTreeMap<&str, Vec<&ReadingRecord>> = BTreeMap::new();
        for record in records {
            by_source.entry(&record.source).or_default().push(record);
        }
        if by_source.len() == 1 {
            by_source.clear();
        }
        let named = std::iter::once((OVERALL, all)).chain(by_source);
        let group = |(name, members): (&str, Vec<&ReadingRecord>)| {
            Some((name.to_owned(), Group::of(&members, run.threshold)?))
        };
        let groups: Option<Vec<_>> = named.map(group).collect();
        Ok(Self { groups: groups.ok_or(Error::NothingToScore)?, run, suggested: None })
    }

    /// Adds a suggestion for the calibration.
    #[must_use]
    pub fn with(mut self, suggested: Option<SuggestedCalibration>) -> Self {
        self.suggested = suggested;
        self
    }
}

impl Group {
    /// Computes the averages. Returns `None` if there are no records.
    fn of(records: &[&ReadingRecord], threshold: f64) -> Option<Self> {
        let mean = |score: &dyn Fn(&ReadingRecord) -> f64| {
            MetricMean::of(&records.iter().map(|record| score(record)).collect::<Vec<_>>())
        };
        let of_words = |score: &dyn Fn(&ReadingRecord) -> f64| {
            let answerable = records.iter().filter(|record| record.is_answerable);
            MetricMean::of(&answerable.map(|record| score(record)).collect::<Vec<_>>())
        };
        let unanswerable = records.iter().filter(|record| !record.is_answerable);
        let refused = records.iter().filter(|record| !record.is_answered(threshold));
        let forecasts = |of: &dyn Fn(&ReadingRecord) -> Forecast| {
            records.iter().map(|record| of(record)).collect::<Vec<_>>()
        };
        let answerable = records.iter().filter(|record| record.is_answerable).count();
        let on_passages = forecasts(&ReadingRecord::on_passage);
        let abstention = unanswerable.map(|record| !record.is_answered(threshold));
        let abstention_precision = refused.map(|record| !record.is_answerable);
        // As where answers are measured, it is only told where there is something to refuse.
        let has_unanswerable = answerable < records.len();
        let abstention_precision =
            MetricMean::share(abstention_precision).filter(|_| has_unanswerable);
        Some(Self {
            n: records.len(),
            answerable,
            f1: mean(&|record| record.scores(threshold).1)?,
            em: mean(&|record| record.scores(threshold).0)?,
            f1_of_words: of_words(&|record| record.f1),
            em_of_words: of_words(&|record| record.exact_match),
            abstention: MetricMean::share(abstention),
            abstention_precision,
            auc: AreaUnderRoc::of(&on_passages),
            best: BestThreshold::of(records),
            on_passages: Calibration::of(&on_passages)?,
            on_words: Calibration::of(&forecasts(&ReadingRecord::on_words))?,
            tokens: mean(&|record| record.tokens as f64)?,
            seconds: mean(&|record| record.seconds)?,
            latency: AnswerLatency::of(records.iter().map(|record| record.seconds))?,
        })
    }
}

impl BestThreshold {
    /// Tries every threshold between two probabilities of at least one record (`find_best_thresh`
    /// in `evaluate-v2.0.py` of SQuAD).
    fn of(records: &[&ReadingRecord]) -> Self {
        let mut descending = records.to_vec();
        descending.sort_by(|one, other| other.answers.total_cmp(&one.answers));
        // Where all is refused, the questions without an answer are right.
        let refused = records.iter().filter(|record| !record.is_answerable).count() as f64;
        let (mut f1, mut em) = (refused, refused);
        let mut best = (None, f1, em);
        for equal in descending.chunk_by(|one, other| one.answers == other.answers) {
            let threshold = equal.first().map_or(0.0, |record| record.answers);
            for record in equal {
                let (after, before) = (record.scores(threshold), record.scores(f64::INFINITY));
                em += after.0 - before.0;
                f1 += after.1 - before.1;
            }
            if f1 > best.1 {
                best = (Some(threshold), f1, em);
            }
        }
        let n = records.len() as f64;
        Self { threshold: best.0, f1: best.1 / n, em: best.2 / n }
    }
}

impl Serialize for ReadingReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            #[serde(flatten)]
            run: &'a ReadingRun,
            groups: Entries<'a, &'a Group>,
            #[serde(skip_serializing_if = "Option::is_none")]
            calibration: &'a Option<SuggestedCalibration>,
        }
        let groups = self.groups.iter().map(|(name, group)| (name.as_str(), group)).collect();
        Fields { run: &self.run, groups: Entries(groups), calibration: &self.suggested }
            .serialize(serializer)
    }
}

impl Display for ReadingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReadingRun { reader, weights, threshold } = &self.run;
        writeln!(
            f,
            "reader {reader}, weights {weights}, answers from a probability of {threshold}"
        )?;
        writeln!(f, "per cent, with 95 % intervals below\n")?;
        quality(&self.groups).fmt(f)?;
        writeln!(f, "\ncost, mean per question\n")?;
        costs(&self.groups).fmt(f)?;
        let calibrations = |of: fn(&Group) -> &Calibration| {
            let named = self.groups.iter().map(|(name, group)| (name.as_str(), of(group)));
            Calibration::table("group", &named.collect::<Vec<_>>())
        };
        writeln!(f, "\nthe passage answers: share that does, by probability, per cent\n")?;
        calibrations(|group| &group.on_passages).fmt(f)?;
        writeln!(f, "\nthe words are the answer: share that is, by probability, per cent\n")?;
        calibrations(|group| &group.on_words).fmt(f)?;
        match &self.suggested {
            Some(suggested) => write_suggestion(f, suggested),
            None => Ok(()),
        }
    }
}

fn quality(groups: &[(String, Group)]) -> Table {
    let header = [
        "group",
        "n",
        "f1",
        "em",
        "answerable",
        "f1 of words",
        "em of words",
        "abstention",
        "abstention precision",
        "auc",
        "best f1",
        "at",
    ];
    let plain = |text: String| (text, String::new());
    let mean = |of: Option<MetricMean>| {
        of.map_or_else(Default::default, |of| (per_cent(of.mean), interval(of.ci95)))
    };
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (name, group) in groups {
        let auc = group.auc.map(|auc| (per_cent(auc.area), interval(auc.ci95)));
        let best_at = group.best.threshold.map(|at| format!("{at:.3}"));
        let cells = [
            plain(name.clone()),
            plain(group.n.to_string()),
            mean(Some(group.f1)),
            mean(Some(group.em)),
            plain(group.answerable.to_string()),
            mean(group.f1_of_words),
            mean(group.em_of_words),
            mean(group.abstention),
            mean(group.abstention_precision),
            auc.unwrap_or_default(),
            plain(per_cent(group.best.f1)),
            plain(best_at.unwrap_or_else(|| "none".to_owned())),
        ];
        let (means, spreads): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        rows.extend([means, spreads]);
    }
    Table::of(rows)
}

fn costs(groups: &[(String, Group)]) -> Table {
    let header = ["group", "tokens", "seconds", "median seconds", "p95 seconds"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (name, group) in groups {
        let AnswerLatency { median, p95 } = group.latency;
        let costs = [group.tokens.mean, group.seconds.mean, median, p95].map(amount);
        let spreads = [&group.tokens, &group.seconds].map(|of| {
            let [low, high] = of.ci95.map(amount);
            format!("{low}-{high}")
        });
        rows.push(std::iter::once(name.clone()).chain(costs).collect());
        rows.push(std::iter::once(String::new()).chain(spreads).collect());
    }
    Table::of(rows)
}

fn write_suggestion(f: &mut fmt::Formatter<'_>, suggested: &SuggestedCalibration) -> fmt::Result {
    let SuggestedCalibration { fit, log_loss, ece, precision, chosen, thresholds } = suggested;
    writeln!(f, "\ncalibration that fits: slope {:.4}, intercept {:.4}", fit.slope, fit.intercept)?;
    writeln!(f, "log loss {:.4} before, {:.4} after", log_loss[0], log_loss[1])?;
    let [before, after] = ece.map(per_cent);
    writeln!(f, "ece {before} before, {after} after, per cent")?;
    let precision = per_cent(*precision);
    match chosen {
        Some(chosen) => writeln!(
            f,
            "of the answers from {:.4}, {} % are right; {} % of the questions are answered",
            chosen.threshold,
            per_cent(chosen.precision),
            per_cent(chosen.acted_on),
        )?,
        None => writeln!(f, "at no threshold are {precision} % of the answers right")?,
    }
    writeln!(f, "\nthresholds after the calibration, per cent\n")?;
    let header = ["from", "f1", "answered", "answered rightly", "refused", "refused rightly"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for at in thresholds {
        let cell = |share: Option<f64>| share.map_or_else(String::new, per_cent);
        let AtThreshold { threshold, f1, answered, .. } = at;
        let shares =
            [Some(*f1), Some(*answered), at.answered_rightly, at.refused, at.refused_rightly];
        rows.push(std::iter::once(threshold.to_string()).chain(shares.map(cell)).collect());
    }
    Table::of(rows).fmt(f)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reading::record::tests::result;

    fn run() -> ReadingRun {
        ReadingRun { reader: "r".to_owned(), weights: "0123".to_owned(), threshold: 0.5 }
    }

    fn of(source: &str, is_answerable: bool, answers: f64) -> ReadingRecord {
        ReadingRecord { source: source.to_owned(), ..result("q", is_answerable, answers) }
    }

    fn records() -> Vec<ReadingRecord> {
        let part = ReadingRecord { exact_match: 0.0, f1: 0.5, ..of("a", true, 0.6) };
        vec![of("a", true, 0.9), part, of("b", true, 0.2), of("b", false, 0.1), of("b", false, 0.7)]
    }

    #[test]
    fn quality_with_and_without_abstention_matches_values_computed_by_hand() {
        let json = serde_json::to_value(ReadingReport::new(run(), &records()).unwrap()).unwrap();
        let overall = &json["groups"]["overall"];
        let mean = |name: &str| overall[name]["mean"].as_f64().unwrap();
        // Answered rightly, in half, refused wrongly, refused rightly, answered wrongly.
        assert_eq!((mean("f1"), mean("em")), (2.5 / 5.0, 2.0 / 5.0));
        assert_eq!((mean("f1_of_words"), mean("em_of_words")), (2.5 / 3.0, 2.0 / 3.0));
        assert_eq!((mean("abstention"), mean("abstention_precision")), (0.5, 0.5));
        // Of six pairs, four are in order.
        let area = overall["auc"]["area"].as_f64().unwrap();
        assert!((area - 4.0 / 6.0).abs() < 1e-12, "{area}");
        // From 0.9: 1 + 2. From 0.2: 2.5 + 1. From 0.1: 2.5.
        assert_eq!(overall["best"]["threshold"], 0.2, "{json}");
        assert_eq!(overall["best"]["f1"], 3.5 / 5.0, "{json}");
        assert_eq!(overall["tokens"]["mean"], 100.0);
        assert_eq!(json["groups"].as_object().unwrap().len(), 3, "{json}");
        assert_eq!(json["groups"]["b"]["n"], 3, "{json}");
        assert_eq!(json["groups"]["a"]["abstention"], serde_json::Value::Null);
        assert_eq!(json["groups"]["a"]["abstention_precision"], serde_json::Value::Null);
    }

    #[test]
    fn the_text_has_aligned_tables_and_the_suggestion_where_it_is_wanted() {
        let report = ReadingReport::new(run(), &records()).unwrap();
        let text = report.to_string();
        let table: Vec<_> = text.split("\n\n").nth(1).unwrap().lines().collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(table[0])[..5], ["group", "n", "f1", "em", "answerable"]);
        assert_eq!(words(table[1])[..5], ["overall", "5", "50.0", "40.0", "3"]);
        assert!(table.iter().all(|line| line.len() == table[0].len()), "{text}");
        assert!(!text.contains("calibration that fits"), "{text}");
        let suggested = SuggestedCalibration::of(&records(), 0.99);
        let report = report.with(suggested);
        let text = report.to_string();
        assert!(text.contains("calibration that fits: slope"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert!(json["calibration"]["slope"].is_number(), "{json}");
        assert_eq!(json["calibration"]["thresholds"].as_array().unwrap().len(), 9);
    }

    #[test]
    fn nothing_read_is_an_error_and_refusing_all_can_be_best() {
        assert!(matches!(ReadingReport::new(run(), &[]), Err(Error::NothingToScore)));
        let wrong = [of("a", false, 0.9), of("a", false, 0.8)];
        let json = serde_json::to_value(ReadingReport::new(run(), &wrong).unwrap()).unwrap();
        let best = &json["groups"]["overall"]["best"];
        assert_eq!((&best["threshold"], &best["f1"]), (&serde_json::Value::Null, &1.0.into()));
    }

    proptest! {
        #[test]
        fn no_threshold_is_better_than_the_best(
            given in prop::collection::vec((0u8..10, any::<bool>(), 0u8..5), 1..30),
            threshold in 0.0..=1.1,
        ) {
            let records: Vec<_> = given
                .iter()
                .map(|&(tenths, is_answerable, f1)| ReadingRecord {
                    f1: if is_answerable { f64::from(f1) / 4.0 } else { 0.0 },
                    ..result("q", is_answerable, f64::from(tenths) / 10.0)
                })
                .collect();
            let records: Vec<_> = records.iter().collect();
            let best = BestThreshold::of(&records);
            let f1_at = |threshold: f64| {
                let sum: f64 = records.iter().map(|record| record.scores(threshold).1).sum();
                sum / records.len() as f64
            };
            // Tolerance for sums in another order.
            prop_assert!(f1_at(threshold) <= best.f1 + 1e-9);
            prop_assert!((f1_at(best.threshold.unwrap_or(f64::INFINITY)) - best.f1).abs() < 1e-9);
        }
    }
}
