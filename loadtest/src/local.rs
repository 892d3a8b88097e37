//! Fresh server on this machine, for one run.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clew_core::{Error, ErrorKind};
use tempfile::TempDir;

/// Maximum times for a server to start listening, and to end.
const STARTING: Duration = Duration::from_secs(120);
const ENDING: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Server process with a folder of its own. Dropping it ends the process and removes the folder.
#[derive(Debug)]
pub struct LocalServer {
    child: Child,
    folder: TempDir,
    /// Address on which the server listens.
    pub endpoint: String,
    /// Admin address of the server, if it has one.
    pub admin: Option<String>,
}

impl LocalServer {
    /// Starts `program serve` on an empty data directory and a free port. `settings` are those of
    /// its configuration file. The environment is that of this process. The server's log goes to
    /// the file `log`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the program cannot be started, and
    /// [`ErrorKind::Unavailable`] with the end of its log if it does not listen.
    pub fn start(program: &Path, settings: &toml::Table, log: &Path) -> Result<Self, Error> {
        let broken = |error: std::io::Error| {
            Error::internal("no folder for a server could be made").with_source(error)
        };
        let folder = tempfile::Builder::new().prefix("clew-load-").tempdir().map_err(broken)?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(folder.path().join("data"));
        if !settings.is_empty() {
            let config = folder.path().join("clew.toml");
            let text = toml::to_string(settings)
                .map_err(|error| Error::internal("settings are no TOML").with_source(error))?;
            std::fs::write(&config, text).map_err(broken)?;
            command.arg("--config").arg(config);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            let problem = "expected the program `clew`, which could not be started";
            Error::invalid(program.display().to_string(), problem).with_source(error)
        })?;
        let mut log = std::fs::File::create(log).map_err(broken)?;
        let (said, listening) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            // The thread ends with the server's output.
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    // Neither a full disk nor a reader that has gone may stop the server.
                    drop(writeln!(log, "{line}"));
                    drop(said.send(line));
                }
            });
        }
        let mut server = Self { child, folder, endpoint: String::new(), admin: None };
        let until = Instant::now() + STARTING;
        let mut lines = Vec::new();
        while let Ok(line) = listening.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if let Some(address) = line.strip_prefix("metrics and health on ") {
                server.admin = Some(address.to_owned());
            }
            if let Some(address) = line.strip_prefix("listening on ") {
                address.clone_into(&mut server.endpoint);
                return Ok(server);
            }
            lines.push(line);
        }
        let tail = lines[lines.len().saturating_sub(10)..].join("\n");
        let problem = format!("{} does not serve:\n{tail}", program.display());
        Err(Error::new(ErrorKind::Unavailable, "UNAVAILABLE", problem))
    }

    /// Returns the id of the server process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the data directory of the server.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        // On SIGTERM the server finishes what it accepted. If it does not end in time, it is
        // killed.
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        let until = Instant::now() + ENDING;
        while asked.is_ok() && Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
