//! Test of a process that is paused for longer than its lease lasts and then resumed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clew_cluster::Standing;
use clew_testkit::{RedisServer, signal};

use super::fixture::{PATIENCE, acquire, acquire_eventually, join, node, refused, shard};

const REDIS: &str = "CLEW_TEST_REDIS_OF_HOLDER";

/// Prints the standing of its lease in a loop: the time *before* it asked, and the answer.
#[test]
#[ignore = "run by the test below, as a process of its own"]
fn holder() {
    let url = std::env::var(REDIS).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (_leases, lease) = runtime.block_on(async {
        let leases = join(&url, "holder").await.leases;
        let lease = acquire(&leases, &shard(0)).await;
        (leases, lease)
    });
    let mut output = std::io::stdout();
    loop {
        let asked = now();
        let said = writeln!(output, "{asked} {:?}", lease.standing());
        if said.is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

/// A child process that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_does_not_believe_its_lease_until_redis_confirms_it() {
    let redis = RedisServer::start().unwrap();
    let other = join(&redis.url(), "other").await.leases;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stopped_process::holder", "--ignored", "--nocapture"])
        .env(REDIS, redis.url())
        .stdout(Stdio::piped())
        .spawn()
        .map(Killed)
        .unwrap();
    let output = BufReader::new(child.0.stdout.take().unwrap());
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let Some((asked, standing)) = line.split_once(' ') else { continue };
            let Ok(asked) = asked.parse::<u128>() else { continue };
            if said.send((asked, standing.to_owned())).is_err() {
                return;
            }
        }
    });
    let held = format!("{:?}", Standing::Held);
    let first = heard.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first.1, held);
    assert_eq!(refused(&other, &shard(0)).await, node("holder"));

    signal(child.0.id(), "STOP").unwrap();
    let lease = acquire_eventually(&other, &shard(0)).await;
    let goes_on = now();
    signal(child.0.id(), "CONT").unwrap();

    // After it resumes, it must not report that it holds the shard.
    let lost = format!("{:?}", Standing::Lost);
    loop {
        let (asked, standing) = heard.recv_timeout(PATIENCE).unwrap();
        if asked > goes_on {
            assert_ne!(standing, held, "{} µs after it went on", asked - goes_on);
        }
        if standing == lost {
            break;
        }
    }
    assert_eq!(lease.standing(), Standing::Held);
}
