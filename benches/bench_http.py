"""The same searches over gRPC, HTTP and MCP, in turns: how long they take, and how much processor time the server.

    CLEW=target/debug/clew python3 benches/bench_http.py [ROUNDS] [MODEL]

Ingests the pages below `docs`, then asks for their headings, one round of all headings by each way in turn, on one
connection. An agent finds documents with their attributes instead of passages, so gRPC is asked for those as well.
Tells the median and the 95th percentile as this client sees them, and the server's processor time of a search. Needs
grpcio and grpcio-tools. MODEL is the folder of the embedding model; without it, the one of `make setup`.
"""

import http.client
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
METHOD = "/api/clew.query.v1.QueryService/Search"
CORPUS, K = "pages", 10
# Headers that a client of the Model Context Protocol sends.
AGENT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """`clew serve`, whose addresses are those that it prints."""

    def __init__(self, folder, model):
        serve = [os.environ["CLEW"], "serve", "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data"]
        serve += ["--model", model] if model else []
        quiet = {**os.environ, "CLEW_LOG": "error"}
        self.process = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, env=quiet)
        self.http = self.said(r"HTTP and JSON on http://(\S+)")
        self.grpc = self.said(r"listening on http://(\S+)")

    def said(self, pattern):
        for line in self.process.stderr:
            if found := re.search(pattern, line):
                return found[1]
        sys.exit("error: the server ended")

    def processor_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self):
        self.process.terminate()
        self.process.wait()


def by_grpc(address, folder):
    """Functions that search by gRPC for passages, and for documents as agents do."""
    files = ["clew/ingest/v1/attribute.proto", "clew/query/v1/query.proto"]
    generate = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}/proto"]
    subprocess.run([*generate, f"--python_out={folder}", f"--grpc_python_out={folder}", *files], check=True)
    sys.path.insert(0, folder)
    import grpc

    messages = importlib.import_module("clew.query.v1.query_pb2")
    stub = importlib.import_module("clew.query.v1.query_pb2_grpc").QueryServiceStub(grpc.insecure_channel(address))

    def search(text, **wanted):
        found = stub.Search(messages.SearchRequest(corpus=CORPUS, query=text, k=K, **wanted), timeout=60)
        return [item.document_id for item in found.evidence]

    def search_documents(text):
        return search(text, grouping=messages.GROUPING_DOCUMENTS, with_attributes=True)

    return search, search_documents


def posting(address, path, headers):
    """A function that posts a message on one connection, and returns what is answered."""
    connection = http.client.HTTPConnection(address)

    def post(message):
        connection.request("POST", path, json.dumps(message), {"Content-Type": "application/json", **headers})
        answered = connection.getresponse()
        body = answered.read()
        assert answered.status == 200, body
        return json.loads(body)

    return post


def by_http(address):
    """A function that searches by HTTP."""
    post = posting(address, METHOD, {})

    def search(text):
        found = post({"corpus": CORPUS, "query": text, "k": K})
        return [item["documentId"] for item in found.get("evidence", [])]

    return search


def by_mcp(address):
    """A function that searches as an agent does."""
    post = posting(address, f"/mcp/{CORPUS}", AGENT)

    def search(text):
        call = {"name": "search", "arguments": {"query": text}}
        said = post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        return [item["id"] for item in said["result"]["structuredContent"]["results"]]

    return search


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    model = sys.argv[2] if len(sys.argv) > 2 else None
    pages = sorted((ROOT / "docs").rglob("*.md"))
    headings = sorted({h for page in pages for h in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)})
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, model)
        try:
            ingest = [os.environ["CLEW"], "ingest", "--corpus", CORPUS, "--endpoint", f"http://{server.grpc}", *pages]
            subprocess.run(ingest, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            passages, documents = by_grpc(server.grpc, folder)
            ways = {
                "gRPC, passages": passages,
                "HTTP, passages": by_http(server.http),
                "gRPC, documents": documents,
                "MCP, documents": by_mcp(server.http),
            }
            for heading in headings:
                found = [search(heading) for search in ways.values()]
                assert found[0] == found[1] and found[2] == found[3], heading
            taken, used = {way: [] for way in ways}, {way: 0.0 for way in ways}
            for _ in range(rounds):
                for way, search in ways.items():
                    before = server.processor_seconds()
                    for heading in headings:
                        since = time.perf_counter()
                        search(heading)
                        taken[way].append(time.perf_counter() - since)
                    used[way] += server.processor_seconds() - before
        finally:
            server.stop()
    print(f"{len(headings)} searches of {len(pages)} pages, {rounds} rounds by each way in turn")
    for way, times in taken.items():
        median, high = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        cost = used[way] / len(times)
        print(f"{way}: p50 {1000 * median:.2f} ms, p95 {1000 * high:.2f} ms, {1000 * cost:.2f} ms of processor time")


if __name__ == "__main__":
    main()
