//! Report of retrieval: averages over questions, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt;

use clew_core::DocumentId;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::bootstrap::intervals_95;
use crate::{Cutoffs, Error, EvalQuestion, Scores, UnitKind};

/// Seed of the resamples of every report, so that two reports differ by their rankings only.
pub(crate) const BOOTSTRAP_SEED: u64 = 20_250_101;

/// Settings of a run of retrieval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Name of the [`crate::DatasetFormat`].
    pub format: String,
    /// Kind of the units that were ranked.
    pub unit: UnitKind,
    /// Name of the [`clew_core::KeyDesign`].
    pub keys: String,
    /// Way of combining the parts of a key: `key` or `rank`.
    pub merging: String,
    /// Way of matching passages: `dense`, `sparse` or `hybrid`.
    pub mode: String,
    /// Smoothing of scores over sessions: `none`, `turns` or three weights.
    pub smoothing: String,
    /// Use of the time that a question asks about: `ignore`, `boost` or `filter`.
    pub time: String,
    /// Name of the strategy; `search` for a plain search.
    pub strategy: String,
}

impl Run {
    /// Returns all settings except the format, by name.
    pub(crate) fn settings(&self) -> [(&'static str, &str); 7] {
        let Self { format: _, unit, keys, merging, mode, smoothing, time, strategy } = self;
        [
            ("unit", unit.as_str()),
            ("keys", keys),
            ("merging", merging),
            ("mode", mode),
            ("smoothing", smoothing),
            ("time", time),
            ("strategy", strategy),
        ]
    }
}

/// Collector of the scores of questions.
#[derive(Clone, Debug)]
pub struct Tally {
    cutoffs: Cutoffs,
    /// Groups of several types, in the order in which they came.
    wide: Vec<(String, Rows)>,
    by_kind: BTreeMap<String, Rows>,
}

/// Metrics of questions, `[questions][metrics]`.
type Rows = Vec<Vec<f64>>;

impl Tally {
    /// Creates an empty tally that scores at `cutoffs`.
    pub fn new(cutoffs: Cutoffs) -> Self {
        Self { cutoffs, wide: Vec::new(), by_kind: BTreeMap::new() }
    }

    /// Scores `ranking`, which is unit ids with the best first, for `question` in each of its
    /// groups.
    pub fn add(&mut self, question: &EvalQuestion, ranking: &[DocumentId]) {
        let row = Scores::of(ranking, &question.gold, &self.cutoffs).in_order();
        for group in &question.groups {
            match self.wide.iter_mut().find(|(name, _)| name == group) {
                Some((_, rows)) => rows.push(row.clone()),
                None => self.wide.push((group.clone(), vec![row.clone()])),
            }
        }
        self.by_kind.entry(question.kind.clone()).or_default().push(row);
    }

    /// Returns the averages: first the groups of several types, then the types by name.
    ///
    /// # Errors
    /// Returns [`Error::NothingToScore`] if no question was added.
    pub fn report(self, run: Run) -> Result<RetrievalReport, Error> {
        if self.by_kind.is_empty() {
            return Err(Error::NothingToScore);
        }
        let mut groups: Vec<Group> = Vec::new();
        for (name, rows) in self.wide.into_iter().chain(self.by_kind) {
            // A type may have the name of a wide group, which already holds its questions.
            if groups.iter().all(|group| group.name != name) {
                groups.push(Group::of(name, &rows));
            }
        }
        // `all` comes first, whichever question was first.
        groups.sort_by_key(|group| group.name != "all");
        Ok(RetrievalReport { run, metrics: self.cutoffs.metric_names(), groups })
    }
}

/// Averages and their 95 % intervals by group.
///
/// As JSON: `{"format", "unit", "keys", "merging", "mode", "smoothing", "time", "strategy",
/// "groups": {"all": {"n", "any@5", …, "ndcg@5", "ndcg@10", "mrr", "ci95": {"any@5": [low, high],
/// …}}, "<type>": {…}}}` with fractions from 0 to 1 and keys in a stable order. As text: a table in
/// per cent.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievalReport {
    run: Run,
    metrics: Vec<String>,
    groups: Vec<Group>,
}

#[derive(Clone, Debug, PartialEq)]
struct Group {
    name: String,
    /// Number of questions.
    n: usize,
    /// Means, `[metrics]`.
    means: Vec<f64>,
    /// Lower and upper ends of the intervals, `[metrics]`.
    intervals: Vec<[f64; 2]>,
}

impl Group {
    fn of(name: String, rows: &Rows) -> Self {
        let n = rows.len();
        let metrics = rows.first().map_or(0, Vec::len);
        let mean = |metric: usize| rows.iter().map(|row| row[metric]).sum::<f64>() / n as f64;
        let means = (0..metrics).map(mean).collect();
        Self { name, n, means, intervals: intervals_95(rows, BOOTSTRAP_SEED) }
    }
}

impl RetrievalReport {
    /// Returns the average of `metric`, such as `frac@5`, in `group`, such as `all`; `None` if
    /// there is no such group or metric.
    pub fn mean(&self, group: &str, metric: &str) -> Option<f64> {
        let metric = self.metrics.iter().position(|name| name == metric)?;
        Some(self.groups.iter().find(|known| known.name == group)?.means[metric])
    }

    /// Returns the 95 % interval of the average of `metric` in `group`; `None` if there is no such
    /// group or metric.
    pub fn interval(&self, group: &str, metric: &str) -> Option<[f64; 2]> {
        let metric = self.metrics.iter().position(|name| name == metric)?;
        Some(self.groups.iter().find(|known| known.name == group)?.intervals[metric])
    }

    /// Returns the settings of the run.
    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the number of questions in `group`; 0 if there is no such group.
    pub fn questions(&self, group: &str) -> usize {
        self.groups.iter().find(|known| known.name == group).map_or(0, |group| group.n)
    }
}

impl Serialize for RetrievalReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            #[serde(flatten)]
            run: &'a Run,
            groups: Entries<'a, GroupFields<'a>>,
        }
        let groups = self
            .groups
            .iter()
            .map(|group| (group.name.as_str(), GroupFields { metrics: &self.metrics, group }));
        Fields { run: &self.run, groups: Entries(groups.collect()) }.serialize(serializer)
    }
}

/// Group as a map of its metrics.
struct GroupFields<'a> {
    metrics: &'a [String],
    group: &'a Group,
}

impl Serialize for GroupFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.metrics.iter().map(String::as_str);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("n", &self.group.n)?;
        for (name, mean) in names.clone().zip(&self.group.means) {
            map.serialize_entry(name, mean)?;
        }
        map.serialize_entry("ci95", &Entries(names.zip(&self.group.intervals).collect()))?;
        map.end()
    }
}

/// Map that keeps its order.
pub(crate) struct Entries<'a, T>(pub(crate) Vec<(&'a str, T)>);

impl<T: Serialize> Serialize for Entries<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl fmt::Display for RetrievalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.run.settings().map(|(name, value)| format!(", {name} {value}"));
        writeln!(f, "{}{}", self.run.format, settings.concat())?;
        writeln!(f, "per cent, with 95 % intervals below\n")?;
        let longest = self.groups.iter().map(|group| group.name.chars().count()).max();
        let name_width = longest.unwrap_or(0).max("group".len());
        write!(f, "{:name_width$}  {:>6}", "group", "n")?;
        for metric in &self.metrics {
            write!(f, "  {metric:>METRIC_WIDTH$}")?;
        }
        writeln!(f)?;
        for group in &self.groups {
            write!(f, "{:name_width$}  {:>6}", group.name, group.n)?;
            for mean in &group.means {
                write!(f, "  {:>METRIC_WIDTH$.1}", 100.0 * mean)?;
            }
            write!(f, "\n{:name_width$}  {:>6}", "", "")?;
            for [low, high] in &group.intervals {
                let interval = format!("{:.0}-{:.0}", 100.0 * low, 100.0 * high);
                write!(f, "  {interval:>METRIC_WIDTH$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Width of a column, enough for `frac@1000` and `100-100`.
const METRIC_WIDTH: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Scoring;

    fn question(kind: &str, groups: &[&str], gold: &str) -> EvalQuestion {
        EvalQuestion {
            id: "q".to_owned(),
            text: "?".to_owned(),
            kind: kind.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            gold: vec![gold.parse().unwrap()],
            asked_at: None,
            is_abstention: false,
            references: Vec::new(),
            scoring: Scoring::Squad,
        }
    }

    fn report() -> RetrievalReport {
        let ranking: Vec<DocumentId> = ["a", "b", "c"].map(|id| id.parse().unwrap()).to_vec();
        let mut tally = Tally::new("1,2".parse().unwrap());
        tally.add(&question("short", &["with-abstention"], "b"), &ranking);
        tally.add(&question("short", &["all", "with-abstention"], "a"), &ranking);
        tally.add(&question("long", &["all", "with-abstention"], "z"), &ranking);
        let run = Run {
            format: "lihua".to_owned(),
            unit: UnitKind::Chat,
            keys: "value".to_owned(),
            merging: "key".to_owned(),
            mode: "dense".to_owned(),
            smoothing: "none".to_owned(),
            time: "ignore".to_owned(),
            strategy: "plain".to_owned(),
        };
        tally.report(run).unwrap()
    }

    #[test]
    fn each_group_averages_its_questions() {
        let report = report();
        let cases = [
            ("all", 2, 0.5, 0.5),
            ("with-abstention", 3, 1.0 / 3.0, 2.0 / 3.0),
            ("long", 1, 0.0, 0.0),
            ("short", 2, 0.5, 1.0),
        ];
        for (group, questions, at_1, at_2) in cases {
            assert_eq!(report.questions(group), questions, "{group}");
            assert_eq!(report.mean(group, "any@1"), Some(at_1), "{group}");
            assert_eq!(report.mean(group, "frac@2"), Some(at_2), "{group}");
        }
        assert_eq!(report.mean("all", "any@3"), None);
        assert_eq!((report.mean("none", "any@1"), report.questions("none")), (None, 0));
    }

    #[test]
    fn the_json_has_the_documented_keys_in_order() {
        let json = serde_json::to_string(&report()).unwrap();
        let start = concat!(
            r#"{"format":"lihua","unit":"chat","keys":"value","merging":"key","mode":"dense","#,
            r#""smoothing":"none","time":"ignore","strategy":"plain","groups":{"#,
            r#""all":{"n":2,"any@1":0.5,"any@2":0.5,"frac@1":0.5,"frac@2":0.5,"all@1":0.5,"all@2":0.5,"#,
            r#""ndcg@5":0.5,"ndcg@10":0.5,"mrr":0.5,"ci95":{"any@1":["#
        );
        assert!(json.starts_with(start), "{json}");
        let places: Vec<_> = ["\"all\":", "\"with-abstention\":", "\"long\":", "\"short\":"]
            .iter()
            .map(|group| json.find(group).unwrap())
            .collect();
        assert!(places.is_sorted(), "{json}");
    }

    #[test]
    fn every_mean_lies_in_its_interval() {
        let json = serde_json::to_value(report()).unwrap();
        for group in json["groups"].as_object().unwrap().values() {
            let intervals = group["ci95"].as_object().unwrap();
            assert_eq!(intervals.len(), 9);
            for (metric, interval) in intervals {
                let [low, high] = [0, 1].map(|end| interval[end].as_f64().unwrap());
                let mean = group[metric].as_f64().unwrap();
                assert!(0.0 <= low && low <= mean && mean <= high && high <= 1.0, "{metric}");
            }
        }
    }

    #[test]
    fn the_table_is_aligned() {
        let table = report().to_string();
        let mut lines = table.lines().skip(3);
        let header = lines.next().unwrap();
        assert!(header.starts_with("group ") && header.ends_with(" mrr"), "{table}");
        assert!(lines.all(|line| line.chars().count() == header.chars().count()), "{table}");
        assert!(table.contains("with-abstention       3       33.3       66.7"), "{table}");
    }

    #[test]
    fn nothing_scored_is_an_error_and_not_a_zero() {
        let run = report().run;
        let error = Tally::new(Cutoffs::default()).report(run).unwrap_err();
        assert!(matches!(error, Error::NothingToScore));
    }
}
