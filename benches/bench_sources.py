"""What a source in a bucket costs, read by parts that are killed again and again.

    CLEW=target/release/clew .cache/python/bin/python benches/bench_sources.py --objects 4000

It makes objects in a bucket of moto, and ingests them by four parts as processes. Each part is killed with SIGKILL
ten times, at random moments, and started again. Then it looks whether the corpus has each object once and whole. A
second run has to read nothing. After that it changes some objects and removes others, and looks whether exactly their
documents have changed. It prints the requests to the bucket and the times of each run. It needs the embedding model
that `make setup` installs, and the Python packages of `tests/python/requirements.txt`. The texts are made up.

moto keeps the bucket in the memory of this process, and answers one request at a time. It needs 0.3 s for each list of
a bucket of 100,000 objects, so most of the time of large buckets is its own.
"""

import argparse
import concurrent.futures
import json
import logging
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

WORKSPACE = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("CLEW", str(WORKSPACE / "target/release/clew"))
MODEL = os.environ.get("CLEW_MODEL_DIR", str(WORKSPACE / ".cache/models/all-MiniLM-L6-v2"))
WORDS = ["bicycle", "oven", "garden", "violin", "passport", "camera", "boat", "carpet", "lamp", "coat", "bridge"]
PARTS = 4
# Seconds that a server may take to answer, and a part to end.
PATIENCE, PART_PATIENCE = 120, 7200
# Exit status of `clew` that was killed.
KILLED = -signal.SIGKILL


def text(number, version=0):
    words = " ".join(random.Random(f"{number} {version}").choices(WORDS, k=12))
    return f"Object {number} in version {version}: {words}."


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(port):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"nothing answers on port {port} within {PATIENCE} s")


class Bucket:
    """A bucket of moto in this process."""

    def __init__(self):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        self.objects = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        self.objects.create_bucket("source", "us-east-1")

    def name(self, number):
        return f"{number % 100:02}/{number:06}.txt"

    def put(self, number, version=0):
        self.objects.put_object("source", f"wiki/{self.name(number)}", text(number, version).encode())

    def remove(self, number):
        self.objects.delete_object("source", f"wiki/{self.name(number)}")

    def environment(self):
        host, port = self.server.get_host_and_port()
        keys = {"ACCESS_KEY_ID": "reader", "SECRET_ACCESS_KEY": "reader-secret", "ALLOW_HTTP": "true"}
        keys |= {"ENDPOINT": f"http://{host}:{port}", "REGION": "us-east-1"}
        return {**os.environ, **{f"CLEW_INGEST__S3__{key}": value for key, value in keys.items()}}


class Job:
    """The parts of a run, as processes."""

    def __init__(self, bucket, endpoint, kills, seed):
        self.bucket, self.endpoint, self.kills = bucket, endpoint, kills
        self.chance = random.Random(seed)

    def part(self, run, index, arguments, kills, longest):
        """Runs a part to its end, after it was killed `kills` times. Returns its report and how often it was killed."""
        command = [PROGRAM, "ingest", "--endpoint", self.endpoint, "--corpus", "wiki", "--json", "--no-wait"]
        command += ["--source", "wiki", "--run", run, "--part", f"{index}/{PARTS}", "s3://source/wiki", *arguments]
        killed = 0
        while True:
            process = subprocess.Popen(
                command, env=self.bucket.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            after = self.chance.uniform(0.2, longest) if killed < kills else PART_PATIENCE
            try:
                output, errors = process.communicate(timeout=after)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                killed += 1
                continue
            assert process.returncode == 0, f"part {index}: {output}{errors}"
            return json.loads(output), killed

    def run(self, name, *arguments, kills=0, longest=1.0):
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(PARTS) as parts:
            each = parts.map(lambda index: self.part(name, index, arguments, kills, longest), range(PARTS))
            reports = list(each)
        accepted_in = time.monotonic() - began
        clew(self.endpoint, "run", "wait", "--corpus", "wiki", name)
        found_in = time.monotonic() - began
        total = {
            key: sum(report[key] for report, _ in reports)
            for key in ("files", "known_files", "new", "replaced", "unchanged", "forgotten", "unreadable_total")
        }
        requests = {
            kind: sum(report["storage_requests"][kind] for report, _ in reports) for kind in ("list", "get", "head")
        }
        killed = sum(killed for _, killed in reports)
        print(
            f"{name}: accepted in {accepted_in:.1f} s, found in {found_in:.1f} s, killed {killed} times; "
            f"last processes: {total}, requests {requests}",
            flush=True,
        )
        return total, requests


def clew(endpoint, *arguments):
    command = [PROGRAM, *arguments, "--endpoint", endpoint, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PART_PATIENCE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def documents(endpoint, folder):
    """Texts of all documents, by id."""
    exported = pathlib.Path(tempfile.mkdtemp(dir=folder))
    clew(endpoint, "corpus", "export", "wiki", "--format", "jsonl", "--out", str(exported))
    found = {}
    for line in (exported / "documents.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert row["id"] not in found, f"{row['id']} twice"
        found[row["id"]] = row["text"]
    return found


def check(endpoint, folder, expected):
    found = documents(endpoint, folder)
    wrong = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
    assert not wrong, f"{len(wrong)} documents are not as their objects, such as {sorted(wrong)[:3]}"
    print(f"  the corpus has each of {len(expected)} objects once, whole", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", type=int, default=4_000)
    parser.add_argument("--kills", type=int, default=10, help="of each part")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    number, changed, removed = given.objects, given.objects // 20, given.objects // 200
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        bucket = Bucket()
        for each in range(number):
            bucket.put(each)
        port = free_port()
        endpoint = f"http://127.0.0.1:{port}"
        serve = [PROGRAM, "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", folder / "data", "--model", MODEL]
        server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(port)
            clew(endpoint, "corpus", "create", "wiki", "--no-structure")
            job = Job(bucket, endpoint, given.kills, given.seed)
            expected = {bucket.name(each): text(each) for each in range(number)}
            job.run("first", kills=given.kills, longest=max(1.0, number / 500))
            check(endpoint, folder, expected)

            total, requests = job.run("second")
            assert total["known_files"] == number and requests["get"] == 0, (total, requests)

            chance = random.Random(given.seed)
            touched = chance.sample(range(number), changed + removed)
            for each in touched[:changed]:
                bucket.put(each, version=1)
                expected[bucket.name(each)] = text(each, version=1)
            for each in touched[changed:]:
                bucket.remove(each)
                del expected[bucket.name(each)]
            total, requests = job.run("third", "--delete-missing")
            assert (total["replaced"], total["forgotten"], total["new"]) == (changed, removed, 0), total
            # Each part reads up to 32 files twice, to estimate what is to come.
            assert changed <= requests["get"] <= changed + 32 * PARTS, requests
            check(endpoint, folder, expected)
        finally:
            server.kill()
            bucket.server.stop()


if __name__ == "__main__":
    sys.exit(main())
