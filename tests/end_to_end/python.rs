//! Tests of clients in another language: one made from the proto files alone, and the package of
//! `clients/python`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::answers_in_words::model;
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

#[test]
fn the_python_package_passes_its_tests() {
    let (home, package) = (Home::new(), workspace().join("clients/python"));
    let installed = home.path("installed");
    // Not into the environment, where it would hide the modules that other clients generate.
    let mut install = interpreter();
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]);
    install.arg("--target").arg(&installed).arg(&package);
    let mut tests = interpreter();
    tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]).arg(package.join("tests"));
    tests.current_dir(&package).env("PYTHONPATH", &installed);
    tests.env("PROGRAM_UNDER_TEST", env!("CARGO_BIN_EXE_clew")).env("MODEL_DIR", model());
    for command in [install, tests] {
        let ran = Ran::of(command);
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    }
}

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

fn interpreter() -> Command {
    let interpreter = workspace().join(".cache/python/bin/python");
    assert!(
        interpreter.exists(),
        "there is no Python environment for the test; run `make setup` to make it"
    );
    let mut command = Command::new(interpreter);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
