"""What the tests of the data engines share."""

from __future__ import annotations

import pathlib
import runpy
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from conftest import PROGRAM, REPOSITORY, Server

import clew

EXAMPLES = REPOSITORY / "clients" / "python" / "examples"
# Seconds that a corpus may take until everything is searchable.
_PATIENCE = 60


@cache
def example(name: str) -> dict[str, Any]:
    """Returns what an example defines."""
    return runpy.run_path(str(EXAMPLES / name))


def page(number: int, state: str, updated: int) -> dict[str, Any]:
    """Returns a row with a text that tells its state."""
    return {"id": f"page-{number}", "text": f"Page {number}, {state}.", "updated": updated}


def texts(corpus: clew.Corpus) -> dict[str, str]:
    """Returns the texts that searches find, by the ids of their documents."""
    corpus.wait_until_indexed(timeout=_PATIENCE)
    return {each.id: corpus.document(each.id).text for each in corpus.documents()}


def texts_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the texts that are expected of rows."""
    return {row["id"]: row["text"] for row in rows}


def versions(corpus: clew.Corpus) -> dict[str, int]:
    """Returns the versions of documents, which change with their content, by their ids."""
    return {each.id: each.version for each in corpus.documents()}


def wait_until_something_is_stored(endpoint: str, name: str) -> dict[str, int]:
    """Returns the versions of the documents of a corpus once it has any. Called in tasks."""
    deadline = time.monotonic() + _PATIENCE
    with clew.Client(endpoint) as client:
        while not (stored := versions(client.corpus(name))):
            assert time.monotonic() < deadline, "nothing was stored"
            time.sleep(0.05)
        return stored


def guarded(serve: Callable[..., Server], folder: pathlib.Path) -> tuple[str, str]:
    """Starts a server that asks for a key. Returns its address and the key."""
    rights = ["--tenant", "acme", "--scope", "read,write,admin"]
    made = subprocess.run(
        [PROGRAM, "key", "owner", *rights], check=True, capture_output=True, text=True
    ).stdout
    key, _, entry = made.partition("\n")
    keys, config = folder / "keys.toml", folder / "clew.toml"
    keys.write_text(f'{entry[entry.index("[[key]]") :]}\n[[tenant]]\nname = "acme"\n', "utf-8")
    config.write_text(f'auth.keys_file = "{keys}"\n', "utf-8")
    return serve("--config", str(config)).endpoint, key.strip()
