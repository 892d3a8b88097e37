"""Turns of conversations, and what is recalled of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from clew._proto import chat_pb2
from clew._values.document import ErasureScan, HoldingSnapshot
from clew._values.query import Cost
from clew._values.wire import Wire, choice_to_wire, time_to_wire

Role = Literal["user", "assistant", "unspecified"]
"""Role of a speaker. Somebody in a conversation of several people has none: `unspecified`."""
Inference = Literal["rules", "model"]
"""Method of understanding texts: rules for English, or the configured language model."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Utterance of a conversation."""

    number: int
    """Number that identifies it in the session, in the order of the conversation, from 0."""
    text: str
    """Text of the turn: 1 byte to 1 MiB."""
    role: Role = "user"
    """Role of the speaker."""
    speaker: str = ""
    """Name of the speaker, at most 200 bytes. Empty means the name of the role."""
    time: datetime | None = None
    """Time at which it was said, with a time zone."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes for filters: at most 32."""


def turn_to_wire(turn: Turn) -> chat_pb2.Turn:
    """Returns a turn as it travels."""
    role = "" if turn.role == "unspecified" else turn.role
    return chat_pb2.Turn(
        number=turn.number,
        text=turn.text,
        role=choice_to_wire(role, chat_pb2.Role, "turns.role"),
        speaker=turn.speaker,
        time=time_to_wire(turn.time, "turns.time"),
        attributes=turn.attributes,
    )


@dataclass(frozen=True, slots=True)
class AppendedTurn:
    """Turn that is stored."""

    number: int
    """Its number."""
    version: int
    """Its version, greater than those of earlier texts under its number."""
    unchanged: bool
    """Whether it was already stored with the same content."""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """Turn that is stored, and what it is found by."""

    session: str
    """Id of its session."""
    turn: Turn
    """The turn."""
    key: str
    """Text besides its own by which it is found."""
    labels: tuple[str, ...]
    """Its access labels."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement that somebody makes in a turn."""

    session: str
    """Id of the session of the turn."""
    number: int
    """Number of the turn."""
    text: str
    """The statement in words."""
    time: datetime | None
    """Time at which it was said."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """Statement, and the next one about the same that says something else."""

    older: Statement
    """The earlier statement."""
    newer: Statement
    """The later statement."""


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """Turn, round or session that was found."""

    session: str
    """Id of its session."""
    turns: tuple[Turn, ...]
    """Its turns, in order. As facts or a summary, without their texts."""
    found: tuple[int, ...]
    """Numbers of the turns that the search found."""
    score: float
    """How well it fits the question. Comparable within one recall only."""
    superseded: tuple[Superseded, ...]
    """Statements of its turns that later ones supersede."""
    texts: tuple[str, ...]
    """As facts, the statements of each turn that has any. As a summary, the summary."""


@dataclass(frozen=True, slots=True)
class Recall:
    """What a user's conversations hold about a question."""

    items: tuple[RecalledItem, ...]
    """Items that were found, in the order of time."""
    since: Annotated[datetime | None, Wire("from")]
    """Start of the time that the question asks about, included. `None` if there is none."""
    until: datetime | None
    """End of that time, excluded. `None` if there is none."""
    shards_missing: tuple[int, ...]
    """Shards that did not answer. Their turns are missing."""
    cost: Cost
    """Cost of the recall."""


@dataclass(frozen=True, slots=True)
class ChatUser:
    """User of whom turns are stored."""

    id: Annotated[str, Wire("user")]
    """Id of the user."""
    turns: int
    """Number of stored turns."""
    first_stored_at: datetime | None
    """Time at which the first of them was stored."""
    last_stored_at: datetime | None
    """Time at which the last of them was stored."""


@dataclass(frozen=True, slots=True)
class ChatSession:
    """Session of which turns are stored."""

    id: Annotated[str, Wire("session")]
    """Id of the session."""
    turns: int
    """Number of stored turns."""
    first_stored_at: datetime | None
    """Time at which the first of them was stored."""
    last_stored_at: datetime | None
    """Time at which the last of them was stored."""


@dataclass(frozen=True, slots=True)
class ForgottenTurn:
    """Turn that was forgotten, or would be."""

    session: str
    """Id of its session."""
    number: int
    """Its number."""
    text: str
    """In a preview, the beginning of its text."""


@dataclass(frozen=True, slots=True)
class TurnReceipt:
    """Receipt of forgetting turns."""

    turns: int
    """Number of turns that were forgotten, or would be."""
    sessions: int
    """Number of their sessions."""
    chunks: int
    """Number of chunks that were removed. 0 for a preview."""
    text_bytes: int
    """Bytes of text that were removed, or would be."""
    verified: bool
    """Whether the stored data was scanned afterwards and nothing of the turns was found."""
    first: tuple[ForgottenTurn, ...]
    """The first 1000 of the turns."""
    scan: ErasureScan | None
    """Result of that scan. `None` for a preview."""
    snapshots: tuple[HoldingSnapshot, ...]
    """Snapshots of the corpus that hold any of the turns."""
