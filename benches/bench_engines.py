"""The same rows by Ray, by Spark and by `clew ingest`: how long they take, and whether repeated tasks cost or harm.

    CLEW=target/release/clew python3 benches/bench_engines.py [--rows ROWS] [--model MODEL] [--small]

Writes ROWS (default 100,000) short texts from one Parquet file into fresh corpora of one server, without trees and
graphs. Tells when all are acknowledged, when all are searchable, and the ratio to `clew ingest`. Ray and Spark, which
are started and warm before that, write once as it goes, and once with every fourth task failing after it has written
everything, so that it is repeated. Then every corpus must have every document once, with its text. Needs the package
of `clients/python` with `ray` and `spark`, and Java. MODEL is the folder of the embedding model; without it, the one
of `make setup`. With `--small`, texts are embedded by a made-up model of one layer with MODEL's tokenizer, so that
writing takes most of the time.
"""

import argparse
import json
import logging
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import ray
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter

import clew
from clew.ray import ClewDatasink
from clew.spark import ClewDataSource

TASKS = 8
FAILING = 4
PATIENCE = 7200
MODEL = Path(__file__).resolve().parents[1] / ".cache/models/all-MiniLM-L6-v2"
# Width of the states of the made-up model.
WIDTH = 32
WORDS = "harbour lantern river copper winter garden signal marble thunder velvet orchard compass meadow".split()


def table(rows):
    """Rows with texts of a sentence, each of which is unlike the others."""
    dice = random.Random(7)
    texts = [f"Note {n}: {' '.join(dice.choices(WORDS, k=12))}." for n in range(rows)]
    ids = [f"note-{n}" for n in range(rows)]
    return pyarrow.table({"id": ids, "text": texts, "source_version": [1] * rows})


def small_model(folder, model):
    """Writes a BERT of one layer with random weights and the tokenizer of `model` into `folder`."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 1}
    (folder / "config.json").write_text(json.dumps(config))
    pooling = json.loads((folder / "1_Pooling/config.json").read_text())
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling | {"word_embedding_dimension": WIDTH}))
    tables = {"word": config["vocab_size"], "position": config["max_position_embeddings"], "token_type": 2}
    shapes = {f"embeddings.{name}_embeddings.weight": [rows, WIDTH] for name, rows in tables.items()}
    layer = "encoder.layer.0"
    linear = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
    for part in [*linear, "intermediate.dense", "output.dense"]:
        shapes |= {f"{layer}.{part}.weight": [WIDTH, WIDTH], f"{layer}.{part}.bias": [WIDTH]}
    for norm in ["embeddings", f"{layer}.attention.output", f"{layer}.output"]:
        shapes |= {f"{norm}.LayerNorm.{part}": [WIDTH] for part in ("weight", "bias")}
    dice, header, values = numpy.random.default_rng(7), {}, b""
    for name, shape in shapes.items():
        begin = len(values)
        values += dice.normal(0, 0.5, shape).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(values)]}
    header = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + values)


class Server:
    """`clew serve`, whose address is the one that it prints."""

    def __init__(self, folder, model):
        serve = [os.environ["CLEW"], "serve", "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data"]
        serve += ["--model", str(model)]
        quiet = {**os.environ, "CLEW_LOG": "error"}
        self.process = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, env=quiet)
        for line in self.process.stderr:
            _, found, address = line.partition("listening on ")
            if found:
                self.endpoint = address.strip()
                return
        sys.exit("error: the server ended")

    def stop(self):
        self.process.terminate()
        self.process.wait()


class FailingDatasink(ClewDatasink):
    """Writes for Ray, and fails in every fourth task after its first writing."""

    def __init__(self, endpoint, corpus, folder):
        super().__init__(endpoint, corpus)
        self.folder = folder

    def write(self, blocks, ctx):
        written = super().write(blocks, ctx)
        failed = Path(self.folder, f"failed-{ctx.task_idx}")
        if ctx.task_idx % FAILING == 0 and not failed.exists():
            failed.touch()
            raise OSError("the acknowledgement is lost")
        return written


class FailingDataSource(ClewDataSource):
    """Writes for Spark, and fails in every fourth task at its first try."""

    @classmethod
    def name(cls):
        return "failing"

    def writer(self, schema, overwrite):
        return FailingWriter(super().writer(schema, overwrite))


class FailingWriter(DataSourceArrowWriter):
    """Wraps the writer of Spark."""

    def __init__(self, inner):
        self.inner = inner

    def write(self, iterator):
        written = self.inner.write(iterator)
        task = TaskContext.get()
        if task.partitionId() % FAILING == 0 and task.attemptNumber() == 0:
            raise OSError("the acknowledgement is lost")
        return written

    def commit(self, messages):
        self.inner.commit(messages)


class Engines:
    """Ray and Spark, started, and the ways to write a file with them and without."""

    def __init__(self, endpoint, folder):
        self.endpoint, self.folder = endpoint, folder
        os.environ["PYSPARK_PYTHON"] = sys.executable
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.data.DataContext.get_current().enable_progress_bars = False
        cores = os.cpu_count()
        builder = SparkSession.builder.master(f"local[{cores},4]").config("spark.ui.enabled", "false")
        self.spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        for source in (ClewDataSource, FailingDataSource):
            self.spark.dataSource.register(source)

    def by_clew_ingest(self, file, corpus):
        """Writes with the program."""
        ingest = [os.environ["CLEW"], "ingest", "--corpus", corpus, "--endpoint", self.endpoint, "--no-wait", file]
        subprocess.run(ingest, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def by_ray(self, file, corpus):
        """Writes with Ray."""
        self._by_ray(file, ClewDatasink(self.endpoint, corpus))

    def by_failing_ray(self, file, corpus):
        """Writes with Ray, some of whose tasks fail."""
        self._by_ray(file, FailingDatasink(self.endpoint, corpus, self.folder))

    def _by_ray(self, file, sink):
        rows = ray.data.read_parquet(file).repartition(TASKS)
        rows.write_datasink(sink, ray_remote_args={"retry_exceptions": True, "max_retries": 3})
        print(f"  {sink.report}")

    def by_spark(self, file, corpus):
        """Writes with Spark."""
        self._by_spark(file, corpus, "clew")

    def by_failing_spark(self, file, corpus):
        """Writes with Spark, some of whose tasks fail."""
        self._by_spark(file, corpus, "failing")

    def _by_spark(self, file, corpus, source):
        writer = self.spark.read.parquet(file).repartition(TASKS).write.format(source).mode("append")
        writer.options(endpoint=self.endpoint, corpus=corpus).save()

    def stop(self):
        self.spark.stop()
        ray.shutdown()


def check(corpus, rows):
    """Ends the program unless the corpus has every row once."""
    stored = [each.id for each in corpus.documents()]
    expected = rows["id"].to_pylist()
    assert sorted(stored) == sorted(expected), f"{len(stored)} documents instead of {len(expected)}"
    for n in random.Random(7).sample(range(rows.num_rows), min(100, rows.num_rows)):
        assert corpus.document(expected[n]).text == rows["text"][n].as_py(), expected[n]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--small", action="store_true", help="a made-up model of one layer")
    given = parser.parse_args()
    count, model = given.rows, given.model
    with tempfile.TemporaryDirectory() as folder:
        if given.small:
            small_model(Path(folder, "model"), model)
            model = Path(folder, "model")
        rows, file, few = table(count), f"{folder}/rows.parquet", f"{folder}/few.parquet"
        pyarrow.parquet.write_table(rows, file, row_group_size=max(1, count // TASKS))
        pyarrow.parquet.write_table(rows.slice(0, 100), few)
        server = Server(folder, model)
        since = time.perf_counter()
        engines = Engines(server.endpoint, folder)
        try:
            with clew.Client(server.endpoint) as client:
                client.create_corpus("warm", structure=None)
                engines.by_ray(few, "warm")
                engines.by_spark(few, "warm")
                print(f"Ray and Spark are warm after {time.perf_counter() - since:.1f} s")
                ways = {
                    "clew ingest": engines.by_clew_ingest,
                    "Ray": engines.by_ray,
                    "Ray, tasks fail": engines.by_failing_ray,
                    "Spark": engines.by_spark,
                    "Spark, tasks fail": engines.by_failing_spark,
                }
                base = None
                for number, (way, write) in enumerate(ways.items()):
                    corpus = client.create_corpus(f"rows-{number}", structure=None)
                    since = time.perf_counter()
                    write(file, corpus.name)
                    acknowledged = time.perf_counter() - since
                    corpus.wait_until_indexed(timeout=PATIENCE)
                    searchable = time.perf_counter() - since
                    check(corpus, rows)
                    base = base or (acknowledged, searchable)
                    ratios = f"{acknowledged / base[0]:.2f}, {searchable / base[1]:.2f}"
                    times = f"acknowledged after {acknowledged:.1f} s, searchable after {searchable:.1f} s"
                    print(f"{way}: {count} rows {times}; ratios {ratios}", flush=True)
        finally:
            engines.stop()
            server.stop()


if __name__ == "__main__":
    main()
