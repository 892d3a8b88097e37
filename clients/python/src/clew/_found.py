"""What the integrations with other libraries tell of what was found."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from clew._values.document import StoredDocument
from clew._values.query import Passage

_log = logging.getLogger("clew")


def metadata_of(document: Passage | StoredDocument) -> dict[str, Any]:
    """Returns the attributes of a document and, instead of attributes with these names, its `title`
    and `event_time` (ISO 8601) if it has them.
    """
    metadata: dict[str, Any] = dict(document.attributes)
    if document.title:
        metadata["title"] = document.title
    if document.event_time is not None:
        metadata["event_time"] = document.event_time.isoformat()
    return metadata


def warn_if_incomplete(shards_missing: Sequence[int], corpus: str) -> None:
    """Logs a warning if shards did not answer. The other libraries have no place to say so."""
    if shards_missing:
        _log.warning(
            "shards %s of corpus `%s` did not answer, so results may be missing",
            ", ".join(map(str, shards_missing)),
            corpus,
        )
