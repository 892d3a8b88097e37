"""The engines that `search_peers.py` sets beside Clew, each behind the same few methods."""

import json
import os
import re
from datetime import timedelta

K = 10
# The constant of reciprocal rank fusion that all engines here use.
RRF = 60


class Engine:
    """An engine that keeps chunks in a folder and searches them, in this process."""

    # Module that is imported, and packages of pip that hold it. The first one's version is reported.
    module = ""
    packages = []
    modes = []
    # Whether a dense search can be restricted to chunks with an attribute.
    has_filters = True
    # What was chosen.
    settings = ""
    # When what was added is on the disk for good: seen by tracing its calls of fsync.
    synced = ""
    # When a search no longer finds what was deleted: tried out.
    deletes = ""
    # What else a user of Clew would miss.
    lacks = ""
    # Maximum number of chunks of one call of `add`.
    batch = 5000

    def __init__(self, folder, dimension, filters):
        """Names the folder, which exists, and the attributes that filters use: a column for each."""
        self.folder = folder
        self.dimension = dimension
        self.columns = sorted({one["column"] for one in filters})
        # Seconds of each search by part, if the engine tells them.
        self.timings = []

    def add(self, ids, texts, vectors, attributes):
        """Adds chunks. `vectors` is `[chunks, dimension]`, `attributes` has a list of texts for each column."""
        raise NotImplementedError

    def finish(self):
        """Builds what indexes there are, and puts everything on the disk."""

    def open(self):
        """Opens what another process added and finished."""

    def search(self, mode, text, vector, where):
        """Ids of the best chunks, best first. `where` is `None` or a column and its value."""
        raise NotImplementedError


class LanceDb(Engine):
    module = "lancedb"
    packages = ["lancedb"]
    modes = ["dense", "sparse", "hybrid"]
    settings = "IVF_RQ of 5 bits, at least 20 probes, refined by 5; BM25 with stems; RRF; bitmaps for filters"
    synced = "never"
    deletes = "at once, in the process that deletes"
    lacks = "labels, tenants"
    # As Clew has it.
    BITS = 5
    PROBES = 20
    REFINE = 5
    # Fewer are compared one by one. Clew does so below 20,000.
    INDEXED_FROM = 1000

    def __init__(self, *arguments):
        super().__init__(*arguments)
        # A warning of each search otherwise.
        os.environ.setdefault("LANCEDB_LOG", "error")

    def table(self):
        import lancedb

        return lancedb.connect(self.folder).open_table("chunks")

    def add(self, ids, texts, vectors, attributes):
        import lancedb
        import pyarrow as pa

        values = pa.array(vectors.reshape(-1))
        columns = {"id": ids, "text": texts, "vector": pa.FixedSizeListArray.from_arrays(values, self.dimension)}
        batch = pa.table({**columns, **attributes})
        database = lancedb.connect(self.folder)
        if "chunks" in database.list_tables().tables:
            database.open_table("chunks").add(batch)
        else:
            database.create_table("chunks", batch)

    def finish(self):
        from lancedb.index import FTS, Bitmap, IvfRq

        table = self.table()
        if table.count_rows() >= self.INDEXED_FROM:
            table.create_index("vector", config=IvfRq(distance_type="cosine", num_bits=self.BITS))
        table.create_index("text", config=FTS())
        for column in self.columns:
            table.create_index(column, config=Bitmap())
        # Old versions would count as its disk otherwise, for a week.
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    def open(self):
        from lancedb.rerankers import RRFReranker

        self.opened = self.table()
        self.fusion = RRFReranker(K=RRF)

    def search(self, mode, text, vector, where):
        if mode == "sparse":
            query = self.opened.search(text, query_type="fts", fts_columns="text")
        elif mode == "dense":
            query = self.nearest(self.opened.search(vector, vector_column_name="vector"))
        else:
            both = self.opened.search(query_type="hybrid", vector_column_name="vector", fts_columns="text")
            query = self.nearest(both.vector(vector).text(text)).rerank(self.fusion)
        if where:
            query = query.where(f"{where[0]} = '{where[1]}'", prefilter=True)
        return query.select(["id", "text"]).limit(K).to_arrow()["id"].to_pylist()

    def nearest(self, query):
        # A maximum of 0 reads more partitions until there are enough rows, for filters.
        query = query.distance_type("cosine").minimum_nprobes(self.PROBES).maximum_nprobes(0)
        return query.refine_factor(self.REFINE)


class Chroma(Engine):
    module = "chromadb"
    packages = ["chromadb"]
    modes = ["dense"]
    settings = "HNSW as it comes, in a folder"
    synced = "at once"
    deletes = "at once"
    lacks = "ranking by words in its local form, labels, tenants; all vectors are in memory"

    def client(self):
        import chromadb

        quiet = chromadb.Settings(anonymized_telemetry=False)
        return chromadb.PersistentClient(str(self.folder), settings=quiet)

    def collection(self):
        hnsw = {"hnsw": {"space": "cosine"}}
        return self.client().get_or_create_collection("chunks", configuration=hnsw, embedding_function=None)

    def add(self, ids, texts, vectors, attributes):
        rows = None
        if self.columns:
            rows = [dict(zip(attributes, values)) for values in zip(*attributes.values())]
        self.collection().add(ids=ids, documents=texts, embeddings=vectors, metadatas=rows)

    def open(self):
        self.opened = self.collection()

    def search(self, mode, text, vector, where):
        found = self.opened.query(
            query_embeddings=[vector],
            n_results=K,
            where={where[0]: where[1]} if where else None,
            include=["documents"],
        )
        return found["ids"][0]


class MilvusLite(Engine):
    module = "milvus_lite"
    packages = ["milvus-lite", "pymilvus[milvus-lite]"]
    modes = ["dense", "sparse", "hybrid"]
    settings = "HNSW with M 16 and efConstruction 200, ef 64; BM25 without stems; RRF; inverted indexes for filters"
    synced = "when it is flushed or closed"
    deletes = "at once"
    lacks = "stems, labels, tenants; its makers mean it for development"
    EF = {"ef": 64}

    def client(self):
        from pymilvus import MilvusClient

        return MilvusClient(str(self.folder / "chunks.db"))

    def schema(self, client):
        from pymilvus import DataType, Function, FunctionType

        schema = client.create_schema(auto_id=False)
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=100)
        schema.add_field("text", DataType.VARCHAR, max_length=65535, enable_analyzer=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=self.dimension)
        schema.add_field("words", DataType.SPARSE_FLOAT_VECTOR)
        for column in self.columns:
            schema.add_field(column, DataType.VARCHAR, max_length=1000)
        bm25 = Function(
            name="bm25",
            function_type=FunctionType.BM25,
            input_field_names=["text"],
            output_field_names=["words"],
        )
        schema.add_function(bm25)
        return schema

    def add(self, ids, texts, vectors, attributes):
        if not hasattr(self, "adding"):
            self.adding = self.client()
            self.adding.create_collection("chunks", schema=self.schema(self.adding))
        names = ["id", "text", "vector", *attributes]
        rows = zip(ids, texts, vectors, *attributes.values())
        self.adding.insert("chunks", [dict(zip(names, row)) for row in rows])

    def finish(self):
        self.adding.flush("chunks")
        indexes = self.adding.prepare_index_params()
        build = {"M": 16, "efConstruction": 200}
        indexes.add_index("vector", index_type="HNSW", metric_type="COSINE", params=build)
        indexes.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params={})
        for column in self.columns:
            indexes.add_index(column, index_type="INVERTED")
        self.adding.create_index("chunks", indexes)
        # Builds them.
        self.adding.load_collection("chunks")
        self.adding.close()

    def open(self):
        self.opened = self.client()
        self.opened.load_collection("chunks")

    def search(self, mode, text, vector, where):
        from pymilvus import AnnSearchRequest, RRFRanker

        dense = {"metric_type": "COSINE", "params": self.EF}
        sparse = {"metric_type": "BM25", "params": {}}
        if mode == "hybrid":
            nearest = AnnSearchRequest([vector], "vector", dense, limit=K)
            matching = AnnSearchRequest([text], "words", sparse, limit=K)
            fusion = RRFRanker(RRF)
            found = self.opened.hybrid_search(
                "chunks", [nearest, matching], fusion, limit=K, output_fields=["text"]
            )
        else:
            found = self.opened.search(
                "chunks",
                data=[vector if mode == "dense" else text],
                anns_field="vector" if mode == "dense" else "words",
                search_params=dense if mode == "dense" else sparse,
                filter=f'{where[0]} == "{where[1]}"' if where else "",
                limit=K,
                output_fields=["text"],
            )
        return [hit["id"] for hit in found[0]]


class Usearch(Engine):
    module = "usearch"
    packages = ["usearch"]
    modes = ["dense"]
    has_filters = False
    settings = "HNSW as it comes, vectors as 32-bit floats"
    synced = "never; it is written by a call of its own"
    deletes = "at once"
    lacks = "texts, filters; all vectors are in memory"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ids = []

    def add(self, ids, texts, vectors, attributes):
        import numpy
        from usearch.index import Index

        if not self.ids:
            self.index = Index(ndim=self.dimension, metric="cos", dtype="f32")
        self.index.add(numpy.arange(len(self.ids), len(self.ids) + len(ids)), vectors)
        self.ids += ids

    def finish(self):
        self.index.save(self.folder / "vectors.usearch")
        (self.folder / "ids.json").write_text(json.dumps(self.ids))

    def open(self):
        from usearch.index import Index

        self.index = Index.restore(self.folder / "vectors.usearch")
        self.ids = json.loads((self.folder / "ids.json").read_text())

    def search(self, mode, text, vector, where):
        # One search is one thread's; more of them only wait for each other.
        return [self.ids[key] for key in self.index.search(vector, K, threads=1).keys]


class Tantivy(Engine):
    module = "tantivy"
    packages = ["tantivy"]
    modes = ["sparse"]
    settings = "English stems, texts stored"
    synced = "at a commit"
    deletes = "after a commit and a reload"
    lacks = "vectors"
    HEAP = 256 << 20

    def index(self):
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("text", stored=True, tokenizer_name="en_stem")
        return tantivy.Index(builder.build(), path=str(self.folder))

    def add(self, ids, texts, vectors, attributes):
        import tantivy

        if not hasattr(self, "writer"):
            self.opened = self.index()
            self.writer = self.opened.writer(heap_size=self.HEAP)
        for id_, text in zip(ids, texts):
            self.writer.add_document(tantivy.Document(id=id_, text=text))

    def finish(self):
        self.writer.commit()
        self.writer.wait_merging_threads()

    def open(self):
        self.opened = self.index()
        self.searcher = self.opened.searcher()

    def search(self, mode, text, vector, where):
        # Words alone, because signs are operators to the parser.
        query = self.opened.parse_query(" ".join(re.findall(r"\w+", text.lower())), ["text"])
        documents = (self.searcher.doc(address) for _, address in self.searcher.search(query, K).hits)
        return [document["id"][0] for document in documents]


class Pair(Engine):
    """A vector index and a text index in one process, fused here: the lower bound of a hybrid search."""

    module = "usearch"
    packages = ["usearch", "tantivy"]
    modes = ["hybrid"]
    has_filters = False
    settings = "both as above, RRF in Python over the best 10 of each"
    synced = "as both above"
    deletes = "as both above"
    lacks = "filters, and anything that keeps the two alike"

    def __init__(self, folder, dimension, filters):
        super().__init__(folder, dimension, filters)
        self.parts = []
        for kind in (Usearch, Tantivy):
            part = folder / kind.module
            part.mkdir(exist_ok=True)
            self.parts.append(kind(part, dimension, filters))

    def add(self, *chunks):
        for part in self.parts:
            part.add(*chunks)

    def finish(self):
        for part in self.parts:
            part.finish()

    def open(self):
        for part in self.parts:
            part.open()

    def search(self, mode, text, vector, where):
        scores = {}
        for part in self.parts:
            for rank, id_ in enumerate(part.search(mode, text, vector, where)):
                scores[id_] = scores.get(id_, 0) + 1 / (RRF + rank + 1)
        return sorted(scores, key=scores.get, reverse=True)[:K]


class Numpy(Engine):
    module = "numpy"
    packages = ["numpy"]
    modes = ["dense"]
    settings = "the exact product over all vectors in memory, with as many threads as its BLAS takes"
    synced = "never; it is a file"
    deletes = ""
    lacks = "everything but this product; all vectors are in memory"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ids, self.rows, self.values = [], [], {column: [] for column in self.columns}

    def add(self, ids, texts, vectors, attributes):
        self.ids += ids
        self.rows.append(vectors.copy())
        for column in self.columns:
            self.values[column] += attributes[column]

    def finish(self):
        import numpy

        numpy.save(self.folder / "vectors.npy", numpy.concatenate(self.rows))
        kept = {"ids": self.ids, "values": self.values}
        (self.folder / "ids.json").write_text(json.dumps(kept))

    def open(self):
        import numpy

        self.vectors = numpy.load(self.folder / "vectors.npy")
        kept = json.loads((self.folder / "ids.json").read_text())
        self.ids = kept["ids"]
        self.values = {column: numpy.array(values) for column, values in kept["values"].items()}

    def search(self, mode, text, vector, where):
        import numpy

        scores = self.vectors @ vector
        if where:
            scores[self.values[where[0]] != where[1]] = -numpy.inf
        best = numpy.argpartition(scores, -K)[-K:]
        return [self.ids[row] for row in best[numpy.argsort(-scores[best])]]


ENGINES = {
    "lancedb": LanceDb,
    "chroma": Chroma,
    "milvus": MilvusLite,
    "usearch": Usearch,
    "tantivy": Tantivy,
    "tantivy+usearch": Pair,
    "numpy": Numpy,
}
