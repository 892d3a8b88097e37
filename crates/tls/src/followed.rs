//! Values that are built from files and rebuilt when the files change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use clew_core::Error;

/// Interval at which the files are read.
const EVERY: Duration = Duration::from_secs(5);
/// Maximum size, in bytes, of a file that is read.
const FILE_BYTES: u64 = 16 << 20;

/// A value that is built from files. A task reads the files every few seconds for as long as the
/// value is in use, and rebuilds it if they changed. If they cannot be used, the task logs that and
/// keeps the previous value.
#[derive(Debug)]
pub struct Followed<T>(Arc<RwLock<Arc<T>>>);

impl<T> Clone for Followed<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A file, and the configuration key that names it.
pub type NamedFile = (&'static str, PathBuf);

impl<T: Send + Sync + 'static> Followed<T> {
    /// Reads the files and builds a value from their contents, in order, with `make`. `what` names
    /// the value in the log.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming the configuration key, if a file
    /// cannot be read, and the errors of `make`.
    pub async fn start(
        what: &'static str,
        files: Vec<NamedFile>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let source = Arc::new(Source { what, files, make });
        let (read, value) = Arc::clone(&source)
            .look(None)
            .await?
            .ok_or_else(|| Error::internal("files that nobody read were found unchanged"))?;
        let current = Arc::new(RwLock::new(Arc::new(value)));
        tokio::spawn(follow(source, Arc::new(read), Arc::downgrade(&current)));
        Ok(Self(current))
    }

    /// Returns the current value.
    pub fn current(&self) -> Arc<T> {
        // A poisoned lock is harmless: the value is replaced as a whole.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Source<F> {
    what: &'static str,
    files: Vec<NamedFile>,
    make: F,
}

/// Contents of files, in order.
type Contents = Vec<Vec<u8>>;

impl<T: Send + 'static, F> Source<F>
where
    F: Fn(&[Vec<u8>]) -> Result<T, Error> + Send + Sync + 'static,
{
    /// Reads the files and builds the value from them. Returns `None` if the files equal `known`.
    async fn look(
        self: Arc<Self>,
        known: Option<Arc<Contents>>,
    ) -> Result<Option<(Contents, T)>, Error> {
        let looked = tokio::task::spawn_blocking(move || {
            let read: Result<Contents, Error> =
                self.files.iter().map(|(key, file)| read(key, file)).collect();
            let read = read?;
            if known.is_some_and(|known| *known == read) {
                return Ok(None);
            }
            let value = (self.make)(&read)?;
            Ok(Some((read, value)))
        });
        let panicked = |panic| Error::internal("reading files panicked").with_source(panic);
        looked.await.map_err(panicked)?
    }
}

async fn follow<T, F>(
    source: Arc<Source<F>>,
    mut known: Arc<Contents>,
    target: Weak<RwLock<Arc<T>>>,
) where
    T: Send + 'static,
    F: Fn(&[Vec<u8>]) -> Result<T, Error> + Send + Sync + 'static,
{
    let what = source.what;
    let mut complained = false;
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(target) = target.upgrade() else { return };
        match Arc::clone(&source).look(Some(Arc::clone(&known))).await {
            Ok(None) => complained = false,
            Ok(Some((read, value))) => {
                (known, complained) = (Arc::new(read), false);
                *target.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
                tracing::info!(what, "files were read anew");
            }
            // Files are renewed one after the other, so they may fit together only after the last.
            Err(error) => {
                if !complained {
                    let error = error.chain();
                    tracing::warn!(what, error, "files cannot be used; what was read before holds");
                }
                complained = true;
            }
        }
    }
}

/// Reads the file that the configuration key `key` names.
pub(crate) fn read(key: &str, file: &Path) -> Result<Vec<u8>, Error> {
    let unreadable = |problem: String| {
        let problem = format!("expected a readable file, got `{}`: {problem}", file.display());
        Error::invalid(key, problem)
    };
    let size = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if size > FILE_BYTES {
        return Err(unreadable(format!("it has {size} bytes, more than {FILE_BYTES}")));
    }
    std::fs::read(file).map_err(|error| unreadable(error.to_string()))
}
