"""Writes datasets of Ray Data into a corpus.

    import clew
    import ray
    from clew.ray import ClewDatasink

    clew.Client("http://127.0.0.1:7421").create_corpus("pets", exist_ok=True)
    pets = ray.data.from_items([{"id": "cat", "text": "The cat is called Xqvzkwjb.", "updated": 1}])
    pets.write_datasink(ClewDatasink("http://127.0.0.1:7421", "pets", version_column="updated"))

Delivery is at least once, and exactly once in effect: a task that is retried, or runs twice, sends
content that is stored already, which changes nothing. With a version column, a task that writes
late does not bring an older state back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

try:
    import pyarrow as pa
    from ray.data.block import Block, BlockAccessor
    from ray.data.datasource import Datasink, WriteResult
except ImportError as error:
    raise ImportError("`clew.ray` needs Ray Data: pip install 'clew-memory[ray]'") from error

from clew import _rows
from clew._connection import Pathlike
from clew._sync.client import Client
from clew._values.ingestion import IngestReport

if TYPE_CHECKING:
    from ray.data._internal.execution.interfaces import TaskContext

__all__ = ["ClewDatasink"]


class ClewDatasink(Datasink[IngestReport]):
    """Writes the rows of a dataset as documents of a corpus, which must exist.

    Each task sends its blocks on one stream and ends once the server has acknowledged every row, so
    documents with one id are stored in the order of the block. A task holds the blocks that Ray
    gives to it, and at most 2048 documents, or 16 MiB of texts, that are not acknowledged.

    Columns that have no meaning become attributes. A task checks the columns before it sends
    anything. Indexing follows the writing: see `Corpus.wait_until_indexed`.
    """

    def __init__(
        self,
        endpoint: str | None,
        corpus: str,
        *,
        id_column: str = "id",
        text_column: str = "text",
        title_column: str = "title",
        media_type_column: str = "media_type",
        event_time_column: str = "event_time",
        labels_column: str = "labels",
        version_column: str = "source_version",
        ignored_columns: Iterable[str] = (),
        allow_refused: bool = False,
        api_key: str | None = None,
        ca: Pathlike | None = None,
        client_certificate: Pathlike | None = None,
        client_key: Pathlike | None = None,
    ) -> None:
        """Prepares the writing. Calls nobody.

        The API key and the certificates are read here, from the arguments or else the variables
        that `clew.Client` reads, and travel to the tasks. The key is not shown with the datasink.

        Args:
            endpoint: Address of the server, as the tasks reach it. `None` means `CLEW_ENDPOINT`.
            corpus: Name of the corpus.
            id_column: Column with the id: texts or integers. Required.
            text_column: Column with the text. Required.
            title_column: Column with the title. Like all that follow, it may be absent unless it is
                named here.
            media_type_column: Column with the format of the text: `text/plain`, the default, or
                `text/markdown`.
            event_time_column: Column with the time of what the text describes: times, in UTC if
                they have no zone, or dates.
            labels_column: Column with access labels: lists of texts, or texts with commas.
            version_column: Column with the number by which the source orders the states of a
                document, such as a time of modification in milliseconds. A document with a lower
                number than the stored one changes nothing.
            ignored_columns: Columns to leave out.
            allow_refused: Whether documents that the server refuses are only counted. Otherwise
                the write fails with `RefusedError` after everything else is stored.
            api_key: API key to show the server.
            ca: File (PEM) with the authority that certifies the server.
            client_certificate: File (PEM) with a certificate to show.
            client_key: File (PEM) with the private key of that certificate.
        """
        client = Client(
            endpoint,
            api_key=api_key,
            ca=ca,
            client_certificate=client_certificate,
            client_key=client_key,
        )
        self._corpus = client.corpus(corpus)
        self._columns = _rows.Columns(
            id=id_column,
            text=text_column,
            title=title_column,
            media_type=media_type_column,
            event_time=event_time_column,
            labels=labels_column,
            version=version_column,
            ignored=tuple(ignored_columns),
        )
        self._allow_refused = allow_refused
        self._report: IngestReport | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._corpus.name!r})"

    @property
    def report(self) -> IngestReport | None:
        """Numbers of the last write that ended. `None` if none has, or if a task failed."""
        return self._report

    def on_write_start(self, schema: pa.Schema | None = None) -> None:  # noqa: ARG002
        """Begins a write. Tasks check the columns: where Ray reads and writes in one task, `schema`
        is not that of the rows but of the list of files.
        """
        self._report = None

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> IngestReport:  # noqa: ARG002
        """Stores the rows of blocks, and returns once each is acknowledged or refused."""
        return _rows.write(self._corpus, _batches(blocks), self._columns)

    def on_write_complete(self, write_result: WriteResult[IngestReport]) -> None:
        """Adds up the numbers of all tasks: see `report`.

        Raises `RefusedError` if documents were refused and that is not allowed.
        """
        self._report = _rows.total(write_result.write_returns)
        if not self._allow_refused:
            self._report.raise_for_refused()


def _batches(blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    for block in blocks:
        table: Any = BlockAccessor.for_block(block).to_arrow()
        yield from table.to_batches()
