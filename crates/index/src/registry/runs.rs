//! Runs of ingestion that a corpus keeps, in files beside its shards.
//!
//! A run is a folder in `runs` with a small file for each part, so that parts that report at the
//! same time do not wait for each other, and the file `run.json` for what is the same for all. A
//! run exists as long as it has `run.json`. A part belongs to the run whose id it names. So what an
//! interrupted deletion left does not get into a later run of the same name.
//!
//! The files hold no text, id or key of a document. They go with the corpus. Snapshots do not have
//! them.

mod record;

use clew_core::{
    CorpusName, IngestRun, PartReport, RunEntry, RunName, RunPage, RunPart, RunPlace, Timestamp,
};
use futures::{StreamExt, TryStreamExt};

pub use self::record::Reported;
use self::record::{PartRecord, RunRecord, from_bytes, to_bytes};
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::storage::objects::PARALLEL;
use crate::storage::unique::unique;

/// Name of the folder, beside the shards of a corpus, that holds its runs.
const RUNS: &str = "runs";
/// File of what is the same for all parts of a run.
const RUN: &str = "run.json";
/// Beginning and end of the name of a part's file; the number of the part is between them.
const PART: (&str, &str) = ("part-", ".json");
/// Maximum number of runs of a corpus.
const MOST_RUNS: usize = 1000;
/// Number of parts after which a page of a list ends.
const PARTS_OF_PAGE: u32 = 4096;
/// Number of runs of a page that are read at once, each with several parts at once.
const RUNS_AT_ONCE: usize = 4;
/// Number of times that a report is tried again because others report of the same part.
const TRIES: usize = 5;

const READING: &str = "read the run";
const REPORTING: &str = "keep the report of the run";
const LISTING: &str = "list the runs";
const DELETING: &str = "delete the run";

/// Runs of one corpus.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    corpus: CorpusName,
    place: Storage,
}

impl Runs {
    /// Returns the runs of the corpus whose shards are in `place`.
    pub fn of(corpus: &CorpusName, place: &Storage) -> Self {
        Self { corpus: corpus.clone(), place: place.join(RUNS) }
    }

    fn place(&self, run: &RunName) -> Storage {
        self.place.join(run.as_str())
    }

    /// Keeps a report; see [`super::Registry::report_run`].
    pub async fn report(
        &self,
        name: &RunName,
        parts: u32,
        report: &PartReport,
        now: Timestamp,
    ) -> Result<Reported> {
        let run = match self.record(name).await? {
            Some(run) => run,
            None => self.create(name, parts, now).await?,
        };
        if run.parts != parts {
            return Err(Error::RunDiffers { name: name.clone(), parts: run.parts, asked: parts });
        }
        let (place, file) = (self.place(name), file_of(report.part));
        for _ in 0..TRIES {
            let stored = place.get_file(&file, None, REPORTING).await?;
            let before = stored.as_ref().map(|bytes| part_from(bytes, name, report.part));
            let before = match before.transpose() {
                Ok(before) => before.filter(|before| before.run == run.id),
                // The report takes the place of what cannot be read.
                Err(Error::Corrupt { .. }) => None,
                Err(error) => return Err(error),
            };
            let Some(after) = PartRecord::after(before.as_ref(), &run, report, now) else {
                let kept = before.expect("only a record makes a report late");
                return Ok(Reported::nothing(kept));
            };
            let bytes = to_bytes(&after, REPORTING)?;
            let is_written = match &stored {
                Some(stored) => place.replace_file(&file, stored, bytes, REPORTING).await?,
                None => place.put_new_file(&file, bytes, REPORTING).await?,
            };
            if is_written {
                return Ok(Reported::between(before.as_ref(), after));
            }
        }
        let source = "others report of the same part at the same time".into();
        Err(Error::Unavailable { doing: REPORTING.to_owned(), source })
    }

    /// Creates a run, unless somebody else does so at the same time, and returns it.
    async fn create(&self, name: &RunName, parts: u32, now: Timestamp) -> Result<RunRecord> {
        self.make_room().await?;
        let place = self.place(name);
        // The folder of the corpus is not made: a corpus that was deleted meanwhile stays so.
        self.place.make_inside(REPORTING).await?;
        place.make_inside(REPORTING).await?;
        let run = RunRecord { id: unique(), parts, started_at: now };
        if place.put_new_file(RUN, to_bytes(&run, REPORTING)?, REPORTING).await? {
            return Ok(run);
        }
        self.record(name).await?.ok_or_else(|| {
            let source = "the run is being deleted at the same time".into();
            Error::Unavailable { doing: REPORTING.to_owned(), source }
        })
    }

    /// Deletes the oldest run that has ended, if there are as many runs as are kept.
    async fn make_room(&self) -> Result<()> {
        let names = self.names().await?;
        if names.len() < MOST_RUNS {
            return Ok(());
        }
        let read = |name: RunName| async move { (self.record(&name).await, name) };
        let read = futures::stream::iter(names).map(read).buffer_unordered(PARALLEL);
        let mut oldest_first: Vec<(RunRecord, RunName)> =
            read.filter_map(|(run, name)| async move { Some((run.ok()??, name)) }).collect().await;
        oldest_first.sort_by_key(|(run, _)| run.started_at);
        let look = |(run, name): (RunRecord, RunName)| async move {
            (self.has_ended(&name, &run).await, name)
        };
        let looks = futures::stream::iter(oldest_first).map(look).buffered(RUNS_AT_ONCE);
        let mut looks = std::pin::pin!(looks);
        // A run that cannot be read stays for a person to look at.
        while let Some((has_ended, name)) = looks.next().await {
            if has_ended.unwrap_or(false) {
                return match self.delete(&name).await {
                    Err(Error::RunNotFound(_)) => Ok(()),
                    deleted => deleted,
                };
            }
        }
        Err(Error::RunsFull(MOST_RUNS))
    }

    async fn has_ended(&self, name: &RunName, run: &RunRecord) -> Result<bool> {
        if self.files(name).await?.len() < run.parts as usize {
            return Ok(false);
        }
        Ok(self.with_parts(name, run).await?.ended_at().is_some())
    }

    /// Returns a run; see [`super::Registry::run`].
    pub async fn read(&self, name: &RunName) -> Result<IngestRun> {
        let run = self.record(name).await?.ok_or_else(|| Error::RunNotFound(name.clone()))?;
        self.with_parts(name, &run).await
    }

    /// Returns a page of runs; see [`super::Registry::runs`].
    pub async fn list(&self, after: Option<&RunPlace>, limit: usize) -> Result<RunPage> {
        let read = |name: RunName| async move {
            let run = self.record(&name).await;
            let started_at = run.as_ref().ok().and_then(|run| Some(run.as_ref()?.started_at));
            (RunPlace::new(name, started_at), run)
        };
        let names = futures::stream::iter(self.names().await?);
        let mut found: Vec<_> = names.map(read).buffer_unordered(PARALLEL).collect().await;
        found.retain(|(place, _)| after.is_none_or(|after| place > after));
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        let (mut page, mut parts, mut has_more) = (Vec::new(), 0, false);
        for (place, run) in found {
            // Without the file, the folder is that of a run that is being made or deleted.
            let Some(run) = run.transpose() else { continue };
            parts += run.as_ref().map_or(0, |run| run.parts);
            has_more = page.len() == limit || (parts > PARTS_OF_PAGE && !page.is_empty());
            if has_more {
                break;
            }
            page.push((place.name, run));
        }
        let entry = |(name, run)| async move { self.entry(name, run).await };
        let entries = futures::stream::iter(page).map(entry).buffered(RUNS_AT_ONCE);
        Ok(RunPage { runs: entries.try_collect().await?, has_more })
    }

    async fn entry(&self, name: RunName, run: Result<RunRecord>) -> Result<RunEntry> {
        let started_at = run.as_ref().ok().map(|run| run.started_at);
        let run = match run {
            Ok(run) => self.with_parts(&name, &run).await,
            Err(error) => Err(error),
        };
        match run {
            Ok(run) => Ok(RunEntry::Readable(run.summary())),
            Err(error @ (Error::Corrupt { .. } | Error::NewerFormat { .. })) => {
                let error = clew_core::Error::from(error);
                tracing::error!(
                    corpus = %self.corpus, run = %name, error = error.chain(),
                    "the run cannot be read; others can"
                );
                let (reason, message) = (error.reason().to_owned(), error.message().to_owned());
                Ok(RunEntry::Unreadable { name, started_at, reason, message })
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes a run; see [`super::Registry::delete_run`].
    pub async fn delete(&self, name: &RunName) -> Result<()> {
        let place = self.place(name);
        let files = place.names(DELETING).await?;
        let was_there = files.iter().any(|file| file == RUN);
        if was_there {
            // From then on the run does not exist, also after a crash.
            place.remove_file(RUN, DELETING).await?;
        }
        if !files.is_empty() {
            place.remove_files(files, DELETING).await?;
        }
        place.remove_empty_folders(DELETING).await?;
        if was_there { Ok(()) } else { Err(Error::RunNotFound(name.clone())) }
    }

    /// Returns the names of the folders that may be runs.
    async fn names(&self) -> Result<Vec<RunName>> {
        let names = self.place.names(LISTING).await?;
        // Entries that are no name of a run are not ours.
        Ok(names.into_iter().filter_map(|name| name.parse().ok()).collect())
    }

    async fn record(&self, name: &RunName) -> Result<Option<RunRecord>> {
        let stored = self.place(name).get_file(RUN, None, READING).await?;
        stored.map(|bytes| from_bytes(&bytes, || format!("run `{name}`"))).transpose()
    }

    /// Returns the numbers of the parts that have a file.
    async fn files(&self, name: &RunName) -> Result<Vec<u32>> {
        let files = self.place(name).names(READING).await?;
        let part = |file: String| file.strip_prefix(PART.0)?.strip_suffix(PART.1)?.parse().ok();
        Ok(files.into_iter().filter_map(part).collect())
    }

    async fn with_parts(&self, name: &RunName, run: &RunRecord) -> Result<IngestRun> {
        let place = self.place(name);
        let read = |part| {
            let place = place.clone();
            async move {
                let stored = place.get_file(&file_of(part), None, READING).await?;
                stored.map(|bytes| part_from(&bytes, name, part)).transpose()
            }
        };
        let files = futures::stream::iter(self.files(name).await?);
        let records: Vec<Option<PartRecord>> =
            files.map(read).buffer_unordered(PARALLEL).try_collect().await?;
        let of_run = records.into_iter().flatten().filter(|part| part.run == run.id);
        let mut reported: Vec<RunPart> = of_run.map(|record| record.part).collect();
        reported.sort_by_key(|part| part.report.part);
        let RunRecord { parts, started_at, .. } = *run;
        Ok(IngestRun { name: name.clone(), parts, started_at, reported })
    }
}

fn file_of(part: u32) -> String {
    format!("{}{part}{}", PART.0, PART.1)
}

fn part_from(bytes: &[u8], run: &RunName, part: u32) -> Result<PartRecord> {
    from_bytes(bytes, || format!("part {part} of run `{run}`"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Arc;

    use clew_core::{PartStage, RunCounts};
    use object_store::ObjectStore;
    use object_store::memory::InMemory;
    use tempfile::TempDir;

    use super::*;
    use crate::registry::Registry;
    use crate::registry::fixture::settings;

    const SENDING: PartStage = PartStage::Sending;
    const ACCEPTED: PartStage = PartStage::Accepted;

    /// A corpus in a registry of each kind.
    struct Corpus {
        registry: Registry,
        name: CorpusName,
        /// Place of its shards.
        place: Storage,
        _folder: Option<TempDir>,
    }

    async fn corpus_in(place: Storage, folder: Option<TempDir>) -> Corpus {
        let registry = Registry::open_place(&place).await.unwrap();
        let settings = settings("notes", 1);
        registry.create(&settings).await.unwrap();
        let place = registry.corpus_place(&settings);
        Corpus { registry, name: settings.name, place, _folder: folder }
    }

    async fn in_folder() -> Corpus {
        let folder = tempfile::tempdir().unwrap();
        corpus_in(Storage::from(folder.path()), Some(folder)).await
    }

    async fn in_store() -> Corpus {
        let store = Arc::new(InMemory::new()) as Arc<dyn ObjectStore>;
        corpus_in(Storage::in_store(store, "data"), None).await
    }

    async fn of_both_kinds() -> [Corpus; 2] {
        [in_folder().await, in_store().await]
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn named(name: &str) -> RunName {
        name.parse().unwrap()
    }

    fn report(part: u32, stage: PartStage, sent: u64) -> PartReport {
        PartReport {
            part,
            attempt: 7,
            stage,
            listed_all: true,
            counts: RunCounts { sent, ..RunCounts::default() },
            problem: String::new(),
        }
    }

    impl Corpus {
        async fn report(
            &self,
            run: &str,
            parts: u32,
            report: PartReport,
            second: i64,
        ) -> Result<Reported> {
            let now = at(second);
            self.registry.report_run(&self.name, &named(run), parts, &report, now).await
        }

        async fn run(&self, run: &str) -> Result<IngestRun> {
            self.registry.run(&self.name, &named(run)).await
        }

        async fn delete(&self, run: &str) -> Result<()> {
            self.registry.delete_run(&self.name, &named(run)).await
        }

        async fn page(&self, after: Option<&RunPlace>, limit: usize) -> RunPage {
            self.registry.runs(&self.name, after, limit).await.unwrap()
        }

        /// Returns the names of all runs, read in pages.
        async fn names(&self, page: usize) -> Vec<String> {
            let (mut names, mut after) = (Vec::new(), None);
            loop {
                let RunPage { runs, has_more } = self.page(after.as_ref(), page).await;
                names.extend(runs.iter().map(|run| run.place().name.to_string()));
                if !has_more {
                    return names;
                }
                after = runs.last().map(RunEntry::place);
            }
        }

        fn file(&self, run: &str, file: &str) -> (Storage, String) {
            (self.place.join(RUNS).join(run), file.to_owned())
        }

        async fn overwrite(&self, run: &str, file: &str, change: impl FnOnce(String) -> String) {
            let (place, file) = self.file(run, file);
            let before = place.get_file(&file, None, "test").await.unwrap().unwrap();
            let after = change(String::from_utf8(before.to_vec()).unwrap());
            place.put_file(&file, after.into(), "test").await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_run_is_made_by_its_first_report_and_each_part_is_as_its_newest_says() {
        for corpus in of_both_kinds().await {
            assert!(matches!(corpus.run("a").await, Err(Error::RunNotFound(_))));
            let first = corpus.report("a", 2, report(1, SENDING, 3), 10).await.unwrap();
            assert_eq!((first.entered, first.added.sent), (Some(SENDING), 3));
            let second = corpus.report("a", 2, report(1, ACCEPTED, 5), 20).await.unwrap();
            assert_eq!((second.entered, second.added.sent), (Some(ACCEPTED), 2));
            let late = corpus.report("a", 2, report(1, SENDING, 4), 30).await.unwrap();
            assert_eq!((late.part, late.entered), (second.part.clone(), None));
            corpus.report("a", 2, report(0, SENDING, 1), 40).await.unwrap();
            let run = corpus.run("a").await.unwrap();
            assert_eq!((run.parts, run.started_at, run.ended_at()), (2, at(10), None));
            assert_eq!(run.reported.len(), 2);
            assert_eq!(run.reported[0].report, report(0, SENDING, 1));
            assert_eq!(run.reported[1], second.part);
        }
    }

    #[tokio::test]
    async fn another_number_of_parts_is_another_run_and_refused() {
        for corpus in of_both_kinds().await {
            corpus.report("a", 2, report(0, SENDING, 1), 1).await.unwrap();
            let refused = corpus.report("a", 3, report(2, SENDING, 1), 2).await.unwrap_err();
            assert!(matches!(refused, Error::RunDiffers { parts: 2, asked: 3, .. }), "{refused:?}");
            assert_eq!(corpus.run("a").await.unwrap().reported.len(), 1);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn parts_that_report_at_the_same_time_are_all_kept() {
        for corpus in of_both_kinds().await {
            let reports = (0..64).map(|n| corpus.report("a", 32, report(n % 32, SENDING, 1), 1));
            let reported = futures::future::try_join_all(reports).await.unwrap();
            assert_eq!(reported.len(), 64);
            let run = corpus.run("a").await.unwrap();
            let parts: Vec<u32> = run.reported.iter().map(|part| part.report.part).collect();
            assert_eq!(parts, (0..32).collect::<Vec<_>>());
            assert_eq!(run.counts().sent, 32);
        }
    }

    #[tokio::test]
    async fn a_deleted_run_is_gone_and_leaves_nothing_to_a_later_one() {
        for corpus in of_both_kinds().await {
            corpus.report("a", 2, report(0, ACCEPTED, 1), 1).await.unwrap();
            corpus.report("a", 2, report(1, ACCEPTED, 1), 1).await.unwrap();
            // What a deletion leaves that is interrupted after its first step.
            let (place, file) = corpus.file("a", RUN);
            place.remove_file(&file, "test").await.unwrap();
            assert!(matches!(corpus.run("a").await, Err(Error::RunNotFound(_))));
            assert!(corpus.names(10).await.is_empty());
            corpus.report("a", 3, report(0, SENDING, 4), 5).await.unwrap();
            let run = corpus.run("a").await.unwrap();
            assert_eq!((run.parts, run.started_at, run.counts().sent), (3, at(5), 4));
            assert_eq!((run.reported.len(), run.reported[0].attempts), (1, 1));
            corpus.delete("a").await.unwrap();
            assert!(matches!(corpus.delete("a").await, Err(Error::RunNotFound(_))));
            assert!(place.names("test").await.unwrap().is_empty());
        }
    }

    #[tokio::test]
    async fn runs_go_with_their_corpus_and_do_not_bring_it_back() {
        for corpus in of_both_kinds().await {
            corpus.report("a", 1, report(0, SENDING, 1), 1).await.unwrap();
            let runs = Runs::of(&corpus.name, &corpus.place);
            corpus.registry.delete(&corpus.name).await.unwrap();
            let gone = corpus.report("a", 1, report(0, SENDING, 2), 2).await;
            assert!(matches!(gone, Err(Error::CorpusNotFound(_))), "{gone:?}");
            assert!(matches!(corpus.run("a").await, Err(Error::CorpusNotFound(_))));
            // A report whose corpus is deleted after it was looked up.
            drop(runs.report(&named("b"), 1, &report(0, SENDING, 1), at(3)).await);
            assert!(corpus.registry.list().await.unwrap().is_empty());
            corpus.registry.create(&settings("notes", 2)).await.unwrap();
            assert!(corpus.names(10).await.is_empty());
        }
    }

    #[tokio::test]
    async fn the_newest_runs_come_first_in_pages_of_any_size() {
        for corpus in of_both_kinds().await {
            for (name, second) in [("b", 2), ("d", 1), ("a", 2), ("c", 3)] {
                corpus.report(name, 1, report(0, SENDING, 7), second).await.unwrap();
            }
            for size in 1..=5 {
                assert_eq!(corpus.names(size).await, ["c", "a", "b", "d"]);
            }
            let RunEntry::Readable(run) = &corpus.page(None, 1).await.runs[0] else { panic!() };
            assert_eq!((run.counts.sent, run.started_at, run.ended_parts), (7, at(3), 0));
        }
    }

    #[tokio::test]
    async fn a_page_ends_early_if_its_runs_have_many_parts() {
        let corpus = in_store().await;
        for (name, parts) in [("a", 1), ("b", PARTS_OF_PAGE), ("c", 1), ("d", PARTS_OF_PAGE + 1)] {
            corpus.report(name, parts, report(0, SENDING, 1), 1).await.unwrap();
        }
        assert_eq!(corpus.page(None, 10).await.runs.len(), 1);
        assert_eq!(corpus.names(10).await, ["a", "b", "c", "d"]);
    }

    #[tokio::test]
    async fn a_damaged_or_newer_file_is_named_and_other_runs_go_on() {
        for corpus in of_both_kinds().await {
            for name in ["a", "b", "c", "d"] {
                corpus.report(name, 1, report(0, SENDING, 1), 1).await.unwrap();
            }
            let newer = |text: String| text.replace("\"format\": 1", "\"format\": 9");
            corpus.overwrite("a", "part-0.json", |_| "{".to_owned()).await;
            corpus.overwrite("b", RUN, |_| String::new()).await;
            corpus.overwrite("c", "part-0.json", newer).await;
            let reason = |error: Error| clew_core::Error::from(error).reason().to_owned();
            let told = |error: &Error| error.to_string();
            let error = corpus.run("a").await.unwrap_err();
            assert!(told(&error).starts_with("part 0 of run `a` cannot"), "{error}");
            assert_eq!(reason(error), "DATA_LOSS");
            let error = corpus.run("b").await.unwrap_err();
            assert!(told(&error).starts_with("run `b` cannot"), "{error}");
            assert_eq!(reason(corpus.run("c").await.unwrap_err()), "NEWER_FORMAT");
            assert!(corpus.run("d").await.is_ok());
            // In a list, a run of unknown age is the last.
            let listed = corpus.page(None, 10).await.runs;
            let reasons = listed.iter().map(|entry| match entry {
                RunEntry::Readable(run) => (run.name.to_string(), String::new()),
                RunEntry::Unreadable { name, reason, .. } => (name.to_string(), reason.clone()),
            });
            let reasons: Vec<(String, String)> = reasons.collect();
            let expected =
                [("a", "DATA_LOSS"), ("c", "NEWER_FORMAT"), ("d", ""), ("b", "DATA_LOSS")];
            let expected = expected.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
            assert_eq!(reasons, expected);
            for size in 1..=5 {
                assert_eq!(corpus.names(size).await, ["a", "c", "d", "b"]);
            }
            // A report heals its part, unless it was written by a newer release.
            corpus.report("a", 1, report(0, SENDING, 2), 2).await.unwrap();
            assert_eq!(corpus.run("a").await.unwrap().counts().sent, 2);
            let error = corpus.report("c", 1, report(0, SENDING, 2), 2).await.unwrap_err();
            assert_eq!(reason(error), "NEWER_FORMAT");
            corpus.delete("b").await.unwrap();
            assert!(matches!(corpus.run("b").await, Err(Error::RunNotFound(_))));
        }
    }

    #[tokio::test]
    async fn the_oldest_run_that_has_ended_makes_room_and_no_other() {
        let corpus = in_store().await;
        let most = i64::try_from(MOST_RUNS).unwrap();
        for n in 0..most {
            corpus.report(&format!("r{n}"), 1, report(0, SENDING, 1), n).await.unwrap();
        }
        let full = corpus.report("one-more", 1, report(0, SENDING, 1), most).await.unwrap_err();
        assert!(matches!(full, Error::RunsFull(MOST_RUNS)), "{full:?}");
        // Runs that are there are still reported of.
        for n in [5, 3] {
            corpus.report(&format!("r{n}"), 1, report(0, ACCEPTED, 1), most).await.unwrap();
        }
        let before: BTreeSet<String> = corpus.names(500).await.into_iter().collect();
        corpus.report("one-more", 1, report(0, SENDING, 1), most).await.unwrap();
        let after: BTreeSet<String> = corpus.names(500).await.into_iter().collect();
        assert_eq!(after.len(), MOST_RUNS);
        let gone: Vec<_> = before.difference(&after).collect();
        assert_eq!(gone, ["r3"]);
    }

    #[tokio::test]
    async fn what_is_not_of_a_run_is_passed_over() {
        let corpus = in_folder().await;
        corpus.report("a", 1, report(0, SENDING, 1), 1).await.unwrap();
        let folder = corpus.place.folder().map(Path::to_owned).unwrap().join(RUNS);
        std::fs::create_dir(folder.join("Not a name")).unwrap();
        std::fs::create_dir(folder.join("being-made")).unwrap();
        // A report that was killed while it was written.
        std::fs::write(folder.join("a/part-0.new-1-2-3"), "{").unwrap();
        std::fs::write(folder.join("a/part-x.json"), "{").unwrap();
        assert_eq!(corpus.names(10).await, ["a"]);
        assert_eq!(corpus.run("a").await.unwrap().reported.len(), 1);
        corpus.delete("a").await.unwrap();
        assert!(!folder.join("a").exists());
    }
}
