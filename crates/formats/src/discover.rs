//! Discovery of files from command-line arguments.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use crate::naming::{Naming, STANDARD_INPUT};
use crate::{FileFormat, FileLocation, Problem, Source, SourcePart, Unreadable};

/// Size from which the row groups of a file are divided among parts. A smaller file is read by one.
const DIVIDED_BYTES: u64 = 64 << 20;

/// A file to read.
#[derive(Clone)]
pub struct FoundFile {
    /// Source of its bytes, with the name that its documents are named after.
    pub source: Source,
    /// Format that it is read as.
    pub format: FileFormat,
}

impl FoundFile {
    /// Leaves the row groups of a large Parquet file to the parts that have them, and any other
    /// file to the part that has its name. Returns `None` if this part reads nothing of it.
    fn divided(self, part: SourcePart) -> Option<Self> {
        let Self { source, format } = self;
        let is_divided = part.count() > 1
            && format == FileFormat::Parquet
            && source.stored_bytes().is_some_and(|bytes| bytes >= DIVIDED_BYTES);
        match is_divided {
            true => Some(Self { source: source.row_groups_of(part), format }),
            false => part.has(source.name()).then_some(Self { source, format }),
        }
    }
}

/// Files that the arguments lead to.
pub struct Discovery {
    /// Files to read, in the order of the arguments and sorted within folders.
    pub files: Vec<FoundFile>,
    /// Number of files in folders that were skipped because no format has their extension.
    pub unknown: u64,
    /// Arguments and folders that cannot be read.
    pub problems: Vec<Unreadable>,
    /// Whether everything that the arguments lead to was found. False if a folder or bucket could
    /// not be listed to its end.
    pub is_whole: bool,
}

impl Default for Discovery {
    fn default() -> Self {
        Self { files: Vec::new(), unknown: 0, problems: Vec::new(), is_whole: true }
    }
}

impl Discovery {
    /// Adds what was found elsewhere. A file of a name that is taken is reported as a problem,
    /// since its documents would replace those of the other one.
    pub fn add(&mut self, other: Self) {
        let taken: HashSet<String> =
            self.files.iter().map(|found| found.source.name().to_owned()).collect();
        for found in other.files {
            match taken.contains(found.source.name()) {
                false => self.files.push(found),
                true => {
                    let place = FileLocation { file: found.source.name().to_owned(), row: None };
                    self.problems.push(Unreadable { place, problem: Problem::NameTwice });
                }
            }
        }
        self.unknown += other.unknown;
        self.problems.extend(other.problems);
        self.is_whole &= other.is_whole;
    }

    /// Leaves only what a part reads. Problems and skipped files are left to the part that has
    /// them, so that they are reported once.
    pub fn divided(self, part: SourcePart) -> Self {
        let read = |found: FoundFile| found.divided(part);
        Self {
            files: self.files.into_iter().filter_map(read).collect(),
            unknown: if part.index() == 0 { self.unknown } else { 0 },
            problems: {
                let is_ours = |problem: &Unreadable| part.has(&problem.place.file);
                self.problems.into_iter().filter(is_ours).collect()
            },
            is_whole: self.is_whole,
        }
    }
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
            // The disk that has it may be away.
            search.discovery.is_whole = false;
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
                    self.discovery.is_whole = false;
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
                    self.discovery.is_whole = false;
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
