//! The corpora as a caller sees them: tenants reach only their own, by the names that they gave
//! them.

use std::sync::Arc;
use std::time::Instant;

use clew_auth::Caller;
use clew_core::{
    Access, Corpora, Corpus, CorpusEntry, CorpusName, CorpusSettings, DeletionStep, Error,
    ErrorKind, IngestRun, PartReport, RUN_NOT_FOUND, Restoration, RestoreStep, RunName, RunPage,
    RunPart, RunPlace, SnapshotDeletion, SnapshotName, SnapshotSummary,
};

/// Number of times that a corpus is looked up again because others change it at the same time.
const LOOKS: usize = 4;

/// Corpora of all tenants.
#[derive(Clone)]
pub struct AllCorpora(Arc<dyn Corpora>);

impl AllCorpora {
    /// Wraps the corpora of a data directory or a cluster.
    pub fn new(corpora: Arc<dyn Corpora>) -> Self {
        Self(corpora)
    }

    /// Returns the corpora that `caller` reaches. Every handler goes through this for every caller.
    pub fn of<'a>(&'a self, caller: &'a Caller) -> CallersCorpora<'a> {
        CallersCorpora { all: self.0.as_ref(), caller }
    }
}

/// Corpora of one caller, by the caller's own names.
pub struct CallersCorpora<'a> {
    all: &'a dyn Corpora,
    caller: &'a Caller,
}

impl CallersCorpora<'_> {
    /// Creates a corpus.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::create`].
    pub async fn create(
        &self,
        mut settings: CorpusSettings,
        deadline: Instant,
    ) -> Result<Arc<Corpus>, Error> {
        let name = settings.name.clone();
        settings.name = self.caller.corpus(&name)?;
        let made = self.all.create(settings, self.caller.access(), deadline).await;
        made.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let problem = format!("there is a corpus `{name}` already");
                Error::new(ErrorKind::AlreadyExists, error.reason().to_owned(), problem)
            }
            _ => error,
        })
    }

    /// Returns the corpus of that name.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::get`], with [`ErrorKind::NotFound`] also for corpora of
    /// other tenants.
    pub async fn get(&self, name: &CorpusName, deadline: Instant) -> Result<Arc<Corpus>, Error> {
        let found = self.all.get(&self.caller.corpus(name)?, self.caller.access(), deadline).await;
        found.map_err(|error| by_his_name(error, name))
    }

    /// Returns the corpus of that name with its current settings; those of [`Self::get`] may be
    /// some seconds old.
    ///
    /// # Errors
    /// Returns the errors of [`Self::get`], and [`ErrorKind::LostRace`] if others keep changing the
    /// corpus.
    pub async fn newest(&self, name: &CorpusName, deadline: Instant) -> Result<Arc<Corpus>, Error> {
        let mut looks = 1..=LOOKS;
        loop {
            let corpus = self.get(name, deadline).await?;
            let settings = corpus.settings();
            // This change is refused if the settings are not the corpus' current ones. The refusal
            // also makes the next look read the current ones.
            match self.change(name, settings, settings, deadline).await {
                Err(error) if error.kind() == ErrorKind::LostRace && looks.next().is_some() => {}
                same => return same.map(|()| corpus),
            }
        }
    }

    /// Changes the settings of the corpus of that name from `from` to `to`.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::change`].
    pub async fn change(
        &self,
        name: &CorpusName,
        from: &CorpusSettings,
        to: &CorpusSettings,
        deadline: Instant,
    ) -> Result<(), Error> {
        let changed = self.all.change(from, to, deadline).await;
        changed.map_err(|error| by_his_name(error, name))
    }

    /// Returns up to `limit` corpora whose names come after `after`, by name.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::list`].
    pub async fn list(
        &self,
        after: &str,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<CorpusEntry>, Error> {
        let Some(tenant) = self.caller.tenant() else {
            return self.all.list(after, limit, self.caller.access(), deadline).await;
        };
        // A tenant's corpora are consecutive, because their full names begin alike.
        let from = format!("{tenant}.{after}");
        let listed = self.all.list(&from, limit, self.caller.access(), deadline).await?.into_iter();
        let is_his = |listed: &CorpusEntry| listed.name().tenant() == Some(tenant.as_str());
        Ok(listed.take_while(is_his).collect())
    }

    /// Marks a snapshot of the caller's corpus as complete.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::finish_snapshot`].
    pub async fn finish_snapshot(
        &self,
        settings: &CorpusSettings,
        snapshot: &SnapshotName,
        digests: Vec<String>,
        deadline: Instant,
    ) -> Result<SnapshotSummary, Error> {
        self.all.finish_snapshot(settings, snapshot, digests, deadline).await
    }

    /// Returns the complete snapshots of a corpus, which may have been deleted.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::snapshots`].
    pub async fn snapshots(
        &self,
        name: &CorpusName,
        deadline: Instant,
    ) -> Result<Vec<SnapshotSummary>, Error> {
        self.all.snapshots(&self.caller.corpus(name)?, deadline).await
    }

    /// Performs the next step of deleting a snapshot of the caller's corpus.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::delete_snapshot`], with [`ErrorKind::NotFound`] also for
    /// corpora of other tenants.
    pub async fn delete_snapshot(
        &self,
        deletion: &SnapshotDeletion,
        deadline: Instant,
    ) -> Result<DeletionStep, Error> {
        let corpus = self.caller.corpus(&deletion.corpus)?;
        self.all.delete_snapshot(&SnapshotDeletion { corpus, ..deletion.clone() }, deadline).await
    }

    /// Performs the next step of restoring a corpus, under the caller's name for it.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::restore`].
    pub async fn restore(
        &self,
        asked: &Restoration,
        deadline: Instant,
    ) -> Result<RestoreStep, Error> {
        let asked = Restoration { corpus: self.caller.corpus(&asked.corpus)?, ..asked.clone() };
        self.all.restore(&asked, deadline).await
    }

    /// Keeps a report on a part of a run of the caller's corpus.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::report_run`], with [`ErrorKind::NotFound`] also for corpora
    /// of other tenants.
    pub async fn report_run(
        &self,
        name: &CorpusName,
        run: &RunName,
        parts: u32,
        report: &PartReport,
        deadline: Instant,
    ) -> Result<RunPart, Error> {
        let full = self.caller.corpus(name)?;
        let kept = self.all.report_run(&full, run, parts, report, deadline).await;
        kept.map_err(|error| by_his_name(error, name))
    }

    /// Returns a run of the caller's corpus.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::run`], with [`ErrorKind::NotFound`] also for corpora of
    /// other tenants.
    pub async fn run(
        &self,
        name: &CorpusName,
        run: &RunName,
        deadline: Instant,
    ) -> Result<IngestRun, Error> {
        let found = self.all.run(&self.caller.corpus(name)?, run, deadline).await;
        found.map_err(|error| by_his_name(error, name))
    }

    /// Returns a page of the runs of the caller's corpus.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::runs`], with [`ErrorKind::NotFound`] also for corpora of
    /// other tenants.
    pub async fn runs(
        &self,
        name: &CorpusName,
        after: Option<&RunPlace>,
        limit: usize,
        deadline: Instant,
    ) -> Result<RunPage, Error> {
        let page = self.all.runs(&self.caller.corpus(name)?, after, limit, deadline).await;
        page.map_err(|error| by_his_name(error, name))
    }

    /// Deletes what is kept of a run of the caller's corpus.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::delete_run`], with [`ErrorKind::NotFound`] also for corpora
    /// of other tenants.
    pub async fn delete_run(
        &self,
        name: &CorpusName,
        run: &RunName,
        deadline: Instant,
    ) -> Result<(), Error> {
        let deleted = self.all.delete_run(&self.caller.corpus(name)?, run, deadline).await;
        deleted.map_err(|error| by_his_name(error, name))
    }

    /// Deletes a corpus and returns the number of its documents.
    ///
    /// # Errors
    /// Returns the errors of [`Corpora::delete`], with [`ErrorKind::NotFound`] also for corpora of
    /// other tenants. Returns [`ErrorKind::Denied`] if the corpus has documents with labels that
    /// the caller does not hold.
    pub async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error> {
        let full = self.caller.corpus(name)?;
        let deleting = async {
            self.check_deletes(&full, deadline).await?;
            self.all.delete(&full, deadline).await
        };
        deleting.await.map_err(|error| by_his_name(error, name))
    }

    /// Checks that the caller sees all documents of a corpus, because a deletion removes all of
    /// them.
    async fn check_deletes(&self, full: &CorpusName, deadline: Instant) -> Result<(), Error> {
        let access = self.caller.access();
        if access.is_all() {
            return Ok(());
        }
        let count = async |access| {
            let corpus = self.all.get(full, access, deadline).await?;
            Ok::<_, Error>(corpus.counts(deadline).await?.accepted)
        };
        if count(access).await? == count(&Access::all()).await? {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Denied,
            "LABEL_NOT_HELD",
            "the corpus holds documents that need labels which the caller does not hold; delete it with a key that \
             holds them",
        ))
    }
}

/// Names a missing corpus as the caller named it.
fn by_his_name(error: Error, name: &CorpusName) -> Error {
    match error.kind() {
        // The corpus exists, and its run does not.
        ErrorKind::NotFound if error.reason() == RUN_NOT_FOUND => error,
        ErrorKind::NotFound => Error::not_found("corpus", name),
        _ => error,
    }
}
