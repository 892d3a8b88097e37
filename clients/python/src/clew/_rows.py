"""Documents from rows in memory, for the data engines.

Columns have the names and meanings that `clew ingest` gives them, so that both make the same
documents of one table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from clew._errors import InvalidArgumentError, Violation
from clew._sync.corpus import Corpus
from clew._values.attribute import Value
from clew._values.document import Document
from clew._values.ingestion import IngestReport

# Rows that are converted at a time. Bounds the memory that long texts take.
_BATCH_ROWS = 128
# Refusals that a report has, as that of one ingestion.
_REFUSALS = 1_000
_TIME = pa.timestamp("us", "UTC")
_INTEGERS = range(-(2**63), 2**63)
_ATTRIBUTE_NAME_BYTES = 64
_ATTRIBUTE_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns with a meaning. Every other column becomes an attribute."""

    id: str = "id"
    """Id of the document: a text or an integer. Required."""
    text: str = "text"
    """Text of the document. Required."""
    title: str = "title"
    """Title."""
    media_type: str = "media_type"
    """Format of the text: `text/plain`, the default, or `text/markdown`."""
    event_time: str = "event_time"
    """Time of the events that the text describes: a time, in UTC if it has no zone, or a date."""
    labels: str = "labels"
    """Access labels: a list of texts, or one text with commas."""
    version: str = "source_version"
    """Number by which the source orders the states of a document: an integer from 0 on."""
    ignored: tuple[str, ...] = ()
    """Columns to leave out."""

    def check(self, schema: pa.Schema) -> None:
        """Checks that documents can be made of a table.

        Raises `InvalidArgumentError` with a violation for each column that is missing or of a type
        for which a document has no place.
        """
        violations = [*self._missing(schema), *self._unusable(schema)]
        if violations:
            raise InvalidArgumentError(
                "the columns of the table do not make documents",
                reason="INVALID_INPUT",
                code="INVALID_ARGUMENT",
                violations=tuple(violations),
            )

    def _missing(self, schema: pa.Schema) -> Iterator[Violation]:
        usual = Columns()
        for role in ("id", "text", "title", "media_type", "event_time", "labels", "version"):
            name = getattr(self, role)
            # An optional column that the caller named is expected as much as a required one.
            is_required = role in ("id", "text") or name != getattr(usual, role)
            if is_required and name not in schema.names:
                got = ", ".join(f"`{each}`" for each in schema.names) or "none"
                yield Violation(name, f"expected a column of this name with the {role}, got {got}")
        for name in self.ignored:
            if name not in schema.names:
                yield Violation(name, "expected a column of this name to leave out, got none")

    def _unusable(self, schema: pa.Schema) -> Iterator[Violation]:
        for name in sorted({name for name in schema.names if schema.names.count(name) > 1}):
            yield Violation(name, "expected one column of this name, got several")
        for field in schema:
            kind = _plain(field.type)
            if field.name not in self.ignored and not pa.types.is_null(kind):
                misfit = self._misfit(field.name, kind)
                if misfit:
                    expected, advice = misfit
                    description = f"expected a column of {expected}, got {field.type}{advice}"
                    yield Violation(field.name, description)

    def _misfit(self, name: str, kind: pa.DataType) -> tuple[str, str] | None:
        """Returns what a column ought to hold and what to do about it, or `None` if it fits."""
        is_text = _is_text(kind)
        is_time = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        if name == self.id:
            return None if is_text or _is_integer(kind) else ("texts or integers", "")
        if name in (self.text, self.title, self.media_type):
            return None if is_text else ("texts", "")
        if name == self.event_time:
            return None if is_time else ("times or dates", "; cast it before it is written")
        if name == self.labels:
            is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
            fits = is_text or (is_list and _is_text(_plain(kind.value_type)))
            return None if fits else ("texts or lists of texts", "")
        if name == self.version:
            return None if _is_integer(kind) else ("integers", "; cast it before it is written")
        if not 0 < len(name) <= _ATTRIBUTE_NAME_BYTES or not _ATTRIBUTE_NAME.issuperset(name):
            signs = f"1 to {_ATTRIBUTE_NAME_BYTES} of A-Z, a-z, 0-9, `_`, `.`, `-`"
            return (f"a name for attributes ({signs})", "; rename it or have it ignored")
        fits = is_text or is_time or _is_number(kind)
        return None if fits else ("scalars", "; have it ignored")

    def documents(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Document]:
        """Yields a document for each row. A row without id or text makes a document without, which
        the server refuses.

        Raises `InvalidArgumentError` before the first row of a batch whose columns do not fit.
        """
        checked = None
        for batch in batches:
            if batch.num_rows and batch.schema != checked:
                self.check(batch.schema)
                checked = batch.schema
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                part = batch.slice(start, _BATCH_ROWS)
                values = [_values(column) for column in part.columns]
                for row in zip(*values, strict=True):
                    yield self._document(dict(zip(part.schema.names, row, strict=True)))

    def _document(self, row: dict[str, Any]) -> Document:
        for name in self.ignored:
            del row[name]
        id, labels = row.pop(self.id), row.pop(self.labels, None)
        if isinstance(labels, str):
            labels = [label.strip() for label in labels.split(",") if label.strip()]
        document = {
            "id": "" if id is None else str(id),
            "text": row.pop(self.text) or "",
            "title": row.pop(self.title, None) or "",
            "media_type": row.pop(self.media_type, None) or "text/plain",
            "event_time": _time(row.pop(self.event_time, None)),
            "labels": tuple(label for label in labels or () if label is not None),
            "source_version": row.pop(self.version, None),
        }
        return Document(**document, attributes=_attributes(row))


def write(corpus: Corpus, batches: Iterable[pa.RecordBatch], columns: Columns) -> IngestReport:
    """Stores the rows of a table. Returns once each is acknowledged or refused."""
    return corpus.ingest(columns.documents(batches))


def total(reports: Iterable[IngestReport]) -> IngestReport:
    """Returns the report of several ingestions together."""
    new = replaced = unchanged = refused = 0
    refusals: list[Any] = []
    for report in reports:
        new += report.new
        replaced += report.replaced
        unchanged += report.unchanged
        refused += report.refused
        refusals += report.refusals[: _REFUSALS - len(refusals)]
    return IngestReport(new, replaced, unchanged, refused, tuple(refusals))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values of a dictionary, and any other type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
    )


def _values(column: pa.Array) -> list[Any]:
    """Returns the values of a column. Times are those of the server: microseconds, in UTC."""
    if pa.types.is_timestamp(column.type):
        # Cuts nanoseconds off, which Python's times do not have.
        column = column.cast(_TIME, safe=False)
    values: list[Any] = column.to_pylist()
    return values


def _time(value: date | None) -> datetime | None:
    """Returns a time. A date is its midnight in UTC."""
    if value is None or isinstance(value, datetime):
        return value
    return datetime.combine(value, time(), timezone.utc)


def _attributes(row: Mapping[str, Any]) -> dict[str, Value]:
    return {name: _attribute(value) for name, value in row.items() if value is not None}


def _attribute(value: Any) -> Value:
    """Returns the attribute that `clew ingest` makes of a value."""
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value).replace("nan", "NaN")
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat()
        return (text.rstrip("0") if value.microsecond else text) + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int) and value not in _INTEGERS:
        return str(value)
    # Texts, truth values and integers of 64 bits.
    return value  # type: ignore[no-any-return]
