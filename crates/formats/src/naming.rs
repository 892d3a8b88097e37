//! Names of files, with which the ids of their documents begin.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::Problem;

/// Name of standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Rule by which files are named.
///
/// A name is a normalised path: without `.` and doubled separators, and with `..` only at its
/// beginning. It is computed from the path's text alone, so it does not depend on the file system.
/// The name is a path to the file from the folder that names are relative to, so no two files share
/// one.
#[derive(Clone, Debug)]
pub struct Naming {
    /// Folder that names are relative to. `None` for paths as they are given.
    root: Option<PathBuf>,
}

impl Naming {
    /// Names files after their paths as given: names of relative paths are relative to the working
    /// directory, and names of absolute paths begin with `/`.
    pub fn as_given() -> Self {
        Self { root: None }
    }

    /// Names files by their paths below the folder `root`. Files elsewhere have no name.
    ///
    /// # Errors
    /// Returns an error if there is no such folder, or if its path is not UTF-8.
    pub fn below(root: &Path) -> io::Result<Self> {
        if !root.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let plain = plain(&std::path::absolute(root)?).ok_or(io::ErrorKind::InvalidFilename)?;
        Ok(Self { root: Some(plain.into()) })
    }

    /// Returns the name of the file at `path`.
    pub(crate) fn name(&self, path: &Path) -> Result<String, Problem> {
        let not_utf8 = || Problem::Malformed("expected a file name in UTF-8".to_owned());
        let (name, file) = match &self.root {
            None => {
                let name = plain(path).ok_or_else(not_utf8)?;
                let file = PathBuf::from(&name);
                (name, file)
            }
            Some(root) => {
                let file = PathBuf::from(plain(&std::path::absolute(path)?).ok_or_else(not_utf8)?);
                let below = file.strip_prefix(root).map_err(|_| Problem::OutsideRoot {
                    file: file.display().to_string(),
                    root: root.display().to_string(),
                })?;
                (below.to_str().ok_or_else(not_utf8)?.to_owned(), file)
            }
        };
        if name == STANDARD_INPUT {
            return Err(Problem::NameTaken);
        }
        // Removing `..` from the text changes the target only after a symbolic link.
        let has_parent = path.components().any(|part| part == Component::ParentDir);
        if has_parent && file.canonicalize().ok() != Some(path.canonicalize()?) {
            return Err(Problem::ParentOfLink);
        }
        Ok(name)
    }
}

/// Normalises a path: removes `.`, doubled separators, a part followed by `..`, and `..` at the
/// root of the file system. Returns `None` if the path is not UTF-8.
fn plain(path: &Path) -> Option<String> {
    let mut is_absolute = false;
    let mut parts: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir => is_absolute = true,
            Component::CurDir => {}
            Component::ParentDir => match parts.last() {
                Some(&part) if part != ".." => drop(parts.pop()),
                None if is_absolute => {}
                _ => parts.push(".."),
            },
            Component::Normal(_) | Component::Prefix(_) => {
                parts.push(component.as_os_str().to_str()?)
            }
        }
    }
    Some(format!("{}{}", if is_absolute { "/" } else { "" }, parts.join("/")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    /// Returns the place that a path leads to from a working directory, by walking it as if there
    /// were no symbolic links.
    fn walked(path: &str, working_directory: &[&str]) -> Vec<String> {
        let mut place: Vec<String> = match path.starts_with('/') {
            true => Vec::new(),
            false => working_directory.iter().map(ToString::to_string).collect(),
        };
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(place.pop()),
                part => place.push(part.to_owned()),
            }
        }
        place
    }

    /// Generates paths from few names, so that many lead to the same place.
    fn paths() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec!["a", "b", "a.md", "..", ".", "", "..."]);
        (any::<bool>(), prop::collection::vec(part, 1..7)).prop_map(|(is_absolute, parts)| {
            let root = if is_absolute { "/" } else { "" };
            let path = format!("{root}{}", parts.join("/"));
            if path.is_empty() { ".".to_owned() } else { path }
        })
    }

    /// A deep working directory whose folders no path names, so that no path leaves and re-enters
    /// it.
    const DEEP: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_096))]

        #[test]
        fn two_paths_have_one_name_if_and_only_if_they_lead_to_one_place(one in paths(), other in paths()) {
            let (a, b) = (plain(Path::new(&one)).unwrap(), plain(Path::new(&other)).unwrap());
            prop_assert_eq!(a == b, walked(&one, &DEEP) == walked(&other, &DEEP), "{} {}", a, b);
        }

        #[test]
        fn a_name_is_a_path_to_its_file_and_its_own_name(path in paths()) {
            let name = plain(Path::new(&path)).unwrap();
            prop_assert_eq!(walked(&name, &DEEP), walked(&path, &DEEP));
            prop_assert_eq!(name.starts_with('/'), path.starts_with('/'));
            prop_assert_eq!(plain(Path::new(&name)).unwrap(), name);
        }
    }

    #[test]
    fn names_are_whole_paths() {
        let cases = [
            ("a.md", "a.md"),
            ("./a.md", "a.md"),
            ("x/../a.md", "a.md"),
            ("docs//./deep/a.md", "docs/deep/a.md"),
            ("../docs/a.md", "../docs/a.md"),
            ("x/../../a.md", "../a.md"),
            ("/long/way/a.md", "/long/way/a.md"),
            ("/long//./way/../a.md", "/long/a.md"),
            ("/../a.md", "/a.md"),
        ];
        for (path, expected) in cases {
            assert_eq!(plain(Path::new(path)).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn below_a_root_names_are_what_is_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("deep")).unwrap();
        fs::write(root.join("a.md"), "text").unwrap();
        fs::create_dir(folder.path().join("rooted")).unwrap();
        fs::write(folder.path().join("rooted/a.md"), "text").unwrap();
        let naming = Naming::below(&root.join("deep/..")).unwrap();
        assert_eq!(naming.name(&root.join("deep/../a.md")).unwrap(), "a.md");
        // A folder whose name begins with the root's name is not below the root.
        for outside in ["rooted/a.md", "root/../rooted/a.md"] {
            let problem = naming.name(&folder.path().join(outside)).unwrap_err();
            assert!(matches!(&problem, Problem::OutsideRoot { .. }), "{outside}: {problem:?}");
        }
        assert!(Naming::below(&root.join("a.md")).is_err());
        assert!(Naming::below(&root.join("absent")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_parent_of_a_symbolic_link_names_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("far/away")).unwrap();
        fs::write(at("far/a.md"), "the parent's").unwrap();
        fs::write(at("a.md"), "the link's").unwrap();
        std::os::unix::fs::symlink(at("far/away"), at("link")).unwrap();
        assert_eq!(fs::read_to_string(at("link/../a.md")).unwrap(), "the parent's");
        for naming in [Naming::as_given(), Naming::below(folder.path()).unwrap()] {
            let problem = naming.name(&at("link/../a.md")).unwrap_err();
            assert!(matches!(problem, Problem::ParentOfLink), "{problem:?}");
            assert!(naming.name(&at("far/../a.md")).is_ok());
        }
    }
}
