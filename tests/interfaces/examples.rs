//! Tests of the programs in `examples`: each runs as a process against a server, as its reader
//! would run it, with the real embedding model.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Home, Ran, Server};

/// Files from which the Python example generates its client, as `examples/python/README.md` says.
const PROTOS: [&str; 5] = [
    "clew/chat/v1/chat.proto",
    "clew/corpus/v1/corpus.proto",
    "clew/ingest/v1/attribute.proto",
    "clew/ingest/v1/ingest.proto",
    "clew/query/v1/query.proto",
];

#[test]
fn the_rust_examples_ingest_files_and_answer_from_them() {
    let home = Home::new();
    let server = serve(&home);
    home.write("river.md", "# The house\n\nBohumil the ferryman lives in the old house.");
    home.write("backups.txt", "Backups are kept for thirty days. They are made every night.");
    home.write("empty.txt", "");
    let ingest = ["--corpus", "handbook", "river.md", "backups.txt", "empty.txt"];
    let first = run(&home, &server, "ingest", &ingest);
    assert_eq!(first.code, Some(0), "{first:?}");
    for line in ["river.md: version ", "backups.txt: version ", "empty.txt: refused, "] {
        assert!(first.stdout.contains(line), "no `{line}` in {first:?}");
    }
    assert!(first.stdout.ends_with("2 of 2 documents can be found\n"), "{first:?}");
    let again = run(&home, &server, "ingest", &ingest);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("river.md: unchanged\nbackups.txt: unchanged\n"), "{again:?}");

    let ask = |question| run(&home, &server, "ask", &["--corpus", "handbook", question]);
    let answered = ask("How long are backups kept?");
    assert_eq!(answered.code, Some(0), "{answered:?}");
    let (answer, citations) = answered.stdout.split_once('\n').unwrap();
    assert!(answer.contains("thirty days"), "{answered:?}");
    assert!(citations.contains("  backups.txt ["), "{answered:?}");
    assert!(answered.stderr.contains("confidence "), "{answered:?}");
    let absent = ask("Who won the chess tournament in Reykjavik?");
    assert_eq!(absent.code, Some(0), "{absent:?}");
    assert!(absent.stdout.starts_with("not in memory\n"), "{absent:?}");
}

#[test]
fn the_rust_examples_say_what_went_wrong() {
    let home = Home::new();
    let server = home.serve();
    let absent = run(&home, &server, "ask", &["--corpus", "nowhere", "Who is there?"]);
    assert_eq!(absent.code, Some(1), "{absent:?}");
    assert!(absent.stderr.contains("error: ") && absent.stderr.contains("`nowhere`"), "{absent:?}");
    assert!(!absent.stderr.contains("later"), "{absent:?}");
    let unread = run(&home, &server, "ingest", &["--corpus", "handbook", "absent.txt"]);
    assert_eq!(unread.code, Some(1), "{unread:?}");
    assert!(unread.stderr.contains("cannot read `absent.txt`"), "{unread:?}");

    let endpoint = server.endpoint.clone();
    assert!(server.terminate().success());
    let mut away = example(&home, "ask");
    away.args(["--endpoint", &endpoint, "--corpus", "handbook", "Who is there?"]);
    let away = Ran::of(away);
    assert_eq!(away.code, Some(1), "{away:?}");
    assert!(away.stderr.ends_with("the same question may be answered later\n"), "{away:?}");
}

#[test]
fn the_rust_example_remembers_recalls_and_forgets() {
    let home = Home::new();
    let server = serve(&home);
    let question = "What is my cat called?";
    let of = ["--corpus", "chats", "--user", "ada", "--question", question];
    let said = ["I moved to Athens.", "My cat is called Ariadne.", "It rained all day."];
    let remembered = run(&home, &server, "remember", &[&of[..], &said].concat());
    assert_eq!(remembered.code, Some(0), "{remembered:?}");
    assert!(remembered.stdout.starts_with("3 turns are remembered\n"), "{remembered:?}");
    assert!(remembered.stdout.contains("\ntoday: My cat is called Ariadne.\n"), "{remembered:?}");
    let forgotten = run(&home, &server, "remember", &[&of[..], &["--forget"], &said].concat());
    assert_eq!(forgotten.code, Some(0), "{forgotten:?}");
    let receipt = "3 turns are forgotten; verified: true\n";
    assert!(forgotten.stdout.ends_with(receipt), "{forgotten:?}");
    let listed = home.run_at(&server, &["chat", "list", "--corpus", "chats", "--user", "ada"]);
    assert!(listed.code == Some(0) && !listed.stdout.contains("Ariadne"), "{listed:?}");
}

#[test]
fn the_python_example_remembers_over_conversations() {
    let home = Home::new();
    let server = serve(&home);
    let modules = home.path("modules");
    std::fs::create_dir(&modules).unwrap();
    let mut generate = Command::new(interpreter());
    generate.args(["-m", "grpc_tools.protoc"]).args(PROTOS);
    generate.arg("--proto_path").arg(workspace().join("proto"));
    for out in ["--python_out", "--grpc_python_out"] {
        generate.arg(out).arg(&modules);
    }
    let generated = Ran::of(generate);
    assert_eq!(generated.code, Some(0), "{generated:?}");

    let converse = |said: &str| {
        home.write("said.txt", said);
        // A shell, because the harness runs commands without standard input.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" < said.txt", "sh"]).arg(interpreter());
        command.arg(workspace().join("examples/python/assistant.py"));
        command.args(["--endpoint", server.endpoint.trim_start_matches("http://")]);
        command.env("PYTHONPATH", &modules).env("PYTHONDONTWRITEBYTECODE", "1");
        home.settle(&mut command);
        let ran = Ran::of(command);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    assert_eq!(converse("I moved to Athens because of the museum.\n"), "That is new to me.\n");
    let replies = converse("Which city did I move to?\nI like the museum.\n");
    assert!(replies.contains("Athens"), "{replies}");
    assert!(replies.lines().last().unwrap().starts_with("You once said: "), "{replies}");
}

#[test]
fn the_python_example_names_the_files_and_the_versions_that_are_tested() {
    let read = |path: &str| std::fs::read_to_string(workspace().join(path)).unwrap();
    let readme = read("examples/python/README.md");
    for proto in PROTOS {
        assert!(readme.contains(proto), "examples/python/README.md does not name {proto}");
    }
    let tested = read("tests/python/requirements.txt");
    let tested: Vec<&str> = tested.lines().collect();
    for line in read("examples/python/requirements.txt").lines() {
        let is_tested = line.starts_with('#') || tested.contains(&line);
        assert!(is_tested, "tests/python/requirements.txt has no line `{line}`");
    }
}

/// Starts a server with the model that `make setup` installs.
fn serve(home: &Home) -> Server {
    let mut command = home.clew();
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg("--data-dir").arg(home.data_dir());
    command.arg("--model").arg(workspace().join(".cache/models/all-MiniLM-L6-v2"));
    Server::start(command)
}

/// Runs a Rust example against a server.
fn run(home: &Home, server: &Server, name: &str, arguments: &[&str]) -> Ran {
    let mut command = example(home, name);
    command.args(["--endpoint", &server.endpoint]).args(arguments);
    Ran::of(command)
}

/// Returns a command that runs a Rust example in the folder of the test. Cargo puts examples beside
/// the folder of the tests, and tells only the tests of their own package where they are.
fn example(home: &Home, name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().with_file_name("examples");
    let program = built.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(
        program.exists(),
        "there is no {}; run `cargo build --workspace --examples` to build it",
        program.display()
    );
    let mut command = Command::new(program);
    home.settle(&mut command);
    command
}

/// Returns the Python of the environment in which the packages of the examples are.
fn interpreter() -> PathBuf {
    let interpreter = workspace().join(".cache/python/bin/python");
    assert!(
        interpreter.exists(),
        "there is no Python environment for the test; run `make setup` to make it"
    );
    interpreter
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
