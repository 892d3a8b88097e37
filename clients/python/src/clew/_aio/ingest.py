"""Sends documents to a server that may go away and come back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from clew._aio.call import Calls
from clew._aio.channel import Source, Stream, items_of, sleep
from clew._ingestion import Sending, Tally, parcel_of
from clew._methods import INGEST
from clew._status import BrokenStreamError
from clew._values.document import Document, document_of
from clew._values.ingestion import DocumentResult, IngestReport


class Ingestion:
    """One ingestion into a corpus."""

    def __init__(
        self,
        calls: Calls,
        corpus: str,
        *,
        only_additions: bool,
        on_result: Callable[[DocumentResult], None] | None,
        patience: float,
    ) -> None:
        self._calls = calls
        self._corpus = corpus
        self._only_additions = only_additions
        self._patience = patience
        self._sending = Sending()
        self._tally = Tally(on_result)

    async def run(self, documents: Source[Document | Mapping[str, Any]]) -> IngestReport:
        """Sends all documents and returns once each is answered."""
        source = items_of(documents)
        while True:
            # There is a document to send before there is a stream.
            await self._read(source)
            if self._sending.is_done:
                return self._tally.report()
            try:
                await self._stream(source)
            except BrokenStreamError as broke:
                await sleep(self._sending.broke(broke.error, self._patience))

    async def _read(self, source: AsyncIterator[Document | Mapping[str, Any]]) -> None:
        if self._sending.wants_document:
            try:
                document = await anext(source)
            except StopAsyncIteration:
                self._sending.offer(None)
            else:
                self._sending.offer(parcel_of(document_of(document)))

    async def _stream(self, source: AsyncIterator[Document | Mapping[str, Any]]) -> None:
        """Sends until this stream is to end, and reads all its answers."""
        stream = Stream(self._calls.channels, INGEST, self._patience)
        try:
            is_open = True
            while True:
                parcel = self._sending.next()
                if parcel is not None:
                    for message in parcel.messages(self._corpus, self._only_additions):
                        await stream.send(message)
                elif is_open and self._sending.ends_stream:
                    await stream.finish()
                    is_open = False
                # Answers make room, and tell of errors, so they come before what is new.
                is_full = parcel is None and not self._sending.wants_document
                if stream.has_event or not is_open or is_full:
                    if not await self._answer(stream):
                        break
                else:
                    await self._read(source)
        finally:
            await stream.close()
        self._sending.ended()

    async def _answer(self, stream: Stream) -> bool:
        """Waits for the next answer. Returns whether there was one."""
        response = await stream.event()
        if response is None:
            return False
        result = self._sending.answered(response)
        if result is not None:
            self._tally.add(result)
        return True
