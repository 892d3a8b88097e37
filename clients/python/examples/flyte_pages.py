"""A task of Flyte 2 that writes lines of JSON, a document each, into a corpus."""

import json
import pathlib

import flyte

import clew

environment = flyte.TaskEnvironment(name="clew_pages")


@environment.task(retries=3)
async def write(corpus: str, pages: str) -> int:
    # The address and the key are `CLEW_ENDPOINT` and `CLEW_API_KEY` of the container.
    async with clew.AsyncClient() as client:
        handle = await client.create_corpus(corpus, exist_ok=True)
        with pathlib.Path(pages).open(encoding="utf-8") as lines:
            report = await handle.ingest(map(json.loads, lines), wait=True)
    report.raise_for_refused()
    return report.documents
