//! Texts of the user's files.
//!
//! A long text becomes several documents, so that a hundred documents are about as much of any
//! files. Texts are kept in a temporary file, so that they do not count as memory of the shard. If
//! a shard wants more of them than there are, they come again with variation: in each repetition,
//! every other word is another one, the same throughout a text. So a repetition is about something
//! else, in sentences of the same shape, and shares half of its words with the text that it is of.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use anyhow::{Context, ensure};
use clew_core::MediaType;
use clew_formats::{Discovery, FileFormat, Naming, Options};

use crate::command::bench::growth::cost::bytes;
use crate::command::bench::growth::encoder::hash;
use crate::progress::Progress;

/// Bytes after which a text is divided where its next paragraph begins.
const DIVIDED: usize = 4 << 10;
/// Bytes after which it is divided at the next line, if its paragraphs are longer.
const DIVIDED_ANYWHERE: usize = 16 << 10;
/// Of so many words, one is kept to be put in place of others.
const SAMPLED: usize = 61;
/// Maximum number of words that are kept.
const VOCABULARY: usize = 200_000;
/// Length of the shortest word that is replaced.
const SHORTEST: usize = 3;

/// Texts of files.
#[derive(Debug)]
pub struct GivenTexts {
    file: File,
    places: Vec<Place>,
    bytes: u64,
    /// Words that are put in place of others, each about as often as it comes in the texts.
    words: Vec<Box<str>>,
    /// Whether there were more texts than were read.
    is_part: bool,
}

/// Place of a text in the temporary file.
#[derive(Debug)]
struct Place {
    start: u64,
    bytes: usize,
    title: Box<str>,
    media_type: MediaType,
}

/// Text with its title.
#[derive(Debug, PartialEq, Eq)]
pub struct GivenText {
    pub title: String,
    pub text: String,
    pub media_type: MediaType,
}

impl GivenTexts {
    /// Reads the texts of files and folders, up to `wanted` bytes of them. Leaves out what cannot
    /// be read. Blocks.
    ///
    /// # Errors
    /// Returns an error if there are no texts, or no room for a temporary file.
    pub fn read(paths: &[String], wanted: u64) -> anyhow::Result<Self> {
        let found: Discovery =
            clew_formats::discover(paths, &Naming::as_given(), FileFormat::JsonLines);
        let file = tempfile::tempfile().context("no temporary file could be made")?;
        let mut given =
            Self { file, places: Vec::new(), bytes: 0, words: Vec::new(), is_part: false };
        let mut progress = Progress::new("read");
        let files = found.files.len() as u64;
        let mut unreadable = found.problems.len();
        for (number, found) in (0..).zip(found.files) {
            if given.bytes >= wanted {
                given.is_part = true;
                break;
            }
            for document in clew_formats::read(found.source, found.format, &Options::default()) {
                match document {
                    Ok(document) => {
                        for part in parts(&document.text) {
                            given.add(part, &document.title, document.media_type)?;
                        }
                    }
                    Err(_) => unreadable += 1,
                }
            }
            progress.set(number, files, "files");
        }
        progress.finish();
        if unreadable > 0 {
            eprintln!("{unreadable} files or documents could not be read, and are left out");
        }
        ensure!(!given.places.is_empty(), "expected texts in `{}`", paths.join("`, `"));
        Ok(given)
    }

    fn add(&mut self, text: &str, title: &str, media_type: MediaType) -> anyhow::Result<()> {
        self.file.write_all(text.as_bytes()).context("the temporary file cannot be written")?;
        let (start, bytes) = (self.bytes, text.len());
        self.places.push(Place { start, bytes, title: title.into(), media_type });
        self.bytes += bytes as u64;
        let words = text.split_whitespace().step_by(SAMPLED);
        let words = words.filter(|word| word.chars().all(char::is_alphabetic));
        let words = words.filter(|word| word.len() >= SHORTEST && !is_grammar(word));
        let room = VOCABULARY - self.words.len();
        self.words.extend(words.take(room).map(Box::from));
        Ok(())
    }

    /// Returns a text in one of its editions, which differ. Numbers may be of any size.
    ///
    /// # Errors
    /// Returns an error if the temporary file cannot be read.
    pub fn text(&self, number: u64, edition: u64) -> anyhow::Result<GivenText> {
        let all = self.places.len() as u64;
        let place = &self.places[(number % all) as usize];
        let mut bytes = vec![0; place.bytes];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(place.start))
            .and_then(|_| file.read_exact(&mut bytes))
            .context("the temporary file cannot be read")?;
        let text = String::from_utf8(bytes).context("the temporary file was changed")?;
        let repetition = (number / all, edition);
        let text = match repetition {
            (0, 0) => text,
            _ => varied(&text, &self.words, hash(repetition)),
        };
        Ok(GivenText { title: place.title.to_string(), text, media_type: place.media_type })
    }

    /// Says for people what the first `count` texts are.
    pub fn described(&self, count: u64) -> String {
        let all = self.places.len() as u64;
        let part = if self.is_part { "the first " } else { "" };
        let of = format!("{part}{all} texts of {} from the given files", bytes(self.bytes as f64));
        match count.div_ceil(all.max(1)) {
            0 | 1 => of,
            rounds => format!(
                "{of}, each up to {rounds} times; when it comes again, half of its words are others"
            ),
        }
    }
}

/// Divides a text where paragraphs begin. Leaves out parts without words.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut place) = (Vec::new(), 0, 0);
    let mut is_blank_before = false;
    for line in text.split_inclusive('\n') {
        let bytes = place - start;
        if (bytes >= DIVIDED && is_blank_before) || bytes >= DIVIDED_ANYWHERE {
            parts.push(&text[start..place]);
            start = place;
        }
        is_blank_before = line.trim().is_empty();
        place += line.len();
    }
    parts.push(&text[start..]);
    parts.retain(|part| part.contains(char::is_alphanumeric));
    parts
}

/// Returns a text in which every other word is replaced, the same word always by the same one.
fn varied(text: &str, words: &[Box<str>], seed: u64) -> String {
    let mut varied = String::with_capacity(text.len());
    let mut end = 0;
    for span in clew_text::words(text) {
        let word = &text[span.start..span.end];
        varied.push_str(&text[end..span.start]);
        end = span.end;
        let drawn = hash((seed, word));
        let is_kept = drawn.is_multiple_of(2) || word.len() < SHORTEST || is_grammar(word);
        let other = words.get((drawn / 2) as usize % words.len().max(1)).filter(|_| !is_kept);
        varied.push_str(other.map_or(word, |other| &**other));
    }
    varied.push_str(&text[end..]);
    varied
}

fn is_grammar(word: &str) -> bool {
    clew_text::is_grammar_word(&word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(texts: &[&str]) -> GivenTexts {
        let folder = tempfile::tempdir().unwrap();
        for (number, text) in texts.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{number}.txt")), text).unwrap();
        }
        let path = folder.path().to_str().unwrap().to_owned();
        GivenTexts::read(&[path], 1 << 20).unwrap()
    }

    #[test]
    fn texts_come_as_they_are_and_then_with_other_words_in_the_same_places() {
        let many: String = (0..2_000)
            .map(|number| format!("the word{} of it.\n", char::from(b'a' + (number % 26) as u8)))
            .collect();
        // One paragraph, which is longer than a document.
        let many = &many[..DIVIDED_ANYWHERE / 17 * 17];
        let given = given(&[many, "Short text, unchanged."]);
        assert_eq!(given.text(0, 0).unwrap().text, many);
        assert_eq!(given.text(1, 0).unwrap().text, "Short text, unchanged.");
        let (again, edition) = (given.text(2, 0).unwrap(), given.text(0, 1).unwrap());
        assert_eq!(again, given.text(2, 0).unwrap());
        assert_ne!(again, edition);
        for varied in [again.text, edition.text] {
            let lines = || varied.lines().zip(many.lines());
            let kept = lines().filter(|(line, before)| line == before).count();
            assert!((200..764).contains(&kept), "{kept}");
            let is_alike = |line: &str| line.starts_with("the ") && line.ends_with(" of it.");
            assert!(lines().count() == 963 && lines().all(|(line, _)| is_alike(line)));
        }
        assert!(given.described(2).starts_with("2 texts of "), "{}", given.described(2));
        assert!(given.described(3).contains("up to 2 times"), "{}", given.described(3));
    }

    #[test]
    fn a_long_text_is_several_documents_that_begin_with_paragraphs() {
        let paragraph = "A line of a paragraph.\nAnother one, the last.\n\n";
        let text = paragraph.repeat(500);
        let divided = parts(&text);
        assert_eq!(divided.concat(), text);
        assert!(divided.len() > 4 && divided.iter().all(|part| part.starts_with("A line")));
        assert!(divided.iter().all(|part| part.len() < DIVIDED + 2 * paragraph.len()));
        let line = "no paragraphs\n".repeat(5_000);
        let divided = parts(&line);
        assert!(divided.concat() == line && divided.len() == 5, "{}", divided.len());
        assert_eq!(parts("-- \n\n"), [""; 0]);
    }

    #[test]
    fn a_folder_without_texts_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        assert!(GivenTexts::read(&[path], 1 << 20).is_err());
    }
}
