//! Scenarios, written in TOML: what is asked of a server, at which rates, and what is expected of
//! it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use clew_core::{CorpusName, Error, SearchMode, Violations};
use serde::{Deserialize, Serialize};

use crate::expectation::Expectation;
use crate::schedule::Arrivals;

/// Maximum length of a phase or a step: a day.
const MOST_SECS: u32 = 86_400;
const MOST_PER_SEC: f64 = 100_000.0;
const MOST_DOCUMENTS: u64 = 10_000_000;

/// One file of `scenarios/`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Title in reports.
    pub title: String,
    /// Purpose of the scenario, for people.
    #[serde(default)]
    pub about: String,
    /// Seed of arrivals, texts and questions. `--seed` overrides it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Process by which requests arrive.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Maximum number of requests of a run, which ends when they are sent.
    #[serde(default = "request_limit")]
    pub request_limit: u64,
    /// Seconds between two samples of the server.
    #[serde(default = "sample_secs")]
    pub sample_secs: u32,
    /// Seconds between the preparation and the first request, in which the server can settle.
    #[serde(default = "settle_secs")]
    pub settle_secs: u32,
    /// Initial content of the corpus of each tenant.
    #[serde(default)]
    pub corpus: CorpusShape,
    /// Tenants that send requests. By default, one tenant without a key of its own.
    #[serde(default = "one_tenant")]
    pub tenants: Vec<Tenant>,
    /// Kinds of requests.
    pub flows: Vec<Flow>,
    /// Phases, which run one after the other.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Alternative to phases: rates that rise until the server is saturated, and beyond.
    #[serde(default)]
    pub ladder: Option<Ladder>,
    /// Expectations that the run must meet.
    #[serde(default)]
    pub expect: Vec<Expectation>,
    /// Configuration of the server that `--serve` starts, as in its configuration file.
    #[serde(default)]
    pub server: toml::Table,
}

/// Shape of a corpus.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorpusShape {
    /// Number of documents that are ingested before the first request. Questions are about these.
    pub documents: u64,
    /// Number of paragraphs of a document. Each states one fact in about 400 bytes.
    pub paragraphs: u32,
    /// Number of shards.
    pub shards: u32,
    /// Whether trees and a graph are built.
    pub structure: bool,
}

impl Default for CorpusShape {
    fn default() -> Self {
        Self { documents: 400, paragraphs: 3, shards: 2, structure: false }
    }
}

/// Tenant that sends requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Name, to which flows refer.
    pub name: String,
    /// Name of the corpus. Default: `load-` followed by the tenant's name.
    #[serde(default)]
    pub corpus: Option<CorpusName>,
    /// Name of the environment variable that holds the tenant's API key. Default: the key of
    /// `--api-key`.
    #[serde(default)]
    pub api_key_env: Option<String>,
}

/// Kind of requests of one tenant.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name, to which phases and expectations refer.
    pub name: String,
    /// Name of the tenant. Default: the first tenant.
    #[serde(default)]
    pub tenant: Option<String>,
    /// Request to send.
    pub act: RequestKind,
    /// Maximum number of requests under way. A request that is due beyond it is not sent, and
    /// counted as such.
    #[serde(default = "in_flight")]
    pub in_flight: u32,
    /// Deadline of a request in milliseconds, from when it is sent.
    #[serde(default = "deadline_ms")]
    pub deadline_ms: u64,
}

/// Kind of a request.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Searches for a passage that is known to hold the answer.
    Search(SearchSettings),
    /// Asks a question whose answer is known.
    Answer(AnswerSettings),
    /// Ingests new documents, until all are acknowledged.
    Ingest(BatchSettings),
    /// Forgets the oldest documents that this run ingested.
    Forget(BatchSettings),
}

/// Settings of [`RequestKind::Search`].
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct SearchSettings {
    /// Way of matching passages.
    pub mode: SearchMode,
    /// Number of passages to return. The search is right if the known document is among them.
    pub k: usize,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self { mode: SearchMode::Hybrid, k: 10 }
    }
}

/// Settings of [`RequestKind::Answer`].
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerSettings {
    /// Name of the strategy. Empty means the server's default.
    pub strategy: String,
    /// Maximum number of passages to read. Default: that of the strategy.
    pub k: Option<u32>,
}

/// Settings of [`RequestKind::Ingest`] and [`RequestKind::Forget`].
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct BatchSettings {
    /// Number of documents in one request.
    pub documents: u32,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self { documents: 1 }
    }
}

/// Time in which rates stay the same. The next phase begins when it is over, whatever is still
/// under way.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name, to which expectations refer.
    pub name: String,
    /// Length in seconds.
    pub secs: u32,
    /// Requests per second, by flow. A flow that is not named rests.
    pub per_sec: BTreeMap<String, f64>,
}

/// Rates of one flow that rise by steps. Between two steps, requests under way are waited for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// Name of the flow.
    pub flow: String,
    /// Rate of the first step in requests per second.
    pub first_per_sec: f64,
    /// Factor from the rate of one step to that of the next.
    pub factor: f64,
    /// Length of each step in seconds.
    pub step_secs: u32,
    /// Maximum number of steps.
    pub most_steps: u32,
    /// Number of steps after the first step at which the server does not keep up.
    pub steps_beyond: u32,
}

impl Scenario {
    /// Reads a scenario from a file.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] naming the file and the problem if the
    /// scenario cannot be read or is not valid.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::invalid(path.display().to_string(), "expected a readable scenario")
                .with_source(error)
        })?;
        Self::parse(&text)
            .map_err(|error| Error::invalid(path.display().to_string(), error.message().to_owned()))
    }

    /// Parses a scenario from TOML.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the text is not TOML, has unknown keys, or
    /// has values that do not fit together.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let scenario: Self =
            toml::from_str(text).map_err(|error| Error::invalid("scenario", error.to_string()))?;
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        let mut expect = |holds: bool, field: &str, problem: String| {
            if !holds {
                violations.push(field, problem);
            }
        };
        let within = |secs: u32| (1..=MOST_SECS).contains(&secs);
        expect(within(self.sample_secs), "sample_secs", format!("expected 1 to {MOST_SECS}"));
        expect(self.settle_secs <= MOST_SECS, "settle_secs", format!("expected to {MOST_SECS}"));
        expect(self.request_limit > 0, "request_limit", "expected at least 1".to_owned());
        let documents = (1..=MOST_DOCUMENTS).contains(&self.corpus.documents);
        expect(documents, "corpus.documents", format!("expected 1 to {MOST_DOCUMENTS}"));
        let paragraphs = (1..=1000).contains(&self.corpus.paragraphs);
        expect(paragraphs, "corpus.paragraphs", "expected 1 to 1000".to_owned());
        expect(!self.tenants.is_empty(), "tenants", "expected at least one".to_owned());
        expect(!self.flows.is_empty(), "flows", "expected at least one".to_owned());
        let tenants: HashSet<&str> = self.tenants.iter().map(|t| t.name.as_str()).collect();
        expect(tenants.len() == self.tenants.len(), "tenants", "names repeat".to_owned());
        for tenant in &self.tenants {
            let problem = format!("`{}` makes no name of a corpus", tenant.name);
            expect(tenant.corpus().is_ok(), "tenants.name", problem);
        }
        let flows: HashSet<&str> = self.flows.iter().map(|flow| flow.name.as_str()).collect();
        expect(flows.len() == self.flows.len(), "flows", "names repeat".to_owned());
        for flow in &self.flows {
            let at = format!("flows.{}", flow.name);
            let known = flow.tenant.as_deref().is_none_or(|tenant| tenants.contains(tenant));
            expect(known, &at, format!("there is no tenant {:?}", flow.tenant));
            let in_flight = (1..=10_000).contains(&flow.in_flight);
            expect(in_flight, &at, "expected `in_flight` of 1 to 10000".to_owned());
            let deadline = (1..=3_600_000).contains(&flow.deadline_ms);
            expect(deadline, &at, "expected `deadline_ms` of 1 to 3600000".to_owned());
            let fits = match &flow.act {
                RequestKind::Search(search) => (1..=1000).contains(&search.k),
                RequestKind::Answer(answer) => answer.k.is_none_or(|k| (1..=1000).contains(&k)),
                RequestKind::Ingest(batch) | RequestKind::Forget(batch) => {
                    (1..=1000).contains(&batch.documents)
                }
            };
            expect(fits, &at, "expected `k` or `documents` of 1 to 1000".to_owned());
        }
        let is_rate = |rate: f64| rate > 0.0 && rate <= MOST_PER_SEC;
        let rates = format!("expected more than 0 and at most {MOST_PER_SEC} requests a second");
        for phase in &self.phases {
            let at = format!("phases.{}", phase.name);
            expect(within(phase.secs), &at, format!("expected 1 to {MOST_SECS} seconds"));
            for (flow, rate) in &phase.per_sec {
                expect(flows.contains(flow.as_str()), &at, format!("there is no flow `{flow}`"));
                expect(is_rate(*rate), &at, rates.clone());
            }
        }
        let names: HashSet<&str> = self.phases.iter().map(|phase| phase.name.as_str()).collect();
        expect(names.len() == self.phases.len(), "phases", "names repeat".to_owned());
        match &self.ladder {
            None => {
                expect(!self.phases.is_empty(), "phases", "expected phases or a ladder".to_owned());
            }
            Some(ladder) => {
                let alone = self.phases.is_empty();
                expect(alone, "ladder", "expected phases or a ladder, not both".to_owned());
                let known = flows.contains(ladder.flow.as_str());
                expect(known, "ladder.flow", format!("there is no flow `{}`", ladder.flow));
                expect(is_rate(ladder.first_per_sec), "ladder.first_per_sec", rates);
                let rises = ladder.factor > 1.0 && ladder.factor <= 10.0;
                expect(rises, "ladder.factor", "expected more than 1 and at most 10".to_owned());
                let secs = within(ladder.step_secs);
                expect(secs, "ladder.step_secs", format!("expected 1 to {MOST_SECS}"));
                let steps = (1..=100).contains(&ladder.most_steps);
                expect(steps, "ladder.most_steps", "expected 1 to 100".to_owned());
            }
        }
        for expectation in &self.expect {
            for flow in expectation.flows() {
                let known = flows.contains(flow);
                expect(known, "expect", format!("there is no flow `{flow}`"));
            }
            for phase in expectation.phases() {
                let known = self.ladder.is_some() || names.contains(phase);
                expect(known, "expect", format!("there is no phase `{phase}`"));
            }
        }
        violations.into_result()
    }

    /// Multiplies all rates by `factor`.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if a rate is out of range then.
    pub fn scale_rates(&mut self, factor: f64) -> Result<(), Error> {
        let of_phases = self.phases.iter_mut().flat_map(|phase| phase.per_sec.values_mut());
        let of_ladder = self.ladder.iter_mut().map(|ladder| &mut ladder.first_per_sec);
        of_phases.chain(of_ladder).for_each(|rate| *rate *= factor);
        self.check()
    }

    /// Returns the number of the tenant of a flow.
    pub(crate) fn tenant_of(&self, flow: &Flow) -> usize {
        let is_his = |tenant: &Tenant| flow.tenant.as_deref() == Some(tenant.name.as_str());
        self.tenants.iter().position(is_his).unwrap_or(0)
    }

    /// Returns the maximum length of the run, without preparation.
    pub fn most_time(&self) -> Duration {
        let secs = match &self.ladder {
            Some(ladder) => ladder.step_secs.saturating_mul(ladder.most_steps),
            None => self.phases.iter().fold(0, |sum: u32, phase| sum.saturating_add(phase.secs)),
        };
        Duration::from_secs(secs.into())
    }
}

impl Tenant {
    /// Returns the name of the tenant's corpus.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the tenant's name does not make the name
    /// of a corpus.
    pub fn corpus(&self) -> Result<CorpusName, Error> {
        match &self.corpus {
            Some(name) => Ok(name.clone()),
            None => format!("load-{}", self.name).parse(),
        }
    }
}

impl Flow {
    /// Returns the deadline of a request, counted from when it is sent.
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }
}

impl Ladder {
    /// Returns a step of the ladder, numbered from 0.
    pub(crate) fn step(&self, number: u32) -> Phase {
        let rate = self.first_per_sec * self.factor.powi(number.cast_signed());
        let rate = rate.min(MOST_PER_SEC);
        Phase {
            name: format!("{}/s", shown_rate(rate)),
            secs: self.step_secs,
            per_sec: BTreeMap::from([(self.flow.clone(), rate)]),
        }
    }
}

/// Formats a rate with its significant digits.
fn shown_rate(rate: f64) -> String {
    if rate >= 20.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

fn one() -> u64 {
    1
}

fn request_limit() -> u64 {
    1_000_000
}

fn sample_secs() -> u32 {
    1
}

fn settle_secs() -> u32 {
    3
}

fn in_flight() -> u32 {
    1000
}

fn deadline_ms() -> u64 {
    10_000
}

fn one_tenant() -> Vec<Tenant> {
    vec![Tenant { name: "load".to_owned(), corpus: None, api_key_env: None }]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        title = "small"
        flows = [{ name = "find", act = { search = {} } }]
        phases = [{ name = "only", secs = 1, per_sec = { find = 5 } }]
    "#;

    fn problem(text: &str) -> String {
        Scenario::parse(text).expect_err(text).message().to_owned()
    }

    #[test]
    fn every_scenario_that_is_shipped_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let scenario = Scenario::load(&entry.unwrap().path()).unwrap();
            assert!(!scenario.expect.is_empty(), "`{}` expects nothing", scenario.title);
            seen += 1;
        }
        assert!(seen >= 6, "{seen}");
    }

    #[test]
    fn what_is_not_told_has_defaults() {
        let scenario = Scenario::parse(SMALL).unwrap();
        assert_eq!(scenario.flows[0].act, RequestKind::Search(SearchSettings::default()));
        assert_eq!(scenario.tenants[0].corpus().unwrap().to_string(), "load-load");
        assert_eq!(scenario.most_time(), Duration::from_secs(1));
    }

    #[test]
    fn unknown_keys_are_refused_wherever_they_stand() {
        for (place, wrong) in [
            ("title = ", "titel = \"x\"\ntitle = "),
            ("act = ", "acts = 1, act = "),
            ("search = {}", "search = { kk = 1 }"),
            ("search = {}", "seek = {}"),
            ("secs = 1", "secs = 1, seconds = 1"),
            ("phases = ", "corpus = { docs = 1 }\nphases = "),
            ("phases = ", "tenants = [{ name = \"a\", key = \"b\" }]\nphases = "),
            ("phases = ", "expect = [{ flaat = {} }]\nphases = "),
            ("phases = ", "expect = [{ only_refusals = { x = 1 } }]\nphases = "),
        ] {
            let text = SMALL.replace(place, wrong);
            let problem = problem(&text);
            assert!(problem.contains("unknown"), "{wrong}: {problem}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused_by_name() {
        for (from, to, expected) in [
            ("find = 5", "find = 0", "requests a second"),
            ("find = 5", "lose = 5", "there is no flow `lose`"),
            ("secs = 1", "secs = 0", "expected 1 to 86400"),
            ("act = ", "tenant = \"b\", act = ", "there is no tenant"),
            ("search = {}", "search = { k = 0 }", "1 to 1000"),
            ("phases = [{", "no = [{", "unknown"),
        ] {
            let text = SMALL.replace(from, to);
            assert!(problem(&text).contains(expected), "{}", problem(&text));
        }
        let nothing_happens = SMALL.replace("phases", "#");
        assert!(problem(&nothing_happens).contains("expected phases or a ladder"));
    }

    #[test]
    fn rates_are_multiplied_within_their_range() {
        let mut scenario = Scenario::parse(SMALL).unwrap();
        scenario.scale_rates(2.5).unwrap();
        assert_eq!(scenario.phases[0].per_sec["find"], 12.5);
        assert!(scenario.scale_rates(0.0).is_err());
    }

    #[test]
    fn a_ladder_rises_by_its_factor() {
        let ladder = Ladder {
            flow: "find".to_owned(),
            first_per_sec: 10.0,
            factor: 2.0,
            step_secs: 5,
            most_steps: 4,
            steps_beyond: 1,
        };
        assert_eq!(ladder.step(0).name, "10.0/s");
        assert_eq!(ladder.step(3).per_sec["find"], 80.0);
    }
}
