"""Clients in processes, threads and event loops."""

from __future__ import annotations

import asyncio
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator

import pytest
from conftest import Server

import clew

# Seconds that a process or a thread may take.
_PATIENCE = 60.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("program", ["both_go_on", "child_closes"])
def test_a_forked_child_makes_a_connection_of_its_own(
    server: Server, corpus: clew.Corpus, program: str
) -> None:
    # In a process of its own: asynchronous channels, which other tests make, do not survive a fork
    # in old releases of gRPC.
    forking = pathlib.Path(__file__).with_name("forking.py")
    command = [sys.executable, str(forking), program, server.endpoint, corpus.name]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    expected = {"both_go_on": 7, "child_closes": 1}
    assert sum(1 for _ in corpus.documents()) == expected[program]


def test_clients_and_handles_travel_between_processes(server: Server, corpus: clew.Corpus) -> None:
    corpus.ingest([clew.Document("a", "Text.")])
    copy: clew.Corpus = pickle.loads(pickle.dumps(corpus))
    assert copy.document("a").text == "Text."
    user: clew.User = pickle.loads(pickle.dumps(corpus.user("ada")))
    assert user.id == "ada"
    asynchronous: clew.AsyncClient = pickle.loads(pickle.dumps(clew.AsyncClient(server.endpoint)))
    assert asyncio.run(asynchronous.whoami()).scopes


def test_threads_share_a_client(corpus: clew.Corpus) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            ids = [f"{number}-{each}" for each in range(50)]
            corpus.ingest([clew.Document(id, f"Text {id}.") for id in ids]).raise_for_refused()
            assert corpus.document(ids[-1]).id == ids[-1]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE)
    assert failures == []
    assert sum(1 for _ in corpus.documents()) == 400


def test_a_source_is_read_by_the_thread_of_its_caller(corpus: clew.Corpus) -> None:
    threads: set[int] = set()

    def source() -> list[clew.Document]:
        threads.add(threading.get_ident())
        return []

    corpus.ingest(document for _ in range(2) for document in source())
    corpus.ingest([clew.Document("a", "b")], on_result=lambda _: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}


@pytest.mark.filterwarnings("error")
def test_an_asynchronous_client_is_used_in_one_event_loop_after_another(server: Server) -> None:
    client = clew.AsyncClient(server.endpoint)
    for _ in range(3):
        assert asyncio.run(client.whoami()).scopes

    async def closed() -> None:
        async with client:
            await client.whoami()

    asyncio.run(closed())


def test_an_asynchronous_call_is_cancelled(server: Server, corpus: clew.Corpus) -> None:
    async def cancelled() -> float:
        async with clew.AsyncClient(server.endpoint) as client:
            waiting = asyncio.create_task(client.corpus(corpus.name).ingest(forever()))
            await asyncio.sleep(0.2)
            begun = time.monotonic()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return time.monotonic() - begun

    async def forever() -> AsyncIterator[clew.Document]:
        yield clew.Document("a", "b")
        await asyncio.sleep(_PATIENCE)

    assert asyncio.run(cancelled()) < _PATIENCE / 2


def test_a_client_of_the_other_kind_is_of_the_same_server(client: clew.Client) -> None:
    async def whoami() -> clew.Caller:
        async with clew.AsyncClient.of(client) as asynchronous:
            with clew.Client.of(asynchronous) as synchronous:
                assert synchronous.whoami() == client.whoami()
            return await asynchronous.whoami()

    assert asyncio.run(whoami()) == client.whoami()
