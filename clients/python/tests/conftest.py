"""A server for the tests, and corpora in it.

`PROGRAM_UNDER_TEST` is the program `clew`, and `MODEL_DIR` the folder of its embedding model. The
defaults are where the build and `make setup` put them.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from blocking import connected

import clew

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("PROGRAM_UNDER_TEST", str(REPOSITORY / "target" / "debug" / "clew"))
MODEL = os.environ.get("MODEL_DIR", str(REPOSITORY / ".cache" / "models" / "all-MiniLM-L6-v2"))
# Seconds that a server may take to listen.
_PATIENCE = 60
_LISTENING = re.compile(r"^listening on (\S+)$", re.MULTILINE)


class Server:
    """A process of `clew serve` with a data directory of its own."""

    def __init__(self, folder: pathlib.Path, *arguments: str, port: int = 0) -> None:
        self.folder = folder
        self._arguments = arguments
        self._port = port
        self.start()

    def start(self) -> None:
        """Starts the process and waits until it listens. Started again, it keeps its port."""
        # Variables of Clew that the caller has set are none of the server's.
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("CLEW_")
        }
        environment["CLEW_MODEL_DIR"] = MODEL
        log = self.folder / "log.txt"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    PROGRAM,
                    "serve",
                    "--listen",
                    f"127.0.0.1:{self._port}",
                    "--data-dir",
                    str(self.folder / "data"),
                    "--snapshots",
                    str(self.folder / "snapshots"),
                    *self._arguments,
                ],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        # The line with the address comes once the server listens.
        deadline = time.monotonic() + _PATIENCE
        while not (found := _LISTENING.search(log.read_text("utf-8"))):
            is_alive = self.process.poll() is None and time.monotonic() < deadline
            assert is_alive, f"the server does not listen: {log.read_text('utf-8')}"
            time.sleep(0.02)
        self.endpoint = found[1]
        self._port = int(self.endpoint.rpartition(":")[2])

    def kill(self) -> None:
        """Ends the process as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(_PATIENCE)

    def stop(self) -> None:
        """Ends the process."""
        self.process.terminate()
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()


@pytest.fixture(autouse=True)
def no_variables_of_clew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps variables of whoever runs the tests out of them."""
    for name in os.environ:
        if name.startswith("CLEW_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers, and stops them when the tests end."""
    servers: list[Server] = []

    def start(*arguments: str) -> Server:
        servers.append(Server(tmp_path_factory.mktemp("server"), *arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def server(serve: Callable[..., Server]) -> Server:
    """A server that asks for no keys."""
    return serve()


@pytest.fixture
def client(server: Server) -> Iterator[clew.Client]:
    """A client of that server."""
    with clew.Client(server.endpoint) as client:
        yield client


_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """Name of a corpus that does not exist yet."""
    return f"corpus-{next(_numbers)}"


@pytest.fixture
def corpus(client: clew.Client, name: str) -> clew.Corpus:
    """An empty corpus without trees and graph, which makes it fast."""
    return client.create_corpus(name, structure=None)


@pytest.fixture(params=["sync", "aio"])
def any_client(server: Server, request: pytest.FixtureRequest) -> Iterator[clew.Client]:
    """A client of that server, of either kind: one shape, so one test."""
    with connected(request.param, server.endpoint) as client:
        yield client


@pytest.fixture
def any_corpus(any_client: clew.Client, name: str) -> clew.Corpus:
    """An empty corpus without trees and graph, by a client of either kind."""
    return any_client.create_corpus(name, structure=None)
