"""Passages that searches find, and answers to questions."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from clew._proto import query_pb2
from clew._values.attribute import Value
from clew._values.wire import Wire

Mode = Literal["dense", "sparse", "hybrid"]
"""Way in which passages are matched to a query: by embeddings, by words (BM25), or both, fused."""
Grouping = Literal["chunks", "documents"]
"""Unit of evidence: each chunk by itself, or each document once by its best chunk."""
Task = Literal["answer", "summarise"]
"""Kind of text that is wanted."""
MemoryUse = Literal["clues", "hint", "answer"]
"""Use of the compressed memories of a corpus: they draft what to search for, they also tell the
reader what the answer may be, or their own answer may be returned."""
TextKind = Literal["passage", "query"]
"""Kind of a text to embed: one to be found, or one to search with."""


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open byte range of a document's text in UTF-8. See `text_in`."""

    start: int
    """First byte."""
    end: int
    """Byte after the last one."""

    def text_in(self, text: str) -> str:
        """Returns the part of `text`, the whole text of the document, that the span covers."""
        return text.encode()[self.start : self.end].decode()


@dataclass(frozen=True, slots=True)
class Place:
    """Range of a stored document."""

    document_id: str
    """Id of the document."""
    version: int
    """Its version."""
    span: Span
    """Byte range of its text."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a search or an answer."""

    embedded_tokens: int
    """Tokens that were embedded."""
    model_calls: int
    """Number of calls to language models."""
    prompt_tokens: int
    """Tokens sent to language models."""
    completion_tokens: int
    """Tokens received from language models."""
    shards_searched: int
    """Number of shards that were asked."""
    out_of_budget: bool
    """Whether something was left undone because a budget was used up."""
    reranked_tokens: int
    """Tokens that a reranker or a reader read."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of a request within the server. Parts that ran at the same time count each, so together
    they may exceed the total.
    """

    total: timedelta
    """Time from the request's arrival to its end."""
    queue: timedelta
    """Waiting in queues."""
    compute: timedelta
    """Embedding."""
    store: timedelta
    """Asking shards."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk as a search returns it, whole and from one version of its document."""

    chunk_id: str
    """Id of the chunk."""
    document_id: str
    """Id of its document."""
    version: int
    """Version of the document."""
    title: str
    """Title of the document. May be empty."""
    span: Span
    """Byte range of the passage in the document's text."""
    text: str
    """Text of the passage."""
    event_time: datetime | None
    """Time at which the events that it tells of happened."""
    score: float
    """Rank score: higher is better, comparable within one result only."""
    dense_score: float | None
    """Cosine similarity to the query, -1 to 1. `None` if embeddings were not compared."""
    sparse_score: float | None
    """BM25 score. `None` if the text index was not searched."""
    attributes: Mapping[str, Value]
    """Attributes of the document, if they were asked for."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page of a search."""

    passages: Annotated[tuple[Passage, ...], Wire("evidence")]
    """The passages, best first."""
    shards_missing: tuple[int, ...]
    """Shards that did not answer. The passages are incomplete without them."""
    cost: Cost
    """Cost of the search."""
    timing: Timing
    """Time of the search, by parts."""
    next_page_token: str
    """Token of the page that follows. Empty after the last one."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """Embedding of one text."""

    vector: tuple[float, ...]
    """Unit vector of the model's dimension."""
    tokens: int
    """Tokens that were read. 0 if the vector was cached."""
    truncated: bool
    """Whether the text was longer than the model reads, so that its end was ignored."""


def embedding_from_wire(embedding: query_pb2.Embedding) -> Embedding:
    """Returns an embedding, whose numbers came as 32-bit floats, little-endian."""
    count = len(embedding.vector) // 4
    vector: tuple[float, ...] = struct.unpack(f"<{count}f", embedding.vector)
    return Embedding(vector, embedding.tokens, embedding.truncated)


@dataclass(frozen=True, slots=True)
class Strategy:
    """Way of answering a question."""

    name: str
    """Name, for `ask`."""
    description: str
    """Description in one line."""
    needs: Literal["unspecified", "chunks", "tree", "graph"]
    """Data that it needs of a corpus."""
    cost: str
    """Approximate or maximum number of searches and calls, for a person."""
    can_run: bool
    """Whether this server can answer with it."""


@dataclass(frozen=True, slots=True)
class Citation:
    """Quoted byte range of a stored document."""

    document_id: str
    """Id of the document."""
    version: int
    """Version of the document."""
    title: str
    """Title of the document. May be empty."""
    span: Span
    """Byte range of the document's text."""
    quote: str
    """The text of that range."""
    attributes: Mapping[str, Value]
    """Attributes of the document, if they were asked for."""


Outcome = Literal["unspecified", "answered", "not_in_memory", "answered_with_shards_missing"]
"""How a question ended."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question."""

    outcome: Outcome
    """How the question ended."""
    text: str
    """The answer's text. Empty if it is not in memory."""
    citations: tuple[Citation, ...]
    """Sources of the parts of the text, in its order."""
    cost: Cost
    """Cost of the answer."""
    shards_missing: tuple[int, ...]
    """Shards that could not be asked."""
    timing: Timing
    """Time of the answer, by parts."""

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer."""
        return self.outcome in ("answered", "answered_with_shards_missing")


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text."""

    text: str
    """The piece."""
