//! Storage that the retrievers of a cluster share: a folder on a disk that can be full, or a
//! bucket.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use clew_core::ShardIndex;
use clew_index::{ObjectStoreSettings, Registry, StorageUrl};
use clew_testkit::S3Server;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;

use crate::disk::Disk;
use crate::harness::{Home, files_below};
use crate::hosts::Network;

/// Host of the bucket's server.
pub const STORAGE_HOST: &str = "storage";

const PORT: u16 = 9000;

/// Kind of storage of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    Folder,
    Bucket,
}

impl StorageKind {
    /// Returns the pause between two requests of a client, which keeps the machine busy but not
    /// overloaded. The bucket's server answers a hundred requests per second, and a write takes
    /// dozens of them.
    pub fn pause(self) -> Duration {
        match self {
            Self::Folder => Duration::from_millis(40),
            Self::Bucket => Duration::from_millis(400),
        }
    }

    /// Returns the number of seconds between two checks of a shard.
    pub fn check_interval(self) -> &'static str {
        match self {
            Self::Folder => "1",
            Self::Bucket => "10",
        }
    }
}

/// Storage of a cluster.
pub enum Storage {
    /// Folder on a disk of its own.
    Folder(Disk),
    /// Bucket on a host of its own.
    Bucket(S3Server),
}

impl Storage {
    pub fn new(kind: StorageKind, home: &Home, network: &mut Network) -> Self {
        match kind {
            StorageKind::Folder => {
                Self::Folder(Disk::mount(&home.path("disk.img"), &home.data_dir()))
            }
            StorageKind::Bucket => {
                let host = network.add(STORAGE_HOST);
                let at = SocketAddr::from((host.address, PORT));
                Self::Bucket(S3Server::start_at(at, &host.through()).unwrap())
            }
        }
    }

    pub fn kind(&self) -> StorageKind {
        match self {
            Self::Folder(_) => StorageKind::Folder,
            Self::Bucket(_) => StorageKind::Bucket,
        }
    }

    /// Returns the disk, if the storage is one.
    pub fn disk(&self) -> Option<&Disk> {
        match self {
            Self::Folder(disk) => Some(disk),
            Self::Bucket(_) => None,
        }
    }

    /// Configures a node with the place of the data.
    pub fn configure(&self, command: &mut Command, home: &Home) {
        match self {
            Self::Folder(_) => command.arg("--data-dir").arg(home.data_dir()),
            Self::Bucket(bucket) => {
                command.args(["--data-dir", &bucket.url()]).envs(bucket.environment())
            }
        };
    }

    /// Returns every file or object, with its name and its bytes.
    pub async fn contents(&self, home: &Home) -> Vec<(String, Vec<u8>)> {
        match self {
            Self::Folder(_) => {
                let files = files_below(&home.data_dir()).into_iter();
                files.map(|(path, bytes)| (path.display().to_string(), bytes)).collect()
            }
            Self::Bucket(bucket) => contents_of(bucket).await,
        }
    }
}

async fn contents_of(bucket: &S3Server) -> Vec<(String, Vec<u8>)> {
    let settings = ObjectStoreSettings {
        endpoint: Some(bucket.endpoint()),
        access_key_id: Some("test".to_owned()),
        secret_access_key: Some("test-secret".to_owned().into()),
        allow_http: true,
        ..ObjectStoreSettings::default()
    };
    let location = StorageUrl::try_new(&bucket.url(), &settings).unwrap();
    let registry = Registry::open(&location).await.unwrap();
    let corpus = registry.list().await.unwrap().remove(0).1.unwrap();
    let store = registry.shard_place(&corpus, ShardIndex(0)).store().expect("a bucket");
    let objects: Vec<_> = store.list(None).try_collect().await.unwrap();
    let mut contents = Vec::new();
    for object in objects {
        let bytes = store.get(&object.location).await.unwrap().bytes().await.unwrap();
        contents.push((object.location.to_string(), bytes.to_vec()));
    }
    contents
}
