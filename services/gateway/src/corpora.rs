//! The corpora as their callers see them: a tenant reaches his own, by the names he gave them.

use std::sync::Arc;
use std::time::Instant;

use clew_auth::Caller;
use clew_core::{
    Access, Corpora, Corpus, CorpusName, CorpusSettings, DeletionStep, Error, ErrorKind, Listed,
    Restoration, RestoreStep, SnapshotDeletion, SnapshotName, SnapshotSummary,
};

/// How often a corpus is looked up anew that others change at the same time.
const LOOKS: usize = 4;

/// The corpora of all tenants.
#[derive(Clone)]
pub struct AllCorpora(Arc<dyn Corpora>);

impl AllCorpora {
    /// Those that are there.
    pub fn new(corpora: Arc<dyn Corpora>) -> Self {
        Self(corpora)
    }

    /// Those that `caller` reaches. Every handler goes this way, whoever calls.
    pub fn of<'a>(&'a self, caller: &'a Caller) -> CallersCorpora<'a> {
        CallersCorpora { all: self.0.as_ref(), caller }
    }
}

/// The corpora of one caller, by his names.
pub struct CallersCorpora<'a> {
    all: &'a dyn Corpora,
    caller: &'a Caller,
}

impl CallersCorpora<'_> {
    /// Makes a corpus.
    ///
    /// # Errors
    /// Those of [`Corpora::create`].
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

    /// The corpus of that name.
    ///
    /// # Errors
    /// Those of [`Corpora::get`]; [`ErrorKind::NotFound`] also for what another tenant has.
    pub async fn get(&self, name: &CorpusName, deadline: Instant) -> Result<Arc<Corpus>, Error> {
        let found = self.all.get(&self.caller.corpus(name)?, self.caller.access(), deadline).await;
        found.map_err(|error| by_his_name(error, name))
    }

    /// The corpus of that name with the settings that it has at this moment; what [`Self::get`] tells may be some
    /// seconds old.
    ///
    /// # Errors
    /// As [`Self::get`]; [`ErrorKind::LostRace`] if others change it again and again.
    pub async fn newest(&self, name: &CorpusName, deadline: Instant) -> Result<Arc<Corpus>, Error> {
        let mut looks = 1..=LOOKS;
        loop {
            let corpus = self.get(name, deadline).await?;
            let settings = corpus.settings();
            // Refused if they are not those of the corpus any more, which is noticed for the next look.
            match self.change(name, settings, settings, deadline).await {
                Err(error) if error.kind() == ErrorKind::LostRace && looks.next().is_some() => {}
                same => return same.map(|()| corpus),
            }
        }
    }

    /// Changes settings of the corpus of that name, which are `from`, to `to`.
    ///
    /// # Errors
    /// Those of [`Corpora::change`].
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

    /// Up to `limit` corpora whose names come after `after`, by name.
    ///
    /// # Errors
    /// Those of [`Corpora::list`].
    pub async fn list(
        &self,
        after: &str,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<Listed>, Error> {
        let Some(tenant) = self.caller.tenant() else {
            return self.all.list(after, limit, self.caller.access(), deadline).await;
        };
        // His are one after the other, since their names begin alike.
        let from = format!("{tenant}.{after}");
        let listed = self.all.list(&from, limit, self.caller.access(), deadline).await?.into_iter();
        let is_his = |listed: &Listed| listed.name().tenant() == Some(tenant.as_str());
        Ok(listed.take_while(is_his).collect())
    }

    /// Makes a snapshot of a corpus of his whole.
    ///
    /// # Errors
    /// Those of [`Corpora::finish_snapshot`].
    pub async fn finish_snapshot(
        &self,
        settings: &CorpusSettings,
        snapshot: &SnapshotName,
        digests: Vec<String>,
        deadline: Instant,
    ) -> Result<SnapshotSummary, Error> {
        self.all.finish_snapshot(settings, snapshot, digests, deadline).await
    }

    /// The whole snapshots of a corpus, also of one that is gone.
    ///
    /// # Errors
    /// Those of [`Corpora::snapshots`].
    pub async fn snapshots(
        &self,
        name: &CorpusName,
        deadline: Instant,
    ) -> Result<Vec<SnapshotSummary>, Error> {
        self.all.snapshots(&self.caller.corpus(name)?, deadline).await
    }

    /// Goes on deleting a snapshot of a corpus that is his by name.
    ///
    /// # Errors
    /// Those of [`Corpora::delete_snapshot`]; [`ErrorKind::NotFound`] also for what another tenant has.
    pub async fn delete_snapshot(
        &self,
        deletion: &SnapshotDeletion,
        deadline: Instant,
    ) -> Result<DeletionStep, Error> {
        let corpus = self.caller.corpus(&deletion.corpus)?;
        self.all.delete_snapshot(&SnapshotDeletion { corpus, ..deletion.clone() }, deadline).await
    }

    /// Goes on restoring a corpus, which gets his name for it.
    ///
    /// # Errors
    /// Those of [`Corpora::restore`].
    pub async fn restore(
        &self,
        asked: &Restoration,
        deadline: Instant,
    ) -> Result<RestoreStep, Error> {
        let asked = Restoration { corpus: self.caller.corpus(&asked.corpus)?, ..asked.clone() };
        self.all.restore(&asked, deadline).await
    }

    /// Deletes a corpus; returns how many documents went with it.
    ///
    /// # Errors
    /// Those of [`Corpora::delete`]; [`ErrorKind::NotFound`] also for what another tenant has;
    /// [`ErrorKind::Denied`] if it holds what needs labels that the caller does not hold.
    pub async fn delete(&self, name: &CorpusName, deadline: Instant) -> Result<u64, Error> {
        let full = self.caller.corpus(name)?;
        let deleting = async {
            self.check_deletes(&full, deadline).await?;
            self.all.delete(&full, deadline).await
        };
        deleting.await.map_err(|error| by_his_name(error, name))
    }

    /// A corpus is deleted with all that it holds, so that whoever does not hold all labels must see all of it.
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

/// What is not there is called as the caller called it.
fn by_his_name(error: Error, name: &CorpusName) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::not_found("corpus", name),
        _ => error,
    }
}
