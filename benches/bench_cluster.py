"""Measures what a cluster costs and gains on this machine and prints JSON, a part after the other; its
arguments are the parts that are wanted, all by default.

- hops: latency of searches and of reading a document in the same shards by one process, through a gateway
  and one retriever, and through a gateway and three retrievers. A cluster knows the embedding of a question
  that was asked before, and each is asked several times.
- scaling: time to read the same documents with one encoder and with two, each pinned to a core
- placement: shards that move when a fourth retriever joins three
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples/demo"))

from cluster import PROGRAMS, Cluster, Process
from demo import WORKSPACE, documented_crates

SHARDS = 6
QUERIES = 200
MANY_SHARDS = 48
SETTLE_PATIENCE = 60
MAINTAINED_AFTER = 10


def clew(*arguments, cwd=None):
    """What a command of the command line prints with --json."""
    command = [os.environ["CLEW"], *arguments, "--json"]
    ran = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"{command} failed: {ran.stdout}")
    return json.loads(ran.stdout)


def searches(endpoint):
    """Median latencies in milliseconds, by mode and of reading a document, once the tables want no more maintenance."""
    time.sleep(MAINTAINED_AFTER)
    measured = clew(
        "bench", "search", "--corpus", "bench", "--queries", str(QUERIES), "--endpoint", endpoint
    )
    measured = {**measured["modes"], "read_document": measured["read_document"]}
    return {what: round(values["p50_ms"], 2) for what, values in measured.items()}


def listening(process):
    return process.wait_for(r"listening on (http://\S+)").group(1)


def stop_process(process):
    if not process.stop():
        sys.exit(f"{process.name} did not end by itself")


def stop(cluster):
    stuck = cluster.stop()
    if stuck:
        sys.exit(f"not ended by themselves: {stuck}")


def ingest(endpoint, corpus, patterns, registry):
    clew("corpus", "create", corpus, "--shards", str(SHARDS), "--endpoint", endpoint)
    return clew("ingest", "--corpus", corpus, *patterns, "--endpoint", endpoint, cwd=registry)


def hops(folder, patterns, registry):
    data = folder / "data"
    model = os.environ.get("CLEW_MODEL_DIR", str(WORKSPACE / ".cache/models/all-MiniLM-L6-v2"))
    command = [str(PROGRAMS / "clew"), "serve", "--listen", "127.0.0.1:0"]
    command += ["--data-dir", str(data), "--model", model]
    alone = Process("alone", command, folder)
    read = ingest(listening(alone), "bench", patterns, registry)
    stop_process(alone)
    result = {"chunks": read["chunks"], "shards": SHARDS}
    alone = Process("alone", command, folder)
    result["one_process_ms"] = searches(listening(alone))
    stop_process(alone)
    for retrievers in (1, 3):
        cluster = Cluster(folder, data)
        cluster.start(["encoder", "generator", *["retriever"] * retrievers, "gateway"])
        clew("status", "--corpus", "bench", "--endpoint", cluster.gateway)
        result[f"{retrievers}_retrievers_ms"] = searches(cluster.gateway)
        stop(cluster)
    return result


def scaling(folder, patterns, registry):
    seconds = {}
    for encoders in (1, 2):
        cluster = Cluster(folder, folder / f"scaling-{len(seconds)}-{time.monotonic_ns()}")
        cluster.environment["CLEW_ENCODER__THREADS"] = "1"
        for core in range(encoders):
            cluster.start(["encoder"], prefix=["taskset", "-c", str(core)])
        cluster.start(["generator", "retriever", "gateway"])
        read = ingest(cluster.gateway, "bench", patterns, registry)
        seconds[encoders] = round(read["took_secs"], 1)
        stop(cluster)
    return {
        "tokens": read["tokens"],
        "one_encoder_s": seconds[1],
        "two_encoders_s": seconds[2],
        "ratio": round(seconds[1] / seconds[2], 2),
    }


def owners(cluster):
    shards = clew("cluster", "topology", "--endpoint", cluster.gateway)["shards"]
    return {shard["shard"]: shard["owner"] for shard in shards}, all(
        shard["owner"] and shard["owner"] == shard["placed_on"] for shard in shards
    )


def settled(cluster):
    until = time.monotonic() + SETTLE_PATIENCE
    while time.monotonic() < until:
        owned, is_settled = owners(cluster)
        if is_settled and len(owned) == MANY_SHARDS:
            return owned
        time.sleep(0.2)
    sys.exit("the shards did not come to rest")


def placement(folder):
    cluster = Cluster(folder, folder / "placement")
    cluster.start(["encoder", "generator", *["retriever"] * 3, "gateway"])
    create = ["corpus", "create", "many", "--shards", str(MANY_SHARDS)]
    clew(*create, "--endpoint", cluster.gateway)
    before = settled(cluster)
    started = time.monotonic()
    cluster.start(["retriever"])
    while "retriever-4" not in owners(cluster)[0].values():
        time.sleep(0.2)
    after = settled(cluster)
    took = time.monotonic() - started
    moved = [shard for shard in before if before[shard] != after[shard]]
    stop(cluster)
    return {
        "shards": MANY_SHARDS,
        "expected_to_move": MANY_SHARDS // 4,
        "moved": len(moved),
        "moved_elsewhere_than_to_the_new": sum(after[shard] != "retriever-4" for shard in moved),
        "settled_after_s": round(took, 1),
    }


def main():
    folder = Path(tempfile.mkdtemp(prefix="clew-bench-"))
    registry, crates = documented_crates()
    small = [crate for crate in crates if crate.startswith(("clap_builder-", "regex-1"))]
    patterns = [f"{crate}/src/**/*.rs" for crate in small]
    parts = {
        "placement": lambda: placement(folder),
        "hops": lambda: hops(folder, patterns, registry),
        "scaling": lambda: scaling(folder, patterns, registry),
    }
    for name in sys.argv[1:] or parts:
        print(json.dumps({name: parts[name]()}, indent=2), flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
