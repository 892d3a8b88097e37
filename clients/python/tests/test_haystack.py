"""Haystack over a real server: the retriever by itself and in pipelines."""

from __future__ import annotations

import asyncio
import inspect
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

pytest.importorskip("haystack")

import haystack
from conftest import PROGRAM, Server
from docstrings import run_examples
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.document_stores.types import FilterPolicy
from haystack.errors import FilterError
from haystack.utils import Secret
from haystack.utils.filters import document_matches_filter

import clew
import clew.haystack
from clew.haystack import ClewRetriever

MONDAY = datetime(2024, 5, 20, 10, 0, tzinfo=timezone.utc)
ATTRIBUTES: dict[str, dict[str, clew.Value]] = {
    "cat": {"year": 2024, "kind": "cat", "tame": True, "born": "2024-01-31"},
    "dog": {"year": 2019, "kind": "dog", "tame": False, "weight.kg": 30.5},
    "fish": {"year": 2021, "born": "2021-07-01"},
}
TEXTS = {
    "cat": "The cat is called Xqvzkwjb.",
    "dog": "The dog has no name.",
    "fish": "The fish swims in the pond.",
}


@pytest.fixture
def pets(corpus: clew.Corpus) -> clew.Corpus:
    documents = [
        clew.Document(id, TEXTS[id], title=id, attributes=ATTRIBUTES[id], event_time=MONDAY)
        for id in TEXTS
    ]
    corpus.ingest(documents, wait=True).raise_for_refused()
    return corpus


@pytest.fixture
def retriever(server: Server, pets: clew.Corpus) -> ClewRetriever:
    return ClewRetriever(pets.name, endpoint=server.endpoint)


def both(retriever: ClewRetriever, query: str, **arguments: Any) -> list[Document]:
    """Returns what both kinds of run return, which is the same."""
    found: list[Document] = retriever.run(query, **arguments)["documents"]

    async def run_async() -> dict[str, list[Document]]:
        done: dict[str, list[Document]] = await retriever.run_async(query, **arguments)
        await retriever.close_async()
        return done

    assert asyncio.run(run_async()) == {"documents": found}
    return found


def ids(documents: list[Document]) -> set[str]:
    return {document.meta["document_id"] for document in documents}


def test_a_passage_tells_where_it_comes_from(retriever: ClewRetriever) -> None:
    (found,) = both(retriever, "What is the cat called?", top_k=1)
    assert found.content == TEXTS["cat"]
    assert found.id.startswith("chunk-")
    assert found.score is not None
    assert found.score > 0
    assert found.meta == {
        **ATTRIBUTES["cat"],
        "document_id": "cat",
        "span": [0, len(TEXTS["cat"])],
        "title": "cat",
        "event_time": "2024-05-20T10:00:00+00:00",
    }


def test_a_retriever_has_a_mode(server: Server, pets: clew.Corpus) -> None:
    retriever = ClewRetriever(pets.name, endpoint=server.endpoint, mode="sparse")
    # Only one of them has the word, so a search of words finds no other.
    assert ids(both(retriever, "Xqvzkwjb")) == {"cat"}
    retriever = ClewRetriever("absent", endpoint=server.endpoint)
    with pytest.raises(clew.NotFoundError, match="corpus `absent` does not exist"):
        retriever.run("cat")


FILTERS: list[dict[str, Any]] = [
    {"field": "meta.kind", "operator": "==", "value": "cat"},
    {"field": "kind", "operator": "==", "value": "cat"},
    {"field": "meta.kind", "operator": "!=", "value": "cat"},
    {"field": "meta.tame", "operator": "==", "value": False},
    {"field": "meta.year", "operator": ">", "value": 2021},
    {"field": "meta.year", "operator": ">=", "value": 2021},
    {"field": "meta.year", "operator": "<", "value": 2021},
    {"field": "meta.year", "operator": "<=", "value": 2021.0},
    {"field": "meta.born", "operator": ">", "value": "2022-01-01"},
    {"field": "meta.kind", "operator": "in", "value": ["dog", "bird"]},
    {"field": "meta.kind", "operator": "not in", "value": ["dog", "bird"]},
    {"field": "meta.kind", "operator": "==", "value": None},
    {"field": "meta.kind", "operator": "!=", "value": None},
    {
        "operator": "AND",
        "conditions": [
            {"field": "meta.year", "operator": ">=", "value": 2020},
            {"field": "meta.kind", "operator": "!=", "value": None},
        ],
    },
    {
        "operator": "OR",
        "conditions": [
            {"field": "meta.kind", "operator": "==", "value": "dog"},
            {"field": "meta.born", "operator": "<", "value": "2022-01-01"},
        ],
    },
    {
        "operator": "NOT",
        "conditions": [
            {"field": "meta.year", "operator": ">=", "value": 2020},
            {
                "operator": "OR",
                "conditions": [
                    {"field": "meta.kind", "operator": "==", "value": "cat"},
                    {"field": "meta.kind", "operator": "==", "value": "dog"},
                ],
            },
        ],
    },
]


@pytest.fixture(scope="module")
def module_pets(server: Server) -> str:
    """A corpus for tests that only read."""
    with clew.Client(server.endpoint) as client:
        corpus = client.create_corpus("haystack-filters", structure=None)
        documents = [clew.Document(id, TEXTS[id], attributes=ATTRIBUTES[id]) for id in TEXTS]
        corpus.ingest(documents, wait=True).raise_for_refused()
    return corpus.name


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_admit_what_haystack_itself_admits(
    server: Server, module_pets: str, filters: dict[str, Any]
) -> None:
    documents = {id: Document(id=id, meta=dict(ATTRIBUTES[id])) for id in TEXTS}
    expected = {id for id, each in documents.items() if document_matches_filter(filters, each)}
    assert 0 < len(expected) < len(TEXTS), "the filter tells them apart"
    retriever = ClewRetriever(module_pets, endpoint=server.endpoint)
    assert ids(retriever.run("a pet", filters=filters)["documents"]) == expected


def test_a_name_with_dots_is_one_attribute(server: Server, module_pets: str) -> None:
    filters = {"field": "meta.weight.kg", "operator": ">", "value": 30}
    retriever = ClewRetriever(module_pets, endpoint=server.endpoint, filters=filters)
    assert ids(both(retriever, "a pet")) == {"dog"}


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ({"field": "meta.a", "operator": "contains", "value": "x"}, "got `contains`"),
        ({"field": "content", "operator": "==", "value": "x"}, "got `content`"),
        ({"field": "id", "operator": "==", "value": "x"}, "got `id`"),
        ({"field": "meta.a", "operator": ">", "value": None}, "got `None`"),
        ({"field": "meta.a", "operator": ">", "value": ["x"]}, r"got `\['x'\]`"),
        ({"field": "meta.a", "operator": "==", "value": MONDAY}, "a truth value for `meta.a`"),
        ({"field": "meta.a", "operator": "in", "value": "x"}, "a list of texts"),
        ({"field": "meta.a", "operator": "in", "value": []}, "a list of texts"),
        ({"field": "meta.a", "operator": "=="}, "expected `value` in the filter"),
        ({"field": "meta.a", "value": "x"}, "expected `operator` in the filter"),
        ({"operator": "AND"}, "expected `conditions` in the filter"),
        ({"operator": "AND", "conditions": []}, "for the operator `AND`, got none"),
        ({"operator": "XOR", "conditions": [{}]}, "got `XOR`"),
        ({"operator": "AND", "conditions": ["x"]}, "as a dictionary, got str"),
    ],
)
def test_what_clew_cannot_filter_by_is_named(filters: dict[str, Any], problem: str) -> None:
    with pytest.raises(FilterError, match=problem):
        ClewRetriever("notes", filters=filters)
    with pytest.raises(FilterError, match=problem):
        ClewRetriever("notes", endpoint="http://127.0.0.1:1").run("x", filters=filters)


def test_filters_of_a_run_replace_or_narrow(server: Server, module_pets: str) -> None:
    recent = {"field": "meta.year", "operator": ">=", "value": 2020}
    kind = {"field": "meta.kind", "operator": "!=", "value": "cat"}
    for policy, expected in (
        (FilterPolicy.REPLACE, {"dog", "fish"}),
        (FilterPolicy.MERGE, {"fish"}),
    ):
        retriever = ClewRetriever(
            module_pets, endpoint=server.endpoint, filters=recent, filter_policy=policy
        )
        assert ids(both(retriever, "a pet")) == {"cat", "fish"}
        assert ids(both(retriever, "a pet", filters=kind)) == expected


@pytest.fixture(scope="module")
def guarded(
    serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """The address of a server that asks for a key, and the key."""
    folder = tmp_path_factory.mktemp("keys")
    command = [PROGRAM, "key", "pipeline", "--tenant", "acme", "--scope", "read,write,admin"]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    key, _, entry = made.partition("\n")
    keys, config = folder / "keys.toml", folder / "clew.toml"
    keys.write_text(f'{entry[entry.index("[[key]]") :]}\n[[tenant]]\nname = "acme"\n', "utf-8")
    config.write_text(f'[auth]\nkeys_file = "{keys}"\n', "utf-8")
    return serve("--config", str(config)).endpoint, key.strip()


def pipeline_of(retriever: ClewRetriever) -> Pipeline:
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    template = "{% for found in documents %}{{ found.content }}{% endfor %} {{ query }}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables=["documents"]))
    pipeline.connect("retriever.documents", "prompt.documents")
    return pipeline


def load(saved: str) -> Pipeline:
    # Haystack 2 has no such argument, and imports whatever a saved pipeline names.
    if "allowed_modules" in inspect.signature(Pipeline.loads).parameters:
        return Pipeline.loads(saved, allowed_modules=["clew.haystack"])
    return Pipeline.loads(saved)


def test_a_pipeline_is_saved_and_loaded_without_the_key(
    guarded: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, key = guarded
    with clew.Client(endpoint, api_key=key) as client:
        corpus = client.create_corpus("pets", structure=None)
        documents = [clew.Document(id, TEXTS[id], attributes=ATTRIBUTES[id]) for id in TEXTS]
        corpus.ingest(documents, wait=True).raise_for_refused()
    retriever = ClewRetriever(
        "pets",
        endpoint=endpoint,
        api_key=Secret.from_env_var("KEY_OF_CLEW"),
        top_k=1,
        mode="dense",
        filters={"field": "meta.year", "operator": ">=", "value": 2020},
        filter_policy=FilterPolicy.MERGE,
    )
    monkeypatch.setenv("KEY_OF_CLEW", key)
    pipeline = pipeline_of(retriever)
    saved = pipeline.dumps()
    assert "KEY_OF_CLEW" in saved
    assert key not in saved
    loaded = load(saved)
    assert loaded.to_dict() == pipeline.to_dict()
    query = "What is the cat called?"
    inputs = {"retriever": {"query": query}, "prompt": {"query": query}}
    done = loaded.run(inputs)
    assert done["prompt"]["prompt"] == f"{TEXTS['cat']} {query}"
    monkeypatch.setenv("KEY_OF_CLEW", "clew_wrong")
    with pytest.raises(Exception, match="KEY_REFUSED"):
        load(saved).run(inputs)


def test_an_asynchronous_pipeline_runs_it(retriever: ClewRetriever) -> None:
    query = "What is the cat called?"
    inputs = {"retriever": {"query": query, "top_k": 1}, "prompt": {"query": query}}
    if hasattr(Pipeline, "run_async"):
        pipeline = pipeline_of(retriever)
    else:
        # Haystack 2 has a pipeline of its own for that.
        saved = pipeline_of(retriever).to_dict()
        pipeline = haystack.AsyncPipeline.from_dict(saved)  # type: ignore[attr-defined]
    done = asyncio.run(pipeline.run_async(inputs))
    assert done["prompt"]["prompt"] == f"{TEXTS['cat']} {query}"


def test_a_key_that_is_no_variable_is_never_saved() -> None:
    retriever = ClewRetriever("notes", api_key=Secret.from_token("clew_secret"))
    with pytest.raises(ValueError, match="Cannot serialize token-based secret"):
        retriever.to_dict()
    without = ClewRetriever("notes", api_key=None)
    assert ClewRetriever.from_dict(without.to_dict()).to_dict() == without.to_dict()


def test_a_closed_retriever_connects_again(retriever: ClewRetriever) -> None:
    assert len(retriever.run("cat")["documents"]) == 3
    retriever.close()
    retriever.close()
    assert len(retriever.run("cat")["documents"]) == 3


def test_missing_shards_are_logged(
    retriever: ClewRetriever,
    pets: clew.Corpus,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    search = clew.Corpus.search

    def incomplete(corpus: clew.Corpus, query: str, **arguments: Any) -> clew.SearchResult:
        return replace(search(corpus, query, **arguments), shards_missing=(3, 5))

    monkeypatch.setattr(clew.Corpus, "search", incomplete)
    retriever.run("cat")
    told = f"shards 3, 5 of corpus `{pets.name}` did not answer, so results may be missing"
    assert caplog.messages == [told]


def test_asynchronous_methods_do_not_block_the_loop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        retriever = ClewRetriever("pets", endpoint=address)

        async def run() -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(retriever.run_async("x"), 0.1)

        start = time.monotonic()
        asyncio.run(run())
    assert time.monotonic() - start < 20, "a call that blocks takes the minute of its timeout"


def test_a_missing_package_is_named() -> None:
    program = "import sys; sys.modules['haystack'] = None; import clew.haystack"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'clew-memory[haystack]'" in done.stderr


def test_the_example_runs(
    server: Server, client: clew.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = client.create_corpus("notes", structure=None, exist_ok=True)
    notes.ingest([clew.Document("cat", TEXTS["cat"])], wait=True).raise_for_refused()
    run_examples(server.endpoint, clew.haystack)
    assert capsys.readouterr().out == f"{TEXTS['cat']}\n"
