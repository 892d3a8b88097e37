//! Lines of a log, and their contents.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{AnswerRecord, RunIdentity};
use crate::Error;

/// Name in the first line of every log, and the version of its layout.
const LOG: &str = "clew-answers";
const VERSION: u32 = 1;

/// First line of a log.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    log: String,
    version: u32,
    run: RunIdentity,
}

impl Header {
    pub(super) fn line(run: &RunIdentity) -> String {
        of(&Self { log: LOG.to_owned(), version: VERSION, run: run.clone() })
    }
}

/// Contents of a log.
pub(super) struct Contents {
    pub run: RunIdentity,
    pub records: Vec<AnswerRecord>,
    /// Bytes of complete lines.
    pub length: u64,
}

/// Returns the line of a value, with its end.
pub(super) fn of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("text, numbers and maps with text keys are JSON") + "\n"
}

/// Reads the complete lines of `bytes`, which are the log at `path`.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Contents, Error> {
    let malformed = |line: usize, problem: String| Error::malformed(path, line as u64, problem);
    let length = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = bytes[..length].split_inclusive(|byte| *byte == b'\n');
    let header = lines.next().and_then(|line| serde_json::from_slice::<Header>(line).ok());
    let Some(Header { run, .. }) = header.filter(|h| h.log == LOG && h.version == VERSION) else {
        let problem = format!("expected the header of a log of answers, version {VERSION}");
        return Err(malformed(1, problem));
    };
    let (mut records, mut ids) = (Vec::new(), HashSet::new());
    for (number, line) in (2..).zip(lines) {
        let record: AnswerRecord = serde_json::from_slice(line).map_err(|error| {
            malformed(number, format!("expected a record of an answer: {error}"))
        })?;
        if !ids.insert(record.question_id.clone()) {
            let problem = format!("the question `{}` occurs twice", record.question_id);
            return Err(malformed(number, problem));
        }
        if let Some(problem) = record.fault() {
            return Err(malformed(number, problem));
        }
        records.push(record);
    }
    Ok(Contents { run, records, length: length as u64 })
}
