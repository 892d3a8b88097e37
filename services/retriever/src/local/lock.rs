//! The lock that admits one process per data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use clew_core::{Error, ErrorKind};

/// Lock on a data directory. It is held until it is dropped or the process ends in any way.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Locks the directory, creating it if it is missing.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WrongState`] if another process holds the lock, and
    /// [`ErrorKind::Unavailable`] if the directory cannot be created or written.
    pub fn acquire(directory: &Path) -> Result<Self, Error> {
        let unusable = |error: std::io::Error| {
            let problem = format!(
                "the data directory cannot be used ({}); check that it can be made and written",
                error.kind()
            );
            Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem).with_source(error)
        };
        std::fs::create_dir_all(directory).map_err(unusable)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(directory.join("LOCK"))
            .map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::new(
                ErrorKind::WrongState,
                "DATA_DIRECTORY_IN_USE",
                "another process works on this data directory; stop it, or speak to it with --endpoint",
            )),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_refused_until_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let first = DirectoryLock::acquire(folder.path()).unwrap();
        let refused = DirectoryLock::acquire(folder.path()).unwrap_err();
        assert_eq!(refused.reason(), "DATA_DIRECTORY_IN_USE");
        drop(first);
        assert!(DirectoryLock::acquire(folder.path()).is_ok());
    }
}
