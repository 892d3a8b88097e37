//! A client in another language, made from the proto files alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::create;
use crate::harness::{Home, Ran};

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_made_from_the_proto_files_does_it_all() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let home = Home::new();
    let server = home.serve();
    // Python makes a corpus of its own, too; this one has short chunks.
    create(&server.client().await, "notes").await;

    let mut client = Command::new(interpreter(&workspace));
    client.arg(workspace.join("tests/python/client.py"));
    client.arg("--proto").arg(workspace.join("proto"));
    client.arg("--target").arg(server.endpoint.trim_start_matches("http://"));
    client.env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = Ran::of(client);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.ends_with("all is well\n"), "{}", ran.stdout);
}

/// The interpreter with the packages of `tests/python/requirements.txt`.
fn interpreter(workspace: &Path) -> PathBuf {
    let interpreter = workspace.join(".cache/python/bin/python");
    assert!(
        interpreter.exists(),
        "there is no Python environment for the test; run `make setup` to make it"
    );
    interpreter
}
