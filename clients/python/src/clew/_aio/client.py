"""The client of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType

from clew._aio.call import Calls
from clew._aio.corpus import AsyncCorpus
from clew._connection import Connected, Pathlike, connection_of
from clew._errors import AlreadyExistsError
from clew._methods import CREATE_CORPUS, EMBED, LIST_CORPORA, LIST_STRATEGIES, WHO_AM_I
from clew._proto import access_pb2, corpus_pb2, query_pb2
from clew._values.access import Caller
from clew._values.corpus import (
    ChatSettings,
    Chunking,
    CompressedMemory,
    CorpusInfo,
    Structure,
    chat_settings_to_wire,
    chunking_to_wire,
    memory_to_wire,
    structure_to_wire,
)
from clew._values.query import Embedding, Strategy, TextKind, embedding_from_wire
from clew._values.wire import choice_to_wire, from_wire, texts_to_wire

_PAGE = 1000
_DEFAULT_STRUCTURE = Structure()


class AsyncClient:
    """Client of a Clew server.

    It connects when it is first called. Each call takes a `timeout` in seconds, after which it
    fails with `DeadlineExceededError`, however often it was made again. Calls that only read, and
    those that change nothing when they are repeated, are made again if the server is away or busy.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        api_key: str | None = None,
        ca: Pathlike | None = None,
        client_certificate: Pathlike | None = None,
        client_key: Pathlike | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Prepares a client of the server at `endpoint`, such as `http://127.0.0.1:7421`.

        What is not given comes from the environment variables that the program `clew` reads:
        `CLEW_ENDPOINT`, `CLEW_API_KEY`, `CLEW_CA`, `CLEW_CLIENT_CERTIFICATE` and `CLEW_CLIENT_KEY`.

        Args:
            endpoint: Address of the server. With `https://`, it must prove its identity.
            api_key: API key to show the server.
            ca: File (PEM) with the authority that certifies the server. Default: those that gRPC
                trusts.
            client_certificate: File (PEM) with a certificate to show a server that asks for one.
            client_key: File (PEM) with the private key of that certificate.
            timeout: Seconds that a call may take unless it says otherwise.

        Raises:
            InvalidArgumentError: The address is invalid or missing, or a file cannot be read.
        """
        self._connection = connection_of(
            endpoint, api_key, ca, client_certificate, client_key, timeout
        )
        self._calls = Calls(self._connection)

    @classmethod
    def of(cls, client: Connected) -> AsyncClient:
        """Returns a client of the same server as `client`, which may be of the other kind. It has
        the same settings and a connection of its own. Calls nobody.
        """
        made = cls.__new__(cls)
        made._connection = client._connection
        made._calls = Calls(made._connection)
        return made

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Calls that run are cancelled."""
        await self._calls.close()

    def corpus(self, name: str) -> AsyncCorpus:
        """Returns a handle of a corpus, whether or not it exists. Calls nobody."""
        return AsyncCorpus(self._calls, name)

    async def create_corpus(
        self,
        name: str,
        *,
        shards: int = 1,
        chunking: Chunking | None = None,
        structure: Structure | None = _DEFAULT_STRUCTURE,
        retention_days: int = 0,
        memory: CompressedMemory | None = None,
        chat: ChatSettings | None = None,
        exist_ok: bool = False,
        timeout: float | None = None,
    ) -> AsyncCorpus:
        """Creates a corpus and returns its handle.

        Args:
            name: 1 to 63 of a-z, 0-9, `-`, `_`, beginning with a letter or digit.
            shards: Number of shards, 1 to 256, which cannot be changed later.
            chunking: Way of cutting documents. `None` means sections of at most 200 tokens.
            structure: Settings of its trees and graph. `None` means that it has none: documents
                then take less work, but strategies that walk trees and graphs cannot be used.
            retention_days: Days for which its documents are kept. 0 means for ever.
            memory: Settings of its compressed memories. `None` means that it has none.
            chat: Settings of the conversations in it. `None` means the defaults.
            exist_ok: Whether to return the handle also if the corpus exists, whatever its settings.

        Raises:
            AlreadyExistsError: The corpus exists, and `exist_ok` is not set.
        """
        request = corpus_pb2.CreateCorpusRequest(
            name=name,
            shards=shards,
            chunking=chunking_to_wire(chunking),
            structure=structure_to_wire(structure),
            without_structure=structure is None,
            retention_days=retention_days,
            memory=memory_to_wire(memory),
            chat=chat_settings_to_wire(chat),
        )
        try:
            await self._calls.unary(CREATE_CORPUS, request, self._calls.deadline(timeout))
        except AlreadyExistsError:
            if not exist_ok:
                raise
        return self.corpus(name)

    async def corpora(self, *, timeout: float | None = None) -> AsyncIterator[CorpusInfo]:
        """Yields all corpora, by name. Each page of them may take `timeout`."""
        request = corpus_pb2.ListCorporaRequest(page_size=_PAGE)
        while True:
            deadline = self._calls.deadline(timeout)
            page = await self._calls.unary(LIST_CORPORA, request, deadline)
            for corpus in page.corpora:
                yield from_wire(CorpusInfo, corpus)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def strategies(
        self, corpus: str = "", *, timeout: float | None = None
    ) -> tuple[Strategy, ...]:
        """Returns the strategies of answering, the default first.

        `corpus` names the corpus that is to be asked, if that is known.
        """
        request = query_pb2.ListStrategiesRequest(corpus=corpus)
        deadline = self._calls.deadline(timeout)
        listed = await self._calls.unary(LIST_STRATEGIES, request, deadline)
        return tuple(from_wire(Strategy, each) for each in listed.strategies)

    async def embed(
        self,
        texts: Sequence[str],
        *,
        kind: TextKind = "passage",
        model: str = "",
        timeout: float | None = None,
    ) -> tuple[Embedding, ...]:
        """Returns the embeddings of texts, 1 to 128, in their order.

        `model` names an embedding model that the encoders offer. Empty means the one for new
        corpora. See `AsyncCorpus.embed` for that of a corpus.
        """
        request = query_pb2.EmbedRequest(
            model=model,
            texts=texts_to_wire(texts, "texts"),
            kind=choice_to_wire(kind, query_pb2.TextKind, "kind"),
        )
        made = await self._calls.unary(EMBED, request, self._calls.deadline(timeout))
        return tuple(embedding_from_wire(each) for each in made.embeddings)

    async def whoami(self, *, timeout: float | None = None) -> Caller:
        """Returns who the server takes the caller for, and what the caller may do."""
        request = access_pb2.WhoAmIRequest()
        caller = await self._calls.unary(WHO_AM_I, request, self._calls.deadline(timeout))
        return from_wire(Caller, caller)
