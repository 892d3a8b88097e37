"""Corpora, their settings and their snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from clew._proto import chat_pb2, corpus_pb2
from clew._values.wire import Wire, choice_to_wire, from_wire, texts_to_wire


@dataclass(frozen=True, slots=True)
class TokenChunking:
    """Cuts windows of tokens, each of which shares tokens with the one before it."""

    max_tokens: int
    """Maximum tokens of a chunk: 16 to the encoder's window."""
    overlap_tokens: int = 0
    """Tokens that two neighbouring chunks share: at most half of `max_tokens`."""


@dataclass(frozen=True, slots=True)
class SentenceChunking:
    """Packs whole sentences into chunks."""

    max_tokens: int
    """Maximum tokens of a chunk: 16 to the encoder's window."""


@dataclass(frozen=True, slots=True)
class SectionChunking:
    """Packs paragraphs and Markdown sections into chunks, never across a heading."""

    max_tokens: int
    """Maximum tokens of a chunk: 16 to the encoder's window."""


Chunking = TokenChunking | SentenceChunking | SectionChunking
"""Way of cutting documents into chunks."""

_CHUNKINGS: dict[str, type[Chunking]] = {
    "tokens": TokenChunking,
    "sentences": SentenceChunking,
    "sections": SectionChunking,
}


def chunking_from_wire(chunking: corpus_pb2.Chunking) -> Chunking | None:
    """Returns a way of cutting that came, or `None` if none is set."""
    kind = chunking.WhichOneof("strategy")
    return None if kind is None else from_wire(_CHUNKINGS[kind], getattr(chunking, kind))


def chunking_to_wire(chunking: Chunking | None) -> corpus_pb2.Chunking | None:
    """Returns a way of cutting as it travels."""
    if chunking is None:
        return None
    if isinstance(chunking, TokenChunking):
        tokens = corpus_pb2.TokenChunking(
            max_tokens=chunking.max_tokens, overlap_tokens=chunking.overlap_tokens
        )
        return corpus_pb2.Chunking(tokens=tokens)
    if isinstance(chunking, SentenceChunking):
        sentences = corpus_pb2.SentenceChunking(max_tokens=chunking.max_tokens)
        return corpus_pb2.Chunking(sentences=sentences)
    sections = corpus_pb2.SectionChunking(max_tokens=chunking.max_tokens)
    return corpus_pb2.Chunking(sections=sections)


@dataclass(frozen=True, slots=True)
class Structure:
    """Settings of the summary trees and the graph of a corpus. 0 means the server's default."""

    segment_tokens: int = 0
    """Maximum tokens of a segment: 64 to 8192."""
    max_children: int = 0
    """Maximum children of a tree node: 2 to 64."""
    summary_bytes: int = 0
    """Maximum bytes of a summary: 64 to 8192."""


def structure_to_wire(structure: Structure | None) -> corpus_pb2.Structure | None:
    """Returns settings of trees and graph as they travel."""
    if structure is None:
        return None
    return corpus_pb2.Structure(
        segment_tokens=structure.segment_tokens,
        max_children=structure.max_children,
        summary_bytes=structure.summary_bytes,
    )


@dataclass(frozen=True, slots=True)
class CompressedMemory:
    """Settings of the compressed memories of a corpus. 0 means the server's default."""

    ratio: int = 0
    """Tokens that are read for each token that is kept: 1 to 128."""
    segment_tokens: int = 0
    """Approximate number of tokens that one memory covers: 256 to 4,000,000."""


def memory_to_wire(memory: CompressedMemory | None) -> corpus_pb2.CompressedMemory | None:
    """Returns settings of compressed memories as they travel."""
    if memory is None:
        return None
    return corpus_pb2.CompressedMemory(ratio=memory.ratio, segment_tokens=memory.segment_tokens)


Merging = Literal["", "best", "rank"]
"""Combination of the results of several keys: the best key counts, or rankings are fused."""
Unit = Literal["", "turn", "round", "session", "facts", "summary"]
"""Unit of recall."""
TimeUse = Literal["", "boost", "filter", "ignore"]
"""Use of the time that a question asks about."""
History = Literal["", "latest", "all"]
"""Treatment of statements that later ones supersede."""
Notes = Literal["", "chain", "direct"]
"""Note-taking of the model that reads passages, before it answers."""
Layout = Literal["", "json", "text"]
"""Format in which passages are shown to the model."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How the conversations of a corpus are stored, recalled and read. The empty text means what
    was measured best.
    """

    keys: tuple[str, ...] = ()
    """Keys by which turns are found, at most 8, such as `value` or `date+fact+value`."""
    merging: Merging = ""
    """Combination of the results of several keys."""
    value: Unit = ""
    """Unit of recall."""
    time: TimeUse = ""
    """Use of the time that a question asks about."""
    history: History = ""
    """Treatment of statements that later ones supersede."""
    notes: Notes = ""
    """Whether the model that reads takes notes."""
    layout: Layout = ""
    """Format in which passages are shown to it."""


def chat_settings_to_wire(settings: ChatSettings | None) -> chat_pb2.ChatSettings | None:
    """Returns settings of conversations as they travel."""
    if settings is None:
        return None
    return chat_pb2.ChatSettings(
        keys=texts_to_wire(settings.keys, "chat.keys"),
        merging=choice_to_wire(settings.merging, chat_pb2.Merging, "chat.merging"),
        value=choice_to_wire(settings.value, chat_pb2.Value, "chat.value"),
        time=choice_to_wire(settings.time, chat_pb2.TimeUse, "chat.time"),
        history=choice_to_wire(settings.history, chat_pb2.History, "chat.history"),
        notes=choice_to_wire(settings.notes, chat_pb2.Notes, "chat.notes"),
        layout=choice_to_wire(settings.layout, chat_pb2.Layout, "chat.layout"),
    )


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """Identity of an embedding model."""

    model: str
    """Name, such as `all-MiniLM-L6-v2`."""
    revision: str
    """Fingerprint of its weights and tokenizer."""
    dimension: int
    """Dimension of its vectors."""
    max_tokens: int
    """Maximum tokens that it reads of a text."""


@dataclass(frozen=True, slots=True)
class CorpusCounts:
    """Contents of a corpus, over all shards."""

    documents: int
    """Documents that are accepted and not forgotten."""
    indexed_documents: int
    """Of those, documents whose newest version is searchable."""
    pending_documents: int
    """Documents whose newest version waits to be indexed."""
    failed_documents: int
    """Documents that are set aside with an error."""
    chunks: int
    """Searchable chunks."""
    tokens: int
    """Tokens of those chunks."""
    text_bytes: int
    """Bytes of document text."""
    structured_documents: int
    """Documents whose tree and graph are built."""
    nodes: int
    """Nodes of their trees."""
    unstructured_documents: int
    """Searchable documents whose tree and graph are not built yet."""


@dataclass(frozen=True, slots=True)
class CorpusFault:
    """Reason why a corpus cannot be used now."""

    reason: str
    """Stable word: the reason with which calls about the corpus fail."""
    message: str
    """Message for a person: what was expected, what came and what to do."""


@dataclass(frozen=True, slots=True)
class Reembedding:
    """Last move of a corpus to another embedding model, in progress or ended."""

    first: EncoderIdentity
    """Model with which the corpus was created."""
    other: EncoderIdentity
    """The one of the two models that does not embed questions."""
    phase: Literal["unspecified", "filling", "cut_over", "confirmed", "abandoned"]
    """Phase of the move."""
    number: int
    """Number of the move among the moves of the corpus, from 1."""


@dataclass(frozen=True, slots=True)
class CorpusInfo:
    """A corpus: its settings and its contents."""

    name: str
    """Its name."""
    shards: int
    """Number of shards, fixed when the corpus is created."""
    chunking: Annotated[Chunking | None, Wire(read=chunking_from_wire)]
    """Way of cutting its documents. `None` if its settings cannot be read."""
    encoder: EncoderIdentity | None
    """Model that embeds the questions. `None` if its settings cannot be read."""
    created_at: datetime | None
    """Time at which it was created. `None` if its settings cannot be read."""
    counts: CorpusCounts | None
    """Contents now. `None` in a list if shards are missing."""
    structure: Structure | None
    """Settings of its trees and graph. `None` if it has none."""
    retention_days: int
    """Days for which its documents are kept. 0 means for ever."""
    memory: CompressedMemory | None
    """Settings of its compressed memories. `None` if it has none."""
    reembedding: Reembedding | None
    """Its last move to another model. `None` if there was none."""
    shards_missing: tuple[int, ...]
    """In a list: shards that did not answer, because of which there are no counts."""
    fault: CorpusFault | None
    """Reason why it cannot be used now. `None` if it can."""
    chat: ChatSettings | None
    """Settings of the conversations in it. `None` means the defaults."""


@dataclass(frozen=True, slots=True)
class DeletedCorpus:
    """What was deleted with a corpus."""

    documents: int
    """Number of its documents."""
    snapshots: int | None
    """Number of its snapshots, which remain. `None` if they could not be counted."""


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of taking or restoring a snapshot. The totals may change while it runs."""

    files: int
    """Files that are copied."""
    of_files: int
    """Total number of files to copy."""
    bytes: int
    """Bytes that are copied."""
    of_bytes: int
    """Total number of bytes to copy."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Complete snapshot of a corpus."""

    corpus: str
    """Name of the corpus."""
    name: str
    """Its name."""
    taken_at: datetime | None
    """Time at which it was finished."""
    documents: int
    """Number of documents in it."""
    files: int
    """Number of files that it consists of."""
    bytes: int
    """Bytes of those files."""


def retention_to_wire(
    older_than: timedelta | None, keep: int
) -> corpus_pb2.SnapshotRetention | None:
    """Returns the rule for the snapshots that are kept, or `None` if there is none."""
    if older_than is None and keep == 0:
        return None
    older_than = older_than or timedelta()
    age = {
        "seconds": older_than.days * 86_400 + older_than.seconds,
        "nanos": older_than.microseconds * 1000,
    }
    return corpus_pb2.SnapshotRetention(older_than=age, keep=keep)


@dataclass(frozen=True, slots=True)
class SnapshotRefusal:
    """Reason why a snapshot was not deleted."""

    reason: str
    """Stable upper-case reason, such as `SNAPSHOT_IN_USE`."""
    message: str
    """Message for a person: what is in the way and what to do."""


@dataclass(frozen=True, slots=True)
class SnapshotDeletion:
    """Result of deleting one snapshot."""

    snapshot: str
    """Name of the snapshot."""
    description: Snapshot | None
    """The snapshot, if it was complete."""
    files: int
    """Number of files that were removed, or would be in a preview."""
    refusal: SnapshotRefusal | None
    """Reason why it was not deleted. `None` if it was, or would be in a preview."""


@dataclass(frozen=True, slots=True)
class RestoredCorpus:
    """Result of restoring a snapshot."""

    corpus: CorpusInfo
    """The corpus."""
    left_out: int
    """Number of documents of the snapshot that were left out."""
