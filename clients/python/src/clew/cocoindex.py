"""Keeps documents of a corpus as a CocoIndex app declares them.

A function of the app makes a `clew.Document` and calls `declare_document`. A document that changes
is stored again, and one that is no longer declared is forgotten. Documents of others in the corpus
are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple, cast

try:
    import cocoindex as coco
    from cocoindex.connectorkits.fingerprint import fingerprint_object
except ImportError as error:
    raise ImportError(
        "`clew.cocoindex` needs CocoIndex: pip install 'clew-memory[cocoindex]'"
    ) from error

from clew._aio.client import AsyncClient
from clew._values.document import Document

__all__ = ["declare_document"]


def declare_document(client: coco.ContextKey[AsyncClient], corpus: str, document: Document) -> None:
    """Declares a document of a corpus, which must exist.

    A component fails if the server refuses a document or is away for long. CocoIndex logs that and
    tries again in the next update. A document is declared by one component only.

    Args:
        client: Key under which the app provides the client. CocoIndex remembers documents by it, so
            it must stay the same for the same server.
        corpus: Name of the corpus.
        document: The document. Its `source_version` is not needed, because CocoIndex orders what it
            writes.
    """
    key = _Key(client.key, corpus, document.id)
    coco.declare_target_state(_provider.target_state(key, document))


class _Key(NamedTuple):
    client: str
    corpus: str
    id: str


class _Action(NamedTuple):
    key: _Key
    document: Document | None
    """The document to store. `None` to forget it."""


class _Handler(coco.TargetHandler[Document, bytes]):
    """Compares what is declared with what was written, by fingerprints of the documents."""

    def reconcile(
        self,
        key: coco.StableKey,
        desired: Document | coco.NonExistenceType,
        previous: Collection[bytes],
        previous_may_be_missing: bool,
        /,
    ) -> coco.TargetReconcileOutput[_Action, bytes] | None:
        """Returns what is to be done for a document. `None` if nothing is."""
        if coco.is_non_existence(desired):
            if not previous and not previous_may_be_missing:
                return None
            return coco.TargetReconcileOutput(_Action(_key(key), None), _sink, coco.NON_EXISTENCE)
        fingerprint = fingerprint_object(desired)
        if not previous_may_be_missing and all(each == fingerprint for each in previous):
            return None
        return coco.TargetReconcileOutput(_Action(_key(key), desired), _sink, fingerprint)


def _key(key: coco.StableKey) -> _Key:
    # CocoIndex hands out what `declare_document` made, as a tuple.
    return _Key(*cast(tuple[str, str, str], key))


async def _apply(context: coco.ContextProvider, actions: Sequence[_Action]) -> None:
    """Stores and forgets documents. May be repeated, as CocoIndex does after a failure."""
    by_corpus: defaultdict[tuple[str, str], list[_Action]] = defaultdict(list)
    for action in actions:
        by_corpus[action.key.client, action.key.corpus].append(action)
    for (client, name), of_corpus in by_corpus.items():
        corpus = context.get(client, AsyncClient).corpus(name)
        stored = [action.document for action in of_corpus if action.document is not None]
        report = await corpus.ingest(stored)
        forgotten = [action.key.id for action in of_corpus if action.document is None]
        if forgotten:
            await corpus.forget(forgotten)
        report.raise_for_refused()


_sink = coco.TargetActionSink.from_async_fn(_apply)
_provider = coco.register_root_target_states_provider("clew/document", _Handler())
