"""Spark writes into a server: batches and streams, with tasks that die, twins and late ones."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
from conftest import Server
from docstrings import run_examples
from engines import (
    example,
    guarded,
    page,
    texts,
    texts_of,
    versions,
    wait_until_something_is_stored,
)
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, datasource
from pyspark.sql.types import StructType

import clew
import clew.spark

PAGES = [page(number, "today", 2) for number in range(40)]
YESTERDAY = [page(number, "yesterday", 1) for number in range(40)]
SCHEMA = "id string, text string, updated long"
STREAMS = hasattr(datasource, "DataSourceStreamArrowWriter")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Two tasks at once, each of which may be tried four times.
    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    session.dataSource.register(clew.spark.ClewDataSource)
    # Workers have no module of this name.
    cloudpickle.register_pickle_by_value(sys.modules["engines"])  # type: ignore[no-untyped-call]
    yield session
    session.stop()


def rows(spark: SparkSession, *of: dict[str, Any], partitions: int = 1) -> DataFrame:
    """Returns a frame with rows in their order, in partitions of the same size."""
    values = [(row["id"], row["text"], row["updated"]) for row in of]
    return spark.createDataFrame(spark.sparkContext.parallelize(values, partitions), SCHEMA)


def options(server: Server, corpus: clew.Corpus, others: dict[str, str] | None = None) -> Any:
    to = {"endpoint": server.endpoint, "corpus": corpus.name, "version_column": "updated"}
    return to | (others or {})


def write(frame: DataFrame, options: dict[str, str], mode: str = "append") -> None:
    frame.write.format("clew").mode(mode).options(**options).save()


def test_rows_become_documents(spark: SparkSession, server: Server, corpus: clew.Corpus) -> None:
    frame = spark.sql(
        "select 7 id, 'Seven.' text, 3L updated, 'Seven' title, 'en' lang, map('a', 1) draft, "
        "timestamp '2026-03-04 05:06:07+01:00' event_time, cast(1.50 as decimal(5, 2)) price"
    )
    write(frame, options(server, corpus, {"ignored_columns": "draft"}))
    corpus.wait_until_indexed(timeout=60)
    stored = corpus.document("7")
    assert (stored.text, stored.title) == ("Seven.", "Seven")
    assert stored.attributes == {"lang": "en", "price": 1.5}
    assert stored.state.source_version == 3
    assert stored.event_time is not None
    assert stored.event_time.isoformat() == "2026-03-04T04:06:07+00:00"


def test_a_task_that_dies_is_repeated(
    spark: SparkSession, server: Server, corpus: clew.Corpus, tmp_path: pathlib.Path
) -> None:
    marker = tmp_path / "died"

    class DyingOnce(clew.spark.ClewDataSource):
        """Its first task is killed when a part of its partition is stored."""

        def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceArrowWriter:
            return DyingWriter(super().writer(schema, overwrite), self.options)

    class DyingWriter(datasource.DataSourceArrowWriter):
        def __init__(self, inner: Any, options: Any) -> None:
            self.inner = inner
            self.place = (options["endpoint"], options["corpus"])

        def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
            return self.inner.write(iterator if marker.exists() else self.dying(iterator))

        def dying(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield next(batches).slice(0, 5)
            marker.write_text(json.dumps(wait_until_something_is_stored(*self.place)))
            os.kill(os.getpid(), signal.SIGKILL)

        def commit(self, messages: Any) -> None:
            self.inner.commit(messages)

    spark.dataSource.register(DyingOnce)
    try:
        write(rows(spark, *PAGES), options(server, corpus))
    finally:
        spark.dataSource.register(clew.spark.ClewDataSource)
    assert texts(corpus) == texts_of(PAGES)
    # What the dead task stored was found unchanged.
    before = json.loads(marker.read_text())
    assert before
    assert before.items() <= versions(corpus).items()


def test_twins_store_every_document_once(
    spark: SparkSession, server: Server, corpus: clew.Corpus
) -> None:
    write(rows(spark, *PAGES, *PAGES, partitions=2), options(server, corpus))
    assert texts(corpus) == texts_of(PAGES)
    assert sum(1 for _ in corpus.documents()) == len(PAGES)


def test_a_late_task_brings_nothing_back(
    spark: SparkSession, server: Server, corpus: clew.Corpus
) -> None:
    write(rows(spark, *PAGES), options(server, corpus))
    before = versions(corpus)
    write(rows(spark, *YESTERDAY), options(server, corpus))
    assert versions(corpus) == before
    assert texts(corpus) == texts_of(PAGES)


def test_of_two_versions_at_once_the_newest_is_kept(
    spark: SparkSession, server: Server, corpus: clew.Corpus
) -> None:
    write(rows(spark, *PAGES, *YESTERDAY, partitions=2), options(server, corpus))
    assert texts(corpus) == texts_of(PAGES)


def test_refused_rows_fail_the_write_after_the_others_are_stored(
    spark: SparkSession, server: Server, corpus: clew.Corpus
) -> None:
    mixed = rows(spark, *PAGES[:2], {"id": "empty", "text": None, "updated": 1})
    with pytest.raises(Exception, match="1 of 3 documents were refused, the first `empty`"):
        write(mixed, options(server, corpus))
    assert texts(corpus) == texts_of(PAGES[:2])
    write(mixed, options(server, corpus, {"allow_refused": "true"}))


@pytest.mark.parametrize(
    ("others", "mode", "message"),
    [
        ({"title_column": "heading"}, "append", "`heading`: expected a column of this name"),
        ({"corpus": ""}, "append", "expected the name of a corpus as option"),
        ({"corpse": "x"}, "append", "`corpse`: expected one of the options endpoint, corpus"),
        ({"api_key": "clew_x"}, "append", "see `with_api_key`"),
        ({"allow_refused": "yes"}, "append", "expected `true` or `false`, got `yes`"),
        ({}, "overwrite", "expected `append`"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_sent(
    spark: SparkSession,
    server: Server,
    corpus: clew.Corpus,
    others: dict[str, str],
    mode: str,
    message: str,
) -> None:
    with pytest.raises(Exception, match=message):
        write(rows(spark, *PAGES), options(server, corpus, others), mode)
    assert not any(corpus.documents())


def test_columns_of_other_types_are_named(
    spark: SparkSession, server: Server, corpus: clew.Corpus
) -> None:
    frame = spark.sql("select 'a' id, 'A.' text, '1' updated, array(1.5) vector, map() of")
    with pytest.raises(Exception, match="`updated`: expected a column of integers") as failed:
        write(frame, options(server, corpus))
    assert "`vector`: expected a column of scalars" in str(failed.value)
    assert "`of`: expected a column of scalars" in str(failed.value)


def test_the_key_reaches_the_tasks_and_is_not_shown(
    spark: SparkSession, serve: Callable[..., Server], tmp_path: pathlib.Path, name: str
) -> None:
    endpoint, key = guarded(serve, tmp_path)
    with clew.Client(endpoint, api_key=key) as client:
        client.create_corpus(name, structure=None)
        with_key = clew.spark.ClewDataSource.with_api_key(key)
        assert key not in repr(with_key)
        spark.dataSource.register(with_key)
        try:
            frame = spark.createDataFrame([("a", "Secret.")], "id string, text string")
            write(frame, {"endpoint": endpoint, "corpus": name})
        finally:
            spark.dataSource.register(clew.spark.ClewDataSource)
        assert [each.id for each in client.corpus(name).documents()] == ["a"]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder that a stream reads, with the pages of today."""
    folder = tmp_path / "pages"
    folder.mkdir()
    put(folder / "today.json", PAGES)
    return folder


def put(file: pathlib.Path, of: list[dict[str, Any]]) -> None:
    # A stream must not find half a file.
    whole = file.with_name(f".{file.name}")
    whole.write_text("".join(f"{json.dumps(row)}\n" for row in of))
    whole.rename(file)


@pytest.mark.usefixtures("spark")
@pytest.mark.skipif(not STREAMS, reason="needs Spark 4.1")
def test_a_stream_that_begins_anew_or_comes_late_changes_nothing(
    server: Server,
    client: clew.Client,
    name: str,
    folder: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    corpus = client.create_corpus(name, structure=None)
    run, checkpoints = example("spark_stream.py")["write"], tmp_path / "checkpoints"
    run(server.endpoint, name, str(folder), str(checkpoints))
    assert texts(corpus) == texts_of(PAGES)
    before = versions(corpus)
    put(folder / "late.json", YESTERDAY)
    run(server.endpoint, name, str(folder), str(checkpoints))
    shutil.rmtree(checkpoints)
    run(server.endpoint, name, str(folder), str(checkpoints))
    assert versions(corpus) == before
    newer = [page(1, "tomorrow", 3)]
    put(folder / "tomorrow.json", newer)
    run(server.endpoint, name, str(folder), str(checkpoints))
    assert texts(corpus) == texts_of(PAGES) | texts_of(newer)


@pytest.mark.skipif(not STREAMS, reason="needs Spark 4.1")
def test_refused_rows_fail_a_stream(
    spark: SparkSession,
    server: Server,
    corpus: clew.Corpus,
    folder: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    put(folder / "empty.json", [{"id": "empty", "text": "", "updated": 1}])
    stream = spark.readStream.schema(SCHEMA).json(str(folder)).writeStream.format("clew")
    once = stream.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    with pytest.raises(Exception, match="1 of 41 documents were refused"):
        once.options(**options(server, corpus)).start().awaitTermination()
    tolerant = options(server, corpus, {"allow_refused": "true"})
    once.options(**tolerant).start().awaitTermination()
    assert texts(corpus) == texts_of(PAGES)


@pytest.mark.skipif(STREAMS, reason="Spark has writers of streams")
def test_an_old_spark_writes_streams_batch_by_batch(
    spark: SparkSession,
    server: Server,
    corpus: clew.Corpus,
    folder: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    to = options(server, corpus)
    stream = spark.readStream.schema(SCHEMA).json(str(folder)).writeStream
    once = stream.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    with pytest.raises(Exception, match=r"needs Spark 4\.1; before that, write each batch"):
        once.format("clew").options(**to).start().awaitTermination()
    stream = spark.readStream.schema(SCHEMA).json(str(folder)).writeStream
    once = stream.option("checkpointLocation", str(tmp_path / "other")).trigger(availableNow=True)
    once.foreachBatch(lambda batch, _: write(batch, to)).start().awaitTermination()
    assert texts(corpus) == texts_of(PAGES)


def test_the_example_runs(
    spark: SparkSession, server: Server, client: clew.Client, name: str, tmp_path: pathlib.Path
) -> None:
    rows(spark, *PAGES).write.parquet(str(tmp_path / "pages"))
    example("spark_pages.py")["write"](server.endpoint, name, str(tmp_path / "pages"))
    assert texts(client.corpus(name)) == texts_of(PAGES)


@pytest.mark.usefixtures("spark")
def test_the_example_of_the_module_runs(server: Server, client: clew.Client) -> None:
    run_examples(server.endpoint, clew.spark)
    assert texts(client.corpus("pets")) == {"cat": "The cat is called Xqvzkwjb."}
