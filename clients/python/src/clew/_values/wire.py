"""Conversion of messages of the wire into dataclasses, by the types of their fields.

A dataclass has the fields of its message, under the same names. A note of `Wire` on the type says
where they differ. `tests/test_values.py` compares the two.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from clew._errors import invalid
from clew._values.attribute import attributes_from_wire

T = TypeVar("T")
Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNSPECIFIED = "UNSPECIFIED"


@dataclasses.dataclass(frozen=True, slots=True)
class Wire:
    """Note on the type of a field: how the message has it."""

    name: str = ""
    """Name of the field in the message. Empty if it is the same."""
    read: Callable[[Any], Any] | None = None
    """Function that makes the value of the message's field, if the type does not tell."""


def from_wire(kind: type[T], message: Message) -> T:
    """Returns the value of the dataclass `kind` that a message holds."""
    # The stubs of protobuf say that classes of messages have no hash.
    plan = _plan(kind, type(message))  # type: ignore[arg-type]
    return kind(*(read(message) for read in plan))


def time_from_wire(time: Timestamp) -> datetime:
    """Returns a time in UTC. Python's times have microseconds, so nanoseconds are cut off."""
    return _EPOCH + timedelta(seconds=time.seconds, microseconds=time.nanos // 1000)


def time_to_wire(time: datetime | None, field: str) -> Any:
    """Returns a time as it travels. `field` names it in errors."""
    if time is None:
        return None
    if time.tzinfo is None:
        expected = "expected a time with a time zone, such as `datetime.now(timezone.utc)`"
        raise invalid(field, f"{expected}, got `{time.isoformat()}`")
    since = time - _EPOCH
    return {
        "seconds": since.days * 86_400 + since.seconds,
        "nanos": since.microseconds * 1000,
    }


def duration_from_wire(duration: Duration) -> timedelta:
    """Returns a duration. Nanoseconds are cut off."""
    return timedelta(seconds=duration.seconds, microseconds=duration.nanos // 1000)


def texts_to_wire(texts: Iterable[str], field: str) -> list[str]:
    """Returns texts as they travel. A single text is refused: Python would take its characters for
    the texts, and `forget("river")` would forget other documents.
    """
    if isinstance(texts, str):
        raise invalid(field, f"expected several texts, got one: `{texts:.80}`; pass [`…`]")
    return list(texts)


def choice_to_wire(choice: str, enum: Any, field: str) -> Any:
    """Returns the number of a choice such as `hybrid` in an enum of the wire, such as `SearchMode`.
    The empty text leaves the choice to the server.
    """
    names = _choices(enum.DESCRIPTOR)
    if choice == "":
        return 0
    for number, name in names.items():
        if name == choice and number:
            return number
    expected = ", ".join(f"`{name}`" for number, name in names.items() if number)
    raise invalid(field, f"expected one of {expected}, got `{choice}`")


@cache
def _choices(enum: EnumDescriptor) -> dict[int, str]:
    """Returns the choices of an enum by number, without the prefix that the wire needs."""
    prefix = enum.values_by_number[0].name.removesuffix(_UNSPECIFIED)
    return {value.number: value.name.removeprefix(prefix).lower() for value in enum.values}


def fields_on_wire(kind: type) -> dict[str, tuple[Any, Wire]]:
    """Returns the types of a dataclass' fields, by their names in the message."""
    read = {}
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint, note = hints[field.name], Wire()
        if get_origin(hint) is Annotated:
            hint, note = get_args(hint)
        read[note.name or field.name] = (hint, note)
    return read


@cache
def _plan(kind: type, message: type[Message]) -> list[Convert]:
    return [
        _special(note.read, name) if note.read else _reader(hint, name, message)
        for name, (hint, note) in fields_on_wire(kind).items()
    ]


def _special(read: Convert, name: str) -> Convert:
    return lambda found: read(getattr(found, name))


def _reader(hint: Any, name: str, message: type[Message]) -> Convert:
    """Returns a function that reads a field of a message as what its type hint says."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType) and types.NoneType in arguments:
        (inner,) = (each for each in arguments if each is not types.NoneType)
        convert = _converter(inner, name, message)
        return lambda found: convert(getattr(found, name)) if found.HasField(name) else None
    if get_origin(hint) is tuple:
        convert = _converter(arguments[0], name, message)
        return lambda found: tuple(convert(each) for each in getattr(found, name))
    convert = _converter(hint, name, message)
    return lambda found: convert(getattr(found, name))


def _converter(hint: Any, name: str, message: type[Message]) -> Convert:
    """Returns a function that converts one value of a field."""
    field = message.DESCRIPTOR.fields_by_name[name]
    if hint is datetime:
        return time_from_wire
    if hint is timedelta:
        return duration_from_wire
    if get_origin(hint) is Literal:
        names = _choices(field.enum_type)
        # A newer server may have choices that this release does not know.
        return lambda number: names.get(number, "unspecified")
    if get_origin(hint) is Mapping:
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        return dict if is_map else attributes_from_wire
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        kind: type = hint
        return lambda found: from_wire(kind, found)
    return lambda found: found
