//! Where a data directory lies.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A place that can hold corpora: today a local folder.
///
/// Storage schemes that the storage engine does not know fall back to a commit that is unsafe with
/// two writers, so a place is named by this type and not by a bare string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(PathBuf);

impl Location {
    /// The place named by a path or by a `file://` address.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty text, another scheme, or a `file://` address with a host.
    pub fn try_new(place: &str) -> Result<Self> {
        let refuse = |problem: String| Err(Error::invalid("data_dir", problem));
        if place.is_empty() {
            return refuse("expected a folder, got nothing".to_owned());
        }
        match place.split_once("://") {
            None => Ok(Self(PathBuf::from(place))),
            Some(("file", path)) if path.starts_with('/') => Ok(Self(PathBuf::from(path))),
            Some((scheme, _)) => {
                refuse(format!("expected a local folder or file:///path, got scheme `{scheme}`"))
            }
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_places_are_taken() {
        for (good, path) in [("/data", "/data"), ("a b/c", "a b/c"), ("file:///data", "/data")] {
            assert_eq!(Location::try_new(good).unwrap().path(), Path::new(path));
        }
        for bad in ["", "s3://bucket/x", "memory://", "file://host/x", "s3+ddb://b"] {
            let error = Location::try_new(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { field: "data_dir", .. }), "{bad}");
        }
    }
}
