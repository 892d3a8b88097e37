"""Progress and results of ingesting documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clew._errors import RefusedError, Violation
from clew._proto import ingest_pb2
from clew._values.wire import from_wire

Fate = Literal["new", "replaced", "unchanged", "refused"]
"""What became of a document."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a document."""

    reason: str
    """Stable upper-case reason, such as `INVALID_INPUT` or `LABEL_NOT_HELD`."""
    violations: tuple[Violation, ...]
    """Each invalid field."""
    message: str
    """Message for a person: what was expected, what came and what to do."""
    retryable: bool
    """Whether the same document may be accepted later."""


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """What became of one document of an ingestion."""

    id: str
    """Id of the document."""
    fate: Fate
    """What became of it."""
    version: int
    """Its version. 0 if it was refused."""
    refusal: Refusal | None
    """Why it was refused. `None` if it was not."""


def result_from_wire(response: ingest_pb2.IngestResponse) -> DocumentResult:
    """Returns the result of one document."""
    if response.HasField("refused"):
        refusal = from_wire(Refusal, response.refused)
        return DocumentResult(response.document_id, "refused", 0, refusal)
    accepted = response.accepted
    fate: Fate = "new"
    if accepted.unchanged:
        fate = "unchanged"
    elif accepted.novelty == ingest_pb2.NOVELTY_REPLACED:
        fate = "replaced"
    return DocumentResult(response.document_id, fate, accepted.version, None)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of the documents of an ingestion. Each is in one of the numbers."""

    new: int
    """Documents that are stored and replaced nothing."""
    replaced: int
    """Documents that are stored and replaced another content."""
    unchanged: int
    """Documents that were stored already. If a document was sent again because the connection broke
    before its acknowledgement came, it counts here."""
    refused: int
    """Documents that were refused."""
    refusals: tuple[DocumentResult, ...]
    """Results of the refused documents: the first 1000."""

    @property
    def documents(self) -> int:
        """Number of all documents."""
        return self.new + self.replaced + self.unchanged + self.refused

    def raise_for_refused(self) -> None:
        """Raises `RefusedError` if a document was refused."""
        if not self.refusals:
            return
        first = self.refusals[0]
        refusal = first.refusal
        reason, message = (refusal.reason, refusal.message) if refusal else ("", "")
        raise RefusedError(
            f"{self.refused} of {self.documents} documents were refused, the first `{first.id}`: "
            f"{message}",
            reason=reason,
            report=self,
        )


@dataclass(frozen=True, slots=True)
class IngestionProgress:
    """Progress of indexing a corpus."""

    documents: int
    """Documents that are accepted and not forgotten."""
    indexed_documents: int
    """Documents whose newest version is searchable."""
    pending_documents: int
    """Documents whose newest version waits to be indexed."""
    failed_documents: int
    """Documents that are set aside with an error."""
    chunks: int
    """Searchable chunks."""
    tokens: int
    """Tokens of those chunks."""
