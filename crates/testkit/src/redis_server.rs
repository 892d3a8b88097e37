//! Real Redis server for a single test.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time for a server to answer: far more than it needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval between two checks whether it answers.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Number of ports to try, because another process may take a free port before the server does.
const ATTEMPTS: usize = 5;

/// Settings of a server besides its port.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// Password that the server requires.
    pub password: Option<String>,
    /// Arguments after those common to all servers. With a configuration file, they are the only
    /// ones.
    pub arguments: Vec<String>,
    /// Path and content of a configuration file. It is written anew at every start, and the server
    /// may change it.
    pub file: Option<(PathBuf, String)>,
}

/// A `redis-server` that keeps nothing on disk. It is killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    address: SocketAddr,
    /// Command, such as `ip netns exec NAME`, that runs the rest of its arguments as a command.
    through: Vec<String>,
    options: RedisOptions,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server on a free port of the loopback interface and waits until it answers.
    ///
    /// # Errors
    /// Returns an error if there is no `redis-server`, which `make setup` installs, or if it does
    /// not answer.
    pub fn start() -> io::Result<Self> {
        Self::start_with(|_| Ok(RedisOptions::default()))
    }

    /// Starts a server like [`Self::start`], with options for the chosen port.
    ///
    /// # Errors
    /// Returns the errors of [`Self::start`] and of `options`.
    pub fn start_with(options: impl Fn(u16) -> io::Result<RedisOptions>) -> io::Result<Self> {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let address = free_address()?;
            let (through, options) = (Vec::new(), options(address.port())?);
            let mut server = Self { address, through, options, child: None };
            match server.run().map(|()| server) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => failure = Some(error),
                done => return done,
            }
        }
        Err(failure.unwrap_or_else(|| io::Error::other("no port is free")))
    }

    /// Starts a server at `address` and waits until it answers. It is started through a command
    /// that runs the rest of its arguments as a command, such as `ip netns exec NAME`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::start`].
    pub fn start_at(address: SocketAddr, through: &[String]) -> io::Result<Self> {
        let options = RedisOptions::default();
        let mut server = Self { address, through: through.to_vec(), options, child: None };
        server.run()?;
        Ok(server)
    }

    /// Returns its port, which stays the same for as long as this value lives.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the URL for the configuration.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Kills it as `kill -9` does. All its data is lost.
    ///
    /// # Errors
    /// Returns an error if the system cannot kill the process.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait().map(drop)
    }

    /// Starts it again on the same port, without data.
    ///
    /// # Errors
    /// Returns the errors of [`Self::start`].
    pub fn restart_empty(&mut self) -> io::Result<()> {
        self.kill()?;
        self.run()
    }

    /// Sends a command as one line, reads until the reply contains `end`, and returns what was
    /// read.
    ///
    /// # Errors
    /// Returns an error if the server does not answer.
    pub fn command(&self, command: &str, end: &str) -> io::Result<String> {
        ask(self.address, self.options.password.as_deref(), command, end)
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// Returns an error if the server does not answer.
    pub fn empty(&self) -> io::Result<()> {
        let reply = self.command("FLUSHALL", "\r\n")?;
        let is_done = reply.starts_with("+OK");
        is_done.then_some(()).ok_or_else(|| io::Error::other(format!("Redis said {reply}")))
    }

    /// Pauses the process: connections stay open and nothing is answered.
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub fn pause(&self) -> io::Result<()> {
        self.child.as_ref().map_or(Ok(()), |child| signal(child.id(), "STOP"))
    }

    /// Resumes a paused process.
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub fn resume(&self) -> io::Result<()> {
        self.child.as_ref().map_or(Ok(()), |child| signal(child.id(), "CONT"))
    }

    fn run(&mut self) -> io::Result<()> {
        let (address, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let mut words = self.through.iter().map(String::as_str).chain(["redis-server"]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        let RedisOptions { password, arguments, file } = &self.options;
        match file {
            Some((path, content)) => {
                std::fs::write(path, content)?;
                command.arg(path);
            }
            None => {
                command.args(["--port", &port, "--bind", &address, "--protected-mode", "no"]);
                command.args(["--save", "", "--appendonly", "no"]);
                // Directory for the files of a transfer to a replica.
                command.arg("--dir").arg(std::env::temp_dir());
                command.args(
                    password.iter().flat_map(|password| ["--requirepass", password.as_str()]),
                );
            }
        }
        let password = password.clone();
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::new(
                    io::ErrorKind::NotFound,
                    "there is no redis-server; install it with `make setup`",
                ),
                _ => error,
            })?;
        // Another server may have taken the port, so the process id is compared.
        let ours = format!("process_id:{}\r", child.id());
        let child = self.child.insert(child);
        let give_up = Instant::now() + PATIENCE;
        let failure = loop {
            if let Some(status) = child.try_wait()? {
                break format!("redis-server ended with {status}");
            }
            let told = ask(self.address, password.as_deref(), "INFO server", &ours);
            if told.is_ok_and(|reply| reply.contains(&ours)) {
                return Ok(());
            }
            if Instant::now() > give_up {
                break format!("redis-server did not answer within {PATIENCE:?}");
            }
            std::thread::sleep(LOOK_INTERVAL);
        };
        self.kill()?;
        Err(io::Error::other(failure))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // The test is over and cannot report an error.
        drop(self.kill());
    }
}

/// Returns an address of the loopback interface with a port that is free now.
///
/// # Errors
/// Returns an error if the system has no free port.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Sends a command, after the password if there is one, and reads until its reply contains `end`.
fn ask(
    address: SocketAddr,
    password: Option<&str>,
    command: &str,
    end: &str,
) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    if let Some(password) = password {
        let (accepted, mut reply) = (b"+OK\r\n", [0; 5]);
        stream.write_all(format!("AUTH {password}\r\n").as_bytes())?;
        stream.read_exact(&mut reply)?;
        if reply != *accepted {
            return Err(io::Error::other("Redis did not accept the password"));
        }
    }
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let (mut reply, mut buffer) = (String::new(), [0; 4096]);
    while !reply.contains(end) {
        match stream.read(&mut buffer)? {
            0 => break,
            read => reply.push_str(&String::from_utf8_lossy(&buffer[..read])),
        }
        // A refusal, or a complete reply without `end`.
        if reply.starts_with('-') || reply.contains("executable:") {
            break;
        }
    }
    Ok(reply)
}

/// Sends a signal, such as `STOP`, to a process with the shell's built-in `kill`, which every
/// system has.
///
/// # Errors
/// Returns an error if there is no such process.
pub fn signal(process: u32, name: &str) -> io::Result<()> {
    let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {process}")).status()?;
    let is_sent = status.success();
    is_sent.then_some(()).ok_or_else(|| io::Error::other(format!("kill -{name}: {status}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_until_it_is_killed_and_again_after_a_restart() {
        let mut server = RedisServer::start().unwrap();
        let port = server.port();
        assert!(server.command("SET a 1", "\r\n").unwrap().starts_with("+OK"));
        server.kill().unwrap();
        assert!(server.command("GET a", "\r\n").is_err());
        server.restart_empty().unwrap();
        assert_eq!(server.port(), port);
        assert!(server.command("GET a", "\r\n").unwrap().starts_with("$-1"));
        assert!(server.command("SET a 1", "\r\n").unwrap().starts_with("+OK"));
        server.empty().unwrap();
        assert!(server.command("GET a", "\r\n").unwrap().starts_with("$-1"));
    }

    #[test]
    fn a_stopped_one_answers_when_it_goes_on() {
        let server = RedisServer::start().unwrap();
        server.pause().unwrap();
        let (sent, answered) = std::sync::mpsc::channel();
        let address = server.address;
        let asking = std::thread::spawn(move || {
            let reply = ask(address, None, "PING", "\r\n");
            sent.send(()).ok();
            reply
        });
        assert!(answered.recv_timeout(Duration::from_millis(100)).is_err(), "it is stopped");
        server.resume().unwrap();
        assert!(asking.join().unwrap().unwrap().starts_with("+PONG"));
    }
}
