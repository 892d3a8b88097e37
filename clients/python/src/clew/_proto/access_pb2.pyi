from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_UNSPECIFIED: _ClassVar[Scope]
    SCOPE_READ: _ClassVar[Scope]
    SCOPE_WRITE: _ClassVar[Scope]
    SCOPE_ADMIN: _ClassVar[Scope]

class Metered(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    METERED_UNSPECIFIED: _ClassVar[Metered]
    METERED_REQUESTS: _ClassVar[Metered]
    METERED_BYTES: _ClassVar[Metered]
    METERED_TOKENS: _ClassVar[Metered]
SCOPE_UNSPECIFIED: Scope
SCOPE_READ: Scope
SCOPE_WRITE: Scope
SCOPE_ADMIN: Scope
METERED_UNSPECIFIED: Metered
METERED_REQUESTS: Metered
METERED_BYTES: Metered
METERED_TOKENS: Metered

class WhoAmIRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WhoAmIResponse(_message.Message):
    __slots__ = ("has_key", "key", "tenant", "scopes", "labels", "holds_all_labels", "expires_at", "quotas")
    HAS_KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_ALL_LABELS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    has_key: bool
    key: str
    tenant: str
    scopes: _containers.RepeatedScalarFieldContainer[Scope]
    labels: _containers.RepeatedScalarFieldContainer[str]
    holds_all_labels: bool
    expires_at: _timestamp_pb2.Timestamp
    quotas: _containers.RepeatedCompositeFieldContainer[Quota]
    def __init__(self, has_key: bool = ..., key: _Optional[str] = ..., tenant: _Optional[str] = ..., scopes: _Optional[_Iterable[_Union[Scope, str]]] = ..., labels: _Optional[_Iterable[str]] = ..., holds_all_labels: bool = ..., expires_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., quotas: _Optional[_Iterable[_Union[Quota, _Mapping]]] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("metered", "per_second", "burst", "left")
    METERED_FIELD_NUMBER: _ClassVar[int]
    PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    metered: Metered
    per_second: float
    burst: float
    left: float
    def __init__(self, metered: _Optional[_Union[Metered, str]] = ..., per_second: _Optional[float] = ..., burst: _Optional[float] = ..., left: _Optional[float] = ...) -> None: ...
