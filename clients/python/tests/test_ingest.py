"""Ingestion: results, order, memory, and servers that go away."""

from __future__ import annotations

import os
import pathlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest
from blocking import Kind, connected
from conftest import Server

import clew
from clew._ingestion import PART_BYTES


def documents(count: int) -> Iterator[clew.Document]:
    return (clew.Document(f"{number:06}", f"Number {number}.") for number in range(count))


def test_a_report_counts_what_became_of_documents(any_corpus: clew.Corpus) -> None:
    first = any_corpus.ingest(documents(3))
    assert first == clew.IngestReport(new=3, replaced=0, unchanged=0, refused=0, refusals=())
    results: list[clew.DocumentResult] = []
    changed = [clew.Document("000001", "Another."), clew.Document("new", "New.")]
    second = any_corpus.ingest([*documents(1), *changed], on_result=results.append)
    assert (second.new, second.replaced, second.unchanged, second.documents) == (1, 1, 1, 3)
    assert [(result.id, result.fate) for result in results] == [
        ("000000", "unchanged"),
        ("000001", "replaced"),
        ("new", "new"),
    ]
    assert all(result.version > 0 for result in results)
    second.raise_for_refused()
    assert any_corpus.ingest([]).documents == 0


def test_refused_documents_are_reported_and_do_not_end_it(any_corpus: clew.Corpus) -> None:
    report = any_corpus.ingest(
        [
            clew.Document("empty", " "),
            clew.Document("latin", "Ärger".encode("latin-1")),
            clew.Document("surrogate", "a\ud800"),
            clew.Document("", "No id."),
            clew.Document("fine", "Fine."),
        ]
    )
    assert (report.new, report.refused) == (1, 4)
    assert [result.id for result in report.refusals] == ["empty", "latin", "surrogate", ""]
    fields = [result.refusal.violations[0].field for result in report.refusals if result.refusal]
    assert fields == ["document.text"] * 3 + ["document.id"]
    with pytest.raises(clew.RefusedError, match=r"4 of 5 documents .* `empty`") as raised:
        report.raise_for_refused()
    assert (raised.value.report, raised.value.reason) == (report, "INVALID_INPUT")


def test_an_id_may_come_twice_and_the_last_one_stays(any_corpus: clew.Corpus) -> None:
    texts = [f"Text {number}." for number in range(5)]
    results: list[clew.DocumentResult] = []
    report = any_corpus.ingest(
        [{"id": "same", "text": text} for text in texts], on_result=results.append, wait=True
    )
    assert (report.new, report.replaced, report.refused) == (1, 4, 0)
    versions = [result.version for result in results]
    assert versions == sorted(versions)
    assert any_corpus.document("same").text == texts[-1]


def test_additions_replace_nothing(any_corpus: clew.Corpus) -> None:
    any_corpus.ingest([clew.Document("a", "First.")])
    report = any_corpus.ingest(
        [clew.Document("a", "Second."), clew.Document("b", "New.")], only_additions=True
    )
    assert (report.new, report.refused) == (1, 1)
    assert report.refusals[0].refusal is not None
    assert report.refusals[0].refusal.reason == "DOCUMENT_EXISTS"
    assert any_corpus.document("a").text == "First."


def test_an_older_state_of_the_source_changes_nothing(any_corpus: clew.Corpus) -> None:
    any_corpus.ingest([clew.Document("a", "Newer.", source_version=2)])
    report = any_corpus.ingest([clew.Document("a", "Older.", source_version=1)])
    assert report.unchanged == 1
    assert any_corpus.document("a").text == "Newer."


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"id": "a"}, "no `text`"),
        ({"id": "a", "text": "x", "metadata": {}}, "unknown `metadata`"),
        ("a", "got str"),
        (clew.Document("a", None), "got `Document"),  # type: ignore[arg-type]
        (clew.Document("a", "x", attributes={"b": None}), r"document\.attributes\.b"),  # type: ignore[dict-item]
        (clew.Document("a", "x", attributes={"b": "y" * (3 << 20)}), "2097152 bytes"),
    ],
)
def test_what_is_no_document_raises(any_corpus: clew.Corpus, document: Any, expected: str) -> None:
    with pytest.raises(clew.InvalidArgumentError, match=expected):
        any_corpus.ingest([document])


@pytest.mark.parametrize("error", [RuntimeError, clew.UnavailableError])
def test_errors_of_the_source_and_of_the_callback_are_passed_on(
    any_corpus: clew.Corpus, error: type[Exception]
) -> None:
    def source() -> Iterator[clew.Document]:
        yield clew.Document("a", "Text.")
        raise error("the source is broken")

    with pytest.raises(error, match="the source is broken"):
        any_corpus.ingest(source())

    def fail(result: clew.DocumentResult) -> None:
        raise error(f"nobody wants {result.id}")

    with pytest.raises(error, match="nobody wants 000000"):
        any_corpus.ingest(documents(3), on_result=fail)


async def _counted(count: int) -> AsyncIterator[Mapping[str, Any]]:
    for number in range(count):
        yield {"id": str(number), "text": f"Number {number}."}


def test_an_asynchronous_source_is_read(server: Server, name: str) -> None:
    with connected("aio", server.endpoint) as client:
        corpus = client.create_corpus(name, structure=None)
        report = corpus.ingest(_counted(2000))  # type: ignore[arg-type]
        assert report.new == 2000


@pytest.fixture(scope="module")
def large(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server that takes documents of 32 MiB."""
    config = tmp_path_factory.mktemp("config") / "clew.toml"
    config.write_text("[gateway]\nmax_document_bytes = 33_554_432\n", "utf-8")
    return serve("--config", str(config))


@pytest.mark.parametrize(("kind", "parts"), [("sync", 20), ("aio", 3)])
def test_long_texts_go_in_parts_and_come_back(
    large: Server, name: str, kind: Kind, parts: int
) -> None:
    with connected(kind, large.endpoint) as client:
        corpus = client.create_corpus(name, structure=None)
        # Parts end within characters.
        texts = {
            "exact": "x" * PART_BYTES,
            "more": "x" * (PART_BYTES + 1),
            "long": "Die Äpfel und 日本語.\n" * (parts * PART_BYTES // 24),
        }
        assert len(texts["long"].encode()) > parts * PART_BYTES
        report = corpus.ingest({"id": id, "text": text} for id, text in texts.items())
        report.raise_for_refused()
        for id, text in texts.items():
            assert corpus.document(id).text == text
        # Nobody waits until it is indexed.
        corpus.delete()


def _resident_bytes() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="there is no /proc")
@pytest.mark.parametrize(("kind", "count"), [("sync", 100_000), ("aio", 30_000)])
def test_memory_does_not_grow_with_the_number_of_documents(
    server: Server, name: str, kind: Kind, count: int
) -> None:
    warm = 15_000
    before = 0

    def source() -> Iterator[clew.Document]:
        nonlocal before
        for number in range(count):
            if number == warm:
                before = _resident_bytes()
            # The server refuses a document without text at once, so that the test is quick.
            yield clew.Document(f"{number:06}", " ")

    with connected(kind, server.endpoint) as client:
        corpus = client.create_corpus(name, structure=None)
        report = corpus.ingest(source())
        grown = _resident_bytes() - before
    assert (report.refused, len(report.refusals)) == (count, 1000)
    # Documents that were kept would take more than 500 bytes each.
    assert grown < 100 * (count - warm)


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_killed_server_stores_every_document_once(
    serve: Callable[..., Server], name: str, kind: Kind
) -> None:
    server = serve()
    killed = 0
    restarts: list[threading.Thread] = []

    def restart() -> None:
        server.kill()
        server.start()

    def on_result(result: clew.DocumentResult) -> None:
        nonlocal killed
        if int(result.id) in (700, 2500):
            killed += 1
            restarts.append(threading.Thread(target=restart))
            restarts[-1].start()

    with connected(kind, server.endpoint) as client:
        corpus = client.create_corpus(name, shards=2, structure=None)
        report = corpus.ingest(documents(4000), on_result=on_result)
        for thread in restarts:
            thread.join()
        assert (killed, report.documents, report.refused) == (2, 4000, 0)
        described = corpus.describe()
        assert described.counts is not None
        assert described.counts.documents == 4000
        assert corpus.document("003999").text == "Number 3999."
    server.stop()


@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_a_server_that_stays_away_ends_the_patience(
    serve: Callable[..., Server], name: str, kind: Kind
) -> None:
    server = serve()
    with connected(kind, server.endpoint) as client:
        corpus = client.create_corpus(name, structure=None)
        begun = time.monotonic()
        with pytest.raises(clew.UnavailableError, match="took nothing for 1 s") as raised:
            corpus.ingest(documents(2000), on_result=lambda _: server.kill(), patience=1.0)
        assert raised.value.is_retryable
        assert time.monotonic() - begun < 20
