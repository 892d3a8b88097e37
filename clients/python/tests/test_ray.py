"""Ray Data writes into a server: with tasks that die, twins, and late ones."""

from __future__ import annotations

import logging
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

pytest.importorskip("ray")
pytest.importorskip("ray.data")

import pyarrow as pa
import pyarrow.parquet
import ray
from conftest import Server
from docstrings import run_examples
from engines import (
    example,
    guarded,
    page,
    texts,
    texts_of,
    wait_until_something_is_stored,
)

import clew
import clew.ray
from clew.ray import ClewDatasink

PAGES = [page(number, "today", 2) for number in range(40)]
YESTERDAY = [page(number, "yesterday", 1) for number in range(40)]


@pytest.fixture(scope="module", autouse=True)
def engine() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    # Workers have no modules of these names.
    for module in (__name__, "engines"):
        ray.cloudpickle.register_pickle_by_value(sys.modules[module])  # type: ignore[no-untyped-call]
    yield
    ray.shutdown()


def rows(*of: dict[str, Any], blocks: int = 1) -> Any:
    """Returns a dataset with rows in their order, in blocks of the same size."""
    size = len(of) // blocks
    tables = [pa.Table.from_pylist(of[start : start + size]) for start in range(0, len(of), size)]
    return ray.data.from_arrow(tables)


def sink_of(server: Server, corpus: clew.Corpus, **arguments: Any) -> ClewDatasink:
    return ClewDatasink(server.endpoint, corpus.name, version_column="updated", **arguments)


def test_rows_become_documents(server: Server, corpus: clew.Corpus) -> None:
    sink = sink_of(server, corpus, ignored_columns=["draft"])
    rows(
        {"id": 7, "text": "Seven.", "updated": 3, "title": "Seven", "lang": "en", "draft": b"1"}
    ).write_datasink(sink)
    assert sink.report == clew.IngestReport(1, 0, 0, 0, ())
    corpus.wait_until_indexed(timeout=60)
    stored = corpus.document("7")
    assert (stored.text, stored.title, stored.attributes) == ("Seven.", "Seven", {"lang": "en"})
    assert stored.state.source_version == 3


class DyingOnce(ClewDatasink):
    """Its first task is killed when a part of its block is stored."""

    def __init__(self, server: Server, corpus: clew.Corpus, marker: pathlib.Path) -> None:
        super().__init__(server.endpoint, corpus.name, version_column="updated")
        self.place = (server.endpoint, corpus.name)
        self.marker = marker

    def write(self, blocks: Iterable[Any], ctx: Any) -> clew.IngestReport:
        if self.marker.exists():
            return super().write(blocks, ctx)
        self.marker.touch()
        return super().write(self.dying(blocks), ctx)

    def dying(self, blocks: Iterable[Any]) -> Iterator[Any]:
        for block in blocks:
            yield block.slice(0, 10)
            wait_until_something_is_stored(*self.place)
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_dies_is_repeated(
    server: Server, corpus: clew.Corpus, tmp_path: pathlib.Path
) -> None:
    sink = DyingOnce(server, corpus, tmp_path / "died")
    rows(*PAGES).write_datasink(sink)
    assert (tmp_path / "died").exists()
    assert sink.report is not None
    # What the dead task stored is found unchanged.
    assert sink.report.unchanged > 0
    assert sink.report.new + sink.report.unchanged == len(PAGES)
    assert texts(corpus) == texts_of(PAGES)


def test_twins_store_every_document_once(server: Server, corpus: clew.Corpus) -> None:
    sink = sink_of(server, corpus)
    rows(*PAGES, *PAGES, blocks=2).write_datasink(sink)
    assert sink.report == clew.IngestReport(len(PAGES), 0, len(PAGES), 0, ())
    assert texts(corpus) == texts_of(PAGES)


def test_a_late_task_brings_nothing_back(server: Server, corpus: clew.Corpus) -> None:
    rows(*PAGES).write_datasink(sink_of(server, corpus))
    late = sink_of(server, corpus)
    rows(*YESTERDAY).write_datasink(late)
    assert late.report == clew.IngestReport(0, 0, len(PAGES), 0, ())
    assert texts(corpus) == texts_of(PAGES)


def test_of_two_versions_at_once_the_newest_is_kept(server: Server, corpus: clew.Corpus) -> None:
    rows(*PAGES, *YESTERDAY, blocks=2).write_datasink(sink_of(server, corpus))
    assert texts(corpus) == texts_of(PAGES)


def test_without_versions_the_last_of_a_block_is_kept(server: Server, corpus: clew.Corpus) -> None:
    sink = ClewDatasink(server.endpoint, corpus.name, ignored_columns=["updated"])
    rows(*PAGES, *YESTERDAY).write_datasink(sink)
    assert texts(corpus) == texts_of(YESTERDAY)


def test_refused_rows_fail_the_write_after_the_others_are_stored(
    server: Server, corpus: clew.Corpus
) -> None:
    mixed = [*PAGES[:2], {"id": "empty", "text": None, "updated": 1}]
    sink = sink_of(server, corpus)
    with pytest.raises(clew.RefusedError, match="1 of 3 documents were refused, the first `empty`"):
        rows(*mixed).write_datasink(sink)
    assert texts(corpus) == texts_of(PAGES[:2])
    counting = sink_of(server, corpus, allow_refused=True)
    rows(*mixed).write_datasink(counting)
    assert counting.report is not None
    assert (counting.report.unchanged, counting.report.refused) == (2, 1)
    assert [each.id for each in counting.report.refusals] == ["empty"]


def test_columns_that_do_not_fit_are_named_before_anything_is_sent(
    server: Server, corpus: clew.Corpus
) -> None:
    sink = sink_of(server, corpus, title_column="heading")
    with pytest.raises(Exception, match="`heading`: expected a column") as failed:
        rows({"id": "a", "text": "A.", "updated": 1, "vector": [1.0]}).write_datasink(sink)
    assert "`vector`: expected a column of scalars" in str(failed.value)
    assert not any(corpus.documents())


def test_the_key_reaches_the_tasks_and_is_not_shown(
    serve: Callable[..., Server],
    tmp_path: pathlib.Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint, key = guarded(serve, tmp_path)
    with clew.Client(endpoint, api_key=key) as client:
        client.create_corpus(name, structure=None)
        # The workers of Ray run already and do not have the variable.
        monkeypatch.setenv("CLEW_API_KEY", key)
        by_variable = ClewDatasink(endpoint, name)
        monkeypatch.delenv("CLEW_API_KEY")
        by_argument = ClewDatasink(endpoint, name, api_key=key)
        for sink, id in ((by_variable, "variable"), (by_argument, "argument")):
            rows({"id": id, "text": "Secret."}).write_datasink(sink)
            assert key not in repr(sink)
            assert key not in repr(vars(sink))
        assert {each.id for each in client.corpus(name).documents()} == {"variable", "argument"}


def test_the_example_runs(
    server: Server, client: clew.Client, name: str, tmp_path: pathlib.Path
) -> None:
    pa.parquet.write_table(pa.Table.from_pylist(PAGES), tmp_path / "pages.parquet")
    example("ray_pages.py")["write"](server.endpoint, name, str(tmp_path))
    assert texts(client.corpus(name)) == texts_of(PAGES)


def test_the_example_of_the_module_runs(server: Server, client: clew.Client) -> None:
    run_examples(server.endpoint, clew.ray)
    assert texts(client.corpus("pets")) == {"cat": "The cat is called Xqvzkwjb."}
