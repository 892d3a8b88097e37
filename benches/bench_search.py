"""Searches a running server as its clients do, alone or while documents come in.

    clew serve --data-dir .clew &
    .cache/peers/bin/python benches/bench_search.py 127.0.0.1:7421 bench bench.jsonl
    .cache/peers/bin/python benches/bench_search.py 127.0.0.1:7421 bench bench.jsonl --clients 16
    .cache/peers/bin/python benches/bench_search.py 127.0.0.1:7421 bench bench.jsonl --beside 200

The file has the documents that the corpus was made of, such as those of `make_corpus.py`. Questions are nine words in
a row from some of them. `--beside` sends so many short documents a second to the same corpus meanwhile. Each client
waits for its answer before it asks again, and is a thread of this process, so its work counts too. The first seconds
warm the server up and are not counted. The line that is printed is JSON; times are in milliseconds.

The packages are those of `benches/peers/requirements.txt`.
"""

import argparse
import json
import random
import tempfile
import threading
import time
from pathlib import Path

import grpc
from peers import server

WARM_SECONDS = 4
WORDS = 9
K = 10


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("address", help="address of the server, such as 127.0.0.1:7421")
    parser.add_argument("corpus", help="name of the corpus")
    parser.add_argument("documents", help="file of its documents, JSON Lines with `text`")
    parser.add_argument("--mode", default="hybrid", choices=["dense", "sparse", "hybrid"])
    parser.add_argument("--clients", type=int, default=1, help="clients at once (default: 1)")
    parser.add_argument("--seconds", type=float, default=10, help="time that is measured (default: 10)")
    parser.add_argument("--beside", type=int, default=0, help="documents a second that come in (default: none)")
    parser.add_argument("--filter", help="attribute and value, such as share=10, of the documents that are searched")
    parser.add_argument("--questions", type=int, default=500, help="number of questions (default: 500)")
    return parser.parse_args()


def questions(path, number):
    drawn, found = random.Random(5), []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = json.loads(line)["text"].split()
            if len(words) > WORDS and drawn.random() < 0.1:
                first = drawn.randrange(len(words) - WORDS)
                found.append(" ".join(words[first : first + WORDS]))
            if len(found) == number:
                break
    return found


def feed(address, corpus, texts, rate, until):
    """Sends documents until a time. Returns how many were accepted."""
    from clew.ingest.v1 import ingest_pb2, ingest_pb2_grpc

    began, accepted = time.time(), 0

    def requests():
        sent = 0
        while time.time() < until:
            while sent < (time.time() - began) * rate:
                request = ingest_pb2.IngestRequest(corpus=corpus)
                request.document.id = f"fed-{int(began)}-{sent}"
                request.document.text = f"{texts[sent % len(texts)]} {sent}".encode()
                sent += 1
                yield request
            time.sleep(0.005)

    for response in ingest_pb2_grpc.IngestServiceStub(grpc.insecure_channel(address)).Ingest(requests()):
        accepted += response.HasField("accepted")
    return accepted


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        server.stubs(Path(folder) / "stubs")
        texts = questions(args.documents, args.questions)
        name, _, value = (args.filter or "").partition("=")
        where = (name, value) if value else None
        clew = server.Clew(args.address, args.corpus, [{"column": name, "attribute": name}], K)
        measured_from = time.time() + WARM_SECONDS
        until = measured_from + args.seconds
        took, accepted = [], []

        def ask(client):
            place = client * 37
            while time.time() < until:
                began = time.perf_counter()
                clew.search(args.mode, texts[place % len(texts)], None, where)
                if time.time() > measured_from:
                    took.append(time.perf_counter() - began)
                place += 1

        threads = [threading.Thread(target=ask, args=(client,)) for client in range(args.clients)]
        if args.beside:
            sending = (args.address, args.corpus, texts, args.beside, until)
            threads.append(threading.Thread(target=lambda: accepted.append(feed(*sending))))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def at(values, share):
        values = sorted(values)
        return round(1e3 * values[min(len(values) - 1, int(len(values) * share))], 2) if values else None

    parts = {part: at([timing[part] for timing in clew.timings], 0.5) for part in ("embedding", "shards", "server")}
    figures = {"mode": args.mode, "clients": args.clients, "searches_per_s": round(len(took) / args.seconds, 1)}
    figures |= {"p50": at(took, 0.5), "p99": at(took, 0.99)} | {f"p50_{part}": took for part, took in parts.items()}
    if args.beside:
        figures["accepted_per_s"] = round(sum(accepted) / (args.seconds + WARM_SECONDS), 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
