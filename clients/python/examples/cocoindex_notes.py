"""Keeps a corpus as a folder of Markdown files is, by CocoIndex."""

import pathlib
import sys

import cocoindex as coco
from cocoindex.connectors import localfs

import clew
import clew.cocoindex

CLEW = coco.ContextKey[clew.AsyncClient]("clew")
FOLDER = coco.ContextKey[pathlib.Path]("folder")


@coco.fn(memo=True)
async def index(note: localfs.File, corpus: str) -> None:
    # The path below the folder, so that the folder may be moved.
    id = note.file_path.path.as_posix()
    document = clew.Document(id, await note.read_text(), media_type="text/markdown")
    clew.cocoindex.declare_document(CLEW, corpus, document)


@coco.fn
async def notes(corpus: str) -> None:
    files = localfs.walk_dir(FOLDER, recursive=True)
    await coco.mount_each(index, files.items(), corpus)


def app(endpoint: str, corpus: str, folder: pathlib.Path, state: pathlib.Path) -> coco.App:
    with clew.Client(endpoint) as client:
        client.create_corpus(corpus, exist_ok=True)
    context = coco.ContextProvider()
    context.provide(CLEW, clew.AsyncClient(endpoint))
    context.provide(FOLDER, folder)
    environment = coco.Environment(coco.Settings(db_path=state), context_provider=context)
    return coco.App(coco.AppConfig("notes", environment=environment), notes, corpus)


if __name__ == "__main__":
    app(*sys.argv[1:3], *map(pathlib.Path, sys.argv[3:])).update_blocking()
