"""What all engines of `search_peers.py` get: chunks with vectors, questions with theirs, and the exact answers."""

import random

import numpy
import pyarrow.compute as compute
import pyarrow.parquet as parquet

WORDS_OF_A_QUESTION = 9
# Shares of the chunks that filters should keep, and how far an attribute may be from that, as a factor.
SHARES = [0.01, 0.10, 0.50]
TOLERANCE = 2
# Scores that differ by less are equal: 32-bit products are not added in the same order everywhere.
EQUAL = 1e-6
ROWS = 5000


class Chunks:
    """The exported chunks, read in batches, so that none of it is memory of the engine that reads it."""

    def __init__(self, file):
        self.file = parquet.ParquetFile(file)
        self.count = self.file.metadata.num_rows
        self.dimension = self.file.schema_arrow.field("vector").type.list_size

    def batches(self, columns, rows=ROWS):
        return self.file.iter_batches(batch_size=rows, columns=columns)

    def vectors(self, batch):
        return batch["vector"].flatten().to_numpy(zero_copy_only=False).reshape(-1, self.dimension)

    def for_engine(self, filters, rows):
        """Ids, texts, vectors and attributes of each batch. The text is what Clew indexes: with its headings."""
        for batch in self.batches(["chunk_id", "key_text", "vector", "attributes"], rows):
            pairs = batch["attributes"].to_pylist()
            held = [dict(pair.split("=", 1) for pair in one if "=" in pair) for one in pairs]
            attributes = {
                one["column"]: [values.get(one["attribute"], "") for values in held] for one in filters
            }
            yield batch["chunk_id"].to_pylist(), batch["key_text"].to_pylist(), self.vectors(batch), attributes


def filters(chunks):
    """Attributes of documents that keep about the wanted shares of the chunks, as far as there are any."""
    counts = {}
    for batch in chunks.batches(["attributes"], 50_000):
        for one in compute.value_counts(batch["attributes"].flatten()).to_pylist():
            counts[one["values"]] = counts.get(one["values"], 0) + one["counts"]
    chosen = []
    for wanted in SHARES:
        def distance(pair):
            share = counts[pair] / chunks.count
            return max(share / wanted, wanted / share)

        # The column's value ends up in the engines' filter languages.
        plain = [pair for pair in counts if "=" in pair and not set(pair) & set("'\"\\")]
        pair = min(plain, key=distance, default=None)
        if pair and distance(pair) <= TOLERANCE:
            name, value = pair.split("=", 1)
            chosen.append({"name": pair, "attribute": name, "value": value, "share": counts[pair] / chunks.count})
    names = sorted({one["attribute"] for one in chosen})
    return [{**one, "column": f"attribute_{names.index(one['attribute'])}"} for one in chosen]


def questions(chunks, count, seed):
    """As many texts of nine words in a row, each out of another chunk."""
    chance = random.Random(seed)
    # Some chunks are too short.
    rows = set(chance.sample(range(chunks.count), min(chunks.count, 4 * count)))
    texts, at = {}, 0
    for batch in chunks.batches(["text"]):
        for row in sorted(rows & set(range(at, at + batch.num_rows))):
            texts[row] = batch["text"][row - at].as_py()
        at += batch.num_rows
    taken = []
    for row in chance.sample(sorted(texts), len(texts)):
        words = texts[row].split()
        first = chance.randrange(max(1, len(words) - WORDS_OF_A_QUESTION + 1))
        words = words[first : first + WORDS_OF_A_QUESTION]
        if len(words) == WORDS_OF_A_QUESTION:
            taken.append(" ".join(words))
    taken = list(dict.fromkeys(taken))[:count]
    if len(taken) < count:
        raise RuntimeError(f"{chunks.count} chunks give {len(taken)} questions, and {count} are wanted")
    return taken


class Best:
    """The best chunks of some for each question so far, and all that are as good as the last of these."""

    def __init__(self, count, k):
        self.k = k
        self.scores = [numpy.empty(0, "f4")] * count
        self.ids = [numpy.empty(0, object)] * count

    def add(self, scores, ids):
        """`scores` is `[questions, chunks]`."""
        for number, row in enumerate(scores):
            least = self.least(number)
            better = numpy.flatnonzero(row >= least - EQUAL)
            if len(better) > 4 * self.k:
                better = better[row[better] >= numpy.partition(row[better], -self.k)[-self.k] - EQUAL]
            self.scores[number] = numpy.concatenate([self.scores[number], row[better]])
            self.ids[number] = numpy.concatenate([self.ids[number], ids[better]])
            kept = self.scores[number] >= self.least(number) - EQUAL
            self.scores[number], self.ids[number] = self.scores[number][kept], self.ids[number][kept]

    def least(self, number):
        scores = self.scores[number]
        return numpy.partition(scores, -self.k)[-self.k] if len(scores) >= self.k else -numpy.inf

    def truth(self):
        return [{"count": min(self.k, len(ids)), "ids": ids.tolist()} for ids in self.ids]


def truth(chunks, vectors, chosen, k):
    """What an exact search finds for each question, without a filter (under the empty name) and with each."""
    best = {name: Best(len(vectors), k) for name in ["", *(one["name"] for one in chosen)]}
    for batch in chunks.batches(["chunk_id", "vector", "attributes"]):
        ids = numpy.array(batch["chunk_id"].to_pylist(), object)
        scores = vectors @ chunks.vectors(batch).T
        best[""].add(scores, ids)
        held = batch["attributes"].to_pylist() if chosen else []
        for one in chosen:
            kept = numpy.array([one["name"] in pairs for pairs in held])
            best[one["name"]].add(scores[:, kept], ids[kept])
    return {name: found.truth() for name, found in best.items()}
