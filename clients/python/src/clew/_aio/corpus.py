"""A corpus: its documents, searches, questions and snapshots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from clew._aio.call import Calls
from clew._aio.channel import Source, sleep
from clew._aio.ingest import Ingestion
from clew._aio.user import AsyncUser
from clew._errors import AbortedError, InternalError, InvalidArgumentError, UnavailableError
from clew._filters import Where, filter_to_wire
from clew._methods import (
    ANSWER,
    DELETE_CORPUS,
    DELETE_SNAPSHOTS,
    EMBED,
    FORGET_DOCUMENTS,
    GET_CORPUS,
    GET_DOCUMENT,
    LIST_CHUNKS,
    LIST_DOCUMENTS,
    LIST_SNAPSHOTS,
    LIST_USERS,
    RESTORE_CORPUS,
    SEARCH,
    SNAPSHOT_CORPUS,
    WATCH_INGESTION,
)
from clew._proto import chat_pb2, corpus_pb2, ingest_pb2, query_pb2
from clew._retry import Deadline
from clew._values.chat import ChatUser
from clew._values.corpus import (
    CopyProgress,
    CorpusInfo,
    DeletedCorpus,
    RestoredCorpus,
    Snapshot,
    SnapshotDeletion,
    retention_to_wire,
)
from clew._values.document import (
    Chunk,
    Document,
    DocumentState,
    Receipt,
    Stage,
    StoredDocument,
    joined,
    stored_from_wire,
)
from clew._values.ingestion import DocumentResult, IngestionProgress, IngestReport
from clew._values.query import (
    Answer,
    Embedding,
    Grouping,
    MemoryUse,
    Mode,
    SearchResult,
    Task,
    TextKind,
    embedding_from_wire,
)
from clew._values.trace import AnswerEvent, event_from_wire
from clew._values.wire import choice_to_wire, from_wire, texts_to_wire, time_to_wire

# Documents and chunks of a page with their attributes or texts, and without.
_FULL_PAGE = 100
_PAGE = 1000
# Ids that one call forgets.
_FORGOTTEN_AT_ONCE = 1000
# Number of attempts to read a text in parts if the document is replaced meanwhile.
_READ_ATTEMPTS = 10
# Seconds between two looks at an ingestion that a restart of the server interrupted.
_PAUSE = 0.5
# Seconds that calls take by default whose work depends on how much a corpus holds.
_LONG = 3600.0


class AsyncCorpus:
    """Handle of a corpus. Made by `AsyncClient.corpus`, and cheap.

    Every call raises `NotFoundError` if the corpus does not exist.
    """

    def __init__(self, calls: Calls, name: str) -> None:
        self._calls = calls
        self._name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def name(self) -> str:
        """Name of the corpus."""
        return self._name

    async def describe(self, *, timeout: float | None = None) -> CorpusInfo:
        """Returns the settings and the contents of the corpus."""
        request = corpus_pb2.GetCorpusRequest(name=self._name)
        response = await self._calls.unary(GET_CORPUS, request, self._calls.deadline(timeout))
        return from_wire(CorpusInfo, response.corpus)

    async def delete(self, *, timeout: float | None = None) -> DeletedCorpus:
        """Deletes the corpus with everything that was derived from it. Its snapshots remain."""
        request = corpus_pb2.DeleteCorpusRequest(name=self._name)
        response = await self._calls.unary(DELETE_CORPUS, request, self._calls.deadline(timeout))
        return from_wire(DeletedCorpus, response)

    async def ingest(
        self,
        documents: Source[Document | Mapping[str, Any]],
        *,
        wait: bool = False,
        only_additions: bool = False,
        on_result: Callable[[DocumentResult], None] | None = None,
        patience: float = 120.0,
    ) -> IngestReport:
        """Stores documents. Returns once each is acknowledged or refused.

        An acknowledged document is on disk. A refused one does not end the ingestion: see
        `IngestReport.raise_for_refused`. Documents with one id are stored in their order. Documents
        are read as the server takes them, and only those that it has not answered for are in
        memory: at most 2048, or 16 MiB of texts, or one.

        If the connection breaks, everything that is not acknowledged is sent again, which stores
        nothing twice. That happens as `documents` is read, so an iterable that waits for long
        delays it.

        Args:
            documents: The documents, or mappings of their fields.
            wait: Whether to wait until all documents of the corpus are searchable as well, for an
                hour at most.
            only_additions: Whether to refuse documents that would replace another content, with
                the reason `DOCUMENT_EXISTS`.
            on_result: Called for each document as its result comes.
            patience: Seconds for which the server may be away or take nothing. An ingestion has no
                other limit.

        Raises:
            InvalidArgumentError: A document is not of the right form. Those before it may be
                stored.
            UnavailableError: The server was away or took nothing for `patience`. What was
                acknowledged is stored; ingest the same documents again.
        """
        ingestion = Ingestion(
            self._calls,
            self._name,
            only_additions=only_additions,
            on_result=on_result,
            patience=patience,
        )
        report = await ingestion.run(documents)
        if wait:
            await self.wait_until_indexed()
        return report

    async def wait_until_indexed(self, *, timeout: float = _LONG) -> IngestionProgress:
        """Waits until no document waits to be indexed, and returns the state then.

        Documents that were set aside with an error count as `failed_documents`.
        """
        deadline = Deadline(timeout)
        while True:
            last = None
            try:
                async for progress in self._watch(deadline, until_idle=True):
                    last = progress
            except UnavailableError:
                # The server restarts, or a shard moves: see what it says afterwards.
                last = None
            if last is not None and last.pending_documents == 0:
                return last
            deadline.check()
            await sleep(min(_PAUSE, deadline.left()))

    async def watch(self, *, timeout: float = _LONG) -> AsyncIterator[IngestionProgress]:
        """Yields the progress of indexing as it changes, for as long as it is read."""
        async for progress in self._watch(Deadline(timeout), until_idle=False):
            yield progress

    async def _watch(
        self, deadline: Deadline, *, until_idle: bool
    ) -> AsyncIterator[IngestionProgress]:
        request = ingest_pb2.WatchIngestionRequest(corpus=self._name, until_idle=until_idle)
        async for progress in self._calls.stream(WATCH_INGESTION, request, deadline):
            yield from_wire(IngestionProgress, progress)

    async def document(self, id: str, *, timeout: float | None = None) -> StoredDocument:
        """Returns a stored document with its whole text.

        Raises:
            NotFoundError: There is no such document.
            AbortedError: The document was replaced during every attempt to read it.
        """
        deadline = self._calls.deadline(timeout)
        for _ in range(_READ_ATTEMPTS):
            stored = await self._one_version(id, deadline)
            if stored is not None:
                return stored
        raise AbortedError(
            f"document `{id}` was replaced whenever it was read; try again",
            reason="DOCUMENT_REPLACED",
        )

    async def _one_version(self, id: str, deadline: Deadline) -> StoredDocument | None:
        """Reads a text in parts. Returns `None` if another version came before the last part."""
        text = bytearray()
        version = None
        while True:
            request = ingest_pb2.GetDocumentRequest(
                corpus=self._name, document_id=id, text_offset=len(text)
            )
            try:
                response = await self._calls.unary(GET_DOCUMENT, request, deadline)
            except InvalidArgumentError:
                # The offset means nothing in the text of another version.
                if text:
                    return None
                raise
            if version not in (None, response.state.version):
                return None
            version = response.state.version
            text += response.document.text
            if not response.document.text or len(text) >= response.state.text_bytes:
                return stored_from_wire(response, bytes(text))

    async def documents(
        self,
        *,
        where: Where | None = None,
        id_prefix: str = "",
        stage: Stage | None = None,
        with_attributes: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[DocumentState]:
        """Yields the states of documents, by id. Each page of them may take `timeout`.

        Args:
            where: Only documents that this admits.
            id_prefix: Only documents whose ids begin with this.
            stage: Only documents at this stage.
            with_attributes: Whether titles and attributes are wanted as well.
        """
        request = ingest_pb2.ListDocumentsRequest(
            corpus=self._name,
            filter=filter_to_wire(where),
            id_prefix=id_prefix,
            stage=choice_to_wire(stage or "", ingest_pb2.DocumentStage, "stage"),
            with_attributes=with_attributes,
            page_size=_FULL_PAGE if with_attributes else _PAGE,
        )
        while True:
            deadline = self._calls.deadline(timeout)
            page = await self._calls.unary(LIST_DOCUMENTS, request, deadline)
            for state in page.documents:
                yield from_wire(DocumentState, state)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def chunks(
        self, id: str, *, with_texts: bool = True, timeout: float | None = None
    ) -> AsyncIterator[Chunk]:
        """Yields the chunks of a document, in their order. Each page of them may take `timeout`.

        Raises:
            NotFoundError: There is no such document.
            AbortedError: The document was replaced meanwhile. Begin again.
        """
        request = ingest_pb2.ListChunksRequest(
            corpus=self._name,
            document_id=id,
            with_texts=with_texts,
            page_size=_FULL_PAGE if with_texts else _PAGE,
        )
        while True:
            deadline = self._calls.deadline(timeout)
            page = await self._calls.unary(LIST_CHUNKS, request, deadline)
            for chunk in page.chunks:
                yield from_wire(Chunk, chunk)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def forget(
        self,
        ids: Iterable[str] = (),
        *,
        where: Where | None = None,
        id_prefix: str = "",
        preview: bool = False,
        timeout: float | None = None,
    ) -> Receipt:
        """Forgets documents, down to the bytes on disk, and returns the receipt.

        Documents are named by `ids`, or selected by `where`, `id_prefix` or both. The server
        forgets 1000 at once, so more take several calls, each of which may take `timeout`. A
        document that does not exist counts as not found.

        Args:
            ids: Ids of the documents, each once.
            where: Selects the documents that this admits.
            id_prefix: Selects the documents whose ids begin with this.
            preview: Whether only to return what would be forgotten. Nothing is changed.

        Raises:
            InvalidArgumentError: Nothing restricts what is forgotten.
            DeadlineExceededError: The documents are gone from searches, and their bytes follow.
                Call again for the receipt.
        """
        request = ingest_pb2.ForgetDocumentsRequest(
            corpus=self._name, filter=filter_to_wire(where), id_prefix=id_prefix, preview=preview
        )
        named = texts_to_wire(ids, "ids")
        receipts: list[Receipt] = []
        for start in range(0, max(1, len(named)), _FORGOTTEN_AT_ONCE):
            del request.document_ids[:]
            request.document_ids.extend(named[start : start + _FORGOTTEN_AT_ONCE])
            while True:
                deadline = self._calls.deadline(timeout)
                response = await self._calls.unary(FORGET_DOCUMENTS, request, deadline)
                receipts.append(from_wire(Receipt, response))
                is_all = response.selected <= len(response.documents)
                if preview or named or is_all or not response.documents:
                    break
        return joined(receipts)

    async def search(
        self,
        query: str,
        *,
        k: int = 10,
        mode: Mode = "hybrid",
        where: Where | None = None,
        grouping: Grouping = "chunks",
        exact: bool = False,
        rerank: int | None = None,
        with_attributes: bool = False,
        page_token: str = "",
        timeout: float | None = None,
    ) -> SearchResult:
        """Returns the passages that match a query best.

        Args:
            query: Words of the question, at most 16 KiB.
            k: Maximum passages: 1 to 1000.
            mode: Way in which passages are matched.
            where: Restriction of what may be found.
            grouping: Unit of evidence: each chunk, or each document once by its best chunk.
            exact: Whether to compare with every vector instead of using the approximate index.
            rerank: Number of the best candidates that a reranker reads: `k` to 200. `None` means
                none.
            with_attributes: Whether each passage comes with the attributes of its document. Then
                `k` is at most 200.
            page_token: `next_page_token` of the page before, with the same other arguments.
        """
        request = query_pb2.SearchRequest(
            corpus=self._name,
            query=query,
            k=k,
            mode=choice_to_wire(mode, query_pb2.SearchMode, "mode"),
            filter=filter_to_wire(where),
            grouping=choice_to_wire(grouping, query_pb2.Grouping, "grouping"),
            exact=exact,
            rerank=rerank,
            with_attributes=with_attributes,
            page_token=page_token,
        )
        found = await self._calls.unary(SEARCH, request, self._calls.deadline(timeout))
        return from_wire(SearchResult, found)

    async def ask(
        self,
        question: str,
        *,
        strategy: str = "",
        k: int | None = None,
        where: Where | None = None,
        task: Task = "answer",
        asked_at: datetime | None = None,
        evidence_tokens: int | None = None,
        memory_use: MemoryUse = "clues",
        rerank: int | None = None,
        with_attributes: bool = False,
        timeout: float | None = None,
    ) -> Answer:
        """Answers a question from the documents of the corpus.

        Args:
            question: The question, or what to summarise; at most 16 KiB.
            strategy: Name of the strategy: see `AsyncClient.strategies`. Empty means `direct`.
            k: Maximum passages that are read: 1 to 1000. `None` means the strategy's default.
            where: Restriction of what may be found.
            task: Kind of text that is wanted.
            asked_at: Time at which the question is asked, if that matters for its meaning.
            evidence_tokens: Maximum tokens of the passages that are read: 1 to 32768. `None` means
                the strategy's limits.
            memory_use: Use of the compressed memories of the corpus.
            rerank: Number of the best candidates that a reranker reads. `None` means none.
            with_attributes: Whether each citation comes with the attributes of its document.
        """
        answer = None
        async for event in self.ask_stream(
            question,
            strategy=strategy,
            k=k,
            where=where,
            task=task,
            asked_at=asked_at,
            evidence_tokens=evidence_tokens,
            memory_use=memory_use,
            rerank=rerank,
            with_attributes=with_attributes,
            timeout=timeout,
        ):
            if isinstance(event, Answer):
                answer = event
        if answer is None:
            raise InternalError("expected an answer, and the server ended without one")
        return answer

    async def ask_stream(
        self,
        question: str,
        *,
        strategy: str = "",
        k: int | None = None,
        where: Where | None = None,
        task: Task = "answer",
        asked_at: datetime | None = None,
        evidence_tokens: int | None = None,
        memory_use: MemoryUse = "clues",
        rerank: int | None = None,
        with_attributes: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[AnswerEvent]:
        """Answers a question as `ask` does. Yields the steps as they happen, then pieces of the
        answer's text as `TextDelta`, and last the `Answer`.
        """
        request = query_pb2.AnswerRequest(
            corpus=self._name,
            question=question,
            strategy=strategy,
            k=k,
            filter=filter_to_wire(where),
            task=choice_to_wire(task, query_pb2.Task, "task"),
            asked_at=time_to_wire(asked_at, "asked_at"),
            evidence_tokens=evidence_tokens,
            memory_use=choice_to_wire(memory_use, query_pb2.MemoryUse, "memory_use"),
            rerank=rerank,
            with_attributes=with_attributes,
        )
        deadline = self._calls.deadline(timeout)
        async for response in self._calls.stream(ANSWER, request, deadline):
            event = event_from_wire(response)
            if event is not None:
                yield event

    async def embed(
        self, texts: Sequence[str], *, kind: TextKind = "passage", timeout: float | None = None
    ) -> tuple[Embedding, ...]:
        """Returns the embeddings of texts, 1 to 128, by the encoder of the corpus."""
        request = query_pb2.EmbedRequest(
            corpus=self._name,
            texts=texts_to_wire(texts, "texts"),
            kind=choice_to_wire(kind, query_pb2.TextKind, "kind"),
        )
        made = await self._calls.unary(EMBED, request, self._calls.deadline(timeout))
        return tuple(embedding_from_wire(each) for each in made.embeddings)

    def user(self, id: str) -> AsyncUser:
        """Returns a handle of the conversations of a user in this corpus. Calls nobody."""
        return AsyncUser(self._calls, self._name, id)

    async def users(
        self, *, prefix: str = "", timeout: float | None = None
    ) -> AsyncIterator[ChatUser]:
        """Yields the users of whom turns are stored. Each page of them may take `timeout`.

        `prefix` restricts them to those whose ids begin with it.
        """
        request = chat_pb2.ListUsersRequest(corpus=self._name, prefix=prefix, page_size=_FULL_PAGE)
        while True:
            deadline = self._calls.deadline(timeout)
            page = await self._calls.unary(LIST_USERS, request, deadline)
            for user in page.users:
                yield from_wire(ChatUser, user)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def snapshots(self, *, timeout: float | None = None) -> tuple[Snapshot, ...]:
        """Returns the complete snapshots of the corpus, by name, also if it was deleted."""
        request = corpus_pb2.ListSnapshotsRequest(name=self._name)
        listed = await self._calls.unary(LIST_SNAPSHOTS, request, self._calls.deadline(timeout))
        return tuple(from_wire(Snapshot, each) for each in listed.snapshots)

    async def snapshot(
        self,
        name: str,
        *,
        on_progress: Callable[[CopyProgress], None] | None = None,
        timeout: float = _LONG,
    ) -> Snapshot:
        """Copies the corpus to a snapshot in the place that the server is configured with.

        After a failure, the same call continues with what was copied.

        Raises:
            AlreadyExistsError: The snapshot exists and is complete.
            FailedPreconditionError: The server has no place for snapshots.
        """
        request = corpus_pb2.SnapshotCorpusRequest(name=self._name, snapshot=name)
        taken = None
        async for event in self._calls.stream(SNAPSHOT_CORPUS, request, Deadline(timeout)):
            if event.HasField("snapshot"):
                taken = from_wire(Snapshot, event.snapshot)
            elif on_progress:
                on_progress(from_wire(CopyProgress, event.progress))
        if taken is None:
            raise InternalError("expected a snapshot, and the server ended without one")
        return taken

    async def restore(
        self,
        snapshot: str,
        *,
        leave_out: Iterable[str] = (),
        on_progress: Callable[[CopyProgress], None] | None = None,
        timeout: float = _LONG,
    ) -> RestoredCorpus:
        """Creates the corpus from a snapshot of it. There must be no corpus of its name.

        After a failure, the same call continues with what was copied. `leave_out` has ids of
        documents that are not restored, such as those that were forgotten since: at most 10,000.

        Raises:
            AlreadyExistsError: The corpus exists.
            NotFoundError: There is no such snapshot.
        """
        request = corpus_pb2.RestoreCorpusRequest(
            name=self._name, snapshot=snapshot, leave_out=texts_to_wire(leave_out, "leave_out")
        )
        restored = None
        async for event in self._calls.stream(RESTORE_CORPUS, request, Deadline(timeout)):
            if event.HasField("restored"):
                restored = from_wire(RestoredCorpus, event.restored)
            elif on_progress:
                on_progress(from_wire(CopyProgress, event.progress))
        if restored is None:
            raise InternalError("expected a corpus, and the server ended without one")
        return restored

    async def delete_snapshots(
        self,
        names: Iterable[str] = (),
        *,
        older_than: timedelta | None = None,
        keep: int = 0,
        preview: bool = False,
        timeout: float = _LONG,
    ) -> tuple[SnapshotDeletion, ...]:
        """Deletes snapshots: those that are named, at most 100, or those that are older than
        `older_than` and not among the `keep` newest. Returns a result for each.

        With `preview`, nothing is changed.
        """
        request = corpus_pb2.DeleteSnapshotsRequest(
            name=self._name,
            snapshots=texts_to_wire(names, "names"),
            retention=retention_to_wire(older_than, keep),
            dry_run=preview,
        )
        deleted = await self._calls.unary(DELETE_SNAPSHOTS, request, Deadline(timeout))
        return tuple(from_wire(SnapshotDeletion, each) for each in deleted.snapshots)
