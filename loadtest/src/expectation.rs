//! Expectations of a scenario, and the check whether they hold.

use serde::{Deserialize, Serialize};

use crate::observe::Figure;
use crate::record::Percentile;
use crate::report::{FlowReport, PhaseReport, Report};
use crate::verdict::ExpectationVerdict;

/// Share of the offered requests that a server must do to count as keeping up.
const KEEPS_UP: f64 = 0.9;

/// Expectation of a run.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// A percentile of a flow's latency in a phase is at most a number of milliseconds.
    Latency(LatencyAtMost),
    /// A percentile of a flow's latency in a phase is at most a multiple of that in another phase.
    Compared(Compared),
    /// All requests that were sent were done.
    NoFailures(InPhase),
    /// All requests that were not done were refused with RESOURCE_EXHAUSTED.
    OnlyRefusals(InPhase),
    /// The server was offered more than it can do. Otherwise, nothing is known about saturation.
    Saturated(OfFlow),
    /// At rates above that of a flow's peak, the server does hardly less than at the peak.
    PeakKept(PeakKept),
    /// A minimum share of the answers was right.
    Correct(Correct),
    /// A figure of the server does not grow.
    Flat(Flat),
    /// Everything that was acknowledged is stored, and nothing that was forgotten.
    Kept(Nothing),
}

/// Empty settings.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Phases and flows to which an expectation applies.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct InPhase {
    /// Name of the phase. Default: all phases.
    #[serde(default)]
    pub phase: Option<String>,
    /// Name of the flow. Default: all flows.
    #[serde(default)]
    pub flow: Option<String>,
}

/// Flow to which an expectation applies.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct OfFlow {
    /// Name of the flow.
    pub flow: String,
}

/// Settings of [`Expectation::Latency`].
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LatencyAtMost {
    /// Name of the flow.
    pub flow: String,
    /// Name of the phase.
    pub phase: String,
    /// Percentile to check.
    #[serde(default)]
    pub percentile: Percentile,
    /// Maximum latency in milliseconds.
    pub at_most_ms: f64,
}

/// Settings of [`Expectation::Compared`].
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// Name of the flow.
    pub flow: String,
    /// Name of the phase.
    pub phase: String,
    /// Name of the phase to compare with.
    pub base: String,
    /// Percentile to compare.
    #[serde(default)]
    pub percentile: Percentile,
    /// Maximum multiple of the latency in the base phase.
    pub at_most_times: f64,
}

/// Settings of [`Expectation::PeakKept`].
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PeakKept {
    /// Name of the flow.
    pub flow: String,
    /// Minimum share of the peak, 0 to 1.
    pub at_least: f64,
}

/// Settings of [`Expectation::Correct`].
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Correct {
    /// Name of the flow.
    pub flow: String,
    /// Name of the phase. Default: all phases, each by itself.
    #[serde(default)]
    pub phase: Option<String>,
    /// Minimum share, 0 to 1.
    pub at_least: f64,
}

/// Settings of [`Expectation::Flat`].
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Flat {
    /// Figure to check.
    pub figure: Figure,
    /// Seconds at the beginning that do not count.
    #[serde(default)]
    pub after_secs: f64,
    /// Maximum share by which the median of the last third of the time may exceed that of the first
    /// third.
    pub may_grow: f64,
    /// Alternative bound in the figure's unit; the larger bound applies. Small figures vary by more
    /// than their share.
    #[serde(default)]
    pub or_by: f64,
}

impl Expectation {
    /// Returns the names of flows in the expectation.
    pub(crate) fn flows(&self) -> Vec<&str> {
        match self {
            Self::Latency(latency) => vec![&latency.flow],
            Self::Compared(compared) => vec![&compared.flow],
            Self::NoFailures(place) | Self::OnlyRefusals(place) => {
                place.flow.as_deref().into_iter().collect()
            }
            Self::Saturated(of) => vec![&of.flow],
            Self::PeakKept(peak) => vec![&peak.flow],
            Self::Correct(correct) => vec![&correct.flow],
            Self::Flat(_) | Self::Kept(_) => Vec::new(),
        }
    }

    /// Returns the names of phases in the expectation.
    pub(crate) fn phases(&self) -> Vec<&str> {
        match self {
            Self::Latency(latency) => vec![&latency.phase],
            Self::Compared(compared) => vec![&compared.phase, &compared.base],
            Self::NoFailures(place) | Self::OnlyRefusals(place) => {
                place.phase.as_deref().into_iter().collect()
            }
            Self::Correct(correct) => correct.phase.as_deref().into_iter().collect(),
            Self::Saturated(_) | Self::PeakKept(_) | Self::Flat(_) | Self::Kept(_) => Vec::new(),
        }
    }

    /// Judges a run. An expectation of something that did not happen does not hold.
    pub fn judge(&self, report: &Report) -> ExpectationVerdict {
        match self {
            Self::Latency(latency) => latency.judge(report),
            Self::Compared(compared) => compared.judge(report),
            Self::NoFailures(place) => place.judge(report, "no failure", |flow| {
                flow.statuses.iter().filter(|status| status.status.code != "OK").collect()
            }),
            Self::OnlyRefusals(place) => place.judge(report, "no failure but refusals", |flow| {
                let failures = flow.statuses.iter().filter(|status| status.status.code != "OK");
                failures.filter(|status| !status.status.is_refusal()).collect()
            }),
            Self::Saturated(of) => of.judge(report),
            Self::PeakKept(peak) => peak.judge(report),
            Self::Correct(correct) => correct.judge(report),
            Self::Flat(flat) => flat.judge(report),
            Self::Kept(Nothing {}) => judge_kept(report),
        }
    }
}

/// Returns whether, in a phase, a flow was done about as fast as it was offered.
pub(crate) fn keeps_up(flow: &FlowReport) -> bool {
    flow.done_per_sec >= KEEPS_UP * flow.offered_per_sec
}

/// Returns a flow in the phases in which it was offered.
fn steps<'a>(report: &'a Report, flow: &str) -> Vec<(&'a PhaseReport, &'a FlowReport)> {
    let of_phase = |phase: &'a PhaseReport| Some((phase, phase.flow(flow)?));
    report.phases.iter().filter_map(of_phase).filter(|(_, flow)| flow.scheduled > 0).collect()
}

fn did_not_happen(expected: String) -> ExpectationVerdict {
    ExpectationVerdict { expected, found: "it did not happen".to_owned(), holds: false }
}

impl LatencyAtMost {
    fn judge(&self, report: &Report) -> ExpectationVerdict {
        let Self { flow, phase, percentile, at_most_ms } = self;
        let expected = format!("{percentile:?} of {flow} in {phase} at most {at_most_ms} ms");
        let Some(latency) = report.latency(phase, flow) else { return did_not_happen(expected) };
        let came = latency.at(*percentile);
        ExpectationVerdict { expected, found: format!("{came:.1} ms"), holds: came <= *at_most_ms }
    }
}

impl Compared {
    fn judge(&self, report: &Report) -> ExpectationVerdict {
        let Self { flow, phase, base, percentile, at_most_times } = self;
        let expected = format!(
            "{percentile:?} of {flow} in {phase} at most {at_most_times} times that in {base}"
        );
        let both = (report.latency(phase, flow), report.latency(base, flow));
        let (Some(latency), Some(base)) = both else { return did_not_happen(expected) };
        let (came, base) = (latency.at(*percentile), base.at(*percentile));
        ExpectationVerdict {
            expected,
            found: format!("{came:.1} ms against {base:.1} ms, {:.2} times", came / base),
            holds: came <= base * at_most_times,
        }
    }
}

impl InPhase {
    fn judge(
        &self,
        report: &Report,
        what: &str,
        failures: impl Fn(&FlowReport) -> Vec<&crate::report::StatusReport>,
    ) -> ExpectationVerdict {
        let in_phase = self.phase.as_deref().map(|p| format!(" in {p}")).unwrap_or_default();
        let of_flow = self.flow.as_deref().map(|f| format!(" of {f}")).unwrap_or_default();
        let expected = format!("{what}{of_flow}{in_phase}");
        let phases =
            report.phases.iter().filter(|p| self.phase.as_ref().is_none_or(|n| *n == p.name));
        let flows = phases.flat_map(|phase| &phase.flows);
        let flows = flows.filter(|f| self.flow.as_ref().is_none_or(|name| *name == f.flow));
        let (mut found, mut sent) = (std::collections::BTreeMap::new(), 0);
        for flow in flows {
            sent += flow.sent;
            for failure in failures(flow) {
                let shown = format!("{} {}", failure.status.code, failure.status.reason);
                *found.entry(shown).or_insert(0) += failure.count;
            }
        }
        if sent == 0 {
            return did_not_happen(expected);
        }
        let holds = found.is_empty();
        let found: Vec<String> = found.iter().map(|(shown, n)| format!("{n} {shown}")).collect();
        let found = if holds { format!("none of {sent}") } else { found.join(", ") };
        ExpectationVerdict { expected, found, holds }
    }
}

impl OfFlow {
    fn judge(&self, report: &Report) -> ExpectationVerdict {
        let expected = format!("{} is offered more than the server can do", self.flow);
        let steps = steps(report, &self.flow);
        match steps.iter().find(|(_, flow)| !keeps_up(flow)) {
            None => ExpectationVerdict { expected, found: "it kept up".to_owned(), holds: false },
            Some((phase, flow)) => {
                let (offered, done) = (flow.offered_per_sec, flow.done_per_sec);
                let found = format!("in {}: {done:.1} of {offered:.1} a second", phase.name);
                ExpectationVerdict { expected, found, holds: true }
            }
        }
    }
}

impl PeakKept {
    fn judge(&self, report: &Report) -> ExpectationVerdict {
        let Self { flow, at_least } = self;
        let expected =
            format!("at higher rates {flow} keeps {:.0} % of its peak", at_least * 100.0);
        let steps = steps(report, flow);
        let best = steps
            .iter()
            .enumerate()
            .max_by(|(_, a), (_, b)| a.1.done_per_sec.total_cmp(&b.1.done_per_sec));
        let Some((place, (phase, peak))) = best else { return did_not_happen(expected) };
        let peak_rate = peak.done_per_sec;
        let after = steps[place + 1..].iter();
        let least = after.min_by(|a, b| a.1.done_per_sec.total_cmp(&b.1.done_per_sec));
        let peak = format!("peak {peak_rate:.1}/s in {}", phase.name);
        match least {
            // The last step was the best one, and no higher rate was tried.
            None => {
                ExpectationVerdict { expected, found: format!("{peak}, the last"), holds: true }
            }
            Some((phase, least)) => {
                let rate = least.done_per_sec;
                let found = format!("{peak}, least after it {rate:.1}/s in {}", phase.name);
                ExpectationVerdict { expected, found, holds: rate >= at_least * peak_rate }
            }
        }
    }
}

impl Correct {
    fn judge(&self, report: &Report) -> ExpectationVerdict {
        let Self { flow, phase, at_least } = self;
        let wanted = at_least * 100.0;
        let at = phase.as_deref().unwrap_or("each phase");
        let expected = format!("{wanted:.0} % of the answers to {flow} are right in {at}");
        let steps = steps(report, flow);
        let shares = steps
            .iter()
            .filter(|(step, _)| phase.as_ref().is_none_or(|name| *name == step.name))
            .filter_map(|(step, flow)| Some((&step.name, flow.right_share?)));
        let Some((name, least)) = shares.min_by(|a, b| a.1.total_cmp(&b.1)) else {
            return did_not_happen(expected);
        };
        let found = format!("least {:.1} % in {name}", least * 100.0);
        ExpectationVerdict { expected, found, holds: least >= *at_least }
    }
}

impl Flat {
    fn judge(&self, report: &Report) -> ExpectationVerdict {
        let Self { figure, after_secs, may_grow, or_by } = self;
        let title = figure.title();
        let expected = format!(
            "{title}: the last third at most {:.0} % (or {or_by}) above the first, after {after_secs} s",
            may_grow * 100.0,
        );
        let samples = report.samples.iter().filter(|sample| sample.at_secs >= *after_secs);
        let values: Vec<f64> =
            samples.filter_map(|s| figure.of(s)).map(|value| figure.shown(value)).collect();
        let third = values.len() / 3;
        if third == 0 {
            return did_not_happen(expected);
        }
        let first = median(&values[..third]);
        let last = median(&values[values.len() - third..]);
        let allowed = (first * (1.0 + may_grow)).max(first + or_by);
        ExpectationVerdict {
            expected,
            found: format!("{first:.1}, then {last:.1}"),
            holds: last <= allowed,
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn judge_kept(report: &Report) -> ExpectationVerdict {
    let expected = "what was acknowledged is there, and nothing that was forgotten".to_owned();
    if report.kept.is_empty() {
        return did_not_happen(expected);
    }
    let sum = |figure: fn(&crate::report::KeptReport) -> u64| -> u64 {
        report.kept.iter().map(figure).sum()
    };
    let (lost, undead) = (sum(|kept| kept.lost), sum(|kept| kept.undead));
    let found =
        format!("{lost} of {} are lost, {undead} forgotten ones are there", sum(|k| k.expected));
    ExpectationVerdict { expected, found, holds: lost == 0 && undead == 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::observe::Sample;
    use crate::outcome::StatusKey;
    use crate::record::Latency;
    use crate::report::{KeptReport, StatusReport};

    fn step(name: &str, offered: f64, done: f64) -> PhaseReport {
        let flow = FlowReport {
            flow: "find".to_owned(),
            scheduled: (offered * 10.0) as u64,
            sent: (offered * 10.0) as u64,
            offered_per_sec: offered,
            done_per_sec: done,
            right_share: Some(0.9),
            ..FlowReport::default()
        };
        PhaseReport { name: name.to_owned(), flows: vec![flow], ..PhaseReport::default() }
    }

    fn with_latency(mut phase: PhaseReport, p99_ms: f64) -> PhaseReport {
        phase.flows[0].latency = Latency { count: 10, p99_ms, ..Latency::default() };
        phase
    }

    fn report(phases: Vec<PhaseReport>) -> Report {
        Report { phases, ..Report::default() }
    }

    fn expectation(text: &str) -> Expectation {
        #[derive(Deserialize)]
        struct Only {
            expect: Expectation,
        }
        toml::from_str::<Only>(&format!("expect = {text}")).unwrap().expect
    }

    fn holds(text: &str, report: &Report) -> bool {
        expectation(text).judge(report).holds
    }

    #[test]
    fn a_latency_holds_up_to_its_bound() {
        let report = report(vec![with_latency(step("a", 5.0, 5.0), 20.0)]);
        let at_most = |ms: f64| {
            format!("{{ latency = {{ flow = \"find\", phase = \"a\", at_most_ms = {ms} }} }}")
        };
        assert!(holds(&at_most(20.0), &report));
        assert!(!holds(&at_most(19.9), &report));
    }

    #[test]
    fn what_did_not_happen_does_not_hold() {
        let nothing = report(Vec::new());
        for text in [
            r#"{ latency = { flow = "find", phase = "a", at_most_ms = 9 } }"#,
            r#"{ compared = { flow = "find", phase = "a", base = "b", at_most_times = 9 } }"#,
            r#"{ no_failures = {} }"#,
            r#"{ only_refusals = {} }"#,
            r#"{ saturated = { flow = "find" } }"#,
            r#"{ peak_kept = { flow = "find", at_least = 0 } }"#,
            r#"{ correct = { flow = "find", at_least = 0 } }"#,
            r#"{ flat = { figure = "files", may_grow = 9 } }"#,
            r#"{ kept = {} }"#,
        ] {
            assert!(!holds(text, &nothing), "{text}");
        }
    }

    #[test]
    fn a_neighbour_is_compared_with_its_calm_time() {
        let calm = with_latency(step("calm", 5.0, 5.0), 10.0);
        let compare = r#"{ compared = { flow = "find", phase = "storm", base = "calm", at_most_times = 2 } }"#;
        for (p99, expected) in [(20.0, true), (20.1, false)] {
            let storm = with_latency(step("storm", 5.0, 5.0), p99);
            assert_eq!(holds(compare, &report(vec![calm.clone(), storm])), expected);
        }
    }

    #[test]
    fn refusals_are_allowed_where_they_are_and_nothing_else_is() {
        let mut refused = step("a", 5.0, 4.0);
        let status = |code, count| StatusReport {
            status: StatusKey { code, reason: "WHY".to_owned() },
            count,
            ..StatusReport::default()
        };
        refused.flows[0].statuses = vec![status("OK", 40), status("RESOURCE_EXHAUSTED", 10)];
        let mut failed = refused.clone();
        failed.flows[0].statuses.push(status("UNAVAILABLE", 1));
        let (refused, failed) = (report(vec![refused]), report(vec![failed]));
        assert!(holds("{ only_refusals = {} }", &refused));
        assert!(!holds("{ no_failures = {} }", &refused));
        assert!(!holds("{ only_refusals = {} }", &failed));
        let verdict = expectation("{ only_refusals = {} }").judge(&failed);
        assert_eq!(verdict.found, "1 UNAVAILABLE WHY");
    }

    #[test]
    fn a_collapse_beyond_the_peak_is_seen() {
        let keep = r#"{ peak_kept = { flow = "find", at_least = 0.8 } }"#;
        let steps = |last| {
            let up = [("1", 10.0, 10.0), ("2", 20.0, 20.0), ("3", 40.0, 30.0), ("4", 80.0, last)];
            report(up.into_iter().map(|(name, offered, done)| step(name, offered, done)).collect())
        };
        assert!(holds(keep, &steps(25.0)));
        assert!(!holds(keep, &steps(20.0)));
        let saturated = r#"{ saturated = { flow = "find" } }"#;
        assert!(holds(saturated, &steps(25.0)));
        assert!(!holds(saturated, &report(vec![step("1", 10.0, 9.5)])));
    }

    #[test]
    fn wrong_answers_are_seen_however_fast_they_come() {
        let report = report(vec![step("a", 5.0, 5.0)]);
        assert!(holds(r#"{ correct = { flow = "find", at_least = 0.9 } }"#, &report));
        assert!(!holds(r#"{ correct = { flow = "find", at_least = 0.91 } }"#, &report));
    }

    #[test]
    fn what_was_acknowledged_and_is_gone_is_seen() {
        let kept = |lost, undead| {
            let kept = vec![KeptReport { tenant: "a".to_owned(), expected: 5, lost, undead }];
            Report { kept, ..Report::default() }
        };
        assert!(holds("{ kept = {} }", &kept(0, 0)));
        assert!(!holds("{ kept = {} }", &kept(1, 0)));
        assert!(!holds("{ kept = {} }", &kept(0, 1)));
    }

    proptest! {
        #[test]
        fn what_varies_is_flat_and_what_grows_is_not(seed: u64, level in 50.0_f64..5000.0) {
            let mut random = fastrand::Rng::with_seed(seed);
            let samples = |random: &mut fastrand::Rng, slope: f64| {
                let at = (0..300).map(f64::from);
                let value = |at: f64| level * (0.95 + 0.1 * random.f64()) + slope * at;
                let files = at.map(value).collect::<Vec<_>>();
                let sample = |(at, files)| Sample {
                    at_secs: f64::from(at),
                    files: Some(files),
                    ..Sample::default()
                };
                Report { samples: (0..).zip(files).map(sample).collect(), ..Report::default() }
            };
            let flat = r#"{ flat = { figure = "files", after_secs = 30, may_grow = 0.1 } }"#;
            prop_assert!(holds(flat, &samples(&mut random, 0.0)));
            prop_assert!(!holds(flat, &samples(&mut random, level / 500.0)));
        }
    }
}
