//! The reader that an evaluation measures.

use std::time::{Duration, Instant};

use anyhow::Context;
use clew_memory_encoder::{OwnReader, ReaderConfig};
use clew_model::ReaderModel;

/// Maximum time for loading it.
const LOADING: Duration = Duration::from_secs(120);

/// Waits until the reader is loaded, so that no question does, and returns a name of its weights,
/// by which runs with others differ. Returns `None` if there is no reader.
///
/// # Errors
/// Returns an error if it cannot be loaded, in which case answers would be measured without it.
pub async fn loaded(reader: &OwnReader, config: &ReaderConfig) -> anyhow::Result<Option<String>> {
    let description = reader.description(Instant::now() + LOADING).await?;
    description.map(|_| fingerprint(config)).transpose()
}

/// Returns a name of the configured weights.
///
/// # Errors
/// Returns an error if the file of the adapter cannot be read.
fn fingerprint(config: &ReaderConfig) -> anyhow::Result<String> {
    let Some(file) = &config.adapter else {
        return Ok(clew_eval::fingerprint(ReaderModel::packaged()));
    };
    let weights =
        std::fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    Ok(clew_eval::fingerprint(&weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_differ_by_their_weights() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "weights").unwrap();
        let of = |file: &std::path::Path| {
            fingerprint(&ReaderConfig { adapter: Some(file.to_owned()), ..ReaderConfig::default() })
        };
        let packaged = fingerprint(&ReaderConfig::default()).unwrap();
        assert_eq!(packaged.len(), 16);
        assert_ne!(of(file.path()).unwrap(), packaged);
        let missing = of(std::path::Path::new("none/weights")).unwrap_err();
        assert!(missing.to_string().contains("`none/weights`"), "{missing}");
    }

    #[tokio::test]
    async fn without_a_reader_there_is_no_name() {
        let name = loaded(&OwnReader::None, &ReaderConfig::default()).await.unwrap();
        assert_eq!(name, None);
    }
}
