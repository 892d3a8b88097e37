"""Methods of the services that the client calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from clew._proto import access_pb2, chat_pb2, corpus_pb2, ingest_pb2, query_pb2

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """A method of a service."""

    path: str
    """Path that a call names: service and method."""
    request: type[Request]
    """Kind of its requests."""
    response: type[Response]
    """Kind of its responses."""
    may_repeat: bool
    """Whether a call may be made again if nobody knows whether it was done."""


WHO_AM_I = Method(
    "/clew.auth.v1.AccessService/WhoAmI",
    access_pb2.WhoAmIRequest,
    access_pb2.WhoAmIResponse,
    may_repeat=True,
)

CREATE_CORPUS = Method(
    "/clew.corpus.v1.CorpusService/CreateCorpus",
    corpus_pb2.CreateCorpusRequest,
    corpus_pb2.CreateCorpusResponse,
    may_repeat=False,
)
GET_CORPUS = Method(
    "/clew.corpus.v1.CorpusService/GetCorpus",
    corpus_pb2.GetCorpusRequest,
    corpus_pb2.GetCorpusResponse,
    may_repeat=True,
)
LIST_CORPORA = Method(
    "/clew.corpus.v1.CorpusService/ListCorpora",
    corpus_pb2.ListCorporaRequest,
    corpus_pb2.ListCorporaResponse,
    may_repeat=True,
)
DELETE_CORPUS = Method(
    "/clew.corpus.v1.CorpusService/DeleteCorpus",
    corpus_pb2.DeleteCorpusRequest,
    corpus_pb2.DeleteCorpusResponse,
    may_repeat=False,
)
SNAPSHOT_CORPUS = Method(
    "/clew.corpus.v1.CorpusService/SnapshotCorpus",
    corpus_pb2.SnapshotCorpusRequest,
    corpus_pb2.SnapshotCorpusResponse,
    may_repeat=False,
)
LIST_SNAPSHOTS = Method(
    "/clew.corpus.v1.CorpusService/ListSnapshots",
    corpus_pb2.ListSnapshotsRequest,
    corpus_pb2.ListSnapshotsResponse,
    may_repeat=True,
)
# Repeated after a success that nobody heard of, it would tell of a snapshot that was not found.
DELETE_SNAPSHOTS = Method(
    "/clew.corpus.v1.CorpusService/DeleteSnapshots",
    corpus_pb2.DeleteSnapshotsRequest,
    corpus_pb2.DeleteSnapshotsResponse,
    may_repeat=False,
)
RESTORE_CORPUS = Method(
    "/clew.corpus.v1.CorpusService/RestoreCorpus",
    corpus_pb2.RestoreCorpusRequest,
    corpus_pb2.RestoreCorpusResponse,
    may_repeat=False,
)

# The ingestion sends again by itself what was not answered.
INGEST = Method(
    "/clew.ingest.v1.IngestService/Ingest",
    ingest_pb2.IngestRequest,
    ingest_pb2.IngestResponse,
    may_repeat=False,
)
GET_DOCUMENT = Method(
    "/clew.ingest.v1.IngestService/GetDocument",
    ingest_pb2.GetDocumentRequest,
    ingest_pb2.GetDocumentResponse,
    may_repeat=True,
)
LIST_DOCUMENTS = Method(
    "/clew.ingest.v1.IngestService/ListDocuments",
    ingest_pb2.ListDocumentsRequest,
    ingest_pb2.ListDocumentsResponse,
    may_repeat=True,
)
LIST_CHUNKS = Method(
    "/clew.ingest.v1.IngestService/ListChunks",
    ingest_pb2.ListChunksRequest,
    ingest_pb2.ListChunksResponse,
    may_repeat=True,
)
WATCH_INGESTION = Method(
    "/clew.ingest.v1.IngestService/WatchIngestion",
    ingest_pb2.WatchIngestionRequest,
    ingest_pb2.WatchIngestionResponse,
    may_repeat=True,
)
FORGET_DOCUMENTS = Method(
    "/clew.ingest.v1.IngestService/ForgetDocuments",
    ingest_pb2.ForgetDocumentsRequest,
    ingest_pb2.ForgetDocumentsResponse,
    may_repeat=True,
)

SEARCH = Method(
    "/clew.query.v1.QueryService/Search",
    query_pb2.SearchRequest,
    query_pb2.SearchResponse,
    may_repeat=True,
)
ANSWER = Method(
    "/clew.query.v1.QueryService/Answer",
    query_pb2.AnswerRequest,
    query_pb2.AnswerResponse,
    may_repeat=True,
)
EMBED = Method(
    "/clew.query.v1.QueryService/Embed",
    query_pb2.EmbedRequest,
    query_pb2.EmbedResponse,
    may_repeat=True,
)
LIST_STRATEGIES = Method(
    "/clew.query.v1.QueryService/ListStrategies",
    query_pb2.ListStrategiesRequest,
    query_pb2.ListStrategiesResponse,
    may_repeat=True,
)

APPEND_TURNS = Method(
    "/clew.chat.v1.ChatService/AppendTurns",
    chat_pb2.AppendTurnsRequest,
    chat_pb2.AppendTurnsResponse,
    may_repeat=True,
)
RECALL = Method(
    "/clew.chat.v1.ChatService/Recall",
    chat_pb2.RecallRequest,
    chat_pb2.RecallResponse,
    may_repeat=True,
)
ANSWER_FROM_TURNS = Method(
    "/clew.chat.v1.ChatService/Answer",
    chat_pb2.AnswerRequest,
    chat_pb2.AnswerResponse,
    may_repeat=True,
)
LIST_TURNS = Method(
    "/clew.chat.v1.ChatService/ListTurns",
    chat_pb2.ListTurnsRequest,
    chat_pb2.ListTurnsResponse,
    may_repeat=True,
)
LIST_USERS = Method(
    "/clew.chat.v1.ChatService/ListUsers",
    chat_pb2.ListUsersRequest,
    chat_pb2.ListUsersResponse,
    may_repeat=True,
)
LIST_SESSIONS = Method(
    "/clew.chat.v1.ChatService/ListSessions",
    chat_pb2.ListSessionsRequest,
    chat_pb2.ListSessionsResponse,
    may_repeat=True,
)
# With `about`, a repeated call would forget other turns.
FORGET_TURNS = Method(
    "/clew.chat.v1.ChatService/ForgetTurns",
    chat_pb2.ForgetTurnsRequest,
    chat_pb2.ForgetTurnsResponse,
    may_repeat=False,
)
