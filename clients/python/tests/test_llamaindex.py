"""LlamaIndex over a real server, without a language model."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from conftest import Server
from docstrings import run_examples
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms import MockLLM
from llama_index.core.memory import Memory
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import NodeWithScore, TextNode

import clew
import clew.llamaindex
from clew.llamaindex import ClewMemoryBlock, ClewReader, ClewRetriever

MONDAY = datetime(2024, 5, 20, 10, 0, tzinfo=timezone.utc)
CAT_TEXT = "The cat is called Xqvzkwjb."
CAT = clew.Document(
    "cat", CAT_TEXT, title="The cat", attributes={"year": 2024, "tame": True}, event_time=MONDAY
)
DOG = clew.Document("dog", "The dog has no name.", attributes={"year": 2019})
FISH = clew.Document("fish", "The fish swims in the pond.", attributes={"year": 2021})


@pytest.fixture
def pets(corpus: clew.Corpus) -> clew.Corpus:
    corpus.ingest([CAT, DOG, FISH], wait=True).raise_for_refused()
    return corpus


def retrieved(retriever: ClewRetriever, query: str) -> list[NodeWithScore]:
    """Returns what both kinds of retrieval return, which is the same."""
    found = retriever.retrieve(query)
    assert asyncio.run(retriever.aretrieve(query)) == found
    return found


def test_a_node_tells_where_it_comes_from(client: clew.Client, pets: clew.Corpus) -> None:
    retriever = ClewRetriever(client, pets.name, similarity_top_k=1)
    (found,) = retrieved(retriever, "What is the cat called?")
    assert found.text == CAT_TEXT
    assert found.score is not None
    assert found.score > 0
    assert found.node_id.startswith("chunk-")
    assert found.node.ref_doc_id == "cat"
    assert found.metadata == {
        "year": 2024,
        "tame": True,
        "title": "The cat",
        "event_time": "2024-05-20T10:00:00+00:00",
    }
    assert isinstance(found.node, TextNode)
    assert found.node.start_char_idx is None


def test_a_retriever_filters_and_has_a_mode(client: clew.Client, pets: clew.Corpus) -> None:
    recent = ClewRetriever(client, pets.name, where=clew.where("year") >= 2020, mode="dense")
    found = retrieved(recent, "a pet")
    assert {each.node.ref_doc_id for each in found} == {"cat", "fish"}
    # Only one of them has the word, so a search of words finds no other.
    assert len(retrieved(ClewRetriever(client, pets.name, mode="sparse"), "Xqvzkwjb")) == 1
    with pytest.raises(clew.NotFoundError, match="corpus `absent` does not exist"):
        ClewRetriever(client, "absent").retrieve("cat")


def test_offsets_are_characters(client: clew.Client, corpus: clew.Corpus) -> None:
    lines = [f"Zeile {number}: Übergrößenträger, 日本語, nichts geschah." for number in range(80)]
    text = "\n".join([*lines, "Dann kam die Katze Xqvzkwjb 🐈.", *lines])
    documents = [clew.Document("log", text), clew.Document("x", "🐈 Xqvzkwjb schläft.")]
    corpus.ingest(documents, wait=True).raise_for_refused()
    texts = {"log": text, "x": "🐈 Xqvzkwjb schläft."}
    retriever = ClewRetriever(client, corpus.name, similarity_top_k=8, with_offsets=True)
    found = retrieved(retriever, "Xqvzkwjb")
    assert {each.node.ref_doc_id for each in found} == {"log", "x"}
    starts = set()
    for each in found:
        node = each.node
        assert isinstance(node, TextNode)
        assert node.ref_doc_id is not None
        start, end = node.start_char_idx, node.end_char_idx
        assert start is not None
        assert texts[node.ref_doc_id][start:end] == node.text
        starts.add(start)
    assert len(starts) > 2, "not all of them at the beginning"


def test_a_query_engine_cites_the_passages(client: clew.Client, pets: clew.Corpus) -> None:
    engine = RetrieverQueryEngine.from_args(
        ClewRetriever(client, pets.name, similarity_top_k=2, mode="dense"),
        llm=MockLLM(),
        response_mode=ResponseMode.COMPACT,
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.5)],
    )
    question = "What is the cat called?"
    for response in (engine.query(question), asyncio.run(engine.aquery(question))):
        assert [node.node.ref_doc_id for node in response.source_nodes] == ["cat"]
        # The model that stands in returns its prompt, which has the passage and its metadata.
        assert CAT_TEXT in str(response)
        assert "title: The cat" in str(response)


def test_a_reader_reads_whole_documents(client: clew.Client, pets: clew.Corpus) -> None:
    reader = ClewReader(client, pets.name)
    documents = reader.load_data()
    assert [document.id_ for document in documents] == ["cat", "dog", "fish"]
    assert documents[0].text == CAT_TEXT
    assert documents[0].metadata["event_time"] == MONDAY.isoformat()
    assert documents[1].metadata == {"year": 2019}
    assert asyncio.run(reader.aload_data()) == documents
    old = reader.lazy_load_data(where=clew.where("year") < 2020)
    assert [document.id_ for document in old] == ["dog"]
    assert [document.id_ for document in reader.lazy_load_data(id_prefix="f")] == ["fish"]


def test_a_reader_skips_what_is_forgotten_meanwhile(client: clew.Client, pets: clew.Corpus) -> None:
    documents = iter(ClewReader(client, pets.name).lazy_load_data())
    assert next(documents).id_ == "cat"
    pets.forget(["dog"])
    assert [document.id_ for document in documents] == ["fish"]


def said(role: MessageRole, text: str) -> ChatMessage:
    return ChatMessage(role=role, content=text)


def memory_of(client: clew.Client, corpus: str, session: str, **settings: Any) -> Memory:
    block = ClewMemoryBlock(client=client, corpus=corpus, user="anna")
    return Memory.from_defaults(session_id=session, memory_blocks=[block], **settings)


def test_a_memory_recalls_what_left_the_short_term_memory(
    client: clew.Client, corpus: clew.Corpus
) -> None:
    memory = memory_of(
        client,
        corpus.name,
        "monday",
        token_limit=60,
        token_flush_size=10,
        chat_history_token_ratio=0.5,
    )
    turns = [
        said(MessageRole.USER, "My cat is called Xqvzkwjb."),
        said(MessageRole.ASSISTANT, "That is a strange name."),
        said(MessageRole.USER, "The weather is fine today, and I walked along the river."),
        said(MessageRole.ASSISTANT, "How long did you walk along the river in the sun?"),
        said(MessageRole.USER, "For an hour, and then I went home and had a cup of tea."),
    ]
    for message in turns:
        memory.put(message)
    stored = list(corpus.user("anna").turns())
    assert [(turn.session, turn.turn.number) for turn in stored] == [
        ("monday", number) for number in range(len(stored))
    ]
    assert [turn.turn.text for turn in stored[:2]] == [turns[0].content, turns[1].content]
    assert [turn.turn.role for turn in stored[:2]] == ["user", "assistant"]
    # Another conversation of the user, of which nothing left the short-term memory.
    later = memory_of(client, corpus.name, "tuesday")
    later.put(said(MessageRole.USER, "What is my cat called?"))
    prompt, question = later.get()
    assert prompt.role == MessageRole.SYSTEM
    assert "<long_term_memory>" in (prompt.content or "")
    assert "[user] My cat is called Xqvzkwjb." in (prompt.content or "").replace(
        f"{stored[0].turn.time:%Y-%m-%d}, ", ""
    )
    assert question.content == "What is my cat called?"


def test_a_block_keeps_what_people_say_and_nothing_else(
    client: clew.Client, corpus: clew.Corpus
) -> None:
    block = ClewMemoryBlock(client=client, corpus=corpus.name, user="anna")
    messages = [
        said(MessageRole.SYSTEM, "Be kind."),
        said(MessageRole.USER, "I live in Rome."),
        said(MessageRole.ASSISTANT, " "),
        said(MessageRole.TOOL, '{"weather": "rain"}'),
        said(MessageRole.ASSISTANT, "It rains there."),
    ]
    asyncio.run(block.aput(messages, session_id="monday"))
    asyncio.run(block.aput([said(MessageRole.USER, "I live in Oslo.")], session_id="monday"))
    asyncio.run(block.aput([said(MessageRole.USER, "I like tea.")]))
    stored = [
        (turn.session, turn.turn.number, turn.turn.text) for turn in corpus.user("anna").turns()
    ]
    assert stored == [
        ("memory", 0, "I like tea."),
        ("monday", 0, "I live in Rome."),
        ("monday", 1, "It rains there."),
        ("monday", 2, "I live in Oslo."),
    ]
    recalled = asyncio.run(block.aget([said(MessageRole.USER, "Where do I live?")]))
    assert "(No longer true: I live in Rome. Later: I live in Oslo.)" in recalled
    long = said(MessageRole.USER, "Where do I live? " + "é" * 20_000)
    assert "I live in Oslo." in asyncio.run(block.aget([long]))
    assert asyncio.run(block.aget([said(MessageRole.ASSISTANT, "Hello.")])) == ""
    assert asyncio.run(block.aget()) == ""
    ben = ClewMemoryBlock(client=client, corpus=corpus.name, user="ben")
    assert asyncio.run(ben.aget([said(MessageRole.USER, "Where do I live?")])) == ""


def test_missing_shards_are_logged(
    client: clew.Client,
    pets: clew.Corpus,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    search = clew.Corpus.search

    def incomplete(corpus: clew.Corpus, query: str, **arguments: Any) -> clew.SearchResult:
        return replace(search(corpus, query, **arguments), shards_missing=(3, 5))

    monkeypatch.setattr(clew.Corpus, "search", incomplete)
    ClewRetriever(client, pets.name).retrieve("cat")
    told = f"shards 3, 5 of corpus `{pets.name}` did not answer, so results may be missing"
    assert caplog.messages == [told]


def test_asynchronous_methods_do_not_block_the_loop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = clew.Client(address)
        retriever = ClewRetriever(client, "pets")
        block = ClewMemoryBlock(client=client, corpus="pets", user="anna")
        messages = [said(MessageRole.USER, "x")]
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: retriever.aretrieve("x"),
            lambda: block.aget(messages),
            lambda: block.aput(messages),
        ]

        async def run() -> None:
            for call in calls:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(call(), 0.1)

        start = time.monotonic()
        asyncio.run(run())
    assert time.monotonic() - start < 20, "a call that blocks takes the minute of its timeout"


def test_a_missing_package_is_named() -> None:
    program = "import sys; sys.modules['llama_index'] = None; import clew.llamaindex"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'clew-memory[llamaindex]'" in done.stderr


def test_the_examples_run(
    server: Server, client: clew.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = client.create_corpus("notes", structure=None, exist_ok=True)
    client.create_corpus("chats", structure=None, exist_ok=True)
    documents = [clew.Document("cat", CAT_TEXT, attributes={"lang": "en"})]
    notes.ingest(documents, wait=True).raise_for_refused()
    run_examples(server.endpoint, clew.llamaindex, ClewReader, ClewMemoryBlock)
    passage, document = capsys.readouterr().out.splitlines()
    assert passage.endswith(CAT_TEXT)
    assert document == "cat {'lang': 'en'}"
