//! Tests of clients in another language: one made from the proto files alone, and the package of
//! `clients/python`.

use crate::client::create;
use crate::harness::{Home, PATIENCE, Ran};
use crate::other_models::published_model;
use crate::scripts::{interpreter, script, workspace};

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
    tests.env("PROGRAM_UNDER_TEST", env!("CARGO_BIN_EXE_clew")).env("MODEL_DIR", published_model());
    for command in [install, tests] {
        // A suite of more than two hundred tests.
        let ran = Ran::within(5 * PATIENCE, command);
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    }
}
