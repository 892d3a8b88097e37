//! Scripts in Python, with the packages of `.cache/python`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a command that runs a script of `tests/python` with the packages of its
/// `requirements.txt`.
pub fn script(name: &str) -> Command {
    python(&format!("tests/python/{name}"))
}

/// Returns a command that runs a script of the workspace with the packages of `.cache/python`.
pub fn python(path: &str) -> Command {
    let mut command = interpreter();
    command.arg(workspace().join(path));
    command
}

/// Returns a command that runs the Python of `.cache/python`.
pub fn interpreter() -> Command {
    let interpreter = workspace().join(".cache/python/bin/python");
    assert!(
        interpreter.exists(),
        "there is no Python environment for the test; run `make setup` to make it"
    );
    let mut command = Command::new(interpreter);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Returns the folder of the repository.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
