//! A real Redis server of a test's own.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer: far more than it needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two looks at whether it answers.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Ports to try, since another process may take a free one before the server does.
const ATTEMPTS: usize = 5;

/// A `redis-server` on a port of the loopback interface that keeps nothing on disk. It is killed when
/// dropped.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// If there is no `redis-server`, which `make setup` installs, or it does not answer.
    pub fn start() -> io::Result<Self> {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let mut server = Self { port, child: None };
            match server.run() {
                Ok(()) => return Ok(server),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| io::Error::other("no port is free")))
    }

    /// Its port on 127.0.0.1, the same for as long as this value lives.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, as configuration wants it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills it as `kill -9` does. Nothing that it held survives.
    ///
    /// # Errors
    /// Those of the system.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait().map(drop)
    }

    /// Starts it again on the same port, with nothing in it.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart_empty(&mut self) -> io::Result<()> {
        self.kill()?;
        self.run()
    }

    /// Sends a command as one line, reads until the reply holds `end`, and returns what was read.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn command(&self, command: &str, end: &str) -> io::Result<String> {
        ask(self.port, command, end)
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn empty(&self) -> io::Result<()> {
        let reply = self.command("FLUSHALL", "\r\n")?;
        let is_done = reply.starts_with("+OK");
        is_done.then_some(()).ok_or_else(|| io::Error::other(format!("Redis said {reply}")))
    }

    /// Stops the process where it is: connections stand and nobody answers.
    ///
    /// # Errors
    /// Those of the system.
    pub fn pause(&self) -> io::Result<()> {
        self.child.as_ref().map_or(Ok(()), |child| signal(child.id(), "STOP"))
    }

    /// Lets a stopped process go on.
    ///
    /// # Errors
    /// Those of the system.
    pub fn resume(&self) -> io::Result<()> {
        self.child.as_ref().map_or(Ok(()), |child| signal(child.id(), "CONT"))
    }

    fn run(&mut self) -> io::Result<()> {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
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
        // Another server may have the port: ours is the one of this process id.
        let ours = format!("process_id:{}\r", child.id());
        let child = self.child.insert(child);
        let give_up = Instant::now() + PATIENCE;
        let failure = loop {
            if let Some(status) = child.try_wait()? {
                break format!("redis-server ended with {status}");
            }
            if ask(self.port, "INFO server", &ours).is_ok_and(|reply| reply.contains(&ours)) {
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
        // A test that is over has nobody to tell.
        drop(self.kill());
    }
}

/// Sends a command and reads until the reply holds `end`.
fn ask(port: u16, command: &str, end: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let (mut reply, mut buffer) = (String::new(), [0; 4096]);
    while !reply.contains(end) {
        match stream.read(&mut buffer)? {
            0 => break,
            read => reply.push_str(&String::from_utf8_lossy(&buffer[..read])),
        }
        // A refusal, or the end of a whole reply that says something else.
        if reply.starts_with('-') || reply.contains("executable:") {
            break;
        }
    }
    Ok(reply)
}

/// Sends a signal, such as `STOP`, to a process, by the shell's own `kill`, which every system has.
///
/// # Errors
/// If there is no such process.
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
        let port = server.port();
        let asking = std::thread::spawn(move || {
            let reply = ask(port, "PING", "\r\n");
            sent.send(()).ok();
            reply
        });
        assert!(answered.recv_timeout(Duration::from_millis(100)).is_err(), "it is stopped");
        server.resume().unwrap();
        assert!(asking.join().unwrap().unwrap().starts_with("+PONG"));
    }
}
