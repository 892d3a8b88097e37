"""Makes calls, again where that helps, and turns failures into errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from clew._aio.channel import Channels, sleep
from clew._connection import Connection
from clew._methods import Method
from clew._retry import Deadline, Retry
from clew._status import error_of

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class Calls:
    """Makes the calls of one client."""

    def __init__(self, connection: Connection) -> None:
        self.channels = Channels(connection)
        self._connection = connection

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes get clients by pickling. They make connections of their own.
        return (Calls, (self._connection,))

    def deadline(self, timeout: float | None) -> Deadline:
        """Returns the deadline of a call that begins now. `None` means the client's timeout."""
        return Deadline(self._connection.timeout if timeout is None else timeout)

    async def unary(
        self, method: Method[Request, Response], request: Request, deadline: Deadline
    ) -> Response:
        """Makes a call and returns its response."""
        retry = Retry(deadline, method.may_repeat)
        while True:
            call = self.channels.get().unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            try:
                return await call(
                    request, timeout=deadline.left(), metadata=self._connection.metadata
                )
            except grpc.RpcError as failed:
                error = error_of(failed, self._connection.endpoint)
                pause = retry.pause(error)
                if pause is None:
                    raise error from failed
            await sleep(pause)

    async def stream(
        self, method: Method[Request, Response], request: Request, deadline: Deadline
    ) -> AsyncIterator[Response]:
        """Makes a call and yields its responses. It is made again only before the first one."""
        retry = Retry(deadline, method.may_repeat)
        while True:
            make = self.channels.get().unary_stream(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            call = make(request, timeout=deadline.left(), metadata=self._connection.metadata)
            has_begun = False
            try:
                async for response in call:
                    has_begun = True
                    yield response
                return
            except grpc.RpcError as failed:
                error = error_of(failed, self._connection.endpoint)
                pause = None if has_begun else retry.pause(error)
                if pause is None:
                    raise error from failed
            finally:
                # Nobody may read to the end.
                call.cancel()
            await sleep(pause)

    async def close(self) -> None:
        """Closes the connection."""
        await self.channels.close()
