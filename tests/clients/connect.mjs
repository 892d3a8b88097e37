// Calls a server with the clients of Connect, as a page of a browser does: by both of its protocols, with JSON
// and with binary messages. `node connect.mjs http://127.0.0.1:7422/api` expects the corpus `notes`, of which
// the document `bees` speaks of bees. A second argument names the one way that is wanted, such as `gRPC-Web`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

const [baseUrl, wanted] = process.argv.slice(2);
const descriptors = new URL("../../crates/proto/src/generated/clew.descriptor.bin", import.meta.url);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const QueryService = registry.getService("clew.query.v1.QueryService");
const IngestService = registry.getService("clew.ingest.v1.IngestService");

/** Returns the error of a call that must fail. */
async function refused(call) {
  try {
    await call();
  } catch (error) {
    return ConnectError.from(error);
  }
  return assert.fail("the call was answered");
}

async function all(stream) {
  const messages = [];
  for await (const message of stream) {
    messages.push(message);
  }
  return messages;
}

const transports = {
  "Connect, JSON": createConnectTransport({ baseUrl }),
  "Connect, binary": createConnectTransport({ baseUrl, useBinaryFormat: true }),
  "gRPC-Web": createGrpcWebTransport({ baseUrl }),
};
assert.ok(!wanted || wanted in transports, `expected one of ${Object.keys(transports).join("; ")}, got ${wanted}`);
for (const [name, transport] of Object.entries(transports)) {
  if (wanted && wanted !== name) {
    continue;
  }
  const queries = createClient(QueryService, transport);
  const found = await queries.search({ corpus: "notes", query: "bees", k: 5 });
  assert.equal(found.evidence[0].documentId, "bees", name);

  const events = await all(queries.answer({ corpus: "notes", question: "What is the plan?" }));
  assert.equal(events.at(-1).event.case, "answer", name);

  const absent = await refused(() => queries.search({ corpus: "nowhere", query: "bees" }));
  assert.equal(absent.code, Code.NotFound, name);
  assert.match(absent.rawMessage, /`nowhere` does not exist/, name);
  assert.equal(absent.details[0].type, "google.rpc.ErrorInfo", name);
  const unanswered = await refused(() => all(queries.answer({ corpus: "nowhere", question: "Who?" })));
  assert.equal(unanswered.code, Code.NotFound, name);
  const invalid = await refused(() => queries.search({ corpus: "notes", query: "bees", k: 0 }));
  assert.equal(invalid.code, Code.InvalidArgument, name);

  const ingest = createClient(IngestService, transport);
  const late = await refused(() => all(ingest.watchIngestion({ corpus: "notes" }, { timeoutMs: 500 })));
  assert.equal(late.code, Code.DeadlineExceeded, name);
  console.log(`${name}: done`);
}
