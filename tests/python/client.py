"""A client of Clew in Python, made from the proto files when it runs.

It ingests, watches, searches, answers and forgets, and fails at anything that is not as the proto
files say. Run by `tests/interfaces/python.rs`; to run it by hand:

    .cache/python/bin/python tests/python/client.py --proto proto --target 127.0.0.1:7421

The server must have an empty corpus `notes`.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys
import tempfile

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from grpc_tools import protoc

CORPUS = "notes"
# Seconds that any call may take.
PATIENCE = 60

DOCUMENTS = {
    "river": "The old house stands by the river. A ferryman called Bohumil lives in it.",
    "train": "The night train from the city was late that winter. Nobody met it.",
    "letter": "A letter for the new friend was lost, and a cat called Xqvzkwjb found it.",
}


def generate(proto: pathlib.Path, target: pathlib.Path) -> None:
    """Makes the modules `clew.<area>.v1.<area>_pb2` and `_pb2_grpc` in `target`."""
    files = sorted(str(path) for path in proto.rglob("*.proto"))
    assert files, f"there are no proto files below {proto}"
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    arguments = ["protoc", f"--proto_path={proto}", f"--proto_path={well_known}"]
    outputs = [f"--python_out={target}", f"--grpc_python_out={target}"]
    assert protoc.main(arguments + outputs + files) == 0, "the proto files do not compile"
    sys.path.insert(0, str(target))


def area(name: str):
    """The messages and services of one area."""
    package = f"clew.{name}.v1.{name}"
    return importlib.import_module(f"{package}_pb2"), importlib.import_module(f"{package}_pb2_grpc")


def refused(call, code: grpc.StatusCode, reason: str, field: str | None) -> None:
    """Fails unless `call` is refused with that code, that reason and that field."""
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, f"expected {code}, got {error.code()}: {error.details()}"
        status = rpc_status.from_call(error)
        assert status is not None, "the error has no details"
        info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        for detail in status.details:
            for known in (info, request):
                if detail.Is(known.DESCRIPTOR):
                    detail.Unpack(known)
        assert (info.reason, info.domain) == (reason, "clew"), info
        fields = [violation.field for violation in request.field_violations]
        assert fields == ([field] if field else []), f"expected {field}, got {fields}"
        return
    raise AssertionError(f"it was not refused with {reason}")


class Tour:
    """Every service, in the order in which a user meets them."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.corpus, corpus_grpc = area("corpus")
        self.ingest, ingest_grpc = area("ingest")
        self.query, query_grpc = area("query")
        self.corpora = corpus_grpc.CorpusServiceStub(channel)
        self.documents = ingest_grpc.IngestServiceStub(channel)
        self.queries = query_grpc.QueryServiceStub(channel)
        self.chat, chat_grpc = area("chat")
        self.chats = chat_grpc.ChatServiceStub(channel)

    def run(self) -> None:
        self.make_and_list_corpora()
        versions = self.ingest_all(unchanged=False)
        assert self.ingest_all(unchanged=True) == versions
        self.watch_until_idle()
        self.read_back()
        self.search()
        self.answer()
        self.be_refused()
        self.forget()
        self.converse()

    def make_and_list_corpora(self) -> None:
        chunking = self.corpus.Chunking(sentences=self.corpus.SentenceChunking(max_tokens=48))
        request = self.corpus.CreateCorpusRequest(name="python", shards=2, chunking=chunking)
        made = self.corpora.CreateCorpus(request, timeout=PATIENCE).corpus
        assert (made.name, made.shards, made.chunking) == ("python", 2, chunking), made
        assert made.encoder.dimension > 0 and made.counts.documents == 0, made
        request = self.corpus.ListCorporaRequest()
        listed = self.corpora.ListCorpora(request, timeout=PATIENCE).corpora
        assert [corpus.name for corpus in listed] == [CORPUS, "python"], listed
        request = self.corpus.DeleteCorpusRequest(name="python")
        assert self.corpora.DeleteCorpus(request, timeout=PATIENCE).documents == 0

    def ingest_all(self, *, unchanged: bool) -> dict[str, int]:
        def messages():
            for name, text in DOCUMENTS.items():
                # In two parts, as a long text would come.
                data = text.encode()
                document = self.ingest.Document(id=name, text=data[:10], title=f"The {name}")
                request = self.ingest.IngestRequest(corpus=CORPUS, document=document)
                request.continues = True
                yield request
                yield self.ingest.IngestRequest(text_part=data[10:])
            # A refused document does not end the stream.
            empty = self.ingest.Document(id="empty")
            yield self.ingest.IngestRequest(document=empty)

        *accepted, refused = self.documents.Ingest(messages(), timeout=PATIENCE)
        assert [response.document_id for response in accepted] == list(DOCUMENTS), accepted
        assert all(response.accepted.unchanged == unchanged for response in accepted), accepted
        assert refused.document_id == "empty" and refused.refused.reason == "INVALID_INPUT"
        assert refused.refused.violations[0].field == "document.text", refused
        assert not refused.refused.retryable, refused
        return {response.document_id: response.accepted.version for response in accepted}

    def watch_until_idle(self) -> None:
        request = self.ingest.WatchIngestionRequest(corpus=CORPUS, until_idle=True)
        *_, last = self.documents.WatchIngestion(request, timeout=PATIENCE)
        assert (last.documents, last.indexed_documents) == (3, 3), last
        assert (last.pending_documents, last.failed_documents) == (0, 0), last

    def read_back(self) -> None:
        for name, text in DOCUMENTS.items():
            request = self.ingest.GetDocumentRequest(corpus=CORPUS, document_id=name)
            response = self.documents.GetDocument(request, timeout=PATIENCE)
            assert response.document.text.decode() == text, response
            assert response.state.stage == self.ingest.DOCUMENT_STAGE_INDEXED, response
        request = self.ingest.ListDocumentsRequest(corpus=CORPUS, page_size=2)
        first = self.documents.ListDocuments(request, timeout=PATIENCE)
        request.page_token = first.next_page_token
        second = self.documents.ListDocuments(request, timeout=PATIENCE)
        listed = [state.id for page in (first, second) for state in page.documents]
        assert listed == sorted(DOCUMENTS), listed

    def search(self) -> None:
        for mode in ("SPARSE", "DENSE", "HYBRID"):
            request = self.query.SearchRequest(corpus=CORPUS, query="xqvzkwjb the cat", k=3)
            request.mode = self.query.SearchMode.Value(f"SEARCH_MODE_{mode}")
            found = self.queries.Search(request, timeout=PATIENCE).evidence
            assert found, f"{mode} finds nothing"
            assert found[0].document_id == "letter" or mode == "DENSE", found
            for item in found:
                text = DOCUMENTS[item.document_id].encode()
                assert text[item.span.start : item.span.end].decode() == item.text, item
            scores = [item.score for item in found]
            assert scores == sorted(scores, reverse=True), scores

    def answer(self) -> None:
        question = "Who lives in the old house by the river?"
        request = self.query.AnswerRequest(corpus=CORPUS, question=question)
        events = list(self.queries.Answer(request, timeout=PATIENCE))
        kinds = [event.WhichOneof("event") for event in events]
        assert kinds[-1] == "answer" and kinds.count("answer") == 1, kinds
        steps = [event.trace.WhichOneof("step") for event in events if event.HasField("trace")]
        assert steps[0] == "searched" and "judged" in steps, steps
        answer = events[-1].answer
        assert answer.outcome in (self.query.OUTCOME_ANSWERED, self.query.OUTCOME_NOT_IN_MEMORY)
        assert answer.cost.shards_searched >= 1, answer
        deltas = "".join(event.text_delta for event in events if event.HasField("text_delta"))
        assert deltas == answer.text, (deltas, answer.text)
        assert bool(answer.citations) == (answer.outcome == self.query.OUTCOME_ANSWERED), answer
        for citation in answer.citations:
            text = DOCUMENTS[citation.document_id].encode()
            assert text[citation.span.start : citation.span.end].decode() == citation.quote

    def be_refused(self) -> None:
        invalid, absent = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND

        def search(**fields):
            request = self.query.SearchRequest(corpus=CORPUS, query="cat")
            for name, value in fields.items():
                setattr(request, name, value)
            return lambda: self.queries.Search(request, timeout=PATIENCE)

        refused(search(k=0), invalid, "INVALID_INPUT", "k")
        refused(search(query=" "), invalid, "INVALID_INPUT", "query")
        refused(search(corpus="nowhere"), absent, "NOT_FOUND", None)
        request = self.query.AnswerRequest(corpus=CORPUS, question="who?", strategy="oracle")
        answering = lambda: list(self.queries.Answer(request, timeout=PATIENCE))
        refused(answering, invalid, "INVALID_INPUT", "strategy")

    def converse(self) -> None:
        request = self.corpus.CreateCorpusRequest(name="chats")
        self.corpora.CreateCorpus(request, timeout=PATIENCE)
        whose = {"corpus": "chats", "user": "ada"}
        said = ["My cat is called Xqvzkwjb.", "What a name for a cat!", "And I live in Athens."]
        for number, text in enumerate(said):
            role = self.chat.ROLE_ASSISTANT if number == 1 else self.chat.ROLE_USER
            turn = self.chat.Turn(number=number, role=role, text=text)
            turn.time.FromJsonString(f"2024-05-20T10:00:0{number}Z")
            request = self.chat.AppendTurnsRequest(session="monday", turns=[turn], **whose)
            kept = self.chats.AppendTurns(request, timeout=PATIENCE).turns[0]
            assert (kept.number, kept.unchanged) == (number, False) and kept.version > 0, kept
        assert self.chats.AppendTurns(request, timeout=PATIENCE).turns[0].unchanged

        # What was said a moment ago is known.
        request = self.chat.RecallRequest(question="What is the cat called?", k=1, **whose)
        (item,) = self.chats.Recall(request, timeout=PATIENCE).items
        assert item.session == "monday", item
        assert [turn.text for turn in item.turns] == said[:2], item
        request = self.chat.AnswerRequest(question="What is the cat called?", **whose)
        *_, last = self.chats.Answer(request, timeout=PATIENCE)
        assert last.event.HasField("answer"), last
        listed = self.chats.ListTurns(self.chat.ListTurnsRequest(**whose), timeout=PATIENCE)
        assert [told.turn.text for told in listed] == said
        receipt = self.chats.ForgetTurns(self.chat.ForgetTurnsRequest(**whose), timeout=PATIENCE)
        assert (receipt.turns, receipt.sessions, receipt.verified) == (3, 1, True), receipt
        nobody = self.chat.ListTurnsRequest(corpus="chats", user="")
        listing = lambda: list(self.chats.ListTurns(nobody, timeout=PATIENCE))
        refused(listing, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT", "user")

    def forget(self) -> None:
        request = self.ingest.ForgetDocumentsRequest(corpus=CORPUS)
        request.document_ids.extend(["letter", "absent"])
        receipt = self.documents.ForgetDocuments(request, timeout=PATIENCE)
        letter, absent = receipt.documents
        assert receipt.verified and letter.found and not absent.found, receipt
        assert letter.text_bytes == len(DOCUMENTS["letter"].encode()), receipt
        assert letter.versions == 1 and letter.chunks >= 1, receipt
        search = self.query.SearchRequest(corpus=CORPUS, query="xqvzkwjb")
        search.mode = self.query.SEARCH_MODE_SPARSE
        assert not self.queries.Search(search, timeout=PATIENCE).evidence
        request = self.ingest.GetDocumentRequest(corpus=CORPUS, document_id="letter")
        gone = lambda: self.documents.GetDocument(request, timeout=PATIENCE)
        refused(gone, grpc.StatusCode.NOT_FOUND, "NOT_FOUND", None)
        request = self.corpus.GetCorpusRequest(name=CORPUS)
        assert self.corpora.GetCorpus(request, timeout=PATIENCE).corpus.counts.documents == 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--proto", type=pathlib.Path, required=True, help="folder of proto files")
    parser.add_argument("--target", required=True, help="address of the server, host:port")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as target:
        generate(arguments.proto, pathlib.Path(target))
        with grpc.insecure_channel(arguments.target) as channel:
            Tour(channel).run()
    print("all is well")


if __name__ == "__main__":
    main()
