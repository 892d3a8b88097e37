//! How programs reach this server, ready to copy.

use maud::{Markup, html};

use super::Shown;
use crate::shell::{self, Main, Where};
use crate::visitor::Visitor;

pub(crate) async fn show(visitor: Visitor) -> Shown {
    let origin = &visitor.origin;
    let header = match visitor.has_key() {
        true => " \\\n    --header \"Authorization: Bearer $CLEW_API_KEY\"",
        false => "",
    };
    let key = if visitor.has_key() { "os.environ[\"CLEW_API_KEY\"]" } else { "\"none\"" };
    let import = if visitor.has_key() { "import os\n\n" } else { "" };
    let content = html! {
        h1 { "Connect" }
        @if visitor.has_key() {
            p { "Keys are left out. Put yours into the environment variable " code { "CLEW_API_KEY" } "." }
        }
        h2 { "Programs" }
        (example(
            "HTTP and JSON",
            "All calls, for anything that sends JSON.",
            &format!(
                "curl {origin}/api/clew.corpus.v1.CorpusService/ListCorpora{header} \\\n    --json '{{}}'"
            ),
        ))
        (example(
            "OpenAI's clients",
            "A corpus is a model.",
            &format!(
                "{import}from openai import OpenAI\n\n\
                 client = OpenAI(base_url=\"{origin}/v1\", api_key={key})\n\
                 for model in client.models.list():\n    print(model.id)"
            ),
        ))
        (example(
            "Python",
            "The package clew-memory speaks gRPC, at the address that `clew serve` prints first.",
            "import clew\n\n\
             # CLEW_ENDPOINT and CLEW_API_KEY name the server and the key.\n\
             client = clew.Client()",
        ))
        h2 { "Agents" }
        p { "Tools by the Model Context Protocol. The path " code { "/mcp/NAME" } " restricts an agent to one corpus." }
        (example(
            "Claude Code",
            "",
            &format!("claude mcp add --transport http clew {origin}/mcp{header}"),
        ))
        (example("Cursor", "In ~/.cursor/mcp.json:", &hosted(origin, "url", "${env:CLEW_API_KEY}", visitor.has_key())))
        (example(
            "Other hosts",
            "That start a program and speak to it:",
            "{\n  \"mcpServers\": {\n    \"clew\": {\n      \"command\": \"clew\",\n      \
             \"args\": [\"mcp\", \"--endpoint\", \"http://127.0.0.1:7421\"]\n    }\n  }\n}",
        ))
    };
    Ok(shell::page(&visitor, Where::Main(Main::Connect), "Connect", content))
}

/// Returns the configuration of a host of agents that connects by HTTP.
fn hosted(origin: &str, field: &str, key: &str, has_key: bool) -> String {
    let headers = match has_key {
        true => format!(",\n      \"headers\": {{ \"Authorization\": \"Bearer {key}\" }}"),
        false => String::new(),
    };
    format!(
        "{{\n  \"mcpServers\": {{\n    \"clew\": {{\n      \"{field}\": \"{origin}/mcp\"{headers}\n    }}\n  }}\n}}"
    )
}

fn example(name: &str, note: &str, text: &str) -> Markup {
    html! {
        section class="example" {
            h3 { (name) }
            @if !note.is_empty() { p { (note) } }
            pre data-copy=(name) { code { (text) } }
        }
    }
}
