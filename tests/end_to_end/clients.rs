//! Tests with clients that others wrote. `make clients` installs them and runs these tests.

use std::path::Path;
use std::process::Command;

use crate::client::{create, document, remember};
use crate::harness::{Home, Ran};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the packages that `make clients` installs"]
async fn clients_of_connect_and_grpc_web_are_answered() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, vec![document("bees", "The plan is to keep bees.")]).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients");
    let mut command = Command::new("node");
    command.arg(folder.join("connect.mjs")).arg(server.http() + "/api");
    let ran = Ran::of(command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.matches(": done").count(), 3, "{ran:?}");
}
