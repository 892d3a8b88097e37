"""LangChain and LangGraph over a real server: LangChain's own suites, and what they do not ask."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")
pytest.importorskip("langgraph")

from conftest import Server
from docstrings import run_examples
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.messages import AIMessage, AnyMessage, ToolCall
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import clew
import clew.langchain
from clew.langchain import ClewRetriever, ClewVectorStore, memory_tools

CAT_TEXT = "The cat is called Xqvzkwjb."
CAT = clew.Document(
    "cat",
    CAT_TEXT,
    title="The cat",
    attributes={"year": 2024, "tame": True, "weight": 4.5, "kind": "cat"},
)
DOG = clew.Document("dog", "The dog has no name.", attributes={"year": 2019, "kind": "dog"})
FISH = clew.Document("fish", "The fish swims in the pond.", attributes={"year": 2021})


@pytest.fixture
def pets(corpus: clew.Corpus) -> clew.Corpus:
    corpus.ingest([CAT, DOG, FISH], wait=True).raise_for_refused()
    return corpus


@pytest.fixture
def store(client: clew.Client, corpus: clew.Corpus) -> ClewVectorStore:
    return ClewVectorStore(client, corpus.name)


# The suites have asynchronous tests among others.
@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:.*is marked with '@pytest.mark.asyncio'")
class TestRetrieverOfLangChain(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _corpus(self, client: clew.Client, pets: clew.Corpus) -> None:
        self.parameters = {"client": client, "corpus": pets.name}

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return ClewRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self.parameters

    @property
    def retriever_query_example(self) -> str:
        return "What is the cat called?"


@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:.*is marked with '@pytest.mark.asyncio'")
class TestVectorStoreOfLangChain(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, store: ClewVectorStore) -> ClewVectorStore:
        return store


def both(call: Callable[..., Any], acall: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Returns what a call and its asynchronous twin return, which is the same."""
    expected = call(*arguments, **named)
    assert asyncio.run(acall(*arguments, **named)) == expected
    return expected


def test_a_passage_tells_where_it_comes_from(client: clew.Client, pets: clew.Corpus) -> None:
    retriever = ClewRetriever(client=client, corpus=pets.name, k=1)
    (found,) = both(retriever.invoke, retriever.ainvoke, "What is the cat called?")
    assert found.page_content == CAT_TEXT
    assert found.id is not None
    assert found.id.startswith("chunk-")
    assert found.metadata.pop("score") > 0
    assert found.metadata == {
        **CAT.attributes,
        "document_id": "cat",
        "span": [0, len(CAT_TEXT)],
        "title": "The cat",
    }


def test_a_retriever_filters_and_has_a_mode(client: clew.Client, pets: clew.Corpus) -> None:
    where = clew.where("year") >= 2020
    retriever = ClewRetriever(client=client, corpus=pets.name, filter=where, mode="dense")
    found = both(retriever.invoke, retriever.ainvoke, "a pet")
    assert {document.metadata["document_id"] for document in found} == {"cat", "fish"}
    found = both(retriever.invoke, retriever.ainvoke, "a pet", filter={"kind": "dog"})
    assert [document.metadata["document_id"] for document in found] == ["dog"]
    some = ClewRetriever(
        client=client, corpus=pets.name, filter=clew.Filter(document_ids=("dog", "fish"))
    )
    assert {document.metadata["document_id"] for document in some.invoke("a pet")} == {
        "dog",
        "fish",
    }
    with pytest.raises(ValueError, match="mode"):
        ClewRetriever(client=client, corpus=pets.name, mode="fast")  # type: ignore[arg-type]
    # Only one of them has the word, so a search of words finds no other.
    assert len(retriever.invoke("Xqvzkwjb", mode="sparse")) == 1


def test_a_retriever_is_a_part_of_a_chain(client: clew.Client, pets: clew.Corpus) -> None:
    retriever = ClewRetriever(client=client, corpus=pets.name, k=1)
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    joined = RunnableLambda(lambda found: found[0].page_content)
    chain = {"context": retriever | joined, "question": RunnablePassthrough()} | prompt
    question = "What is the cat called?"
    made = both(chain.invoke, chain.ainvoke, question)
    assert made.to_messages()[0].content == f"{CAT_TEXT} {question}"


def test_a_missing_corpus_is_an_error_everywhere(client: clew.Client) -> None:
    retriever = ClewRetriever(client=client, corpus="absent")
    store = ClewVectorStore(client, "absent")
    calls: list[Callable[[], object]] = [
        lambda: retriever.invoke("x"),
        lambda: asyncio.run(retriever.ainvoke("x")),
        lambda: store.similarity_search("x"),
        lambda: store.get_by_ids(["x"]),
        lambda: asyncio.run(store.aget_by_ids(["x"])),
        lambda: store.add_texts(["x"]),
        lambda: store.delete(["x"]),
    ]
    for call in calls:
        with pytest.raises(clew.NotFoundError, match="corpus `absent` does not exist"):
            call()


def test_metadata_come_back_as_they_were_given(store: ClewVectorStore) -> None:
    metadata = {
        "whole": -(2**63),
        "real": 0.5,
        "yes": True,
        "no": False,
        "text": "x",
        "a name with spaces": 1,
        "langchain.metadata": "not ours",
        "large": 2**63,
        "nothing": None,
        "endless": float("inf"),
        "list": [1, "two", None],
        "nested": {"page": 1, "lines": {"from": 2, "to": 3}},
    }
    added = Document(id="x", page_content="A text.", metadata=metadata)
    store.add_documents([added])
    assert added.metadata == metadata
    (found,) = both(store.get_by_ids, store.aget_by_ids, ["x"])
    assert found == added
    for name, value in metadata.items():
        assert type(found.metadata[name]) is type(value), name
    assert both(store.similarity_search, store.asimilarity_search, "text") == [added]
    assert store.similarity_search("text", filter={"whole": -(2**63), "yes": True}) == [added]
    assert store.similarity_search("text", filter={"yes": False}) == []


def test_metadata_that_json_cannot_hold_are_refused_before_anything_is_added(
    store: ClewVectorStore,
) -> None:
    with pytest.raises(ValueError, match="JSON can hold in `set`: Object of type set"):
        store.add_texts(["fine", "not fine"], [{}, {"set": {1}}], ids=["1", "2"])
    assert store.get_by_ids(["1", "2"]) == []
    with pytest.raises(ValueError, match="got 1 and 2 for 2"):
        store.add_texts(["a", "b"], [{}])


def test_a_refused_text_is_an_error(store: ClewVectorStore) -> None:
    with pytest.raises(clew.RefusedError, match=r"document\.text"):
        store.add_texts(["good", " "], ids=["1", "2"])
    with pytest.raises(clew.RefusedError, match=r"document\.text"):
        asyncio.run(store.aadd_texts(["good", " "], ids=["1", "2"]))
    assert [document.page_content for document in store.get_by_ids(["1"])] == ["good"]


def test_a_long_text_is_found_by_its_passages_and_comes_back_whole(store: ClewVectorStore) -> None:
    lines = [f"Line {number} of the log says that nothing happened." for number in range(100)]
    text = "\n".join([*lines, "Then the cat Xqvzkwjb came, schön und größer.", *lines])
    store.add_texts([text, "Nothing happened."], [{"kind": "log"}, {}], ids=["log", "other"])
    query = "Who is Xqvzkwjb?"
    (found, *_) = both(store.similarity_search, store.asimilarity_search, query)
    assert found == Document(id="log", page_content=text, metadata={"kind": "log"})
    found = store.similarity_search("Nothing happened.", k=4)
    assert sorted(document.id or "" for document in found) == ["log", "other"], "each once"


def test_scores_fall_and_relevance_is_between_0_and_1(store: ClewVectorStore) -> None:
    store.add_texts(["The cat sleeps.", "A train is late.", "The cat is asleep."])
    query = "The cat sleeps."
    search, asearch = store.similarity_search_with_score, store.asimilarity_search_with_score
    found = both(search, asearch, query)
    scores = [score for _, score in found]
    assert len(found) == 3
    assert found[0][0].page_content == query
    assert scores == sorted(scores, reverse=True)
    relevant = both(
        store.similarity_search_with_relevance_scores,
        store.asimilarity_search_with_relevance_scores,
        query,
        score_threshold=0.5,
    )
    assert {document.page_content for document, _ in relevant} == {query, "The cat is asleep."}
    assert relevant[0][1] == pytest.approx(1.0, abs=1e-3)
    retriever = store.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.99, "k": 2}
    )
    assert [document.page_content for document in retriever.invoke(query)] == [query]


def test_texts_are_deleted_by_ids_or_by_a_filter(store: ClewVectorStore) -> None:
    texts = ["one", "two", "three", "four"]
    store.add_texts(texts, [{"odd": index % 2 == 0} for index in range(4)], ids=texts)
    assert both(store.delete, store.adelete, ["one", "one", "absent"]) is True
    assert both(store.delete, store.adelete, []) is True
    assert store.get_by_ids(["one", "two"])[0].id == "two"
    assert store.delete(filter={"odd": False})
    assert [document.id for document in store.get_by_ids(texts)] == ["three"]
    with pytest.raises(clew.InvalidArgumentError, match="a filter"):
        both(store.delete, store.adelete)
    assert [document.id for document in store.get_by_ids(texts)] == ["three"]


def test_a_store_makes_its_corpus(client: clew.Client, name: str) -> None:
    texts, metadatas = ["The cat sleeps.", "A train is late."], [{"n": 1}, {"n": 2}]
    store = ClewVectorStore.from_texts(texts, None, metadatas, client=client, corpus=name)
    assert [found.metadata for found in store.similarity_search("cat", k=1)] == [{"n": 1}]
    asyncio.run(
        ClewVectorStore.afrom_texts(["Snow fell."], ids=["s"], client=client, corpus=f"{name}-a")
    )
    assert ClewVectorStore(client, f"{name}-a").get_by_ids(["s"])[0].page_content == "Snow fell."
    made = ClewVectorStore.from_documents(
        [Document(id="d", page_content="Rain fell.")],
        client=client,
        corpus=name,
        embedding=None,  # type: ignore[arg-type]  # The server embeds.
    )
    assert len(made.similarity_search("fell", k=10)) == 3


def test_the_indexing_of_langchain_keeps_a_store_like_its_source(store: ClewVectorStore) -> None:
    records = InMemoryRecordManager("pets")
    records.create_schema()

    def indexed(*texts: str) -> dict[str, int]:
        documents = [Document(page_content=text, metadata={"source": text}) for text in texts]
        done = index(documents, records, store, cleanup="full", key_encoder="sha256")
        return {name: number for name, number in done.items() if isinstance(number, int)}

    assert indexed("cat", "dog")["num_added"] == 2
    done = indexed("dog", "fish")
    assert (done["num_added"], done["num_skipped"], done["num_deleted"]) == (1, 1, 1)
    found = store.similarity_search("a pet", k=10)
    assert {document.page_content for document in found} == {"dog", "fish"}


def test_unknown_arguments_of_a_search_are_errors(store: ClewVectorStore) -> None:
    with pytest.raises(TypeError, match="filters"):
        store.similarity_search("x", filters={"tenant": "a"})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="filters"):
        store.similarity_search_with_relevance_scores("x", filters={"tenant": "a"})
    with pytest.raises(TypeError, match="mode"):
        store.similarity_search_with_relevance_scores("x", mode="sparse")


def calls(*named: tuple[str, dict[str, str]]) -> MessagesState:
    """Returns the state after a model called tools."""
    made = [
        ToolCall(name=name, args=arguments, id=str(place), type="tool_call")
        for place, (name, arguments) in enumerate(named)
    ]
    messages: list[AnyMessage] = [AIMessage(content="", tool_calls=made)]
    return {"messages": messages}


def graph_of(client: clew.Client, corpus: str, *, user: str | None = None) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(memory_tools(client, corpus, user=user)))
    graph.add_edge(START, "tools")
    return graph.compile()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_graph_remembers_and_recalls_for_the_user_of_the_run(
    client: clew.Client, corpus: clew.Corpus, asynchronous: bool
) -> None:
    graph = graph_of(client, corpus.name)

    def run(state: MessagesState, **configurable: str) -> list[str]:
        config = {"configurable": configurable}
        if asynchronous:
            done = asyncio.run(graph.ainvoke(state, config))
        else:
            done = graph.invoke(state, config)
        return [message.content for message in done["messages"][1:]]

    remembered = calls(
        ("remember", {"text": "I live in Rome."}), ("remember", {"text": "I like tea."})
    )
    assert run(remembered, user_id="anna", thread_id="monday") == ["remembered"] * 2
    assert run(remembered, user_id="anna", thread_id="monday") == ["remembered"] * 2
    run(calls(("remember", {"text": "I live in Oslo."})), user_id="anna", thread_id="tuesday")
    run(calls(("remember", {"text": "I live in Bern."})), user_id="ben", thread_id="monday")
    stored = [(turn.session, turn.turn.text) for turn in corpus.user("anna").turns()]
    assert sorted(stored) == [
        ("monday", "I like tea."),
        ("monday", "I live in Rome."),
        ("tuesday", "I live in Oslo."),
    ]
    (told,) = run(calls(("recall", {"question": "Where do I live?"})), user_id="anna")
    rounds = json.loads(told)["rounds"]
    texts = [turn["text"] for each in rounds for turn in each["turns"]]
    assert "I live in Oslo." in texts
    assert "I live in Bern." not in texts
    assert all(turn["time"] for each in rounds for turn in each["turns"])
    superseded = [each for item in rounds for each in item["superseded"]]
    assert [(each["older"], each["newer"]) for each in superseded] == [
        ("I live in Rome.", "I live in Oslo.")
    ]


def test_tools_of_one_user_need_no_config(client: clew.Client, corpus: clew.Corpus) -> None:
    recall, remember = memory_tools(client, corpus.name, user="anna")
    assert remember.invoke({"text": "I like tea."}) == "remembered"
    assert "I like tea." in recall.invoke({"question": "What do I like to drink?"})
    (session,) = corpus.user("anna").sessions()
    assert len(session.id) == len("2024-05-20")


def test_tools_show_the_model_no_user(client: clew.Client) -> None:
    recall, remember = memory_tools(client, "chats")
    assert list(recall.args) == ["question"]
    assert list(remember.args) == ["text"]
    with pytest.raises(ValueError, match="user_id"):
        recall.invoke({"question": "Where do I live?"})


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
    ClewRetriever(client=client, corpus=pets.name).invoke("cat")
    ClewVectorStore(client, pets.name).similarity_search("cat")
    told = f"shards 3, 5 of corpus `{pets.name}` did not answer, so results may be missing"
    assert caplog.messages == [told] * 2


def test_asynchronous_methods_do_not_block_the_loop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = clew.Client(address)
        retriever = ClewRetriever(client=client, corpus="pets")
        store = ClewVectorStore(client, "pets")
        recall, remember = memory_tools(client, "pets", user="anna")
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: retriever.ainvoke("x"),
            lambda: store.asimilarity_search("x"),
            lambda: store.asimilarity_search_with_relevance_scores("x"),
            lambda: store.aadd_texts(["x"]),
            lambda: store.aget_by_ids(["x"]),
            lambda: store.adelete(["x"]),
            lambda: ClewVectorStore.afrom_texts(["x"], client=client, corpus="pets"),
            lambda: recall.ainvoke({"question": "x"}),
            lambda: remember.ainvoke({"text": "x"}),
        ]

        async def run() -> None:
            for call in calls:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(call(), 0.1)

        start = time.monotonic()
        asyncio.run(run())
    assert time.monotonic() - start < 20, "a call that blocks takes the minute of its timeout"


def test_a_missing_package_is_named() -> None:
    program = "import sys; sys.modules['langchain_core'] = None; import clew.langchain"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'clew-memory[langchain]'" in done.stderr


def test_the_examples_run(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    run_examples(server.endpoint, clew.langchain, ClewRetriever, ClewVectorStore, memory_tools)
    cat, metadata, rounds = capsys.readouterr().out.splitlines()
    assert cat == CAT_TEXT
    assert metadata == "{'year': 2024}"
    assert "I live in Rome." in rounds
