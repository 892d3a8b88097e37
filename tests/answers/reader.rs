//! Tests of readers, in one process and between the roles of a cluster: what they make of answers,
//! what they cost, and what happens without one.

use std::path::PathBuf;
use std::process::Command;

use clew_proto::encoder::v1::DescribeReaderRequest;
use clew_proto::encoder::v1::encoder_service_client::EncoderServiceClient;
use clew_testkit::{write_tiny_bert, write_tiny_reader};
use serde_json::Value;

use crate::client::{create, document, remember};
use crate::harness::{Home, Ran, Server};
use crate::processes::Cluster;

/// Question, whose words the documents contain.
const QUESTION: &str = "who lives in the old house by the river?";

fn documents() -> Vec<clew_core::Document> {
    let text = |(i, word): (usize, &&str)| {
        document(&format!("d{i}"), format!("The {word} lives in the old house by the river."))
    };
    ["dog", "train", "tea"].iter().enumerate().map(text).collect()
}

/// Adapter of the tests' embedding model by which `dog` is the answer to any question.
struct Adapter {
    folder: tempfile::TempDir,
}

impl Adapter {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The same seed as that of every home.
        write_tiny_bert(folder.path(), 1).unwrap();
        let adapter = Self { folder };
        write_tiny_reader(adapter.folder.path(), &adapter.file(), &["dog"]).unwrap();
        adapter
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("reader.safetensors")
    }

    fn setting(&self) -> (&'static str, String) {
        ("CLEW_READER__ADAPTER", self.file().to_string_lossy().into_owned())
    }
}

fn ask(run: impl Fn(&[&str]) -> Ran) -> Value {
    run(&["ask", "--corpus", "notes", "--strategy", "direct", "--json", QUESTION]).done()
}

/// Asserts that the reader found the answer.
fn assert_read(answered: &Value) {
    assert_eq!(answered["outcome"], "answered", "{answered}");
    assert_eq!(answered["answer"].as_str().unwrap().to_lowercase(), "dog", "{answered}");
    assert!(answered["cost"]["reranked_tokens"].as_u64().unwrap() > 0, "{answered}");
}

/// Asserts that the answer quotes a sentence, and that no reader was paid for.
fn assert_quoted(answered: &Value) {
    assert_eq!(answered["outcome"], "answered", "{answered}");
    assert!(answered["answer"].as_str().unwrap().contains("by the river"), "{answered}");
    assert_eq!(answered["cost"]["reranked_tokens"], 0, "{answered}");
}

fn serve(home: &Home, settings: &[(&str, String)]) -> Server {
    let mut command = home.serve_command();
    command.envs(settings.iter().map(|(key, value)| (*key, value)));
    Server::start(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_reads_for_answers_if_its_reader_fits_and_quotes_otherwise() {
    let (home, adapter) = (Home::new(), Adapter::new());
    let server = serve(&home, &[adapter.setting()]);
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, documents()).await;
    assert_read(&ask(|arguments| home.run_at(&server, arguments)));
    let tokens = home.run_at(&server, &["ask", "--corpus", "notes", QUESTION]);
    assert!(tokens.stdout.contains(" read with the question"), "{tokens:?}");
    assert!(server.terminate().success());

    // The reader that comes with Clew has another base than the model of this home.
    let server = serve(&home, &[]);
    assert_quoted(&ask(|arguments| home.run_at(&server, arguments)));
    assert!(server.terminate().success());
    let off = ("CLEW_READER__ENABLED", "false".to_owned());
    let server = serve(&home, &[adapter.setting(), off]);
    assert_quoted(&ask(|arguments| home.run_at(&server, arguments)));
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_roles_of_a_cluster_read_with_the_reader_of_its_encoders() {
    let adapter = Adapter::new();
    let cluster = Cluster::start_with(1, vec![adapter.setting()]).await;
    let client = cluster.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, documents()).await;
    assert_read(&ask(|arguments| cluster.run(arguments)));
    assert_eq!(reader_of(&cluster).await.unwrap(), "clew-reader-1 on tiny");
    cluster.stop();

    let cluster = Cluster::start(1).await;
    let client = cluster.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, documents()).await;
    assert_quoted(&ask(|arguments| cluster.run(arguments)));
    assert_eq!(reader_of(&cluster).await.unwrap_err().reason(), "NO_READER");
    cluster.stop();
}

/// Asks the encoder of a cluster for its reader.
async fn reader_of(cluster: &Cluster) -> Result<String, clew_core::Error> {
    let mut encoder = EncoderServiceClient::connect(cluster.endpoint("encoder-0")).await.unwrap();
    let described = encoder.describe_reader(DescribeReaderRequest {}).await;
    described.map(|it| it.into_inner().model).map_err(|status| clew_proto::from_status(&status))
}

#[test]
fn the_doctor_says_whether_there_is_a_reader() {
    let (home, adapter) = (Home::new(), Adapter::new());
    let reader = |settings: &[(&str, String)]| {
        let mut command: Command = home.clew();
        command.args(["doctor", "--json", "--data-dir"]).arg(home.data_dir());
        command.arg("--model").arg(home.model());
        command.envs(settings.iter().map(|(key, value)| (*key, value)));
        let findings = Ran::of(command).json()["findings"].as_array().unwrap().clone();
        let found = findings.into_iter().find(|finding| finding["check"] == "reader").unwrap();
        (found["state"].as_str().unwrap().to_owned(), found["found"].as_str().unwrap().to_owned())
    };
    let (state, found) = reader(&[adapter.setting()]);
    assert!(state == "ok" && found.contains("clew-reader-1 on tiny"), "{state}: {found}");
    let (state, found) = reader(&[]);
    assert!(state == "ok" && found.contains("there is none"), "{state}: {found}");
    let missing = home.path("missing").to_string_lossy().into_owned();
    let (state, found) = reader(&[("CLEW_READER__ADAPTER", missing)]);
    assert!(state == "fail" && found.contains("reader.adapter"), "{state}: {found}");
    // The model that is named is not the base of the reader that comes with Clew.
    let model = home.model().to_string_lossy().into_owned();
    let (state, found) = reader(&[("CLEW_READER__MODEL", model)]);
    assert!(state == "fail" && found.contains("reader.model"), "{state}: {found}");
}
