"""Clew beside its peers: its server, its command line, and its searches over gRPC."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
import numpy
from grpc_tools import protoc

REPOSITORY = Path(__file__).resolve().parents[2]
START_PATIENCE = 120
STOP_PATIENCE = 60
# Seconds that any call may take.
PATIENCE = 120
EMBEDDED_AT_ONCE = 32
# A node that only embeds. It meets no other, so its address is never used.
ENCODER = """
[cluster]
node_id = "encoder"

[[cluster.members]]
id = "encoder"
address = "http://127.0.0.1:1"
roles = ["encoder"]
"""


def stubs(folder):
    """Generates the modules `clew.<area>.v1` into a folder, and has Python find them."""
    protos = REPOSITORY / "proto"
    well_known = Path(protoc.__file__).parent / "_proto"
    files = [str(path) for path in sorted(protos.rglob("*.proto"))]
    paths = [f"--proto_path={protos}", f"--proto_path={well_known}"]
    folder.mkdir(exist_ok=True)
    if protoc.main(["protoc", *paths, f"--python_out={folder}", f"--grpc_python_out={folder}", *files]) != 0:
        raise RuntimeError("the proto files do not compile")
    sys.path.insert(0, str(folder))


def environment(model):
    installed = REPOSITORY / ".cache/models/all-MiniLM-L6-v2"
    values = {key: value for key, value in os.environ.items() if key != "CLEW_ENDPOINT"}
    if model:
        values["CLEW_MODEL_DIR"] = str(Path(model).absolute())
    elif installed.exists():
        values.setdefault("CLEW_MODEL_DIR", str(installed))
    return values


class Server:
    """`clew serve` on a free port of this machine, until the `with` ends."""

    def __init__(self, program, log, model, *arguments):
        self.log = log
        self.command = [program, "serve", "--listen", "127.0.0.1:0", *arguments]
        self.environment = environment(model)

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)
        until = time.monotonic() + START_PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r"listening on http://(\S+)", self.log.read_text(errors="replace"))
            if found:
                self.address = found.group(1)
                return self
            time.sleep(0.05)
        self.__exit__()
        raise RuntimeError(f"{' '.join(self.command)} did not start:\n{self.log.read_text(errors='replace')}")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def export(program, model, data, corpus, folder):
    """Writes the corpus below a folder, with its vectors."""
    command = [program, "corpus", "export", corpus, "--format", "parquet", "--out", str(folder)]
    if subprocess.run([*command, "--data-dir", data], env=environment(model), stdout=sys.stderr).returncode != 0:
        raise RuntimeError(f"the corpus `{corpus}` could not be exported")


def embed(program, model, folder, texts):
    """Vectors of questions as Clew embeds them, `[texts, dimension]`, from a node that does nothing else."""
    from clew.encoder.v1 import encoder_pb2, encoder_pb2_grpc

    configuration = folder / "encoder.toml"
    configuration.write_text(ENCODER)
    kind, priority = encoder_pb2.TEXT_KIND_QUERY, encoder_pb2.PRIORITY_BULK

    def batches():
        for first in range(0, len(texts), EMBEDDED_AT_ONCE):
            batch = texts[first : first + EMBEDDED_AT_ONCE]
            request = encoder_pb2.EmbedRequest(id=first, texts=batch, kind=kind, priority=priority)
            request.timeout.FromSeconds(PATIENCE)
            yield request

    options = ["--roles", "encoder", "--config", str(configuration)]
    with Server(program, folder / "encoder.log", model, *options) as server:
        with grpc.insecure_channel(server.address) as channel:
            responses = {}
            for response in encoder_pb2_grpc.EncoderServiceStub(channel).Embed(batches(), timeout=PATIENCE):
                if response.HasField("refusal"):
                    raise RuntimeError(f"the questions were not embedded: {response.refusal.message}")
                responses[response.id] = response.embeddings.embeddings
    every = [one.vector for first in sorted(responses) for one in responses[first]]
    return numpy.stack([numpy.frombuffer(vector, "<f4") for vector in every])


class Clew:
    """A corpus behind a running server."""

    modes = ["dense", "sparse", "hybrid"]
    has_filters = True
    settings = "a server over gRPC with a client in Python on the same cores; embeds each question itself"
    synced = "at once"
    deletes = "at once"
    lacks = ""

    def __init__(self, address, corpus, filters, k):
        from clew.ingest.v1 import ingest_pb2, ingest_pb2_grpc
        from clew.query.v1 import query_pb2, query_pb2_grpc

        self.messages = query_pb2
        self.corpus, self.k = corpus, k
        self.attributes = {one["column"]: one["attribute"] for one in filters}
        self.timings = []
        channel = grpc.insecure_channel(address)
        self.queries = query_pb2_grpc.QueryServiceStub(channel)
        idle = ingest_pb2.WatchIngestionRequest(corpus=corpus, until_idle=True)
        for _ in ingest_pb2_grpc.IngestServiceStub(channel).WatchIngestion(idle):
            pass

    def search(self, mode, text, vector, where):
        mode = self.messages.SearchMode.Value(f"SEARCH_MODE_{mode.upper()}")
        request = self.messages.SearchRequest(corpus=self.corpus, query=text, k=self.k, mode=mode)
        if where:
            request.filter.attributes.add(name=self.attributes[where[0]], value=where[1])
        response = self.queries.Search(request, timeout=PATIENCE)
        timing = response.timing
        parts = {"embedding": timing.compute, "shards": timing.store, "server": timing.total}
        self.timings.append({part: took.ToNanoseconds() / 1e9 for part, took in parts.items()})
        return [evidence.chunk_id for evidence in response.evidence]
