//! Prompts of a memory model: the text around a document that it reads, and requests for drafts.
//!
//! Prompts are a file of sections. Some files are compiled in (`prompts/`). Others can be named by
//! path, or lie in a model's folder:
//!
//! ```text
//! name: mine
//! version: 1
//! === text ===
//! Read this:
//! {{text}}
//! === read ===
//! What the model answers.
//! === passages ===
//! Which passages help to answer {{question}}
//! === questions ===
//! === key points ===
//! === answer ===
//! ```
//!
//! Raise the version of a file when you change it. The version is part of a memory's fingerprint,
//! so memories are then formed anew. A test compares the files with `prompts/versions.txt`.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::Error;
use crate::folder::folder_name;
use crate::folder::reader::FolderReader;

/// File in a model's folder that holds the prompts of that model.
const FILE: &str = "memory_prompts.md";
/// Prompts that are compiled in: our own, and those of the checkpoints that the authors of MemoRAG
/// published.
const BUILT_IN: [(&str, &str); 2] = [
    ("clew", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/prompts/clew.md"))),
    ("memorag", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/prompts/memorag.md"))),
];
/// Maximum size of a file in bytes. The prompt before every text has to leave room for the text.
const MOST_BYTES: usize = 64 << 10;
const TEXT: &str = "{{text}}";
const QUESTION: &str = "{{question}}";
/// Marker around the name of a section.
const MARK: &str = "===";

/// Kind of text that is drafted from a memory (MemoRAG, section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Draft {
    /// Passages of the text that hold evidence for an answer.
    Passages,
    /// Questions that are more specific than the one that was asked.
    Questions,
    /// Points that a summary has to cover.
    KeyPoints,
    /// The answer.
    Answer,
}

/// Prompts of a memory model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompts {
    name: String,
    version: u32,
    /// Text before and after a document, in the user's message.
    around: [String; 2],
    read: String,
    passages: String,
    questions: String,
    key_points: String,
    answer: String,
}

impl Prompts {
    /// Returns the prompts for the model of a folder. `wanted` is the name of prompts that are
    /// compiled in, or the path of a file. Without it the prompts are those in the folder. If there
    /// are none, a checkpoint of the authors of MemoRAG gets theirs, and any other model gets ours.
    /// Such a checkpoint is recognised by its name, as in the authors' code.
    ///
    /// # Errors
    /// Returns [`Error::OptionUnavailable`] if the wanted file cannot be read,
    /// [`Error::Unreadable`] if a file of the folder cannot be read, and [`Error::Broken`] if a
    /// file is invalid.
    pub fn choose(wanted: Option<&str>, folder: &Path) -> Result<Self, Error> {
        match wanted {
            Some(wanted) => match BUILT_IN.iter().find(|(name, _)| *name == wanted) {
                Some((name, content)) => Self::parse(name, content),
                None => Self::of_path(Path::new(wanted)),
            },
            None => Self::of_folder(folder),
        }
    }

    fn of_path(path: &Path) -> Result<Self, Error> {
        let bytes = fs::read(path).map_err(|error| Error::OptionUnavailable {
            option: "prompts",
            expected: "`clew`, `memorag` or a file of prompts".to_owned(),
            found: format!("`{}`: {error}", path.display()),
        })?;
        Self::of_bytes(&folder_name(path), bytes)
    }

    fn of_folder(folder: &Path) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Config {
            _name_or_path: Option<String>,
        }
        let reader = FolderReader::new(folder);
        if reader.has(FILE) {
            return Self::of_bytes(FILE, reader.read(FILE, "prompts of a memory model")?);
        }
        let config: Option<Config> =
            reader.json_if_present("config.json", "the configuration of a memory model")?;
        let called = config.and_then(|config| config._name_or_path).unwrap_or_default();
        let is_published = [called, folder_name(folder)]
            .iter()
            .any(|name| name.to_lowercase().contains("memorag"));
        let (name, content) = BUILT_IN[usize::from(is_published)];
        Self::parse(name, content)
    }

    fn of_bytes(file: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        if bytes.len() > MOST_BYTES {
            let expected = format!("at most {MOST_BYTES} bytes of prompts");
            return Err(broken(file, expected, format!("{} bytes", bytes.len())));
        }
        let content = String::from_utf8(bytes)
            .map_err(|_| broken(file, "text in UTF-8".to_owned(), "other bytes".to_owned()))?;
        Self::parse(file, &content)
    }

    fn parse(file: &str, content: &str) -> Result<Self, Error> {
        let mut parts = Parts::of(file, content)?;
        let name = parts.header("name").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| parts.lacks("a line `name: …`"))?.to_owned();
        let version = parts.header("version").and_then(|version| version.parse().ok());
        let version = version.filter(|version| *version > 0);
        let version = version.ok_or_else(|| parts.lacks("a line `version: …` with a number"))?;
        let text = parts.section("text", &[TEXT], true)?;
        let (before, after) = text.split_once(TEXT).unwrap_or((&text, ""));
        let prompts = Self {
            name,
            version,
            around: [before.to_owned(), after.to_owned()],
            read: parts.section("read", &[], false)?,
            passages: parts.section("passages", &[QUESTION], true)?,
            questions: parts.section("questions", &[QUESTION], true)?,
            // A summary may be of everything, so the question is optional.
            key_points: parts.section("key points", &[QUESTION], false)?,
            answer: parts.section("answer", &[QUESTION], true)?,
        };
        match parts.sections.first() {
            Some((unknown, _)) => {
                let expected = "sections `text`, `read`, `passages`, `questions`, `key points` and `answer`, \
                                each once";
                Err(broken(file, expected.to_owned(), format!("`{unknown}`")))
            }
            None => Ok(prompts),
        }
    }

    /// Returns the identifier of the prompts: name and version.
    pub fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Returns the text that prompts add to a memory's fingerprint, beside the words around the
    /// document. Prompts of version 1 add nothing, so that memories that were stored before prompts
    /// had versions stay valid.
    pub(super) fn tells(&self) -> Option<String> {
        (self.version > 1).then(|| self.id())
    }

    /// Returns the user's words before and after a document.
    pub(super) fn around(&self) -> [&str; 2] {
        self.around.each_ref().map(String::as_str)
    }

    /// Returns the model's reply to a document.
    pub(super) fn read(&self) -> &str {
        &self.read
    }

    /// Returns the user's message that asks for a draft.
    pub(super) fn ask(&self, draft: Draft, question: &str) -> String {
        let prompt = match draft {
            Draft::Passages => &self.passages,
            Draft::Questions => &self.questions,
            Draft::KeyPoints => &self.key_points,
            Draft::Answer => &self.answer,
        };
        // A placeholder in the question itself stays as it is.
        prompt.replacen(QUESTION, question, 1)
    }
}

/// Parts of a file that are not taken yet.
struct Parts<'a> {
    file: &'a str,
    header: Vec<(&'a str, &'a str)>,
    sections: Vec<(&'a str, String)>,
}

impl<'a> Parts<'a> {
    fn of(file: &'a str, content: &'a str) -> Result<Self, Error> {
        let mut parts = Self { file, header: Vec::new(), sections: Vec::new() };
        for line in content.lines() {
            let mark = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(MARK));
            match (mark, parts.sections.last_mut()) {
                (Some(name), _) => parts.sections.push((name.trim(), String::new())),
                (None, Some((_, text))) => {
                    text.push_str(line);
                    text.push('\n');
                }
                (None, None) => match line.split_once(':') {
                    Some((key, value)) => parts.header.push((key.trim(), value.trim())),
                    None if line.trim().is_empty() => {}
                    None => return Err(parts.lacks("lines `key: value` before the first section")),
                },
            }
        }
        Ok(parts)
    }

    fn header(&self, key: &str) -> Option<&'a str> {
        self.header.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// Takes a section. Each of `places` must stand in it exactly once, or at most once unless
    /// `is_needed`.
    fn section(&mut self, name: &str, places: &[&str], is_needed: bool) -> Result<String, Error> {
        let at = self.sections.iter().position(|(known, _)| *known == name);
        let at = at.ok_or_else(|| self.lacks(&format!("a section `{MARK} {name} {MARK}`")))?;
        let text = self.sections.remove(at).1.trim().to_owned();
        if text.is_empty() {
            return Err(self.lacks(&format!("words in the section `{name}`")));
        }
        for place in places {
            let count = text.matches(place).count();
            if count > 1 || (is_needed && count == 0) {
                let expected = format!("`{place}` once in the section `{name}`");
                return Err(broken(self.file, expected, format!("{count} of it")));
            }
        }
        let known: usize = places.iter().map(|place| text.matches(place).count()).sum();
        if text.matches("{{").count() != known {
            let expected = format!("no place but {places:?} in the section `{name}`");
            return Err(broken(self.file, expected, "another `{{`".to_owned()));
        }
        Ok(text)
    }

    fn lacks(&self, expected: &str) -> Error {
        broken(self.file, expected.to_owned(), "none".to_owned())
    }
}

fn broken(file: &str, expected: String, found: String) -> Error {
    Error::Broken { file: file.to_owned(), expected, found }
}

/// Returns the meaningful lines of a draft, without list markers, each once. Meaningful lines have
/// more than three words, as in the reference.
pub fn drafted_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_mark =
            |c: char| c.is_ascii_digit() || matches!(c, '.' | ')' | '-' | '*' | ' ' | '\t');
        let line = line.trim_start_matches(is_mark).trim();
        if line.split_whitespace().count() > 3 && !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAFTS: [Draft; 4] = [Draft::Passages, Draft::Questions, Draft::KeyPoints, Draft::Answer];
    const MINE: &str = "name: mine\nversion: 3\n=== text ===\nRead:\n{{text}}\nThat was it.\n=== read ===\nAsk.\n\
                        === passages ===\nWhich passages? {{question}}\n=== questions ===\nWhat else? {{question}}\n\
                        === key points ===\nSum up.\n=== answer ===\nWell: {{question}}\n";

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        folder
    }

    #[test]
    fn short_lines_marks_and_repetitions_are_left_out() {
        let text = "1. Who kept the bees then?\n\n- Clues:\n* Who kept the bees then?\n12) The roof is flat and sunny.";
        assert_eq!(drafted_lines(text), ["Who kept the bees then?", "The roof is flat and sunny."]);
        assert!(drafted_lines("").is_empty());
    }

    #[test]
    fn every_prompt_that_is_compiled_in_can_be_asked_with() {
        for (name, content) in BUILT_IN {
            let prompts = Prompts::parse(name, content).unwrap();
            assert_eq!(prompts.id(), format!("{name}@1"));
            let asked = DRAFTS.map(|draft| prompts.ask(draft, "Who keeps {{question}} bees?"));
            let held = asked.iter().filter(|prompt| prompt.contains("keeps {{question}} bees?"));
            assert!(held.count() >= 3, "{asked:?}");
        }
    }

    /// Checks the words that stored memories were read with: the memories stay valid as long as the
    /// words stay.
    #[test]
    fn our_own_words_around_a_text_are_those_of_memories_that_are_stored() {
        let prompts = Prompts::choose(Some("clew"), Path::new("")).unwrap();
        let before = "Here is a long text. Read it with care and keep it in mind: you will be asked about it.\n\nText:\n";
        let after = "\n\nThis is the end of the text. What you are to do with it follows.";
        assert_eq!(prompts.around(), [before, after]);
        assert_eq!(prompts.read(), "I have read the text. What would you like to know?");
        assert_eq!(prompts.tells(), None);
    }

    #[test]
    fn prompts_are_those_that_are_wanted_those_of_the_folder_or_those_of_the_checkpoint() {
        let chosen =
            |wanted: Option<&str>, folder: &Path| Prompts::choose(wanted, folder).unwrap().id();
        let own = folder(&[("config.json", r#"{"_name_or_path": "/models/qwen2"}"#)]);
        let published = folder(&[("config.json", r#"{"_name_or_path": "/models/MemoRAG-qwen2"}"#)]);
        let told = folder(&[(FILE, MINE), ("config.json", r#"{"_name_or_path": "memorag"}"#)]);
        assert_eq!(chosen(None, own.path()), "clew@1");
        assert_eq!(chosen(None, published.path()), "memorag@1");
        assert_eq!(chosen(None, told.path()), "mine@3");
        assert_eq!(chosen(Some("clew"), told.path()), "clew@1");
        let file = told.path().join(FILE);
        assert_eq!(chosen(Some(file.to_str().unwrap()), own.path()), "mine@3");
        let named = own.path().join("memorag-mistral-7b-inst");
        fs::create_dir(&named).unwrap();
        assert_eq!(chosen(None, &named), "memorag@1");
        let missing = Prompts::choose(Some("/no/such/file"), own.path()).unwrap_err();
        assert!(missing.to_string().contains("/no/such/file"), "{missing}");
    }

    #[test]
    fn a_file_that_lacks_something_is_refused_by_what_it_lacks() {
        assert_eq!(Prompts::parse("f", MINE).unwrap().tells().as_deref(), Some("mine@3"));
        for (from, to, told) in [
            ("name: mine\n", "", "`name: …`"),
            ("version: 3", "version: three", "`version: …`"),
            ("=== read ===\nAsk.\n", "", "`=== read ===`"),
            ("Ask.", "", "words in the section `read`"),
            ("{{text}}", "", "`{{text}}` once"),
            ("What else? {{question}}", "{{question}} {{question}}", "`{{question}}` once"),
            ("Sum up.", "Sum up {{text}}.", "section `key points`"),
            ("=== answer ===", "=== reply ===", "`=== answer ===`"),
            ("Well:", "=== more ===\nWell:", "words in the section `answer`"),
            ("=== answer ===", "=== read ===\nAgain.\n=== answer ===", "each once"),
        ] {
            let error = match Prompts::parse("f", &MINE.replacen(from, to, 1)) {
                Err(error) => error.to_string(),
                Ok(prompts) => panic!("{to:?} was taken: {prompts:?}"),
            };
            assert!(error.contains(told), "{to:?}: {error}");
        }
        let long = folder(&[(FILE, &"x".repeat(MOST_BYTES + 1))]);
        assert!(Prompts::choose(None, long.path()).unwrap_err().to_string().contains("bytes"));
    }

    #[test]
    fn prompts_change_with_their_version_only() {
        let known = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/prompts/versions.txt"));
        for (name, content) in BUILT_IN {
            let version = Prompts::parse(name, content).unwrap().version;
            let line = format!("{name} {version} {}", blake3::hash(content.as_bytes()).to_hex());
            assert!(
                known.lines().any(|known| known == line),
                "raise the version, and add `{line}`"
            );
        }
    }
}
