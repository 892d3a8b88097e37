"""Runs an asynchronous client as if it were a synchronous one, so that one test is for both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

import clew

Kind = Literal["sync", "aio"]


class Blocking:
    """An asynchronous client or handle that waits for each of its calls."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            made = found(*arguments, **named)
            if inspect.isawaitable(made):
                made = self._loop.run_until_complete(made)
            if isinstance(made, AsyncIterator):
                return self._items(made)
            is_handle = isinstance(made, (clew.AsyncCorpus, clew.AsyncUser))
            return Blocking(made, self._loop) if is_handle else made

        return call

    def _items(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        async def following() -> list[Any]:
            # A coroutine cannot raise what ends an iterator.
            try:
                return [await anext(items)]
            except StopAsyncIteration:
                return []

        while item := self._loop.run_until_complete(following()):
            yield item[0]


@contextmanager
def connected(kind: Kind, endpoint: str, **arguments: Any) -> Iterator[clew.Client]:
    """Yields a client of either kind."""
    if kind == "sync":
        with clew.Client(endpoint, **arguments) as client:
            yield client
        return
    loop = asyncio.new_event_loop()
    asynchronous = clew.AsyncClient(endpoint, **arguments)
    try:
        yield cast(clew.Client, Blocking(asynchronous, loop))
        loop.run_until_complete(asynchronous.close())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
