//! Test of a client in another language, made from the proto files alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::create;
use crate::harness::{Home, Ran};

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_made_from_the_proto_files_does_it_all() {
    let home = Home::new();
    let server = home.serve();
    // The Python client also creates a corpus of its own. This one has short chunks.
    create(&server.client().await, "notes").await;

    let mut client = script("client.py");
    client.arg("--proto").arg(workspace().join("proto"));
    client.arg("--target").arg(server.endpoint.trim_start_matches("http://"));
    let ran = Ran::of(client);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.ends_with("all is well\n"), "{}", ran.stdout);
}

/// Returns a command that runs a script of `tests/python` with the packages of its
/// `requirements.txt`.
pub fn script(name: &str) -> Command {
    python(&format!("tests/python/{name}"))
}

/// Returns a command that runs a script of the workspace with the packages of `.cache/python`.
pub fn python(path: &str) -> Command {
    let interpreter = workspace().join(".cache/python/bin/python");
    assert!(
        interpreter.exists(),
        "there is no Python environment for the test; run `make setup` to make it"
    );
    let mut command = Command::new(interpreter);
    command.arg(workspace().join(path)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
