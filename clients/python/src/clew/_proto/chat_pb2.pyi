from clew._proto import ingest_pb2 as _ingest_pb2
from clew._proto import query_pb2 as _query_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_USER: _ClassVar[Role]
    ROLE_ASSISTANT: _ClassVar[Role]

class Inference(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INFERENCE_UNSPECIFIED: _ClassVar[Inference]
    INFERENCE_RULES: _ClassVar[Inference]
    INFERENCE_MODEL: _ClassVar[Inference]

class Value(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VALUE_UNSPECIFIED: _ClassVar[Value]
    VALUE_TURN: _ClassVar[Value]
    VALUE_ROUND: _ClassVar[Value]
    VALUE_SESSION: _ClassVar[Value]
    VALUE_FACTS: _ClassVar[Value]
    VALUE_SUMMARY: _ClassVar[Value]

class TimeUse(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIME_USE_UNSPECIFIED: _ClassVar[TimeUse]
    TIME_USE_BOOST: _ClassVar[TimeUse]
    TIME_USE_FILTER: _ClassVar[TimeUse]
    TIME_USE_IGNORE: _ClassVar[TimeUse]

class History(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HISTORY_UNSPECIFIED: _ClassVar[History]
    HISTORY_LATEST: _ClassVar[History]
    HISTORY_ALL: _ClassVar[History]

class Merging(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MERGING_UNSPECIFIED: _ClassVar[Merging]
    MERGING_BEST: _ClassVar[Merging]
    MERGING_RANK: _ClassVar[Merging]

class Notes(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOTES_UNSPECIFIED: _ClassVar[Notes]
    NOTES_CHAIN: _ClassVar[Notes]
    NOTES_DIRECT: _ClassVar[Notes]

class Layout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LAYOUT_UNSPECIFIED: _ClassVar[Layout]
    LAYOUT_JSON: _ClassVar[Layout]
    LAYOUT_TEXT: _ClassVar[Layout]
ROLE_UNSPECIFIED: Role
ROLE_USER: Role
ROLE_ASSISTANT: Role
INFERENCE_UNSPECIFIED: Inference
INFERENCE_RULES: Inference
INFERENCE_MODEL: Inference
VALUE_UNSPECIFIED: Value
VALUE_TURN: Value
VALUE_ROUND: Value
VALUE_SESSION: Value
VALUE_FACTS: Value
VALUE_SUMMARY: Value
TIME_USE_UNSPECIFIED: TimeUse
TIME_USE_BOOST: TimeUse
TIME_USE_FILTER: TimeUse
TIME_USE_IGNORE: TimeUse
HISTORY_UNSPECIFIED: History
HISTORY_LATEST: History
HISTORY_ALL: History
MERGING_UNSPECIFIED: Merging
MERGING_BEST: Merging
MERGING_RANK: Merging
NOTES_UNSPECIFIED: Notes
NOTES_CHAIN: Notes
NOTES_DIRECT: Notes
LAYOUT_UNSPECIFIED: Layout
LAYOUT_JSON: Layout
LAYOUT_TEXT: Layout

class Turn(_message.Message):
    __slots__ = ("number", "role", "speaker", "text", "time", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    number: int
    role: Role
    speaker: str
    text: str
    time: _timestamp_pb2.Timestamp
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, number: _Optional[int] = ..., role: _Optional[_Union[Role, str]] = ..., speaker: _Optional[str] = ..., text: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AppendTurnsRequest(_message.Message):
    __slots__ = ("corpus", "user", "session", "turns", "without_waiting", "inference", "labels")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_WAITING_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    user: str
    session: str
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    without_waiting: bool
    inference: Inference
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, corpus: _Optional[str] = ..., user: _Optional[str] = ..., session: _Optional[str] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., without_waiting: bool = ..., inference: _Optional[_Union[Inference, str]] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class AppendTurnsResponse(_message.Message):
    __slots__ = ("turns",)
    TURNS_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[AppendedTurn]
    def __init__(self, turns: _Optional[_Iterable[_Union[AppendedTurn, _Mapping]]] = ...) -> None: ...

class AppendedTurn(_message.Message):
    __slots__ = ("number", "version", "unchanged")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    number: int
    version: int
    unchanged: bool
    def __init__(self, number: _Optional[int] = ..., version: _Optional[int] = ..., unchanged: bool = ...) -> None: ...

class ChatSettings(_message.Message):
    __slots__ = ("keys", "merging", "value", "time", "history", "notes", "layout")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MERGING_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    merging: Merging
    value: Value
    time: TimeUse
    history: History
    notes: Notes
    layout: Layout
    def __init__(self, keys: _Optional[_Iterable[str]] = ..., merging: _Optional[_Union[Merging, str]] = ..., value: _Optional[_Union[Value, str]] = ..., time: _Optional[_Union[TimeUse, str]] = ..., history: _Optional[_Union[History, str]] = ..., notes: _Optional[_Union[Notes, str]] = ..., layout: _Optional[_Union[Layout, str]] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("corpus", "user", "question", "asked_at", "k", "value", "time", "filter", "history", "inference", "keys", "merging")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MERGING_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    user: str
    question: str
    asked_at: _timestamp_pb2.Timestamp
    k: int
    value: Value
    time: TimeUse
    filter: _query_pb2.Filter
    history: History
    inference: Inference
    keys: _containers.RepeatedScalarFieldContainer[str]
    merging: Merging
    def __init__(self, corpus: _Optional[str] = ..., user: _Optional[str] = ..., question: _Optional[str] = ..., asked_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., k: _Optional[int] = ..., value: _Optional[_Union[Value, str]] = ..., time: _Optional[_Union[TimeUse, str]] = ..., filter: _Optional[_Union[_query_pb2.Filter, _Mapping]] = ..., history: _Optional[_Union[History, str]] = ..., inference: _Optional[_Union[Inference, str]] = ..., keys: _Optional[_Iterable[str]] = ..., merging: _Optional[_Union[Merging, str]] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("items", "until", "shards_missing", "cost")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    SHARDS_MISSING_FIELD_NUMBER: _ClassVar[int]
    COST_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[RecalledItem]
    until: _timestamp_pb2.Timestamp
    shards_missing: _containers.RepeatedScalarFieldContainer[int]
    cost: _query_pb2.Cost
    def __init__(self, items: _Optional[_Iterable[_Union[RecalledItem, _Mapping]]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., shards_missing: _Optional[_Iterable[int]] = ..., cost: _Optional[_Union[_query_pb2.Cost, _Mapping]] = ..., **kwargs) -> None: ...

class RecalledItem(_message.Message):
    __slots__ = ("session", "turns", "found", "score", "superseded", "texts")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    session: str
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    found: _containers.RepeatedScalarFieldContainer[int]
    score: float
    superseded: _containers.RepeatedCompositeFieldContainer[Superseded]
    texts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session: _Optional[str] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., found: _Optional[_Iterable[int]] = ..., score: _Optional[float] = ..., superseded: _Optional[_Iterable[_Union[Superseded, _Mapping]]] = ..., texts: _Optional[_Iterable[str]] = ...) -> None: ...

class Superseded(_message.Message):
    __slots__ = ("older", "newer")
    OLDER_FIELD_NUMBER: _ClassVar[int]
    NEWER_FIELD_NUMBER: _ClassVar[int]
    older: Statement
    newer: Statement
    def __init__(self, older: _Optional[_Union[Statement, _Mapping]] = ..., newer: _Optional[_Union[Statement, _Mapping]] = ...) -> None: ...

class Statement(_message.Message):
    __slots__ = ("session", "number", "text", "time")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    session: str
    number: int
    text: str
    time: _timestamp_pb2.Timestamp
    def __init__(self, session: _Optional[str] = ..., number: _Optional[int] = ..., text: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class AnswerRequest(_message.Message):
    __slots__ = ("corpus", "user", "question", "asked_at", "strategy", "k", "filter", "value", "time", "history", "inference", "keys", "merging", "notes", "layout")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ASKED_AT_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MERGING_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    user: str
    question: str
    asked_at: _timestamp_pb2.Timestamp
    strategy: str
    k: int
    filter: _query_pb2.Filter
    value: Value
    time: TimeUse
    history: History
    inference: Inference
    keys: _containers.RepeatedScalarFieldContainer[str]
    merging: Merging
    notes: Notes
    layout: Layout
    def __init__(self, corpus: _Optional[str] = ..., user: _Optional[str] = ..., question: _Optional[str] = ..., asked_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., strategy: _Optional[str] = ..., k: _Optional[int] = ..., filter: _Optional[_Union[_query_pb2.Filter, _Mapping]] = ..., value: _Optional[_Union[Value, str]] = ..., time: _Optional[_Union[TimeUse, str]] = ..., history: _Optional[_Union[History, str]] = ..., inference: _Optional[_Union[Inference, str]] = ..., keys: _Optional[_Iterable[str]] = ..., merging: _Optional[_Union[Merging, str]] = ..., notes: _Optional[_Union[Notes, str]] = ..., layout: _Optional[_Union[Layout, str]] = ...) -> None: ...

class AnswerResponse(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: _query_pb2.AnswerResponse
    def __init__(self, event: _Optional[_Union[_query_pb2.AnswerResponse, _Mapping]] = ...) -> None: ...

class ListTurnsRequest(_message.Message):
    __slots__ = ("corpus", "user", "session", "filter")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    user: str
    session: str
    filter: _query_pb2.Filter
    def __init__(self, corpus: _Optional[str] = ..., user: _Optional[str] = ..., session: _Optional[str] = ..., filter: _Optional[_Union[_query_pb2.Filter, _Mapping]] = ...) -> None: ...

class ListTurnsResponse(_message.Message):
    __slots__ = ("session", "turn", "key", "labels")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    session: str
    turn: Turn
    key: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session: _Optional[str] = ..., turn: _Optional[_Union[Turn, _Mapping]] = ..., key: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ("corpus", "prefix", "page_size", "page_token")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    prefix: str
    page_size: int
    page_token: str
    def __init__(self, corpus: _Optional[str] = ..., prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListUsersResponse(_message.Message):
    __slots__ = ("users", "next_page_token")
    USERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[ChatUser]
    next_page_token: str
    def __init__(self, users: _Optional[_Iterable[_Union[ChatUser, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ChatUser(_message.Message):
    __slots__ = ("user", "turns", "first_stored_at", "last_stored_at")
    USER_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    FIRST_STORED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_STORED_AT_FIELD_NUMBER: _ClassVar[int]
    user: str
    turns: int
    first_stored_at: _timestamp_pb2.Timestamp
    last_stored_at: _timestamp_pb2.Timestamp
    def __init__(self, user: _Optional[str] = ..., turns: _Optional[int] = ..., first_stored_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last_stored_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("corpus", "user", "page_size", "page_token")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    user: str
    page_size: int
    page_token: str
    def __init__(self, corpus: _Optional[str] = ..., user: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[ChatSession]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[ChatSession, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ChatSession(_message.Message):
    __slots__ = ("session", "turns", "first_stored_at", "last_stored_at")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    FIRST_STORED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_STORED_AT_FIELD_NUMBER: _ClassVar[int]
    session: str
    turns: int
    first_stored_at: _timestamp_pb2.Timestamp
    last_stored_at: _timestamp_pb2.Timestamp
    def __init__(self, session: _Optional[str] = ..., turns: _Optional[int] = ..., first_stored_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last_stored_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ForgetTurnsRequest(_message.Message):
    __slots__ = ("corpus", "user", "session", "numbers", "preview", "filter", "about", "k")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    user: str
    session: str
    numbers: _containers.RepeatedScalarFieldContainer[int]
    preview: bool
    filter: _query_pb2.Filter
    about: str
    k: int
    def __init__(self, corpus: _Optional[str] = ..., user: _Optional[str] = ..., session: _Optional[str] = ..., numbers: _Optional[_Iterable[int]] = ..., preview: bool = ..., filter: _Optional[_Union[_query_pb2.Filter, _Mapping]] = ..., about: _Optional[str] = ..., k: _Optional[int] = ...) -> None: ...

class ForgetTurnsResponse(_message.Message):
    __slots__ = ("turns", "sessions", "chunks", "text_bytes", "verified", "first", "scan", "snapshots")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    turns: int
    sessions: int
    chunks: int
    text_bytes: int
    verified: bool
    first: _containers.RepeatedCompositeFieldContainer[ForgottenTurn]
    scan: _ingest_pb2.ErasureScan
    snapshots: _containers.RepeatedCompositeFieldContainer[_ingest_pb2.HoldingSnapshot]
    def __init__(self, turns: _Optional[int] = ..., sessions: _Optional[int] = ..., chunks: _Optional[int] = ..., text_bytes: _Optional[int] = ..., verified: bool = ..., first: _Optional[_Iterable[_Union[ForgottenTurn, _Mapping]]] = ..., scan: _Optional[_Union[_ingest_pb2.ErasureScan, _Mapping]] = ..., snapshots: _Optional[_Iterable[_Union[_ingest_pb2.HoldingSnapshot, _Mapping]]] = ...) -> None: ...

class ForgottenTurn(_message.Message):
    __slots__ = ("session", "number", "text")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    session: str
    number: int
    text: str
    def __init__(self, session: _Optional[str] = ..., number: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...
