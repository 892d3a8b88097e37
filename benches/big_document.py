"""Measures the memory that one large document takes: of the server that accepts, indexes and structures it, and of the
command that sends it.

    python3 benches/big_document.py --clew target/release/clew --mebibytes 16 BOOK.txt ...

The document is the given texts one after the other, as often as it takes. A server is started for it, with vectors of
`benches/stand_in_encoder.py`, so that the model takes neither time nor memory. For each stage the script prints how far
the peak of the server's resident memory lies above what it held when the stage began, in MiB and in copies of the
document's text. It needs Linux, numpy, and the right to reset peaks (`/proc/PID/clear_refs`).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
# The largest document that a server takes without configuration.
DEFAULT_MEBIBYTES = 16
STAND_IN = pathlib.Path(__file__).with_name("stand_in_encoder.py")
SMALL = "A clew is a ball of thread. Ariadne gave one to Theseus, so that he would find his way back."


def text_of(files, size):
    whole = b"".join(pathlib.Path(name).read_bytes() for name in files)
    whole = (whole * (size // max(len(whole), 1) + 1))[:size]
    return whole.decode(errors="ignore")


def status(pid, key, otherwise=None):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) << 10
    # A process that ended and was not waited for has no memory.
    if otherwise is None:
        raise SystemExit(f"process {pid} is gone")
    return otherwise


class Peak:
    """The peak of a process' resident memory since this was made."""

    def __init__(self, pid):
        self.pid = pid
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
        self.before = status(pid, "VmRSS")
        self.began = time.monotonic()

    def line(self, stage, size):
        peak = status(self.pid, "VmHWM")
        above = peak - self.before
        took = time.monotonic() - self.began
        return (
            f"{stage:<11} {self.before / MIB:7.0f} {peak / MIB:7.0f} {above / MIB:7.0f} "
            f"{above / size:7.1f} {took:7.1f}"
        )


class Corpus:
    """The command line on one corpus of a server."""

    def __init__(self, clew, endpoint):
        self.base = [clew, "--endpoint", endpoint]
        self.corpus = "big"

    def run(self, *arguments):
        done = subprocess.run([*self.base, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{arguments}: {done.stderr}")
        return done.stdout

    def counts(self):
        return json.loads(self.run("status", "--corpus", self.corpus, "--json"))

    def until(self, is_done, patience):
        end = time.monotonic() + patience
        while not is_done(self.counts()):
            if time.monotonic() > end:
                raise SystemExit(f"nothing came of it within {patience} s: {self.counts()}")
            time.sleep(0.5)


def measure(arguments, folder):
    size = arguments.mebibytes * MIB - 4096
    big, small = folder / "big.txt", folder / "small.txt"
    text = text_of(arguments.texts, size)
    if arguments.lines:
        letters = "".join(text[: size // 4].split())
        text = "".join(f"{letters[at : at + 2]}\n" for at in range(0, len(letters), 2))
        size = len(text.encode())
    big.write_text(text)
    small.write_text(SMALL)
    encoder = subprocess.Popen(
        [sys.executable, STAND_IN, "--port", str(arguments.port)], stdout=subprocess.PIPE, text=True
    )
    configuration = folder / "clew.toml"
    lines = []
    while not lines or lines[-1].strip():
        lines.append(encoder.stdout.readline())
    if len(lines) == 1:
        raise SystemExit("the encoder did not start")
    configuration.write_text("".join(lines))
    if arguments.mebibytes > DEFAULT_MEBIBYTES:
        # For the server and for the command that reads the file.
        os.environ["CLEW_GATEWAY__MAX_DOCUMENT_BYTES"] = str(arguments.mebibytes * MIB)
    endpoint = f"http://127.0.0.1:{arguments.port + 1}"
    log = open(folder / "server.log", "w")
    server = subprocess.Popen(
        [arguments.clew, "serve", "--listen", endpoint[7:], "--config", configuration, "--data-dir", folder / "data"],
        stdout=log,
        stderr=log,
    )
    try:
        corpus = Corpus(arguments.clew, endpoint)
        end = time.monotonic() + 60
        while subprocess.run([*corpus.base, "corpus", "list"], capture_output=True).returncode:
            if time.monotonic() > end or server.poll() is not None:
                raise SystemExit((folder / "server.log").read_text())
            time.sleep(0.2)
        corpus.run("corpus", "create", corpus.corpus, *([] if arguments.structure else ["--no-structure"]))
        corpus.run("ingest", "--corpus", corpus.corpus, str(small))
        print(f"{arguments.mebibytes} MiB      before    peak   above  copies       s", flush=True)
        peak = Peak(server.pid)
        sending = subprocess.Popen(
            [*corpus.base, "ingest", "--corpus", corpus.corpus, "--no-wait", str(big)], stdout=log, stderr=log
        )
        sender = 0
        while sending.poll() is None:
            sender = max(sender, status(sending.pid, "VmHWM", sender))
            time.sleep(0.005)
        if sending.returncode:
            raise SystemExit((folder / "server.log").read_text())
        print(peak.line("accepted", size), flush=True)
        print(f"{'sender':<11} {'':7} {sender / MIB:7.0f} {'':7} {sender / size:7.1f}", flush=True)
        peak = Peak(server.pid)
        corpus.until(lambda counts: counts["pending_documents"] == 0, arguments.patience)
        print(peak.line("indexed", size), flush=True)
        if arguments.structure:
            peak = Peak(server.pid)
            corpus.until(lambda counts: counts["unstructured_documents"] == 0, arguments.patience)
            print(peak.line("structured", size), flush=True)
        print(json.dumps(corpus.counts()))
    finally:
        server.terminate()
        server.wait()
        encoder.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", help="text files that the document is made of")
    parser.add_argument("--clew", default="target/release/clew", help="program to measure")
    parser.add_argument("--mebibytes", type=int, default=16, help="size of the document (default: 16)")
    parser.add_argument("--lines", action="store_true", help="break the text after every second letter: a worst case")
    parser.add_argument("--structure", action="store_true", help="build its tree and graph as well")
    parser.add_argument("--patience", type=int, default=1800, help="seconds for a stage (default: 1800)")
    parser.add_argument("--port", type=int, default=8711, help="first of two ports on 127.0.0.1 (default: 8711)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
