//! Requests of HTTP as bytes, so that nothing between the test and the server mends them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::harness::Server;

/// Maximum time that a response may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Response, with a body that was sent in chunks put together.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Names and values, the names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: Vec<_> = lines.map(header).collect();
        let mut response = Self { status: status.parse().unwrap(), headers, body: body.to_owned() };
        if response.header("transfer-encoding") == Some("chunked") {
            response.body = joined(&response.body);
        }
        response
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the error in OpenAI's shape: the status, the code and the parameter.
    pub fn error(&self) -> (u16, String, Option<String>) {
        let error = self.json()["error"].clone();
        assert!(error["message"].is_string() && error["type"].is_string(), "{self:?}");
        let text = |name: &str| error[name].as_str().map(str::to_owned);
        (self.status, text("code").unwrap_or_default(), text("param"))
    }
}

/// Puts chunks together.
fn joined(mut body: &str) -> String {
    let mut joined = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        joined.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap();
    }
    joined
}

/// Connects to a server's HTTP listener.
pub fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.http().trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes and reads the response to its end.
pub fn send(server: &Server, bytes: &[u8]) -> Response {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    Response::of(&response)
}

/// Returns the bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    format!("{request}\r\n{body}").into_bytes()
}

pub fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    send(server, &request("GET", path, headers, ""))
}

pub fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &Value) -> Response {
    send(server, &request("POST", path, headers, &body.to_string()))
}
