"""An assistant that remembers what you tell it, over any number of conversations.

It answers a question if the answer is in memory. Otherwise it repeats what you said that fits best.
README.md says how to generate the modules below `clew` that it imports.

    python examples/python/assistant.py --endpoint 127.0.0.1:7421 --user ada
"""

import argparse
import sys
import time
import uuid

import grpc
from clew.chat.v1 import chat_pb2 as chat
from clew.chat.v1 import chat_pb2_grpc
from clew.corpus.v1 import corpus_pb2 as corpus
from clew.corpus.v1 import corpus_pb2_grpc
from clew.query.v1 import query_pb2 as query

# Longest duration of a call in seconds. It travels with the call, and the server keeps to it.
PATIENCE = 30
# Number of times that a call is made if the server is away or busy.
ATTEMPTS = 5
RETRYABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


def patiently(call, request):
    """Makes a call, again if the server is away. All calls here may be repeated."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call(request, timeout=PATIENCE)
        except grpc.RpcError as error:
            if error.code() not in RETRYABLE or attempt == ATTEMPTS:
                raise
            time.sleep(attempt)


class Memory:
    """What one user said, in all conversations."""

    def __init__(self, channel, corpus_name, user):
        self.whose = {"corpus": corpus_name, "user": user}
        self.chats = chat_pb2_grpc.ChatServiceStub(channel)
        self.session = str(uuid.uuid4())
        self.turns = 0

    def remember(self, role, text):
        """Appends a turn. It returns when the turn is stored and can be found."""
        turn = chat.Turn(number=self.turns, role=role, text=text)
        turn.time.GetCurrentTime()
        request = chat.AppendTurnsRequest(session=self.session, turns=[turn], **self.whose)
        patiently(self.chats.AppendTurns, request)
        self.turns += 1

    def events(self, request, timeout):
        """The steps of an answer and, last, the answer. A stream fails while it is read, so it is read here."""
        return list(self.chats.Answer(request, timeout=timeout))

    def answer(self, question):
        """The answer to a question, or `None` if it is not in memory."""
        request = chat.AnswerRequest(question=question, **self.whose)
        request.asked_at.GetCurrentTime()
        *_, last = patiently(self.events, request)
        answer = last.event.answer
        return None if answer.outcome == query.OUTCOME_NOT_IN_MEMORY else answer.text

    def recall(self, text):
        """What the user said that is most relevant to a text."""
        request = chat.RecallRequest(question=text, k=1, value=chat.VALUE_TURN, **self.whose)
        request.asked_at.GetCurrentTime()
        request.filter.attributes.add(name="chat.role", value="user")
        found = patiently(self.chats.Recall, request).items
        return [turn.text for item in found for turn in item.turns]


def make_corpus(channel, name):
    """Makes the corpus of the conversations, unless it exists. Turns are too short for trees."""
    request = corpus.CreateCorpusRequest(name=name, without_structure=True)
    try:
        patiently(corpus_pb2_grpc.CorpusServiceStub(channel).CreateCorpus, request)
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.ALREADY_EXISTS:
            raise


def converse(memory):
    """Replies to each line of standard input, and remembers both sides."""
    for said in filter(None, map(str.strip, sys.stdin)):
        reply = memory.answer(said) if said.endswith("?") else None
        if reply is None:
            known = memory.recall(said)
            reply = f"You once said: {known[0]}" if known else "That is new to me."
        print(reply, flush=True)
        memory.remember(chat.ROLE_USER, said)
        memory.remember(chat.ROLE_ASSISTANT, reply)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--endpoint", default="127.0.0.1:7421", help="address of the server, host:port")
    parser.add_argument("--corpus", default="chats", help="corpus; it is made if it does not exist")
    parser.add_argument("--user", default="ada", help="whose memory it is")
    arguments = parser.parse_args()
    with grpc.insecure_channel(arguments.endpoint) as channel:
        try:
            make_corpus(channel, arguments.corpus)
            converse(Memory(channel, arguments.corpus, arguments.user))
        except grpc.RpcError as error:
            sys.exit(f"error: {error.code().name}: {error.details()}")


if __name__ == "__main__":
    main()
