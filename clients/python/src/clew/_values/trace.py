"""Steps of answering a question, as they happen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from clew._proto import query_pb2
from clew._values.query import Answer, Place, TextDelta
from clew._values.wire import from_wire


@dataclass(frozen=True, slots=True)
class Searched:
    """Shards were searched."""

    query: str
    """Words that were searched for."""
    mode: Literal["unspecified", "dense", "sparse", "hybrid"]
    """Way in which passages were matched."""
    hits: int
    """Number of items found."""
    best_dense_score: float | None
    """Cosine similarity of the best item. `None` if embeddings were not compared."""
    took: timedelta
    """Time that it took."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The evidence was judged: whether it supports an answer."""

    confidence: float
    """Support for an answer: 0 to 1."""
    threshold: float
    """Least support at which a question counts as answered: 0 to 1."""
    rationale: str
    """Reason for the judgement."""


@dataclass(frozen=True, slots=True)
class Read:
    """The answer was composed from passages."""

    passages: int
    """Number of passages that were read."""
    sentences: int
    """Number of sentences that were compared with the question."""
    took: timedelta
    """Time that it took."""
    places: tuple[Place, ...]
    """The passages, best first."""


@dataclass(frozen=True, slots=True)
class Entered:
    """A tree node was entered."""

    node: str
    """The node, for people."""
    parent: str
    """The node from which it was entered. Empty at the top."""
    summary: str
    """Its summary."""
    reason: str
    """Reason for entering it."""
    score: float | None
    """Its score. `None` if nodes were not scored."""


@dataclass(frozen=True, slots=True)
class TurnedBack:
    """The walk went back from a tree node, which did not answer the question."""

    node: str
    """The node."""
    reason: str
    """Reason for going back."""


@dataclass(frozen=True, slots=True)
class LeafRead:
    """The text of a segment was read, at a leaf of the tree."""

    node: str
    """The leaf."""
    answers: bool
    """Whether its text answers the question."""
    reason: str
    """Reason for that judgement."""


@dataclass(frozen=True, slots=True)
class Walked:
    """A walk of a tree ended."""

    nodes: int
    """Number of nodes that were entered, segments included."""
    turns: int
    """Number of times that the walk went back."""
    bytes_read: int
    """Bytes of the segments and summaries that were read."""
    bytes_total: int
    """Bytes of all text that could have been read."""
    ended: str
    """Reason why it ended."""


@dataclass(frozen=True, slots=True)
class EntitiesChosen:
    """Entities were chosen, whose segments are considered from now on."""

    entities: tuple[str, ...]
    """Their names."""
    reason: str
    """Reason for the choice."""


@dataclass(frozen=True, slots=True)
class EdgeFollowed:
    """An edge of the graph was followed to an entity."""

    head: str
    """Name of the entity it starts from."""
    relation: str
    """The relation."""
    tail: str
    """Name of the entity it leads to."""
    to: str
    """Name of the one of the two that is new."""
    score: float
    """Similarity to what was looked for."""
    reason: str
    """Text that was looked for."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Segments were gathered as evidence."""

    segments: int
    """Number of segments."""
    dropped: int
    """Number of segments that were left out because the window was full."""
    bytes: int
    """Bytes of the segments' texts."""


@dataclass(frozen=True, slots=True)
class Reflected:
    """The gathered evidence was judged: whether it suffices to answer."""

    suffices: bool
    """Whether it suffices."""
    reason: str
    """Reason for that judgement."""
    missing: str
    """Information that is missing."""


@dataclass(frozen=True, slots=True)
class Point:
    """Point of a working memory: a statement about several entities."""

    number: int
    """Its number, from 1."""
    fate: Literal["unspecified", "kept", "updated", "inserted", "merged"]
    """Effect of the step on it."""
    entities: tuple[str, ...]
    """Names of the entities that it is about."""
    text: str
    """Its statement."""
    merged_from: tuple[int, ...]
    """Numbers of the points from which it was merged."""
    segments: tuple[str, ...]
    """Segments from which it comes, for people."""


@dataclass(frozen=True, slots=True)
class Evolved:
    """A working memory of points went through a step."""

    step: int
    """Number of the step, from 0."""
    points: tuple[Point, ...]
    """All its points at the end of the step, by number."""
    brought: tuple[str, ...]
    """Names of entities that a point brought in and that the graph does not know."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """Queries were drafted from what is known of the corpus at large."""

    lines: int
    """Number of queries, clues and key points together."""
    answers: tuple[str, ...]
    """Answers of memories by themselves."""
    took: timedelta
    """Time that it took."""


TraceStep = (
    Searched
    | Judged
    | Read
    | Entered
    | TurnedBack
    | LeafRead
    | Walked
    | EntitiesChosen
    | EdgeFollowed
    | Gathered
    | Reflected
    | Evolved
    | Drafted
)
"""Step of answering a question."""

AnswerEvent = TraceStep | TextDelta | Answer
"""What `ask_stream` yields: steps as they happen, then pieces of the text, and last the answer."""

STEPS: dict[str, type[TraceStep]] = {
    "searched": Searched,
    "judged": Judged,
    "read": Read,
    "entered": Entered,
    "turned_back": TurnedBack,
    "leaf_read": LeafRead,
    "walked": Walked,
    "entities_chosen": EntitiesChosen,
    "edge_followed": EdgeFollowed,
    "gathered": Gathered,
    "reflected": Reflected,
    "evolved": Evolved,
    "drafted": Drafted,
}


def event_from_wire(event: query_pb2.AnswerResponse) -> AnswerEvent | None:
    """Returns an event that came, or `None` if a newer server sent a kind that is not known."""
    kind = event.WhichOneof("event")
    if kind == "answer":
        return from_wire(Answer, event.answer)
    if kind == "text_delta":
        return TextDelta(event.text_delta)
    step = event.trace.WhichOneof("step")
    return None if step is None else from_wire(STEPS[step], getattr(event.trace, step))
