from clew._proto import attribute_pb2 as _attribute_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SearchMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEARCH_MODE_UNSPECIFIED: _ClassVar[SearchMode]
    SEARCH_MODE_DENSE: _ClassVar[SearchMode]
    SEARCH_MODE_SPARSE: _ClassVar[SearchMode]
    SEARCH_MODE_HYBRID: _ClassVar[SearchMode]

class Grouping(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUPING_UNSPECIFIED: _ClassVar[Grouping]
    GROUPING_CHUNKS: _ClassVar[Grouping]
    GROUPING_DOCUMENTS: _ClassVar[Grouping]

class Operator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATOR_UNSPECIFIED: _ClassVar[Operator]
    OPERATOR_EQ: _ClassVar[Operator]
    OPERATOR_NE: _ClassVar[Operator]
    OPERATOR_GT: _ClassVar[Operator]
    OPERATOR_GTE: _ClassVar[Operator]
    OPERATOR_LT: _ClassVar[Operator]
    OPERATOR_LTE: _ClassVar[Operator]
    OPERATOR_IN: _ClassVar[Operator]
    OPERATOR_NIN: _ClassVar[Operator]
    OPERATOR_CONTAINS: _ClassVar[Operator]
    OPERATOR_EXISTS: _ClassVar[Operator]

class TextKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TEXT_KIND_UNSPECIFIED: _ClassVar[TextKind]
    TEXT_KIND_PASSAGE: _ClassVar[TextKind]
    TEXT_KIND_QUERY: _ClassVar[TextKind]

class StrategyNeeds(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STRATEGY_NEEDS_UNSPECIFIED: _ClassVar[StrategyNeeds]
    STRATEGY_NEEDS_CHUNKS: _ClassVar[StrategyNeeds]
    STRATEGY_NEEDS_TREE: _ClassVar[StrategyNeeds]
    STRATEGY_NEEDS_GRAPH: _ClassVar[StrategyNeeds]

class MemoryUse(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMORY_USE_UNSPECIFIED: _ClassVar[MemoryUse]
    MEMORY_USE_CLUES: _ClassVar[MemoryUse]
    MEMORY_USE_HINT: _ClassVar[MemoryUse]
    MEMORY_USE_ANSWER: _ClassVar[MemoryUse]

class Task(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_UNSPECIFIED: _ClassVar[Task]
    TASK_ANSWER: _ClassVar[Task]
    TASK_SUMMARISE: _ClassVar[Task]

class PointFate(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POINT_FATE_UNSPECIFIED: _ClassVar[PointFate]
    POINT_FATE_KEPT: _ClassVar[PointFate]
    POINT_FATE_UPDATED: _ClassVar[PointFate]
    POINT_FATE_INSERTED: _ClassVar[PointFate]
    POINT_FATE_MERGED: _ClassVar[PointFate]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_ANSWERED: _ClassVar[Outcome]
    OUTCOME_NOT_IN_MEMORY: _ClassVar[Outcome]
    OUTCOME_ANSWERED_WITH_SHARDS_MISSING: _ClassVar[Outcome]
SEARCH_MODE_UNSPECIFIED: SearchMode
SEARCH_MODE_DENSE: SearchMode
SEARCH_MODE_SPARSE: SearchMode
SEARCH_MODE_HYBRID: SearchMode
GROUPING_UNSPECIFIED: Grouping
GROUPING_CHUNKS: Grouping
GROUPING_DOCUMENTS: Grouping
OPERATOR_UNSPECIFIED: Operator
OPERATOR_EQ: Operator
OPERATOR_NE: Operator
OPERATOR_GT: Operator
OPERATOR_GTE: Operator
OPERATOR_LT: Operator
OPERATOR_LTE: Operator
OPERATOR_IN: Operator
OPERATOR_NIN: Operator
OPERATOR_CONTAINS: Operator
OPERATOR_EXISTS: Operator
TEXT_KIND_UNSPECIFIED: TextKind
TEXT_KIND_PASSAGE: TextKind
TEXT_KIND_QUERY: TextKind
STRATEGY_NEEDS_UNSPECIFIED: StrategyNeeds
STRATEGY_NEEDS_CHUNKS: StrategyNeeds
STRATEGY_NEEDS_TREE: StrategyNeeds
STRATEGY_NEEDS_GRAPH: StrategyNeeds
MEMORY_USE_UNSPECIFIED: MemoryUse
MEMORY_USE_CLUES: MemoryUse
MEMORY_USE_HINT: MemoryUse
MEMORY_USE_ANSWER: MemoryUse
TASK_UNSPECIFIED: Task
TASK_ANSWER: Task
TASK_SUMMARISE: Task
POINT_FATE_UNSPECIFIED: PointFate
POINT_FATE_KEPT: PointFate
POINT_FATE_UPDATED: PointFate
POINT_FATE_INSERTED: PointFate
POINT_FATE_MERGED: PointFate
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_ANSWERED: Outcome
OUTCOME_NOT_IN_MEMORY: Outcome
OUTCOME_ANSWERED_WITH_SHARDS_MISSING: Outcome

class Filter(_message.Message):
    __slots__ = ("document_ids", "attributes", "event_time_from", "event_time_until", "condition")
    DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FROM_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_UNTIL_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    document_ids: _containers.RepeatedScalarFieldContainer[str]
    attributes: _containers.RepeatedCompositeFieldContainer[AttributeMatch]
    event_time_from: _timestamp_pb2.Timestamp
    event_time_until: _timestamp_pb2.Timestamp
    condition: Condition
    def __init__(self, document_ids: _Optional[_Iterable[str]] = ..., attributes: _Optional[_Iterable[_Union[AttributeMatch, _Mapping]]] = ..., event_time_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., event_time_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., condition: _Optional[_Union[Condition, _Mapping]] = ...) -> None: ...

class Condition(_message.Message):
    __slots__ = ("all_of", "any_of", "negated", "comparison")
    ALL_OF_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    NEGATED_FIELD_NUMBER: _ClassVar[int]
    COMPARISON_FIELD_NUMBER: _ClassVar[int]
    all_of: Conditions
    any_of: Conditions
    negated: Condition
    comparison: Comparison
    def __init__(self, all_of: _Optional[_Union[Conditions, _Mapping]] = ..., any_of: _Optional[_Union[Conditions, _Mapping]] = ..., negated: _Optional[_Union[Condition, _Mapping]] = ..., comparison: _Optional[_Union[Comparison, _Mapping]] = ...) -> None: ...

class Conditions(_message.Message):
    __slots__ = ("conditions",)
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[Condition]
    def __init__(self, conditions: _Optional[_Iterable[_Union[Condition, _Mapping]]] = ...) -> None: ...

class Comparison(_message.Message):
    __slots__ = ("attribute", "operator", "values")
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    attribute: str
    operator: Operator
    values: _containers.RepeatedCompositeFieldContainer[_attribute_pb2.Value]
    def __init__(self, attribute: _Optional[str] = ..., operator: _Optional[_Union[Operator, str]] = ..., values: _Optional[_Iterable[_Union[_attribute_pb2.Value, _Mapping]]] = ...) -> None: ...

class AttributeMatch(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("document_id", "version", "span")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    version: int
    span: Span
    def __init__(self, document_id: _Optional[str] = ..., version: _Optional[int] = ..., span: _Optional[_Union[Span, _Mapping]] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("corpus", "query", "k", "mode", "filter", "grouping", "exact", "rerank", "with_attributes", "page_token")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    GROUPING_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    WITH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    query: str
    k: int
    mode: SearchMode
    filter: Filter
    grouping: Grouping
    exact: bool
    rerank: int
    with_attributes: bool
    page_token: str
    def __init__(self, corpus: _Optional[str] = ..., query: _Optional[str] = ..., k: _Optional[int] = ..., mode: _Optional[_Union[SearchMode, str]] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., grouping: _Optional[_Union[Grouping, str]] = ..., exact: bool = ..., rerank: _Optional[int] = ..., with_attributes: bool = ..., page_token: _Optional[str] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("chunk_id", "document_id", "version", "title", "span", "text", "event_time", "score", "dense_score", "sparse_score", "attributes")
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    DENSE_SCORE_FIELD_NUMBER: _ClassVar[int]
    SPARSE_SCORE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    chunk_id: str
    document_id: str
    version: int
    title: str
    span: Span
    text: str
    event_time: _timestamp_pb2.Timestamp
    score: float
    dense_score: float
    sparse_score: float
    attributes: _containers.RepeatedCompositeFieldContainer[_attribute_pb2.Attribute]
    def __init__(self, chunk_id: _Optional[str] = ..., document_id: _Optional[str] = ..., version: _Optional[int] = ..., title: _Optional[str] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., text: _Optional[str] = ..., event_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., score: _Optional[float] = ..., dense_score: _Optional[float] = ..., sparse_score: _Optional[float] = ..., attributes: _Optional[_Iterable[_Union[_attribute_pb2.Attribute, _Mapping]]] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("evidence", "shards_missing", "cost", "timing", "next_page_token")
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_MISSING_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    shards_missing: _containers.RepeatedScalarFieldContainer[int]
    cost: Cost
    timing: Timing
    next_page_token: str
    def __init__(self, evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., shards_missing: _Optional[_Iterable[int]] = ..., cost: _Optional[_Union[Cost, _Mapping]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SearchBatchRequest(_message.Message):
    __slots__ = ("corpus", "searches")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    SEARCHES_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    searches: _containers.RepeatedCompositeFieldContainer[SearchRequest]
    def __init__(self, corpus: _Optional[str] = ..., searches: _Optional[_Iterable[_Union[SearchRequest, _Mapping]]] = ...) -> None: ...

class SearchBatchResponse(_message.Message):
    __slots__ = ("results", "timing")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SearchResponse]
    timing: Timing
    def __init__(self, results: _Optional[_Iterable[_Union[SearchResponse, _Mapping]]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ...) -> None: ...

class EmbedRequest(_message.Message):
    __slots__ = ("corpus", "model", "texts", "kind")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    model: str
    texts: _containers.RepeatedScalarFieldContainer[str]
    kind: TextKind
    def __init__(self, corpus: _Optional[str] = ..., model: _Optional[str] = ..., texts: _Optional[_Iterable[str]] = ..., kind: _Optional[_Union[TextKind, str]] = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("model", "dimension", "embeddings", "cost", "timing")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    model: str
    dimension: int
    embeddings: _containers.RepeatedCompositeFieldContainer[Embedding]
    cost: Cost
    timing: Timing
    def __init__(self, model: _Optional[str] = ..., dimension: _Optional[int] = ..., embeddings: _Optional[_Iterable[_Union[Embedding, _Mapping]]] = ..., cost: _Optional[_Union[Cost, _Mapping]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ("vector", "tokens", "truncated")
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    vector: bytes
    tokens: int
    truncated: bool
    def __init__(self, vector: _Optional[bytes] = ..., tokens: _Optional[int] = ..., truncated: bool = ...) -> None: ...

class AnswerRequest(_message.Message):
    __slots__ = ("corpus", "question", "strategy", "k", "filter", "task", "asked_at", "evidence_tokens", "memory_use", "rerank", "with_attributes")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USE_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    WITH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    question: str
    strategy: str
    k: int
    filter: Filter
    task: Task
    asked_at: _timestamp_pb2.Timestamp
    evidence_tokens: int
    memory_use: MemoryUse
    rerank: int
    with_attributes: bool
    def __init__(self, corpus: _Optional[str] = ..., question: _Optional[str] = ..., strategy: _Optional[str] = ..., k: _Optional[int] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., task: _Optional[_Union[Task, str]] = ..., asked_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., evidence_tokens: _Optional[int] = ..., memory_use: _Optional[_Union[MemoryUse, str]] = ..., rerank: _Optional[int] = ..., with_attributes: bool = ...) -> None: ...

class ListStrategiesRequest(_message.Message):
    __slots__ = ("corpus",)
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    def __init__(self, corpus: _Optional[str] = ...) -> None: ...

class ListStrategiesResponse(_message.Message):
    __slots__ = ("strategies",)
    STRATEGIES_FIELD_NUMBER: _ClassVar[int]
    strategies: _containers.RepeatedCompositeFieldContainer[Strategy]
    def __init__(self, strategies: _Optional[_Iterable[_Union[Strategy, _Mapping]]] = ...) -> None: ...

class Strategy(_message.Message):
    __slots__ = ("name", "description", "needs", "cost", "can_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    CAN_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    needs: StrategyNeeds
    cost: str
    can_run: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., needs: _Optional[_Union[StrategyNeeds, str]] = ..., cost: _Optional[str] = ..., can_run: bool = ...) -> None: ...

class AnswerResponse(_message.Message):
    __slots__ = ("trace", "text_delta", "answer")
    TRACE_FIELD_NUMBER: _ClassVar[int]
    TEXT_DELTA_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    trace: TraceEvent
    text_delta: str
    answer: Answer
    def __init__(self, trace: _Optional[_Union[TraceEvent, _Mapping]] = ..., text_delta: _Optional[str] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ...) -> None: ...

class TraceEvent(_message.Message):
    __slots__ = ("searched", "judged", "read", "entered", "turned_back", "leaf_read", "walked", "entities_chosen", "edge_followed", "gathered", "reflected", "evolved", "drafted")
    SEARCHED_FIELD_NUMBER: _ClassVar[int]
    JUDGED_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    ENTERED_FIELD_NUMBER: _ClassVar[int]
    TURNED_BACK_FIELD_NUMBER: _ClassVar[int]
    LEAF_READ_FIELD_NUMBER: _ClassVar[int]
    WALKED_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_CHOSEN_FIELD_NUMBER: _ClassVar[int]
    EDGE_FOLLOWED_FIELD_NUMBER: _ClassVar[int]
    GATHERED_FIELD_NUMBER: _ClassVar[int]
    REFLECTED_FIELD_NUMBER: _ClassVar[int]
    EVOLVED_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_FIELD_NUMBER: _ClassVar[int]
    searched: Searched
    judged: Judged
    read: Read
    entered: Entered
    turned_back: TurnedBack
    leaf_read: LeafRead
    walked: Walked
    entities_chosen: EntitiesChosen
    edge_followed: EdgeFollowed
    gathered: Gathered
    reflected: Reflected
    evolved: Evolved
    drafted: Drafted
    def __init__(self, searched: _Optional[_Union[Searched, _Mapping]] = ..., judged: _Optional[_Union[Judged, _Mapping]] = ..., read: _Optional[_Union[Read, _Mapping]] = ..., entered: _Optional[_Union[Entered, _Mapping]] = ..., turned_back: _Optional[_Union[TurnedBack, _Mapping]] = ..., leaf_read: _Optional[_Union[LeafRead, _Mapping]] = ..., walked: _Optional[_Union[Walked, _Mapping]] = ..., entities_chosen: _Optional[_Union[EntitiesChosen, _Mapping]] = ..., edge_followed: _Optional[_Union[EdgeFollowed, _Mapping]] = ..., gathered: _Optional[_Union[Gathered, _Mapping]] = ..., reflected: _Optional[_Union[Reflected, _Mapping]] = ..., evolved: _Optional[_Union[Evolved, _Mapping]] = ..., drafted: _Optional[_Union[Drafted, _Mapping]] = ...) -> None: ...

class Searched(_message.Message):
    __slots__ = ("query", "mode", "hits", "best_dense_score", "took")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    BEST_DENSE_SCORE_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    query: str
    mode: SearchMode
    hits: int
    best_dense_score: float
    took: _duration_pb2.Duration
    def __init__(self, query: _Optional[str] = ..., mode: _Optional[_Union[SearchMode, str]] = ..., hits: _Optional[int] = ..., best_dense_score: _Optional[float] = ..., took: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Judged(_message.Message):
    __slots__ = ("confidence", "threshold", "rationale")
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    RATIONALE_FIELD_NUMBER: _ClassVar[int]
    confidence: float
    threshold: float
    rationale: str
    def __init__(self, confidence: _Optional[float] = ..., threshold: _Optional[float] = ..., rationale: _Optional[str] = ...) -> None: ...

class Read(_message.Message):
    __slots__ = ("passages", "sentences", "took", "places")
    PASSAGES_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    passages: int
    sentences: int
    took: _duration_pb2.Duration
    places: _containers.RepeatedCompositeFieldContainer[Place]
    def __init__(self, passages: _Optional[int] = ..., sentences: _Optional[int] = ..., took: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., places: _Optional[_Iterable[_Union[Place, _Mapping]]] = ...) -> None: ...

class Entered(_message.Message):
    __slots__ = ("node", "parent", "summary", "reason", "score")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    node: str
    parent: str
    summary: str
    reason: str
    score: float
    def __init__(self, node: _Optional[str] = ..., parent: _Optional[str] = ..., summary: _Optional[str] = ..., reason: _Optional[str] = ..., score: _Optional[float] = ...) -> None: ...

class TurnedBack(_message.Message):
    __slots__ = ("node", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    reason: str
    def __init__(self, node: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LeafRead(_message.Message):
    __slots__ = ("node", "answers", "reason")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node: str
    answers: bool
    reason: str
    def __init__(self, node: _Optional[str] = ..., answers: bool = ..., reason: _Optional[str] = ...) -> None: ...

class Walked(_message.Message):
    __slots__ = ("nodes", "turns", "bytes_read", "bytes_total", "ended")
    NODES_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    turns: int
    bytes_read: int
    bytes_total: int
    ended: str
    def __init__(self, nodes: _Optional[int] = ..., turns: _Optional[int] = ..., bytes_read: _Optional[int] = ..., bytes_total: _Optional[int] = ..., ended: _Optional[str] = ...) -> None: ...

class EntitiesChosen(_message.Message):
    __slots__ = ("entities", "reason")
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    entities: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    def __init__(self, entities: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ...) -> None: ...

class EdgeFollowed(_message.Message):
    __slots__ = ("head", "relation", "tail", "to", "score", "reason")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    RELATION_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    head: str
    relation: str
    tail: str
    to: str
    score: float
    reason: str
    def __init__(self, head: _Optional[str] = ..., relation: _Optional[str] = ..., tail: _Optional[str] = ..., to: _Optional[str] = ..., score: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class Evolved(_message.Message):
    __slots__ = ("step", "points", "brought")
    STEP_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    BROUGHT_FIELD_NUMBER: _ClassVar[int]
    step: int
    points: _containers.RepeatedCompositeFieldContainer[Point]
    brought: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, step: _Optional[int] = ..., points: _Optional[_Iterable[_Union[Point, _Mapping]]] = ..., brought: _Optional[_Iterable[str]] = ...) -> None: ...

class Point(_message.Message):
    __slots__ = ("number", "fate", "entities", "text", "merged_from", "segments")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FATE_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MERGED_FROM_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    fate: PointFate
    entities: _containers.RepeatedScalarFieldContainer[str]
    text: str
    merged_from: _containers.RepeatedScalarFieldContainer[int]
    segments: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., fate: _Optional[_Union[PointFate, str]] = ..., entities: _Optional[_Iterable[str]] = ..., text: _Optional[str] = ..., merged_from: _Optional[_Iterable[int]] = ..., segments: _Optional[_Iterable[str]] = ...) -> None: ...

class Drafted(_message.Message):
    __slots__ = ("lines", "answers", "took")
    LINES_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    lines: int
    answers: _containers.RepeatedScalarFieldContainer[str]
    took: _duration_pb2.Duration
    def __init__(self, lines: _Optional[int] = ..., answers: _Optional[_Iterable[str]] = ..., took: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Gathered(_message.Message):
    __slots__ = ("segments", "dropped", "bytes")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    segments: int
    dropped: int
    bytes: int
    def __init__(self, segments: _Optional[int] = ..., dropped: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Reflected(_message.Message):
    __slots__ = ("suffices", "reason", "missing")
    SUFFICES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    suffices: bool
    reason: str
    missing: str
    def __init__(self, suffices: bool = ..., reason: _Optional[str] = ..., missing: _Optional[str] = ...) -> None: ...

class Citation(_message.Message):
    __slots__ = ("document_id", "version", "title", "span", "quote", "attributes")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    version: int
    title: str
    span: Span
    quote: str
    attributes: _containers.RepeatedCompositeFieldContainer[_attribute_pb2.Attribute]
    def __init__(self, document_id: _Optional[str] = ..., version: _Optional[int] = ..., title: _Optional[str] = ..., span: _Optional[_Union[Span, _Mapping]] = ..., quote: _Optional[str] = ..., attributes: _Optional[_Iterable[_Union[_attribute_pb2.Attribute, _Mapping]]] = ...) -> None: ...

class Cost(_message.Message):
    __slots__ = ("embedded_tokens", "model_calls", "prompt_tokens", "completion_tokens", "shards_searched", "out_of_budget", "reranked_tokens")
    EMBEDDED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_SEARCHED_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_BUDGET_FIELD_NUMBER: _ClassVar[int]
    RERANKED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    embedded_tokens: int
    model_calls: int
    prompt_tokens: int
    completion_tokens: int
    shards_searched: int
    out_of_budget: bool
    reranked_tokens: int
    def __init__(self, embedded_tokens: _Optional[int] = ..., model_calls: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., shards_searched: _Optional[int] = ..., out_of_budget: bool = ..., reranked_tokens: _Optional[int] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("owner", "left")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    owner: bytes
    left: Budget
    def __init__(self, owner: _Optional[bytes] = ..., left: _Optional[_Union[Budget, _Mapping]] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("calls", "tokens", "time")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    calls: int
    tokens: int
    time: _duration_pb2.Duration
    def __init__(self, calls: _Optional[int] = ..., tokens: _Optional[int] = ..., time: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Spent(_message.Message):
    __slots__ = ("calls", "prompt_tokens", "completion_tokens", "time", "aside", "out_of_budget")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ASIDE_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_BUDGET_FIELD_NUMBER: _ClassVar[int]
    calls: int
    prompt_tokens: int
    completion_tokens: int
    time: _duration_pb2.Duration
    aside: Cost
    out_of_budget: bool
    def __init__(self, calls: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., time: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., aside: _Optional[_Union[Cost, _Mapping]] = ..., out_of_budget: bool = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ("total", "queue", "compute", "store")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    total: _duration_pb2.Duration
    queue: _duration_pb2.Duration
    compute: _duration_pb2.Duration
    store: _duration_pb2.Duration
    def __init__(self, total: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., queue: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., compute: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., store: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("outcome", "text", "citations", "cost", "shards_missing", "timing")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CITATIONS_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    SHARDS_MISSING_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    text: str
    citations: _containers.RepeatedCompositeFieldContainer[Citation]
    cost: Cost
    shards_missing: _containers.RepeatedScalarFieldContainer[int]
    timing: Timing
    def __init__(self, outcome: _Optional[_Union[Outcome, str]] = ..., text: _Optional[str] = ..., citations: _Optional[_Iterable[_Union[Citation, _Mapping]]] = ..., cost: _Optional[_Union[Cost, _Mapping]] = ..., shards_missing: _Optional[_Iterable[int]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ...) -> None: ...
