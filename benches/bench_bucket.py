"""How many requests a bucket gets: per document, per search, per snapshot, and while nobody asks anything.

    CLEW=target/debug/clew .cache/python/bin/python benches/bench_bucket.py

It needs the Python packages of `tests/python/requirements.txt`, of which one is the S3-compatible server, and the
embedding model that `make setup` installs. A server of its own keeps two corpora in the bucket, one with a shard and
one with eight, and counts its requests as the metric `clew_storage_requests_total`. The documents are made up.
Maintenance that a document causes is counted with it.
"""

import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PATIENCE = 60
SINGLE, MANY, SEARCHES, IDLE_SECS = 10, 100, 20, 60
KINDS = ["get", "head", "list", "put", "delete"]
WORDS = ["bicycle", "oven", "garden", "violin", "passport", "camera", "boat", "carpet", "lamp", "coat", "bridge"]
METRIC = re.compile(r'^clew_storage_requests_total\{[^}]*kind="(\w+)"[^}]*\} (\d+)', re.M)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Bucket:
    """An S3-compatible server with the bucket `bench`, whose folder `data` has the files of a folder."""

    def __init__(self, folder=None):
        self.folder = folder

    def __enter__(self):
        port = str(free_port())
        self.endpoint = f"http://127.0.0.1:{port}"
        command = [sys.executable, str(pathlib.Path(__file__).with_name("bucket_server.py")), "--port", port]
        command += ["--bucket", "bench", *(["--folder", str(self.folder)] if self.folder else [])]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.server.stdout.readline(), "the S3 server ended"
        until = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}/bench?list-type=2&max-keys=1", timeout=5).close()
                return self
            except OSError:
                assert time.monotonic() < until, "the S3 server does not answer"
                time.sleep(0.1)

    def __exit__(self, *_error):
        self.server.kill()
        self.server.wait()

    def settings(self):
        """Returns the settings, as environment variables, that lead Clew to it."""
        return {
            "CLEW_STORAGE__S3__ENDPOINT": self.endpoint,
            "CLEW_STORAGE__S3__ALLOW_HTTP": "true",
            "CLEW_STORAGE__S3__ACCESS_KEY_ID": "bench",
            "CLEW_STORAGE__S3__SECRET_ACCESS_KEY": "bench-secret",
        }


class Clew:
    """A server on the bucket. What is asked of it is counted in requests to the bucket."""

    def __init__(self, bucket, folder):
        self.folder, self.admin = pathlib.Path(folder), free_port()
        self.chance, self.documents = random.Random(7), 0
        admin = {"CLEW_ADMIN__LISTEN": f"127.0.0.1:{self.admin}"}
        self.environment = os.environ | bucket.settings() | admin

    def __enter__(self):
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        command = [os.environ["CLEW"], "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", "s3://bench/data"]
        command += ["--snapshots", "s3://bench/snapshots"]
        log = subprocess.DEVNULL
        self.server = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/health/ready", timeout=5).close()
                return self
            except OSError:
                assert self.server.poll() is None and time.monotonic() < until, "the server does not answer"
                time.sleep(0.1)

    def __exit__(self, *_error):
        self.server.terminate()
        self.server.wait(timeout=PATIENCE)

    def run(self, *arguments):
        command = [os.environ["CLEW"], "--endpoint", self.address, "--json", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE)
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def requests(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=PATIENCE) as answer:
            found = dict(METRIC.findall(answer.read().decode()))
        return [int(found.get(kind, 0)) for kind in KINDS]

    def quiet(self):
        """Waits until the server has done what followed from the last call."""
        before = None
        while before != (before := self.requests()):
            time.sleep(3)
        return before

    def measure(self, what, times, call):
        before = self.quiet()
        for _ in range(times):
            call()
        self.tell(what, times, before)

    def tell(self, what, times, before):
        of_each = [(after - before) / times for before, after in zip(before, self.quiet())]
        kinds = ", ".join(f"{kind} {number:.1f}" for kind, number in zip(KINDS, of_each) if number)
        print(f"| {what} | {sum(of_each):.1f} | {kinds} |", flush=True)

    def idle(self, what):
        before, began = self.quiet(), time.monotonic()
        time.sleep(IDLE_SECS)
        self_made = [after - before for before, after in zip(before, self.requests())]
        minutes = (time.monotonic() - began) / 60
        print(f"| {what} | {sum(self_made) / minutes:.1f} | |", flush=True)

    def ingest(self, number):
        file = self.folder / "documents.jsonl"
        with file.open("w") as lines:
            for _ in range(number):
                text = " ".join(self.chance.choices(WORDS, k=120))
                print(json.dumps({"id": f"d{self.documents}", "text": text}), file=lines)
                self.documents += 1
        self.run("ingest", "--corpus", "notes", str(file))

    def search(self):
        self.run("search", "--corpus", "notes", " ".join(self.chance.choices(WORDS, k=3)))


def main():
    with tempfile.TemporaryDirectory() as folder, Bucket() as bucket:
        with Clew(bucket, folder) as clew:
            clew.run("corpus", "create", "notes", "--no-structure")
            print("| | requests | by kind |\n|---|---|---|")
            clew.measure("a document, alone, until it is found", SINGLE, lambda: clew.ingest(1))
            before = clew.quiet()
            clew.ingest(MANY)
            clew.tell("a document, with 99 others", MANY, before)
            clew.measure("a search", SEARCHES, clew.search)
            clew.idle("a minute without calls, one shard")
        with Clew(bucket, folder) as clew:
            clew.documents = SINGLE + MANY
            clew.measure("the first search after a start", 1, clew.search)
            clew.measure("a document forgotten, until it is erased", 1, lambda: clew.run(
                "forget", "--corpus", "notes", "--document", "d3"
            ))
            clew.measure("a snapshot", 1, lambda: clew.run("corpus", "snapshot", "notes", "one"))
            clew.measure("a snapshot deleted", 1, lambda: clew.run("corpus", "snapshot", "delete", "notes", "one"))
            clew.run("corpus", "create", "wide", "--no-structure", "--shards", "8")
            clew.idle("a minute without calls, nine shards")
            clew.measure("a corpus of 110 documents deleted", 1, lambda: clew.run("corpus", "delete", "notes"))


if __name__ == "__main__":
    main()
