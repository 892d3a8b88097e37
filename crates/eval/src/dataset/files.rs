//! Search for the files of a data set.

use std::path::{Path, PathBuf};

/// Returns the first of `names` that exists in `folder`, with or without `.gz` appended.
pub(super) fn first_of(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names
        .iter()
        .flat_map(|name| [folder.join(name), folder.join(format!("{name}.gz"))])
        .find(|path| path.is_file())
}

/// Returns `path` if it is a folder, and otherwise the folder that it is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(path) }
}

/// Returns the name of the file without any extension, or `default` if the path has no name.
pub(super) fn name_of(path: &Path, default: &str) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let stem = name.as_deref().and_then(|name| name.split('.').next()).unwrap_or_default();
    if stem.is_empty() { default.to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_extension_and_are_never_empty() {
        let cases =
            [("a/b.json", "b"), ("a/b.jsonl.gz", "b"), ("a/b", "b"), ("..", "x"), ("", "x")];
        for (path, expected) in cases {
            assert_eq!(name_of(Path::new(path), "x"), expected, "{path}");
        }
    }
}
