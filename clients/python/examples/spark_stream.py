"""Writes pages into a corpus as their JSON files come into a folder, by a stream of Spark."""

import sys

from pyspark.sql import SparkSession

import clew.spark


def write(endpoint: str, corpus: str, folder: str, checkpoints: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(clew.spark.ClewDataSource)
    pages = spark.readStream.schema("id string, text string, updated long").json(folder)
    to = {"endpoint": endpoint, "corpus": corpus, "version_column": "updated"}
    stream = pages.writeStream.format("clew").options(**to)
    # Without the trigger, the stream goes on and writes what comes.
    once = stream.option("checkpointLocation", checkpoints).trigger(availableNow=True)
    once.start().awaitTermination()


if __name__ == "__main__":
    write(*sys.argv[1:])
