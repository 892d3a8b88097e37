//! Address of Redis: one server, one that Sentinels watch, or a Redis Cluster.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

/// Description of the valid address forms, for error messages.
const EXPECTED: &str = "expected `redis://host:port`, `redis+sentinel://host:port,host:port/master` or \
                        `redis+cluster://host:port,host:port`, or with `rediss` for TLS";
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The place where one server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A host and a port.
    Tcp(String, u16),
    /// A socket on this machine.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The way to find the server that has a key.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    /// One server.
    One(Place),
    /// The server that the Sentinels currently name as the master called `master`.
    Sentinels { sentinels: Vec<Place>, login: RedisConnectionInfo, master: String },
    /// A cluster, each of whose servers knows which server has which keys.
    Cluster { seeds: Vec<Place> },
}

/// The servers, and how this node logs in.
#[derive(Clone, Debug)]
pub(crate) struct RedisAddress {
    pub topology: Topology,
    pub is_encrypted: bool,
    /// Login and database on the servers that hold keys.
    pub login: RedisConnectionInfo,
}

impl RedisAddress {
    /// Parses an address. The problem that it returns on failure contains no password.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let is_encrypted = scheme.starts_with("rediss") || scheme == "valkeys";
        if is_encrypted && rest.contains('#') {
            return Err(
                "expected no `#` in the address: certificates are verified always".to_owned()
            );
        }
        let (topology, login) = match scheme {
            "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => one(text)?,
            "rediss" | "valkeys" => one(&format!("redis://{rest}"))?,
            "redis+sentinel" | "rediss+sentinel" => sentinels(rest)?,
            "redis+cluster" | "rediss+cluster" => cluster(rest)?,
            _ => return Err(EXPECTED.to_owned()),
        };
        Ok(Self { topology, is_encrypted, login })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.topology, Topology::Cluster { .. })
    }
}

/// Returns a server and a login. The `redis` crate parses the URL because it knows the escaping
/// rules.
fn server(url: &str) -> Result<(Place, RedisConnectionInfo), String> {
    let info = url.into_connection_info().map_err(|error| format!("{EXPECTED}: {error}"))?;
    let place = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Place::Tcp(host.clone(), *port),
        ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
        _ => return Err(EXPECTED.to_owned()),
    };
    Ok((place, info.redis_settings().clone()))
}

fn one(url: &str) -> Result<(Topology, RedisConnectionInfo), String> {
    let (place, login) = server(url)?;
    Ok((Topology::One(place), login))
}

/// The part after `://` of an address that names several servers.
struct List<'a> {
    /// Credentials including the `@` behind them, or empty.
    credentials: &'a str,
    hosts: Vec<String>,
    path: &'a str,
    query: &'a str,
}

impl<'a> List<'a> {
    fn parse(rest: &'a str, default_port: u16) -> Result<Self, String> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        let with_port = |host: &str| {
            let port = &host[host.rfind(']').unwrap_or(0)..];
            if port.contains(':') { host.to_owned() } else { format!("{host}:{default_port}") }
        };
        let hosts: Vec<_> = hosts.split(',').map(str::trim).map(with_port).collect();
        if hosts.iter().any(|host| host.starts_with(':')) {
            return Err("expected hosts with a comma in between, got an empty one".to_owned());
        }
        Ok(Self { credentials, hosts, path, query })
    }

    /// Returns the servers, and the login for `database`.
    fn servers(&self, database: &str) -> Result<(Vec<Place>, RedisConnectionInfo), String> {
        let mut places = Vec::new();
        let mut login = RedisConnectionInfo::default();
        for host in &self.hosts {
            let (place, same) = server(&format!("redis://{}{host}/{database}", self.credentials))?;
            places.push(place);
            login = same;
        }
        Ok((places, login))
    }
}

fn sentinels(rest: &str) -> Result<(Topology, RedisConnectionInfo), String> {
    let list = List::parse(rest, SENTINEL_PORT)?;
    let (master, database) = list.path.split_once('/').unwrap_or((list.path, ""));
    if master.is_empty() {
        return Err("expected the name of the master behind the Sentinels, as in \
                    `redis+sentinel://host:port,host:port/master`"
            .to_owned());
    }
    let (sentinels, login) = list.servers(database)?;
    let (mut user, mut password) = ("", "");
    for (key, value) in list.query.split('&').filter_map(|pair| pair.split_once('=')) {
        match key {
            "sentinel_user" => user = value,
            "sentinel_password" => password = value,
            _ => {
                let known = "`sentinel_user` and `sentinel_password`";
                return Err(format!("expected {known} behind the `?`, got `{key}`"));
            }
        }
    }
    let (_, of_sentinels) = match (user, password) {
        ("", "") => server("redis://sentinel")?,
        _ => server(&format!("redis://{user}:{password}@sentinel"))?,
    };
    let master = master.to_owned();
    Ok((Topology::Sentinels { sentinels, login: of_sentinels, master }, login))
}

fn cluster(rest: &str) -> Result<(Topology, RedisConnectionInfo), String> {
    let list = List::parse(rest, REDIS_PORT)?;
    if !matches!(list.path, "" | "0") || !list.query.is_empty() {
        return Err(
            "expected nothing behind the hosts of a cluster, which has database 0 only".to_owned()
        );
    }
    let (seeds, login) = list.servers("")?;
    Ok((Topology::Cluster { seeds }, login))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(places: &[Place]) -> String {
        places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_server_several_sentinels_and_a_cluster_are_told_apart() {
        let one = RedisAddress::parse("rediss://user:p%40ss@[::1]:7000/3").unwrap();
        assert!(one.is_encrypted && !one.is_cluster());
        let Topology::One(place) = &one.topology else { panic!("{one:?}") };
        assert_eq!(place.to_string(), "[::1]:7000");
        assert_eq!((one.login.username(), one.login.password()), (Some("user"), Some("p@ss")));
        assert_eq!(one.login.db(), 3);
        assert!(!RedisAddress::parse("redis://host").unwrap().is_encrypted);
        assert!(RedisAddress::parse("redis+unix:///run/redis.sock").is_ok());

        let text =
            "redis+sentinel://:p%2Fw@a,b:7000,[::1]/clew/2?sentinel_user=u&sentinel_password=s%3F";
        let watched = RedisAddress::parse(text).unwrap();
        let Topology::Sentinels { sentinels, login, master } = &watched.topology else {
            panic!("{watched:?}")
        };
        assert_eq!(places(sentinels), "a:26379 b:7000 [::1]:26379");
        assert_eq!((login.username(), login.password()), (Some("u"), Some("s?")));
        assert_eq!((watched.login.password(), watched.login.db()), (Some("p/w"), 2));
        assert_eq!(master, "clew");

        let cluster = RedisAddress::parse("rediss+cluster://u:p@a,b:7001").unwrap();
        assert!(cluster.is_encrypted && cluster.is_cluster());
        let Topology::Cluster { seeds } = &cluster.topology else { panic!("{cluster:?}") };
        assert_eq!(places(seeds), "a:6379 b:7001");
        assert_eq!(cluster.login.username(), Some("u"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_a_password() {
        for text in [
            "",
            "host:6379",
            "http://:secret@host",
            "rediss://:secret@host/#insecure",
            "redis+sentinel://:secret@a,b",
            "redis+sentinel://a/m?password=secret",
            "redis+sentinel://:secret@a,,b/m",
            "redis+cluster://:secret@",
            "redis+cluster://:secret@a/1",
            "redis+cluster://:secret@a:port",
        ] {
            let problem = RedisAddress::parse(text).unwrap_err();
            assert!(problem.contains("expected") && !problem.contains("secret"), "{problem}");
        }
    }
}
