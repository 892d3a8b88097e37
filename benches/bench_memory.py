"""Measures compressed memories of a large corpus in a cluster, with encoders killed in the middle; prints JSON.

Its arguments are the folder of a memory model and text files; BYTES (default 4,000,000) bounds how much of them is
read, RATIO (4) and SEGMENT (100,000 tokens) how. Three memory encoders and two retrievers run as processes of their
own; while memories are formed one encoder is killed with `kill -9` and started anew, then another. Then questions are
asked, one after the other. Told are tokens, slots, bytes, seconds, the largest resident memory of every process, and
what the encoders' budget for memories kept ready was.
"""

import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench_cluster import clew
from cluster import Cluster

BYTES = int(os.environ.get("BYTES", "4000000"))
RATIO = os.environ.get("RATIO", "4")
SEGMENT = os.environ.get("SEGMENT", "100000")
BUDGET = 64 << 20
PATIENCE = 3600
QUESTIONS = [
    "Who left the house at night?",
    "What happened at sea?",
    "Who is to be married?",
    "Where did they find the money?",
    "What did he confess?",
]


def chapters(files):
    """Texts of some thirty thousand bytes, cut between paragraphs."""
    read = 0
    for file in files:
        text = Path(file).read_text(errors="replace")[: max(0, BYTES - read)]
        read += len(text)
        while text:
            end = text.find("\n\n", 30_000)
            end = len(text) if end < 0 else end
            yield file, text[:end]
            text = text[end:].strip()


class Watch(threading.Thread):
    """The largest resident memory of processes, in MiB."""

    def __init__(self, processes):
        super().__init__(daemon=True)
        self.processes = processes
        self.largest = {}

    def run(self):
        while True:
            for process in list(self.processes):
                try:
                    status = Path(f"/proc/{process.running.pid}/status").read_text()
                except OSError:
                    continue
                for line in status.splitlines():
                    if line.startswith("VmHWM"):
                        size = int(line.split()[1]) // 1024
                        self.largest[process.name] = max(self.largest.get(process.name, 0), size)
            time.sleep(0.2)


def main():
    model, files = sys.argv[1], sys.argv[2:]
    folder = Path(tempfile.mkdtemp(prefix="clew-memory-"))
    cluster = Cluster(folder, folder / "data")
    cluster.environment |= {
        "CLEW_MEMORY_MODEL__FOLDER": str(Path(model).absolute()),
        "CLEW_MEMORY_MODEL__THREADS": "1",
        "CLEW_MEMORY_MODEL__CACHE_BYTES": str(BUDGET),
        "CLEW_MEMORY_MODEL__DRAFT_TOKENS": "64",
        "CLEW_ENCODER__THREADS": "1",
    }
    encoders = cluster.start(["encoder"] * 3)
    cluster.start(["generator", "graph-builder", "retriever", "retriever", "gateway"])
    watch = Watch(cluster.processes)
    watch.start()
    at = ["--endpoint", cluster.gateway]
    clew(
        "corpus", "create", "books", "--shards", "2", "--no-structure", "--memory-ratio", RATIO,
        "--memory-segment-tokens", SEGMENT, *at,
    )
    lines = folder / "books.jsonl"
    with open(lines, "w") as out:
        for number, (file, text) in enumerate(chapters(files)):
            document = {"id": f"{Path(file).stem[:40]}-{number:04}", "text": text}
            out.write(json.dumps(document) + "\n")
    began = time.monotonic()
    clew("ingest", "--corpus", "books", str(lines), *at)
    found = time.monotonic() - began
    killed, until = 0, time.monotonic() + PATIENCE
    while True:
        listed = clew("memory", "list", "--corpus", "books", *at)
        covered, documents = listed["covered_documents"], listed["documents"]
        print(f"{covered} of {documents} documents are covered", file=sys.stderr, flush=True)
        if covered == documents:
            break
        if time.monotonic() > until:
            sys.exit("memories take too long")
        if killed < 2 and covered > documents * (killed + 1) // 4:
            encoders[killed].running.send_signal(signal.SIGKILL)
            cluster.processes.remove(encoders[killed])
            encoders[killed].running.wait()
            cluster.start(["encoder"])
            killed += 1
        time.sleep(2)
    formed = time.monotonic() - began
    took, drafted = [], 0
    for question in QUESTIONS * 2:
        asked = time.monotonic()
        answer = clew("ask", "--corpus", "books", "--strategy", "memorag", question, *at)
        took.append(time.monotonic() - asked)
        drafted += answer["cost"]["completion_tokens"]
    total = {name: sum(m[name] for m in listed["memories"]) for name in ("tokens", "slots", "bytes")}
    print(
        json.dumps(
            {
                **total,
                "memories": len(listed["memories"]),
                "documents": documents,
                "encoders_killed": killed,
                "searchable_after_s": round(found, 1),
                "covered_after_s": round(formed, 1),
                "tokens_per_s": round(total["tokens"] / formed),
                "question_first_s": [round(s, 2) for s in took[: len(QUESTIONS)]],
                "question_again_p50_s": round(statistics.median(took[len(QUESTIONS) :]), 2),
                "drafted_tokens": drafted,
                "budget_mib": BUDGET >> 20,
                "largest_resident_mib": dict(sorted(watch.largest.items())),
            },
            indent=1,
        )
    )
    stuck = cluster.stop()
    if stuck:
        sys.exit(f"not ended: {stuck}; logs are in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
