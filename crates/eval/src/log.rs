//! Log of a run, which can be interrupted at any time and continues where it stopped.

mod line;
mod miss;
mod record;

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use line::Header;
pub use miss::{AnswerMiss, MissKind};
pub use record::{AnswerCost, AnswerRecord, JudgeCost, RunIdentity, fingerprint};

use crate::Error;

/// Answers to the questions of one run, in a file of JSON lines: first a [`RunIdentity`], then an
/// [`AnswerRecord`] for each finished question.
///
/// A line is on disk before [`AnswerLog::append`] returns, so a process that is killed loses only
/// the question that it was answering. Such a process may leave a last line without an end. That
/// line is ignored when the log is opened, and overwritten by the next line. The file is locked
/// while it is open for appending.
#[derive(Debug)]
pub struct AnswerLog {
    path: PathBuf,
    file: File,
    /// Bytes of complete lines; anything after them is an incomplete line.
    length: u64,
    run: RunIdentity,
    records: Vec<AnswerRecord>,
    finished: HashSet<String>,
}

impl AnswerLog {
    /// Opens the log of `run` at `path`, or begins it if the file does not exist or is empty. Reads
    /// all of it.
    ///
    /// # Errors
    /// Returns [`Error::OtherRun`] if the file is the log of another run, [`Error::LogInUse`] if
    /// another process has it open, [`Error::Malformed`] if it is not a log or one of its complete
    /// lines is broken, and [`Error::Unreadable`] or [`Error::Unwritable`] if the file system
    /// refuses. Only a log of this run is ever changed.
    pub fn open(path: &Path, run: RunIdentity) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.map_err(|source| Error::unwritable(path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::LogInUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(Error::unwritable(path, source)),
        }
        let header = Header::line(&run);
        let bytes = read(path, &mut file)?;
        // If the process was killed while it wrote the first line, the file holds the beginning of
        // that line.
        if header.as_bytes().starts_with(&bytes) {
            let mut log = Self::new(path, file, run);
            log.write(&header)?;
            return Ok(log);
        }
        let contents = line::read(path, &bytes)?;
        if let Some(difference) = run.difference_to(&contents.run) {
            return Err(Error::OtherRun { path: path.to_owned(), difference });
        }
        let mut log = Self::new(path, file, run);
        log.length = contents.length;
        log.finished = contents.records.iter().map(|record| record.question_id.clone()).collect();
        log.records = contents.records;
        Ok(log)
    }

    /// Reads the log of any run at `path`, for example for a report, without changing or locking
    /// it.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if it is not a log or one of its complete lines is broken, and
    /// [`Error::Unreadable`] if the file system refuses.
    pub fn read(path: &Path) -> Result<(RunIdentity, Vec<AnswerRecord>), Error> {
        let mut file = File::open(path).map_err(|source| Error::unreadable(path, source))?;
        let contents = line::read(path, &read(path, &mut file)?)?;
        Ok((contents.run, contents.records))
    }

    /// Adds a finished question, and returns when its line is on disk.
    ///
    /// # Errors
    /// Returns [`Error::BadRecord`] if the question is finished already, a score is not from 0 to 1
    /// or the time is negative, and [`Error::Unwritable`] if the file system refuses. After an
    /// error, the record is not part of the log, and the next one overwrites what may have been
    /// written of it.
    pub fn append(&mut self, record: AnswerRecord) -> Result<(), Error> {
        let problem = match record.fault() {
            None if !self.is_finished(&record.question_id) => None,
            None => Some("it has an answer already".to_owned()),
            fault => fault,
        };
        if let Some(problem) = problem {
            return Err(Error::BadRecord { question_id: record.question_id, problem });
        }
        self.write(&line::of(&record))?;
        self.finished.insert(record.question_id.clone());
        self.records.push(record);
        Ok(())
    }

    /// Returns whether the question has an answer.
    pub fn is_finished(&self, question_id: &str) -> bool {
        self.finished.contains(question_id)
    }

    /// Returns the finished questions, in the order in which they were finished.
    pub fn records(&self) -> &[AnswerRecord] {
        &self.records
    }

    /// Returns the identity of the run.
    pub fn run(&self) -> &RunIdentity {
        &self.run
    }

    fn new(path: &Path, file: File, run: RunIdentity) -> Self {
        let (records, finished) = (Vec::new(), HashSet::new());
        Self { path: path.to_owned(), file, length: 0, run, records, finished }
    }

    /// Writes a line after the complete ones.
    fn write(&mut self, line: &str) -> Result<(), Error> {
        let mut attempt = || {
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
            self.file.write_all(line.as_bytes())?;
            self.file.sync_data()
        };
        attempt().map_err(|source| Error::unwritable(&self.path, source))?;
        self.length += line.len() as u64;
        Ok(())
    }
}

fn read(path: &Path, file: &mut File) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|source| Error::unreadable(path, source))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
