//! Tries whether a place keeps the promises that everything stored rests on.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use crate::error::Result;
use crate::location::Location;
use crate::place::{Kind, Place, on_files};
use crate::registry::unique;

const DOING: &str = "try the storage";

/// What was found of a place.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Promises that do not hold, in words.
    pub broken: Vec<&'static str>,
    /// How far its clock is ahead of this machine's, in seconds; behind, if negative.
    pub clock_ahead_seconds: f64,
    /// How long a small file took until it was there for good.
    pub write: Duration,
    /// Bytes that are free, and all of them, where that can be told.
    pub free_of: Option<(u64, u64)>,
}

impl Location {
    /// Writes, lists, replaces and removes small files in the place, below a name of their own.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] and [`crate::Error::DiskFull`] if it cannot be used at all.
    pub async fn probe(&self) -> Result<Probed> {
        let root = Place::of(self).await?;
        root.make(DOING).await?;
        let name = format!(".doctor-{}", unique());
        let place = root.join(&name);
        place.make(DOING).await?;
        let probed = probe(&root, &place).await;
        // What is left if this fails is empty or a few bytes.
        let removed = match place.kind() {
            Kind::Folder(folder) => {
                let folder = folder.clone();
                on_files(DOING, move || std::fs::remove_dir_all(folder)).await
            }
            Kind::Objects(objects) => objects.remove_all(DOING).await,
        };
        let probed = probed?;
        removed?;
        Ok(probed)
    }
}

async fn probe(root: &Place, place: &Place) -> Result<Probed> {
    let mut broken = Vec::new();
    let mut holds = |is_so: bool, promise: &'static str| {
        if !is_so {
            broken.push(promise);
        }
    };
    let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"second"));
    let began = Instant::now();
    let is_new = place.put_new_file("a", first.clone(), DOING).await?;
    let write = began.elapsed();
    let now = SystemTime::now();
    holds(is_new, "a file that is new can be written if there is none of its name");
    let is_new = place.put_new_file("a", second.clone(), DOING).await?;
    holds(!is_new, "of two who write a new file of one name the second is refused");
    let read = place.get_file("a", None, DOING).await?;
    holds(read.as_ref() == Some(&first), "a file that was written is read back at once");
    let listed = place.names(DOING).await?;
    holds(listed.iter().any(|name| name == "a"), "a file that was written is listed at once");
    let written_at = written_at(place).await?;
    if let Kind::Objects(objects) = place.kind() {
        let found = objects.get("a", DOING).await?;
        if let Some(found) = found {
            let old = Some(found.version);
            let swapped = objects.swap("a", old.clone(), &second, DOING).await?;
            holds(swapped, "an object is replaced in the version that was read");
            let third = Bytes::from_static(b"third");
            let swapped = objects.swap("a", old, &third, DOING).await?;
            holds(!swapped, "an object is not replaced in a version that is gone");
        }
    } else {
        place.put_file("a", second.clone(), DOING).await?;
    }
    let read = place.get_file("a", None, DOING).await?;
    holds(read == Some(second), "a file that was replaced is read anew at once");
    place.remove_file("a", DOING).await?;
    let listed = place.names(DOING).await?;
    holds(!listed.iter().any(|name| name == "a"), "a file that was removed is not listed any more");
    let clock_ahead_seconds = written_at.map_or(0.0, |at| match at.duration_since(now) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(behind) => -behind.duration().as_secs_f64(),
    });
    Ok(Probed { broken, clock_ahead_seconds, write, free_of: free_of(root).await? })
}

/// When the storage says that the file was written.
async fn written_at(place: &Place) -> Result<Option<SystemTime>> {
    match place.kind() {
        Kind::Folder(folder) => {
            let path = folder.join("a");
            on_files(DOING, move || Ok(Some(std::fs::metadata(path)?.modified()?))).await
        }
        Kind::Objects(objects) => {
            let listed = objects.list(DOING).await?.objects;
            Ok(listed.first().map(|object| object.last_modified.into()))
        }
    }
}

async fn free_of(root: &Place) -> Result<Option<(u64, u64)>> {
    let Some(folder) = root.folder().map(ToOwned::to_owned) else { return Ok(None) };
    on_files(DOING, move || {
        let found = rustix::fs::statvfs(&folder)?;
        Ok(Some((found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)))
    })
    .await
}
