from clew._proto import chat_pb2 as _chat_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReembeddingPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REEMBEDDING_PHASE_UNSPECIFIED: _ClassVar[ReembeddingPhase]
    REEMBEDDING_PHASE_FILLING: _ClassVar[ReembeddingPhase]
    REEMBEDDING_PHASE_CUT_OVER: _ClassVar[ReembeddingPhase]
    REEMBEDDING_PHASE_CONFIRMED: _ClassVar[ReembeddingPhase]
    REEMBEDDING_PHASE_ABANDONED: _ClassVar[ReembeddingPhase]

class ReembedStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REEMBED_STEP_UNSPECIFIED: _ClassVar[ReembedStep]
    REEMBED_STEP_START: _ClassVar[ReembedStep]
    REEMBED_STEP_CUT_OVER: _ClassVar[ReembedStep]
    REEMBED_STEP_BACK: _ClassVar[ReembedStep]
    REEMBED_STEP_CONFIRM: _ClassVar[ReembedStep]
    REEMBED_STEP_ABANDON: _ClassVar[ReembedStep]

class Invariant(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INVARIANT_UNSPECIFIED: _ClassVar[Invariant]
    INVARIANT_STORED_ONCE: _ClassVar[Invariant]
    INVARIANT_TEXT_WHOLE: _ClassVar[Invariant]
    INVARIANT_CHUNKS_COVER: _ClassVar[Invariant]
    INVARIANT_CHUNK_TRUE: _ClassVar[Invariant]
    INVARIANT_STATE_TRUE: _ClassVar[Invariant]
    INVARIANT_TREE_TRUE: _ClassVar[Invariant]
REEMBEDDING_PHASE_UNSPECIFIED: ReembeddingPhase
REEMBEDDING_PHASE_FILLING: ReembeddingPhase
REEMBEDDING_PHASE_CUT_OVER: ReembeddingPhase
REEMBEDDING_PHASE_CONFIRMED: ReembeddingPhase
REEMBEDDING_PHASE_ABANDONED: ReembeddingPhase
REEMBED_STEP_UNSPECIFIED: ReembedStep
REEMBED_STEP_START: ReembedStep
REEMBED_STEP_CUT_OVER: ReembedStep
REEMBED_STEP_BACK: ReembedStep
REEMBED_STEP_CONFIRM: ReembedStep
REEMBED_STEP_ABANDON: ReembedStep
INVARIANT_UNSPECIFIED: Invariant
INVARIANT_STORED_ONCE: Invariant
INVARIANT_TEXT_WHOLE: Invariant
INVARIANT_CHUNKS_COVER: Invariant
INVARIANT_CHUNK_TRUE: Invariant
INVARIANT_STATE_TRUE: Invariant
INVARIANT_TREE_TRUE: Invariant

class Chunking(_message.Message):
    __slots__ = ("tokens", "sentences", "sections")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    SECTIONS_FIELD_NUMBER: _ClassVar[int]
    tokens: TokenChunking
    sentences: SentenceChunking
    sections: SectionChunking
    def __init__(self, tokens: _Optional[_Union[TokenChunking, _Mapping]] = ..., sentences: _Optional[_Union[SentenceChunking, _Mapping]] = ..., sections: _Optional[_Union[SectionChunking, _Mapping]] = ...) -> None: ...

class TokenChunking(_message.Message):
    __slots__ = ("max_tokens", "overlap_tokens")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    overlap_tokens: int
    def __init__(self, max_tokens: _Optional[int] = ..., overlap_tokens: _Optional[int] = ...) -> None: ...

class SentenceChunking(_message.Message):
    __slots__ = ("max_tokens",)
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    def __init__(self, max_tokens: _Optional[int] = ...) -> None: ...

class SectionChunking(_message.Message):
    __slots__ = ("max_tokens",)
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    def __init__(self, max_tokens: _Optional[int] = ...) -> None: ...

class Structure(_message.Message):
    __slots__ = ("segment_tokens", "max_children", "summary_bytes")
    SEGMENT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_BYTES_FIELD_NUMBER: _ClassVar[int]
    segment_tokens: int
    max_children: int
    summary_bytes: int
    def __init__(self, segment_tokens: _Optional[int] = ..., max_children: _Optional[int] = ..., summary_bytes: _Optional[int] = ...) -> None: ...

class EncoderIdentity(_message.Message):
    __slots__ = ("model", "revision", "dimension", "max_tokens")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    model: str
    revision: str
    dimension: int
    max_tokens: int
    def __init__(self, model: _Optional[str] = ..., revision: _Optional[str] = ..., dimension: _Optional[int] = ..., max_tokens: _Optional[int] = ...) -> None: ...

class Corpus(_message.Message):
    __slots__ = ("name", "shards", "chunking", "encoder", "created_at", "counts", "structure", "retention_days", "memory", "reembedding", "shards_missing", "fault", "chat")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    CHUNKING_FIELD_NUMBER: _ClassVar[int]
    ENCODER_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_FIELD_NUMBER: _ClassVar[int]
    RETENTION_DAYS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    REEMBEDDING_FIELD_NUMBER: _ClassVar[int]
    SHARDS_MISSING_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    name: str
    shards: int
    chunking: Chunking
    encoder: EncoderIdentity
    created_at: _timestamp_pb2.Timestamp
    counts: CorpusCounts
    structure: Structure
    retention_days: int
    memory: CompressedMemory
    reembedding: Reembedding
    shards_missing: _containers.RepeatedScalarFieldContainer[int]
    fault: CorpusFault
    chat: _chat_pb2.ChatSettings
    def __init__(self, name: _Optional[str] = ..., shards: _Optional[int] = ..., chunking: _Optional[_Union[Chunking, _Mapping]] = ..., encoder: _Optional[_Union[EncoderIdentity, _Mapping]] = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., counts: _Optional[_Union[CorpusCounts, _Mapping]] = ..., structure: _Optional[_Union[Structure, _Mapping]] = ..., retention_days: _Optional[int] = ..., memory: _Optional[_Union[CompressedMemory, _Mapping]] = ..., reembedding: _Optional[_Union[Reembedding, _Mapping]] = ..., shards_missing: _Optional[_Iterable[int]] = ..., fault: _Optional[_Union[CorpusFault, _Mapping]] = ..., chat: _Optional[_Union[_chat_pb2.ChatSettings, _Mapping]] = ...) -> None: ...

class CorpusFault(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Reembedding(_message.Message):
    __slots__ = ("first", "other", "phase", "number")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    first: EncoderIdentity
    other: EncoderIdentity
    phase: ReembeddingPhase
    number: int
    def __init__(self, first: _Optional[_Union[EncoderIdentity, _Mapping]] = ..., other: _Optional[_Union[EncoderIdentity, _Mapping]] = ..., phase: _Optional[_Union[ReembeddingPhase, str]] = ..., number: _Optional[int] = ...) -> None: ...

class CompressedMemory(_message.Message):
    __slots__ = ("ratio", "segment_tokens")
    RATIO_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ratio: int
    segment_tokens: int
    def __init__(self, ratio: _Optional[int] = ..., segment_tokens: _Optional[int] = ...) -> None: ...

class CorpusCounts(_message.Message):
    __slots__ = ("documents", "indexed_documents", "pending_documents", "failed_documents", "chunks", "tokens", "text_bytes", "structured_documents", "nodes", "unstructured_documents")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    INDEXED_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    PENDING_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    FAILED_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEXT_BYTES_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    UNSTRUCTURED_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    documents: int
    indexed_documents: int
    pending_documents: int
    failed_documents: int
    chunks: int
    tokens: int
    text_bytes: int
    structured_documents: int
    nodes: int
    unstructured_documents: int
    def __init__(self, documents: _Optional[int] = ..., indexed_documents: _Optional[int] = ..., pending_documents: _Optional[int] = ..., failed_documents: _Optional[int] = ..., chunks: _Optional[int] = ..., tokens: _Optional[int] = ..., text_bytes: _Optional[int] = ..., structured_documents: _Optional[int] = ..., nodes: _Optional[int] = ..., unstructured_documents: _Optional[int] = ...) -> None: ...

class CreateCorpusRequest(_message.Message):
    __slots__ = ("name", "shards", "chunking", "structure", "without_structure", "retention_days", "memory", "chat")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    CHUNKING_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_STRUCTURE_FIELD_NUMBER: _ClassVar[int]
    RETENTION_DAYS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    name: str
    shards: int
    chunking: Chunking
    structure: Structure
    without_structure: bool
    retention_days: int
    memory: CompressedMemory
    chat: _chat_pb2.ChatSettings
    def __init__(self, name: _Optional[str] = ..., shards: _Optional[int] = ..., chunking: _Optional[_Union[Chunking, _Mapping]] = ..., structure: _Optional[_Union[Structure, _Mapping]] = ..., without_structure: bool = ..., retention_days: _Optional[int] = ..., memory: _Optional[_Union[CompressedMemory, _Mapping]] = ..., chat: _Optional[_Union[_chat_pb2.ChatSettings, _Mapping]] = ...) -> None: ...

class CreateCorpusResponse(_message.Message):
    __slots__ = ("corpus",)
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    corpus: Corpus
    def __init__(self, corpus: _Optional[_Union[Corpus, _Mapping]] = ...) -> None: ...

class GetCorpusRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetCorpusResponse(_message.Message):
    __slots__ = ("corpus",)
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    corpus: Corpus
    def __init__(self, corpus: _Optional[_Union[Corpus, _Mapping]] = ...) -> None: ...

class ListCorporaRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCorporaResponse(_message.Message):
    __slots__ = ("corpora", "next_page_token")
    CORPORA_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    corpora: _containers.RepeatedCompositeFieldContainer[Corpus]
    next_page_token: str
    def __init__(self, corpora: _Optional[_Iterable[_Union[Corpus, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteCorpusRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteCorpusResponse(_message.Message):
    __slots__ = ("documents", "snapshots")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    documents: int
    snapshots: int
    def __init__(self, documents: _Optional[int] = ..., snapshots: _Optional[int] = ...) -> None: ...

class CheckCorpusRequest(_message.Message):
    __slots__ = ("name", "page_size", "page_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    page_size: int
    page_token: str
    def __init__(self, name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class CheckCorpusResponse(_message.Message):
    __slots__ = ("documents", "chunks", "breaches", "next_page_token")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    BREACHES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    documents: int
    chunks: int
    breaches: _containers.RepeatedCompositeFieldContainer[Breach]
    next_page_token: str
    def __init__(self, documents: _Optional[int] = ..., chunks: _Optional[int] = ..., breaches: _Optional[_Iterable[_Union[Breach, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ExportedRows(_message.Message):
    __slots__ = ("table", "arrow")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    table: str
    arrow: bytes
    def __init__(self, table: _Optional[str] = ..., arrow: _Optional[bytes] = ...) -> None: ...

class ExportCorpusRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ExportCorpusResponse(_message.Message):
    __slots__ = ("rows", "more", "documents")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    rows: ExportedRows
    more: bytes
    documents: int
    def __init__(self, rows: _Optional[_Union[ExportedRows, _Mapping]] = ..., more: _Optional[bytes] = ..., documents: _Optional[int] = ...) -> None: ...

class CopyProgress(_message.Message):
    __slots__ = ("files", "of_files", "bytes", "of_bytes")
    FILES_FIELD_NUMBER: _ClassVar[int]
    OF_FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    OF_BYTES_FIELD_NUMBER: _ClassVar[int]
    files: int
    of_files: int
    bytes: int
    of_bytes: int
    def __init__(self, files: _Optional[int] = ..., of_files: _Optional[int] = ..., bytes: _Optional[int] = ..., of_bytes: _Optional[int] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("corpus", "name", "taken_at", "documents", "files", "bytes")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    corpus: str
    name: str
    taken_at: _timestamp_pb2.Timestamp
    documents: int
    files: int
    bytes: int
    def __init__(self, corpus: _Optional[str] = ..., name: _Optional[str] = ..., taken_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., documents: _Optional[int] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SnapshotCorpusRequest(_message.Message):
    __slots__ = ("name", "snapshot")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    name: str
    snapshot: str
    def __init__(self, name: _Optional[str] = ..., snapshot: _Optional[str] = ...) -> None: ...

class SnapshotCorpusResponse(_message.Message):
    __slots__ = ("progress", "snapshot")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    progress: CopyProgress
    snapshot: Snapshot
    def __init__(self, progress: _Optional[_Union[CopyProgress, _Mapping]] = ..., snapshot: _Optional[_Union[Snapshot, _Mapping]] = ...) -> None: ...

class ListSnapshotsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots",)
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    def __init__(self, snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ...) -> None: ...

class DeleteSnapshotsRequest(_message.Message):
    __slots__ = ("name", "snapshots", "retention", "dry_run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    snapshots: _containers.RepeatedScalarFieldContainer[str]
    retention: SnapshotRetention
    dry_run: bool
    def __init__(self, name: _Optional[str] = ..., snapshots: _Optional[_Iterable[str]] = ..., retention: _Optional[_Union[SnapshotRetention, _Mapping]] = ..., dry_run: bool = ...) -> None: ...

class SnapshotRetention(_message.Message):
    __slots__ = ("older_than", "keep")
    OLDER_THAN_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    older_than: _duration_pb2.Duration
    keep: int
    def __init__(self, older_than: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., keep: _Optional[int] = ...) -> None: ...

class DeleteSnapshotsResponse(_message.Message):
    __slots__ = ("snapshots",)
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[SnapshotDeletion]
    def __init__(self, snapshots: _Optional[_Iterable[_Union[SnapshotDeletion, _Mapping]]] = ...) -> None: ...

class SnapshotDeletion(_message.Message):
    __slots__ = ("snapshot", "description", "files", "refusal")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    snapshot: str
    description: Snapshot
    files: int
    refusal: SnapshotRefusal
    def __init__(self, snapshot: _Optional[str] = ..., description: _Optional[_Union[Snapshot, _Mapping]] = ..., files: _Optional[int] = ..., refusal: _Optional[_Union[SnapshotRefusal, _Mapping]] = ...) -> None: ...

class SnapshotRefusal(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class RestoreCorpusRequest(_message.Message):
    __slots__ = ("name", "snapshot", "leave_out")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    LEAVE_OUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    snapshot: str
    leave_out: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., snapshot: _Optional[str] = ..., leave_out: _Optional[_Iterable[str]] = ...) -> None: ...

class RestoreCorpusResponse(_message.Message):
    __slots__ = ("progress", "restored")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    progress: CopyProgress
    restored: RestoredCorpus
    def __init__(self, progress: _Optional[_Union[CopyProgress, _Mapping]] = ..., restored: _Optional[_Union[RestoredCorpus, _Mapping]] = ...) -> None: ...

class RestoredCorpus(_message.Message):
    __slots__ = ("corpus", "left_out")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    corpus: Corpus
    left_out: int
    def __init__(self, corpus: _Optional[_Union[Corpus, _Mapping]] = ..., left_out: _Optional[int] = ...) -> None: ...

class ReembeddingProgress(_message.Message):
    __slots__ = ("heard", "complete", "counts")
    HEARD_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    heard: bool
    complete: bool
    counts: ReembeddingCounts
    def __init__(self, heard: bool = ..., complete: bool = ..., counts: _Optional[_Union[ReembeddingCounts, _Mapping]] = ...) -> None: ...

class ReembeddingCounts(_message.Message):
    __slots__ = ("documents", "outdated", "set_aside")
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    OUTDATED_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    documents: int
    outdated: int
    set_aside: int
    def __init__(self, documents: _Optional[int] = ..., outdated: _Optional[int] = ..., set_aside: _Optional[int] = ...) -> None: ...

class ReembedCorpusRequest(_message.Message):
    __slots__ = ("name", "step", "model")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    step: ReembedStep
    model: str
    def __init__(self, name: _Optional[str] = ..., step: _Optional[_Union[ReembedStep, str]] = ..., model: _Optional[str] = ...) -> None: ...

class ReembedCorpusResponse(_message.Message):
    __slots__ = ("corpus", "progress")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    corpus: Corpus
    progress: ReembeddingProgress
    def __init__(self, corpus: _Optional[_Union[Corpus, _Mapping]] = ..., progress: _Optional[_Union[ReembeddingProgress, _Mapping]] = ...) -> None: ...

class GetReembeddingRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetReembeddingResponse(_message.Message):
    __slots__ = ("corpus", "progress")
    CORPUS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    corpus: Corpus
    progress: ReembeddingProgress
    def __init__(self, corpus: _Optional[_Union[Corpus, _Mapping]] = ..., progress: _Optional[_Union[ReembeddingProgress, _Mapping]] = ...) -> None: ...

class Breach(_message.Message):
    __slots__ = ("invariant", "document_id", "detail")
    INVARIANT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_ID_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    invariant: Invariant
    document_id: str
    detail: str
    def __init__(self, invariant: _Optional[_Union[Invariant, str]] = ..., document_id: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...
