//! Cluster membership and ownership of shards.
//!
//! A node learns of the others from Redis, or from a fixed list and DNS, or is alone
//! ([`Membership`]). Shards are placed on the retrievers among them by rendezvous hashing
//! ([`placement`]). A lease keeps two nodes from working on one shard ([`Leases`]). A pure function
//! decides what a retriever does with its shards ([`decide`]).
//!
//! Redis may be unreachable, be emptied, or lose data that it confirmed. The correctness of a
//! shard's data does not depend on this crate, because the shard's tables are fenced in storage.
//! Redis serves to avoid duplicate work. When it returns after an outage, work resumes without
//! intervention.

mod cache;
mod config;
mod connection;
pub mod decide;
mod discovery;
mod health;
mod lease;
mod member;
mod membership;
pub mod placement;
mod quota;

use std::sync::Arc;

use clew_core::Error;

pub use self::cache::Cache;
pub use self::config::{ClusterConfig, MemberConfig, RedisTlsConfig, RedisUrl, ServiceConfig};
use self::connection::Redis;
pub use self::health::{Eviction, RedisHealth};
pub use self::lease::{Acquired, Lapse, Lease, Leases, Standing};
pub use self::member::{Address, Member, MemberState, Members, NodeId, Role, ShardKey};
pub use self::membership::Membership;
pub use self::quota::{FillRate, Quotas};

/// This node's connection to its cluster.
pub struct Cluster {
    /// Members of the cluster.
    pub membership: Membership,
    /// Leases of this node.
    pub leases: Leases,
    /// Cache that the nodes share. Empty without Redis.
    pub cache: Cache,
    /// Quotas of the tenants.
    pub quotas: Quotas,
}

impl Cluster {
    /// Joins the cluster that `config` describes as `me`: the cluster in Redis, the fixed list and
    /// the nodes that DNS returns, or none.
    ///
    /// It does not wait for an unreachable Redis. In that case the view is stale and leases are
    /// refused until Redis can be reached.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`] if the configuration is invalid.
    pub async fn join(config: &ClusterConfig, me: Member) -> Result<Self, Error> {
        config.validate()?;
        let Some(redis) = Redis::new(config).await?.map(Arc::new) else {
            let mut known: Vec<Member> = config.members.iter().cloned().map(Member::from).collect();
            if known.iter().all(|member| member.id != me.id) {
                config.may_be_unnamed(&me)?;
                known.push(me.clone());
            }
            let membership = Membership::found_by_name(me.id.clone(), known, config);
            let leases = Leases::by_placement(me.id, membership.members());
            let (cache, quotas) = (Cache::new(None), Quotas::local());
            return Ok(Self { membership, leases, cache, quotas });
        };
        let leases = Leases::in_redis(Arc::clone(&redis), config, &me);
        let cache = Cache::new(Some(Arc::clone(&redis)));
        let quotas = Quotas::new(Some(Arc::clone(&redis)));
        let membership = Membership::join(redis, config, me).await;
        Ok(Self { membership, leases, cache, quotas })
    }
}
