//! Tests of a full disk: new documents are refused, accepted ones stay, and when there is room
//! again the server continues by itself.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Holdings, assert_furnished, furnish};
use crate::client::{accept, by_words, corpus, document, idle, send};
use crate::harness::{Home, Server, eventually};
use crate::words::{text_with, word};

/// Size of the small disk: enough for the corpus with its indexes and some more.
const DISK: &str = "size=32m";

/// Way of running out of room.
enum Shortage {
    /// A small disk that is filled up: writes fail with ENOSPC.
    SmallDisk(PathBuf),
    /// A limit on the size of files: writes beyond it fail with EFBIG.
    FileSize,
}

impl Shortage {
    /// Mounts a small disk at the data directory. Returns the reason if that is not possible.
    fn small_disk(home: &Home) -> Result<Self, String> {
        let place = home.data_dir();
        std::fs::create_dir(&place).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "clew-test"]).arg(&place);
        match mount.output() {
            Ok(output) if output.status.success() => Ok(Self::SmallDisk(place)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Starts a server that will be affected by the shortage.
    fn serve(&self, home: &Home) -> Server {
        let command = home.serve_command();
        match self {
            Self::SmallDisk(_) => Server::start(command),
            Self::FileSize => {
                // If the signal is ignored, as in services, the write fails and the process lives.
                let mut shell = Command::new("sh");
                shell.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(command.get_program());
                shell.args(command.get_args()).current_dir(home.path(""));
                for (name, _removed) in command.get_envs() {
                    shell.env_remove(name);
                }
                Server::start(shell)
            }
        }
    }

    fn begin(&self, server: &Server) {
        match self {
            Self::SmallDisk(place) => fill(&place.join("filler")),
            Self::FileSize => limit_file_size(server, "512:"),
        }
    }

    fn end(&self, server: &Server) {
        match self {
            Self::SmallDisk(place) => std::fs::remove_file(place.join("filler")).unwrap(),
            Self::FileSize => limit_file_size(server, "unlimited:"),
        }
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        if let Self::SmallDisk(place) = self {
            // Lazily, because a server that a failed test leaves may still use it for a moment.
            drop(Command::new("umount").arg("-l").arg(place).status());
        }
    }
}

/// Writes until the disk is full to the last byte.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for block in [1 << 16, 1 << 9, 1] {
        loop {
            match file.write_all(&vec![b'x'; block]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("filling the disk: {error}"),
            }
        }
    }
}

/// Sets the soft limit on the size of files that a process writes.
fn limit_file_size(server: &Server, limit: &str) {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &server.id().to_string(), &format!("--fsize={limit}")]);
    let status = command.status().expect("`prlimit` of util-linux simulates the full disk");
    assert!(status.success(), "the full disk cannot be simulated: {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_documents_are_refused_and_taken_once_there_is_room() {
    let home = Home::new();
    match Shortage::small_disk(&home) {
        Ok(disk) => run_out_of_room(&home, &disk).await,
        Err(reason) => {
            // Only root may mount. The limit is the next best thing, and also has a test of its own
            // below.
            println!("no small disk, so the file size is limited instead: {reason}");
            run_out_of_room(&home, &Shortage::FileSize).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_file_size_limit_documents_are_refused_and_taken_once_it_is_lifted() {
    let home = Home::new();
    run_out_of_room(&home, &Shortage::FileSize).await;
}

async fn run_out_of_room(home: &Home, shortage: &Shortage) {
    let server = shortage.serve(home);
    let client = server.client().await;
    furnish(&client).await;
    let notes = corpus("notes");
    let before = Holdings::of(&client).await;

    shortage.begin(&server);
    let late = || document("late", text_with(&[&word('k', 99)]));
    for _ in 0..3 {
        let refused = send(&client, &notes, vec![late()]).await.remove(0);
        let refused = refused.expect_err("there was no room for it");
        assert!(refused.retryable, "{refused:?}");
        if let Shortage::SmallDisk(_) = shortage {
            assert_eq!(refused.reason, "DISK_FULL");
        }
        assert!(!refused.message.is_empty(), "{refused:?}");
    }
    if let Shortage::SmallDisk(_) = shortage {
        let ran = home.run_at(&server, &["corpus", "create", "new", "--json"]);
        assert_eq!(ran.error()["reason"], "DISK_FULL", "{ran:?}");
    }
    assert_eq!(Holdings::of(&client).await, before, "a refused write changed something");
    assert_furnished(&client).await;

    shortage.end(&server);
    // Without a restart or action by an operator.
    eventually("documents are taken in again", async || {
        send(&client, &notes, vec![late()]).await.remove(0).ok()
    })
    .await;
    idle(&client, &notes).await;
    assert!(!by_words(&client, &notes, &word('k', 99)).await.is_empty());
    assert_furnished(&client).await;
    assert!(accept(&client, &notes, vec![late()]).await[0].unchanged, "it was taken in twice");

    drop(client);
    assert!(server.terminate().success());
    let server = shortage.serve(home);
    assert_furnished(&server.client().await).await;
    assert!(!by_words(&server.client().await, &notes, &word('k', 99)).await.is_empty());
}
