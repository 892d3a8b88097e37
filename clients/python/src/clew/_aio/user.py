"""The conversations of one user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime

from clew._aio.call import Calls
from clew._errors import InternalError
from clew._filters import Where, filter_to_wire
from clew._methods import (
    ANSWER_FROM_TURNS,
    APPEND_TURNS,
    FORGET_TURNS,
    LIST_SESSIONS,
    LIST_TURNS,
    RECALL,
)
from clew._proto import chat_pb2
from clew._values.chat import (
    AppendedTurn,
    ChatSession,
    Inference,
    Recall,
    StoredTurn,
    Turn,
    TurnReceipt,
    turn_to_wire,
)
from clew._values.corpus import History, Layout, Merging, Notes, TimeUse, Unit
from clew._values.query import Answer
from clew._values.trace import AnswerEvent, event_from_wire
from clew._values.wire import choice_to_wire, from_wire, texts_to_wire, time_to_wire

_PAGE = 100


class AsyncUser:
    """Handle of the conversations of one user in a corpus. Made by `AsyncCorpus.user`, and cheap.

    Every call raises `NotFoundError` if the corpus does not exist.
    """

    def __init__(self, calls: Calls, corpus: str, id: str) -> None:
        self._calls = calls
        self._corpus = corpus
        self._id = id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._corpus!r}, {self._id!r})"

    @property
    def id(self) -> str:
        """Id of the user."""
        return self._id

    async def append(
        self,
        turns: Iterable[Turn],
        *,
        session: str,
        wait: bool = True,
        inference: Inference = "rules",
        labels: Iterable[str] = (),
        timeout: float | None = None,
    ) -> tuple[AppendedTurn, ...]:
        """Appends turns to a session, which begins with its first turn.

        A turn is identified by its number. Appending the same turn again changes nothing, and
        appending another text under its number corrects it.

        Args:
            turns: The turns, 1 to 1000, each number once.
            session: Id of the session: 1 to 200 bytes without `/` and control characters.
            wait: Whether to wait until the turns are searchable.
            inference: Method that finds the statements of the speakers.
            labels: Access labels of each of the turns.
        """
        request = chat_pb2.AppendTurnsRequest(
            corpus=self._corpus,
            user=self._id,
            session=session,
            turns=[turn_to_wire(turn) for turn in turns],
            without_waiting=not wait,
            inference=choice_to_wire(inference, chat_pb2.Inference, "inference"),
            labels=texts_to_wire(labels, "labels"),
        )
        response = await self._calls.unary(APPEND_TURNS, request, self._calls.deadline(timeout))
        return tuple(from_wire(AppendedTurn, each) for each in response.turns)

    async def recall(
        self,
        question: str,
        *,
        asked_at: datetime | None = None,
        k: int = 10,
        value: Unit = "",
        time: TimeUse = "",
        where: Where | None = None,
        history: History = "",
        inference: Inference = "rules",
        keys: Iterable[str] = (),
        merging: Merging = "",
        timeout: float | None = None,
    ) -> Recall:
        """Returns what the conversations hold about a question, in the order of time.

        Settings that are not given are those of the corpus.

        Args:
            question: The question, at most 16 KiB.
            asked_at: Time at which it is asked, by which "last week" is understood. Without it, no
                time is understood.
            k: Maximum items: 1 to 100.
            value: Unit of recall.
            time: Use of the time that the question asks about.
            where: Restriction of the turns, by their attributes and times. `chat.session`,
                `chat.role` and `chat.speaker` are always there.
            history: Treatment of statements that later ones supersede.
            inference: Method that infers the time that the question asks about.
            keys: Keys of the corpus by which turns are found. Empty means all of them.
            merging: Combination of the results of several keys.
        """
        request = chat_pb2.RecallRequest(
            corpus=self._corpus,
            user=self._id,
            question=question,
            asked_at=time_to_wire(asked_at, "asked_at"),
            k=k,
            value=choice_to_wire(value, chat_pb2.Value, "value"),
            time=choice_to_wire(time, chat_pb2.TimeUse, "time"),
            filter=filter_to_wire(where),
            history=choice_to_wire(history, chat_pb2.History, "history"),
            inference=choice_to_wire(inference, chat_pb2.Inference, "inference"),
            keys=texts_to_wire(keys, "keys"),
            merging=choice_to_wire(merging, chat_pb2.Merging, "merging"),
        )
        response = await self._calls.unary(RECALL, request, self._calls.deadline(timeout))
        return from_wire(Recall, response)

    async def ask(
        self,
        question: str,
        *,
        asked_at: datetime | None = None,
        strategy: str = "",
        k: int | None = None,
        where: Where | None = None,
        value: Unit = "",
        time: TimeUse = "",
        history: History = "",
        inference: Inference | None = None,
        keys: Iterable[str] = (),
        merging: Merging = "",
        notes: Notes = "",
        layout: Layout = "",
        timeout: float | None = None,
    ) -> Answer:
        """Answers a question from the conversations.

        Settings that are not given are those of the corpus. Only the strategy `chat` takes those
        from `value` on.

        Args:
            question: The question, at most 16 KiB.
            asked_at: Time at which it is asked.
            strategy: Name of the strategy. Empty means `chat`.
            k: Maximum items that are read: 1 to 1000. `None` means the strategy's default.
            where: Restriction of the turns, as in `recall`.
            value: Unit of recall.
            time: Use of the time that the question asks about.
            history: Treatment of statements that later ones supersede.
            inference: Method that infers the time that the question asks about.
            keys: Keys of the corpus by which turns are found. Empty means all of them.
            merging: Combination of the results of several keys.
            notes: Whether the model that reads takes notes.
            layout: Format in which passages are shown to it.
        """
        answer = None
        async for event in self.ask_stream(
            question,
            asked_at=asked_at,
            strategy=strategy,
            k=k,
            where=where,
            value=value,
            time=time,
            history=history,
            inference=inference,
            keys=keys,
            merging=merging,
            notes=notes,
            layout=layout,
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
        asked_at: datetime | None = None,
        strategy: str = "",
        k: int | None = None,
        where: Where | None = None,
        value: Unit = "",
        time: TimeUse = "",
        history: History = "",
        inference: Inference | None = None,
        keys: Iterable[str] = (),
        merging: Merging = "",
        notes: Notes = "",
        layout: Layout = "",
        timeout: float | None = None,
    ) -> AsyncIterator[AnswerEvent]:
        """Answers a question as `ask` does. Yields the steps as they happen, then pieces of the
        answer's text as `TextDelta`, and last the `Answer`.
        """
        request = chat_pb2.AnswerRequest(
            corpus=self._corpus,
            user=self._id,
            question=question,
            asked_at=time_to_wire(asked_at, "asked_at"),
            strategy=strategy,
            k=k,
            filter=filter_to_wire(where),
            value=choice_to_wire(value, chat_pb2.Value, "value"),
            time=choice_to_wire(time, chat_pb2.TimeUse, "time"),
            history=choice_to_wire(history, chat_pb2.History, "history"),
            inference=choice_to_wire(inference or "", chat_pb2.Inference, "inference"),
            keys=texts_to_wire(keys, "keys"),
            merging=choice_to_wire(merging, chat_pb2.Merging, "merging"),
            notes=choice_to_wire(notes, chat_pb2.Notes, "notes"),
            layout=choice_to_wire(layout, chat_pb2.Layout, "layout"),
        )
        deadline = self._calls.deadline(timeout)
        async for response in self._calls.stream(ANSWER_FROM_TURNS, request, deadline):
            event = event_from_wire(response.event)
            if event is not None:
                yield event

    async def turns(
        self, *, session: str = "", where: Where | None = None, timeout: float | None = None
    ) -> AsyncIterator[StoredTurn]:
        """Yields all stored turns of the user, or of one session: sessions by name, turns by
        number.
        """
        request = chat_pb2.ListTurnsRequest(
            corpus=self._corpus, user=self._id, session=session, filter=filter_to_wire(where)
        )
        deadline = self._calls.deadline(timeout)
        async for turn in self._calls.stream(LIST_TURNS, request, deadline):
            yield from_wire(StoredTurn, turn)

    async def sessions(self, *, timeout: float | None = None) -> AsyncIterator[ChatSession]:
        """Yields the sessions of the user. Each page of them may take `timeout`."""
        request = chat_pb2.ListSessionsRequest(corpus=self._corpus, user=self._id, page_size=_PAGE)
        while True:
            deadline = self._calls.deadline(timeout)
            page = await self._calls.unary(LIST_SESSIONS, request, deadline)
            for session in page.sessions:
                yield from_wire(ChatSession, session)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def forget(
        self,
        *,
        session: str = "",
        numbers: Iterable[int] = (),
        where: Where | None = None,
        about: str = "",
        k: int = 0,
        preview: bool = False,
        timeout: float | None = None,
    ) -> TurnReceipt:
        """Forgets turns, down to the bytes on disk: without arguments, everything that is stored of
        the user.

        Args:
            session: Only turns of this session.
            numbers: Only these turns of the session, which must be given.
            where: Only turns that this admits; not with `numbers`.
            about: Words of a search: only the best `k` of the turns that it finds. A search finds
                something for any words, so look at the preview first.
            k: Maximum turns, with `about` only: 1 to 100.
            preview: Whether only to return what would be forgotten. Nothing is changed.

        Raises:
            DeadlineExceededError: Call again for the receipt, unless `about` was given.
        """
        request = chat_pb2.ForgetTurnsRequest(
            corpus=self._corpus,
            user=self._id,
            session=session,
            numbers=numbers,
            preview=preview,
            filter=filter_to_wire(where),
            about=about,
            k=k,
        )
        response = await self._calls.unary(FORGET_TURNS, request, self._calls.deadline(timeout))
        return from_wire(TurnReceipt, response)
