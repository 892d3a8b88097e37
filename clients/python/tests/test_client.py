"""Every call against a real server, by both clients."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

import pytest

import clew

RIVER = "The old house stands by the river. A ferryman called Bohumil lives in it."
TRAIN = "The night train from the city was late that winter. Nobody met it."
LETTER = "A letter for the new friend was lost, and a cat called Xqvzkwjb found it."
DOCUMENTS = [
    clew.Document("river", RIVER, title="The river", attributes={"year": 2019, "lang": "en"}),
    clew.Document("train", TRAIN, attributes={"year": 2021, "draft": True, "rating": 4.5}),
    clew.Document("letter", LETTER, attributes={"year": 2024, "lang": "de"}),
]
MONDAY = datetime(2024, 5, 20, 10, 0, tzinfo=timezone.utc)


@pytest.fixture
def filled(any_corpus: clew.Corpus) -> clew.Corpus:
    any_corpus.ingest(DOCUMENTS, wait=True).raise_for_refused()
    return any_corpus


def test_a_corpus_is_created_described_listed_and_deleted(
    any_client: clew.Client, name: str
) -> None:
    chat = clew.ChatSettings(keys=("value", "date+fact+value"), merging="rank", notes="direct")
    corpus = any_client.create_corpus(
        name,
        shards=2,
        chunking=clew.TokenChunking(64, overlap_tokens=8),
        structure=clew.Structure(segment_tokens=128),
        retention_days=7,
        chat=chat,
    )
    assert corpus.name == name
    described = corpus.describe()
    assert (described.name, described.shards, described.retention_days) == (name, 2, 7)
    assert described.chunking == clew.TokenChunking(64, 8)
    assert described.structure is not None
    assert described.structure.segment_tokens == 128
    assert described.encoder is not None
    assert described.encoder.dimension == 384
    assert described.counts is not None
    assert described.counts.documents == 0
    assert described.chat is not None
    assert (described.chat.keys, described.chat.merging) == (chat.keys, "rank")
    assert described.created_at is not None
    assert abs(datetime.now(timezone.utc) - described.created_at) < timedelta(minutes=1)
    assert name in [listed.name for listed in any_client.corpora()]
    with pytest.raises(clew.AlreadyExistsError):
        any_client.create_corpus(name)
    any_client.create_corpus(name, exist_ok=True)
    assert corpus.delete() == clew.DeletedCorpus(documents=0, snapshots=0)
    with pytest.raises(clew.NotFoundError):
        corpus.describe()


@pytest.mark.parametrize(
    "chunking", [clew.SentenceChunking(48), clew.SectionChunking(100), clew.TokenChunking(32)]
)
def test_ways_of_cutting_come_back_as_they_were_given(
    client: clew.Client, name: str, chunking: clew.Chunking
) -> None:
    corpus = client.create_corpus(name, chunking=chunking, structure=None)
    assert corpus.describe().chunking == chunking


def test_documents_come_back_as_they_were_given(any_corpus: clew.Corpus) -> None:
    document = clew.Document(
        "a/b.md",
        "# Schön\n\nTexts have more than one byte per character: Ünï, 日本語.",
        title="Schön",
        media_type="text/markdown",
        attributes={"text": "x", "whole": -(2**63), "real": 0.5, "yes": True, "no": False},
        event_time=datetime(2020, 2, 29, 23, 59, 59, 123456, tzinfo=timezone.utc),
        source_version=7,
    )
    any_corpus.ingest([document], wait=True).raise_for_refused()
    stored = any_corpus.document("a/b.md")
    for field in ("id", "text", "title", "media_type", "attributes", "event_time", "labels"):
        assert getattr(stored, field) == getattr(document, field), field
    assert [type(value) for value in stored.attributes.values()].count(bool) == 2
    state = stored.state
    assert (state.stage, state.source_version) == ("indexed", 7)
    assert isinstance(document.text, str)
    assert state.text_bytes == len(document.text.encode())
    with pytest.raises(clew.NotFoundError):
        any_corpus.document("absent")


def test_documents_are_listed_and_selected(filled: clew.Corpus) -> None:
    assert [state.id for state in filled.documents()] == ["letter", "river", "train"]
    assert [state.id for state in filled.documents(id_prefix="r")] == ["river"]
    assert [state.id for state in filled.documents(where={"year": 2021})] == ["train"]
    assert list(filled.documents(stage="failed")) == []
    (river,) = filled.documents(id_prefix="river", with_attributes=True)
    assert (river.title, river.attributes) == ("The river", {"lang": "en", "year": 2019})


def test_lists_come_in_pages(any_corpus: clew.Corpus) -> None:
    documents = [{"id": f"{number:04}", "text": f"Number {number}."} for number in range(250)]
    any_corpus.ingest(documents)
    listed = [state.id for state in any_corpus.documents(with_attributes=True)]
    assert listed == [document["id"] for document in documents]


def test_chunks_cover_the_text(any_client: clew.Client, name: str) -> None:
    chunking = clew.SentenceChunking(16)
    corpus = any_client.create_corpus(name, chunking=chunking, structure=None)
    text = " ".join(f"Sentence number {number} is about the sea." for number in range(300))
    corpus.ingest([clew.Document("sea", text)], wait=True)
    chunks = list(corpus.chunks("sea"))
    assert len(chunks) > 100, "more than a page of them"
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert all(chunk.text == text[chunk.start : chunk.end] for chunk in chunks)
    assert (chunks[0].start, chunks[-1].end, chunks[0].kind) == (0, len(text), "passage")
    (first, *_) = corpus.chunks("sea", with_texts=False)
    assert (first.id, first.text) == (chunks[0].id, "")


@pytest.mark.parametrize("mode", ["dense", "sparse", "hybrid"])
def test_searches_find_passages(filled: clew.Corpus, mode: clew.Mode) -> None:
    result = filled.search("a cat called xqvzkwjb", k=3, mode=mode)
    best = result.passages[0]
    assert (best.document_id, best.text) == ("letter", best.span.text_in(LETTER))
    scores = [passage.score for passage in result.passages]
    assert scores == sorted(scores, reverse=True)
    assert (best.dense_score is None) == (mode == "sparse")
    assert (best.sparse_score is None) == (mode == "dense")
    assert (result.shards_missing, result.cost.shards_searched) == ((), 1)
    assert result.timing.total > timedelta()


def test_searches_take_filters_and_tell_attributes(filled: clew.Corpus) -> None:
    recent = filled.search("the", where=clew.where("year") > 2020, with_attributes=True)
    found = {passage.document_id: passage.attributes for passage in recent.passages}
    assert set(found) == {"train", "letter"}
    assert found["train"] == {"year": 2021, "draft": True, "rating": 4.5}
    only = filled.search("the", where=clew.Filter(document_ids=("river",)))
    assert {passage.document_id for passage in only.passages} == {"river"}


def test_pages_of_a_search_go_on_where_the_last_one_ended(filled: clew.Corpus) -> None:
    every = [passage.chunk_id for passage in filled.search("the", mode="dense").passages]
    paged: list[str] = []
    token = ""
    for _ in range(10):
        page = filled.search("the", mode="dense", k=1, page_token=token)
        paged += [passage.chunk_id for passage in page.passages]
        token = page.next_page_token
        if not token:
            break
    assert paged == every


def test_spans_count_bytes(any_corpus: clew.Corpus) -> None:
    text = "Äpfel und Öl. " * 20 + "Der Kater heißt Xqvzkwjb."
    any_corpus.ingest([clew.Document("a", text)], wait=True)
    (best, *_) = any_corpus.search("Xqvzkwjb", grouping="documents").passages
    assert best.span.text_in(text) == best.text
    assert best.span.end > len(text), "a position in characters would be smaller"


def test_a_question_is_answered_with_citations(filled: clew.Corpus) -> None:
    answer = filled.ask("Who lives in the old house by the river?", with_attributes=True)
    assert answer.is_answered
    assert "Bohumil" in answer.text
    (citation, *_) = answer.citations
    assert citation.span.text_in(RIVER) == citation.quote
    assert (citation.document_id, citation.attributes["year"]) == ("river", 2019)
    unknown = filled.ask("What is the name of the dentist's parrot?")
    assert (unknown.outcome, unknown.is_answered, unknown.text) == ("not_in_memory", False, "")


def test_an_answer_is_streamed_with_its_steps(filled: clew.Corpus) -> None:
    events = list(filled.ask_stream("Who lives in the old house by the river?", k=2))
    *before, answer = events
    assert isinstance(answer, clew.Answer)
    assert isinstance(before[0], clew.Searched)
    assert (before[0].mode, before[0].hits) == ("hybrid", 2)
    assert any(isinstance(event, clew.Judged) for event in before)
    deltas = [event.text for event in before if isinstance(event, clew.TextDelta)]
    assert "".join(deltas) == answer.text


def test_a_stream_may_be_left_before_its_end(filled: clew.Corpus) -> None:
    for event in filled.ask_stream("Who lives in the old house by the river?"):
        assert isinstance(event, clew.Searched)
        break
    assert filled.search("river", k=1).passages


def test_documents_are_forgotten(filled: clew.Corpus) -> None:
    preview = filled.forget(where=clew.where("year") >= 2020, preview=True)
    assert [document.id for document in preview.documents] == ["letter", "train"]
    assert preview.forgotten_at is None
    receipt = filled.forget(["letter", "absent"])
    assert receipt.verified
    letter, absent = receipt.documents
    assert (letter.found, letter.text_bytes, absent.found) == (True, len(LETTER), False)
    assert receipt.scan is not None
    assert receipt.scan.leftovers == ()
    assert filled.forget(id_prefix="tr").documents[0].id == "train"
    assert [state.id for state in filled.documents()] == ["river"]
    with pytest.raises(clew.InvalidArgumentError):
        filled.forget()


def test_more_documents_are_forgotten_than_one_call_takes(corpus: clew.Corpus) -> None:
    numbers = range(2002)
    documents = [{"id": f"{n:04}", "text": f"No. {n}", "attributes": {"n": n}} for n in numbers]
    corpus.ingest([*documents, {"id": "other", "text": "Stays."}])
    named = corpus.forget(f"{number:04}" for number in range(1001))
    assert (named.selected, len(named.documents), named.verified) == (1001, 1001, True)
    selected = corpus.forget(where=clew.where("n").exists())
    assert [each.id for each in selected.documents] == [f"{n:04}" for n in range(1001, 2002)]
    assert (selected.selected, selected.verified) == (1001, True)
    assert [state.id for state in corpus.documents()] == ["other"]


def test_texts_are_embedded(any_client: clew.Client, any_corpus: clew.Corpus) -> None:
    texts = ["The cat sat on the mat.", "A cat was sitting on a mat.", "Prices of copper fell."]
    cat, other, copper = (each.vector for each in any_corpus.embed(texts))
    assert len(cat) == 384
    assert math.isclose(math.hypot(*cat), 1.0, abs_tol=1e-4)

    def cosine(left: tuple[float, ...], right: tuple[float, ...]) -> float:
        return sum(a * b for a, b in zip(left, right, strict=True))

    assert cosine(cat, other) > cosine(cat, copper)
    (query,) = any_client.embed(["a cat"], kind="query", model="all-MiniLM-L6-v2")
    assert not query.truncated


def test_the_server_tells_strategies_and_callers(any_client: clew.Client) -> None:
    default, *others = any_client.strategies()
    assert (default.name, default.needs, default.can_run) == ("direct", "chunks", True)
    assert any(strategy.needs == "tree" for strategy in others)
    caller = any_client.whoami()
    assert (caller.has_key, caller.holds_all_labels) == (False, True)
    assert caller.scopes == ("read", "write", "admin")


def test_conversations_are_remembered_recalled_corrected_and_forgotten(
    any_corpus: clew.Corpus,
) -> None:
    ada = any_corpus.user("ada")
    turns = [
        clew.Turn(0, "My cat is called Xqvzkwjb.", time=MONDAY, attributes={"topic": "pets"}),
        clew.Turn(1, "What a name for a cat!", role="assistant", time=MONDAY),
        clew.Turn(2, "And I live in Athens.", time=MONDAY),
    ]
    appended = ada.append(turns, session="monday")
    assert [(turn.number, turn.unchanged) for turn in appended] == [
        (0, False),
        (1, False),
        (2, False),
    ]
    assert all(turn.unchanged for turn in ada.append(turns, session="monday"))

    recall = ada.recall("What is the cat called?", k=1)
    (item,) = recall.items
    assert (item.session, item.turns) == ("monday", tuple(turns[:2]))
    days = ada.recall("Where did I live yesterday?", asked_at=MONDAY + timedelta(days=1))
    assert days.since is not None
    assert days.since.date() == MONDAY.date()
    assert ada.ask("What is my cat called?").text == "Xqvzkwjb"
    *_, answer = ada.ask_stream("Where do I live?", value="turn")
    assert isinstance(answer, clew.Answer)
    assert "Athens" in answer.text

    stored = list(ada.turns())
    assert [turn.turn for turn in stored] == turns
    assert [turn.turn.number for turn in ada.turns(where={"topic": "pets"})] == [0]
    corrected = ada.append([clew.Turn(2, "And I live in Sparta.", time=MONDAY)], session="monday")
    assert not corrected[0].unchanged
    assert "Sparta" in [*ada.turns()][2].turn.text
    (user,) = any_corpus.users()
    (session,) = ada.sessions()
    assert (user.id, user.turns, session.id, session.turns) == ("ada", 3, "monday", 3)

    preview = ada.forget(session="monday", numbers=[0], preview=True)
    assert (preview.turns, preview.first[0].text) == (1, turns[0].text)
    receipt = ada.forget()
    assert (receipt.turns, receipt.sessions, receipt.verified) == (3, 1, True)
    assert list(ada.turns()) == []


def test_snapshots_are_taken_restored_and_deleted(filled: clew.Corpus) -> None:
    progress: list[clew.CopyProgress] = []
    taken = filled.snapshot("first", on_progress=progress.append)
    assert (taken.name, taken.documents) == ("first", 3)
    assert progress[-1].files == progress[-1].of_files
    with pytest.raises(clew.AlreadyExistsError):
        filled.snapshot("first")
    assert filled.snapshots() == (taken,)
    assert filled.delete().snapshots == 1
    restored = filled.restore("first", leave_out=["train"])
    assert (restored.left_out, restored.corpus.name) == (1, filled.name)
    assert [state.id for state in filled.documents()] == ["letter", "river"]
    (young,) = filled.delete_snapshots(older_than=timedelta(0), keep=0, preview=True)
    assert (young.snapshot, young.refusal) == ("first", None)
    (deleted,) = filled.delete_snapshots(["first"])
    assert deleted.description == taken
    (gone,) = filled.delete_snapshots(["first"])
    assert gone.refusal is not None
    assert gone.refusal.reason == "SNAPSHOT_NOT_FOUND"


def test_the_progress_of_indexing_is_watched(any_corpus: clew.Corpus) -> None:
    any_corpus.ingest(DOCUMENTS)
    for progress in any_corpus.watch(timeout=30):
        if progress.pending_documents == 0:
            break
    assert (progress.documents, progress.indexed_documents) == (3, 3)
    idle = any_corpus.wait_until_indexed()
    assert (idle.documents, idle.pending_documents, idle.failed_documents) == (3, 0, 0)
