//! Configuration section `cluster`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clew_core::{Error, Violations};
use clew_tls::ClientTls;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::connection::RedisAddress;
use crate::member::{Address, Member, MemberState, NodeId, Role};

/// Section `cluster`: how this node finds the other nodes. Without `redis`, `members` and
/// `services`, the node is alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterConfig {
    /// Address of the Redis that holds membership and leases. One server: `redis://host:6379/0`.
    /// The master that Sentinels name: `redis+sentinel://host:26379,host:26379/master`. A Redis
    /// Cluster: `redis+cluster://host:6379,host:6379`. With TLS: `rediss://`, `rediss+sentinel://`
    /// and `rediss+cluster://`. It may contain passwords, which are never shown. Redis may lose all
    /// data at any time. Excludes `members` and `services`.
    pub redis: Option<RedisUrl>,
    /// Certificates for a Redis with TLS, whose address begins with `rediss`. The files are in PEM
    /// format.
    pub redis_tls: RedisTlsConfig,
    /// Prefix of every key in Redis: 1 to 64 of `a-z`, `0-9`, `-`, `_`, `:`. Clusters that share a
    /// Redis need different prefixes.
    pub redis_prefix: String,
    /// Nodes of a cluster without Redis. The list is the same on every node and names all
    /// retrievers. Every shard stays where it is placed. Excludes `redis`.
    pub members: Vec<MemberConfig>,
    /// Further nodes of a cluster without Redis: all addresses that DNS returns for a service name,
    /// such as a headless service in Kubernetes. The names are resolved every `member_ttl_ms`.
    /// Excludes `redis`.
    pub services: Vec<ServiceConfig>,
    /// Name of this node, unique in the cluster. Defaults to the host name and a random number.
    /// With `members` and no `services`, it must be the `id` of one of the `members`.
    pub node_id: Option<NodeId>,
    /// Address where the other nodes reach this one, `http://host:port`. Defaults to the address
    /// that it listens on.
    pub advertise: Option<Address>,
    /// Interval, in milliseconds, between two heartbeats, 20 to 60,000. A shorter interval makes
    /// changes known sooner.
    pub heartbeat_ms: u64,
    /// Time, in milliseconds, without a heartbeat after which a member counts as gone: at least
    /// three times `heartbeat_ms`, at most 600,000. A lower value detects crashes sooner and more
    /// often mistakes a short stall for a crash.
    pub member_ttl_ms: u64,
    /// Time, in milliseconds, that a lease lasts without being renewed: at least three times
    /// `lease_renew_ms`, at most 600,000. The shards of a crashed owner wait this long for their
    /// next owner.
    pub lease_ttl_ms: u64,
    /// Interval, in milliseconds, between two renewals of leases, 20 to 60,000.
    pub lease_renew_ms: u64,
}

/// Section `cluster.redis_tls`: PEM files and names, for an address that begins with `rediss`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedisTlsConfig {
    /// Certificate of the authority that certifies the servers, including Sentinels. Defaults to
    /// the authorities that this system trusts.
    pub ca: Option<PathBuf>,
    /// Certificate of this node, if the servers require one. Needs `key`.
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate.
    pub key: Option<PathBuf>,
    /// Name in the servers' certificates, if it differs from the host by which each server is
    /// reached. Servers that announce each other by IP address need it.
    pub server_name: Option<String>,
}

impl RedisTlsConfig {
    pub(crate) fn files(&self) -> ClientTls {
        let identity = self.certificate.clone().zip(self.key.clone());
        ClientTls { ca: self.ca.clone(), identity }
    }

    fn validate(&self, is_encrypted: bool, violations: &mut Violations) {
        if self.certificate.is_some() != self.key.is_some() {
            let problem = "expected `certificate` and `key`, got only one of them";
            violations.push("cluster.redis_tls.certificate", problem);
        }
        if *self != Self::default() && !is_encrypted {
            let problem = "expected an address that begins with `rediss`, which alone is encrypted";
            violations.push("cluster.redis", problem);
        }
    }
}

/// One node of a fixed list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberConfig {
    /// Name of the node.
    pub id: NodeId,
    /// Address where the other nodes reach it, `http://host:port`.
    pub address: Address,
    /// Roles of the node.
    pub roles: BTreeSet<Role>,
}

/// The nodes behind one DNS name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// The DNS name and the port of the nodes, `http://name:port`.
    pub address: Address,
    /// Roles of each of these nodes: any except retriever, because these nodes own no shards.
    pub roles: BTreeSet<Role>,
}

impl From<MemberConfig> for Member {
    fn from(MemberConfig { id, address, roles }: MemberConfig) -> Self {
        Self { id, address, roles, state: MemberState::Serving, incarnation: 0 }
    }
}

/// Address of a Redis server. It may contain a password, which is never displayed.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "String")]
pub struct RedisUrl(String);

impl RedisUrl {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    fn redacted(&self) -> String {
        let scheme_end = self.0.find("://").map_or(0, |at| at + 3);
        let (scheme, rest) = self.0.split_at(scheme_end);
        match (rest.rfind('@'), rest.find('?')) {
            // An unescaped character in one of two passwords makes the boundary ambiguous: hide
            // everything.
            (Some(at), Some(mark)) if mark < at => format!("{scheme}***"),
            (at, mark) => {
                let (begin, end) = (at.map_or(0, |at| at + 1), mark.unwrap_or(rest.len()));
                let credentials = at.map_or("", |_| "***@");
                let query = mark.map_or("", |_| "?***");
                format!("{scheme}{credentials}{}{query}", &rest[begin..end])
            }
        }
    }
}

impl From<String> for RedisUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl Serialize for RedisUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.redacted())
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            redis: None,
            redis_tls: RedisTlsConfig::default(),
            redis_prefix: "clew".to_owned(),
            members: Vec::new(),
            services: Vec::new(),
            node_id: None,
            advertise: None,
            heartbeat_ms: 1000,
            member_ttl_ms: 5000,
            lease_ttl_ms: 10_000,
            lease_renew_ms: 3000,
        }
    }
}

/// Maximum time for a Redis command, including connecting. A healthy Redis takes a small fraction
/// of it.
const REDIS_PATIENCE: Duration = Duration::from_secs(1);

impl ClusterConfig {
    /// Returns whether the configuration allows for other nodes.
    pub fn is_cluster(&self) -> bool {
        self.redis.is_some() || !self.members.is_empty() || !self.services.is_empty()
    }

    /// Rejects contradictory settings and values out of range.
    ///
    /// # Errors
    /// Returns [`clew_core::ErrorKind::InvalidInput`], naming every offending key, if a setting is
    /// invalid.
    pub fn validate(&self) -> Result<(), Error> {
        let mut violations = Violations::default();
        if let Some(redis) = &self.redis {
            let lists = [("members", self.members.len()), ("services", self.services.len())];
            for (list, _) in lists.into_iter().filter(|(_, count)| *count > 0) {
                let problem =
                    format!("expected either `redis` or `{list}`, got both; remove one of them");
                violations.push(format!("cluster.{list}"), problem);
            }
            match RedisAddress::parse(redis.reveal()) {
                Ok(address) => self.redis_tls.validate(address.is_encrypted, &mut violations),
                Err(problem) => {
                    violations.push("cluster.redis", format!("{problem}; got `{redis:?}`"));
                }
            }
        }
        let is_prefix_byte =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_:".contains(&b);
        if !(1..=64).contains(&self.redis_prefix.len())
            || !self.redis_prefix.bytes().all(is_prefix_byte)
        {
            let problem =
                format!("expected 1 to 64 of a-z, 0-9, `-`, `_`, `:`, got `{}`", self.redis_prefix);
            violations.push("cluster.redis_prefix", problem);
        }
        self.validate_members(&mut violations);

        let mut within = |key: &str, value: u64, low: u64, high: u64| {
            if !(low..=high).contains(&value) {
                let problem = format!("expected {low} to {high}, got {value}");
                violations.push(format!("cluster.{key}"), problem);
            }
        };
        within("heartbeat_ms", self.heartbeat_ms, 20, 60_000);
        let beats = self.heartbeat_ms.saturating_mul(3);
        within("member_ttl_ms", self.member_ttl_ms, beats, 600_000);
        within("lease_renew_ms", self.lease_renew_ms, 20, 60_000);
        let renewals = self.lease_renew_ms.saturating_mul(3);
        within("lease_ttl_ms", self.lease_ttl_ms, renewals, 600_000);
        violations.into_result()
    }

    fn validate_members(&self, violations: &mut Violations) {
        let ids: BTreeSet<&NodeId> = self.members.iter().map(|member| &member.id).collect();
        if ids.len() < self.members.len() {
            violations.push("cluster.members", "expected every `id` once, got one of them again");
        }
        if let Some(member) = self.members.iter().find(|member| member.roles.is_empty()) {
            let problem = format!("expected at least one role for `{}`, got none", member.id);
            violations.push("cluster.members", problem);
        }
        for service in &self.services {
            if service.roles.is_empty() || service.roles.contains(&Role::Retriever) {
                let problem = format!(
                    "expected roles other than `retriever` for `{}`, whose nodes own nothing; name every retriever in `members`",
                    service.address.as_str()
                );
                violations.push("cluster.services", problem);
            }
        }
        if self.members.is_empty() || !self.services.is_empty() {
            return;
        }
        match &self.node_id {
            None => violations.push(
                "cluster.node_id",
                "expected the `id` of this node among `members`, got none",
            ),
            Some(id) if !ids.contains(id) => violations.push(
                "cluster.node_id",
                format!("expected the `id` of this node among `members`, got `{id}`"),
            ),
            Some(_) => {}
        }
    }

    /// Rejects a retriever that is not listed in `members` although `services` is set.
    pub(crate) fn may_be_unnamed(&self, me: &Member) -> Result<(), Error> {
        if self.services.is_empty() || !me.roles.contains(&Role::Retriever) {
            return Ok(());
        }
        let problem = format!(
            "expected this node, a retriever, among `members`, but there is no `{}`; shards are placed on those alone",
            me.id
        );
        Err(Error::invalid("cluster.node_id", problem))
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    pub(crate) fn member_ttl(&self) -> Duration {
        Duration::from_millis(self.member_ttl_ms)
    }

    pub(crate) fn lease_ttl(&self) -> Duration {
        Duration::from_millis(self.lease_ttl_ms)
    }

    pub(crate) fn lease_renew(&self) -> Duration {
        Duration::from_millis(self.lease_renew_ms)
    }

    /// Returns the maximum duration of a command to Redis. It is short enough that after an attempt
    /// that hangs, another can be made before a lease or a member's record expires.
    pub(crate) fn redis_patience(&self) -> Duration {
        self.lease_renew().min(self.member_ttl() / 3).min(REDIS_PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str) -> MemberConfig {
        MemberConfig {
            id: id.parse().unwrap(),
            address: "http://10.0.0.1:7000".parse().unwrap(),
            roles: [Role::Retriever].into(),
        }
    }

    fn fields(config: &ClusterConfig) -> Vec<String> {
        let error = config.validate().unwrap_err();
        error.violations().iter().map(|violation| violation.field.clone()).collect()
    }

    #[test]
    fn the_default_is_a_node_alone() {
        let config = ClusterConfig::default();
        assert!(config.validate().is_ok());
        assert!(!config.is_cluster());
    }

    #[test]
    fn every_key_at_fault_is_named() {
        let config = ClusterConfig {
            redis: Some("redis://:secret@".to_owned().into()),
            redis_prefix: "a b".to_owned(),
            members: vec![member("a"), member("a")],
            heartbeat_ms: 1,
            member_ttl_ms: 2,
            lease_renew_ms: 4000,
            ..ClusterConfig::default()
        };
        assert_eq!(
            fields(&config),
            [
                "cluster.members",
                "cluster.redis",
                "cluster.redis_prefix",
                "cluster.members",
                "cluster.node_id",
                "cluster.heartbeat_ms",
                "cluster.member_ttl_ms",
                "cluster.lease_ttl_ms",
            ]
        );
        let error = config.validate().unwrap_err();
        assert!(error.violations().iter().all(|v| !v.description.contains("secret")));
    }

    #[test]
    fn a_fixed_list_names_this_node() {
        let mut config =
            ClusterConfig { members: vec![member("a"), member("b")], ..ClusterConfig::default() };
        assert_eq!(fields(&config), ["cluster.node_id"]);
        config.node_id = Some("c".parse().unwrap());
        assert_eq!(fields(&config), ["cluster.node_id"]);
        config.node_id = Some("b".parse().unwrap());
        assert!(config.validate().is_ok());
        assert!(config.is_cluster());
    }

    #[test]
    fn services_are_of_nodes_that_own_nothing() {
        let service = |roles: &[Role]| ServiceConfig {
            address: "http://nodes:7000".parse().unwrap(),
            roles: roles.iter().copied().collect(),
        };
        let config = ClusterConfig {
            members: vec![member("a")],
            services: vec![service(&[Role::Encoder, Role::Generator])],
            ..ClusterConfig::default()
        };
        assert!(config.validate().is_ok() && config.is_cluster());
        let address = "http://10.0.0.9:7000".parse::<Address>().unwrap();
        let me = |role| Member::starting("z".parse().unwrap(), address.clone(), [role]);
        assert!(config.may_be_unnamed(&me(Role::Encoder)).is_ok());
        assert!(config.may_be_unnamed(&me(Role::Retriever)).is_err());
        for roles in [&[][..], &[Role::Encoder, Role::Retriever]] {
            let config =
                ClusterConfig { services: vec![service(roles)], ..ClusterConfig::default() };
            assert_eq!(fields(&config), ["cluster.services"]);
        }
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let url = RedisUrl::from("redis://user:se@cret@host:6379/1".to_owned());
        assert_eq!(format!("{url:?}"), "redis://***@host:6379/1");
        assert_eq!(serde_json::to_value(&url).unwrap(), "redis://***@host:6379/1");
        let plain = RedisUrl::from("redis://host:6379".to_owned());
        assert_eq!(format!("{plain:?}"), "redis://host:6379");
        let sentinels = "redis+sentinel://a,b/m?sentinel_password=se@cret".to_owned();
        let shown = format!("{:?}", RedisUrl::from(sentinels));
        assert!(!shown.contains("cret"), "{shown}");
        let sentinels = "redis+sentinel://:pa@ss@a,b/m?sentinel_password=secret".to_owned();
        let shown = format!("{:?}", RedisUrl::from(sentinels));
        assert_eq!(shown, "redis+sentinel://***@a,b/m?***");
    }

    #[test]
    fn files_for_tls_need_an_address_that_is_encrypted() {
        let config = |redis: &str, redis_tls| ClusterConfig {
            redis: Some(redis.to_owned().into()),
            redis_tls,
            ..ClusterConfig::default()
        };
        let ca = RedisTlsConfig { ca: Some("ca".into()), ..Default::default() };
        assert!(config("rediss://host", ca.clone()).validate().is_ok());
        assert_eq!(fields(&config("redis://host", ca)), ["cluster.redis"]);
        let half = RedisTlsConfig { key: Some("key".into()), ..Default::default() };
        let half = config("rediss+cluster://a,b", half);
        assert_eq!(fields(&half), ["cluster.redis_tls.certificate"]);
    }
}
