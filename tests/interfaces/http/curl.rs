//! The program `curl`, and what it comes back with.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Home, Ran};

/// Response that `curl` printed.
#[derive(Debug)]
pub(super) struct Answered {
    pub status: u16,
    /// Headers, in lower case.
    pub headers: String,
    pub body: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the response to a request that must succeed.
    pub fn done(self) -> Self {
        assert_eq!(self.status, 200, "{self:?}");
        self
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(named, value)| (named == name).then_some(value.trim()))
    }
}

/// Returns a command that runs `curl` with `arguments`.
pub(crate) fn command(home: &Home, arguments: &[&str]) -> Command {
    let mut command = Command::new("curl");
    home.settle(&mut command);
    command.args(["--silent", "--show-error", "--include", "--max-time", "60"]).args(arguments);
    command
}

/// Runs `curl` with `arguments`.
pub(super) fn curl(home: &Home, arguments: &[&str]) -> Answered {
    let ran = Ran::of(command(home, arguments));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (head, body) = ran.stdout.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{ran:?}"));
    let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let headers = headers.to_lowercase();
    Answered { status: status.unwrap(), headers, body: body.to_owned() }
}

/// Posts a message to a method, such as `clew.query.v1.QueryService/Search`.
pub(super) fn post(home: &Home, api: &str, method: &str, message: &Value) -> Answered {
    post_with(home, api, method, message, &[])
}

/// Posts a message with further arguments of `curl`.
pub(super) fn post_with(
    home: &Home,
    api: &str,
    method: &str,
    message: &Value,
    more: &[&str],
) -> Answered {
    let (url, message) = (format!("{api}/{method}"), message.to_string());
    let arguments = [url.as_str(), "--json", message.as_str()];
    curl(home, &[&arguments[..], more].concat())
}
