//! Reads the files of a model folder. Errors name files relative to the folder.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// Maximum size of a JSON file, larger than any tokenizer in use. A larger file is not what its
/// name says.
const LARGEST_JSON_BYTES: u64 = 256 << 20;

/// Model folder, or a folder within it.
pub(crate) struct FolderReader {
    path: PathBuf,
    /// Text before file names in errors: empty, or the inner folder with a slash.
    prefix: String,
    /// Name of a JSON file, and the content that is read in its place.
    instead: Option<(&'static str, Value)>,
}

impl FolderReader {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), prefix: String::new(), instead: None }
    }

    /// Replaces the JSON of `file` by `content`.
    pub(crate) fn with(self, file: &'static str, content: Value) -> Self {
        Self { instead: Some((file, content)), ..self }
    }

    /// Returns the folder `inner` of this one. The empty name is this folder itself.
    pub(crate) fn within(&self, inner: &str) -> Self {
        if inner.is_empty() {
            let instead = self.instead.clone();
            return Self { path: self.path.clone(), prefix: self.prefix.clone(), instead };
        }
        let prefix = format!("{}{inner}/", self.prefix);
        Self { path: self.path.join(inner), prefix, instead: None }
    }

    /// Returns the name of `file` in errors.
    pub(crate) fn name(&self, file: &str) -> String {
        format!("{}{file}", self.prefix)
    }

    /// Returns the content of `file`, of any size, which should hold `expected`.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if the file cannot be read.
    pub(crate) fn read(&self, file: &str, expected: &str) -> Result<Vec<u8>, Error> {
        fs::read(self.path.join(file)).map_err(|source| Error::Unreadable {
            file: self.name(file),
            expected: expected.to_owned(),
            source,
        })
    }

    /// Returns whether the file exists.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.path.join(file).exists()
    }

    /// Opens `file`, which should hold `expected`.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if the file cannot be opened.
    pub(crate) fn open(&self, file: &str, expected: &str) -> Result<fs::File, Error> {
        fs::File::open(self.path.join(file)).map_err(|source| Error::Unreadable {
            file: self.name(file),
            expected: expected.to_owned(),
            source,
        })
    }

    /// Returns the JSON in `file`.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] if the file cannot be read, and [`Error::Broken`] if it is too
    /// large or not `expected`.
    pub(crate) fn json<T: DeserializeOwned>(&self, file: &str, expected: &str) -> Result<T, Error> {
        if let Some((_, content)) = self.instead.as_ref().filter(|(name, _)| *name == file) {
            let parsed = serde_json::from_value(content.clone());
            return parsed.map_err(|error| self.broken(file, expected, error));
        }
        let path = self.path.join(file);
        let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if size > LARGEST_JSON_BYTES {
            return Err(self.broken(file, expected, format!("{size} bytes")));
        }
        let bytes = self.read(file, expected)?;
        serde_json::from_slice(&bytes).map_err(|error| self.broken(file, expected, error))
    }

    /// Returns the JSON in `file`, or `None` if there is no such file.
    ///
    /// # Errors
    /// Returns the errors of [`Self::json`], except for a missing file.
    pub(crate) fn json_if_present<T: DeserializeOwned>(
        &self,
        file: &str,
        expected: &str,
    ) -> Result<Option<T>, Error> {
        match self.json(file, expected) {
            Ok(value) => Ok(Some(value)),
            Err(Error::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn broken(&self, file: &str, expected: &str, found: impl ToString) -> Error {
        Error::Broken {
            file: self.name(file),
            expected: expected.to_owned(),
            found: found.to_string(),
        }
    }

    pub(crate) fn unsupported(&self, file: &str, expected: &str, found: impl ToString) -> Error {
        Error::Unsupported {
            file: self.name(file),
            expected: expected.to_owned(),
            found: found.to_string(),
        }
    }
}

/// Returns whether the path `name`, which a file of the folder mentions, stays within the folder.
pub(crate) fn is_inner_path(name: &str) -> bool {
    Path::new(name).components().all(|component| matches!(component, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_folder_are_recognised() {
        for name in ["", "1_Pooling", "parts/model.safetensors"] {
            assert!(is_inner_path(name), "{name}");
        }
        for name in ["..", "a/../../b", "/etc", "./x"] {
            assert!(!is_inner_path(name), "{name}");
        }
    }
}
