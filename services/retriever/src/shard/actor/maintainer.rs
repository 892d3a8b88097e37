//! The maintainer: regularly does the maintenance that the tables need, and erases what was
//! forgotten. It asks the writer only for what must happen between commits, which takes
//! milliseconds, and does the rest itself. So documents are accepted and searched meanwhile.

use std::time::{Duration, Instant};

use clew_core::{ErasureScan, Error};
use clew_index::{Maintenance, MaintenanceReport, Next, ShardReader, Traces};
use clew_runtime::deadline::{ask, restarting, within};
use clew_telemetry::metrics;
use ractor::ActorRef;
use tokio::sync::{mpsc, oneshot};

use crate::shard::actor::writer;
use crate::shard::idleness::{Idleness, Task};
use crate::shard::resources::Resources;

/// Bound against a hung disk, not an estimate.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Interval at which postponed maintenance is tried again.
const POSTPONED: Duration = Duration::from_secs(60);
/// Time for which removing files waits for running searches before it is postponed.
const PRUNE_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of requests that wait.
const REQUESTS: usize = 1_024;

/// What the maintainer is asked for.
#[derive(Debug)]
enum Request {
    /// Do the maintenance that the tables need.
    Maintain(Reply<()>),
    /// Erase what was forgotten, and scan for what is left of it.
    Erase(Box<Traces>, Reply<ErasureScan>),
}

type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// Way to ask a shard's maintainer. Clones ask the same one.
#[derive(Clone, Debug)]
pub(crate) struct Asking(mpsc::Sender<Request>);

impl Asking {
    /// Does the maintenance that the tables need now.
    ///
    /// # Errors
    /// Returns a storage error, or that the deadline passed. It goes on then.
    pub(crate) async fn maintain(&self, deadline: Instant) -> Result<(), Error> {
        self.ask(Request::Maintain, "maintaining the tables", deadline).await
    }

    /// Erases what was forgotten, together with all that others ask for at this time, and scans for
    /// what is left.
    ///
    /// # Errors
    /// Returns a storage error, or that the deadline passed. It goes on then.
    pub(crate) async fn erase(
        &self,
        traces: Traces,
        deadline: Instant,
    ) -> Result<ErasureScan, Error> {
        let traces = Box::new(traces);
        self.ask(|reply| Request::Erase(traces, reply), "erasing what is forgotten", deadline).await
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
        doing: &str,
        deadline: Instant,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let asking = async {
            let gone = |_| restarting(doing);
            self.0.send(request(reply)).await.map_err(|_| restarting(doing))?;
            answer.await.map_err(gone)?
        };
        within(deadline, doing, asking).await
    }
}

/// The maintainer of a shard.
pub(crate) struct Maintainer {
    writer: ActorRef<writer::Message>,
    reader: ShardReader,
    resources: Resources,
    interval: Duration,
    idleness: Idleness,
    requests: mpsc::Receiver<Request>,
    maintain: Vec<Reply<()>>,
    erase: Vec<(Traces, Reply<ErasureScan>)>,
}

impl Maintainer {
    /// Creates a maintainer, and the way to ask it.
    pub(crate) fn new(
        writer: ActorRef<writer::Message>,
        reader: ShardReader,
        resources: Resources,
        interval: Duration,
        idleness: Idleness,
    ) -> (Self, Asking) {
        let (asking, requests) = mpsc::channel(REQUESTS);
        let (maintain, erase) = (Vec::new(), Vec::new());
        let new = Self { writer, reader, resources, interval, idleness, requests, maintain, erase };
        (new, Asking(asking))
    }

    /// Does maintenance for as long as the shard has a writer.
    pub(crate) async fn run(mut self) {
        let mut is_due = true;
        loop {
            self.take_requests();
            if !self.erase.is_empty() {
                self.erase().await;
            } else if is_due || !self.maintain.is_empty() {
                is_due = self.maintain().await;
            } else {
                match self.wait().await {
                    Some(due) => is_due = due,
                    None => return,
                }
            }
        }
    }

    fn take_requests(&mut self) {
        while let Ok(request) = self.requests.try_recv() {
            self.note(request);
        }
    }

    fn note(&mut self, request: Request) {
        match request {
            Request::Maintain(reply) => self.maintain.push(reply),
            Request::Erase(traces, reply) => self.erase.push((*traces, reply)),
        }
    }

    /// Waits until there is something to do. Returns whether maintenance is due by itself, or
    /// `None` if there is no writer any more.
    async fn wait(&mut self) -> Option<bool> {
        let (reader, interval) = (&mut self.reader, self.interval);
        // Tables that have not changed need nothing but postponed maintenance.
        let due = async {
            tokio::time::sleep(interval).await;
            tokio::select! {
                lives = reader.changed() => lives,
                () = tokio::time::sleep(POSTPONED) => true,
            }
        };
        tokio::select! {
            lives = due => lives.then_some(true),
            request = self.requests.recv() => {
                self.note(request?);
                Some(false)
            }
        }
    }

    /// Does the maintenance that the tables need. Returns whether it is still due, because it made
    /// room for an erasure.
    async fn maintain(&mut self) -> bool {
        let replies = std::mem::take(&mut self.maintain);
        let deadline = Instant::now() + PATIENCE;
        let revision = self.reader.revision();
        let planned = ask(&self.writer, deadline, "planning maintenance", |reply| {
            writer::Message::PlanMaintenance { reply }
        });
        let maintained = match planned.await {
            Ok(plan) => self.finish(Maintenance::new(&plan, PRUNE_PATIENCE), true).await,
            Err(error) => Err(error),
        };
        let outcome = match maintained {
            Ok(None) => {
                self.maintain = replies;
                return true;
            }
            Ok(Some(report)) => {
                // What was done may have made something else due.
                if report.done.is_empty() && report.postponed.is_empty() {
                    self.idleness.is_done(Task::Maintainer, revision);
                }
                if !report.done.is_empty() {
                    let (done, postponed) = (&report.done, &report.postponed);
                    tracing::debug!(?done, ?postponed, "maintained");
                }
                Ok(())
            }
            Err(error) => {
                let chain = error.chain();
                tracing::warn!(error = chain, "maintenance did not finish; tried again later");
                Err(error)
            }
        };
        for reply in replies {
            drop(reply.send(outcome.as_ref().copied().map_err(|error| error.again())));
        }
        false
    }

    /// Erases what was forgotten, for all who wait for it.
    async fn erase(&mut self) {
        let (traces, replies): (Vec<Traces>, Vec<_>) =
            std::mem::take(&mut self.erase).into_iter().unzip();
        let traces = traces.into_iter().reduce(Traces::and).unwrap_or_default();
        let erased = self.finish(Maintenance::erasing(traces, PRUNE_PATIENCE), false).await;
        let scan = erased.and_then(|report| {
            let scan = report.and_then(|report| report.scan);
            scan.ok_or_else(|| Error::from(clew_index::Error::ReadersActive))
        });
        for reply in replies {
            drop(reply.send(scan.as_ref().map(ErasureScan::clone).map_err(|error| error.again())));
        }
    }

    /// Does maintenance to its end. `None` if it made room for an erasure: what was begun of it is
    /// committed, and the rest is planned again later.
    async fn finish(
        &mut self,
        maintenance: Maintenance,
        makes_room: bool,
    ) -> Result<Option<MaintenanceReport>, Error> {
        let (mut maintenance, mut done) = (Box::new(maintenance), None);
        loop {
            let deadline = Instant::now() + PATIENCE;
            let next = ask(&self.writer, deadline, "maintaining the tables", |reply| {
                writer::Message::Advance { maintenance, done: done.take(), reply }
            });
            let (after, next) = next.await?;
            maintenance = after;
            match next {
                Next::Finished(report) => return Ok(Some(report)),
                Next::Turn => {}
                Next::Work(work) => {
                    let working = metrics::stage("rewrite_tables", work.run());
                    // Somebody waits for an erasure.
                    let worked = match makes_room {
                        true => self.resources.behind(working).await,
                        false => working.await,
                    };
                    done = Some(worked?);
                }
            }
            self.take_requests();
            if makes_room && done.is_none() && !self.erase.is_empty() {
                return Ok(None);
            }
        }
    }
}
