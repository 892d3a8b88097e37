"""Dataclasses have all fields of their messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

import clew
from clew._proto import access_pb2, chat_pb2, corpus_pb2, ingest_pb2, query_pb2
from clew._values.trace import STEPS
from clew._values.wire import choice_to_wire, fields_on_wire

PAIRS: list[tuple[type, type[Message]]] = [
    (clew.Caller, access_pb2.WhoAmIResponse),
    (clew.Quota, access_pb2.Quota),
    (clew.TokenChunking, corpus_pb2.TokenChunking),
    (clew.SentenceChunking, corpus_pb2.SentenceChunking),
    (clew.SectionChunking, corpus_pb2.SectionChunking),
    (clew.Structure, corpus_pb2.Structure),
    (clew.CompressedMemory, corpus_pb2.CompressedMemory),
    (clew.ChatSettings, chat_pb2.ChatSettings),
    (clew.EncoderIdentity, corpus_pb2.EncoderIdentity),
    (clew.CorpusCounts, corpus_pb2.CorpusCounts),
    (clew.CorpusFault, corpus_pb2.CorpusFault),
    (clew.Reembedding, corpus_pb2.Reembedding),
    (clew.CorpusInfo, corpus_pb2.Corpus),
    (clew.DeletedCorpus, corpus_pb2.DeleteCorpusResponse),
    (clew.CopyProgress, corpus_pb2.CopyProgress),
    (clew.Snapshot, corpus_pb2.Snapshot),
    (clew.SnapshotRefusal, corpus_pb2.SnapshotRefusal),
    (clew.SnapshotDeletion, corpus_pb2.SnapshotDeletion),
    (clew.RestoredCorpus, corpus_pb2.RestoredCorpus),
    (clew.Document, ingest_pb2.Document),
    (clew.DocumentState, ingest_pb2.DocumentState),
    (clew.Chunk, ingest_pb2.DocumentChunk),
    (clew.ForgottenDocument, ingest_pb2.ForgottenDocument),
    (clew.Leftover, ingest_pb2.Leftover),
    (clew.ErasureScan, ingest_pb2.ErasureScan),
    (clew.HoldingSnapshot, ingest_pb2.HoldingSnapshot),
    (clew.Receipt, ingest_pb2.ForgetDocumentsResponse),
    (clew.Refusal, ingest_pb2.Refused),
    (clew.Violation, ingest_pb2.FieldViolation),
    (clew.IngestionProgress, ingest_pb2.WatchIngestionResponse),
    (clew.Span, query_pb2.Span),
    (clew.Place, query_pb2.Place),
    (clew.Cost, query_pb2.Cost),
    (clew.Timing, query_pb2.Timing),
    (clew.Passage, query_pb2.Evidence),
    (clew.SearchResult, query_pb2.SearchResponse),
    (clew.Embedding, query_pb2.Embedding),
    (clew.Strategy, query_pb2.Strategy),
    (clew.Citation, query_pb2.Citation),
    (clew.Answer, query_pb2.Answer),
    (clew.Point, query_pb2.Point),
    *((kind, getattr(query_pb2, kind.__name__)) for kind in STEPS.values()),
    (clew.Turn, chat_pb2.Turn),
    (clew.AppendedTurn, chat_pb2.AppendedTurn),
    (clew.StoredTurn, chat_pb2.ListTurnsResponse),
    (clew.Statement, chat_pb2.Statement),
    (clew.Superseded, chat_pb2.Superseded),
    (clew.RecalledItem, chat_pb2.RecalledItem),
    (clew.Recall, chat_pb2.RecallResponse),
    (clew.ChatUser, chat_pb2.ChatUser),
    (clew.ChatSession, chat_pb2.ChatSession),
    (clew.ForgottenTurn, chat_pb2.ForgottenTurn),
    (clew.TurnReceipt, chat_pb2.ForgetTurnsResponse),
]


@pytest.mark.parametrize(("kind", "message"), PAIRS, ids=lambda each: each.__name__)
def test_a_dataclass_has_the_fields_of_its_message(kind: type, message: type[Message]) -> None:
    assert set(fields_on_wire(kind)) == {field.name for field in message.DESCRIPTOR.fields}


def test_every_step_of_a_trace_is_known() -> None:
    assert set(STEPS) == {field.name for field in query_pb2.TraceEvent.DESCRIPTOR.fields}


def test_every_public_dataclass_is_frozen_and_says_what_it_is() -> None:
    kinds = [getattr(clew, name) for name in clew.__all__]
    values: list[Any] = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    assert len(values) > len(PAIRS)
    for kind in values:
        assert kind.__dataclass_params__.frozen, kind
        assert hasattr(kind, "__slots__"), kind
        assert kind.__doc__, kind
        assert not kind.__doc__.startswith(f"{kind.__name__}("), f"{kind} has no words of its own"


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(clew.Client) == public(clew.AsyncClient)
    assert public(clew.Corpus) == public(clew.AsyncCorpus)
    assert public(clew.User) == public(clew.AsyncUser)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: choice_to_wire("fast", query_pb2.SearchMode, "mode"), "`hybrid`, got `fast`"),
        (lambda: choice_to_wire("unspecified", query_pb2.Task, "task"), "got `unspecified`"),
    ],
)
def test_a_choice_that_does_not_exist_is_told_with_those_that_do(
    call: Callable[[], Any], expected: str
) -> None:
    with pytest.raises(clew.InvalidArgumentError, match=expected):
        call()
