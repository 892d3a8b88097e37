"""Channels and streams of `grpc.aio`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import grpc.aio
from google.protobuf.message import Message

from clew._connection import OPTIONS, Connection
from clew._errors import FailedPreconditionError
from clew._methods import Method
from clew._status import BrokenStreamError, error_of, silent

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")

Source = Iterable[T] | AsyncIterable[T]
"""What an ingestion reads documents from."""

sleep = asyncio.sleep


async def items_of(source: Source[T]) -> AsyncIterator[T]:
    """Yields the items of a source of either kind."""
    if isinstance(source, AsyncIterable):
        async for item in source:
            yield item
    else:
        for item in source:
            yield item


class Channels:
    """The channel of a client, made when it is first needed.

    A channel belongs to a process and an event loop. Where the client is used in another one, it
    makes another channel.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None
        self._channel: grpc.aio.Channel | None = None
        self._is_closed = False

    def get(self) -> grpc.aio.Channel:
        """Returns the channel of this process and event loop."""
        if self._is_closed:
            raise FailedPreconditionError(
                "the client is closed; make another one", reason="CLIENT_CLOSED"
            )
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._channel is None or self._owner != owner:
            self._owner, self._channel = owner, _channel(self.connection)
        return self._channel

    async def close(self) -> None:
        """Closes the channel. Calls that run are cancelled."""
        self._is_closed = True
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._channel is not None and self._owner == owner:
            await self._channel.close()
        self._channel = None


def _channel(connection: Connection) -> grpc.aio.Channel:
    if connection.certificates is None:
        return grpc.aio.insecure_channel(connection.target, options=OPTIONS)
    credentials = connection.certificates.credentials()
    return grpc.aio.secure_channel(connection.target, credentials, options=OPTIONS)


class Stream:
    """A call that sends and receives messages. No wait takes longer than `patience` seconds."""

    def __init__(
        self, channels: Channels, method: Method[Request, Response], patience: float
    ) -> None:
        self._patience = patience
        self._endpoint = channels.connection.endpoint
        call = channels.get().stream_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        self._call = call(metadata=channels.connection.metadata)
        # Responses, then an error or, at the end, `None`. As many as requests are unanswered.
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for response in self._call:
                self._events.put_nowait(response)
            self._events.put_nowait(None)
        except grpc.RpcError as error:
            self._events.put_nowait(error)

    async def send(self, request: Message) -> None:
        """Sends a message. If the call has ended, the next event tells why.

        Raises `BrokenStreamError` if the server does not take it for the seconds of patience.
        """
        try:
            await asyncio.wait_for(self._call.write(request), self._patience)
        except asyncio.TimeoutError as error:
            raise silent(self._patience) from error
        except (asyncio.InvalidStateError, grpc.RpcError):
            pass

    async def finish(self) -> None:
        """Tells the server that no more messages come."""
        with suppress(asyncio.InvalidStateError, grpc.RpcError):
            await self._call.done_writing()

    @property
    def has_event(self) -> bool:
        """Whether `event` returns at once."""
        return not self._events.empty()

    async def event(self) -> Any:
        """Returns the next response, or `None` at the end.

        Raises `BrokenStreamError` if the call failed, or nothing comes for the seconds of patience.
        """
        try:
            event = await asyncio.wait_for(self._events.get(), self._patience)
        except asyncio.TimeoutError as error:
            raise silent(self._patience) from error
        if isinstance(event, grpc.RpcError):
            raise BrokenStreamError(error_of(event, self._endpoint)) from event
        return event

    async def close(self) -> None:
        """Ends the call, whatever its state."""
        self._call.cancel()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
