//! A real S3-compatible server of a test's own.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer: far more than it needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two looks at whether it answers.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Ports to try, since another process may take a free one before the server does.
const ATTEMPTS: usize = 5;

/// The bucket that is there from the beginning.
const BUCKET: &str = "clew-test";

/// What a server does that no one should be built on.
#[derive(Clone, Copy, Debug, Default)]
pub struct S3Faults {
    /// It passes over `If-None-Match` and `If-Match`, as older servers do.
    pub ignores_conditions: bool,
    /// How far its clock is ahead; behind, if negative.
    pub clock_ahead_secs: i32,
}

/// Runs `moto` with faults: whether it ignores conditions, and its clock, are the first two arguments. By itself it looks
/// whether a condition holds and then acts, so that of several puts at once two may succeed; here they wait for each
/// other, once their bodies have come.
const FAULTY: &str = r#"
import datetime, io, sys, threading
import moto.s3.models as models
import moto.server as server

ignores_conditions = sys.argv.pop(1) == "true"
ahead = datetime.timedelta(seconds=int(sys.argv.pop(1)))
now = models.utcnow
models.utcnow = lambda: now() + ahead

conditional = threading.Lock()

class Faulty(server.DomainDispatcherApplication):
    def __call__(self, environ, start_response):
        if ignores_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
            environ.pop("HTTP_IF_MATCH", None)
        if "HTTP_IF_NONE_MATCH" not in environ and "HTTP_IF_MATCH" not in environ:
            return super().__call__(environ, start_response)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with conditional:
            return super().__call__(environ, start_response)

server.DomainDispatcherApplication = Faulty
server.main()
"#;

/// `moto`, a server that keeps everything in memory and makes exactly one of several conditional puts
/// succeed. It takes any credentials. It is killed when dropped.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    child: Child,
}

impl S3Server {
    /// Starts a server on a free port of the loopback interface and waits until it answers.
    ///
    /// # Errors
    /// If it is not installed, which `make test` does, or it does not answer.
    pub fn start() -> io::Result<Self> {
        Self::start_faulty(S3Faults::default())
    }

    /// Starts a server that does what it should not.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_faulty(faults: S3Faults) -> io::Result<Self> {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            match Self::run(address, &[], faults) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => failure = Some(error),
                done => return done,
            }
        }
        Err(failure.unwrap_or_else(|| io::Error::other("no port is free")))
    }

    /// Its address, as configuration wants it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A data directory in a bucket of it.
    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/some/where")
    }

    /// Configuration keys of the storage, as environment variables.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("CLEW_STORAGE__S3__ENDPOINT", self.endpoint()),
            ("CLEW_STORAGE__S3__ALLOW_HTTP", "true".to_owned()),
            ("CLEW_STORAGE__S3__ACCESS_KEY_ID", "test".to_owned()),
            ("CLEW_STORAGE__S3__SECRET_ACCESS_KEY", "test-secret".to_owned()),
        ]
    }

    /// Names of all objects of the bucket.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn objects(&self) -> io::Result<Vec<String>> {
        let answer = ask(self.address, "GET")?;
        if answer.split(' ').nth(1) != Some("200") {
            return Err(io::Error::other(format!("expected a listing, got {answer}")));
        }
        let keys = answer.split("<Key>").skip(1).filter_map(|rest| rest.split('<').next());
        Ok(keys.map(ToOwned::to_owned).collect())
    }

    /// Starts a server at an address, by a command that runs the rest of its words as a command, such
    /// as `ip netns exec NAME`, and waits until it answers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_at(address: SocketAddr, through: &[String]) -> io::Result<Self> {
        Self::run(address, through, S3Faults::default())
    }

    fn run(address: SocketAddr, through: &[String], faults: S3Faults) -> io::Result<Self> {
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let python = python();
        let mut words = through.iter().map(OsStr::new).chain([python.as_os_str()]);
        let child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .args(["-c", FAULTY, &faults.ignores_conditions.to_string()])
            .args([&faults.clock_ahead_secs.to_string(), "-H", &host, "-p", &port])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let problem = format!("{}: {error}; run `make setup`", python.display());
                io::Error::new(error.kind(), problem)
            })?;
        let mut server = Self { address, child };
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = server.child.try_wait()? {
                let problem = format!(
                    "the S3 server ended with {status}; install it with `make test`, or with pip \
                     from tests/python/requirements.txt"
                );
                return Err(io::Error::other(problem));
            }
            if put_bucket(address).is_ok_and(|answer| answer.split(' ').nth(1) == Some("200")) {
                return Ok(server);
            }
            if Instant::now() > give_up {
                let problem = format!("the S3 server did not answer within {PATIENCE:?}");
                return Err(io::Error::other(problem));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // A test that is over has nobody to tell.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The interpreter with the packages of `tests/python/requirements.txt`.
fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/python/bin/python")
}

/// Makes the bucket; returns the answer.
fn put_bucket(address: SocketAddr) -> io::Result<String> {
    ask(address, "PUT")
}

/// Asks for something about the bucket; returns the answer.
fn ask(address: SocketAddr, method: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!(
        "{method} /{BUCKET} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_and_is_gone_when_dropped() {
        let server = S3Server::start().unwrap();
        let address = server.address;
        assert!(put_bucket(address).unwrap().starts_with("HTTP/1."));
        drop(server);
        assert!(put_bucket(address).is_err());
    }
}
