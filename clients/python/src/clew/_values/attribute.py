"""Attributes of documents: names with typed values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from clew._errors import invalid
from clew._proto import attribute_pb2

Value = str | int | float | bool
"""Value of an attribute. Integers have 64 bits, and numbers are finite."""

Attributes = Mapping[str, Value]
"""Attributes of a document, by name."""

_INTEGERS = range(-(2**63), 2**63)


def value_to_wire(value: Value, field: str) -> attribute_pb2.Value:
    """Returns a value as it travels. `field` names it in errors."""
    # A truth value is an integer to Python, so it comes first.
    if isinstance(value, bool):
        return attribute_pb2.Value(boolean=value)
    if isinstance(value, str):
        return attribute_pb2.Value(text=value)
    if isinstance(value, int) and value in _INTEGERS:
        return attribute_pb2.Value(integer=value)
    if isinstance(value, float) and math.isfinite(value):
        return attribute_pb2.Value(number=value)
    expected = "expected a str, bool, int of 64 bits or finite float"
    raise invalid(field, f"{expected}, got {type(value).__name__} `{str(value)[:80]}`")


def value_from_wire(value: attribute_pb2.Value) -> Value:
    """Returns a value that came."""
    kind = value.WhichOneof("kind")
    if kind == "integer":
        return value.integer
    if kind == "number":
        return value.number
    if kind == "boolean":
        return value.boolean
    return value.text


def attributes_to_wire(attributes: Attributes, field: str) -> list[attribute_pb2.Attribute]:
    """Returns attributes as they travel. `field` names them in errors."""
    return [
        attribute_pb2.Attribute(name=name, value=value)
        if isinstance(value, str)
        else attribute_pb2.Attribute(name=name, typed=value_to_wire(value, f"{field}.{name}"))
        for name, value in attributes.items()
    ]


def attributes_from_wire(attributes: Iterable[attribute_pb2.Attribute]) -> dict[str, Value]:
    """Returns attributes that came, by name."""
    return {
        each.name: value_from_wire(each.typed) if each.HasField("typed") else each.value
        for each in attributes
    }
