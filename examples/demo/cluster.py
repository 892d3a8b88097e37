"""Runs a small cluster on this machine: every service a process of its own, over a real Redis.

One gateway, three retrievers, two encoders, a graph builder and a generator share one data directory,
read the same documents as `make demo`, answer the same questions, outline a text, and show the cluster's
tree before they end.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from demo import QUESTIONS, WORKSPACE, documented_crates

PROGRAMS = Path(os.environ["CLEW"]).parent
SHARDS = 6
START_PATIENCE = 60
STOP_PATIENCE = 40


class Process:
    """A process of the cluster with its log."""

    def __init__(self, name, command, folder, environment=None):
        self.name = name
        self.log = folder / f"{name}.log"
        environment = {**os.environ, **(environment or {})}
        with open(self.log, "wb") as log:
            self.running = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=folder
            )

    def wait_for(self, pattern):
        """The match of `pattern` in the log, once it is there."""
        until = time.monotonic() + START_PATIENCE
        while time.monotonic() < until:
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if found:
                return found
            if self.running.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"{self.name} did not start; its log:\n{self.log.read_text(errors='replace')}")

    def stop(self):
        """Has the process end by itself; whether it did, and without complaint."""
        self.running.send_signal(signal.SIGTERM)
        try:
            return self.running.wait(STOP_PATIENCE) == 0
        except subprocess.TimeoutExpired:
            self.running.kill()
            return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


SERVICES = ["encoder", "encoder", "generator", "graph-builder"]
SERVICES += ["retriever", "retriever", "retriever", "gateway"]
PROGRAM_NAMES = {"encoder": "clew-memory-encoder"}


class Cluster:
    """The processes of a cluster and the address of its gateway."""

    def __init__(self, folder, data):
        """Starts Redis; `data` is the directory that all retrievers share."""
        port = free_port()
        redis = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        self.folder = folder
        self.processes = [Process("redis", redis, folder)]
        self.processes[0].wait_for("Ready to accept connections")
        self.gateway = None
        self.counts = {}
        self.environment = {
            "CLEW_CLUSTER__REDIS": f"redis://127.0.0.1:{port}",
            "CLEW_LISTEN": "127.0.0.1:0",
            "CLEW_DATA_DIR": str(data),
            "CLEW_MODEL_DIR": os.environ.get(
                "CLEW_MODEL_DIR", str(WORKSPACE / ".cache/models/all-MiniLM-L6-v2")
            ),
            # Two encoders share two cores; each would take both otherwise.
            "CLEW_ENCODER__THREADS": str(max(1, (os.cpu_count() or 2) // 2)),
        }

    def start(self, services, prefix=()):
        """Starts services, each behind the command `prefix`, and waits until all of them listen."""
        started = []
        for service in services:
            self.counts[service] = self.counts.get(service, 0) + 1
            name = f"{service}-{self.counts[service]}"
            program = str(PROGRAMS / PROGRAM_NAMES.get(service, f"clew-{service}"))
            environment = {**self.environment, "CLEW_CLUSTER__NODE_ID": name}
            started.append(Process(name, [*prefix, program], self.folder, environment))
        self.processes += started
        for service, process in zip(services, started):
            address = process.wait_for(r"listening on (http://\S+)").group(1)
            if service == "gateway":
                self.gateway = address
        return started

    def stop(self):
        """Has all end by themselves, the last started first; names those that did not."""
        return [process.name for process in reversed(self.processes) if not process.stop()]


def main():
    folder = Path(tempfile.mkdtemp(prefix="clew-cluster-"))
    print(f"Starting a cluster; logs are in {folder}", flush=True)
    cluster = Cluster(folder, folder / "data")
    # The encoders first, which the others wait for, last the gateway.
    for process in cluster.start(SERVICES):
        print(f"  {process.name} runs", flush=True)
    registry, crates = documented_crates()
    patterns = [f"{crate}/**/*.{kind}" for crate in crates for kind in ("md", "rs")]
    patterns = [pattern for pattern in patterns if any(registry.glob(pattern))]

    def clew(*arguments):
        command = [os.environ["CLEW"], *arguments, "--endpoint", cluster.gateway]
        return subprocess.run(command, cwd=registry).returncode == 0

    went_well = clew("corpus", "create", "demo", "--shards", str(SHARDS))
    print(f"\nReading the documentation of {len(crates)} crates into {SHARDS} shards", flush=True)
    started = time.monotonic()
    went_well = went_well and clew("ingest", "--corpus", "demo", *patterns)
    print(f"read in {time.monotonic() - started:.0f} s", flush=True)
    for question in QUESTIONS:
        print(f"\n> {question}", flush=True)
        went_well = went_well and clew("ask", "--corpus", "demo", question)
    print("\nWhat the graph builder reads out of Clew's README:", flush=True)
    went_well = went_well and clew("outline", str(WORKSPACE / "README.md"), "-k", "5")
    print("\nThe members and the owners of the shards:", flush=True)
    went_well = went_well and clew("cluster", "topology")
    print("\nThe supervision tree of every node:", flush=True)
    went_well = went_well and clew("cluster", "tree")
    print("\nStopping", flush=True)
    stuck = cluster.stop()
    if not went_well or stuck:
        sys.exit(f"something went wrong: see the logs in {folder}; not ended: {stuck}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
