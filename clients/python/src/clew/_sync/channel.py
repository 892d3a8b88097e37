"""Channels and streams of `grpc`."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from clew._connection import OPTIONS, Connection
from clew._errors import FailedPreconditionError
from clew._methods import Method
from clew._status import BrokenStreamError, error_of, silent

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")

Source = Iterable[T]
"""What an ingestion reads documents from."""

sleep = time.sleep


def items_of(source: Source[T]) -> Iterator[T]:
    """Returns an iterator over the items of a source."""
    return iter(source)


class Channels:
    """The channel of a client, made when it is first needed.

    A channel does not survive a fork: a child process makes another one. There is no lock, because
    a child might inherit it locked.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        # By process. A child keeps the channel of its parent and never touches it: closing it would
        # disturb the connections that the two share.
        self._channels: dict[int, grpc.Channel] = {}
        self._is_closed = False

    def get(self) -> grpc.Channel:
        """Returns the channel of this process."""
        if self._is_closed:
            raise FailedPreconditionError(
                "the client is closed; make another one", reason="CLIENT_CLOSED"
            )
        process = os.getpid()
        channel = self._channels.get(process)
        if channel is None:
            made = _channel(self.connection)
            channel = self._channels.setdefault(process, made)
            if channel is not made:
                made.close()
        return channel

    def close(self) -> None:
        """Closes the channel. Calls that run are cancelled."""
        self._is_closed = True
        channel = self._channels.pop(os.getpid(), None)
        if channel is not None:
            channel.close()


def _channel(connection: Connection) -> grpc.Channel:
    if connection.certificates is None:
        return grpc.insecure_channel(connection.target, options=OPTIONS)
    credentials = connection.certificates.credentials()
    return grpc.secure_channel(connection.target, credentials, options=OPTIONS)


class Stream:
    """A call that sends and receives messages. No wait takes longer than `patience` seconds.

    gRPC reads what is to be sent in a thread of its own, and another thread waits for responses. So
    the thread of the caller alone reads the source of the messages.
    """

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
        # Messages to send, then `None`. As many as the caller lets be unanswered.
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # Responses, then an error or, at the end, `None`. As many as requests are unanswered.
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call = call(iter(self._outgoing.get, None), metadata=channels.connection.metadata)
        threading.Thread(target=self._read, name="clew-ingest", daemon=True).start()

    def _read(self) -> None:
        try:
            for response in self._call:
                self._events.put(response)
            self._events.put(None)
        except grpc.RpcError as error:
            self._events.put(error)

    def send(self, request: Message) -> None:
        """Sends a message. If the call has ended, the next event tells why."""
        self._outgoing.put(request)

    def finish(self) -> None:
        """Tells the server that no more messages come."""
        self._outgoing.put(None)

    @property
    def has_event(self) -> bool:
        """Whether `event` returns at once."""
        return not self._events.empty()

    def event(self) -> Any:
        """Returns the next response, or `None` at the end.

        Raises `BrokenStreamError` if the call failed, or nothing comes for the seconds of patience.
        """
        try:
            event = self._events.get(timeout=self._patience)
        except queue.Empty as error:
            raise silent(self._patience) from error
        if isinstance(event, grpc.RpcError):
            raise BrokenStreamError(error_of(event, self._endpoint)) from event
        return event

    def close(self) -> None:
        """Ends the call, whatever its state."""
        self._call.cancel()
        # gRPC's thread waits for a message until it gets this one.
        self._outgoing.put(None)
