"""Documents, their states and chunks, and receipts of forgetting them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from clew._errors import invalid
from clew._proto import ingest_pb2
from clew._values.attribute import Attributes, Value, attributes_from_wire, attributes_to_wire
from clew._values.wire import Wire, from_wire, texts_to_wire, time_from_wire, time_to_wire

Stage = Literal["unspecified", "pending", "indexed", "failed"]
"""Stage of a document on its way to being searchable. `failed` is one that was set aside."""
MediaType = Literal["text/plain", "text/markdown"]
"""Format of a text."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document to be stored."""

    id: str
    """Id, unique in the corpus: 1 to 512 bytes without control characters. A document with the id
    of an earlier one replaces it."""
    text: str | bytes
    """Text, at most 16 MiB unless the server is configured for more. Bytes are UTF-8."""
    title: str = ""
    """Title, shown with citations and embedded with each chunk: at most 1 KiB."""
    media_type: MediaType = "text/plain"
    """Format of the text."""
    attributes: Attributes = field(default_factory=dict)
    """Attributes for filters: at most 64. `url` is where the document can be opened, `source` is
    where it comes from."""
    event_time: datetime | None = None
    """Time at which the events that it tells of happened, with a time zone."""
    labels: tuple[str, ...] = ()
    """Access labels: only callers who hold all of them see the document."""
    source_version: int | None = None
    """Number by which its source orders its states, such as an offset in a log. A document with a
    lower number than the stored one is answered as unchanged."""


# Leftovers that a scan names, as the server does.
_LEFTOVERS = 32
_FIELDS = tuple(each.name for each in fields(Document))


def document_of(document: Document | Mapping[str, Any]) -> Document:
    """Returns the document that a caller gave, which may be a mapping of its fields."""
    if isinstance(document, Document):
        return document
    if not isinstance(document, Mapping):
        raise invalid(
            "documents", f"expected a Document or a mapping, got {type(document).__name__}"
        )
    unknown = [str(name) for name in document if name not in _FIELDS]
    missing = [name for name in ("id", "text") if name not in document]
    if unknown or missing:
        wrong = [*(f"unknown `{name}`" for name in unknown), *(f"no `{name}`" for name in missing)]
        got = f"{', '.join(wrong)} in document `{document.get('id', '')}`"
        raise invalid("documents", f"expected some of {', '.join(_FIELDS)}, got {got}")
    return Document(**document)


def text_bytes_of(document: Document) -> bytes:
    """Returns the text in UTF-8. What is no character is passed on, so that the server refuses the
    document by the name of the field, and the others of its stream are stored.
    """
    if isinstance(document.text, bytes):
        return document.text
    return document.text.encode("utf-8", "surrogatepass")


def document_to_wire(document: Document) -> ingest_pb2.Document:
    """Returns a document as it travels, without its text."""
    return ingest_pb2.Document(
        id=document.id,
        media_type=document.media_type,
        title=document.title,
        attributes=attributes_to_wire(document.attributes, "document.attributes"),
        event_time=time_to_wire(document.event_time, "document.event_time"),
        labels=texts_to_wire(document.labels, "document.labels"),
        source_version=document.source_version,
    )


@dataclass(frozen=True, slots=True)
class DocumentState:
    """State of a stored document."""

    id: str
    """Id of the document."""
    version: int
    """Newest accepted version."""
    live_version: int
    """Version that searches see. 0 if none yet."""
    stage: Stage
    """Stage of the newest version."""
    attempts: int
    """Number of failed attempts to index the newest version."""
    last_error: str
    """The last error. Empty if none."""
    waits_for: str
    """Event that it waits for, for a person. Empty if it waits for nothing."""
    text_bytes: int
    """Bytes of its text."""
    chunks: int
    """Number of chunks of the live version."""
    accepted_at: datetime | None
    """Time at which the newest version was accepted."""
    nodes: int
    """Number of tree nodes of the live version. 0 until its tree and graph are built."""
    labels: tuple[str, ...]
    """Access labels that a caller must hold to see it."""
    title: str
    """Title, if it was asked for."""
    attributes: Mapping[str, Value]
    """Attributes, if they were asked for."""
    source_version: int | None
    """`source_version` of the newest version. `None` if it came without one."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A stored document with its whole text and its state, all of one version: the one that
    searches find, or the newest if none is searchable yet.
    """

    id: str
    """Id, unique in the corpus."""
    text: str
    """Its text."""
    title: str
    """Title. May be empty."""
    media_type: MediaType
    """Format of the text."""
    attributes: Mapping[str, Value]
    """Attributes, by name."""
    event_time: datetime | None
    """Time at which the events that it tells of happened."""
    labels: tuple[str, ...]
    """Access labels: only callers who hold all of them see the document."""
    state: DocumentState
    """State of the document."""


def stored_from_wire(response: ingest_pb2.GetDocumentResponse, text: bytes) -> StoredDocument:
    """Returns a stored document, whose text came in parts."""
    document = response.document
    media_type: MediaType = (
        "text/markdown" if document.media_type == "text/markdown" else "text/plain"
    )
    has_time = document.HasField("event_time")
    return StoredDocument(
        id=document.id,
        text=text.decode(),
        title=document.title,
        media_type=media_type,
        attributes=attributes_from_wire(document.attributes),
        event_time=time_from_wire(document.event_time) if has_time else None,
        labels=tuple(document.labels),
        state=from_wire(DocumentState, response.state),
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document that is embedded and indexed."""

    id: Annotated[str, Wire("chunk_id")]
    """Id of the chunk, as in `Passage.chunk_id`."""
    ordinal: int
    """Position among the document's chunks, from 0."""
    kind: Literal["unspecified", "passage", "statement", "key"]
    """What of the document it is made of: a passage of the text, a statement in a turn of a
    conversation, or a key by which a turn is found."""
    start: int
    """First byte of the chunk in the document's text, in UTF-8."""
    end: int
    """Byte after the last one."""
    tokens: int
    """Tokens that were embedded."""
    text: str
    """Text of that byte range. Empty unless texts were asked for."""
    key_text: str
    """Text that was embedded and indexed. Empty unless texts were asked for."""


@dataclass(frozen=True, slots=True)
class ForgottenDocument:
    """What was removed of one document."""

    id: Annotated[str, Wire("document_id")]
    """Id of the document."""
    found: bool
    """Whether there was such a document."""
    versions: int
    """Number of versions of its text that were removed."""
    chunks: int
    """Number of chunks that were removed."""
    failures: int
    """Number of failure records that were removed."""
    text_bytes: int
    """Bytes of text that were removed."""
    nodes: int
    """Number of tree nodes that were removed."""
    memories: int
    """Number of compressed memories that were removed because they held it."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """Certain or possible remains of forgotten documents."""

    place: str
    """Name of the shard, then a table or the name of a file."""
    problem: str
    """Description of what was found there."""


@dataclass(frozen=True, slots=True)
class ErasureScan:
    """Scan of the data that shards store, made after documents were erased."""

    tables: int
    """Number of tables that were searched for rows of the documents."""
    files: int
    """Number of files that were compared with those that the tables name."""
    texts: int
    """Number of parts of the documents' texts that were searched for, byte by byte."""
    searched_files: int
    """Number of files that were searched for those parts."""
    searched_bytes: int
    """Bytes of those files."""
    unsearched_files: int
    """Number of such files that were not searched."""
    leftovers: tuple[Leftover, ...]
    """Remains of the documents: the first 32."""
    leftover_count: int
    """Number of all remains."""


@dataclass(frozen=True, slots=True)
class HoldingSnapshot:
    """Snapshot that holds forgotten documents, or may hold them."""

    snapshot: str
    """Name of the snapshot. Empty if the snapshots could not be listed."""
    taken_at: datetime | None
    """Time at which it was finished. `None` if this is not known."""
    documents: int
    """Number of the documents that it holds."""
    problem: str
    """Reason why it is not known whether it holds them. Empty if it is known."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Receipt of forgetting documents."""

    documents: tuple[ForgottenDocument, ...]
    """Result for each document: in the order of the given ids, or by id. In a preview, the first
    1000 that would be forgotten."""
    verified: bool
    """Whether the stored data was scanned after the erasure and nothing of the documents was
    found. Snapshots are not part of the scan."""
    forgotten_at: datetime | None
    """Time at which the last of the documents were forgotten. `None` in a preview."""
    scan: ErasureScan | None
    """The scan. `None` in a preview."""
    snapshots: tuple[HoldingSnapshot, ...]
    """Snapshots of the corpus that hold any of the documents. Documents leave a snapshot only if it
    is deleted."""
    selected: int
    """Number of documents that were selected, or of the ids."""


def joined(receipts: Sequence[Receipt]) -> Receipt:
    """Returns the receipt of several calls, at least one, which together forgot documents."""
    if len(receipts) == 1:
        return receipts[0]
    scans = [receipt.scan for receipt in receipts if receipt.scan]
    holding: dict[str, HoldingSnapshot] = {}
    for each in (snapshot for receipt in receipts for snapshot in receipt.snapshots):
        known = holding.get(each.snapshot)
        documents = each.documents + (known.documents if known else 0)
        problem = each.problem or (known.problem if known else "")
        holding[each.snapshot] = replace(each, documents=documents, problem=problem)
    return Receipt(
        documents=tuple(each for receipt in receipts for each in receipt.documents),
        verified=all(receipt.verified for receipt in receipts),
        forgotten_at=receipts[-1].forgotten_at,
        scan=_joined(scans) if scans else None,
        snapshots=tuple(holding[name] for name in sorted(holding)),
        selected=sum(len(receipt.documents) for receipt in receipts),
    )


def _joined(scans: Sequence[ErasureScan]) -> ErasureScan:
    return ErasureScan(
        tables=sum(scan.tables for scan in scans),
        files=sum(scan.files for scan in scans),
        texts=sum(scan.texts for scan in scans),
        searched_files=sum(scan.searched_files for scan in scans),
        searched_bytes=sum(scan.searched_bytes for scan in scans),
        unsearched_files=sum(scan.unsearched_files for scan in scans),
        leftovers=tuple(each for scan in scans for each in scan.leftovers)[:_LEFTOVERS],
        leftover_count=sum(scan.leftover_count for scan in scans),
    )
