//! Faults that are inflicted on a cluster.

use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::cluster::{Cluster, ON_SMALL_DISK, REDIS_HOST, SERVICES, processes_of};
use crate::storage::{STORAGE_HOST, StorageKind};

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9` of a process of a service, which is started again later.
    Kill(&'static str),
    /// SIGSTOP of an owner of shards for longer than its leases last.
    StopOwner,
    /// A retriever and Redis lose their connection.
    CutFromRedis,
    /// A retriever and the bucket's server lose their connection.
    CutFromStorage,
    /// The gateway and a retriever lose their connection.
    CutFromGateway,
    /// A retriever receives nothing from the gateway, which still receives from it.
    DeafRetriever,
    /// The gateway receives nothing from a retriever, which still receives from it.
    DeafGateway,
    /// An encoder is lost with texts that it was given.
    LoseEncoderInBatch,
    /// Redis is killed and started again, empty.
    EmptyRedis,
    /// The disk is full for one retriever.
    FullDisk,
    /// A node gets a fifth of its CPU time.
    SlowNode,
}

/// Fault that is over.
pub struct Inflicted {
    /// Description of the fault and the node.
    pub what: String,
    pub began: Instant,
    /// Time at which machines, network and disk were as before.
    pub healed: Instant,
}

impl Fault {
    /// Returns all faults that can happen to a cluster on such a storage.
    pub fn all(on: StorageKind) -> Vec<Self> {
        let kills = SERVICES.map(|(service, _)| Self::Kill(service));
        let of_storage = match on {
            StorageKind::Folder => Self::FullDisk,
            StorageKind::Bucket => Self::CutFromStorage,
        };
        kills
            .into_iter()
            .chain([
                Self::StopOwner,
                Self::CutFromRedis,
                Self::CutFromGateway,
                Self::DeafRetriever,
                Self::DeafGateway,
                Self::LoseEncoderInBatch,
                Self::EmptyRedis,
                Self::SlowNode,
                of_storage,
            ])
            .collect()
    }

    /// Returns the faults that test who owns a shard and may write to the storage.
    pub fn of_ownership(on: StorageKind) -> Vec<Self> {
        let mut faults = Self::all(on);
        faults.retain(|fault| match fault {
            Self::Kill(service) => *service == "retriever",
            Self::StopOwner
            | Self::CutFromRedis
            | Self::CutFromStorage
            | Self::CutFromGateway
            | Self::EmptyRedis => true,
            Self::DeafRetriever
            | Self::DeafGateway
            | Self::LoseEncoderInBatch
            | Self::FullDisk
            | Self::SlowNode => false,
        });
        faults
    }

    /// Returns the name of the fault in reports.
    pub fn name(self) -> String {
        match self {
            Self::Kill(service) => format!("kill {service}"),
            Self::StopOwner => "stop an owner of shards".to_owned(),
            Self::CutFromRedis => "cut retriever | Redis".to_owned(),
            Self::CutFromStorage => "cut retriever | storage".to_owned(),
            Self::CutFromGateway => "cut gateway | retriever".to_owned(),
            Self::DeafRetriever => "cut gateway -> retriever".to_owned(),
            Self::DeafGateway => "cut retriever -> gateway".to_owned(),
            Self::LoseEncoderInBatch => "lose encoder in mid-batch".to_owned(),
            Self::EmptyRedis => "kill and empty Redis".to_owned(),
            Self::FullDisk => "full disk of a retriever".to_owned(),
            Self::SlowNode => "slow node".to_owned(),
        }
    }

    /// Inflicts the fault, waits, and undoes it.
    pub async fn inflict(self, cluster: &mut Cluster, random: &mut Rng) -> Inflicted {
        let began = Instant::now();
        let lease = cluster.times().lease().as_secs_f64();
        let whom = match self {
            Self::Kill(service) => {
                let name = one_of(&processes_of(service), random);
                cluster.kill(&name);
                // Sometimes back before its leases expire, sometimes after others took over.
                pause(random, 0.3..lease * 1.7).await;
                cluster.start_again(&name).await;
                name
            }
            Self::StopOwner => {
                let name = one_of(&owners(cluster).await, random);
                cluster.signal(&name, "STOP");
                pause(random, lease * 1.2..lease * 2.0).await;
                cluster.signal(&name, "CONT");
                name
            }
            Self::CutFromRedis => {
                let name = one_of(&owners(cluster).await, random);
                cluster.part(&name, REDIS_HOST);
                heal_later(name, cluster, random).await
            }
            Self::CutFromStorage => {
                let name = one_of(&owners(cluster).await, random);
                cluster.part(&name, STORAGE_HOST);
                heal_later(name, cluster, random).await
            }
            Self::CutFromGateway => {
                let name = one_of(&owners(cluster).await, random);
                cluster.part(&name, "gateway-0");
                heal_later(name, cluster, random).await
            }
            Self::DeafRetriever => {
                let name = one_of(&owners(cluster).await, random);
                cluster.cut("gateway-0", &name);
                heal_later(name, cluster, random).await
            }
            Self::DeafGateway => {
                let name = one_of(&owners(cluster).await, random);
                cluster.cut(&name, "gateway-0");
                heal_later(name, cluster, random).await
            }
            Self::LoseEncoderInBatch => {
                let name = one_of(&processes_of("encoder"), random);
                // Stopped, the encoder receives texts and answers none of them.
                cluster.signal(&name, "STOP");
                pause(random, 0.4..0.6).await;
                cluster.kill(&name);
                pause(random, 0.3..2.0).await;
                cluster.start_again(&name).await;
                name
            }
            Self::EmptyRedis => {
                cluster.redis().kill().unwrap();
                // Sometimes shorter than the leases last, sometimes longer.
                pause(random, 0.3..lease * 1.7).await;
                cluster.redis().restart_empty().unwrap();
                "redis".to_owned()
            }
            Self::FullDisk => {
                cluster.disk().fill();
                pause(random, 1.5..3.0).await;
                cluster.disk().free();
                ON_SMALL_DISK.to_owned()
            }
            Self::SlowNode => {
                let (service, _) = SERVICES[random.usize(..SERVICES.len())];
                let name = one_of(&processes_of(service), random);
                let end = Instant::now() + Duration::from_millis(random.u64(2000..4000));
                while Instant::now() < end {
                    cluster.signal(&name, "STOP");
                    tokio::time::sleep(Duration::from_millis(80)).await;
                    cluster.signal(&name, "CONT");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                name
            }
        };
        Inflicted { what: format!("{} ({whom})", self.name()), began, healed: Instant::now() }
    }
}

/// Undoes network cuts after a while.
async fn heal_later(name: String, cluster: &Cluster, random: &mut Rng) -> String {
    // Longer than it takes to notice the cut, and on average longer than leases last.
    let (notice, lease) = (cluster.times().notice(), cluster.times().lease());
    let shortest = notice.as_secs_f64() * 1.3;
    pause(random, shortest..shortest + lease.as_secs_f64() * 1.4).await;
    cluster.heal_network();
    name
}

/// Returns the retrievers that own shards now.
async fn owners(cluster: &Cluster) -> Vec<String> {
    let topology = cluster.client().await.topology().await.unwrap();
    let owners: Vec<String> = topology.shards.into_iter().map(|shard| shard.owner).collect();
    let owners: Vec<String> = owners.into_iter().filter(|owner| !owner.is_empty()).collect();
    assert!(!owners.is_empty(), "nobody owns a shard");
    owners
}

fn one_of(names: &[String], random: &mut Rng) -> String {
    names[random.usize(..names.len())].clone()
}

async fn pause(random: &mut Rng, seconds: std::ops::Range<f64>) {
    let span = seconds.end - seconds.start;
    tokio::time::sleep(Duration::from_secs_f64(seconds.start + random.f64() * span)).await;
}
