//! Reads files and sends their documents.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clew_client::Client;
use clew_core::{CorpusName, Document, DocumentId, IfThere};
use clew_formats::{FoundFile, Options, Unreadable};
use futures::future::try_join_all;
use futures::{StreamExt, stream};
use tokio::sync::mpsc;

use super::report::{DocumentResult, IngestReport};
use super::reporter::RunReporter;
use super::source::{FileMark, KnownSource};
use super::stream::SendingStream;
use crate::progress::Progress;

/// Number of documents that are read ahead for a stream.
const READ_AHEAD: usize = 16;
/// Number of objects that are fetched from buckets at the same time.
const FETCHES: usize = 16;
/// Number of fates that may wait for the report.
const FATES: usize = 256;

/// Options for sending documents.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Number of streams.
    pub streams: u8,
    /// Treatment of a document whose id is taken.
    pub if_there: IfThere,
}

/// Sender of the documents of files.
pub struct Sender<'a> {
    /// Client of the server.
    pub client: Client,
    /// Corpus that takes them.
    pub corpus: CorpusName,
    /// Options for reading files.
    pub options: Options,
    /// Options for sending.
    pub sending: Sending,
    /// Source that they come from, if it has a name.
    pub source: Option<Arc<KnownSource>>,
    /// What became of each document.
    pub report: &'a mut IngestReport,
    /// Reporter of the run, if it has a name.
    pub run: Option<&'a mut RunReporter>,
}

/// What was read of files that were sent together.
#[derive(Default)]
struct WhatWasRead {
    /// The first document of a file that holds many. It is sent last.
    first: Option<Document>,
    /// Hashes of the ids of all documents, if there is a mark.
    ids: HashSet<u64>,
    /// Number of documents that could not be read.
    unreadable: u64,
}

impl Sender<'_> {
    /// Sends the documents of `files`, until the server has answered for each. Returns the
    /// documents that have gone from files that hold many and have changed, if the source has a
    /// name.
    ///
    /// # Errors
    /// Returns the errors of [`SendingStream::run`], and of the report.
    pub async fn send(&mut self, files: Vec<FoundFile>) -> anyhow::Result<Vec<DocumentId>> {
        let mut progress = Progress::new("accepted");
        let total = files.len() as u64;
        let mut gone = Vec::new();
        match self.source.clone() {
            None => {
                self.send_marked(files, Marking::None, total, &mut progress).await?;
            }
            Some(source) => {
                let (tables, texts): (Vec<_>, Vec<_>) =
                    files.into_iter().partition(|found| found.format.has_rows());
                let each = Marking::Each(Arc::clone(&source));
                self.send_marked(texts, each, total, &mut progress).await?;
                for table in tables {
                    gone.extend(self.send_table(&source, table, total, &mut progress).await?);
                }
            }
        }
        progress.finish();
        Ok(gone)
    }

    /// Sends the documents of a file that holds many, and at last the first one with the state of
    /// the file. Returns the documents that are no longer in it.
    async fn send_table(
        &mut self,
        source: &KnownSource,
        table: FoundFile,
        total: u64,
        progress: &mut Progress,
    ) -> anyhow::Result<Vec<DocumentId>> {
        let (mark, key) = (source.mark(&table)?, table.source.name().to_owned());
        let is_divided = table.source.part() != clew_formats::SourcePart::WHOLE;
        let refused_before = self.report.summary.refused;
        let marking = Marking::Table(mark.clone());
        let read = self.send_marked(vec![table], marking, total, progress).await?;
        let refused = self.report.summary.refused - refused_before + read.unreadable;
        if let Some(mut first) = read.first {
            mark.complete(&mut first, refused)?;
            self.send_one(first, total, progress).await?;
        }
        // Another part, or a row that cannot be read, may have what seems to be gone.
        if is_divided || read.unreadable > 0 {
            return Ok(Vec::new());
        }
        let known = source.documents_in(&key).await?;
        Ok(known.into_iter().filter(|id| !read.ids.contains(&hash_of(id))).collect())
    }

    async fn send_one(
        &mut self,
        document: Document,
        total: u64,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let (queue, source) = mpsc::channel(1);
        queue.send(document).await.context("the queue has room for one")?;
        drop(queue);
        let (fates, told) = mpsc::channel(FATES);
        let Sending { if_there, .. } = self.sending;
        let (client, corpus) = (self.client.clone(), self.corpus.clone());
        let sending = SendingStream::new(client, corpus, if_there, fates).run(source);
        let (sent, told) = futures::join!(sending, self.tell(told, total, progress));
        told.and(sent)
    }

    async fn send_marked(
        &mut self,
        files: Vec<FoundFile>,
        marking: Marking,
        total: u64,
        progress: &mut Progress,
    ) -> anyhow::Result<WhatWasRead> {
        let (fates, told) = mpsc::channel(FATES);
        let (queues, sources): (Vec<_>, Vec<_>) =
            (0..self.sending.streams.max(1)).map(|_| mpsc::channel(READ_AHEAD)).unzip();
        let (fetched, to_read) = mpsc::channel(1);
        let reading = {
            let (fates, options) = (fates.clone(), self.options.clone());
            let sent = Arc::clone(&self.report.sent);
            tokio::task::spawn_blocking(move || {
                Reading { options, marking, queues, fates, sent }.read(to_read)
            })
        };
        let fetching = fetch(files, fetched);
        let Sending { if_there, .. } = self.sending;
        let sending = try_join_all(sources.into_iter().map(|source| {
            let (client, corpus) = (self.client.clone(), self.corpus.clone());
            SendingStream::new(client, corpus, if_there, fates.clone()).run(source)
        }));
        drop(fates);
        // If one stream fails, dropping the others ends the reading and the reporting.
        let telling = self.tell(told, total, progress);
        let ((), sent, told) = futures::join!(fetching, sending, telling);
        let read = reading.await.context("reading files panicked")?;
        told.and(sent.map(drop))?;
        read
    }

    /// Notes what became of documents, until all are answered.
    async fn tell(
        &mut self,
        mut fates: mpsc::Receiver<DocumentResult>,
        total: u64,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        while let Some(fate) = fates.recv().await {
            self.report.add(&fate).await?;
            let summary = &self.report.summary;
            let done = summary.accepted() + summary.unchanged;
            progress.set(done, total.max(done), &summary.taken());
            if let Some(run) = &mut self.run {
                run.tell_now_and_then(self.report.counts()).await;
            }
        }
        Ok(())
    }
}

/// Fetches objects, some at the same time, and hands all files on in their order.
async fn fetch(files: Vec<FoundFile>, fetched: mpsc::Sender<(FoundFile, Result<(), Unreadable>)>) {
    let fetches = stream::iter(files).map(async |found| {
        let listed = found.clone();
        match found.source.fetched().await {
            Ok(source) => (FoundFile { source, ..listed }, Ok(())),
            Err(problem) => (listed, Err(problem)),
        }
    });
    let mut fetches = pin!(fetches.buffered(FETCHES));
    while let Some(found) = fetches.next().await {
        if fetched.send(found).await.is_err() {
            return;
        }
    }
}

/// Which marks documents get.
enum Marking {
    /// None.
    None,
    /// Each is a whole file and gets the mark of its own.
    Each(Arc<KnownSource>),
    /// All come from one file. The first is held back.
    Table(FileMark),
}

/// Reading of files into the queues of streams, as fast as each stream takes them.
struct Reading {
    options: Options,
    marking: Marking,
    queues: Vec<mpsc::Sender<Document>>,
    fates: mpsc::Sender<DocumentResult>,
    /// Number of documents that were given to a stream.
    sent: Arc<AtomicU64>,
}

impl Reading {
    fn read(
        self,
        mut files: mpsc::Receiver<(FoundFile, Result<(), Unreadable>)>,
    ) -> anyhow::Result<WhatWasRead> {
        let mut read = WhatWasRead::default();
        while let Some((found, fetched)) = files.blocking_recv() {
            let mark = match &self.marking {
                Marking::None => None,
                Marking::Each(source) => Some(source.mark(&found)?),
                Marking::Table(mark) => Some(mark.clone()),
            };
            let name = found.source.name().to_owned();
            let documents: clew_formats::FileDocuments = match fetched {
                Ok(()) => clew_formats::read(found.source, found.format, &self.options),
                Err(problem) => Box::new(std::iter::once(Err(problem))),
            };
            for document in documents {
                let document = document.and_then(|document| marked(document, mark.as_ref(), &name));
                if !self.hand_on(document, &mut read) {
                    // A stream has failed, and its error says why.
                    return Ok(read);
                }
            }
        }
        Ok(read)
    }

    /// Returns whether the streams take more.
    fn hand_on(&self, document: Result<Document, Unreadable>, read: &mut WhatWasRead) -> bool {
        let document = match document {
            Ok(document) => document,
            Err(problem) => {
                read.unreadable += 1;
                return self.fates.blocking_send(unreadable(&problem)).is_ok();
            }
        };
        if let Marking::Table(_) = self.marking {
            read.ids.insert(hash_of(&document.id));
            if read.first.is_none() {
                read.first = Some(document);
                self.sent.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
        // Documents with the same id go through the same queue.
        let queue = hash_of(&document.id) % self.queues.len() as u64;
        let is_taken = self.queues[queue as usize].blocking_send(document).is_ok();
        self.sent.fetch_add(u64::from(is_taken), Ordering::Relaxed);
        is_taken
    }
}

fn marked(
    mut document: Document,
    mark: Option<&FileMark>,
    file: &str,
) -> Result<Document, Unreadable> {
    let Some(mark) = mark else { return Ok(document) };
    match mark.mark(&mut document) {
        Ok(()) => Ok(document),
        Err(problem) => {
            let place = clew_formats::FileLocation { file: file.to_owned(), row: None };
            Err(Unreadable { place, problem })
        }
    }
}

fn hash_of(id: &DocumentId) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Returns the fate of a document that cannot be read.
pub fn unreadable(problem: &Unreadable) -> DocumentResult {
    DocumentResult::Unreadable { place: problem.place.to_string(), problem: problem.to_string() }
}
