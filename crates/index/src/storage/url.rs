//! Location of a data directory.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::storage::s3::ObjectStoreSettings;

/// Place that can hold corpora: a local folder, or a part of a bucket on S3-compatible storage.
///
/// With a storage scheme that it does not know, the storage engine falls back to a commit that is
/// unsafe with two writers. So a place is named by this type and not by a bare string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageUrl(pub(crate) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder(PathBuf),
    Bucket(Bucket),
}

/// Bucket, with the prefix of all our names in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub name: String,
    pub prefix: object_store::path::Path,
    pub settings: ObjectStoreSettings,
}

impl StorageUrl {
    /// Parses a path, a `file://` address, or `s3://bucket/prefix`, which is reached with
    /// `settings`.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for an empty text, another scheme, a `file://` address with a
    /// host, names with unusual characters, or settings that contradict each other.
    pub fn try_new(place: &str, settings: &ObjectStoreSettings) -> Result<Self> {
        let refuse = |problem: String| Err(Error::invalid("data_dir", problem));
        if place.is_empty() {
            return refuse("expected a folder, got nothing".to_owned());
        }
        match place.split_once("://") {
            None => Ok(Self(Kind::Folder(PathBuf::from(place)))),
            Some(("file", path)) if path.starts_with('/') => {
                Ok(Self(Kind::Folder(PathBuf::from(path))))
            }
            Some(("s3", rest)) => {
                let (name, prefix) =
                    rest.trim_end_matches('/').split_once('/').unwrap_or((rest, ""));
                let name = name.trim_end_matches('/');
                let Some(prefix) = is_bucket(name).then(|| prefix_of(prefix)).flatten() else {
                    // The part before an `@` may be a secret.
                    let shown = rest.rsplit('@').next().unwrap_or_default();
                    return refuse(format!(
                        "expected s3://bucket/prefix of letters, digits, `-`, `_` and `.`, got \
                         `{shown}`"
                    ));
                };
                if let Some((key, problem)) = settings.problem() {
                    return Err(Error::invalid(key, problem));
                }
                let settings = settings.clone();
                Ok(Self(Kind::Bucket(Bucket { name: name.to_owned(), prefix, settings })))
            }
            Some((scheme, _)) => refuse(format!(
                "expected a local folder, file:///path or s3://bucket/prefix, got scheme `{scheme}`"
            )),
        }
    }

    /// Returns the folder, or `None` for a bucket.
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Folder(folder) => Some(folder),
            Kind::Bucket(_) => None,
        }
    }
}

fn is_bucket(name: &str) -> bool {
    let is_usual = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
    (3..=63).contains(&name.len()) && name.bytes().all(is_usual)
}

/// Parses a prefix of characters that every tool writes the same way in an address.
fn prefix_of(text: &str) -> Option<object_store::path::Path> {
    let is_usual = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    if !text.bytes().all(is_usual) {
        return None;
    }
    // Refuses empty parts, `.` and `..`.
    object_store::path::Path::parse(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(place: &str) -> Result<StorageUrl> {
        StorageUrl::try_new(place, &ObjectStoreSettings::default())
    }

    #[test]
    fn only_folders_and_buckets_are_taken() {
        for (good, path) in [("/data", "/data"), ("a b/c", "a b/c"), ("file:///data", "/data")] {
            assert_eq!(location(good).unwrap().folder(), Some(Path::new(path)));
        }
        for (good, bucket, inside) in [
            ("s3://bucket", "bucket", ""),
            ("s3://bucket/", "bucket", ""),
            ("s3://bu-1.x/a/B_c/", "bu-1.x", "a/B_c"),
        ] {
            let Kind::Bucket(found) = location(good).unwrap().0 else { panic!("{good}") };
            assert_eq!((found.name.as_str(), found.prefix.as_ref()), (bucket, inside));
        }
        for bad in ["", "memory://", "file://host/x", "s3+ddb://b", "gs://bucket/x"] {
            let error = location(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { field: "data_dir", .. }), "{bad}");
        }
        for bad in [
            "s3://",
            "s3:///x",
            "s3://B/x",
            "s3://bucket/a b",
            "s3://bucket/a//b",
            "s3://bucket/../x",
            "s3://bucket/x?y",
            "s3://key:secret@bucket/x",
        ] {
            let error = location(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { field: "data_dir", .. }), "{bad}");
        }
        let http =
            ObjectStoreSettings { endpoint: Some("http://h".to_owned()), ..Default::default() };
        let error = StorageUrl::try_new("s3://bucket", &http).unwrap_err();
        assert!(matches!(error, Error::Invalid { field: "storage.s3.endpoint", .. }));
    }
}
