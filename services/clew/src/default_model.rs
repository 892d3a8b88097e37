//! The default embedding model: where it is looked for, and how it is fetched if it is nowhere.
//!
//! A program that was installed as a Python package has a script in place of the model, which is
//! too large for such a package. A user's first command that needs the model runs it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clew_core::{Error, ErrorKind};
use tokio::process::Command;

/// Place of the model after `make setup`, below the folder of the workspace.
const OF_SETUP: &str = ".cache/models/all-MiniLM-L6-v2";
/// Place of the model after `make install`, below the folder whose `bin` holds the program.
const OF_INSTALL: &str = "share/clew/model";
/// Place of a fetched model, below the user's cache folder.
const FETCHED: &str = "clew/all-MiniLM-L6-v2";
/// Place of the script that fetches the model, below the folder whose `bin` holds the program.
const SCRIPT: &str = "share/clew/fetch/model.py";
/// Maximum time of fetching, for 90 MB at 1 Mbit/s.
const PATIENCE: Duration = Duration::from_secs(900);
/// Time that the script has for giving up by itself, before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Returns the folder of the default model: the one that `make setup` installed in the workspace of
/// the current folder or of this program, that `make install` installed with this program, or that
/// was fetched. If there is none, fetches it if `may_fetch` allows.
///
/// # Errors
/// Returns [`ErrorKind::WrongState`] if the model is missing and is not to be fetched, and
/// [`ErrorKind::Unavailable`] if it could not be fetched.
pub async fn folder(may_fetch: bool) -> Result<PathBuf, Error> {
    let places = Places::of_this_process();
    match places.find() {
        Some(folder) => Ok(folder),
        None => places.fetch(may_fetch).await,
    }
}

/// Paths by which the model is found.
struct Places {
    current_folder: Option<PathBuf>,
    program: Option<PathBuf>,
    caches: Option<PathBuf>,
}

impl Places {
    fn of_this_process() -> Self {
        // Installers of Python programs make links to them.
        let program = std::env::current_exe().and_then(|program| program.canonicalize());
        let current_folder = std::env::current_dir();
        Self {
            current_folder: current_folder.ok(),
            program: program.ok(),
            caches: dirs::cache_dir(),
        }
    }

    /// Returns the first folder that has the model.
    fn find(&self) -> Option<PathBuf> {
        let starts = self.current_folder.iter().chain(&self.program);
        let workspaces = starts.flat_map(|path| path.ancestors());
        let of_setup = workspaces.map(|workspace| workspace.join(OF_SETUP));
        let of_install = self.prefix().map(|prefix| prefix.join(OF_INSTALL));
        let mut candidates = of_setup.chain(of_install).chain(self.fetched());
        candidates.find(|folder| has_model(folder))
    }

    /// Returns the folder whose `bin` holds the program.
    fn prefix(&self) -> Option<&Path> {
        self.program.as_deref()?.parent()?.parent()
    }

    /// Returns the place of a fetched model.
    fn fetched(&self) -> Option<PathBuf> {
        self.caches.as_ref().map(|caches| caches.join(FETCHED))
    }

    /// Runs the script, which tells on standard error what it does, and returns the folder that it
    /// filled.
    async fn fetch(&self, may_fetch: bool) -> Result<PathBuf, Error> {
        let prefix = self.prefix().filter(|prefix| prefix.join(SCRIPT).is_file());
        let Some(prefix) = prefix else {
            return Err(missing("run `make setup` or `make install`"));
        };
        if !may_fetch {
            return Err(missing("set `encoder.fetch_model` to true"));
        }
        let Some(folder) = self.fetched() else {
            return Err(missing("set HOME to a folder for it"));
        };
        let beside = prefix.join("bin/python3");
        let python = if beside.is_file() { beside } else { PathBuf::from("python3") };
        let mut script = Command::new(python);
        script.arg(prefix.join(SCRIPT)).arg(&folder);
        script.arg("--patience").arg(PATIENCE.as_secs().to_string());
        // Standard input and output are an agent's, or a result's.
        script.stdin(Stdio::null()).stdout(std::io::stderr()).kill_on_drop(true);
        match tokio::time::timeout(PATIENCE + GRACE, script.status()).await {
            Ok(Ok(status)) if status.success() && has_model(&folder) => Ok(folder),
            Ok(Ok(_)) => Err(not_fetched("the cause is above")),
            Ok(Err(error)) => Err(not_fetched("`python3` does not run").with_source(error)),
            Err(_elapsed) => Err(not_fetched("it took too long")),
        }
    }
}

/// Returns whether the folder holds a model.
fn has_model(folder: &Path) -> bool {
    folder.join("config.json").is_file()
}

fn missing(advice: &str) -> Error {
    let problem = format!(
        "no embedding model was found; {advice}, or name a folder with --model or CLEW_MODEL_DIR"
    );
    Error::new(ErrorKind::WrongState, "BROKEN_MODEL", problem)
}

fn not_fetched(cause: &str) -> Error {
    let problem = format!(
        "the embedding model could not be fetched ({cause}); try again, or name a folder that holds it with --model or \
         CLEW_MODEL_DIR"
    );
    Error::new(ErrorKind::Unavailable, "MODEL_NOT_FETCHED", problem)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A program with a script, in a folder without anything else.
    struct Installed {
        folder: TempDir,
    }

    impl Installed {
        /// Installs a program whose script has these lines of shell. `$1` is the folder to fill.
        fn with_script(lines: &str) -> Self {
            let installed = Self { folder: tempfile::tempdir().unwrap() };
            // The shell stands in for Python.
            let python = installed.path("prefix/bin/python3");
            std::fs::create_dir_all(python.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("/bin/sh", python).unwrap();
            installed.write(&format!("prefix/{SCRIPT}"), lines);
            installed
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let file = self.path(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }

        fn places(&self) -> Places {
            Places {
                current_folder: Some(self.path("elsewhere")),
                program: Some(self.path("prefix/bin/clew")),
                caches: Some(self.path("caches")),
            }
        }
    }

    const FILLS: &str = "mkdir -p \"$1\" && echo {} > \"$1/config.json\"\n";

    #[tokio::test]
    async fn a_fetched_model_is_found_from_then_on() {
        let installed = Installed::with_script(FILLS);
        let places = installed.places();
        assert_eq!(places.find(), None);
        let fetched = places.fetch(true).await.unwrap();
        assert_eq!(fetched, installed.path("caches").join(FETCHED));
        assert_eq!(places.find(), Some(fetched));

        // Those that others chose come first.
        for place in ["prefix/share/clew/model", "elsewhere/.cache/models/all-MiniLM-L6-v2"] {
            installed.write(&format!("{place}/config.json"), "{}");
            assert_eq!(places.find(), Some(installed.path(place)));
        }
    }

    #[tokio::test]
    async fn a_script_that_leaves_no_model_is_an_error() {
        for lines in ["exit 1", "mkdir -p \"$1\"; exit 1", "exit 0", &format!("{FILLS} exit 1")] {
            let installed = Installed::with_script(lines);
            let error = installed.places().fetch(true).await.unwrap_err();
            assert_eq!(error.reason(), "MODEL_NOT_FETCHED", "{lines}");
            assert!(error.message().contains("CLEW_MODEL_DIR"), "{}", error.message());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_that_does_not_end_is_left() {
        let installed = Installed::with_script("exec sleep 60");
        let error = installed.places().fetch(true).await.unwrap_err();
        assert!(error.message().contains("took too long"), "{}", error.message());
    }

    #[tokio::test]
    async fn nothing_is_fetched_without_a_script_or_against_the_configuration() {
        let installed = Installed::with_script(FILLS);
        let forbidden = installed.places().fetch(false).await.unwrap_err();
        assert!(forbidden.message().contains("encoder.fetch_model"), "{}", forbidden.message());
        std::fs::remove_file(installed.path("prefix").join(SCRIPT)).unwrap();
        let missing = installed.places().fetch(true).await.unwrap_err();
        assert_eq!(missing.reason(), "BROKEN_MODEL");
        assert!(missing.message().contains("make setup"), "{}", missing.message());
        assert_eq!(installed.places().find(), None);
    }
}
