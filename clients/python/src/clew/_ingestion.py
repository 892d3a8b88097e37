"""What an ingestion knows of its documents: which to send next, and what became of them.

Nothing here waits or sends, so both clients share it. Documents that were sent and not answered are
kept, within bounds, and sent again when the stream breaks off. The server recognises what it has by
its content, so nothing is stored twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clew._errors import TRANSPORT, ClewError, InternalError, UnavailableError, invalid
from clew._proto import ingest_pb2
from clew._retry import pause_after
from clew._status import BrokenStreamError
from clew._values.document import Document, document_to_wire, text_bytes_of
from clew._values.ingestion import DocumentResult, IngestReport, Refusal, result_from_wire

# Bytes of text in one message, as the server reads them.
PART_BYTES = 1 << 20
# Maximum bytes of a document without its text, so that it fits into a message with a part.
_HEAD_BYTES = 2 << 20
# Maximum of documents that are sent and not answered. A single document may have more bytes.
_UNANSWERED = 2_048
_UNANSWERED_BYTES = 16 << 20
# Maximum of documents in one stream. The server takes a million; here it bounds the ids that are
# remembered, because each may come once in a stream.
_STREAM_DOCUMENTS = 10_000
# Refusals that a report has.
_REFUSALS = 1_000
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Parcel:
    """A document that is ready to be sent."""

    head: ingest_pb2.Document
    """The document without its text."""
    text: bytes
    """Its text."""

    def messages(self, corpus: str, is_addition: bool) -> Iterator[ingest_pb2.IngestRequest]:
        """Yields the messages that carry the document."""
        first = ingest_pb2.Document()
        first.CopyFrom(self.head)
        first.text = self.text[:PART_BYTES]
        size = len(self.text)
        yield ingest_pb2.IngestRequest(
            corpus=corpus,
            document=None if is_addition else first,
            addition=first if is_addition else None,
            continues=size > PART_BYTES,
            text_bytes=size if size > PART_BYTES else 0,
        )
        for start in range(PART_BYTES, size, PART_BYTES):
            end = start + PART_BYTES
            yield ingest_pb2.IngestRequest(text_part=self.text[start:end], continues=end < size)


def parcel_of(document: Document) -> Parcel:
    """Returns a document ready to be sent.

    Raises `InvalidArgumentError` if it cannot be written as a message.
    """
    try:
        parcel = Parcel(document_to_wire(document), text_bytes_of(document))
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ClewError):
            raise
        raise invalid(
            "documents", f"expected a Document, got `{document!r:.200}`: {error}"
        ) from error
    size = parcel.head.ByteSize()
    if size > _HEAD_BYTES:
        expected = f"expected at most {_HEAD_BYTES} bytes of a document besides its text"
        raise invalid("documents", f"{expected}, got {size} in `{document.id:.200}`")
    return parcel


class Sending:
    """The documents of one ingestion that are on their way."""

    def __init__(self) -> None:
        self._waiting: deque[Parcel] = deque()
        self._unanswered: deque[Parcel] = deque()
        self._unanswered_bytes = 0
        # Documents that were refused for now, and the last reason.
        self._refused: list[Parcel] = []
        self._refusal: Refusal | None = None
        self._ids: set[str] = set()
        self._is_read = False
        self._has_progressed = False
        self._pause = _FIRST_PAUSE
        self._failing_since: float | None = None

    @property
    def wants_document(self) -> bool:
        """Whether the next document is wanted from the source."""
        return not self._is_read and not self._waiting and not self._refused

    @property
    def is_done(self) -> bool:
        """Whether every document is answered."""
        return self._is_read and not (self._waiting or self._unanswered or self._refused)

    @property
    def ends_stream(self) -> bool:
        """Whether nothing more is to be sent in this stream."""
        if self._refused or (self._is_read and not self._waiting):
            return True
        if not self._waiting:
            return False
        # Each id may come once in a stream.
        return self._waiting[0].head.id in self._ids or len(self._ids) >= _STREAM_DOCUMENTS

    def offer(self, parcel: Parcel | None) -> None:
        """Takes the next document of the source, or `None` if it has no more."""
        if parcel is None:
            self._is_read = True
        else:
            self._waiting.append(parcel)

    def next(self) -> Parcel | None:
        """Returns the document to send now, which counts as sent. `None` if there is no room or
        none to send.
        """
        if not self._waiting or self.ends_stream or not self._has_room_for(self._waiting[0]):
            return None
        parcel = self._waiting.popleft()
        self._ids.add(parcel.head.id)
        self._unanswered.append(parcel)
        self._unanswered_bytes += len(parcel.text)
        return parcel

    def _has_room_for(self, parcel: Parcel) -> bool:
        is_full = (
            len(self._unanswered) >= _UNANSWERED
            or self._unanswered_bytes + len(parcel.text) > _UNANSWERED_BYTES
        )
        return not self._unanswered or not is_full

    def answered(self, response: ingest_pb2.IngestResponse) -> DocumentResult | None:
        """Takes the answer for the oldest document that has none. Returns what became of it, or
        `None` if it is to be sent again later.
        """
        expected = self._unanswered[0].head.id if self._unanswered else None
        if response.document_id != expected:
            raise InternalError(
                f"expected the answer for `{expected}`, and the server answered for "
                f"`{response.document_id}`; report this",
                reason="ANSWER_OUT_OF_ORDER",
            )
        parcel = self._unanswered.popleft()
        self._unanswered_bytes -= len(parcel.text)
        result = result_from_wire(response)
        if result.refusal and result.refusal.retryable:
            self._refused.append(parcel)
            self._refusal = result.refusal
            return None
        self._has_progressed = True
        return result

    def ended(self) -> None:
        """Notes the end of a stream.

        Raises `BrokenStreamError` if documents have to be sent again.
        """
        self._ids.clear()
        if self._refused and self._refusal:
            raise BrokenStreamError(
                UnavailableError(self._refusal.message, reason=self._refusal.reason)
            )
        if self._unanswered:
            message = "the server ended the stream before it answered for all documents"
            raise BrokenStreamError(UnavailableError(message))

    def broke(self, error: ClewError, patience: float) -> float:
        """Puts everything unanswered back, in the order in which it was first sent. Returns the
        seconds to wait before the next stream.

        Raises `error` if trying again does not help, or if the server took nothing for `patience`
        seconds.
        """
        # gRPC tells of a connection that breaks within a message as an internal error.
        broke_within = isinstance(error, InternalError) and error.reason == TRANSPORT
        if not (error.is_retryable or broke_within):
            raise error
        if self._has_progressed:
            self._pause, self._failing_since = _FIRST_PAUSE, None
        self._has_progressed = False
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > patience:
            error.message += (
                f" (the server took nothing for {patience:g} s; ingest the same documents again, "
                "what was accepted is kept)"
            )
            raise error
        self._waiting.extendleft(reversed([*self._refused, *self._unanswered]))
        self._refused.clear()
        self._unanswered.clear()
        self._unanswered_bytes = 0
        self._ids.clear()
        pause = pause_after(error, self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return pause


class Tally:
    """Counts what became of documents."""

    def __init__(self, on_result: Callable[[DocumentResult], None] | None) -> None:
        self._on_result = on_result
        self._numbers = {"new": 0, "replaced": 0, "unchanged": 0, "refused": 0}
        self._refusals: list[DocumentResult] = []

    def add(self, result: DocumentResult) -> None:
        """Counts one document and tells the caller of it."""
        self._numbers[result.fate] += 1
        if result.refusal and len(self._refusals) < _REFUSALS:
            self._refusals.append(result)
        if self._on_result:
            self._on_result(result)

    def report(self) -> IngestReport:
        """Returns the numbers so far."""
        return IngestReport(**self._numbers, refusals=tuple(self._refusals))
