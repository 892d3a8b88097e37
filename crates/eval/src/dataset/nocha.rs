//! NoCha (Karpinska et al., EMNLP 2024): pairs of similar claims about a novel, one true and one
//! false.
//!
//! Files: `claims.jsonl` `{book_title, claim, type, index}`, where `type` says whether the claim is
//! true and the two claims of a pair share the `index`, and the text `<book_title>.txt` of each
//! book. Each book is a haystack. The text of a question is the claim itself; the caller has to ask
//! whether it is true. A pair is right if both of its claims are; chance is 25 %.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files::{first_of, folder_of};
use super::records::Records;
use super::{DatasetFormat, EvalQuestion, Haystack, Haystacks, Source, UnitKind, long};
use crate::Error;
use crate::dataset::Scoring;

pub(super) const FORMAT: DatasetFormat = DatasetFormat {
    name: "nocha",
    units: &[UnitKind::Document],
    splits: &[],
    has_evidence: false,
    open,
};

const CLAIMS: &str = "claims.jsonl";

/// Mark before the title, on the first line of some books.
const TITLE: &str = "title:";

#[derive(Deserialize)]
struct ClaimRecord {
    book_title: String,
    claim: String,
    #[serde(rename = "type")]
    is_true: bool,
    index: u64,
}

/// Book with the claims about it, before its text is read.
struct Book {
    name: String,
    file: PathBuf,
    claims: Vec<EvalQuestion>,
}

fn open(source: Source<'_>) -> Result<Haystacks, Error> {
    let folder = folder_of(source.path);
    let unknown_layout = |expected| source.unknown_layout(FORMAT.name, expected);
    let file = first_of(folder, &[CLAIMS])
        .ok_or_else(|| unknown_layout(format!("`{CLAIMS}` and `<book_title>.txt`")))?;
    let mut books: Vec<Book> = Vec::new();
    let mut ids = HashSet::new();
    for record in Records::<ClaimRecord>::open(&file)? {
        let record = record?;
        let (line, name) = (record.line, record.value.book_title.clone());
        let claim = claim(record.value);
        if !ids.insert(claim.id.clone()) {
            let problem = format!("the claim `{}` occurs twice", claim.id);
            return Err(Error::malformed(&file, line, problem));
        }
        if let Some(book) = books.iter_mut().find(|book| book.name == name) {
            book.claims.push(claim);
            continue;
        }
        // A title must be a name and not a path.
        let text = format!("{name}.txt");
        let is_name = Path::new(&text).file_name().is_some_and(|file| file == text.as_str());
        let file = Some(folder.join(&text)).filter(|file| is_name && file.is_file());
        let file = file.ok_or_else(|| unknown_layout(format!("`{text}`")))?;
        books.push(Book { name, file, claims: vec![claim] });
    }
    Ok(Box::new(books.into_iter().map(haystack)))
}

/// Converts a claim to a question. Types are books, so that the claims of a pair stay together.
fn claim(record: ClaimRecord) -> EvalQuestion {
    let ClaimRecord { book_title, claim, is_true, index } = record;
    let pair = format!("{book_title}_{index}");
    EvalQuestion {
        text: claim,
        references: vec![is_true.to_string()],
        ..long::question(
            format!("{pair}_{is_true}"),
            &book_title,
            Scoring::ClaimPair { pair, is_true },
        )
    }
}

fn haystack(book: Book) -> Result<Haystack, Error> {
    let text =
        fs::read_to_string(&book.file).map_err(|source| Error::unreadable(&book.file, source))?;
    let title = text.lines().next().and_then(|line| line.strip_prefix(TITLE));
    let title = title.map(|title| title.trim().to_owned()).unwrap_or_default();
    long::haystack(book.name, title, text, book.claims)
        .map_err(|problem| Error::malformed(&book.file, 1, problem))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Files;
    use super::*;

    fn line(book: &str, is_true: bool, index: u32) -> String {
        format!(
            r#"{{"book_title":"{book}","claim":"It rains.","type":{is_true},"index":{index},"genre":"x"}}"#
        )
    }

    #[test]
    fn each_book_is_a_haystack_of_pairs() {
        let lines = [line("storm", true, 1), line("calm", true, 1), line("storm", false, 1)];
        let files = Files::of(&[
            (CLAIMS, &lines.join("\n")),
            ("storm.txt", "title: The Storm\n\nRain."),
            ("calm.txt", "No wind."),
        ]);
        for path in [files.folder(), &files.path(CLAIMS)] {
            let haystacks = files.read_at(path, "nocha", None, None).unwrap();
            let titles: Vec<_> = haystacks.iter().map(|h| (&*h.name, &*h.units[0].title)).collect();
            assert_eq!(titles, [("storm", "The Storm"), ("calm", "")]);
            let claims: Vec<_> = haystacks[0].answerable().collect();
            assert_eq!(claims.len(), 2);
            assert_eq!((&*claims[1].id, &*claims[1].kind), ("storm_1_false", "storm"));
            let pair = "storm_1".to_owned();
            assert_eq!(claims[1].scoring, Scoring::ClaimPair { pair, is_true: false });
        }
    }

    #[test]
    fn claims_without_a_book_and_claims_told_twice_are_refused() {
        let cases = [
            ([line("storm", true, 1), line("fog", true, 1)], "`fog.txt`"),
            ([line("storm", true, 1), line("../storm", true, 1)], "`../storm.txt`"),
            ([line("storm", true, 1), line("storm", true, 1)], "line 2: the claim `storm_1_true`"),
        ];
        for (lines, problem) in cases {
            let files = Files::of(&[(CLAIMS, &lines.join("\n")), ("storm.txt", "Rain.")]);
            let error = files.read("nocha", None, None).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        let files = Files::of(&[(CLAIMS, &line("storm", true, 1)), ("storm.txt", " \n")]);
        let error = files.read("nocha", None, None).unwrap_err().to_string();
        assert!(error.contains("expected a document"), "{error}");
    }
}
