//! Members of a cluster: nodes, their roles, and a list of all of them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clew_core::{CorpusName, Error, ShardIndex, string_id};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MAX_NODE_ID_BYTES: usize = 128;
const SCHEMES: [&str; 2] = ["http://", "https://"];

/// Name of a node, unique in its cluster: 1 to 128 of `A-Z`, `a-z`, `0-9`, `.`, `-`, `_`, beginning
/// with a letter or digit.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId(String);

impl NodeId {
    /// Generates a name for a node without a configured one: the host name, if the system reports
    /// it, and a random part, because several nodes may run on one host.
    pub fn generate() -> Self {
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .or_else(|_| std::fs::read_to_string("/etc/hostname"))
            .unwrap_or_default();
        let mut name: String = hostname
            .trim()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' })
            .take(MAX_NODE_ID_BYTES - 9)
            .collect();
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            name = "node".to_owned();
        }
        Self(format!("{name}-{:08x}", fastrand::u32(..)))
    }
}

impl FromStr for NodeId {
    type Err = Error;

    fn from_str(id: &str) -> Result<Self, Error> {
        let begins_well = id.starts_with(|c: char| c.is_ascii_alphanumeric());
        let is_id_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if begins_well && id.bytes().all(is_id_byte) && id.len() <= MAX_NODE_ID_BYTES {
            return Ok(Self(id.to_owned()));
        }
        Err(Error::invalid(
            "node_id",
            format!(
                "expected 1 to {MAX_NODE_ID_BYTES} of A-Z, a-z, 0-9, `.`, `-`, `_` beginning with a \
                 letter or digit, got `{id}`"
            ),
        ))
    }
}

/// Address where other nodes reach a node: `http://host:port`, or `https://host:port` with mutual
/// authentication.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Address(String);

impl Address {
    /// Returns its `host:port`.
    pub(crate) fn authority(&self) -> &str {
        self.split().1
    }

    /// Returns the address of another place with the same scheme.
    pub(crate) fn at(&self, place: impl fmt::Display) -> Result<Self, Error> {
        format!("{}{place}", self.split().0).parse()
    }

    fn split(&self) -> (&str, &str) {
        // Parsing made sure that the address begins with one of them.
        let scheme = SCHEMES.into_iter().find(|scheme| self.0.starts_with(scheme));
        self.0.split_at(scheme.map_or(0, str::len))
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(address: &str) -> Result<Self, Error> {
        let rest = SCHEMES.iter().find_map(|scheme| address.strip_prefix(scheme));
        let place = rest.and_then(|rest| rest.rsplit_once(':'));
        let is_host = |host: &str| {
            !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "/@?#".contains(c))
        };
        match place {
            Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok_and(|p| p > 0) => {
                Ok(Self(address.to_owned()))
            }
            _ => {
                let problem =
                    format!("expected `http://host:port` or `https://host:port`, got `{address}`");
                Err(Error::invalid("address", problem))
            }
        }
    }
}

string_id!(NodeId);
string_id!(Address);

/// A task of a node. A node may have several roles.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Answers clients and routes to the other nodes.
    Gateway,
    /// Owns shards.
    Retriever,
    /// Embeds texts.
    Encoder,
    /// Builds trees and graphs from many chunks.
    GraphBuilder,
    /// Generates texts.
    Generator,
}

impl Role {
    /// Every role, in the order of their declaration.
    pub const ALL: [Self; 5] =
        [Self::Gateway, Self::Retriever, Self::Encoder, Self::GraphBuilder, Self::Generator];

    /// Returns the role's name in configuration, on the command line and in Redis.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Retriever => "retriever",
            Self::Encoder => "encoder",
            Self::GraphBuilder => "graph-builder",
            Self::Generator => "generator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|role| role.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid("roles", format!("expected one of {names}, got `{name}`"))
        })
    }
}

/// The state of a member: whether it takes new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// It takes new work.
    Serving,
    /// It is about to leave: it finishes its work and takes nothing new.
    Draining,
}

/// A node as the other nodes see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Name of the node.
    pub id: NodeId,
    /// Address where it is reached.
    pub address: Address,
    /// Roles of the node.
    pub roles: BTreeSet<Role>,
    /// Whether it takes new work.
    pub state: MemberState,
    /// Number of the run of this node: a later start has a greater number. 0 where runs are not
    /// distinguished.
    pub incarnation: u64,
}

impl Member {
    /// Creates the member for this process, serving from now on.
    pub fn starting(id: NodeId, address: Address, roles: impl IntoIterator<Item = Role>) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id,
            address,
            roles: roles.into_iter().collect(),
            state: MemberState::Serving,
            // Redis' scripts count exactly up to 2^53. Microseconds since 1970 stay below it until
            // the year 2255.
            incarnation: u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// Returns whether it has `role` and takes new work.
    pub fn serves(&self, role: Role) -> bool {
        self.state == MemberState::Serving && self.roles.contains(&role)
    }
}

/// One shard of one corpus.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardKey {
    /// The corpus.
    pub corpus: CorpusName,
    /// Index of the shard in the corpus.
    pub shard: ShardIndex,
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.corpus, self.shard)
    }
}

/// All known members of the cluster, sorted by name.
///
/// A member in the list may still be unreachable: it may have crashed a moment ago.
#[derive(Clone, Debug)]
pub struct Members {
    members: Vec<Member>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Fixed,
    Redis { contact: Arc<Contact>, trusted_for: Duration },
}

impl Members {
    /// Creates a list that is always current.
    pub fn fixed(members: impl IntoIterator<Item = Member>) -> Self {
        Self { members: sorted(members), source: Source::Fixed }
    }

    pub(crate) fn observed(
        members: impl IntoIterator<Item = Member>,
        contact: Arc<Contact>,
        trusted_for: Duration,
    ) -> Self {
        Self { members: sorted(members), source: Source::Redis { contact, trusted_for } }
    }

    /// Returns whether the list may be out of date because Redis has not answered for a member's
    /// time to live. This is computed at each call, so a process that was paused does not trust its
    /// earlier view.
    pub fn is_stale(&self) -> bool {
        self.is_stale_at(Instant::now())
    }

    pub(crate) fn is_stale_at(&self, now: Instant) -> bool {
        match &self.source {
            Source::Fixed => false,
            Source::Redis { contact, trusted_for } => {
                contact.elapsed(now).is_none_or(|elapsed| elapsed > *trusted_for)
            }
        }
    }

    /// Returns all members.
    pub fn as_slice(&self) -> &[Member] {
        &self.members
    }

    /// Returns the member called `id`.
    pub fn get(&self, id: &NodeId) -> Option<&Member> {
        self.members.binary_search_by(|member| member.id.cmp(id)).ok().map(|at| &self.members[at])
    }

    /// Returns the members with `role`, serving or draining.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| member.roles.contains(&role))
    }
}

fn sorted(members: impl IntoIterator<Item = Member>) -> Vec<Member> {
    let mut members: Vec<Member> = members.into_iter().collect();
    members.sort_by(|a, b| a.id.cmp(&b.id));
    members.dedup_by(|a, b| a.id == b.id);
    members
}

/// Time of the last answer of Redis, shared by all that need it.
#[derive(Debug)]
pub(crate) struct Contact {
    origin: Instant,
    /// Microseconds after `origin`, plus one. 0 means never.
    last: AtomicU64,
}

impl Contact {
    pub(crate) fn never() -> Self {
        Self::none_since(Instant::now())
    }

    /// Creates a contact that has not happened, and will not happen before `origin`.
    pub(crate) fn none_since(origin: Instant) -> Self {
        Self { origin, last: AtomicU64::new(0) }
    }

    /// Records an answer to a request that was sent at `sent`.
    pub(crate) fn note(&self, sent: Instant) {
        let micros = sent.saturating_duration_since(self.origin).as_micros();
        let last = u64::try_from(micros).unwrap_or(u64::MAX - 1) + 1;
        self.last.fetch_max(last, Ordering::AcqRel);
    }

    fn elapsed(&self, now: Instant) -> Option<Duration> {
        let last = self.last.load(Ordering::Acquire).checked_sub(1)?;
        Some(now.saturating_duration_since(self.origin + Duration::from_micros(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_addresses_are_checked() {
        for good in ["a", "node-1", "Host.example.org_2", &"x".repeat(128)] {
            assert!(good.parse::<NodeId>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a b", "a/b", "é", &"x".repeat(129)] {
            assert!(bad.parse::<NodeId>().is_err(), "{bad}");
        }
        for good in [
            "http://10.0.0.1:7000",
            "https://10.0.0.1:7000",
            "http://node-1.svc:1",
            "http://[::1]:65535",
        ] {
            assert!(good.parse::<Address>().is_ok(), "{good}");
        }
        for bad in ["", "10.0.0.1:7000", "http://:1", "http://a", "http://a:0", "http://a:1/b"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
        let generated = NodeId::generate();
        assert_eq!(generated.as_str().parse::<NodeId>().unwrap(), generated);
        assert_ne!(generated, NodeId::generate());
    }

    #[test]
    fn a_role_has_one_name_everywhere() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>().unwrap(), role);
            assert_eq!(serde_json::to_value(role).unwrap(), role.as_str());
        }
        assert!("reader".parse::<Role>().is_err());
    }

    #[test]
    fn a_view_grows_stale_by_itself() {
        let contact = Arc::new(Contact::never());
        let members = Members::observed([], Arc::clone(&contact), Duration::from_secs(3600));
        assert!(members.is_stale(), "nothing was heard yet");
        contact.note(Instant::now());
        assert!(!members.is_stale());
        let impatient = Members::observed([], contact, Duration::ZERO);
        assert!(impatient.is_stale(), "time has passed since");
        assert!(!Members::fixed([]).is_stale());
    }
}
