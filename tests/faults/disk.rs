//! Disk that can be full for one host and not for the others.
//!
//! All retrievers share the storage, so a full disk would be full for all of them. But ext4
//! reserves blocks for one user: when only these are left, the disk is full for every other user.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::hosts::run;

/// Size of the disk in MiB. Half of it is reserved: ten times as much as a run writes.
const MIB: u64 = 1024;
/// Reserved space that the filler takes, so that files which are removed meanwhile do not make
/// room.
const MARGIN_MIB: u64 = 128;

/// File system in a file, mounted at a folder. Dropping it unmounts it, once nobody uses it.
pub struct Disk {
    place: PathBuf,
}

impl Disk {
    /// Creates a disk in the file `image` and mounts it at `place`.
    pub fn mount(image: &Path, place: &Path) -> Self {
        let file = std::fs::File::create(image).unwrap();
        file.set_len(MIB << 20).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "50"]).arg(image));
        std::fs::create_dir(place).unwrap();
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(place));
        Self { place: place.to_owned() }
    }

    /// Returns a command that runs its remaining arguments as a user for whom no blocks are
    /// reserved, but with root's right to every file.
    pub fn ordinary_user() -> Vec<String> {
        let rights = "+dac_override,+fowner";
        ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("--inh-caps={rights}"), format!("--ambient-caps={rights}")])
            .collect()
    }

    /// Leaves room only for the user for whom blocks are reserved.
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
        // Lazily, because a server that a failed test leaves may still use it for a moment.
        drop(Command::new("umount").arg("-l").arg(&self.place).status());
    }
}
