//! Real Redis servers that take over from each other: watched by a Sentinel, or a cluster.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::redis_server::{RedisOptions, RedisServer, free_address};

/// Maximum time for servers to find each other: far more than they need on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Name that the Sentinel uses for the servers that it watches.
const NAME: &str = "clew";
/// Passwords of the servers and of the Sentinel.
const PASSWORDS: (&str, &str) = ("of-servers", "of-sentinels");

/// Number of masters of a cluster.
const MASTERS: u16 = 3;
/// Number of slots that keys are divided into.
const SLOTS: u16 = 16_384;

/// A master and its replica, with a Sentinel that promotes the replica if the master is gone. All
/// require passwords.
#[derive(Debug)]
pub struct WatchedRedis {
    /// The initial master.
    pub master: RedisServer,
    /// Its successor.
    pub replica: RedisServer,
    /// The Sentinel that watches both.
    pub sentinel: RedisServer,
}

impl WatchedRedis {
    /// Starts the three servers, which write to `folder`, and waits until they know each other.
    ///
    /// # Errors
    /// Returns the errors of [`RedisServer::start`].
    pub fn start(folder: &Path) -> io::Result<Self> {
        let (password, of_sentinel) = PASSWORDS;
        let server = |arguments: &[&str]| {
            let mut words = vec!["--masterauth", password, "--repl-diskless-sync-delay", "0"];
            words.extend(arguments);
            let arguments: Vec<String> = words.into_iter().map(ToOwned::to_owned).collect();
            RedisServer::start_with(|_| {
                let password = Some(password.to_owned());
                Ok(RedisOptions { password, arguments: arguments.clone(), file: None })
            })
        };
        let master = server(&[])?;
        let port = master.port();
        let replica = server(&["--replicaof", &format!("127.0.0.1 {port}")])?;
        let sentinel = RedisServer::start_with(|own_port| {
            let content = format!(
                "port {own_port}\nbind 127.0.0.1\nprotected-mode no\nrequirepass {of_sentinel}\n\
                 sentinel monitor {NAME} 127.0.0.1 {port} 1\nsentinel auth-pass {NAME} {password}\n\
                 sentinel down-after-milliseconds {NAME} 500\nsentinel failover-timeout {NAME} 2000\n"
            );
            Ok(RedisOptions {
                password: Some(of_sentinel.to_owned()),
                arguments: vec!["--sentinel".to_owned()],
                file: Some((folder.join(format!("sentinel-{own_port}.conf")), content)),
            })
        })?;
        let watched = Self { master, replica, sentinel };
        until("the Sentinel knows the replica", || {
            let is_up =
                say(&watched.replica, "INFO replication")?.contains("master_link_status:up");
            let known = say(&watched.sentinel, &format!("SENTINEL REPLICAS {NAME}"))?;
            Ok(is_up && known.contains(&watched.replica.port().to_string()))
        })?;
        Ok(watched)
    }

    /// Returns the URL for the configuration. Its first Sentinel does not exist.
    pub fn url(&self) -> String {
        let (password, of_sentinel) = PASSWORDS;
        let port = self.sentinel.port();
        format!(
            "redis+sentinel://:{password}@127.0.0.1:1,127.0.0.1:{port}/{NAME}?sentinel_password={of_sentinel}"
        )
    }
}

/// Three masters without replicas that share all keys.
#[derive(Debug)]
pub struct RedisCluster {
    /// The masters, each with about a third of the slots initially.
    pub masters: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts the masters, which write to `folder`, and waits until they know each other.
    ///
    /// # Errors
    /// Returns the errors of [`RedisServer::start`].
    pub fn start(folder: &Path) -> io::Result<Self> {
        let start = |_| {
            RedisServer::start_with(|port| {
                let folder = folder.display().to_string();
                let (bus, nodes) =
                    (free_address()?.port().to_string(), format!("nodes-{port}.conf"));
                let words = [
                    ["--cluster-enabled", "yes"],
                    ["--cluster-port", &bus],
                    ["--cluster-config-file", &nodes],
                    ["--dir", &folder],
                    ["--cluster-node-timeout", "2000"],
                    // The keys of the other masters stay usable when one is gone.
                    ["--cluster-require-full-coverage", "no"],
                ];
                let arguments = words.into_iter().flatten().map(ToOwned::to_owned).collect();
                Ok(RedisOptions { arguments, ..RedisOptions::default() })
            })
        };
        let masters: Vec<RedisServer> = (0..MASTERS).map(start).collect::<io::Result<_>>()?;
        let share = SLOTS.div_ceil(MASTERS);
        for (index, master) in (0..MASTERS).zip(&masters) {
            let (first, last) = (index * share, ((index + 1) * share).min(SLOTS) - 1);
            say(master, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
            say(master, &format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1))?;
        }
        let cluster = Self { masters };
        let [first, others @ ..] = cluster.masters.as_slice() else {
            return Err(io::Error::other("a cluster of no masters"));
        };
        for other in others {
            // The bus port is given because it is not the default one.
            let told = say(other, "CONFIG GET cluster-port")?;
            let bus = told.lines().last().unwrap_or_default().trim().to_owned();
            say(first, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", other.port()))?;
        }
        until("the masters know each other", || {
            for master in &cluster.masters {
                let told = say(master, "CLUSTER INFO")?;
                let expected = format!("cluster_known_nodes:{MASTERS}");
                if !told.contains("cluster_state:ok") || !told.contains(&expected) {
                    return Ok(false);
                }
                if !told.contains(&format!("cluster_slots_ok:{SLOTS}")) {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(cluster)
    }

    /// Returns the URL for the configuration.
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.masters.iter().map(|master| format!("127.0.0.1:{}", master.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Returns the index of the master that has a key.
    ///
    /// # Errors
    /// Returns an error if a master does not answer.
    pub fn owner_of(&self, key: &str) -> io::Result<usize> {
        for (index, master) in self.masters.iter().enumerate() {
            if !say_any(master, &format!("GET {key}"))?.contains("MOVED") {
                return Ok(index);
            }
        }
        Err(io::Error::other(format!("no master has {key}")))
    }

    /// Moves the slot of a key, with all keys in it, to another master. The keys may be in use
    /// meanwhile.
    ///
    /// # Errors
    /// Returns an error if a master does not answer as expected.
    pub fn move_slot_of(&self, key: &str, to: usize) -> io::Result<()> {
        let from = &self.masters[self.owner_of(key)?];
        let to = &self.masters[to];
        let slot = say(from, &format!("CLUSTER KEYSLOT {key}"))?;
        let slot = slot.trim().trim_start_matches(':');
        let id = |server| -> io::Result<String> {
            let told = say(server, "CLUSTER MYID")?;
            Ok(told.lines().last().unwrap_or_default().trim().to_owned())
        };
        say(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)?))?;
        say(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)?))?;
        loop {
            let told = say(from, &format!("CLUSTER GETKEYSINSLOT {slot} 100"))?;
            let keys = told.lines().filter(|line| !line.starts_with(['*', '$']));
            let keys: Vec<&str> = keys.map(str::trim).collect();
            if keys.is_empty() {
                break;
            }
            let keys = keys.join(" ");
            say(from, &format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {keys}", to.port()))?;
        }
        let to = id(to)?;
        for master in &self.masters {
            say(master, &format!("CLUSTER SETSLOT {slot} NODE {to}"))?;
        }
        Ok(())
    }
}

/// Returns the whole reply to a command, which may be a refusal.
fn say_any(server: &RedisServer, command: &str) -> io::Result<String> {
    const LAST: &str = "+PONG\r\n";
    let reply = server.command(&format!("{command}\r\nPING"), LAST)?;
    Ok(reply.trim_end_matches(LAST).to_owned())
}

/// Returns the whole reply to a command. Returns an error if it is a refusal.
fn say(server: &RedisServer, command: &str) -> io::Result<String> {
    let reply = say_any(server, command)?;
    match reply.starts_with('-') {
        true => Err(io::Error::other(format!("{command}: Redis said {reply}"))),
        false => Ok(reply),
    }
}

fn until(what: &str, holds: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let give_up = Instant::now() + PATIENCE;
    while !holds()? {
        if Instant::now() > give_up {
            return Err(io::Error::other(format!("waited too long until {what}")));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}
