"""What corpora cost that nobody asks, and what the first one to ask waits for.

    CLEW=target/release/clew .cache/python/bin/python benches/bench_corpora.py --corpora 10000

It fills corpora of three retrievers over one folder. With `--bucket`, the folder then becomes a bucket of an
S3-compatible server (moto), over which a new cluster goes on. It waits until all of them rest. Then some corpora are
busy, which were opened one after the other, and others, which rest, are searched for the first time. At last nobody
asks anything. With `--data`, a folder keeps the corpora for another run with the same options. It needs the Python
packages of `tests/python/requirements.txt`, Redis and the embedding model that `make setup` installs, and the programs
of all services beside `CLEW`. The documents are made up.
"""

import argparse
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
import urllib.request

WORKSPACE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(WORKSPACE / "examples/demo"), str(WORKSPACE / "tests/python")]

import grpc
from bench_bucket import Bucket
from client import area, generate
from cluster import Cluster

RETRIEVERS = 3
CALLERS = 8
# Seconds that a call, and that the shards may take until all of them rest.
PATIENCE, QUIET_PATIENCE = 60, 7200
REST_AFTER_SECS = 20
BUSY_SEARCHES_PER_SECOND, COLD_SEARCHES, COLD_EVERY_SECS = 20, 100, 0.5
IDLE_SECS = 60
WORDS = ["bicycle", "oven", "garden", "violin", "passport", "camera", "boat", "carpet", "lamp", "coat", "bridge"]
REQUESTS = re.compile(r"^clew_storage_requests_total\{[^}]*\} (\d+)", re.M)


class Corpora:
    """The corpora of a cluster."""

    def __init__(self, cluster, number, documents):
        self.cluster, self.documents = cluster, documents
        self.names = [f"c{each:05}" for each in range(number)]
        unlimited = [("grpc.max_receive_message_length", -1)]
        channel = grpc.insecure_channel(cluster.gateway.removeprefix("http://"), unlimited)
        self.corpus, corpus_calls = area("corpus")
        self.ingest, ingest_calls = area("ingest")
        self.query, query_calls = area("query")
        self.overview, cluster_calls = area("cluster")
        self.corpora = corpus_calls.CorpusServiceStub(channel)
        self.ingestion = ingest_calls.IngestServiceStub(channel)
        self.queries = query_calls.QueryServiceStub(channel)
        self.clusters = cluster_calls.ClusterServiceStub(channel)

    def patiently(self, call):
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
                    raise
                assert time.monotonic() < until, error
                time.sleep(0.2)

    def add(self, name, numbers):
        def documents():
            for number in numbers:
                text = " ".join(random.Random(f"{name} {number}").choices(WORDS, k=80))
                document = self.ingest.Document(id=f"d{number}", text=text.encode())
                yield self.ingest.IngestRequest(corpus=name, document=document)

        for result in self.ingestion.Ingest(documents(), timeout=PATIENCE):
            assert result.HasField("accepted"), result

    def make(self, name):
        request = self.corpus.CreateCorpusRequest(name=name, without_structure=True)
        try:
            self.patiently(lambda: self.corpora.CreateCorpus(request, timeout=PATIENCE))
        except grpc.RpcError as error:
            # An attempt whose answer was lost.
            if error.code() != grpc.StatusCode.ALREADY_EXISTS:
                raise
        self.patiently(lambda: self.add(name, range(self.documents)))

    def make_all(self):
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as callers:
            for number, _ in enumerate(callers.map(self.make, self.names), 1):
                if number % 500 == 0:
                    print(f"{number} corpora", file=sys.stderr, flush=True)

    def search(self, name):
        """Returns the seconds of a search."""
        words = " ".join(random.choices(WORDS, k=3))
        request = self.query.SearchRequest(corpus=name, query=words)
        began = time.monotonic()
        found = self.queries.Search(request, timeout=PATIENCE)
        assert found.evidence and not found.shards_missing, found
        return time.monotonic() - began

    def states(self):
        """Returns the number of shards in each state."""
        nodes = self.clusters.GetTree(self.overview.GetTreeRequest(), timeout=PATIENCE).nodes
        counts = {}
        for node in nodes:
            for part in node.children:
                if part.name == "shards":
                    for shard in part.children:
                        counts[shard.state] = counts.get(shard.state, 0) + 1
        return counts

    def wait_until_all_rest(self):
        until = time.monotonic() + QUIET_PATIENCE
        while (states := self.states()) != {"resting": len(self.names)}:
            assert time.monotonic() < until, states
            time.sleep(5)


class Busy:
    """Callers of some corpora, until they are stopped."""

    def __init__(self, corpora, names):
        self.corpora, self.names, self.took = corpora, names, []
        self.is_over = threading.Event()
        self.caller = threading.Thread(target=self.run)

    def __enter__(self):
        self.caller.start()
        return self

    def __exit__(self, *_error):
        self.is_over.set()
        self.caller.join()

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as callers:
            number = 0
            while not self.is_over.wait(1 / BUSY_SEARCHES_PER_SECOND):
                number += 1
                name = self.names[number % len(self.names)]
                callers.submit(lambda name=name: self.took.append(self.corpora.search(name)))
                if number % BUSY_SEARCHES_PER_SECOND == 0:
                    callers.submit(self.corpora.add, name, [1000 + number])


class Watched:
    """The processes of a cluster, as the system and their metrics show them."""

    def __init__(self, cluster):
        self.processes = [each for each in cluster.processes if each.name != "redis"]

    def requests(self):
        """Returns the number of requests to the bucket so far."""
        return sum(sum(map(int, REQUESTS.findall(self.metrics(each)))) for each in self.processes)

    def metrics(self, process):
        address = process.wait_for(r"metrics and health on (http://[^\s/]+)").group(1)
        with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def cpu_secs(self):
        ticks = 0
        for process in self.processes:
            after_name = pathlib.Path(f"/proc/{process.running.pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(after_name[11]) + int(after_name[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self, line):
        """Returns the memory of the largest retriever, in MiB."""
        retrievers = [each for each in self.processes if each.name.startswith("retriever")]
        found = [pathlib.Path(f"/proc/{each.running.pid}/status").read_text() for each in retrievers]
        return max(int(re.search(rf"^{line}:\s+(\d+) kB", status, re.M).group(1)) for status in found) / 1024


def tell(what, figure):
    print(f"| {what} | {figure} |", flush=True)


def told(seconds):
    ordered = sorted(seconds)
    last = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"median {statistics.median(ordered) * 1000:.0f} ms, 99th {last * 1000:.0f} ms, of {len(ordered)}"


def make(cluster, options):
    began = time.monotonic()
    Corpora(cluster, options.corpora, options.documents).make_all()
    tell(f"make {options.corpora} corpora and accept {options.documents} documents in each", f"{time.monotonic() - began:.0f} s")


def measure(cluster, options):
    corpora, watched = Corpora(cluster, options.corpora, options.documents), Watched(cluster)
    began = time.monotonic()
    corpora.wait_until_all_rest()
    tell("until all of them rest", f"{time.monotonic() - began:.0f} s")
    tell("memory of the largest retriever, all at rest", f"{watched.memory('VmRSS'):.0f} MiB")
    tell("peak of it so far", f"{watched.memory('VmHWM'):.0f} MiB")
    busy, resting = corpora.names[: options.busy], corpora.names[options.busy :]
    opened = [corpora.search(name) for name in busy]
    tell("first search of a corpus that rests, while nobody asks others", told(opened))
    with Busy(corpora, busy) as callers:
        # Those that rest again by now are opened first.
        time.sleep(2 * options.busy / BUSY_SEARCHES_PER_SECOND)
        settled, cold = len(callers.took), []
        for name in random.Random(7).sample(resting, min(COLD_SEARCHES, len(resting))):
            cold.append(corpora.search(name))
            time.sleep(COLD_EVERY_SECS)
        states = corpora.states()
    tell("first search of a corpus that rests, beside the busy ones", told(cold))
    tell(f"search of one of {options.busy} busy corpora", told(callers.took[settled:]))
    tell("shards by state, at the end of that", ", ".join(f"{state} {count}" for state, count in sorted(states.items())))
    tell("peak memory of the largest retriever", f"{watched.memory('VmHWM'):.0f} MiB")
    corpora.wait_until_all_rest()
    before, cpu = watched.requests(), watched.cpu_secs()
    time.sleep(IDLE_SECS)
    after, busy_secs = watched.requests(), watched.cpu_secs() - cpu
    tell("nobody asks: requests to the bucket a second, all processes", f"{(after - before) / IDLE_SECS:.2f}")
    tell("nobody asks: processor time, all processes", f"{100 * busy_secs / IDLE_SECS:.1f} % of a core")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=int, default=10_000)
    parser.add_argument("--busy", type=int, default=100)
    parser.add_argument("--documents", type=int, default=3, help="documents of each corpus")
    parser.add_argument("--data", type=pathlib.Path, help="folder of the corpora, which another run may have filled")
    parser.add_argument("--bucket", action="store_true", help="keep the corpora in an S3-compatible server")
    options = parser.parse_args()
    assert options.corpora > options.busy, "expected more corpora than busy ones"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="clew-corpora-"))
    stubs = folder / "stubs"
    stubs.mkdir()
    generate(WORKSPACE / "proto", stubs)
    data = options.data.resolve() if options.data else folder / "data"
    is_filled = data.exists()
    print("| | |\n|---|---|")
    if options.bucket:
        # Written there one by one, they would take a Python program's time for a million requests.
        if not is_filled:
            with running(folder, data) as cluster:
                make(cluster, options)
            arrange_as_in_a_bucket(data / "corpora")
        with Bucket(data) as bucket, running(folder, "s3://bench/data", bucket.settings()) as cluster:
            measure(cluster, options)
    else:
        with running(folder, data) as cluster:
            if not is_filled:
                make(cluster, options)
            measure(cluster, options)
    shutil.rmtree(folder)


def arrange_as_in_a_bucket(corpora):
    """In a bucket, the settings of a corpus are beside its prefix, and its shards below the time at which it was made."""
    for corpus in corpora.iterdir():
        file = corpus / "settings.json"
        settings = json.loads(file.read_text())
        made_at = datetime.datetime.fromisoformat(settings["created_at"])
        micros = (made_at - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(microseconds=1)
        register = {"state": "live", "format": settings.pop("format"), "settings": settings, "written_by": "bench"}
        corpora.joinpath(f"{corpus.name}.json").write_text(json.dumps(register))
        file.unlink()
        shards = list(corpus.iterdir())
        corpus.joinpath(str(micros)).mkdir()
        for shard in shards:
            shard.rename(corpus / str(micros) / shard.name)


@contextlib.contextmanager
def running(folder, data, settings=()):
    """A cluster, which must end by itself."""
    cluster = Cluster(folder, data)
    cluster.environment |= dict(settings) | {
        "CLEW_ADMIN__LISTEN": "127.0.0.1:0",
        "CLEW_RETRIEVER__REST_AFTER_SECS": str(REST_AFTER_SECS),
    }
    try:
        cluster.start(["encoder", "generator", *["retriever"] * RETRIEVERS, "gateway"])
        yield cluster
        stuck = cluster.stop()
        assert not stuck, f"not ended by themselves: {stuck}; see the logs in {folder}"
    finally:
        for process in cluster.processes:
            process.running.kill()


if __name__ == "__main__":
    main()
