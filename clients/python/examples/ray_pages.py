"""Writes Parquet files with the columns `id`, `text` and `updated` into a corpus, by Ray Data."""

import sys

import ray

import clew
import clew.ray


def write(endpoint: str, corpus: str, pages: str) -> None:
    with clew.Client(endpoint) as client:
        client.create_corpus(corpus, exist_ok=True)
        sink = clew.ray.ClewDatasink(endpoint, corpus, version_column="updated")
        ray.data.read_parquet(pages).write_datasink(sink)
        print(sink.report)
        client.corpus(corpus).wait_until_indexed()


if __name__ == "__main__":
    write(*sys.argv[1:])
