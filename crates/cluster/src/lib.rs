//! Who is there and who owns which shard.
//!
//! A node learns of the others from Redis, from a fixed list and DNS, or is alone ([`Membership`]). Shards are
//! placed on the retrievers among them by rendezvous hashing ([`placement`]); a lease keeps two of them
//! from working on one shard ([`Leases`]); and a pure function says what a retriever does about its
//! shards ([`decide`]).
//!
//! Redis may be away, be emptied, or lose what it confirmed. Nothing here is needed for a shard's
//! content to be right: its tables are fenced in storage. What is needed of Redis is that work is not done
//! twice, and that what was stopped goes on by itself when it is back.

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
pub use self::quota::{Quotas, Rate};

/// This node's part in its cluster.
pub struct Cluster {
    /// Who is there.
    pub membership: Membership,
    /// Which shards are this node's.
    pub leases: Leases,
    /// What the nodes keep for each other; holds nothing where there is no Redis.
    pub cache: Cache,
    /// How much tenants may use.
    pub quotas: Quotas,
}

impl Cluster {
    /// Joins the cluster that `config` describes as `me`: the one in Redis, the fixed list with those that DNS
    /// finds, or none.
    ///
    /// It does not wait for a Redis that is away: then the view is stale, leases are refused, and both
    /// heal when Redis comes.
    ///
    /// # Errors
    /// [`clew_core::ErrorKind::InvalidInput`] if the configuration is refused.
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
