"""Writes Parquet files with the columns `id`, `text` and `updated` into a corpus, by Spark."""

import sys

from pyspark.sql import SparkSession

import clew
import clew.spark


def write(endpoint: str, corpus: str, pages: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(clew.spark.ClewDataSource)
    with clew.Client(endpoint) as client:
        client.create_corpus(corpus, exist_ok=True)
        to = {"endpoint": endpoint, "corpus": corpus, "version_column": "updated"}
        frame = spark.read.parquet(pages)
        frame.write.format("clew").mode("append").options(**to).save()
        client.corpus(corpus).wait_until_indexed()


if __name__ == "__main__":
    write(*sys.argv[1:])
