//! Test of the model folder that an installed program finds.

use std::process::Command;

use crate::harness::{Home, Ran};

#[test]
fn an_installed_program_finds_the_model_beside_it() {
    let home = Home::new();
    let program = home.path("prefix/bin/clew");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_clew"), &program).unwrap();
    let file = home.write("a.md", "The river rises.");
    let ingest = || {
        let mut command = Command::new(&program);
        home.settle(&mut command);
        command.args(["ingest", "--corpus", "notes", "--json"]).arg(&file);
        command.arg("--data-dir").arg(home.data_dir());
        Ran::of(command)
    };
    assert_eq!(ingest().error()["reason"], "BROKEN_MODEL", "there is none yet");

    std::fs::create_dir_all(home.path("prefix/share/clew")).unwrap();
    std::fs::rename(home.model(), home.path("prefix/share/clew/model")).unwrap();
    assert_eq!(ingest().done()["accepted"], 1);
}
