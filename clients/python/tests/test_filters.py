"""Conditions and filters."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

import clew
from clew import where

YEARS = {"old": 1990, "new": 2024, "none": None}


@pytest.fixture(scope="module")
def corpus(server: object) -> Iterator[clew.Corpus]:
    with clew.Client(server.endpoint) as client:  # type: ignore[attr-defined]
        corpus = client.create_corpus("filters", structure=None)
        corpus.ingest(
            clew.Document(
                id,
                f"The {id} one.",
                attributes={"name": id} if year is None else {"name": id, "year": year},
                event_time=None if year is None else datetime(year, 1, 1, tzinfo=timezone.utc),
            )
            for id, year in YEARS.items()
        )
        yield corpus


year, name = where("year"), where("name")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (year == 1990, {"old"}),
        (year != 1990, {"new"}),
        (~(year == 1990), {"new", "none"}),
        (year < 2024, {"old"}),
        (year <= 2024, {"old", "new"}),
        (year > 1990, {"new"}),
        (year >= 1990.0, {"old", "new"}),
        (year.is_in([1990, 1]), {"old"}),
        (year.is_not_in([1990]), {"new"}),
        (year.exists(), {"old", "new"}),
        (~year.exists(), {"none"}),
        (name.contains("ne"), {"new", "none"}),
        (year.exists() & name.contains("e"), {"new"}),
        ((year == 1990) | ~year.exists(), {"old", "none"}),
        ({"year": 2024, "name": "new"}, {"new"}),
        ({"year": 2024, "name": "old"}, set()),
        ({}, {"old", "new", "none"}),
        (clew.Filter(), {"old", "new", "none"}),
        (clew.Filter(year.exists(), document_ids=("old", "none")), {"old"}),
        (clew.Filter(event_time_from=datetime(2000, 1, 1, tzinfo=timezone.utc)), {"new"}),
        (clew.Filter(event_time_until=datetime(2000, 1, 1, tzinfo=timezone.utc)), {"old"}),
    ],
)
def test_a_filter_admits_what_it_says(
    corpus: clew.Corpus, given: clew.Where, expected: set[str]
) -> None:
    assert {state.id for state in corpus.documents(where=given)} == expected


def test_a_long_chain_stays_on_one_level(corpus: clew.Corpus) -> None:
    any_of = name == "old"
    for number in range(100):
        any_of = any_of | (name == str(number))
    assert [state.id for state in corpus.documents(where=any_of)] == ["old"]


def test_a_condition_is_not_a_truth_value() -> None:
    with pytest.raises(TypeError, match="combine conditions by &"):
        _ = (year == 1990) and (name == "old")
    with pytest.raises(TypeError, match="combine conditions by &"):
        _ = 1 < year < 3


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, 2**63, float("nan"), float("inf")])
def test_values_of_other_types_are_refused(corpus: clew.Corpus, value: object) -> None:
    with pytest.raises(clew.InvalidArgumentError, match=r"where\.year"):
        corpus.search("x", where={"year": value})  # type: ignore[dict-item]


def test_other_filters_are_refused(corpus: clew.Corpus) -> None:
    with pytest.raises(clew.InvalidArgumentError, match="got str"):
        corpus.search("x", where="year > 3")  # type: ignore[arg-type]
    naive = clew.Filter(event_time_from=datetime(2000, 1, 1))
    with pytest.raises(clew.InvalidArgumentError, match="time zone"):
        corpus.search("x", where=naive)
