//! Runs: preparing corpora, sending requests when they are due, and collecting the outcomes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clew_client::Client;
use clew_core::{CorpusName, Document, Error, ErrorKind, StructureSettings};
use clew_proto::convert::corpus::NewCorpus;
use clew_proto::ingest::v1::ingest_response;
use futures::StreamExt;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::connect::{ClientKey, STREAMS_PER_CONNECTION, Target};
use crate::expectation::keeps_up;
use crate::metrics::Metrics;
use crate::observe::{Observed, Sample};
use crate::outcome::{CLIENT_LIMIT, Outcome};
use crate::record::{Ended, FlowCounts, Timeline};
use crate::report::{FlowReport, KeptReport, PhaseReport, Report, TimelineReport};
use crate::requests::{Connections, TenantState};
use crate::scenario::{Flow, Phase, Scenario, Tenant};
use crate::schedule::Schedule;
use crate::texts::{Texts, mixed};

/// Maximum time to ingest and index the initial documents.
const PREPARING: Duration = Duration::from_secs(3600);
/// Maximum time of one call during the preparation and the final check.
const CALL: Duration = Duration::from_secs(120);
/// Interval between two checks whether trees and graphs are built.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Time beyond its deadline that a request may take to end.
const DRAIN_GRACE: Duration = Duration::from_secs(5);

/// Run to execute.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Scenario of the run.
    pub scenario: Scenario,
    /// Server to test.
    pub target: Target,
    /// Parts of the server to observe.
    pub observed: Observed,
    /// Whether corpora of the same names are deleted first. Otherwise they are an error.
    pub replace: bool,
    /// Whether the corpora are kept after the run.
    pub keep: bool,
}

/// State that all requests of a run share.
struct Run {
    scenario: Scenario,
    began: Instant,
    tenants: Vec<Arc<TenantState>>,
    flows: Vec<FlowState>,
    left: AtomicU64,
    counts: Mutex<Counts>,
    stop: watch::Receiver<bool>,
}

struct FlowState {
    flow: Flow,
    tenant: usize,
    connections: Connections,
    places: Arc<Semaphore>,
}

/// Counts so far, by phase and flow, and by flow over time.
struct Counts {
    phases: Vec<Vec<FlowCounts>>,
    timelines: Vec<Timeline>,
}

/// Flow in a phase.
#[derive(Clone, Copy)]
struct Slot {
    phase: usize,
    flow: usize,
}

/// Executes a run and judges it. `stop` ends the run early, with a report of what came before.
/// `say` is called with progress messages for people.
///
/// # Errors
/// Returns an error if the preparation fails (the server does not answer, a corpus exists already,
/// documents are refused), if documents cannot be listed after the run, or if the corpora cannot be
/// deleted. Failures of requests are in the report.
pub async fn run(
    plan: RunPlan,
    stop: watch::Receiver<bool>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Report, Error> {
    let RunPlan { scenario, target, observed, replace, keep } = plan;
    let texts = Texts::new(scenario.seed, scenario.corpus.paragraphs);
    let mut tenants = Vec::new();
    let mut clients = Vec::new();
    let mut keys = Vec::new();
    let mut prepared = Vec::new();
    for tenant in &scenario.tenants {
        let key = key_of(tenant)?;
        let client = target.connect(key.as_ref(), CALL).await?;
        let corpus = tenant.corpus()?;
        say(&format!("{}: preparing corpus {corpus}", tenant.name));
        make_corpus(&client, &corpus, &scenario, replace).await?;
        let filling = fill(&client, &corpus, &scenario, texts, stop.clone());
        let filled = tokio::time::timeout(PREPARING, filling).await;
        let filled = filled.map_err(|_elapsed| Error::deadline("preparing a corpus"))??;
        say(&format!("{}: {filled}", tenant.name));
        prepared.push(format!("{}: {filled}", tenant.name));
        let known = scenario.corpus.documents;
        tenants.push(Arc::new(TenantState::new(tenant.name.clone(), corpus.clone(), texts, known)));
        clients.push((client, corpus));
        keys.push(key);
    }
    let mut flows = Vec::new();
    for flow in &scenario.flows {
        let tenant = scenario.tenant_of(flow);
        let wanted = flow.in_flight.div_ceil(STREAMS_PER_CONNECTION);
        let connecting =
            (0..wanted).map(|_| target.connect(keys[tenant].as_ref(), flow.deadline()));
        let connected = futures::future::try_join_all(connecting).await?;
        let places = Arc::new(Semaphore::new(flow.in_flight as usize));
        let connections = Connections::new(connected);
        flows.push(FlowState { flow: flow.clone(), tenant, connections, places });
    }
    tokio::time::sleep(Duration::from_secs(scenario.settle_secs.into())).await;
    let timeline = Timeline::over(scenario.most_time());
    let counts = Counts { phases: Vec::new(), timelines: vec![timeline; flows.len()] };
    let run = Arc::new(Run {
        left: AtomicU64::new(scenario.request_limit),
        began: Instant::now(),
        tenants,
        flows,
        counts: Mutex::new(counts),
        stop,
        scenario,
    });
    let mut report = Report {
        title: run.scenario.title.clone(),
        about: run.scenario.about.clone(),
        began: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        seed: run.scenario.seed,
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        prepared: prepared.join("; "),
        ..Report::default()
    };
    let (over, is_over) = watch::channel(false);
    let looking = tokio::spawn(look(Arc::clone(&run), observed.clone(), clients.clone(), is_over));
    let times = run.drive(&observed, say).await;
    over.send_replace(true);
    report.samples = looking.await.unwrap_or_default();
    report.phases = run.phase_reports(times);
    report.timelines = run.timeline_reports();
    report.ended_early = run.ended_early();
    say("looking for what was acknowledged");
    for (state, (client, _)) in run.tenants.iter().zip(&clients) {
        let kept = state.kept(client).await?;
        let tenant = state.name.clone();
        let (expected, lost, undead) = (kept.expected, kept.lost, kept.undead);
        report.kept.push(KeptReport { tenant, expected, lost, undead });
    }
    if !keep {
        for (client, corpus) in &clients {
            client.delete_corpus(corpus).await?;
        }
    }
    report.verdicts = run.scenario.expect.iter().map(|e| e.judge(&report)).collect();
    Ok(report)
}

fn key_of(tenant: &Tenant) -> Result<Option<ClientKey>, Error> {
    let Some(variable) = &tenant.api_key_env else { return Ok(None) };
    match std::env::var(variable) {
        Ok(key) => Ok(Some(ClientKey::new(key))),
        Err(error) => {
            let problem = format!("expected the key of tenant `{}` in it", tenant.name);
            Err(Error::invalid(variable.clone(), problem).with_source(error))
        }
    }
}

async fn make_corpus(
    client: &Client,
    corpus: &CorpusName,
    scenario: &Scenario,
    replace: bool,
) -> Result<(), Error> {
    if replace {
        match client.delete_corpus(corpus).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let new = NewCorpus {
        name: corpus.clone(),
        shards: scenario.corpus.shards,
        chunking: None,
        structure: scenario.corpus.structure.then(StructureSettings::default),
        retention_days: None,
        memory: None,
        chat: None,
    };
    match client.create_corpus(new).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let problem = format!("corpus `{corpus}` is there already; --replace deletes it first");
            Err(Error::new(ErrorKind::AlreadyExists, "CORPUS_EXISTS", problem).with_source(error))
        }
        Err(error) => Err(error),
    }
}

/// Ingests the documents that questions are about, and waits until they can be found. Returns a
/// description of the times it took.
async fn fill(
    client: &Client,
    corpus: &CorpusName,
    scenario: &Scenario,
    texts: Texts,
    mut stop: watch::Receiver<bool>,
) -> Result<String, Error> {
    let began = Instant::now();
    let filling = async {
        let count = scenario.corpus.documents;
        let documents: Result<Vec<Document>, Error> =
            (0..count).map(|number| texts.document(number)).collect();
        let responses = client.ingest(corpus, futures::stream::iter(documents?)).await?;
        let mut responses = std::pin::pin!(responses);
        while let Some(response) = responses.next().await {
            if let Some(ingest_response::Result::Refused(refused)) = response?.result {
                let problem = format!("a document was refused: {}", refused.message);
                return Err(Error::new(ErrorKind::WrongState, "REFUSED", problem));
            }
        }
        let acknowledged = began.elapsed();
        let reports = client.watch_until_idle(corpus).await?;
        let mut reports = std::pin::pin!(reports);
        let mut chunks = 0;
        while let Some(report) = reports.next().await {
            chunks = report?.chunks;
        }
        if scenario.corpus.structure {
            while client.corpus(corpus).await?.counts.unwrap_or_default().unstructured_documents > 0
            {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
        let (acknowledged, indexed) = (acknowledged.as_secs_f64(), began.elapsed().as_secs_f64());
        Ok(format!(
            "{count} documents, {chunks} chunks, {} shards; acknowledged in {acknowledged:.1} s, \
             ready in {indexed:.1} s",
            scenario.corpus.shards
        ))
    };
    tokio::select! {
        filled = filling => filled,
        _ = stop.wait_for(|stop| *stop) => {
            Err(Error::new(ErrorKind::WrongState, "INTERRUPTED", "stopped while preparing"))
        }
    }
}

/// Takes samples of the server at intervals.
async fn look(
    run: Arc<Run>,
    observed: Observed,
    corpora: Vec<(Client, CorpusName)>,
    mut is_over: watch::Receiver<bool>,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    let interval = Duration::from_secs(run.scenario.sample_secs.into());
    for number in 0_u32.. {
        let next = run.began + interval * number;
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            _ = is_over.wait_for(|over| *over) => break,
        }
        // A sample that takes too long, or longer than the run, is left out.
        let looking = observed.look(&corpora, run.began.elapsed());
        tokio::select! {
            sample = tokio::time::timeout(interval.max(CALL), looking) => samples.extend(sample),
            _ = is_over.wait_for(|over| *over) => break,
        }
    }
    samples
}

/// Time of a phase, with the metrics of the servers before and after it.
struct PhaseTimes {
    name: String,
    from: Duration,
    length: Duration,
    before: Option<Metrics>,
    after: Option<Metrics>,
}

impl Run {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        // A panic under the lock is a bug of this program, but the counts are still consistent.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.left.load(Ordering::Relaxed) == 0
    }

    fn ended_early(&self) -> String {
        if *self.stop.borrow() {
            "it was interrupted".to_owned()
        } else if self.left.load(Ordering::Relaxed) == 0 {
            format!("the limit of {} requests was reached", self.scenario.request_limit)
        } else {
            String::new()
        }
    }

    /// Runs all phases.
    async fn drive(
        self: &Arc<Self>,
        observed: &Observed,
        say: &(dyn Fn(&str) + Sync),
    ) -> Vec<PhaseTimes> {
        let mut times: Vec<PhaseTimes> = Vec::new();
        let mut next_begin = Duration::ZERO;
        let mut beyond = 0;
        loop {
            let phase = match &self.scenario.ladder {
                None => self.scenario.phases.get(times.len()).cloned(),
                Some(ladder) => {
                    let number = u32::try_from(times.len()).unwrap_or(u32::MAX);
                    let goes_on = number < ladder.most_steps && beyond <= ladder.steps_beyond;
                    goes_on.then(|| ladder.step(number))
                }
            };
            let Some(phase) = phase.filter(|_| !self.is_stopped()) else { break };
            let before = metrics(observed).await;
            let length = Duration::from_secs(phase.secs.into());
            let from = next_begin.max(self.began.elapsed());
            self.drive_phase(&phase, times.len(), from, length).await;
            next_begin = from + length;
            if self.scenario.ladder.is_some() {
                self.drained().await;
                next_begin = self.began.elapsed();
            }
            let after = metrics(observed).await;
            let length = match self.is_stopped() {
                true => self.began.elapsed().saturating_sub(from).min(length),
                false => length,
            };
            times.push(PhaseTimes { name: phase.name.clone(), from, length, before, after });
            let last = self.phase_report(times.len() - 1, &times[times.len() - 1]);
            beyond += u32::from(!last.flows.iter().all(keeps_up));
            for flow in &last.flows {
                say(&format!(
                    "{}: {} {:.1} of {:.1}/s done, p99 {:.1} ms, {} refused, {} failed",
                    last.name,
                    flow.flow,
                    flow.done_per_sec,
                    flow.offered_per_sec,
                    flow.latency.p99_ms,
                    flow.refused,
                    flow.failed
                ));
            }
        }
        self.drained().await;
        times
    }

    /// Sends the requests of one phase until its end. Requests that are under way then continue.
    async fn drive_phase(
        self: &Arc<Self>,
        phase: &Phase,
        number: usize,
        from: Duration,
        length: Duration,
    ) {
        self.counts().phases.push(vec![FlowCounts::default(); self.flows.len()]);
        let mut driving = JoinSet::new();
        for (flow, state) in self.flows.iter().enumerate() {
            let rate = phase.per_sec.get(&state.flow.name).copied().unwrap_or(0.0);
            let seed = mixed(mixed(self.scenario.seed, number as u64), flow as u64);
            let schedule = Schedule::new(self.scenario.arrivals, rate, length, seed);
            let slot = Slot { phase: number, flow };
            driving.spawn(Arc::clone(self).drive_flow(schedule, slot, from, seed));
        }
        let mut stop = self.stop.clone();
        let ends = self.began + from + length;
        let to_the_end = async {
            while driving.join_next().await.is_some() {}
            // All flows may be done before the phase ends.
            let is_exhausted = self.left.load(Ordering::Relaxed) == 0;
            if !is_exhausted {
                tokio::time::sleep_until(ends.into()).await;
            }
        };
        tokio::select! {
            () = to_the_end => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// Sends the requests of a flow when they are due, whatever the outcome of earlier ones.
    async fn drive_flow(
        self: Arc<Self>,
        schedule: Schedule,
        slot: Slot,
        from: Duration,
        seed: u64,
    ) {
        for (number, due) in schedule.enumerate() {
            let scheduled = from + due;
            tokio::time::sleep_until((self.began + scheduled).into()).await;
            let take_one = |left: u64| left.checked_sub(1);
            let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one);
            if *self.stop.borrow() || taken.is_err() {
                return;
            }
            self.counts().phases[slot.phase][slot.flow].scheduled += 1;
            let sent = self.began.elapsed();
            let places = Arc::clone(&self.flows[slot.flow].places);
            let Ok(place) = places.try_acquire_owned() else {
                let outcome = Outcome::NotSent(CLIENT_LIMIT);
                self.note(slot, &Ended { scheduled, sent, ended: sent, outcome });
                continue;
            };
            let (run, seed) = (Arc::clone(&self), mixed(seed, number as u64));
            tokio::spawn(async move {
                let state = &run.flows[slot.flow];
                let (act, deadline) = (&state.flow.act, state.flow.deadline());
                let tenant = &run.tenants[state.tenant];
                let sent = run.began.elapsed();
                let outcome = tenant.perform(&state.connections, act, deadline, seed).await;
                let ended = run.began.elapsed();
                run.note(slot, &Ended { scheduled, sent, ended, outcome });
                drop(place);
            });
        }
    }

    fn note(&self, slot: Slot, ended: &Ended) {
        let mut counts = self.counts();
        counts.phases[slot.phase][slot.flow].note(ended);
        counts.timelines[slot.flow].note(ended);
    }

    /// Waits until nothing is under way. Each request ends by its deadline.
    async fn drained(&self) {
        for state in &self.flows {
            let all = state.places.acquire_many(state.flow.in_flight);
            let patience = state.flow.deadline() + DRAIN_GRACE;
            // A request that is still under way then is in no report.
            drop(tokio::time::timeout(patience, all).await);
        }
    }

    fn phase_report(&self, number: usize, times: &PhaseTimes) -> PhaseReport {
        let secs = times.length.as_secs_f64().max(f64::MIN_POSITIVE);
        let counts = self.counts();
        let flows = self.flows.iter().zip(&counts.phases[number]);
        let flows = flows.filter(|(_, counts)| counts.scheduled > 0);
        let server = times.before.as_ref().zip(times.after.as_ref());
        PhaseReport {
            name: times.name.clone(),
            from_secs: times.from.as_secs_f64(),
            secs,
            flows: flows
                .map(|(f, counts)| FlowReport::of(&f.flow.name, counts, times.from, secs))
                .collect(),
            server: server.map(|(before, after)| after.parts_since(before)).unwrap_or_default(),
        }
    }

    /// Returns the reports of all phases. Called when nothing is under way.
    fn phase_reports(&self, times: Vec<PhaseTimes>) -> Vec<PhaseReport> {
        times.iter().enumerate().map(|(number, times)| self.phase_report(number, times)).collect()
    }

    fn timeline_reports(&self) -> Vec<TimelineReport> {
        let counts = self.counts();
        let flows = self.flows.iter().zip(&counts.timelines);
        let timelines = flows.map(|(state, timeline)| TimelineReport {
            flow: state.flow.name.clone(),
            points: timeline.points(),
        });
        timelines.collect()
    }
}

/// Returns the metrics of the servers, if there are admin addresses and they answer.
async fn metrics(observed: &Observed) -> Option<Metrics> {
    match observed.admins.is_empty() {
        true => None,
        false => observed.metrics().await.ok(),
    }
}
