"""What an ingestion knows of its documents, without a server."""

from __future__ import annotations

import pytest

import clew
from clew._ingestion import PART_BYTES, Parcel, Sending, parcel_of
from clew._proto import ingest_pb2
from clew._status import BrokenStreamError

AWAY = clew.UnavailableError("no server answers")


def accepted(id: str) -> ingest_pb2.IngestResponse:
    return ingest_pb2.IngestResponse(document_id=id, accepted={"version": 1})


def refused_for_now(id: str) -> ingest_pb2.IngestResponse:
    refused = {"reason": "SHARD_RESTARTS", "message": "the shard restarts", "retryable": True}
    return ingest_pb2.IngestResponse(document_id=id, refused=refused)


def sent(sending: Sending) -> list[str]:
    """Sends what there is room for."""
    ids = []
    while parcel := sending.next():
        ids.append(parcel.head.id)
    return ids


def offer(sending: Sending, *ids: str, text: str = "x") -> None:
    for id in ids:
        sending.offer(parcel_of(clew.Document(id, text)))


def test_what_is_not_answered_is_sent_again_in_its_order() -> None:
    sending = Sending()
    offer(sending, "a", "b", "c")
    assert sent(sending) == ["a", "b", "c"]
    offer(sending, "d")
    assert sending.answered(accepted("a")) == clew.DocumentResult("a", "new", 1, None)
    assert sending.broke(AWAY, patience=10) > 0
    assert sent(sending) == ["b", "c", "d"]
    for id in "bcd":
        sending.answered(accepted(id))
    sending.offer(None)
    assert sending.is_done


def test_a_document_that_is_refused_for_now_is_sent_again_before_later_ones() -> None:
    sending = Sending()
    offer(sending, "a", "b")
    assert sent(sending) == ["a", "b"]
    offer(sending, "c")
    assert sending.answered(refused_for_now("a")) is None
    assert sent(sending) == [], "what is on its way is answered first"
    assert sending.ends_stream
    sending.answered(accepted("b"))
    with pytest.raises(BrokenStreamError) as raised:
        sending.ended()
    assert (raised.value.error.reason, raised.value.error.is_retryable) == ("SHARD_RESTARTS", True)
    sending.broke(raised.value.error, patience=10)
    assert sent(sending) == ["a", "c"]


def test_each_id_comes_once_in_a_stream() -> None:
    sending = Sending()
    offer(sending, "a", "a")
    assert sent(sending) == ["a"]
    assert sending.ends_stream
    sending.answered(accepted("a"))
    sending.ended()
    assert sent(sending) == ["a"]


def test_unanswered_documents_are_bounded_in_number_and_in_bytes() -> None:
    many = Sending()
    offer(many, *map(str, range(4000)))
    assert len(sent(many)) == 2048
    large = Sending()
    offer(large, *"abc", text="x" * (10 * PART_BYTES))
    assert sent(large) == ["a"]
    huge = Sending()
    offer(huge, "a", text="x" * (100 * PART_BYTES))
    assert sent(huge) == ["a"], "one may be larger than the bound"


def test_a_server_that_takes_nothing_ends_the_patience() -> None:
    sending = Sending()
    offer(sending, "a")
    sent(sending)
    sending.broke(AWAY, patience=0)
    with pytest.raises(clew.UnavailableError, match="took nothing for 0 s"):
        sending.broke(AWAY, patience=0)


def test_an_error_that_does_not_pass_is_raised_at_once() -> None:
    with pytest.raises(clew.NotFoundError):
        Sending().broke(clew.NotFoundError("there is no corpus"), patience=10)


def test_an_answer_for_another_document_is_a_bug() -> None:
    sending = Sending()
    offer(sending, "a")
    sent(sending)
    with pytest.raises(clew.InternalError, match="expected the answer for `a`"):
        sending.answered(accepted("b"))


def test_parts_add_up_to_the_text() -> None:
    text = b"x" * (2 * PART_BYTES + 7)
    parcel = Parcel(ingest_pb2.Document(id="a", title="Title"), text)
    first, second, third = parcel.messages("notes", is_addition=False)
    assert (first.corpus, first.document.title, first.text_bytes) == ("notes", "Title", len(text))
    assert first.document.text + second.text_part + third.text_part == text
    assert [message.continues for message in (first, second, third)] == [True, True, False]
    assert parcel.head.text == b"", "the document is sent again as it was"
    (addition,) = Parcel(ingest_pb2.Document(id="a"), b"x").messages("notes", is_addition=True)
    assert (addition.addition.text, addition.text_bytes) == (b"x", 0)
