"""Documents that are made of rows: the same as `clew ingest` makes, whatever the types."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet
from conftest import MODEL, PROGRAM, Server

import clew
from clew._rows import Columns, total, write

TIME = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=timezone.utc)


def documents(table: pa.Table, columns: Columns | None = None) -> list[clew.Document]:
    return list((columns or Columns()).documents(table.to_batches()))


def table(**columns: Any) -> pa.Table:
    return pa.table({"id": ["a"], "text": ["A."]} | columns)


def test_what_clew_ingest_stored_of_the_same_file_is_unchanged(
    server: Server, corpus: clew.Corpus, tmp_path: pathlib.Path
) -> None:
    of_all_types = pa.table(
        {
            "id": ["a", "b", "c"],
            "text": ["A.", "B.", "C."],
            "title": ["Title", None, ""],
            "media_type": [None, "text/markdown", "text/plain"],
            "event_time": pa.array([TIME, None, TIME], pa.timestamp("ns")),
            "labels": [None, "legal, secret", ""],
            "source_version": pa.array([1, None, 2**64 - 1], pa.uint64()),
            "text_attribute": ["x", None, ""],
            "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
            "truth": [True, False, None],
            "small": pa.array([-1, 2, None], pa.int8()),
            "large": pa.array([2**63, 2**63 - 1, 0], pa.uint64()),
            "number": [1.5, float("nan"), float("-inf")],
            "single": pa.array([0.5, None, 2.0], pa.float32()),
            "decimal": [Decimal("1.50"), None, Decimal("-2.25")],
            "day": [date(2026, 3, 4), None, date(1969, 12, 31)],
            "zoned": pa.array([TIME, None, TIME], pa.timestamp("us", "Europe/Berlin")),
            "seconds": pa.array([TIME, None, TIME], pa.timestamp("s")),
        }
    )
    file = tmp_path / "rows.parquet"
    pa.parquet.write_table(of_all_types, file)
    ingest = [PROGRAM, "ingest", "--corpus", corpus.name, "--endpoint", server.endpoint, str(file)]
    subprocess.run([*ingest, "--no-wait"], check=True, env=os.environ | {"CLEW_MODEL_DIR": MODEL})

    batches = pa.parquet.ParquetFile(file).iter_batches(batch_size=2)
    assert write(corpus, batches, Columns()) == clew.IngestReport(0, 0, 3, 0, ())


def test_columns_of_other_names_are_taken() -> None:
    columns = Columns(id="key", text="body", version="offset", ignored=("blob",))
    rows = pa.table({"key": [7], "body": ["A."], "offset": [3], "blob": [b""], "text": ["T"]})
    assert documents(rows, columns) == [
        clew.Document("7", "A.", source_version=3, attributes={"text": "T"})
    ]


def test_labels_are_lists_or_have_commas() -> None:
    in_list = documents(table(labels=pa.array([["legal", None, "secret"]])))
    in_text = documents(table(labels=["legal, secret,"]))
    assert [each.labels for each in in_list + in_text] == [("legal", "secret")] * 2


def test_nothing_makes_no_attribute() -> None:
    [document] = documents(table(nothing=pa.nulls(1), number=pa.array([None], pa.int64())))
    assert document.attributes == {}


def test_a_date_is_an_event_time() -> None:
    [document] = documents(table(event_time=[date(2026, 3, 4)]))
    assert document.event_time == datetime(2026, 3, 4, tzinfo=timezone.utc)


def test_a_row_without_id_or_text_is_refused_and_the_others_are_stored(
    corpus: clew.Corpus,
) -> None:
    rows = pa.table({"id": ["a", None, "c"], "text": [None, "B.", "C."]})
    report = write(corpus, rows.to_batches(), Columns())
    assert (report.new, report.refused) == (1, 2)
    assert [each.id for each in report.refusals] == ["a", ""]


@pytest.mark.parametrize(
    ("columns", "others", "field"),
    [
        ({"title": "heading"}, {}, "heading"),
        ({"version": "updated"}, {"updated": ["1"]}, "updated"),
        ({"ignored": ("absent",)}, {}, "absent"),
        ({}, {"title": [1]}, "title"),
        ({}, {"event_time": ["2026-03-04"]}, "event_time"),
        ({}, {"labels": [[1]]}, "labels"),
        ({}, {"source_version": [1.5]}, "source_version"),
        ({}, {"vector": [[1.0]]}, "vector"),
        ({}, {"bytes": [b"x"]}, "bytes"),
        ({}, {"took": [timedelta(1)]}, "took"),
        ({}, {"a b": [1]}, "a b"),
        ({}, {"é": [1]}, "é"),
        ({}, {"x" * 65: [1]}, "x" * 65),
    ],
)
def test_columns_that_make_no_documents_are_named(
    columns: Mapping[str, Any], others: Mapping[str, Any], field: str
) -> None:
    with pytest.raises(clew.InvalidArgumentError) as refused:
        documents(table(**others), Columns(**columns))
    assert [each.field for each in refused.value.violations] == [field]


def test_every_column_at_fault_is_named_at_once() -> None:
    with pytest.raises(clew.InvalidArgumentError) as refused:
        documents(pa.table({"text": [1], "vector": [[1.0]]}))
    assert [each.field for each in refused.value.violations] == ["id", "text", "vector"]


def test_a_column_that_comes_twice_is_refused() -> None:
    twice = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["id", "text", "text"])
    with pytest.raises(clew.InvalidArgumentError, match="`text`: expected one column"):
        documents(twice)


def test_batches_of_other_columns_are_checked_anew() -> None:
    good, bad = table(), pa.table({"id": ["b"], "body": ["B."]})
    made = Columns().documents([*good.to_batches(), *bad.to_batches()])
    assert next(made).id == "a"
    with pytest.raises(clew.InvalidArgumentError, match="`text`: expected a column"):
        next(made)


def test_empty_batches_may_lack_columns() -> None:
    assert documents(pa.table({})) == []


def test_a_total_has_the_first_refusals_of_all() -> None:
    refusal = clew.DocumentResult("a", "refused", 0, None)
    one = clew.IngestReport(1, 2, 3, 600, (refusal,) * 600)
    assert total([one, one]) == clew.IngestReport(2, 4, 6, 1200, (refusal,) * 1000)
    assert total([]) == clew.IngestReport(0, 0, 0, 0, ())
