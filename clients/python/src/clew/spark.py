"""Writes data frames and streams of Spark into a corpus.

    import clew
    from clew.spark import ClewDataSource
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(ClewDataSource)
    clew.Client("http://127.0.0.1:7421").create_corpus("pets", exist_ok=True)
    rows = [("cat", "The cat is called Xqvzkwjb.", 1)]
    pets = spark.createDataFrame(rows, ["id", "text", "updated"])
    to = {"endpoint": "http://127.0.0.1:7421", "corpus": "pets", "version_column": "updated"}
    pets.write.format("clew").mode("append").options(**to).save()

Delivery is at least once, and exactly once in effect: a task that is retried, or runs twice, sends
content that is stored already, which changes nothing. With a version column, a task that writes
late does not bring an older state back. So nothing has to be undone if a write is aborted.

Executors need this package as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

try:
    import pyarrow as pa
    from pyspark.sql import datasource, types
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
except ImportError as error:
    raise ImportError("`clew.spark` needs Spark 4: pip install 'clew-memory[spark]'") from error

from clew import _rows
from clew._errors import UnimplementedError, invalid
from clew._sync.client import Client
from clew._sync.corpus import Corpus
from clew._values.ingestion import IngestReport

__all__ = ["ClewCommitMessage", "ClewDataSource"]

_log = logging.getLogger(__name__)

# Names of the options for columns, and the fields of `_rows.Columns` that they set.
_COLUMNS = {
    "id_column": "id",
    "text_column": "text",
    "title_column": "title",
    "media_type_column": "media_type",
    "event_time_column": "event_time",
    "labels_column": "labels",
    "version_column": "version",
}
_OPTIONS = (
    "endpoint",
    "corpus",
    *_COLUMNS,
    "ignored_columns",
    "allow_refused",
    "ca",
    "client_certificate",
    "client_key",
)
# Options that Spark reads itself and passes on, in lower case.
_OPTIONS_OF_SPARK = ("checkpointlocation", "queryname")
# Types of Arrow for those of Spark. What is not among them is no scalar.
_TYPES: Mapping[type[types.DataType], pa.DataType] = {
    types.BinaryType: pa.binary(),
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.DateType: pa.date32(),
    types.DecimalType: pa.decimal128(38),
    types.DoubleType: pa.float64(),
    types.FloatType: pa.float32(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.NullType: pa.null(),
    types.ShortType: pa.int16(),
    types.StringType: pa.string(),
    types.TimestampType: pa.timestamp("us", "UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
}


@dataclass(frozen=True)
class ClewCommitMessage(WriterCommitMessage):
    """Numbers of documents that a task wrote."""

    report: IngestReport
    """What became of the documents of the task."""


class ClewDataSource(DataSource):
    """Data source `clew`, which writes rows as documents of a corpus.

    The corpus must exist. It is written to in the modes `append` of batches, and `append` and
    `update` of streams: a document replaces the one with its id. Each task sends its partition on
    one stream and ends once the server has acknowledged every row, so documents with one id are
    stored in the order of the partition. Columns are checked before anything is sent.

    Options:
        endpoint: Address of the server, as the executors reach it. Default: `CLEW_ENDPOINT` of the
            driver.
        corpus: Name of the corpus. Required.
        id_column: Column with the id: texts or integers. Default: `id`, which is required.
        text_column: Column with the text. Default: `text`, which is required.
        title_column: Column with the title. Default: `title`. Like all that follow, it may be
            absent unless it is named.
        media_type_column: Column with the format of the text: `text/plain`, the default, or
            `text/markdown`. Default: `media_type`.
        event_time_column: Column with the time of what the text describes: timestamps, in UTC if
            they have no zone, or dates. Default: `event_time`.
        labels_column: Column with access labels: arrays of texts, or texts with commas. Default:
            `labels`.
        version_column: Column with the number by which the source orders the states of a document,
            such as an offset in a log. A document with a lower number than the stored one changes
            nothing. Default: `source_version`.
        ignored_columns: Columns to leave out, with commas. Others become attributes.
        allow_refused: Whether documents that the server refuses are only counted: `true` or
            `false`. By default the write fails after everything else is stored. A stream would fail
            again when it is restarted, until the server takes them.
        ca: File (PEM) on the driver with the authority that certifies the server.
        client_certificate: File (PEM) on the driver with a certificate to show.
        client_key: File (PEM) on the driver with the private key of that certificate.

    The API key is no option, because Spark shows options in its plans. It is that of the variable
    `CLEW_API_KEY` in the environment in which the driver was started, or of `with_api_key`.
    """

    _api_key: str | None = None

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return "clew"

    @classmethod
    def with_api_key(cls, api_key: str) -> type[ClewDataSource]:
        """Returns the data source with a key to show the server, to be registered instead."""
        return type(cls.__name__, (cls,), {"_api_key": api_key, "__module__": cls.__module__})

    def writer(self, schema: types.StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns the writer of a batch. Checks options and columns.

        Raises `InvalidArgumentError` if one of them is invalid.
        """
        return _Writer(self._job(schema, overwrite))

    def streamWriter(  # noqa: N802
        self, schema: types.StructType, overwrite: bool
    ) -> datasource.DataSourceStreamWriter:
        """Returns the writer of a stream. Checks options and columns.

        Raises `InvalidArgumentError` if one of them is invalid, and `UnimplementedError` before
        Spark 4.1.
        """
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            raise UnimplementedError(
                "a stream needs Spark 4.1; before that, write each batch of `foreachBatch`",
                reason="SPARK_TOO_OLD",
                code="UNIMPLEMENTED",
            )
        return _stream_writer(self._job(schema, overwrite))

    def _job(self, schema: types.StructType, overwrite: bool) -> _Job:
        given = {name.lower(): value for name, value in self.options.items()}
        for name in given:
            if name not in _OPTIONS and name not in _OPTIONS_OF_SPARK:
                expected = ", ".join(_OPTIONS)
                hint = "; see `with_api_key`" if name == "api_key" else ""
                raise invalid(name, f"expected one of the options {expected}{hint}")
        if overwrite:
            raise invalid("mode", "expected `append`, got another mode: a corpus is not emptied")
        if not given.get("corpus"):
            raise invalid("corpus", "expected the name of a corpus as option, got none")
        allow_refused = given.get("allow_refused", "false").lower()
        if allow_refused not in ("true", "false"):
            raise invalid("allow_refused", f"expected `true` or `false`, got `{allow_refused}`")
        named = {field: given[name] for name, field in _COLUMNS.items() if name in given}
        ignored = (name.strip() for name in given.get("ignored_columns", "").split(","))
        columns = _rows.Columns(**named, ignored=tuple(name for name in ignored if name))
        columns.check(pa.schema([(field.name, _type(field.dataType)) for field in schema.fields]))
        client = Client(
            given.get("endpoint"),
            api_key=self._api_key,
            ca=given.get("ca"),
            client_certificate=given.get("client_certificate"),
            client_key=given.get("client_key"),
        )
        return _Job(client.corpus(given["corpus"]), columns, allow_refused == "true")


@dataclass(frozen=True)
class _Job:
    """What a write does, in tasks and in the driver."""

    corpus: Corpus
    columns: _rows.Columns
    allow_refused: bool

    def write(self, batches: Iterator[pa.RecordBatch]) -> ClewCommitMessage:
        return ClewCommitMessage(_rows.write(self.corpus, batches, self.columns))

    def commit(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        reports = (each.report for each in messages if isinstance(each, ClewCommitMessage))
        report = _rows.total(reports)
        _log.info(
            "wrote into corpus `%s`: %d new, %d replaced, %d unchanged, %d refused",
            self.corpus.name,
            report.new,
            report.replaced,
            report.unchanged,
            report.refused,
        )
        if not self.allow_refused:
            report.raise_for_refused()


class _Writer(DataSourceArrowWriter):
    """Writer of a batch. What an aborted one wrote stays: written again, it is unchanged."""

    def __init__(self, job: _Job) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ClewCommitMessage:
        return self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._job.commit(messages)


def _stream_writer(job: _Job) -> datasource.DataSourceStreamWriter:
    class StreamWriter(datasource.DataSourceStreamArrowWriter):
        """Writer of a stream. What an aborted one wrote stays, as that of a batch."""

        def write(self, iterator: Iterator[pa.RecordBatch]) -> ClewCommitMessage:
            return job.write(iterator)

        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
            job.commit(messages)

    return StreamWriter()


def _type(kind: types.DataType) -> pa.DataType:
    if isinstance(kind, types.ArrayType):
        return pa.list_(_type(kind.elementType))
    return _TYPES.get(type(kind), pa.struct([]))
