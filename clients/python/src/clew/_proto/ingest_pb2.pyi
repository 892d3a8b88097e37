from clew._proto import attribute_pb2 as _attribute_pb2
from clew._proto import query_pb2 as _query_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Novelty(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOVELTY_UNSPECIFIED: _ClassVar[Novelty]
    NOVELTY_NEW: _ClassVar[Novelty]
    NOVELTY_REPLACED: _ClassVar[Novelty]
    NOVELTY_UNCHANGED: _ClassVar[Novelty]

class DocumentStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DOCUMENT_STAGE_UNSPECIFIED: _ClassVar[DocumentStage]
    DOCUMENT_STAGE_PENDING: _ClassVar[DocumentStage]
    DOCUMENT_STAGE_INDEXED: _ClassVar[DocumentStage]
    DOCUMENT_STAGE_FAILED: _ClassVar[DocumentStage]

class ChunkKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHUNK_KIND_UNSPECIFIED: _ClassVar[ChunkKind]
    CHUNK_KIND_PASSAGE: _ClassVar[ChunkKind]
    CHUNK_KIND_STATEMENT: _ClassVar[ChunkKind]
    CHUNK_KIND_KEY: _ClassVar[ChunkKind]

class EstimateBasis(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ESTIMATE_BASIS_UNSPECIFIED: _ClassVar[EstimateBasis]
    ESTIMATE_BASIS_REQUEST: _ClassVar[EstimateBasis]
    ESTIMATE_BASIS_CORPUS: _ClassVar[EstimateBasis]
    ESTIMATE_BASIS_ENGLISH: _ClassVar[EstimateBasis]

class PartStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PART_STAGE_UNSPECIFIED: _ClassVar[PartStage]
    PART_STAGE_LISTING: _ClassVar[PartStage]
    PART_STAGE_SENDING: _ClassVar[PartStage]
    PART_STAGE_ACCEPTED: _ClassVar[PartStage]
    PART_STAGE_FAILED: _ClassVar[PartStage]

class RunStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STAGE_UNSPECIFIED: _ClassVar[RunStage]
    RUN_STAGE_RUNNING: _ClassVar[RunStage]
    RUN_STAGE_ACCEPTED: _ClassVar[RunStage]
    RUN_STAGE_DONE: _ClassVar[RunStage]
    RUN_STAGE_FAILED: _ClassVar[RunStage]
NOVELTY_UNSPECIFIED: Novelty
NOVELTY_NEW: Novelty
NOVELTY_REPLACED: Novelty
NOVELTY_UNCHANGED: Novelty
DOCUMENT_STAGE_UNSPECIFIED: DocumentStage
DOCUMENT_STAGE_PENDING: DocumentStage
DOCUMENT_STAGE_INDEXED: DocumentStage
DOCUMENT_STAGE_FAILED: DocumentStage
CHUNK_KIND_UNSPECIFIED: ChunkKind
CHUNK_KIND_PASSAGE: ChunkKind
CHUNK_KIND_STATEMENT: ChunkKind
CHUNK_KIND_KEY: ChunkKind
ESTIMATE_BASIS_UNSPECIFIED: EstimateBasis
ESTIMATE_BASIS_REQUEST: EstimateBasis
ESTIMATE_BASIS_CORPUS: EstimateBasis
ESTIMATE_BASIS_ENGLISH: EstimateBasis
PART_STAGE_UNSPECIFIED: PartStage
PART_STAGE_LISTING: PartStage
PART_STAGE_SENDING: PartStage
PART_STAGE_ACCEPTED: PartStage
PART_STAGE_FAILED: PartStage
RUN_STAGE_UNSPECIFIED: RunStage
RUN_STAGE_RUNNING: RunStage
RUN_STAGE_ACCEPTED: RunStage
RUN_STAGE_DONE: RunStage
RUN_STAGE_FAILED: RunStage

class Document(_message.Message):
    __slots__ = ("id", "text", "media_type", "title", "attributes", "event_time", "labels", "source_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    text: bytes
    media_type: str
    title: str
    attributes: _containers.RepeatedCompositeFieldContainer[_attribute_pb2.Attribute]
    event_time: _timestamp_pb2.Timestamp
    labels: _containers.RepeatedScalarFieldContainer[str]
    source_version: int
    def __init__(self, id: _Optional[str] = ..., text: _Optional[bytes] = ..., media_type: _Optional[str] = ..., title: _Optional[str] = ..., attributes: _Optional[_Iterable[_Union[_attribute_pb2.Attribute, _Mapping]]] = ..., event_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., labels: _Optional[_Iterable[str]] = ..., source_version: _Optional[int] = ...) -> None: ...

class IngestRequest(_message.Message):
    __slots__ = ("corpus", "document", "text_part", "addition", "continues", "text_bytes")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    TEXT_PART_FIELD_NUMBER: _ClassVar[int]
    ADDITION_FIELD_NUMBER: _ClassVar[int]
    CONTINUES_FIELD_NUMBER: _ClassVar[int]
    TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    document: Document
    text_part: bytes
    addition: Document
    continues: bool
    text_bytes: int
    def __init__(self, corpus: _Optional[str] = ..., document: _Optional[_Union[Document, _Mapping]] = ..., text_part: _Optional[bytes] = ..., addition: _Optional[_Union[Document, _Mapping]] = ..., continues: bool = ..., text_bytes: _Optional[int] = ...) -> None: ...

class IngestResponse(_message.Message):
    __slots__ = ("document_id", "accepted", "refused")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    accepted: Accepted
    refused: Refused
    def __init__(self, document_id: _Optional[str] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ...) -> None: ...

class IngestDocumentsRequest(_message.Message):
    __slots__ = ("corpus", "documents", "only_additions")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    ONLY_ADDITIONS_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    documents: _containers.RepeatedCompositeFieldContainer[Document]
    only_additions: bool
    def __init__(self, corpus: _Optional[str] = ..., documents: _Optional[_Iterable[_Union[Document, _Mapping]]] = ..., only_additions: bool = ...) -> None: ...

class IngestDocumentsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[IngestResponse]
    def __init__(self, results: _Optional[_Iterable[_Union[IngestResponse, _Mapping]]] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ("version", "unchanged", "novelty")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    NOVELTY_FIELD_NUMBER: _ClassVar[int]
    version: int
    unchanged: bool
    novelty: Novelty
    def __init__(self, version: _Optional[int] = ..., unchanged: bool = ..., novelty: _Optional[_Union[Novelty, str]] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reason", "violations", "message", "retryable")
    REASON_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    violations: _containers.RepeatedCompositeFieldContainer[FieldViolation]
    message: str
    retryable: bool
    def __init__(self, reason: _Optional[str] = ..., violations: _Optional[_Iterable[_Union[FieldViolation, _Mapping]]] = ..., message: _Optional[str] = ..., retryable: bool = ...) -> None: ...

class FieldViolation(_message.Message):
    __slots__ = ("field", "description")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    field: str
    description: str
    def __init__(self, field: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class DocumentState(_message.Message):
    __slots__ = ("id", "version", "live_version", "stage", "attempts", "last_error", "waits_for", "text_bytes", "chunks", "accepted_at", "nodes", "labels", "title", "attributes", "source_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    version: int
    live_version: int
    stage: DocumentStage
    attempts: int
    last_error: str
    waits_for: str
    text_bytes: int
    chunks: int
    accepted_at: _timestamp_pb2.Timestamp
    nodes: int
    labels: _containers.RepeatedScalarFieldContainer[str]
    title: str
    attributes: _containers.RepeatedCompositeFieldContainer[_attribute_pb2.Attribute]
    source_version: int
    def __init__(self, id: _Optional[str] = ..., version: _Optional[int] = ..., live_version: _Optional[int] = ..., stage: _Optional[_Union[DocumentStage, str]] = ..., attempts: _Optional[int] = ..., last_error: _Optional[str] = ..., waits_for: _Optional[str] = ..., text_bytes: _Optional[int] = ..., chunks: _Optional[int] = ..., accepted_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., nodes: _Optional[int] = ..., labels: _Optional[_Iterable[str]] = ..., title: _Optional[str] = ..., attributes: _Optional[_Iterable[_Union[_attribute_pb2.Attribute, _Mapping]]] = ..., source_version: _Optional[int] = ...) -> None: ...

class GetDocumentRequest(_message.Message):
    __slots__ = ("corpus", "document_id", "text_offset")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    document_id: str
    text_offset: int
    def __init__(self, corpus: _Optional[str] = ..., document_id: _Optional[str] = ..., text_offset: _Optional[int] = ...) -> None: ...

class GetDocumentResponse(_message.Message):
    __slots__ = ("document", "state")
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    document: Document
    state: DocumentState
    def __init__(self, document: _Optional[_Union[Document, _Mapping]] = ..., state: _Optional[_Union[DocumentState, _Mapping]] = ...) -> None: ...

class ListDocumentsRequest(_message.Message):
    __slots__ = ("corpus", "stage", "page_size", "page_token", "filter", "id_prefix", "with_attributes")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    WITH_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    stage: DocumentStage
    page_size: int
    page_token: str
    filter: _query_pb2.Filter
    id_prefix: str
    with_attributes: bool
    def __init__(self, corpus: _Optional[str] = ..., stage: _Optional[_Union[DocumentStage, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[_Union[_query_pb2.Filter, _Mapping]] = ..., id_prefix: _Optional[str] = ..., with_attributes: bool = ...) -> None: ...

class ListDocumentsResponse(_message.Message):
    __slots__ = ("documents", "next_page_token")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedCompositeFieldContainer[DocumentState]
    next_page_token: str
    def __init__(self, documents: _Optional[_Iterable[_Union[DocumentState, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListChunksRequest(_message.Message):
    __slots__ = ("corpus", "document_id", "with_texts", "page_size", "page_token")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_TEXTS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    document_id: str
    with_texts: bool
    page_size: int
    page_token: str
    def __init__(self, corpus: _Optional[str] = ..., document_id: _Optional[str] = ..., with_texts: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListChunksResponse(_message.Message):
    __slots__ = ("version", "chunk_count", "chunks", "next_page_token")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHUNK_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    version: int
    chunk_count: int
    chunks: _containers.RepeatedCompositeFieldContainer[DocumentChunk]
    next_page_token: str
    def __init__(self, version: _Optional[int] = ..., chunk_count: _Optional[int] = ..., chunks: _Optional[_Iterable[_Union[DocumentChunk, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DocumentChunk(_message.Message):
    __slots__ = ("chunk_id", "ordinal", "kind", "start", "end", "tokens", "text", "key_text")
    CHUNK_ID_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KEY_TEXT_FIELD_NUMBER: _ClassVar[int]
    chunk_id: str
    ordinal: int
    kind: ChunkKind
    start: int
    end: int
    tokens: int
    text: str
    key_text: str
    def __init__(self, chunk_id: _Optional[str] = ..., ordinal: _Optional[int] = ..., kind: _Optional[_Union[ChunkKind, str]] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., tokens: _Optional[int] = ..., text: _Optional[str] = ..., key_text: _Optional[str] = ...) -> None: ...

class WatchIngestionRequest(_message.Message):
    __slots__ = ("corpus", "until_idle")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_IDLE_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    until_idle: bool
    def __init__(self, corpus: _Optional[str] = ..., until_idle: bool = ...) -> None: ...

class WatchIngestionResponse(_message.Message):
    __slots__ = ("documents", "indexed_documents", "pending_documents", "failed_documents", "chunks", "tokens")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    INDEXED_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    PENDING_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    FAILED_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    documents: int
    indexed_documents: int
    pending_documents: int
    failed_documents: int
    chunks: int
    tokens: int
    def __init__(self, documents: _Optional[int] = ..., indexed_documents: _Optional[int] = ..., pending_documents: _Optional[int] = ..., failed_documents: _Optional[int] = ..., chunks: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class ForgetDocumentsRequest(_message.Message):
    __slots__ = ("corpus", "document_ids", "filter", "id_prefix", "preview")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    document_ids: _containers.RepeatedScalarFieldContainer[str]
    filter: _query_pb2.Filter
    id_prefix: str
    preview: bool
    def __init__(self, corpus: _Optional[str] = ..., document_ids: _Optional[_Iterable[str]] = ..., filter: _Optional[_Union[_query_pb2.Filter, _Mapping]] = ..., id_prefix: _Optional[str] = ..., preview: bool = ...) -> None: ...

class ForgetDocumentsResponse(_message.Message):
    __slots__ = ("documents", "verified", "forgotten_at", "scan", "snapshots", "selected")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_AT_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedCompositeFieldContainer[ForgottenDocument]
    verified: bool
    forgotten_at: _timestamp_pb2.Timestamp
    scan: ErasureScan
    snapshots: _containers.RepeatedCompositeFieldContainer[HoldingSnapshot]
    selected: int
    def __init__(self, documents: _Optional[_Iterable[_Union[ForgottenDocument, _Mapping]]] = ..., verified: bool = ..., forgotten_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., scan: _Optional[_Union[ErasureScan, _Mapping]] = ..., snapshots: _Optional[_Iterable[_Union[HoldingSnapshot, _Mapping]]] = ..., selected: _Optional[int] = ...) -> None: ...

class ErasureScan(_message.Message):
    __slots__ = ("tables", "files", "texts", "searched_files", "searched_bytes", "unsearched_files", "leftovers", "leftover_count")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_FILES_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNSEARCHED_FILES_FIELD_NUMBER: _ClassVar[int]
    LEFTOVERS_FIELD_NUMBER: _ClassVar[int]
    LEFTOVER_COUNT_FIELD_NUMBER: _ClassVar[int]
    tables: int
    files: int
    texts: int
    searched_files: int
    searched_bytes: int
    unsearched_files: int
    leftovers: _containers.RepeatedCompositeFieldContainer[Leftover]
    leftover_count: int
    def __init__(self, tables: _Optional[int] = ..., files: _Optional[int] = ..., texts: _Optional[int] = ..., searched_files: _Optional[int] = ..., searched_bytes: _Optional[int] = ..., unsearched_files: _Optional[int] = ..., leftovers: _Optional[_Iterable[_Union[Leftover, _Mapping]]] = ..., leftover_count: _Optional[int] = ...) -> None: ...

class Leftover(_message.Message):
    __slots__ = ("place", "problem")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    place: str
    problem: str
    def __init__(self, place: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class HoldingSnapshot(_message.Message):
    __slots__ = ("snapshot", "taken_at", "documents", "problem")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    taken_at: _timestamp_pb2.Timestamp
    documents: int
    problem: str
    def __init__(self, snapshot: _Optional[str] = ..., taken_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., documents: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class ForgottenDocument(_message.Message):
    __slots__ = ("document_id", "found", "versions", "chunks", "failures", "text_bytes", "nodes", "memories")
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    document_id: str
    found: bool
    versions: int
    chunks: int
    failures: int
    text_bytes: int
    nodes: int
    memories: int
    def __init__(self, document_id: _Optional[str] = ..., found: bool = ..., versions: _Optional[int] = ..., chunks: _Optional[int] = ..., failures: _Optional[int] = ..., text_bytes: _Optional[int] = ..., nodes: _Optional[int] = ..., memories: _Optional[int] = ...) -> None: ...

class EstimateIngestionRequest(_message.Message):
    __slots__ = ("corpus", "documents", "text_bytes", "samples", "sample_documents", "new_if_missing")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    NEW_IF_MISSING_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    documents: int
    text_bytes: int
    samples: _containers.RepeatedScalarFieldContainer[bytes]
    sample_documents: _containers.RepeatedCompositeFieldContainer[Document]
    new_if_missing: bool
    def __init__(self, corpus: _Optional[str] = ..., documents: _Optional[int] = ..., text_bytes: _Optional[int] = ..., samples: _Optional[_Iterable[bytes]] = ..., sample_documents: _Optional[_Iterable[_Union[Document, _Mapping]]] = ..., new_if_missing: bool = ...) -> None: ...

class EstimateIngestionResponse(_message.Message):
    __slots__ = ("tokens", "chunks", "model_calls", "stored_bytes", "prompt_tokens", "completion_tokens", "nodes", "entities", "relations", "memories", "memory_tokens", "document_bytes", "chunk_bytes", "tree_bytes", "index_bytes", "memory_bytes", "basis", "sampled_documents", "sampled_bytes", "summary_tokens")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    TREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    INDEX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: int
    chunks: int
    model_calls: int
    stored_bytes: int
    prompt_tokens: int
    completion_tokens: int
    nodes: int
    entities: int
    relations: int
    memories: int
    memory_tokens: int
    document_bytes: int
    chunk_bytes: int
    tree_bytes: int
    index_bytes: int
    memory_bytes: int
    basis: EstimateBasis
    sampled_documents: int
    sampled_bytes: int
    summary_tokens: int
    def __init__(self, tokens: _Optional[int] = ..., chunks: _Optional[int] = ..., model_calls: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., nodes: _Optional[int] = ..., entities: _Optional[int] = ..., relations: _Optional[int] = ..., memories: _Optional[int] = ..., memory_tokens: _Optional[int] = ..., document_bytes: _Optional[int] = ..., chunk_bytes: _Optional[int] = ..., tree_bytes: _Optional[int] = ..., index_bytes: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., basis: _Optional[_Union[EstimateBasis, str]] = ..., sampled_documents: _Optional[int] = ..., sampled_bytes: _Optional[int] = ..., summary_tokens: _Optional[int] = ...) -> None: ...

class RunCounts(_message.Message):
    __slots__ = ("listed", "sent", "accepted", "unchanged", "refused", "unreadable", "forgotten")
    LISTED_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    listed: int
    sent: int
    accepted: int
    unchanged: int
    refused: int
    unreadable: int
    forgotten: int
    def __init__(self, listed: _Optional[int] = ..., sent: _Optional[int] = ..., accepted: _Optional[int] = ..., unchanged: _Optional[int] = ..., refused: _Optional[int] = ..., unreadable: _Optional[int] = ..., forgotten: _Optional[int] = ...) -> None: ...

class RunPart(_message.Message):
    __slots__ = ("part", "attempt", "stage", "listed_all", "counts", "problem", "attempts", "started_at", "updated_at")
    PART_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    LISTED_ALL_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    part: int
    attempt: int
    stage: PartStage
    listed_all: bool
    counts: RunCounts
    problem: str
    attempts: int
    started_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    def __init__(self, part: _Optional[int] = ..., attempt: _Optional[int] = ..., stage: _Optional[_Union[PartStage, str]] = ..., listed_all: bool = ..., counts: _Optional[_Union[RunCounts, _Mapping]] = ..., problem: _Optional[str] = ..., attempts: _Optional[int] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("name", "parts", "stage", "ended_parts", "failed_parts", "listed_all", "counts", "started_at", "ended_at", "reported", "fault")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ENDED_PARTS_FIELD_NUMBER: _ClassVar[int]
    FAILED_PARTS_FIELD_NUMBER: _ClassVar[int]
    LISTED_ALL_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    name: str
    parts: int
    stage: RunStage
    ended_parts: int
    failed_parts: int
    listed_all: bool
    counts: RunCounts
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    reported: _containers.RepeatedCompositeFieldContainer[RunPart]
    fault: RunFault
    def __init__(self, name: _Optional[str] = ..., parts: _Optional[int] = ..., stage: _Optional[_Union[RunStage, str]] = ..., ended_parts: _Optional[int] = ..., failed_parts: _Optional[int] = ..., listed_all: bool = ..., counts: _Optional[_Union[RunCounts, _Mapping]] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., reported: _Optional[_Iterable[_Union[RunPart, _Mapping]]] = ..., fault: _Optional[_Union[RunFault, _Mapping]] = ...) -> None: ...

class RunFault(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ReportRunRequest(_message.Message):
    __slots__ = ("corpus", "run", "parts", "part")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    run: str
    parts: int
    part: RunPart
    def __init__(self, corpus: _Optional[str] = ..., run: _Optional[str] = ..., parts: _Optional[int] = ..., part: _Optional[_Union[RunPart, _Mapping]] = ...) -> None: ...

class ReportRunResponse(_message.Message):
    __slots__ = ("part",)
    PART_FIELD_NUMBER: _ClassVar[int]
    part: RunPart
    def __init__(self, part: _Optional[_Union[RunPart, _Mapping]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("corpus", "run")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    run: str
    def __init__(self, corpus: _Optional[str] = ..., run: _Optional[str] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run", "pending_documents")
    RUN_FIELD_NUMBER: _ClassVar[int]
    PENDING_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    run: Run
    pending_documents: int
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., pending_documents: _Optional[int] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("corpus", "page_size", "page_token")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    page_size: int
    page_token: str
    def __init__(self, corpus: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteRunRequest(_message.Message):
    __slots__ = ("corpus", "run")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    run: str
    def __init__(self, corpus: _Optional[str] = ..., run: _Optional[str] = ...) -> None: ...

class DeleteRunResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
