//! Tests of problems that keep a server from starting: it ends at once, with a message that names
//! the fault, and has touched nothing.

use std::path::Path;
use std::process::Command;

use crate::harness::{Home, Server};

/// Fails unless `command` ends with status 1 and a message that contains all of `words`.
fn assert_refused(command: Command, words: &[&str]) {
    let shown = format!("{command:?}");
    let Err(ended) = Server::try_start(command) else { panic!("it serves: {shown}") };
    assert_eq!(ended.status.code(), Some(1), "{shown}: {}", ended.log);
    for word in words {
        assert!(ended.log.contains(word), "{shown}: `{word}` is not in\n{}", ended.log);
    }
    assert!(!ended.log.contains("panicked"), "{shown}: {}", ended.log);
}

#[test]
fn a_broken_model_folder_is_refused_by_the_file() {
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    let cut = |path: &Path| {
        let content = std::fs::read(path).unwrap();
        std::fs::write(path, &content[..content.len() / 2]).unwrap();
    };
    let garble = |path: &Path| std::fs::write(path, b"\xFF\x00 not at all").unwrap();
    let files = [
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
        "tokenizer.json",
        "model.safetensors",
    ];
    for file in files {
        for damage in [&remove as &dyn Fn(&Path), &cut, &garble] {
            let home = Home::new();
            damage(&home.model().join(file));
            assert_refused(home.serve_command(), &["error: ", file, "expected"]);
            assert!(!home.data_dir().exists(), "the data directory was made before the check");
        }
    }
}

#[test]
fn a_folder_without_a_model_is_refused() {
    let home = Home::new();
    std::fs::remove_dir_all(home.model()).unwrap();
    assert_refused(home.serve_command(), &["modules.json"]);
    let ran = home.run_embedded(&["status", "--json"]);
    let error = ran.error();
    assert_eq!(error["reason"], "INVALID_INPUT", "{ran:?}");
    assert!(error["violations"][0]["field"].as_str().unwrap().contains("model"), "{ran:?}");
    assert!(!home.data_dir().exists());
}

#[test]
fn a_wrong_configuration_is_refused_by_the_key() {
    for (text, words) in [
        ("data_directory = 'x'", &["data_directory"][..]),
        ("[retreiver]\nsearches = 1", &["retreiver"]),
        ("[retriever]\nsearchs = 1", &["searchs"]),
        ("[retriever]\nsearches = 'many'", &["retriever.searches", "many"]),
        ("[cluster]\nheartbeat = 100", &["cluster.heartbeat"]),
        ("[cluster]\nheartbeat_ms = 'often'", &["cluster.heartbeat_ms", "often"]),
        ("[retriever]\nsearches = 0", &["retriever.searches", "1 to 10000"]),
        ("[gateway]\ningest_window = 1000000", &["gateway.ingest_window", "1 to 10000"]),
        ("[encoder]\nprecision = 'float7'", &["precision", "float7"]),
        ("shutdown_secs = 0", &["shutdown_secs"]),
        ("not = = toml", &["config"]),
    ] {
        let home = Home::new();
        let file = home.write("clew.toml", text);
        let mut command = home.serve_command();
        command.arg("--config").arg(file);
        assert_refused(command, words);
        assert!(!home.data_dir().exists(), "{text}");
    }
}

#[test]
fn a_wrong_environment_or_a_missing_file_is_refused_by_name() {
    let home = Home::new();
    let mut command = home.serve_command();
    command.env("CLEW_RETREIVER__SEARCHES", "1");
    assert_refused(command, &["retreiver"]);
    let mut command = home.serve_command();
    command.env("CLEW_RETRIEVER__SEARCHES", "0");
    assert_refused(command, &["retriever.searches"]);
    let mut command = home.serve_command();
    command.args(["--config", "absent.toml"]);
    assert_refused(command, &["absent.toml"]);
    assert!(!home.data_dir().exists());
}

#[test]
fn an_address_that_is_taken_or_none_is_refused() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_address = taken.local_addr().unwrap().to_string();
    for address in [taken_address.as_str(), "nowhere", "127.0.0.1:notaport"] {
        let mut command = home.clew();
        command.args(["serve", "--listen", address]);
        command.arg("--data-dir").arg(home.data_dir()).arg("--model").arg(home.model());
        assert_refused(command, &[address]);
        assert!(!home.data_dir().exists(), "{address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_a_data_directory_is_refused_until_the_first_is_gone() {
    let home = Home::new();
    let server = home.serve();
    super::furnish(&server.client().await).await;
    assert_refused(home.serve_command(), &["another process", "--endpoint"]);
    for arguments in [
        &["status", "--json"][..],
        &["corpus", "create", "new", "--json"],
        &["forget", "--corpus", "notes", "--document", "kept-0", "--json"],
        &["search", "--corpus", "notes", "cat", "--json"],
    ] {
        let ran = home.run_embedded(arguments);
        assert_eq!(ran.error()["reason"], "DATA_DIRECTORY_IN_USE", "{ran:?}");
    }
    super::assert_furnished(&server.client().await).await;
    assert!(server.terminate().success());
    assert_eq!(home.run_embedded(&["status", "--json"]).done()["corpora"][0]["documents"], 3);
}
