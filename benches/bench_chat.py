"""What a memory of conversations costs as it grows: appending a turn, and recalling.

    CLEW=target/debug/clew .cache/python/bin/python benches/bench_chat.py [SESSIONS...]

It needs the Python packages of `tests/python/requirements.txt`. One user's sessions of two rounds each, made up, go
into a server of its own on a temporary directory; at each number of SESSIONS (500 and 5000 unless told) one turn
after the other is appended, each waited for until it can be found, and questions are recalled one by one.
"""

import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
CALLS = 100
PATIENCE = 60
THINGS = ["bicycle", "oven", "garden", "violin", "passport", "camera", "boat", "carpet", "lamp", "coat"]
PLACES = ["Athens", "Prague", "Lisbon", "Oslo", "Kyoto", "Lima", "Cairo", "Dublin", "Riga", "Quito"]
DEEDS = ["bought", "lost", "sold", "repaired", "painted", "borrowed", "found", "gave away"]


def stubs(folder):
    protos = REPOSITORY / "proto"
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    files = [str(protos / f"clew/{name}/v1/{name}.proto") for name in ("chat", "corpus", "ingest", "query")]
    paths = [f"--proto_path={protos}", f"--proto_path={well_known}"]
    outputs = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main(["protoc", *paths, *outputs, *files]) == 0
    sys.path.insert(0, folder)
    from clew.chat.v1 import chat_pb2, chat_pb2_grpc

    return chat_pb2, chat_pb2_grpc


def said(chance):
    thing, place, deed = chance.choice(THINGS), chance.choice(PLACES), chance.choice(DEEDS)
    return f"I {deed} a {thing} number {chance.randrange(10**6)} when I was in {place} last month."


class Bench:
    def __init__(self, chat, memory, ingest, documents):
        self.chat, self.memory = chat, memory
        self.ingest, self.documents = ingest, documents
        self.chance = random.Random(7)
        self.whose = {"corpus": "chats", "user": "ada"}

    def turn(self, number):
        is_user = number % 2 == 0
        role = self.chat.ROLE_USER if is_user else self.chat.ROLE_ASSISTANT
        text = said(self.chance) if is_user else "That is good to know; tell me more about it."
        turn = self.chat.Turn(number=number, role=role, text=text)
        turn.time.FromSeconds(1_700_000_000 + self.chance.randrange(10**7))
        return turn

    def append(self, session, turns, waits=True):
        request = self.chat.AppendTurnsRequest(session=session, turns=turns, **self.whose)
        request.without_waiting = not waits
        self.memory.AppendTurns(request, timeout=PATIENCE)

    def fill(self, first, last):
        for session in range(first, last):
            self.append(f"s{session:06}", [self.turn(number) for number in range(4)], waits=False)
        idle = self.ingest.WatchIngestionRequest(corpus="chats", until_idle=True)
        for _ in self.documents.WatchIngestion(idle, timeout=60 * PATIENCE):
            pass

    def timed(self, what, call):
        took = []
        for at in range(CALLS):
            began = time.perf_counter()
            call(at)
            took.append(1e3 * (time.perf_counter() - began))
        took.sort()
        print(f"  {what}: median {statistics.median(took):.0f} ms, p99 {took[int(0.99 * CALLS) - 1]:.0f} ms")

    def measure(self, sessions):
        print(f"{sessions} sessions, {4 * sessions} turns")
        live = f"live-{sessions}"
        self.timed("append a turn, until it is found", lambda at: self.append(live, [self.turn(at)]))
        kept = f"kept-{sessions}"
        self.timed("append a turn, until it is kept", lambda at: self.append(kept, [self.turn(at)], waits=False))

        def recall(_):
            question = f"What have I done with the {self.chance.choice(THINGS)} in {self.chance.choice(PLACES)}?"
            request = self.chat.RecallRequest(question=question, **self.whose)
            assert self.memory.Recall(request, timeout=PATIENCE).items

        self.timed("recall ten rounds", recall)


def main():
    sizes = sorted(map(int, sys.argv[1:])) or [500, 5000]
    with tempfile.TemporaryDirectory() as folder:
        chat, chat_grpc = stubs(folder)
        from clew.corpus.v1 import corpus_pb2, corpus_pb2_grpc
        from clew.ingest.v1 import ingest_pb2, ingest_pb2_grpc

        command = [os.environ["CLEW"], "serve", "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            address = server.stdout.readline().split("http://")[1].strip()
            channel = grpc.insecure_channel(address)
            create = corpus_pb2.CreateCorpusRequest(name="chats", without_structure=True)
            corpus_pb2_grpc.CorpusServiceStub(channel).CreateCorpus(create, timeout=PATIENCE)
            documents = ingest_pb2_grpc.IngestServiceStub(channel)
            bench = Bench(chat, chat_grpc.ChatServiceStub(channel), ingest_pb2, documents)
            filled = 0
            for sessions in sizes:
                bench.fill(filled, sessions)
                filled = sessions
                bench.measure(sessions)
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)


if __name__ == "__main__":
    main()
