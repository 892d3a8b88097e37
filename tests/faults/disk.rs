//! A disk that can be full for one host and not for the others.
//!
//! All retrievers share the storage, so a full disk would be full for all of them. ext4 keeps blocks
//! back for one user, though: when only those are left, whoever is another user finds the disk full.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::hosts::run;

/// Half of it is kept back: ten times what a run writes.
const MIB: u64 = 1024;
/// What the filler takes of the blocks that are kept back, so that files which are removed meanwhile
/// make no room.
const MARGIN_MIB: u64 = 128;

/// A file system in a file, mounted at a folder. It goes when dropped, once nobody uses it.
pub struct Disk {
    place: PathBuf,
}

impl Disk {
    /// Makes a disk in the file `image` and mounts it at `place`.
    pub fn mount(image: &Path, place: &Path) -> Self {
        let file = std::fs::File::create(image).unwrap();
        file.set_len(MIB << 20).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "50"]).arg(image));
        std::fs::create_dir(place).unwrap();
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(place));
        Self { place: place.to_owned() }
    }

    /// The command that runs the rest of its words as a user for whom no blocks are kept back, with
    /// root's right to every file.
    pub fn ordinary_user() -> Vec<String> {
        let rights = "+dac_override,+fowner";
        ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("--inh-caps={rights}"), format!("--ambient-caps={rights}")])
            .collect()
    }

    /// Leaves room only for those for whom blocks are kept back.
    pub fn fill(&self) {
        let free = Command::new("df").args(["--output=avail", "-B1M"]).arg(&self.place).output();
        let free = String::from_utf8(free.unwrap().stdout).unwrap();
        let free: u64 = free.lines().last().unwrap().trim().parse().unwrap();
        let length = format!("{}MiB", free + MARGIN_MIB);
        run(Command::new("fallocate").args(["-l", &length]).arg(self.filler()));
    }

    /// Makes room again.
    pub fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.place.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a server that a failed test leaves may still be there for a moment.
        drop(Command::new("umount").arg("-l").arg(&self.place).status());
    }
}
