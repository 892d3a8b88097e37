//! Tests with clients that others wrote: they are answered, and where what they call is turned off
//! they fail. So no script of a client passes without having been answered.
//!
//! [`crate::openai`], [`crate::mcp`] and [`crate::http`] have clients that need no more packages
//! than other tests. The tests that are ignored here need those that `make clients` installs.

use std::path::{Path, PathBuf};
use std::process::Command;

use clew_testkit::ModelEndpoint;

use crate::client::{create, document, remember};
use crate::harness::{Home, Ran, Server};
use crate::http::curl;
use crate::openai::serve_handbook;
use crate::scripts::{python, script};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the packages that `make clients` installs"]
async fn clients_of_connect_and_grpc_web_are_answered() {
    let home = Home::new();
    let server = home.serve();
    let client = server.client().await;
    let notes = create(&client, "notes").await;
    remember(&client, &notes, vec![document("bees", "The plan is to keep bees.")]).await;
    let ran = Ran::of(connect(&(server.http() + "/api"), None));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(done(&ran), WAYS.len(), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the packages that `make clients` installs"]
async fn litellm_chats_streams_and_embeds() {
    let (home, endpoint) = (Home::new(), ModelEndpoint::start().unwrap());
    let server = serve_handbook(&home, &endpoint).await;
    let ran = Ran::of(litellm(&(server.http() + "/v1")));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.ends_with("all is well\n"), "{}", ran.stdout);
}

#[test]
#[ignore = "needs the packages that `make clients` installs"]
fn agents_are_answered_as_the_conformance_suite_of_their_protocol_asks() {
    let home = Home::new();
    let server = home.serve();
    let ran = Ran::of(conformance(&(server.http() + "/mcp")));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(done(&ran), 4, "{ran:?}");
}

#[test]
fn clients_fail_where_their_endpoint_is_turned_off() {
    let home = Home::new();
    let without_agents = Off::Agents.serve(&home);
    for mode in ["auto", "legacy", "2026-07-28"] {
        let mut agent = script("agent.py");
        agent.args(["--url", &(without_agents.address.clone() + "/mcp"), "--mode", mode]);
        without_agents.fails(agent, "MCPError: Not Found");
    }
    let home = Home::new();
    let without_http = Off::Http.serve(&home);
    let mut library = script("openai_client.py");
    library.args(["--base", &(without_http.address.clone() + "/v1")]);
    without_http.fails(library, "openai.APIConnectionError");
    let list = without_http.address.clone() + "/api/clew.corpus.v1.CorpusService/ListCorpora";
    without_http.fails(curl::command(&home, &[&list, "--json", "{}"]), "curl: (");
}

#[test]
#[ignore = "needs the packages that `make clients` installs"]
fn installed_clients_fail_where_their_endpoint_is_turned_off() {
    let home = Home::new();
    let without_agents = Off::Agents.serve(&home);
    let suite = conformance(&(without_agents.address.clone() + "/mcp"));
    let ran = without_agents.fails(suite, "server-initialize: failed");
    assert_eq!(done(&ran), 0, "{ran:?}");
    let home = Home::new();
    let without_http = Off::Http.serve(&home);
    for way in WAYS {
        let api = without_http.address.clone() + "/api";
        without_http.fails(connect(&api, Some(way)), "fetch failed");
    }
    let base = without_http.address.clone() + "/v1";
    without_http.fails(litellm(&base), "Connection error");
}

/// Setting that turns off what a client calls. No setting turns off `/api`, `/v1` or `/dify` alone,
/// and none of a server's concerns `clew mcp`, which agents start themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    /// The path for agents.
    Agents,
    /// The listener for HTTP.
    Http,
}

/// Server of which something is turned off.
struct Without {
    server: Server,
    /// Address that clients are told: that of HTTP or, without it, the only one that there is.
    address: String,
}

impl Off {
    fn serve(self, home: &Home) -> Without {
        let mut command = home.serve_command();
        match self {
            Self::Agents => command.env("CLEW_MCP__ENABLED", "false"),
            Self::Http => command.env("CLEW_HTTP__LISTEN", ""),
        };
        let server = Server::start(command);
        let address = match self {
            Self::Agents => server.http(),
            Self::Http => server.endpoint.clone(),
        };
        assert_eq!(server.log().contains("HTTP and JSON on"), self == Self::Agents);
        Without { server, address }
    }
}

impl Without {
    /// Runs a client, which must fail and say `why`: not for lack of something on this machine.
    fn fails(&self, client: Command, why: &str) -> Ran {
        let ran = Ran::of(client);
        let told = format!("{}\n{}\n{}", ran.stdout, ran.stderr, self.server.log());
        assert!(ran.code.is_some_and(|code| code != 0), "it was answered: {told}");
        assert!(ran.stderr.contains(why), "expected `{why}`: {told}");
        assert!(!ran.stdout.contains("all is well"), "{told}");
        ran
    }
}

/// Ways in which `connect.mjs` calls a server.
const WAYS: [&str; 3] = ["Connect, JSON", "Connect, binary", "gRPC-Web"];

fn connect(api: &str, way: Option<&str>) -> Command {
    let mut command = node("connect.mjs");
    command.arg(api).args(way);
    command
}

fn conformance(agents: &str) -> Command {
    let mut command = node("conformance.mjs");
    command.arg(agents);
    command
}

fn litellm(base: &str) -> Command {
    let mut command = python("tests/clients/litellm_client.py");
    command.args(["--base", base]);
    command
}

/// Returns a command that runs a script of `tests/clients`: with the Node.js among its packages,
/// which not every platform has, or else with that of the machine.
fn node(name: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients");
    let packaged = folder.join("node_modules/.bin/node");
    let node = if packaged.exists() { packaged } else { PathBuf::from("node") };
    let mut command = Command::new(node);
    command.arg(folder.join(name));
    command
}

/// Returns the number of things that a script says it has done.
fn done(ran: &Ran) -> usize {
    ran.stdout.lines().filter(|line| line.ends_with(": done")).count()
}
