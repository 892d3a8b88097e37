"""A DAG of Airflow that writes lines of JSON, a document each, into a corpus every day."""

import json
import pathlib
from datetime import datetime, timedelta, timezone

from airflow.sdk import dag, task


@task(retries=3, retry_delay=timedelta(minutes=1))
def write(corpus: str, pages: str) -> dict[str, int]:
    import clew

    # The address and the key are `CLEW_ENDPOINT` and `CLEW_API_KEY` of the workers.
    with clew.Client() as client, pathlib.Path(pages).open(encoding="utf-8") as lines:
        handle = client.create_corpus(corpus, exist_ok=True)
        report = handle.ingest(map(json.loads, lines), wait=True)
    report.raise_for_refused()
    return {"new": report.new, "replaced": report.replaced, "unchanged": report.unchanged}


@dag(schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False)
def clew_pages(corpus: str = "pages", pages: str = "pages.jsonl") -> None:
    write(corpus, pages)


dag_of_pages = clew_pages()
