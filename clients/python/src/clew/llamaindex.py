"""Clew for LlamaIndex: a retriever, a reader, and a block of long-term memory.

    import clew
    from clew.llamaindex import ClewMemoryBlock, ClewReader, ClewRetriever

    client = clew.Client("http://127.0.0.1:7421")
    retriever = ClewRetriever(client, "notes", similarity_top_k=3)
    for found in retriever.retrieve("What is the cat called?"):
        print(found.score, found.text)

Clew embeds texts itself, so embedding models of LlamaIndex are not used. Asynchronous methods do
not block the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

import clew
from clew._found import metadata_of, warn_if_incomplete

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.readers.base import BaseReader
    from llama_index.core.schema import (
        Document,
        NodeRelationship,
        NodeWithScore,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
    from typing_extensions import override
except ImportError as error:
    raise ImportError(
        "`clew.llamaindex` needs LlamaIndex: pip install 'clew-memory[llamaindex]'"
    ) from error

__all__ = ["ClewMemoryBlock", "ClewReader", "ClewRetriever"]

# Turns that one call appends.
_APPENDED_AT_ONCE = 1000
# Characters of a message that are searched with: in UTF-8 at most 16 KiB, the limit of a question.
_ASKED = 4096
# Session of messages that belong to none.
_SESSION = "memory"


class ClewRetriever(BaseRetriever):
    """Retriever of the passages that match a query best.

    Each passage is a `TextNode` whose source (`ref_doc_id`) is the id of its document. Its metadata
    are the attributes of the document, and `title` and `event_time` (ISO 8601) if the document has
    them, instead of attributes with these names.
    """

    def __init__(
        self,
        client: clew.Client,
        corpus: str,
        *,
        similarity_top_k: int = 4,
        mode: clew.Mode = "hybrid",
        where: clew.Where | None = None,
        with_offsets: bool = False,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """Prepares a retriever. Calls nobody.

        Args:
            client: Client of the server.
            corpus: Name of the corpus.
            similarity_top_k: Maximum passages: 1 to 200.
            mode: Way in which passages are matched.
            where: Restriction of what may be found.
            with_offsets: Whether nodes have `start_char_idx` and `end_char_idx`. Clew counts bytes
                and LlamaIndex characters, so the text of each document that is found is read. A
                node whose document is replaced or forgotten meanwhile has none.
            callback_manager: As for every retriever of LlamaIndex.
        """
        super().__init__(callback_manager=callback_manager)
        self._corpus = client.corpus(corpus)
        self._async_corpus = clew.AsyncClient.of(client).corpus(corpus)
        self._arguments: dict[str, Any] = {
            "k": similarity_top_k,
            "mode": mode,
            "where": where,
            "with_attributes": True,
        }
        self._with_offsets = with_offsets

    @override
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result = self._corpus.search(query_bundle.query_str, **self._arguments)
        warn_if_incomplete(result.shards_missing, self._corpus.name)
        read: dict[str, clew.StoredDocument] = {}
        for id in _documents_of(result.passages) if self._with_offsets else ():
            with suppress(clew.NotFoundError):
                read[id] = self._corpus.document(id)
        return [_node(passage, read.get(passage.document_id)) for passage in result.passages]

    @override
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result = await self._async_corpus.search(query_bundle.query_str, **self._arguments)
        warn_if_incomplete(result.shards_missing, self._corpus.name)
        read: dict[str, clew.StoredDocument] = {}
        for id in _documents_of(result.passages) if self._with_offsets else ():
            with suppress(clew.NotFoundError):
                read[id] = await self._async_corpus.document(id)
        return [_node(passage, read.get(passage.document_id)) for passage in result.passages]


class ClewReader(BaseReader):
    """Reader of the documents of a corpus.

        for document in ClewReader(client, "notes").lazy_load_data(where={"lang": "en"}):
            print(document.id_, document.metadata)

    Metadata are as those of `ClewRetriever`.
    """

    def __init__(self, client: clew.Client, corpus: str) -> None:
        self._corpus = client.corpus(corpus)

    def lazy_load_data(
        self, *, where: clew.Where | None = None, id_prefix: str = ""
    ) -> Iterator[Document]:
        """Yields documents by id, each with its whole text. One of them is in memory at a time.

        Args:
            where: Only documents that this admits.
            id_prefix: Only documents whose ids begin with this.
        """
        for state in self._corpus.documents(where=where, id_prefix=id_prefix):
            # It may have been forgotten since it was listed.
            with suppress(clew.NotFoundError):
                stored = self._corpus.document(state.id)
                yield Document(id_=stored.id, text=stored.text, metadata=metadata_of(stored))


class ClewMemoryBlock(BaseMemoryBlock[str]):
    """Long-term memory of a user, for `Memory` of LlamaIndex.

        from llama_index.core.memory import Memory

        block = ClewMemoryBlock(client=client, corpus="chats", user="anna")
        memory = Memory.from_defaults(session_id="monday", memory_blocks=[block])

    Messages of the user and of the assistant that leave the short-term memory become turns of the
    session, with the time at which they leave it. What the user said in any session that bears on
    their last message, of which the first 4096 characters count, is recalled. Put the messages of
    one session one after the other: each is numbered after those that are stored.
    """

    name: str = "long_term_memory"
    """Name of the block in the prompt."""
    client: clew.Client
    """Client of the server."""
    corpus: str
    """Name of the corpus."""
    user: str
    """Id of the user."""
    k: int = 10
    """Maximum rounds that are recalled: 1 to 100."""

    _user: clew.AsyncUser = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Prepares the connection."""
        super().model_post_init(context)
        self._user = clew.AsyncClient.of(self.client).corpus(self.corpus).user(self.user)

    @override
    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        asked = [message for message in messages or () if message.role == "user"]
        question = (asked[-1].content or "").strip()[:_ASKED] if asked else ""
        if not question:
            return ""
        recall = await self._user.recall(question, asked_at=_now(), k=self.k)
        warn_if_incomplete(recall.shards_missing, self.corpus)
        return "\n".join(line for item in recall.items for line in _lines(item))

    @override
    async def _aput(self, messages: list[ChatMessage]) -> None:
        sessions: dict[str, list[ChatMessage]] = {}
        for message in messages:
            if message.role in ("user", "assistant") and (message.content or "").strip():
                session = str(message.additional_kwargs.get("session_id") or _SESSION)
                sessions.setdefault(session, []).append(message)
        for session, said in sessions.items():
            stored = [turn.turn.number async for turn in self._user.turns(session=session)]
            first = max(stored, default=-1) + 1
            turns = [_turn(number, message) for number, message in enumerate(said, first)]
            for start in range(0, len(turns), _APPENDED_AT_ONCE):
                await self._user.append(turns[start : start + _APPENDED_AT_ONCE], session=session)


def _documents_of(passages: Sequence[clew.Passage]) -> list[str]:
    """Returns the ids of the documents of passages, each once."""
    return list(dict.fromkeys(passage.document_id for passage in passages))


def _node(passage: clew.Passage, stored: clew.StoredDocument | None) -> NodeWithScore:
    node = TextNode(id_=passage.chunk_id, text=passage.text, metadata=metadata_of(passage))
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=passage.document_id)
    if stored is not None and stored.state.live_version == passage.version:
        text = stored.text.encode()
        node.start_char_idx = len(text[: passage.span.start].decode())
        node.end_char_idx = node.start_char_idx + len(passage.span.text_in(stored.text))
    return NodeWithScore(node=node, score=passage.score)


def _turn(number: int, message: ChatMessage) -> clew.Turn:
    role: clew.Role = "user" if message.role == "user" else "assistant"
    return clew.Turn(number, message.content or "", role=role, time=_now())


def _lines(item: clew.RecalledItem) -> Iterator[str]:
    """Yields what was recalled for a model to read: turns, and statements that no longer hold."""
    for turn in item.turns:
        if turn.text:
            said = f"{turn.time:%Y-%m-%d}, " if turn.time else ""
            yield f"[{said}{turn.speaker or turn.role}] {turn.text}"
    yield from item.texts
    for each in item.superseded:
        yield f"(No longer true: {each.older.text} Later: {each.newer.text})"


def _now() -> datetime:
    return datetime.now(timezone.utc)
