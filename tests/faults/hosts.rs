//! Hosts on this machine, and faults of their network: network namespaces on a bridge.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// Prefix of the names of everything that a run creates on the machine. The process id follows it.
const PREFIX: &str = "clewf";

/// Network of hosts on a bridge, isolated except for this process. Dropping it removes its hosts.
pub struct Network {
    name: String,
    /// First three bytes of its addresses, from the range reserved for tests of networks (RFC
    /// 2544).
    subnet: [u8; 3],
    hosts: BTreeMap<String, Host>,
}

/// Host: a network namespace with one address.
#[derive(Debug)]
pub struct Host {
    namespace: String,
    /// End of the host's wire on the bridge.
    wire: String,
    pub address: Ipv4Addr,
}

impl Network {
    /// Creates a network without hosts. First removes what killed runs left behind.
    pub fn new() -> Self {
        remove_leftovers();
        let [.., high, low] = std::process::id().to_be_bytes();
        let network =
            Self { name: run_name(), subnet: [198, 18 + (high & 1), low], hosts: BTreeMap::new() };
        let bridge = network.bridge();
        ip(&["link", "add", &bridge, "type", "bridge"]);
        ip(&["address", "add", &format!("{}/24", network.address(1)), "dev", &bridge]);
        ip(&["link", "set", &bridge, "up"]);
        network
    }

    /// Adds a host.
    pub fn add(&mut self, name: &str) -> &Host {
        let number = u8::try_from(self.hosts.len() + 2).expect("a host has a number below 254");
        let (namespace, address) = (format!("{}-{name}", self.name), self.address(number));
        let (wire, bridge) = (format!("{}v{number}", self.name), self.bridge());
        ip(&["netns", "add", &namespace]);
        let host = self.hosts.entry(name.to_owned()).or_insert(Host { namespace, wire, address });
        let (inside, wire) = (host.namespace.as_str(), host.wire.as_str());
        ip(&["link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", inside]);
        ip(&["link", "set", wire, "master", &bridge, "up"]);
        ip(&["-n", inside, "address", "add", &format!("{address}/24"), "dev", "eth0"]);
        ip(&["-n", inside, "link", "set", "eth0", "up"]);
        ip(&["-n", inside, "link", "set", "lo", "up"]);
        host.nft("add table inet faults");
        host.nft("add chain inet faults input { type filter hook input priority 0; }");
        host
    }

    /// Returns the host of that name, which must have been added.
    pub fn host(&self, name: &str) -> &Host {
        &self.hosts[name]
    }

    /// Undoes every cut.
    pub fn heal(&self) {
        for host in self.hosts.values() {
            host.nft("flush chain inet faults input");
        }
    }

    fn bridge(&self) -> String {
        format!("{}b", self.name)
    }

    fn address(&self, number: u8) -> Ipv4Addr {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, number)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in self.hosts.values() {
            // A wire is also removed with its namespace, but some time later.
            drop(output(Command::new("ip").args(["link", "delete", &host.wire])));
            remove_namespace(&host.namespace);
        }
        drop(output(Command::new("ip").args(["link", "delete", &self.bridge()])));
    }
}

impl Host {
    /// Returns a command that runs its remaining arguments on this host.
    pub fn through(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace].map(str::to_owned).to_vec()
    }

    /// Drops all packets from `other`, which still receives from this host.
    pub fn turn_deaf_to(&self, other: &Self) {
        self.nft(&format!("add rule inet faults input ip saddr {} drop", other.address));
    }

    fn nft(&self, rule: &str) {
        let mut words = self.through();
        words.extend(["nft", rule].map(str::to_owned));
        run(Command::new(&words[0]).args(&words[1..]));
    }
}

/// Returns the prefix of every name of this run.
pub fn run_name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Removes the namespaces, processes, bridges and disks of runs that were killed.
fn remove_leftovers() {
    for line in output(Command::new("ip").args(["netns", "list"])).unwrap_or_default().lines() {
        let namespace = line.split(' ').next().unwrap_or_default();
        if is_left(namespace) {
            remove_namespace(namespace);
        }
    }
    let links = output(Command::new("ip").args(["-o", "link"])).unwrap_or_default();
    for link in links.lines().filter_map(|line| line.split(": ").nth(1)) {
        let link = link.split('@').next().unwrap_or_default();
        if is_left(link) {
            drop(output(Command::new("ip").args(["link", "delete", link])));
        }
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    for place in mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new) {
        let home = place
            .parent()
            .filter(|home| home.file_name().and_then(|name| name.to_str()).is_some_and(is_left));
        if let Some(home) = home {
            drop(output(Command::new("umount").arg("-l").arg(place)));
            drop(std::fs::remove_dir_all(home));
        }
    }
}

/// Returns whether a name belongs to a run that no longer runs.
fn is_left(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    !digits.is_empty()
        && digits != std::process::id().to_string()
        && !Path::new("/proc").join(digits).exists()
}

fn remove_namespace(namespace: &str) {
    let processes = output(Command::new("ip").args(["netns", "pids", namespace]));
    for process in processes.unwrap_or_default().lines() {
        drop(output(Command::new("kill").args(["-KILL", process])));
    }
    drop(output(Command::new("ip").args(["netns", "delete", namespace])));
}

fn ip(words: &[&str]) {
    run(Command::new("ip").args(words));
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) {
    if let Err(problem) = output(command) {
        panic!(
            "the tests of faults make hosts out of network namespaces and a disk out of a file, and \
             here they cannot: {command:?}: {problem}\nexpected Linux, root, and the packages that \
             `make setup` installs"
        );
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let ran = command.output().map_err(|error| error.to_string())?;
    match ran.status.success() {
        true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned()),
    }
}
