//! Named sources: what the corpus has of them already, and what they no longer have.
//!
//! Nothing is kept beside the documents. Each document of a source carries its name and the state
//! that the file had when it was read. A file that holds many documents has its state on the first
//! of them, which is sent once the server has answered for all others. So a process that dies
//! leaves a file without its state, and the next one reads it again.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use clew_client::Client;
use clew_core::{
    AttributeName, AttributeTest, AttributeValue, Condition, CorpusName, Document, DocumentId,
    Filter,
};
use clew_formats::{FileLocation, FoundFile, Options, Problem, SourcePart, Unreadable};
use clew_proto::convert::query::filter_to_wire;
use clew_proto::ingest::v1::{
    DocumentStage, DocumentState, ForgetDocumentsRequest, ListDocumentsRequest,
};

use crate::patience::patiently;
use crate::progress::Progress;

/// Attribute with the name of the source.
const SOURCE: &str = "source";
/// Attribute with the name of the file, for documents of a file that holds many.
const KEY: &str = "source_key";
/// Attribute with the state of the file that was read.
const STATE: &str = "source_state";
/// Attribute with the number of documents of a file that were refused or could not be read.
const REFUSED: &str = "source_refused";

/// Maximum length of the name of a source, in bytes.
const MOST_NAME_BYTES: usize = 200;
/// Number of files that one request asks about.
const ASKED_AT_ONCE: usize = 200;
/// Maximum number of bytes of their names.
const ASKED_BYTES: usize = 32 << 10;
/// Number of documents that one request lists, without and with their attributes.
const LISTED_AT_ONCE: u32 = 1000;
const DESCRIBED_AT_ONCE: u32 = 200;
/// Number of documents that one request forgets.
const FORGOTTEN_AT_ONCE: usize = 1000;
/// Number of documents that a preview names.
const NAMED: usize = 20;

/// Name of a source: 1 to 200 bytes without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceName(String);

impl FromStr for SourceName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name.is_empty() || name.len() > MOST_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(format!("expected 1 to {MOST_NAME_BYTES} bytes, no control characters"));
        }
        Ok(Self(name.to_owned()))
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Maximum share or number of the documents of a source that one run may forget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeleteAtMost {
    /// Percentage of all documents of the source.
    Percent(f64),
    /// Number of documents.
    Documents(u64),
}

impl DeleteAtMost {
    fn of(self, documents: u64) -> u64 {
        match self {
            Self::Percent(percent) => (documents as f64 * percent / 100.0).floor() as u64,
            Self::Documents(most) => most,
        }
    }
}

impl FromStr for DeleteAtMost {
    type Err = String;

    /// Parses a number, or a percentage such as `5%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.strip_suffix('%') {
            Some(percent) => percent
                .trim()
                .parse()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(Self::Percent),
            None => text.parse().ok().map(Self::Documents),
        };
        parsed.ok_or_else(|| format!("expected a number or a percentage up to 100%, got `{text}`"))
    }
}

impl fmt::Display for DeleteAtMost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Documents(most) => write!(f, "{most}"),
        }
    }
}

/// Result of comparing files with the documents of a corpus.
#[derive(Default)]
pub struct ComparedFiles {
    /// Files that are not in the corpus as they are.
    pub changed: Vec<FoundFile>,
    /// Number of the others.
    pub unchanged: u64,
    /// Files whose documents would replace documents of another source.
    pub problems: Vec<Unreadable>,
}

/// Documents that no longer have a file.
#[derive(Debug, Default)]
pub struct Vanished {
    /// Their ids.
    pub ids: Vec<DocumentId>,
    /// Number of all documents of the source.
    pub documents: u64,
}

/// A named source of a corpus.
#[derive(Clone)]
pub struct KnownSource {
    client: Client,
    corpus: CorpusName,
    name: SourceName,
    /// Short name of the options by which files are read: with others, the same file gives other
    /// documents.
    recipe: String,
}

impl KnownSource {
    /// Names the source of documents that are read from files with `options`.
    pub fn new(client: Client, corpus: CorpusName, name: SourceName, options: &Options) -> Self {
        let Options { columns, labels, attributes, .. } = options;
        let recipe = blake3::hash(format!("{columns:?} {labels:?} {attributes:?}").as_bytes());
        let recipe = recipe.to_hex().chars().take(8).collect();
        Self { client, corpus, name, recipe }
    }

    /// Compares files with what the corpus has of them. A document of the same id without a source
    /// is taken over.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ListDocuments`.
    pub async fn compare(&self, files: Vec<FoundFile>) -> anyhow::Result<ComparedFiles> {
        let mut compared = ComparedFiles::default();
        let mut progress = Progress::new("compared");
        let (total, mut done) = (files.len() as u64, 0);
        let mut files = files.into_iter().peekable();
        while files.peek().is_some() {
            let mut bytes = 0;
            let mut asked = Vec::new();
            while let Some(found) = files.next_if(|found| {
                asked.is_empty()
                    || (asked.len() < ASKED_AT_ONCE
                        && bytes + found.source.name().len() <= ASKED_BYTES)
            }) {
                bytes += found.source.name().len();
                asked.push(found);
            }
            done += asked.len() as u64;
            self.compare_some(asked, &mut compared).await?;
            progress.set(done, total, &format!("files, {} changed", compared.changed.len()));
        }
        progress.finish();
        Ok(compared)
    }

    async fn compare_some(
        &self,
        files: Vec<FoundFile>,
        compared: &mut ComparedFiles,
    ) -> anyhow::Result<()> {
        let (tables, texts): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|found| found.format.has_rows());
        let ids = texts.iter().filter_map(|found| found.source.name().parse().ok()).collect();
        let known = self.documents_of(ids).await?;
        for found in texts {
            let state = known.get(found.source.name());
            let source = state.and_then(|state| text_of(state, SOURCE));
            if let Some(other) = source.filter(|source| *source != self.name.0) {
                let problem = Problem::Malformed(format!(
                    "expected no document of this id from another source, got one from `{other}`; \
                     give the sources prefixes that differ"
                ));
                let place = FileLocation { file: found.source.name().to_owned(), row: None };
                compared.problems.push(Unreadable { place, problem });
            } else if source.is_some() && state.is_some_and(|state| self.is_as_read(state, &found))
            {
                compared.unchanged += 1;
            } else {
                compared.changed.push(found);
            }
        }
        let marks = self.marks_of(tables.iter().map(|found| found.source.name())).await?;
        for found in tables {
            let mut marks =
                marks.iter().filter(|mark| text_of(mark, KEY) == Some(found.source.name()));
            match marks.any(|mark| self.is_as_read(mark, &found)) {
                true => compared.unchanged += 1,
                false => compared.changed.push(found),
            }
        }
        Ok(())
    }

    fn is_as_read(&self, state: &DocumentState, found: &FoundFile) -> bool {
        let read = text_of(state, STATE);
        read.is_some() && read == self.state_of(found).as_deref()
    }

    /// Returns the state of a file as documents carry it. `None` if a file has none that could be
    /// compared, as standard input.
    fn state_of(&self, found: &FoundFile) -> Option<String> {
        let part = match found.source.part() {
            SourcePart::WHOLE => String::new(),
            part => format!(" {part}"),
        };
        Some(format!("{} {}{part}", found.source.fingerprint()?, self.recipe))
    }

    /// Returns the documents of these ids that the corpus has, by id.
    async fn documents_of(
        &self,
        documents: Vec<DocumentId>,
    ) -> anyhow::Result<HashMap<String, DocumentState>> {
        if documents.is_empty() {
            return Ok(HashMap::new());
        }
        let filter = Filter { documents, ..Filter::default() };
        let listed = self.list(filter, DocumentStage::Unspecified, true).await?;
        Ok(listed.into_iter().map(|state| (state.id.clone(), state)).collect())
    }

    /// Returns the documents that carry the states of these files.
    async fn marks_of(
        &self,
        keys: impl Iterator<Item = &str>,
    ) -> anyhow::Result<Vec<DocumentState>> {
        let keys: Vec<_> = keys.map(|key| AttributeValue::Text(key.to_owned())).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = [test(KEY, AttributeTest::In(keys))?, test(STATE, AttributeTest::Exists)?];
        self.list(self.filter(wanted)?, DocumentStage::Unspecified, true).await
    }

    /// Returns the filter of the documents of the source that meet all `conditions`.
    fn filter(&self, conditions: impl IntoIterator<Item = Condition>) -> anyhow::Result<Filter> {
        let mut all = vec![test(SOURCE, AttributeTest::Eq(self.name_value()))?];
        all.extend(conditions);
        Ok(Filter { condition: Some(Condition::All(all)), ..Filter::default() })
    }

    fn name_value(&self) -> AttributeValue {
        AttributeValue::Text(self.name.0.clone())
    }

    async fn list(
        &self,
        filter: Filter,
        stage: DocumentStage,
        with_attributes: bool,
    ) -> anyhow::Result<Vec<DocumentState>> {
        let mut listed = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListDocumentsRequest {
                corpus: self.corpus.to_string(),
                stage: stage.into(),
                page_size: if with_attributes { DESCRIBED_AT_ONCE } else { LISTED_AT_ONCE },
                page_token,
                filter: Some(filter_to_wire(filter.clone())),
                with_attributes,
                ..Default::default()
            };
            let page =
                patiently(async || self.client.documents_page(request.clone()).await).await?;
            listed.extend(page.documents);
            if page.next_page_token.is_empty() {
                return Ok(listed);
            }
            page_token = page.next_page_token;
        }
    }

    /// Forgets the documents of the source that could not be indexed, and the states of files whose
    /// documents were refused, so that they are read again.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ListDocuments` and of `IngestService.ForgetDocuments`.
    pub async fn forget_failed(&self) -> anyhow::Result<u64> {
        let failed = self.list(self.filter([])?, DocumentStage::Failed, true).await?;
        let keys: Vec<&str> = failed.iter().filter_map(|state| text_of(state, KEY)).collect();
        let mut ids: HashSet<String> = failed.iter().map(|state| state.id.clone()).collect();
        for keys in keys.chunks(ASKED_AT_ONCE) {
            ids.extend(self.marks_of(keys.iter().copied()).await?.into_iter().map(|mark| mark.id));
        }
        let refused = self.filter([test(REFUSED, AttributeTest::Exists)?])?;
        let refused = self.list(refused, DocumentStage::Unspecified, false).await?;
        ids.extend(refused.into_iter().map(|mark| mark.id));
        let ids = ids.into_iter().map(|id| id.parse()).collect::<Result<Vec<_>, _>>()?;
        self.forget(&ids).await
    }

    /// Returns all documents of the source. They are listed before the files are, so that a file
    /// that has just come is not taken for one that has gone.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ListDocuments`.
    pub async fn documents(&self) -> anyhow::Result<SourceDocuments> {
        let has_key = || test(KEY, AttributeTest::Exists);
        let whole = self.filter([Condition::Not(Box::new(has_key()?))])?;
        let whole = self.list(whole, DocumentStage::Unspecified, false).await?;
        let rows = self.list(self.filter([has_key()?])?, DocumentStage::Unspecified, true).await?;
        Ok(SourceDocuments { whole, rows })
    }

    /// Returns the ids of the documents that come from the file `key`, which holds many.
    ///
    /// # Errors
    /// Returns the errors of `IngestService.ListDocuments`.
    pub async fn documents_in(&self, key: &str) -> anyhow::Result<Vec<DocumentId>> {
        let key = test(KEY, AttributeTest::Eq(AttributeValue::Text(key.to_owned())))?;
        let listed = self.list(self.filter([key])?, DocumentStage::Unspecified, false).await?;
        Ok(listed.into_iter().map(|state| state.id.parse()).collect::<Result<_, _>>()?)
    }

    /// Tells which documents have vanished, and forgets them, unless they are more than allowed.
    /// Returns their number.
    ///
    /// # Errors
    /// Returns an error if they are too many, and the errors of `IngestService.ForgetDocuments`.
    pub async fn forget_vanished(
        &self,
        vanished: &Vanished,
        most: DeleteAtMost,
    ) -> anyhow::Result<u64> {
        let Vanished { ids, documents } = vanished;
        for id in ids.iter().take(NAMED) {
            eprintln!("vanished from the source: `{id}`");
        }
        if ids.len() > NAMED {
            eprintln!("and {} more", ids.len() - NAMED);
        }
        let allowed = most.of(*documents);
        if ids.len() as u64 > allowed {
            bail!(
                "expected that at most {allowed} of the {documents} documents of source `{}` have \
                 vanished ({most}), got {}; none was forgotten. If that is right, say so with \
                 --delete-at-most",
                self.name,
                ids.len()
            );
        }
        self.forget(ids).await
    }

    async fn forget(&self, ids: &[DocumentId]) -> anyhow::Result<u64> {
        let mut forgotten = 0;
        for ids in ids.chunks(FORGOTTEN_AT_ONCE) {
            let request = ForgetDocumentsRequest {
                corpus: self.corpus.to_string(),
                document_ids: ids.iter().map(ToString::to_string).collect(),
                ..Default::default()
            };
            let receipt =
                patiently(async || self.client.forget_selected(request.clone()).await).await?;
            if !receipt.verified {
                bail!(
                    "something of the documents that vanished may still be stored; forget them \
                     again with `clew forget`, and see the server's log"
                );
            }
            forgotten += receipt.documents.iter().filter(|document| document.found).count() as u64;
        }
        Ok(forgotten)
    }

    /// Returns the mark of a file's documents.
    ///
    /// # Errors
    /// Returns an error if the file has no state that could be compared later.
    pub fn mark(&self, found: &FoundFile) -> anyhow::Result<FileMark> {
        let state = self.state_of(found).with_context(|| {
            let name = found.source.name();
            format!("`{name}` has no state to compare; expected files or objects with --source")
        })?;
        let key = found.format.has_rows().then(|| found.source.name().to_owned());
        Ok(FileMark { source: self.name.0.clone(), key, state })
    }
}

/// Documents of a source.
pub struct SourceDocuments {
    /// Those that are whole files, without their attributes.
    whole: Vec<DocumentState>,
    /// Those of files that hold many.
    rows: Vec<DocumentState>,
}

impl SourceDocuments {
    /// Returns those whose files are not among `names`, and besides them `rows`, which have gone
    /// from files that are.
    ///
    /// # Errors
    /// Returns an error if the server sent an id that is none.
    pub fn vanished(
        &self,
        names: &HashSet<&str>,
        rows: impl IntoIterator<Item = DocumentId>,
    ) -> anyhow::Result<Vanished> {
        let whole = self.whole.iter().filter(|state| !names.contains(state.id.as_str()));
        let of_tables = self
            .rows
            .iter()
            .filter(|state| text_of(state, KEY).is_some_and(|key| !names.contains(key)));
        let ids = whole.chain(of_tables).map(|state| state.id.parse());
        let mut ids = ids.collect::<Result<Vec<DocumentId>, _>>()?;
        ids.extend(rows);
        ids.sort();
        ids.dedup();
        Ok(Vanished { ids, documents: self.count() })
    }

    /// Returns only `rows`, which have gone from files that are there.
    pub fn gone(&self, rows: Vec<DocumentId>) -> Vanished {
        Vanished { ids: rows, documents: self.count() }
    }

    fn count(&self) -> u64 {
        (self.whole.len() + self.rows.len()) as u64
    }
}

/// What the documents of a file carry.
#[derive(Clone, Debug)]
pub struct FileMark {
    source: String,
    /// Name of a file that holds many documents.
    key: Option<String>,
    state: String,
}

impl FileMark {
    /// Marks a document of the file. One that is the whole file carries its state as well.
    ///
    /// # Errors
    /// Returns the problem if the document has attributes of these names already.
    pub fn mark(&self, document: &mut Document) -> Result<(), Problem> {
        for name in [SOURCE, KEY, STATE, REFUSED] {
            let name = attribute(name)?;
            if let Some(value) = document.attributes.get(&name) {
                return Err(Problem::Malformed(format!(
                    "expected no attribute `{name}` with --source, got `{value}`; rename the column"
                )));
            }
        }
        let mut set = |name: &str, value: &str| -> Result<(), Problem> {
            let value = AttributeValue::Text(value.to_owned());
            document.attributes.insert(attribute(name)?, value);
            Ok(())
        };
        set(SOURCE, &self.source)?;
        match &self.key {
            Some(key) => set(KEY, key),
            None => set(STATE, &self.state),
        }
    }

    /// Gives the state of a file that holds many documents to one that is marked.
    ///
    /// # Errors
    /// Never returns one, since the names are valid.
    pub fn complete(&self, document: &mut Document, refused: u64) -> Result<(), clew_core::Error> {
        let state = AttributeValue::Text(self.state.clone());
        document.attributes.insert(attribute(STATE)?, state);
        if refused > 0 {
            let refused = AttributeValue::Integer(i64::try_from(refused).unwrap_or(i64::MAX));
            document.attributes.insert(attribute(REFUSED)?, refused);
        }
        Ok(())
    }
}

fn attribute(name: &str) -> Result<AttributeName, clew_core::Error> {
    name.to_owned().try_into()
}

fn test(name: &str, test: AttributeTest) -> anyhow::Result<Condition> {
    Ok(Condition::Attribute(attribute(name)?, test))
}

/// Returns an attribute of a document, as text.
fn text_of<'a>(state: &'a DocumentState, name: &str) -> Option<&'a str> {
    let found = state.attributes.iter().find(|attribute| attribute.name == name)?;
    Some(found.value.as_str())
}
