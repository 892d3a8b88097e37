//! Discovery of files from command-line arguments.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use crate::naming::{Naming, STANDARD_INPUT};
use crate::{FileFormat, FileLocation, Problem, Source, Unreadable};

/// A file to read.
#[derive(Clone)]
pub struct FoundFile {
    /// Source of its bytes, with the name that its documents are named after.
    pub source: Source,
    /// Format that it is read as.
    pub format: FileFormat,
}

/// Files that the arguments lead to.
#[derive(Default)]
pub struct Discovery {
    /// Files to read, in the order of the arguments and sorted within folders.
    pub files: Vec<FoundFile>,
    /// Number of files in folders that were skipped because no format has their extension.
    pub unknown: u64,
    /// Arguments and folders that cannot be read.
    pub problems: Vec<Unreadable>,
}

/// Finds the files that `arguments` name: files, folders, glob patterns, and `-` for standard
/// input, which is read as `standard_input`.
///
/// The search of a folder skips hidden files, symbolic links, `target` and `node_modules`, and
/// counts files with an unknown extension. A wildcard matches no hidden files either. A file that
/// is itself an argument is read as plain text if its extension is unknown.
///
/// `naming` gives the files their names. A file that is reached twice under one name is read once.
/// A file that cannot be named is reported as a problem.
pub fn discover(arguments: &[String], naming: &Naming, standard_input: FileFormat) -> Discovery {
    let mut search = Search { naming, discovery: Discovery::default(), seen: HashSet::new() };
    for argument in arguments {
        let path = Path::new(argument);
        if argument == STANDARD_INPUT {
            search.add_standard_input(standard_input);
        } else if path.exists() {
            search.add(path);
        } else if argument.contains(['*', '?', '[']) {
            search.add_matches(argument);
        } else {
            search.fail(argument, io::Error::from(io::ErrorKind::NotFound).into());
        }
    }
    search.discovery
}

struct Search<'a> {
    naming: &'a Naming,
    discovery: Discovery,
    /// Names of the files found so far.
    seen: HashSet<String>,
}

impl Search<'_> {
    fn add(&mut self, path: &Path) {
        if path.is_dir() {
            self.add_folder(path);
        } else {
            self.add_file(path, FileFormat::of_path(path).unwrap_or(FileFormat::PlainText));
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
        let mut matched_any = false;
        for path in paths {
            matched_any = true;
            match path {
                Ok(path) => self.add(&path),
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

    fn add_folder(&mut self, folder: &Path) {
        let entries = WalkDir::new(folder).sort_by_file_name().into_iter();
        for entry in entries.filter_entry(|entry| entry.depth() == 0 || is_wanted(entry)) {
            match entry {
                Ok(entry) if !entry.file_type().is_file() => {}
                Ok(entry) => match FileFormat::of_path(entry.path()) {
                    Some(format) => self.add_file(entry.path(), format),
                    None => self.discovery.unknown += 1,
                },
                Err(error) => {
                    let place = error.path().unwrap_or(folder).display().to_string();
                    self.fail(&place, io::Error::from(error).into());
                }
            }
        }
    }

    fn add_file(&mut self, path: &Path, format: FileFormat) {
        match self.naming.name(path) {
            Err(problem) => self.fail(&path.display().to_string(), problem),
            Ok(name) => {
                if self.seen.insert(name.clone()) {
                    self.discovery
                        .files
                        .push(FoundFile { source: Source::file(name, path), format });
                }
            }
        }
    }

    fn add_standard_input(&mut self, format: FileFormat) {
        if self.seen.insert(STANDARD_INPUT.to_owned()) {
            self.discovery.files.push(FoundFile { source: Source::standard_input(), format });
        }
    }

    fn fail(&mut self, file: &str, problem: Problem) {
        let place = FileLocation { file: file.to_owned(), row: None };
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

    /// Discovers `arguments`, which are relative to the folder, and names files relative to it.
    fn found(folder: &tempfile::TempDir, arguments: &[&str]) -> Discovery {
        let naming = Naming::below(folder.path()).unwrap();
        let at = |path: &&str| match *path {
            STANDARD_INPUT => STANDARD_INPUT.to_owned(),
            path => folder.path().join(path).to_str().unwrap().to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(at).collect();
        discover(&arguments, &naming, FileFormat::JsonLines)
    }

    #[test]
    fn folders_are_searched_in_order_and_a_file_reached_twice_is_read_once() {
        let discovery = found(&folder(), &["docs", "docs/sub/../a.txt", "./docs//"]);
        assert_eq!(names(&discovery), ["docs/a.txt", "docs/b.md", "docs/sub/c.html"]);
        assert_eq!(discovery.unknown, 2);
        assert!(discovery.problems.is_empty());
    }

    #[test]
    fn patterns_and_plain_files_are_found() {
        let discovery = found(&folder(), &["docs/*.md", "README", "-", "-"]);
        assert_eq!(names(&discovery), ["docs/b.md", "README", "-"]);
        assert_eq!(discovery.files[1].format, FileFormat::PlainText);
        assert_eq!(discovery.files[2].format, FileFormat::JsonLines);
    }

    #[test]
    fn files_of_the_same_last_name_are_two() {
        let folder = folder();
        let given = ["docs/a.txt", "other/docs/a.txt"];
        assert_eq!(names(&found(&folder, &given)), given);
        let whole = given.map(|path| folder.path().join(path).to_str().unwrap().to_owned());
        let discovery = discover(&whole, &Naming::as_given(), FileFormat::JsonLines);
        assert_eq!(names(&discovery), whole);
    }

    #[test]
    fn what_cannot_be_found_or_named_is_reported() {
        let (folder, elsewhere) = (folder(), tempfile::tempdir().unwrap());
        let outside = elsewhere.path().join("outside.md");
        fs::write(&outside, "text").unwrap();
        fs::write(folder.path().join("-"), "text").unwrap();
        let arguments = ["docs", outside.to_str().unwrap(), "absent", "*.none", "[", "./-"];
        let discovery = found(&folder, &arguments);
        assert_eq!(names(&discovery).len(), 3);
        let problems = discovery.problems;
        assert_eq!(problems.len(), 5, "{problems:?}");
        assert!(matches!(problems[0].problem, Problem::OutsideRoot { .. }));
        assert!(matches!(problems[3].problem, Problem::Malformed(_)));
        assert!(matches!(problems[4].problem, Problem::NameTaken));
        for named in [&outside, folder.path()] {
            assert!(problems[0].to_string().contains(named.to_str().unwrap()), "{}", problems[0]);
        }
    }
}
