// Holds the path for agents to the conformance suite of the Model Context Protocol:
// `node conformance.mjs http://127.0.0.1:7422/mcp` runs the suite's scenarios that apply to Clew.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const APPLICABLE = ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"];

// Why the others say nothing of Clew. A scenario that is in neither list is new, and fails the run.
const OTHERS = {
  // They call tools that exist in servers made for the suite, such as `test_simple_text`. Clew has only its own;
  // `tests/interfaces/mcp.rs` and `tests/python/agent.py` call those.
  "tools of the suite": [
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-with-logging",
    "tools-call-error",
    "tools-call-with-progress",
    "json-schema-2020-12",
  ],
  // A tool of the suite has to ask the client for something in the middle of a call. No tool of Clew does.
  "requests to the client": [
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
  ],
  // They want a session to come back to. Clew keeps none, so that any gateway may answer. Without a session, the
  // second one checks nothing and passes.
  sessions: ["server-sse-polling", "server-sse-multiple-streams"],
  // Clew declares tools and none of these capabilities, so clients do not ask for them.
  "capabilities that Clew does not declare": [
    "logging-set-level",
    "completion-complete",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
  ],
};

const program = new URL("node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url);

function suite(...words) {
  return spawnSync(process.execPath, [fileURLToPath(program), ...words], { encoding: "utf8" });
}

const [url] = process.argv.slice(2);
assert.ok(url, "expected the address of the path for agents");

const listed = suite("list", "--server");
assert.equal(listed.status, 0, listed.stderr);
const scenarios = [...listed.stdout.matchAll(/^ {2}- (\S+)/gm)].map(([, name]) => name);
const known = [...APPLICABLE, ...Object.values(OTHERS).flat()];
assert.deepEqual(scenarios.sort(), known.sort());

for (const scenario of APPLICABLE) {
  const ran = suite("server", "--url", url, "--scenario", scenario);
  if (ran.status === 0) {
    console.log(`${scenario}: done`);
  } else {
    console.error(`${scenario}: failed\n${ran.stdout}${ran.stderr}`);
    process.exitCode = 1;
  }
}
