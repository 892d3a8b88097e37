"""CocoIndex keeps documents in a server as its app declares them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

# The package would report its use.
os.environ["COCOINDEX_DISABLE_USAGE_TRACKING"] = "1"
pytest.importorskip("cocoindex")

from conftest import Server
from engines import example, texts, versions

import clew
import clew.cocoindex


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cat.md").write_text("The cat is called Xqvzkwjb.")
    (folder / "dog.md").write_text("The dog is called Rex.")
    return folder


def test_a_corpus_follows_a_folder(
    server: Server, client: clew.Client, name: str, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    corpus = client.create_corpus(name, structure=None)
    corpus.ingest([clew.Document("of-others", "Stored by somebody else.")])
    app = example("cocoindex_notes.py")["app"](server.endpoint, name, folder, tmp_path / "state")
    app.update_blocking()
    stored = {
        "of-others": "Stored by somebody else.",
        "cat.md": "The cat is called Xqvzkwjb.",
        "dog.md": "The dog is called Rex.",
    }
    assert texts(corpus) == stored

    before = versions(corpus)
    app.update_blocking()
    assert versions(corpus) == before

    (folder / "dog.md").write_text("The dog is called Fido.")
    (folder / "cat.md").unlink()
    app.update_blocking()
    assert texts(corpus) == {
        "of-others": "Stored by somebody else.",
        "dog.md": "The dog is called Fido.",
    }

    app.drop_blocking()
    assert texts(corpus) == {"of-others": "Stored by somebody else."}


def test_a_refused_document_is_tried_again_and_the_others_are_stored(
    server: Server, client: clew.Client, name: str, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (folder / "empty.md").write_text(" ")
    app = example("cocoindex_notes.py")["app"](server.endpoint, name, folder, tmp_path / "state")
    app.update_blocking()
    corpus = client.corpus(name)
    assert set(texts(corpus)) == {"cat.md", "dog.md"}
    (folder / "empty.md").write_text("No longer empty.")
    app.update_blocking()
    assert set(texts(corpus)) == {"cat.md", "dog.md", "empty.md"}


def test_an_update_that_failed_is_made_up_for(
    serve: Callable[..., Server], name: str, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    server = serve()
    with clew.Client(server.endpoint) as client:
        app = example("cocoindex_notes.py")["app"](
            server.endpoint, name, folder, tmp_path / "state"
        )
        app.update_blocking()
        corpus = client.corpus(name)
        # CocoIndex logs failures of components and goes on.
        corpus.delete()
        (folder / "cat.md").unlink()
        (folder / "dog.md").write_text("The dog is called Fido.")
        app.update_blocking()
        client.create_corpus(name, structure=None)
        app.update_blocking()
        assert texts(corpus) == {"dog.md": "The dog is called Fido."}
