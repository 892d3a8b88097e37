"""Clew for Haystack: a component that retrieves passages.

    from clew.haystack import ClewRetriever
    from haystack import Pipeline

    pipeline = Pipeline()
    pipeline.add_component("retriever", ClewRetriever("notes", endpoint="http://127.0.0.1:7421"))
    found = pipeline.run({"retriever": {"query": "What is the cat called?"}})
    print(found["retriever"]["documents"][0].content)

Clew embeds texts itself, so a pipeline needs no embedder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import clew
from clew._found import metadata_of, warn_if_incomplete

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.types import FilterPolicy, apply_filter_policy
    from haystack.errors import FilterError
    from haystack.utils import Secret, deserialize_secrets_inplace
except ImportError as error:
    raise ImportError(
        "`clew.haystack` needs Haystack: pip install 'clew-memory[haystack]'"
    ) from error

__all__ = ["ClewRetriever"]


@component
class ClewRetriever:
    """Retriever of the passages that match a query best.

    The `meta` of a passage are the attributes of its document and, where an attribute has the same
    name, instead of it: `document_id`, `span` (first byte of the document's text and the byte after
    the last one), and `title` and `event_time` (ISO 8601) if the document has them.

    Filters are those of Haystack on `meta`. They compare values of one type: an integer equals the
    same number, and texts such as dates compare by their characters. Clew has all operators of
    Haystack. Fields of a document outside `meta` cannot be filtered by.

    A saved pipeline has the name of the variable with the API key, and never the key. Loading it
    needs `allowed_modules=["clew.haystack"]` as of Haystack 3.
    """

    def __init__(
        self,
        corpus: str,
        *,
        endpoint: str | None = None,
        api_key: Secret | None = Secret.from_env_var("CLEW_API_KEY", strict=False),  # noqa: B008
        ca: str | None = None,
        client_certificate: str | None = None,
        client_key: str | None = None,
        top_k: int = 10,
        mode: clew.Mode = "hybrid",
        filters: dict[str, Any] | None = None,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        """Prepares a retriever. Calls nobody.

        Args:
            corpus: Name of the corpus.
            endpoint: Address of the server. As with `clew.Client`, what is not given of this and
                the next four comes from the environment.
            api_key: API key to show the server.
            ca: File (PEM) with the authority that certifies the server.
            client_certificate: File (PEM) with a certificate to show the server.
            client_key: File (PEM) with the private key of that certificate.
            top_k: Maximum passages: 1 to 200.
            mode: Way in which passages are matched.
            filters: Restriction of what may be found.
            filter_policy: Whether filters of a run replace `filters` or are merged with them.

        Raises:
            FilterError: Clew cannot filter by `filters`.
        """
        if filters:
            _condition(filters)
        self.corpus = corpus
        self.endpoint = endpoint
        self.api_key = api_key
        self.ca = ca
        self.client_certificate = client_certificate
        self.client_key = client_key
        self.top_k = top_k
        self.mode = mode
        self.filters = filters
        self.filter_policy = filter_policy
        self._client: clew.Client | None = None
        self._async_client: clew.AsyncClient | None = None

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Returns the passages that match a query best, as `documents`.

        Args:
            query: Words of the question, at most 16 KiB.
            filters: Restriction of what may be found: see `filter_policy`.
            top_k: Maximum passages, instead of those of the retriever.

        Raises:
            FilterError: Clew cannot filter by `filters`.
        """
        if self._client is None:
            self._client = clew.Client(self.endpoint, **self._credentials())
        arguments = self._arguments(filters, top_k)
        result = self._client.corpus(self.corpus).search(query, **arguments)
        warn_if_incomplete(result.shards_missing, self.corpus)
        return {"documents": [_document(passage) for passage in result.passages]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Does what `run` does."""
        if self._async_client is None:
            self._async_client = clew.AsyncClient(self.endpoint, **self._credentials())
        arguments = self._arguments(filters, top_k)
        result = await self._async_client.corpus(self.corpus).search(query, **arguments)
        warn_if_incomplete(result.shards_missing, self.corpus)
        return {"documents": [_document(passage) for passage in result.passages]}

    def close(self) -> None:
        """Closes the connection of `run`, which connects again if it is called."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def close_async(self) -> None:
        """Closes the connections of `run` and `run_async`, which connect again if called."""
        self.close()
        client, self._async_client = self._async_client, None
        if client is not None:
            await client.close()

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings, for a saved pipeline.

        Raises:
            ValueError: The API key is a token instead of the name of a variable.
        """
        return default_to_dict(
            self,
            corpus=self.corpus,
            endpoint=self.endpoint,
            api_key=None if self.api_key is None else self.api_key.to_dict(),
            ca=self.ca,
            client_certificate=self.client_certificate,
            client_key=self.client_key,
            top_k=self.top_k,
            mode=self.mode,
            filters=self.filters,
            filter_policy=self.filter_policy.value,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ClewRetriever:
        """Returns the retriever with the settings that `to_dict` returned."""
        settings = dict(data["init_parameters"])
        deserialize_secrets_inplace(settings, ["api_key"])
        if "filter_policy" in settings:
            settings["filter_policy"] = FilterPolicy.from_str(settings["filter_policy"])
        return default_from_dict(cls, {**data, "init_parameters": settings})

    def _credentials(self) -> dict[str, Any]:
        return {
            "api_key": None if self.api_key is None else self.api_key.resolve_value(),
            "ca": self.ca,
            "client_certificate": self.client_certificate,
            "client_key": self.client_key,
        }

    def _arguments(self, filters: dict[str, Any] | None, top_k: int | None) -> dict[str, Any]:
        filters = apply_filter_policy(self.filter_policy, self.filters, filters)
        return {
            "k": self.top_k if top_k is None else top_k,
            "mode": self.mode,
            "where": _condition(filters) if filters else None,
            "with_attributes": True,
        }


def _document(passage: clew.Passage) -> Document:
    meta = metadata_of(passage)
    meta["document_id"] = passage.document_id
    meta["span"] = [passage.span.start, passage.span.end]
    return Document(id=passage.chunk_id, content=passage.text, meta=meta, score=passage.score)


# Haystack takes a missing value as one that differs from every other, and Clew takes a comparison
# with it as false. So what means "differs" is a negation.
_COMPARISONS: dict[str, Callable[[clew.Attribute, Any], clew.Condition]] = {
    "==": lambda attribute, value: attribute == value,
    "!=": lambda attribute, value: ~(attribute == value),
    ">": lambda attribute, value: attribute > value,
    ">=": lambda attribute, value: attribute >= value,
    "<": lambda attribute, value: attribute < value,
    "<=": lambda attribute, value: attribute <= value,
    "in": lambda attribute, values: attribute.is_in(values),
    "not in": lambda attribute, values: ~attribute.is_in(values),
}
# A value of `None` is that the attribute is missing.
_COMPARISONS_WITH_NONE: dict[str, Callable[[clew.Attribute], clew.Condition]] = {
    "==": lambda attribute: ~attribute.exists(),
    "!=": lambda attribute: attribute.exists(),
}
_LOGIC: dict[str, Callable[[tuple[clew.Condition, ...]], clew.Condition]] = {
    "AND": clew.AllOf,
    "OR": clew.AnyOf,
    "NOT": lambda conditions: ~clew.AllOf(conditions),
}


def _condition(filters: dict[str, Any]) -> clew.Condition:
    """Returns filters of Haystack as a condition of Clew."""
    if not isinstance(filters, dict):
        raise FilterError(f"expected a filter as a dictionary, got {type(filters).__name__}")
    needed = ("field", "operator", "value") if "field" in filters else ("operator", "conditions")
    missing = [f"`{key}`" for key in needed if key not in filters]
    if missing:
        raise FilterError(f"expected {', '.join(missing)} in the filter, got {filters}")
    if "field" in filters:
        return _comparison(filters["field"], filters["operator"], filters["value"])
    operator, conditions = filters["operator"], filters["conditions"]
    if operator not in _LOGIC:
        raise FilterError(f"expected one of {', '.join(_LOGIC)} as operator, got `{operator}`")
    if not conditions:
        raise FilterError(f"expected conditions for the operator `{operator}`, got none")
    return _LOGIC[operator](tuple(_condition(each) for each in conditions))


def _comparison(field: str, operator: str, value: Any) -> clew.Condition:
    # Haystack takes a name without `meta.` that is none of its own as one of `meta`.
    name = field.removeprefix("meta.")
    if name == field and field in Document.__dataclass_fields__:
        raise FilterError(f"expected a field of `meta`, got `{field}`, which Clew cannot filter by")
    if operator not in _COMPARISONS:
        known = ", ".join(_COMPARISONS)
        raise FilterError(f"expected one of {known} for `{field}`, got `{operator}`")
    attribute = clew.where(name)
    if value is None:
        if operator not in _COMPARISONS_WITH_NONE:
            raise FilterError(f"expected a value for `{field}` with `{operator}`, got `None`")
        return _COMPARISONS_WITH_NONE[operator](attribute)
    if operator in ("in", "not in"):
        is_valid = isinstance(value, list) and value and all(map(_is_value, value))
        expected = "a list of texts, numbers or truth values"
    else:
        is_valid = _is_value(value)
        expected = "a text, a number or a truth value"
    if not is_valid:
        raise FilterError(f"expected {expected} for `{field}` with `{operator}`, got `{value}`")
    return _COMPARISONS[operator](attribute, value)


def _is_value(value: Any) -> bool:
    return isinstance(value, clew.Value)
