//! Real processes: the server, the command line, and the folder in which they run.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clew_client::Client;
use serde_json::Value;
use tempfile::TempDir;

/// Maximum time for anything before a test fails: far more than it needs on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Interval between two checks of a condition that nothing announces.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Number of last lines of a server's log that a failed test shows.
const LOG_TAIL: usize = 200;

/// Folder of one test, with a model in it. Dropping it removes everything.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    pub fn in_folder(folder: TempDir) -> Self {
        let home = Self { folder };
        std::fs::create_dir(home.model()).unwrap();
        clew_testkit::write_tiny_bert(&home.model(), 1).unwrap();
        home
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    pub fn model(&self) -> PathBuf {
        self.path("model")
    }

    /// Writes a file and the folders above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Returns a command that runs `clew` in this folder, without the configuration of this
    /// machine.
    pub fn clew(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clew"));
        self.settle(&mut command);
        command
    }

    /// Makes a command run in this folder, without the configuration of this machine.
    pub fn settle(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CLEW_") {
                command.env_remove(name);
            }
        }
        command.current_dir(self.folder.path());
        // The user's caches may have an embedding model.
        command.env("XDG_CACHE_HOME", self.path("caches"));
    }

    /// Returns a command that runs `clew serve` on the data directory and a free port.
    pub fn serve_command(&self) -> Command {
        self.serve_command_at("127.0.0.1:0")
    }

    /// Returns a command that runs `clew serve` on the data directory and the given address.
    pub fn serve_command_at(&self, address: &str) -> Command {
        self.serve_command_on(&self.data_dir(), address)
    }

    fn serve_command_on(&self, data_dir: &Path, address: &str) -> Command {
        let mut command = self.clew();
        command.arg("serve").args(["--listen", address]);
        command.arg("--data-dir").arg(data_dir).arg("--model").arg(self.model());
        command
    }

    /// Starts a server on the data directory.
    pub fn serve(&self) -> Server {
        Server::start(self.serve_command())
    }

    /// Starts a server on a data directory of its own, called `name`.
    pub fn serve_at(&self, name: &str) -> Server {
        Server::start(self.serve_command_on(&self.path(name), "127.0.0.1:0"))
    }

    /// Runs `clew` against a server.
    pub fn run_at(&self, server: &Server, arguments: &[&str]) -> Ran {
        let mut command = self.clew();
        command.args(arguments).args(["--endpoint", &server.endpoint]);
        Ran::of(command)
    }

    /// Runs `clew` on the data directory in its own process.
    pub fn run_embedded(&self, arguments: &[&str]) -> Ran {
        let mut command = self.clew();
        command.args(arguments).arg("--data-dir").arg(self.data_dir());
        command.arg("--model").arg(self.model());
        Ran::of(command)
    }
}

/// Output of a process, read as it comes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    /// Reads lines to the end of `stream` and passes each to `see`.
    fn follow(
        &self,
        stream: impl Read + Send + 'static,
        mut see: impl FnMut(&str) + Send + 'static,
    ) -> JoinHandle<()> {
        let log = self.clone();
        std::thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).into_owned();
                log.0.lock().unwrap().push_str(&text);
                see(text.trim_end());
                line.clear();
            }
        })
    }
}

/// Child process that is killed when it is dropped.
struct Process {
    child: Child,
}

impl Process {
    fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child }
    }

    /// Waits for the end of the process. Returns `None` if it runs beyond the deadline.
    fn wait(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a child that has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Server process.
pub struct Server {
    process: Process,
    log: Log,
    /// Address on which it listens, or the other text for which the start waited.
    pub endpoint: String,
}

/// Process that ended before it served.
pub struct NotServing {
    pub status: ExitStatus,
    pub log: String,
}

impl Server {
    /// Starts a server that must serve.
    pub fn start(command: Command) -> Self {
        Self::try_start(command)
            .unwrap_or_else(|ended| panic!("it does not serve: {}\n{}", ended.status, ended.log))
    }

    /// Starts a server and waits until it listens or ends.
    pub fn try_start(command: Command) -> Result<Self, NotServing> {
        Self::start_until(command, |line| line.strip_prefix("listening on "))
    }

    /// Starts a server and waits until `says` finds a text in a line of its log, such as its
    /// address, or the server ends.
    pub fn start_until(
        command: Command,
        says: impl Fn(&str) -> Option<&str> + Send + 'static,
    ) -> Result<Self, NotServing> {
        let mut process = Process::spawn(command);
        let log = Log::default();
        let (saying, said) = mpsc::channel();
        let stderr = process.child.stderr.take().unwrap();
        let reading = log.follow(stderr, move |line| {
            if let Some(endpoint) = says(line) {
                // The test may have failed and gone.
                drop(saying.send(endpoint.to_owned()));
            }
        });
        match said.recv_timeout(PATIENCE) {
            Ok(endpoint) => Ok(Self { process, log, endpoint }),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not start:\n{}", log.text()),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                reading.join().unwrap();
                let status = process.wait(Instant::now() + PATIENCE).expect("it closed its output");
                Err(NotServing { status, log: log.text() })
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Returns what the server has written on standard error so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Returns the address on which it serves HTTP.
    pub fn http(&self) -> String {
        let log = self.log();
        let address = log.lines().find_map(|line| line.strip_prefix("HTTP and JSON on "));
        address.unwrap_or_else(|| panic!("it serves no HTTP:\n{log}")).to_owned()
    }

    /// Kills the server without warning (SIGKILL).
    pub fn kill(&mut self) {
        self.process.child.kill().unwrap();
        self.process.child.wait().unwrap();
    }

    /// Asks the server to end (SIGTERM) and waits for its end.
    pub fn terminate(mut self) -> ExitStatus {
        self.end()
    }

    /// Ends the server like [`Self::terminate`], but keeps its log.
    pub fn end(&mut self) -> ExitStatus {
        let told = Command::new("kill").args(["-TERM", &self.id().to_string()]).status().unwrap();
        assert!(told.success());
        let ended = self.process.wait(Instant::now() + PATIENCE);
        ended.unwrap_or_else(|| panic!("it does not end:\n{}", self.log.text()))
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.endpoint, PATIENCE).await.unwrap_or_else(|error| {
            panic!("{}\n{}", error.chain(), self.log());
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log.text();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n");
            println!("--- log of the server at {}\n{tail}\n---", self.endpoint);
        }
    }
}

/// Starts a server and kills it after the given time, whatever it is doing then.
pub fn start_and_kill(command: Command, after: Duration) {
    let process = Process::spawn(command);
    std::thread::sleep(after);
    drop(process);
}

/// Command that ran to its end.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Runs `command`, within bounds.
    pub fn of(command: Command) -> Self {
        Self::within(PATIENCE, command)
    }

    /// Runs `command`, which may take as long as `patience`.
    pub fn within(patience: Duration, command: Command) -> Self {
        let shown = format!("{command:?}");
        let mut process = Process::spawn(command);
        let (out, err) = (Log::default(), Log::default());
        let reading = [
            out.follow(process.child.stdout.take().unwrap(), |_| {}),
            err.follow(process.child.stderr.take().unwrap(), |_| {}),
        ];
        let Some(status) = process.wait(Instant::now() + patience) else {
            panic!("{shown} does not end:\n{}{}", out.text(), err.text());
        };
        reading.into_iter().for_each(|reading| reading.join().unwrap());
        Self { code: status.code(), stdout: out.text(), stderr: err.text() }
    }

    /// Returns the one JSON document on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("expected one JSON document ({error}): {self:?}"))
    }

    /// Returns the JSON document of a command that must succeed.
    pub fn done(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.json()
    }

    /// Returns the error document of a command that must fail.
    pub fn error(&self) -> Value {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.json()["error"].clone()
    }
}

/// Waits until `condition` returns a value.
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited too long until {what}");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Returns every file below `folder`, with its content.
pub fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    // A server may remove files meanwhile.
    let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let mut files = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if is_gone(&error) => return files,
        entries => entries.unwrap(),
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
            continue;
        }
        match std::fs::read(&path) {
            Err(error) if is_gone(&error) => {}
            content => files.push((path, content.unwrap())),
        }
    }
    files
}
