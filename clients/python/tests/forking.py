"""Forks while a client is connected: `forking.py PROGRAM ENDPOINT CORPUS`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import clew


def in_child(work: Callable[[], object]) -> None:
    """Does `work` in a child process, and fails if it fails there."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the child failed"


def both_go_on(corpus: clew.Corpus, _client: clew.Client) -> None:
    """Stores documents in the parent and in children, in turns."""
    corpus.ingest([clew.Document("parent", "Before the forks.")]).raise_for_refused()
    for number in range(3):
        of_child = clew.Document(f"child-{number}", "In a child.")
        in_child(lambda: corpus.ingest([of_child]).raise_for_refused())  # noqa: B023
        of_parent = clew.Document(f"parent-{number}", "After a fork.")
        corpus.ingest([of_parent]).raise_for_refused()


def child_closes(corpus: clew.Corpus, client: clew.Client) -> None:
    """Closes the client in a child and goes on in the parent."""
    client.whoami()
    in_child(client.close)
    corpus.ingest([clew.Document("parent", "After a fork.")]).raise_for_refused()


if __name__ == "__main__":
    program, endpoint, name = sys.argv[1:]
    programs = {"both_go_on": both_go_on, "child_closes": child_closes}
    with clew.Client(endpoint) as client:
        programs[program](client.corpus(name), client)
