"""Conditions on attributes, and filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from clew._errors import invalid
from clew._proto import query_pb2
from clew._values.attribute import Value, value_to_wire
from clew._values.wire import texts_to_wire, time_to_wire


class Condition(ABC):
    """Condition on the attributes of a document, made by `where`. Combine conditions by `&`, `|`
    and `~`.
    """

    __slots__ = ()

    @abstractmethod
    def to_wire(self) -> query_pb2.Condition:
        """Returns the condition as it travels."""

    def __and__(self, other: Condition) -> Condition:
        return AllOf((*_parts(self, AllOf), *_parts(other, AllOf)))

    def __or__(self, other: Condition) -> Condition:
        return AnyOf((*_parts(self, AnyOf), *_parts(other, AnyOf)))

    def __invert__(self) -> Condition:
        return Negated(self)

    def __bool__(self) -> bool:
        # `a and b`, `not a` and `1 < where("x") < 3` would silently drop a part.
        raise TypeError("a condition is not true or false here; combine conditions by &, | and ~")


@dataclass(frozen=True, slots=True)
class Comparison(Condition):
    """Comparison of an attribute. It is false of a document without the attribute."""

    attribute: str
    """Name of the attribute."""
    operator: str
    """Operator, such as `gte`."""
    values: tuple[Value, ...]
    """Values to compare with."""

    def to_wire(self) -> query_pb2.Condition:
        comparison = query_pb2.Comparison(
            attribute=self.attribute,
            operator=f"OPERATOR_{self.operator.upper()}",
            values=[value_to_wire(value, f"where.{self.attribute}") for value in self.values],
        )
        return query_pb2.Condition(comparison=comparison)


@dataclass(frozen=True, slots=True)
class AllOf(Condition):
    """True if all of the conditions are."""

    conditions: tuple[Condition, ...]
    """The conditions, at least one."""

    def to_wire(self) -> query_pb2.Condition:
        return query_pb2.Condition(all_of=_to_wire(self.conditions))


@dataclass(frozen=True, slots=True)
class AnyOf(Condition):
    """True if at least one of the conditions is."""

    conditions: tuple[Condition, ...]
    """The conditions, at least one."""

    def to_wire(self) -> query_pb2.Condition:
        return query_pb2.Condition(any_of=_to_wire(self.conditions))


@dataclass(frozen=True, slots=True)
class Negated(Condition):
    """True if the condition is not."""

    condition: Condition
    """The condition."""

    def to_wire(self) -> query_pb2.Condition:
        return query_pb2.Condition(negated=self.condition.to_wire())


def _parts(condition: Condition, kind: type[AllOf] | type[AnyOf]) -> tuple[Condition, ...]:
    # Conditions may be nested 16 levels deep, so a chain of `&` stays on one level.
    return condition.conditions if isinstance(condition, kind) else (condition,)


def _to_wire(conditions: tuple[Condition, ...]) -> query_pb2.Conditions:
    return query_pb2.Conditions(conditions=[each.to_wire() for each in conditions])


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """An attribute to make a condition on, by comparing it with a value."""

    name: str
    """Name of the attribute."""

    # Comparisons with `==` and `!=` make conditions, so attributes cannot be found in sets.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, value: Value) -> Condition:  # type: ignore[override]
        return Comparison(self.name, "eq", (value,))

    def __ne__(self, value: Value) -> Condition:  # type: ignore[override]
        return Comparison(self.name, "ne", (value,))

    def __gt__(self, value: Value) -> Condition:
        return Comparison(self.name, "gt", (value,))

    def __ge__(self, value: Value) -> Condition:
        return Comparison(self.name, "gte", (value,))

    def __lt__(self, value: Value) -> Condition:
        return Comparison(self.name, "lt", (value,))

    def __le__(self, value: Value) -> Condition:
        return Comparison(self.name, "lte", (value,))

    def is_in(self, values: Iterable[Value]) -> Condition:
        """Returns the condition that the attribute equals one of the values."""
        return Comparison(self.name, "in", _several(values))

    def is_not_in(self, values: Iterable[Value]) -> Condition:
        """Returns the condition that the document has the attribute and it equals none of them."""
        return Comparison(self.name, "nin", _several(values))

    def contains(self, text: str) -> Condition:
        """Returns the condition that the attribute is a text that contains `text`."""
        return Comparison(self.name, "contains", (text,))

    def exists(self) -> Condition:
        """Returns the condition that the document has the attribute."""
        return Comparison(self.name, "exists", ())


def _several(values: Iterable[Value]) -> tuple[Value, ...]:
    if isinstance(values, str):
        raise invalid("where", f"expected several values, got one: `{values:.80}`; pass [`…`]")
    return tuple(values)


def where(attribute: str) -> Attribute:
    """Returns an attribute to make a condition on.

    A comparison is false of a document that lacks the attribute, also `!=` and `is_not_in`. Negate
    `==` or `is_in` to find such documents as well.

        (where("year") >= 2020) & ~where("draft").exists()
    """
    return Attribute(attribute)


@dataclass(frozen=True, slots=True)
class Filter:
    """Restriction of the documents that may be found. All parts must hold."""

    condition: Condition | None = None
    """Condition on their attributes."""
    document_ids: tuple[str, ...] = ()
    """Only these documents, at most 1000, each once. Empty means all."""
    event_time_from: datetime | None = None
    """Earliest event time, included. If a bound is set, documents without an event time are not
    found."""
    event_time_until: datetime | None = None
    """Latest event time, excluded."""


Where = Condition | Filter | Mapping[str, Value]
"""What a call takes as `where`: a condition, a filter, or attributes that documents must equal."""


def filter_to_wire(where: Where | None) -> query_pb2.Filter | None:
    """Returns what a call took as `where` as it travels."""
    if where is None:
        return None
    if isinstance(where, Mapping):
        equal = tuple(Comparison(name, "eq", (value,)) for name, value in where.items())
        where = Filter(AllOf(equal) if equal else None)
    elif isinstance(where, Condition):
        where = Filter(where)
    elif not isinstance(where, Filter):
        expected = "expected a condition, a Filter or a mapping of attributes"
        raise invalid("where", f"{expected}, got {type(where).__name__}")
    return query_pb2.Filter(
        document_ids=texts_to_wire(where.document_ids, "where.document_ids"),
        event_time_from=time_to_wire(where.event_time_from, "where.event_time_from"),
        event_time_until=time_to_wire(where.event_time_until, "where.event_time_until"),
        condition=None if where.condition is None else where.condition.to_wire(),
    )
