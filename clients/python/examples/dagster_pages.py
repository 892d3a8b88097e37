"""An asset of Dagster that writes lines of JSON, a document each, into a corpus."""

import json
import pathlib

import dagster

import clew


class Pages(dagster.Config):
    corpus: str = "pages"
    pages: str = "pages.jsonl"


@dagster.asset(retry_policy=dagster.RetryPolicy(max_retries=3, delay=60))
def clew_pages(config: Pages) -> dagster.MaterializeResult:
    # The address and the key are `CLEW_ENDPOINT` and `CLEW_API_KEY` of the process.
    with clew.Client() as client, pathlib.Path(config.pages).open(encoding="utf-8") as lines:
        corpus = client.create_corpus(config.corpus, exist_ok=True)
        report = corpus.ingest(map(json.loads, lines), wait=True)
    report.raise_for_refused()
    counts = {"new": report.new, "replaced": report.replaced, "unchanged": report.unchanged}
    return dagster.MaterializeResult(metadata=counts)


definitions = dagster.Definitions(assets=[clew_pages])
