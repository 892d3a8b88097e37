//! Real S3-compatible server for a single test.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Maximum time for a server to answer: far more than it needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between two checks whether it answers.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Number of ports to try, because another process may take a free port before the server does.
const ATTEMPTS: usize = 5;

/// The bucket that exists from the beginning.
const BUCKET: &str = "clew-test";

/// Defects of a server that make it unsafe as storage.
#[derive(Clone, Copy, Debug, Default)]
pub struct S3Faults {
    /// It ignores `If-None-Match` and `If-Match`, as older servers do.
    pub ignores_conditions: bool,
    /// Seconds by which its clock is ahead, or behind if negative.
    pub clock_ahead_secs: i32,
}

/// Credentials that clients show. Only the strict server looks at them.
const ACCESS_KEY: &str = "test";
const SECRET_KEY: &str = "test-secret";

/// Program that runs `moto` with faults. Its first two arguments are whether to ignore conditions,
/// and the offset of the clock in seconds. `moto` itself checks a condition and acts afterwards, so
/// that several concurrent puts may succeed. Here, a lock serialises conditional requests once
/// their bodies have arrived.
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

/// The server `moto`, which keeps everything in memory. Exactly one of several conditional puts
/// succeeds. It accepts any credentials. Or the server `s3s-fs`, which keeps everything in a
/// folder. It verifies signatures and checksums, but two conditional puts at the same moment may
/// both succeed. Either is killed when dropped.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    child: Child,
    /// Folder of `s3s-fs`.
    folder: Option<TempDir>,
}

impl S3Server {
    /// Starts a server on a free port of the loopback interface and waits until it answers.
    ///
    /// # Errors
    /// Returns an error if `moto` is not installed, which `make test` does, or if the server does
    /// not answer.
    pub fn start() -> io::Result<Self> {
        Self::start_faulty(S3Faults::default())
    }

    /// Starts a server with faults.
    ///
    /// # Errors
    /// Returns the errors of [`Self::start`].
    pub fn start_faulty(faults: S3Faults) -> io::Result<Self> {
        Self::on_free_port(|address| Self::run(address, &[], faults))
    }

    /// Starts `s3s-fs`, which verifies signatures and checksums, and waits until it answers.
    ///
    /// # Errors
    /// Returns an error if `s3s-fs` is not installed, which `make test` does, or if the server does
    /// not answer.
    pub fn start_strict() -> io::Result<Self> {
        Self::on_free_port(Self::run_strict)
    }

    fn on_free_port(start: impl Fn(SocketAddr) -> io::Result<Self>) -> io::Result<Self> {
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            match start(address) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => failure = Some(error),
                done => return done,
            }
        }
        Err(failure.unwrap_or_else(|| io::Error::other("no port is free")))
    }

    /// Returns the URL of the server for the configuration.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the URL of a data directory in its bucket.
    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/some/where")
    }

    /// Returns configuration keys of the storage, as environment variables.
    pub fn environment(&self) -> Vec<(String, String)> {
        self.environment_of("CLEW_STORAGE__S3__")
    }

    /// Returns the settings of access to the server, as environment variables with a prefix.
    pub fn environment_of(&self, prefix: &str) -> Vec<(String, String)> {
        [
            ("ENDPOINT", self.endpoint()),
            ("ALLOW_HTTP", "true".to_owned()),
            ("ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ]
        .map(|(key, value)| (format!("{prefix}{key}"), value))
        .into()
    }

    /// Puts an object under a key that clients would refuse, into the bucket of `moto`.
    ///
    /// # Errors
    /// Returns an error if the server does not take it.
    pub fn put_raw(&self, key: &str, content: &str) -> io::Result<()> {
        let answer = ask(self.address, "PUT", &format!("/{key}"), content)?;
        match answer.split(' ').nth(1) {
            Some("200") => Ok(()),
            _ => Err(io::Error::other(format!("expected the object to be taken, got {answer}"))),
        }
    }

    /// Returns the names of all objects in the bucket of `moto`.
    ///
    /// # Errors
    /// Returns an error if the server does not answer.
    pub fn objects(&self) -> io::Result<Vec<String>> {
        self.keys("")
    }

    /// Returns the names of objects whose uploads in parts were begun, and neither completed nor
    /// aborted.
    ///
    /// # Errors
    /// Returns an error if the server does not answer.
    pub fn unfinished_uploads(&self) -> io::Result<Vec<String>> {
        let Some(folder) = &self.folder else { return self.keys("?uploads") };
        // It lists none, but has a file for each.
        let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
        let names = names.map(|name: io::Result<_>| Ok(name?.to_string_lossy().into_owned()));
        let is_upload = |name: &io::Result<String>| {
            name.as_ref().is_ok_and(|name| name.starts_with(".upload-") && name.ends_with(".json"))
        };
        names.filter(is_upload).collect()
    }

    fn keys(&self, query: &str) -> io::Result<Vec<String>> {
        let answer = ask(self.address, "GET", query, "")?;
        if answer.split(' ').nth(1) != Some("200") {
            return Err(io::Error::other(format!("expected a listing, got {answer}")));
        }
        let keys = answer.split("<Key>").skip(1).filter_map(|rest| rest.split('<').next());
        Ok(keys.map(ToOwned::to_owned).collect())
    }

    /// Starts a server at `address` and waits until it answers. It is started through a command
    /// that runs the rest of its arguments as a command, such as `ip netns exec NAME`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::start`].
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
        let server = Self { address, child, folder: None };
        let advice = "or with pip from tests/python/requirements.txt";
        server.answering(advice, || {
            put_bucket(address).is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
        })
    }

    fn run_strict(address: SocketAddr) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join(BUCKET))?;
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        let program = cached("tools/bin/s3s-fs");
        let child = Command::new(&program)
            .args(["--host", &host, "--port", &port])
            .args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let problem = format!("{}: {error}; run `.setup/install tests`", program.display());
                io::Error::new(error.kind(), problem)
            })?;
        let server = Self { address, child, folder: Some(folder) };
        server
            .answering("which runs `.setup/install tests`", || TcpStream::connect(address).is_ok())
    }

    /// Waits until it answers.
    fn answering(mut self, advice: &str, answers: impl Fn() -> bool) -> io::Result<Self> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                let problem = format!(
                    "the S3 server ended with {status}; install it with `make test`, {advice}"
                );
                return Err(io::Error::other(problem));
            }
            if answers() {
                return Ok(self);
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
        // The test is over and cannot report an error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the path of the interpreter with the packages of `tests/python/requirements.txt`.
fn python() -> PathBuf {
    cached("python/bin/python")
}

/// Returns the path of something that `.setup/install` installed.
fn cached(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache").join(name)
}

/// Creates the bucket and returns the response.
fn put_bucket(address: SocketAddr) -> io::Result<String> {
    ask(address, "PUT", "", "")
}

/// Sends a request about the bucket, or about what `place` names in it, and returns the response.
fn ask(address: SocketAddr, method: &str, place: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!(
        "{method} /{BUCKET}{place} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
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
