//! What measures a GPU runs from end to end, with tiny models on the processor or another device.

#![allow(clippy::unwrap_used, reason = "functions that tests share fail as tests do")]

mod device;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Steps with tiny models.
const STEPS: [&str; 7] = [
    "roofline",
    "attention",
    "minilm",
    "decoder-tiny",
    "memory-tiny-4",
    "training-memory-tiny-2500",
    "exhaust-minilm",
];

#[test]
fn every_step_of_a_gpu_day_measures_something_and_is_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    // Cargo puts examples beside the folder of tests.
    let built = std::env::current_exe().unwrap();
    let built = built.ancestors().nth(2).unwrap().join("examples/gpu_day");
    std::os::unix::fs::symlink(&built, programs.join("gpu_day")).unwrap();
    let out = folder.path().join("out");
    let device = String::from(device::device());
    let run = || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/gpu_day.py");
        let mut command = Command::new("python3");
        command.arg(script).arg("measure").arg(&programs).arg(&out);
        command.args(["--device", &device, "--tiny", "--together", "2", "--steps"]).args(STEPS);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        fs::read_to_string(out.join("results.jsonl")).unwrap()
    };
    let measured = run();
    let lines = measured.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    for step in STEPS {
        let figures = lines.iter().filter(|line| line["name"] == step && line["device"] == *device);
        assert!(figures.count() >= 2, "{step}: {measured}");
    }
    let table = fs::read_to_string(out.join("results.md")).unwrap();
    assert!(table.lines().count() == lines.len() + 2, "{table}");
    assert_eq!(run(), measured, "what is done is not done again");
}
