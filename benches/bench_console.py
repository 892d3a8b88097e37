"""How long each page of the console takes until its first byte, and how much of that its calls take.

    make demo
    CLEW=target/release/clew python3 benches/bench_console.py .clew/demo
    CLEW=target/release/clew python3 benches/bench_console.py --entities 100000

It serves the corpus of the demo, asks for each page in turn on one connection, and then for the calls alone that take
most of a page's time: those that embed a question, search or answer. With `--entities` it fills a corpus of its own
with made-up documents, whose graph has so many entities, and asks for their neighbourhoods. It needs the embedding
model that `make setup` installs.
"""

import argparse
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from urllib.parse import quote, urlencode

from bench_http import ROOT, Server

MODEL = os.environ.get("CLEW_MODEL_DIR", str(ROOT / ".cache/models/all-MiniLM-L6-v2"))
QUESTION = "What happens to a spawned task when its JoinHandle is dropped?"
SEARCH, ANSWER = "clew.query.v1.QueryService/Search", "clew.query.v1.QueryService/Answer"
GRAPH = "clew.memory.v1.MemoryService/ReadGraph"
# An entity of the demo's corpus, and what the page of a graph asks for.
ENTITY = "Tokio"
MOST = {"hops": 1, "mostEntities": 150, "mostRelations": 300}
ENTITIES_OF_A_DOCUMENT = 10
SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo zu".split()


class Browser:
    """One connection to a server."""

    def __init__(self, address):
        self.address, self.connection = address, http.client.HTTPConnection(address, timeout=120)

    def first_byte(self, method, path, body=None):
        """Seconds until the head of a response is there, and until all of it is, and the response."""
        kind = "application/json" if path.startswith("/api") else "application/x-www-form-urlencoded"
        headers = {"Content-Type": kind, "Origin": f"http://{self.address}"} if body else {}
        started = time.perf_counter()
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        first = time.perf_counter() - started
        content = response.read()
        if response.status != 200:
            sys.exit(f"error: {path} answered {response.status}: {content[:500]}")
        return first, time.perf_counter() - started, content.decode()


def pages(corpus, document):
    """The path of each page, its form, and the call that it makes which computes something, if there are any."""
    of = f"/corpora/{corpus}"
    search = {"corpus": corpus, "query": QUESTION, "k": 10}
    answer = {"corpus": corpus, "question": QUESTION}
    graph = {"corpus": corpus, "query": {"texts": [ENTITY], **MOST}, "withQuotes": True}
    asked = urlencode({"q": QUESTION})
    return [
        ("/", None, None),
        (of, None, None),
        (f"{of}/documents", None, None),
        (f"{of}/document?{urlencode({'id': document})}", None, None),
        (f"{of}/forget", urlencode({"id": document}), None),
        (f"{of}/search?{asked}", None, (SEARCH, search)),
        (f"{of}/ask?{asked}", None, (ANSWER, answer)),
        (f"{of}/graph?{urlencode({'q': ENTITY})}", None, (GRAPH, graph)),
        (f"{of}/tree", None, None),
        (f"{of}/users", None, None),
        (f"{of}/failures", None, None),
        (f"{of}/runs", None, None),
        ("/connect", None, None),
    ]


def measure(browser, method, path, body, rounds):
    """Medians of the seconds until the first byte and until the last, after a first time that counts not."""
    browser.first_byte(method, path, body)
    taken = [browser.first_byte(method, path, body)[:2] for _ in range(rounds)]
    return tuple(statistics.median(times) for times in zip(*taken, strict=True))


def of_demo(browser, rounds):
    body = json.dumps({"corpus": "demo", "pageSize": 1})
    *_, listed = browser.first_byte("POST", "/api/clew.ingest.v1.IngestService/ListDocuments", body)
    document = json.loads(listed)["documents"][0]["id"]
    print("| page | first byte | of which calls that compute |\n|---|---|---|")
    for path, form, call in pages("demo", document):
        first, _ = measure(browser, "POST" if form else "GET", path, form, rounds)
        if call:
            _, computes = measure(browser, "POST", f"/api/{call[0]}", json.dumps(call[1]), rounds)
        told = f"{computes * 1000:.1f} ms" if call else ""
        print(f"| `{path.partition('?')[0]}` | {first * 1000:.1f} ms | {told} |", flush=True)


def made_up(entities):
    """Names that no text has, and documents of sentences that relate them."""
    chance = random.Random(entities)
    names = [
        " ".join("".join(chance.choices(SYLLABLES, k=3)).capitalize() for _ in range(2))
        for _ in range(entities)
    ]
    for number in range(0, entities, ENTITIES_OF_A_DOCUMENT):
        own = names[number : number + ENTITIES_OF_A_DOCUMENT]
        near = [*own, names[number // 2], names[0]]
        text = " ".join(f"{one} wrote a letter to {other}." for one, other in zip(near, near[1:], strict=False))
        yield names[number], {"id": f"d{number:07}", "text": text}


def of_entities(server, browser, entities, rounds):
    documents = list(made_up(entities))
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
        lines.writelines(json.dumps(document) + "\n" for _, document in documents)
        lines.flush()
        ingest = [os.environ["CLEW"], "ingest", "--corpus", "graph", "--endpoint", f"http://{server.grpc}"]
        subprocess.run([*ingest, lines.name], check=True)
    waiting = 1
    while waiting:
        time.sleep(2)
        *_, corpus = browser.first_byte("POST", "/api/clew.corpus.v1.CorpusService/GetCorpus", '{"name": "graph"}')
        counts = json.loads(corpus)["corpus"]["counts"]
        waiting = int(counts.get("unstructuredDocuments", 0)) + int(counts.get("pendingDocuments", 0))
    print(f"{counts}\n\n| neighbourhood of | first byte |\n|---|---|")
    few, many = documents[len(documents) // 2 + 1][0], documents[0][0]
    for kind, name in [("an entity with few neighbours", few), ("the one that every document names", many)]:
        path = f"/corpora/graph/graph?q={quote(name)}"
        *_, page = browser.first_byte("GET", path)
        if not re.search(rf"<svg.*{name}", page, re.DOTALL):
            sys.exit(f"error: the page of {name} does not show it")
        first, _ = measure(browser, "GET", path, None, rounds)
        print(f"| {kind} | {first * 1000:.1f} ms |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", nargs="?", help="data directory that `make demo` filled")
    parser.add_argument("--entities", type=int, help="entities of a graph to make up instead")
    parser.add_argument("--rounds", type=int, default=30)
    asked = parser.parse_args()
    if bool(asked.data) == bool(asked.entities):
        parser.error("expected a data directory or --entities")
    with tempfile.TemporaryDirectory(prefix="clew-console-") as folder:
        if asked.data:
            os.symlink(os.path.abspath(asked.data), f"{folder}/data")
        server = Server(folder, MODEL)
        try:
            browser = Browser(server.http)
            if asked.data:
                of_demo(browser, asked.rounds)
            else:
                of_entities(server, browser, asked.entities, asked.rounds)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
