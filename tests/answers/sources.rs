//! Tests of named sources of `clew ingest`: files and objects of which only what has changed is
//! read, documents that go with their files, and parts that divide a source.

use std::process::Command;
use std::sync::Arc;

use clew_index::ObjectStoreSettings;
use clew_testkit::S3Server;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use serde_json::Value;

use crate::client::{corpus, id, states, text_of};
use crate::harness::{Home, Ran, Server};

const PLACE: &str = "s3://clew-test/wiki";

/// A bucket, and a server that does not know it.
struct Setting {
    home: Home,
    bucket: S3Server,
    objects: Arc<dyn ObjectStore>,
    server: Server,
}

impl Setting {
    async fn start(start: fn() -> std::io::Result<S3Server>) -> Self {
        let home = Home::new();
        let bucket = tokio::task::spawn_blocking(move || start().unwrap()).await.unwrap();
        let settings: serde_json::Map<String, Value> = bucket
            .environment_of("")
            .into_iter()
            .map(|(key, value)| match value.as_str() {
                "true" => (key.to_lowercase(), Value::Bool(true)),
                _ => (key.to_lowercase(), Value::String(value)),
            })
            .collect();
        let settings: ObjectStoreSettings = serde_json::from_value(settings.into()).unwrap();
        let objects = settings.open("clew-test").unwrap();
        let server = home.serve();
        Self { home, bucket, objects, server }
    }

    async fn put(&self, key: &str, content: impl Into<String>) {
        let payload = PutPayload::from(content.into().into_bytes());
        self.objects.put(&Path::parse(key).unwrap(), payload).await.unwrap();
    }

    async fn delete(&self, key: &str) {
        self.objects.delete(&Path::parse(key).unwrap()).await.unwrap();
    }

    fn command(&self, source: &str, arguments: &[&str]) -> Command {
        let mut command = self.home.clew();
        command.args(["ingest", "--endpoint", &self.server.endpoint, "--corpus", "wiki", "--json"]);
        command.args(["--source", source]).args(arguments);
        command.envs(self.bucket.environment_of("CLEW_INGEST__S3__"));
        command
    }

    async fn ran(&self, arguments: &[&str]) -> Ran {
        self.ran_of("wiki", arguments).await
    }

    async fn ran_of(&self, source: &str, arguments: &[&str]) -> Ran {
        let command = self.command(source, arguments);
        tokio::task::spawn_blocking(move || Ran::of(command)).await.unwrap()
    }

    async fn ingest(&self, arguments: &[&str]) -> Value {
        self.ran(arguments).await.done()
    }

    /// Returns the ids of all documents.
    async fn ids(&self) -> Vec<String> {
        let client = self.server.client().await;
        states(&client, &corpus("wiki")).await.into_keys().collect()
    }

    async fn text(&self, document: &str) -> String {
        let client = self.server.client().await;
        text_of(&client, &corpus("wiki"), &id(document)).await
    }
}

/// Returns the numbers of documents that a run reports as new, replaced, unchanged and forgotten,
/// and the number of files that were not read.
fn taken(report: &Value) -> [u64; 5] {
    ["new", "replaced", "unchanged", "forgotten", "known_files"]
        .map(|of| report[of].as_u64().unwrap_or_else(|| panic!("{report}")))
}

fn reads(report: &Value) -> u64 {
    report["storage_requests"]["get"].as_u64().unwrap()
}

fn row(id: &str, text: &str) -> String {
    format!("{{\"id\": \"{id}\", \"text\": \"{text}\"}}\n")
}

async fn a_source_is_read_once(start: fn() -> std::io::Result<S3Server>) {
    let setting = Setting::start(start).await;
    setting.put("wiki/a.md", "The ferry of Bohumil leaves at nine.").await;
    setting.put("wiki/deep/b.txt", "Quirin conducts the night train.").await;
    setting
        .put("wiki/rows.jsonl", row("r1", "One.") + &row("r2", "Two.") + &row("r3", "Three."))
        .await;
    setting.put("wiki/picture.png", "no text").await;
    setting.put("wikipedia/other.md", "Below another prefix.").await;
    let first = setting.ingest(&[PLACE]).await;
    assert_eq!(taken(&first), [5, 0, 0, 0, 0]);
    // Each file is read once for the estimate and once to be sent.
    assert_eq!((first["unknown_files"].as_u64(), reads(&first)), (Some(1), 6));
    assert_eq!(setting.ids().await, ["a.md", "deep/b.txt", "r1", "r2", "r3"]);

    let second = setting.ingest(&[PLACE, "--delete-missing"]).await;
    assert_eq!((taken(&second), reads(&second)), ([0, 0, 0, 0, 3], 0));
    // With another label, the same files give other documents.
    let labelled = setting.ingest(&[PLACE, "--attribute", "team=harbour"]).await;
    assert_eq!(taken(&labelled), [0, 5, 0, 0, 0]);
    setting.ingest(&[PLACE]).await;

    setting.put("wiki/deep/b.txt", "Quirin sleeps.").await;
    setting
        .put("wiki/rows.jsonl", row("r1", "One.") + &row("r2", "Two more.") + &row("r4", "Four."))
        .await;
    setting.put("wiki/new.md", "Something new.").await;
    setting.delete("wiki/a.md").await;
    let all = ["--delete-missing", "--delete-at-most", "2"];
    let third = setting.ingest(&[&[PLACE], &all[..]].concat()).await;
    // The first row carries the state of its file, so it is replaced as well.
    assert_eq!((taken(&third), reads(&third)), ([2, 3, 0, 2, 0], 6));
    assert_eq!(setting.ids().await, ["deep/b.txt", "new.md", "r1", "r2", "r4"]);
    assert_eq!(setting.text("deep/b.txt").await, "Quirin sleeps.");
    assert_eq!(setting.text("r2").await, "Two more.");

    // Documents of others are not looked at, and too many are not forgotten at once.
    let other = setting.home.write("other.md", "From a folder.");
    let mut from_folder = setting.home.clew();
    from_folder.args(["ingest", "--endpoint", &setting.server.endpoint, "--corpus", "wiki"]);
    from_folder.args(["--json", "--root", other.parent().unwrap().to_str().unwrap()]).arg(&other);
    Ran::of(from_folder).done();
    for key in ["wiki/new.md", "wiki/rows.jsonl"] {
        setting.delete(key).await;
    }
    let refused = setting.ran(&[PLACE, "--delete-missing", "--delete-at-most", "50%"]).await;
    let error = refused.error()["message"].to_string();
    assert!(error.contains("at most 2 of the 5") && error.contains("got 4"), "{error}");
    assert_eq!(setting.ids().await.len(), 6);
    let last = setting.ingest(&[PLACE, "--delete-missing", "--delete-at-most", "80%"]).await;
    assert_eq!(taken(&last), [0, 0, 0, 4, 1]);
    assert_eq!(setting.ids().await, ["deep/b.txt", "other.md"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_has_changed_in_a_bucket_is_read_again_and_what_vanished_is_forgotten() {
    a_source_is_read_once(S3Server::start).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_has_changed_is_read_again_from_a_server_that_verifies_signatures() {
    a_source_is_read_once(S3Server::start_strict).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_named_and_nothing_is_forgotten_by_mistake() {
    let setting = Setting::start(S3Server::start).await;
    setting.put("wiki/a.md", "The ferry of Bohumil leaves at nine.").await;
    setting.put("wiki/z.md", "The last by name.").await;
    setting.ingest(&[PLACE]).await;
    // The mocked server takes keys that no path has.
    setting.bucket.put_raw("wiki//b.md", "Nobody can ask for it.").unwrap();
    setting.put("wiki/empty.md", "").await;
    setting.put("wiki/odd.parquet", "no table").await;
    setting.put("wiki/rows.jsonl", row("r1", "One.") + "broken\n").await;
    let ran = setting.ran(&[PLACE, "--delete-missing"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = ran.json();
    let places: Vec<&str> = report["unreadable"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["place"].as_str().unwrap())
        .collect();
    for place in ["wiki//b.md", "empty.md", "odd.parquet", "rows.jsonl:2"] {
        assert!(places.contains(&place), "{place}: {places:?}");
    }
    assert_eq!(report["known_files"], 2);

    // A bucket that cannot be listed has not lost its objects.
    let absent = ["s3://clew-absent/wiki", "--delete-missing", "--delete-at-most", "100%"];
    let ran = setting.ran(&absent).await;
    let error = ran.error()["message"].to_string();
    assert!(error.contains("could not be listed"), "{error}");
    assert_eq!(setting.ids().await, ["a.md", "r1", "z.md"]);

    // Documents of a source are not replaced by those of another one.
    setting.put("archive/a.md", "The same key below another prefix.").await;
    let ran = setting.ran_of("archive", &["s3://clew-test/archive"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let problem = ran.json()["unreadable"][0]["problem"].to_string();
    assert!(problem.contains("from another source, got one from `wiki`"), "{problem}");
    assert_eq!(setting.text("a.md").await, "The ferry of Bohumil leaves at nine.");
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_divide_a_source_and_the_last_of_them_forgets_what_vanished() {
    let setting = Setting::start(S3Server::start).await;
    for number in 0..12 {
        setting.put(&format!("wiki/{number}.md"), format!("Number {number} of the files.")).await;
    }
    let part = async |index: u32, run: &str| {
        let part = format!("{index}/3");
        let all = ["--delete-missing", "--delete-at-most", "5", "--part", &part, "--run", run];
        setting.ingest(&[&[PLACE], &all[..]].concat()).await
    };
    let mut new = 0;
    for index in 0..3 {
        new += taken(&part(index, "first").await)[0];
    }
    assert_eq!((new, setting.ids().await.len()), (12, 12));
    let run = ["run", "show", "--corpus", "wiki", "first", "--json"];
    let run = setting.home.run_at(&setting.server, &run).done();
    assert_eq!(run["stage"], "done", "{run}");

    for number in [3, 4, 5] {
        setting.delete(&format!("wiki/{number}.md")).await;
    }
    let forgotten: Vec<u64> =
        [part(2, "second").await, part(0, "second").await, part(1, "second").await]
            .iter()
            .map(|report| taken(report)[3])
            .collect();
    assert_eq!(forgotten, [0, 0, 3]);
    assert_eq!(setting.ids().await.len(), 9);

    // Without a run, nobody knows when all parts have listed.
    let refused = setting.ran(&[PLACE, "--delete-missing", "--part", "0/3"]).await;
    assert!(refused.error()["message"].to_string().contains("--run"));
    let mut indexed = setting.command("wiki", &[PLACE, "--parts", "3"]);
    indexed.env("JOB_COMPLETION_INDEX", "1");
    assert_eq!(Ran::of(indexed).done()["new"], 0);
}

#[test]
fn a_folder_is_a_source_too() {
    let home = Home::new();
    home.write("notes/a.md", "The ferry of Bohumil leaves at nine.");
    home.write("notes/b.md", "Quirin conducts the night train.");
    let list = home.write("list", "notes/b.md\n\n");
    let list = list.to_str().unwrap();
    let ingest = |arguments: &[&str]| {
        let begin = ["ingest", "--corpus", "notes", "--source", "disk", "--json"];
        home.run_embedded(&[&begin[..], arguments].concat()).done()
    };
    assert_eq!(taken(&ingest(&["notes/a.md", "--paths-from", list])), [2, 0, 0, 0, 0]);
    assert_eq!(taken(&ingest(&["notes"])), [0, 0, 0, 0, 2]);
    home.write("notes/b.md", "Quirin sleeps.");
    std::fs::remove_file(home.path("notes/a.md")).unwrap();
    let all = ["notes", "--delete-missing", "--delete-at-most", "1"];
    assert_eq!(taken(&ingest(&all)), [0, 1, 0, 1, 0]);
}
