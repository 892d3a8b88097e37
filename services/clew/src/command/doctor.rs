//! Command `clew doctor`: examines what a node needs, and says what to do about problems.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use clew_cluster::{Eviction, RedisHealth};
use clew_core::{
    ClockOffset, EncoderIdentity, Encoders, Error, Priority, ReadPassage, TextKind, Unusable,
};
use clew_memory_encoder::{EncoderPools, OwnEncoder, OwnReader, OwnReranker};
use clew_retriever::Probed;
use serde::Serialize;
use serde_json::json;

use crate::args::global::GlobalArgs;
use crate::config::{ClewConfig, RolesConfig};
use crate::node::model_folder;
use crate::output::{Output, human};

/// Maximum time for a server to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum time for a model to process the probe.
const MODEL_PATIENCE: Duration = Duration::from_secs(30);
/// Text that models are tried with.
const PROBE: &str = "clew";
/// Largest harmless clock difference. With a larger one, acceptance times and leases are hard to
/// interpret.
const MOST_SKEW_SECONDS: f64 = 2.0;
/// Storage with less free space than this, or than a tenth of its size if that is less, is nearly
/// full.
const LEAST_FREE_BYTES: u64 = 10 << 30;
/// A durable write that takes longer than this slows every acknowledgement.
const SLOW_WRITE_MS: u128 = 250;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// It works, but something is not as it should be.
    Warn,
    /// Something does not work.
    Fail,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    state: State,
    /// Observation, and what it means.
    found: String,
    /// Advice; empty if there is nothing to do.
    advice: &'static str,
}

/// Findings of all checks.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, check: &'static str, state: State, found: String, advice: &'static str) {
        let advice = if state == State::Ok { "" } else { advice };
        self.0.push(Finding { check, state, found, advice });
    }

    fn fail(&mut self, check: &'static str, error: &Error, advice: &'static str) {
        self.add(check, State::Fail, error.message().to_owned(), advice);
    }

    fn worst(&self) -> State {
        self.0.iter().map(|finding| finding.state).max().unwrap_or(State::Ok)
    }
}

/// Examines this machine, or a server.
pub async fn run(global: &GlobalArgs, output: &Output) -> anyhow::Result<()> {
    let mut findings = Findings::default();
    match &global.endpoint {
        Some(endpoint) => server(global, endpoint, &mut findings).await,
        None => machine(global, &mut findings).await,
    }
    let version = env!("CARGO_PKG_VERSION");
    let document = json!({ "version": version, "state": findings.worst(), "findings": findings.0 });
    output.print(&document, |_| {
        let line = |finding: &Finding| {
            let state = match finding.state {
                State::Ok => "ok  ",
                State::Warn => "warn",
                State::Fail => "FAIL",
            };
            let mut text = format!("{state}  {}: {}\n", finding.check, finding.found);
            if !finding.advice.is_empty() {
                text.push_str(&format!("      {}\n", finding.advice));
            }
            text
        };
        findings.0.iter().map(line).collect()
    })?;
    match findings.worst() {
        State::Fail => bail!("something does not work; see what is marked FAIL"),
        State::Ok | State::Warn => Ok(()),
    }
}

async fn machine(global: &GlobalArgs, findings: &mut Findings) {
    let config = match ClewConfig::load(global, None) {
        Ok(config) => config,
        Err(error) => {
            return findings.fail("configuration", &error, "correct the key that is named");
        }
    };
    findings.add("configuration", State::Ok, "every key is known and in range".to_owned(), "");
    let folder = model_folder(&config.roles.encoder).await;
    let encoders = models(&config, &folder, findings).await;
    reranker(&config, findings).await;
    reader(&config, &folder, findings).await;
    let data_dir = config.roles.data_dir.to_string_lossy();
    if place("data directory", &config, &data_dir, findings).await {
        corpora(&config, &data_dir, encoders.as_deref(), findings).await;
    }
    snapshots(&config, &data_dir, findings).await;
    redis(&config, findings).await;
}

async fn models(
    config: &ClewConfig,
    folder: &Result<Option<PathBuf>, Error>,
    findings: &mut Findings,
) -> Option<Vec<EncoderIdentity>> {
    let loaded = match folder {
        Ok(folder) => EncoderPools::load(folder.clone(), &config.roles.encoder).await,
        Err(error) => Err(error.again()),
    };
    match loaded {
        Ok(encoders) => {
            if let Ok(Some(folder)) = folder {
                findings.add("model folder", State::Ok, format!("`{}`", folder.display()), "");
            }
            for own in encoders.all() {
                embeds(own, findings).await;
            }
            let offered = encoders.offered();
            encoders.stop().await;
            Some(offered)
        }
        Err(error) => {
            let advice = "run `make setup`, name the folder of a model with --model, or an endpoint in \
                          `encoder.endpoint`; those of a second one are `encoder.next_model` and \
                          `encoder.next_endpoint`";
            findings.fail("embedding model", &error, advice);
            None
        }
    }
}

/// Embeds the probe.
async fn embeds(own: &OwnEncoder, findings: &mut Findings) {
    let part = "embedding model";
    let deadline = Instant::now() + MODEL_PATIENCE;
    let probe = vec![PROBE.to_owned()];
    match own.encoder().embed(probe, TextKind::Query, Priority::Interactive, deadline).await {
        Ok(_embedding) => findings.add(part, State::Ok, own.description(), ""),
        Err(error) => {
            let advice =
                "correct the endpoint's address, key, model and dimension, or start its server";
            findings.fail(part, &error, advice);
        }
    }
}

/// Loads the reranker and scores the probe.
async fn reranker(config: &ClewConfig, findings: &mut Findings) {
    let part = "reranker";
    let tried = async {
        // What the reader does in its place is tried with the reader.
        let RolesConfig { reranker, encoder, .. } = &config.roles;
        let reranker = OwnReranker::load(reranker, encoder, &OwnReader::None).await?;
        let Some(description) = reranker.description() else { return Ok(None) };
        let deadline = Instant::now() + MODEL_PATIENCE;
        let scored = reranker.seam().score(PROBE, vec![PROBE.to_owned()], deadline).await;
        reranker.stop().await;
        scored.map(|_scored| Some(description))
    };
    match tried.await {
        Ok(None) => {}
        Ok(Some(description)) => findings.add(part, State::Ok, description, ""),
        Err(error) => {
            let advice = "name the folder of a cross-encoder in `reranker.model`, or correct `reranker.endpoint`";
            findings.fail(part, &error, advice);
        }
    }
}

/// Loads the reader and has it read the probe.
async fn reader(
    config: &ClewConfig,
    folder: &Result<Option<PathBuf>, Error>,
    findings: &mut Findings,
) {
    let part = "reader";
    // That the folder is missing was found with the embedding model.
    let Ok(folder) = folder else { return };
    let tried = async {
        let (reader, encoder) = (&config.roles.reader, &config.roles.encoder);
        let reader = OwnReader::load(reader, folder.as_deref(), encoder).await?;
        let deadline = Instant::now() + MODEL_PATIENCE;
        let description = reader.description(deadline).await;
        let probe = ReadPassage { text: PROBE.to_owned(), ..ReadPassage::default() };
        let read = match &description {
            Ok(Some(_)) => reader.seam().read_spans(PROBE, vec![probe], deadline).await.map(drop),
            Ok(None) | Err(_) => Ok(()),
        };
        reader.stop().await;
        read.and(description)
    };
    match tried.await {
        Ok(Some(description)) => findings.add(part, State::Ok, description, ""),
        Ok(None) => {
            let found = "there is none, so answers without a language model quote whole sentences; it needs \
                         `reader.enabled` and the embedding model all-MiniLM-L6-v2";
            findings.add(part, State::Ok, found.to_owned(), "");
        }
        Err(error) => {
            let advice =
                "name the folder of its base in `reader.model`, or set `reader.enabled` to false";
            findings.fail(part, &error, advice);
        }
    }
}

/// Examines a place where data is stored. Returns whether it can be used.
async fn place(
    check: &'static str,
    config: &ClewConfig,
    place: &str,
    findings: &mut Findings,
) -> bool {
    let probed = Box::pin(config.roles.storage.probe(place)).await;
    let probed = match probed {
        Ok(probed) => probed,
        Err(error) => {
            let advice = "see that it exists or can be made, and that this process may write there";
            findings.fail(check, &error, advice);
            return false;
        }
    };
    // The same check as at the start of a node.
    let checked = config.roles.storage.check(place, &probed);
    match &checked {
        Ok(()) => findings.add(check, State::Ok, "it keeps what it is told".to_owned(), ""),
        Err(error) => findings.fail(check, error, "nothing is served over it as it is"),
    }
    let Probed { clock, write, free_of, .. } = probed;
    let took = human(write);
    let state = if write.as_millis() > SLOW_WRITE_MS { State::Warn } else { State::Ok };
    let advice = "every acknowledgement waits for such writes; take faster storage";
    findings.add(check, state, format!("a small file took {took} until it was safe"), advice);
    if let Some(clock) = clock {
        tell_clock(check, clock, findings);
    }
    if let Some((free, all)) = free_of {
        let is_low = free < LEAST_FREE_BYTES.min(all / 10);
        let (free, all) = (free >> 20, all >> 20);
        let state = if is_low { State::Warn } else { State::Ok };
        let advice = "make room: merging and erasing need as much again as the largest table";
        findings.add(check, state, format!("{free} of {all} MiB are free"), advice);
    }
    checked.is_ok()
}

fn tell_clock(check: &'static str, clock: ClockOffset, findings: &mut Findings) {
    let ahead_seconds = clock.seconds();
    let is_far = ahead_seconds.abs() > MOST_SKEW_SECONDS;
    let state = if is_far { State::Warn } else { State::Ok };
    let found = format!("its clock is {ahead_seconds:+.1} s from this machine's");
    findings.add(check, state, found, "have both follow a time server");
}

async fn corpora(
    config: &ClewConfig,
    data_dir: &str,
    encoders: Option<&[EncoderIdentity]>,
    findings: &mut Findings,
) {
    let (listed, unusable) = match config.roles.storage.corpora(data_dir).await {
        Ok(listed) => listed,
        Err(error) => {
            let advice = "see that the storage answers";
            return findings.fail("corpora", &error, advice);
        }
    };
    for Unusable { name, message, .. } in unusable {
        let advice = "use the release that wrote it, or restore its settings or the corpus from a copy; others can be used";
        findings.add("corpora", State::Fail, format!("`{name}` cannot be used: {message}"), advice);
    }
    let is_missing =
        |wanted: &&EncoderIdentity| encoders.is_some_and(|loaded| !loaded.contains(wanted));
    let others: Vec<String> = listed
        .iter()
        .filter_map(|corpus| Some((&corpus.name, corpus.encoders().find(is_missing)?)))
        .map(|(name, missing)| format!("`{name}` (vectors of `{}`)", missing.model))
        .collect();
    match others.is_empty() {
        true => findings.add("corpora", State::Ok, format!("{} can be read", listed.len()), ""),
        false => findings.add(
            "corpora",
            State::Fail,
            format!("vectors of another model than those configured: {}", others.join(", ")),
            "configure the model of their vectors, beside another as `encoder.next_model`, or ingest them anew (clew corpus \
             export)",
        ),
    }
}

async fn snapshots(config: &ClewConfig, data_dir: &str, findings: &mut Findings) {
    const CHECK: &str = "snapshots";
    if let Err(error) = config.roles.storage.snapshots(data_dir).await {
        return findings.fail(CHECK, &error, "correct `storage.snapshots`");
    }
    let Some(folder) = &config.roles.storage.snapshots else {
        let found = "no place for them is configured, so a lost data directory is lost".to_owned();
        let advice = "set `storage.snapshots` to a place outside the data directory";
        return findings.add(CHECK, State::Warn, found, advice);
    };
    place(CHECK, config, folder, findings).await;
}

async fn redis(config: &ClewConfig, findings: &mut Findings) {
    const CHECK: &str = "redis";
    match RedisHealth::ask(&config.node.cluster).await {
        Ok(None) => {
            findings.add(CHECK, State::Ok, "none is configured, and none is needed".to_owned(), "");
        }
        Err(error) => {
            let advice = "see that it runs and can be reached; shards do not move meanwhile";
            // The chain says why, such as a certificate that is not trusted, and contains no
            // password.
            findings.add(CHECK, State::Fail, error.chain(), advice);
        }
        Ok(Some(health)) => {
            let RedisHealth { version, eviction, clock } = &health;
            match (health.check().and_then(|()| config.roles.storage.check_redis(&health)), eviction) {
                (Err(error), _) => findings.fail(CHECK, &error, "no node starts with it as it is"),
                (Ok(()), Some(Eviction { policy, .. })) => {
                    let found = format!("version {version}, policy `{policy}`");
                    findings.add(CHECK, State::Ok, found, "");
                }
                (Ok(()), None) => findings.add(
                    CHECK,
                    State::Warn,
                    "it does not tell its `maxmemory-policy`".to_owned(),
                    "see that it is `noeviction`, or permit `INFO`: else leases vanish when memory is full",
                ),
            }
            tell_clock(CHECK, *clock, findings);
        }
    }
}

async fn server(global: &GlobalArgs, endpoint: &str, findings: &mut Findings) {
    const CHECK: &str = "server";
    let advice = "see that it runs there and that nothing lies between";
    let client = match global.connect(endpoint, PATIENCE).await {
        Ok(client) => client,
        Err(error) => return findings.fail(CHECK, &error, advice),
    };
    match client.corpora().await {
        Ok(corpora) => {
            let broken = corpora.iter().filter(|corpus| corpus.counts.is_none()).count();
            let state = if broken == 0 { State::Ok } else { State::Fail };
            let found = format!("it answers; {} corpora, {broken} do not run", corpora.len());
            findings.add(CHECK, state, found, "`clew status --corpus NAME` says why one does not");
        }
        Err(error) => return findings.fail(CHECK, &error, advice),
    }
    // A server without a cluster has no topology.
    let Ok(topology) = client.topology().await else { return };
    let lost = topology.shards.iter().filter(|shard| shard.owner.is_empty()).count();
    let is_good = lost == 0 && !topology.is_stale;
    let state = if is_good { State::Ok } else { State::Fail };
    let stale = if topology.is_stale { ", not known to be up to date" } else { "" };
    let found = format!(
        "{} members{stale}; {} shards, {lost} without owner",
        topology.members.len(),
        topology.shards.len()
    );
    let advice = "see that Redis and the retrievers run; `clew cluster tree` says more";
    findings.add("cluster", state, found, advice);
}
