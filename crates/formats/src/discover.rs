//! From the arguments of a command line to files.

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use crate::{Format, Place, Problem, Source, Unreadable};

/// A file to read.
#[derive(Clone)]
pub struct Found {
    /// Where its bytes come from, with the name its documents are called after.
    pub source: Source,
    /// What it is read as.
    pub format: Format,
}

/// What arguments lead to.
#[derive(Default)]
pub struct Discovery {
    /// Files to read, in the order of the arguments and sorted within folders.
    pub files: Vec<Found>,
    /// Files of folders that were left out because no format goes by their extension.
    pub unknown: u64,
    /// Arguments and folders that cannot be read.
    pub problems: Vec<Unreadable>,
}

/// Finds the files that `arguments` name: files, folders, glob patterns, and `-` for standard
/// input, which is read as `standard_input`.
///
/// Folders are searched without hidden files, symbolic links, `target` and `node_modules`; files of
/// unknown extension in them are counted. A wildcard matches no hidden file either. A file that is an argument itself is read as plain text
/// if its extension is unknown. A file reached twice is read once.
///
/// The name of a file is its path as given, with `/` between folders and without `.` and `..`, if
/// the argument is relative. For an absolute argument it begins with the argument's last part (of
/// a pattern: the last part before its first wildcard), so that ids do not depend on where a
/// folder lies. Two files of the same name are a problem of the second.
pub fn discover(arguments: &[String], standard_input: Format) -> Discovery {
    let mut search = Search::default();
    for argument in arguments {
        let path = Path::new(argument);
        if argument == "-" {
            search.add_standard_input(standard_input);
        } else if path.exists() {
            search.add(path, &Naming::of(path));
        } else if argument.contains(['*', '?', '[']) {
            search.add_matches(argument);
        } else {
            search.fail(argument, io::Error::from(io::ErrorKind::NotFound).into());
        }
    }
    search.discovery
}

#[derive(Default)]
struct Search {
    discovery: Discovery,
    /// Files by name.
    seen: HashMap<String, PathBuf>,
}

/// What is left out at the beginning of paths to make names of them.
struct Naming {
    base: Option<PathBuf>,
}

impl Naming {
    fn of(argument: &Path) -> Self {
        let base = argument.is_absolute().then(|| argument.parent().unwrap_or(argument));
        Self { base: base.map(Path::to_owned) }
    }

    /// The naming of what a pattern matches: by its folders before the first wildcard.
    fn of_pattern(pattern: &str) -> Self {
        let literal = &pattern[..pattern.find(['*', '?', '[']).unwrap_or(pattern.len())];
        let folder = &literal[..literal.rfind(['/', std::path::MAIN_SEPARATOR]).unwrap_or(0)];
        Self::of(Path::new(folder))
    }

    fn name(&self, path: &Path) -> Option<String> {
        let path = self.base.as_ref().and_then(|base| path.strip_prefix(base).ok()).unwrap_or(path);
        let mut parts = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(part) => parts.push(part.to_str()?),
                Component::ParentDir => parts.clear(),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Some(parts.join("/"))
    }
}

impl Search {
    fn add(&mut self, path: &Path, naming: &Naming) {
        if path.is_dir() {
            self.add_folder(path, naming);
        } else {
            self.add_file(path, Format::of_path(path).unwrap_or(Format::PlainText), naming);
        }
    }

    fn add_matches(&mut self, pattern: &str) {
        let options =
            glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
        let paths = match glob::glob_with(pattern, options) {
            Ok(paths) => paths,
            Err(error) => {
                return self.fail(pattern, Problem::malformed("a file or a glob pattern", error));
            }
        };
        let naming = Naming::of_pattern(pattern);
        let mut matched_any = false;
        for path in paths {
            matched_any = true;
            match path {
                Ok(path) => self.add(&path, &naming),
                Err(error) => {
                    let place = error.path().display().to_string();
                    self.fail(&place, io::Error::from(error).into());
                }
            }
        }
        if !matched_any {
            self.fail(pattern, io::Error::from(io::ErrorKind::NotFound).into());
        }
    }

    fn add_folder(&mut self, folder: &Path, naming: &Naming) {
        let entries = WalkDir::new(folder).sort_by_file_name().into_iter();
        for entry in entries.filter_entry(|entry| entry.depth() == 0 || is_wanted(entry)) {
            match entry {
                Ok(entry) if !entry.file_type().is_file() => {}
                Ok(entry) => match Format::of_path(entry.path()) {
                    Some(format) => self.add_file(entry.path(), format, naming),
                    None => self.discovery.unknown += 1,
                },
                Err(error) => {
                    let place = error.path().unwrap_or(folder).display().to_string();
                    self.fail(&place, io::Error::from(error).into());
                }
            }
        }
    }

    fn add_file(&mut self, path: &Path, format: Format, naming: &Naming) {
        let Some(name) = naming.name(path) else {
            let problem = Problem::Malformed("expected a file name in UTF-8".to_owned());
            return self.fail(&path.display().to_string(), problem);
        };
        // Symbolic links and `..` make several paths of one file.
        let identity = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match self.seen.get(&name) {
            Some(seen) if *seen == identity => {}
            Some(_) => self.fail(&name, Problem::SameName),
            None => {
                self.seen.insert(name.clone(), identity);
                self.discovery.files.push(Found { source: Source::file(name, path), format });
            }
        }
    }

    fn add_standard_input(&mut self, format: Format) {
        if self.seen.insert("-".to_owned(), PathBuf::new()).is_none() {
            self.discovery.files.push(Found { source: Source::standard_input(), format });
        }
    }

    fn fail(&mut self, file: &str, problem: Problem) {
        let place = Place { file: file.to_owned(), row: None };
        self.discovery.problems.push(Unreadable { place, problem });
    }
}

fn is_wanted(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    let is_build_output = entry.file_type().is_dir() && matches!(&*name, "target" | "node_modules");
    !name.starts_with('.') && !is_build_output
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(discovery: &Discovery) -> Vec<&str> {
        discovery.files.iter().map(|found| found.source.name()).collect()
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "docs/b.md",
            "docs/a.txt",
            "docs/.hidden.md",
            "docs/target/x.md",
            "docs/sub/c.html",
            "docs/picture.png",
            "other/docs/a.txt",
            "README",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        folder
    }

    #[test]
    fn folders_are_searched_in_order() {
        let folder = folder();
        let docs = folder.path().join("docs").to_str().unwrap().to_owned();
        let discovery = discover(&[docs.clone(), docs.clone()], Format::JsonLines);
        assert_eq!(names(&discovery), ["docs/a.txt", "docs/b.md", "docs/sub/c.html"]);
        assert_eq!(discovery.unknown, 2);
        assert!(discovery.problems.is_empty());
    }

    #[test]
    fn patterns_and_plain_files_are_found() {
        let folder = folder();
        let at = |path: &str| folder.path().join(path).to_str().unwrap().to_owned();
        let discovery =
            discover(&[at("docs/*.md"), at("README"), "-".to_owned()], Format::JsonLines);
        assert_eq!(names(&discovery), ["docs/b.md", "README", "-"]);
        assert_eq!(discovery.files[1].format, Format::PlainText);
        assert_eq!(discovery.files[2].format, Format::JsonLines);
    }

    #[test]
    fn what_cannot_be_found_or_told_apart_is_reported() {
        let folder = folder();
        let at = |path: &str| folder.path().join(path).to_str().unwrap().to_owned();
        let arguments = [at("docs"), at("other/docs"), at("absent"), at("*.none"), at("[")];
        let discovery = discover(&arguments, Format::JsonLines);
        assert_eq!(names(&discovery).len(), 3);
        let problems = discovery.problems;
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(matches!(problems[0].problem, Problem::SameName));
        assert!(matches!(problems[3].problem, Problem::Malformed(_)));
    }

    #[test]
    fn names_of_relative_paths_are_as_given() {
        let name = |path: &str| Naming::of(Path::new(path)).name(Path::new(path)).unwrap();
        assert_eq!(name("./docs/a.md"), "docs/a.md");
        assert_eq!(name("../docs/a.md"), "docs/a.md");
        assert_eq!(name("/long/way/docs"), "docs");
    }
}
