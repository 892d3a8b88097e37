"""Errors, sorted by what a caller can do about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from clew._values.ingestion import IngestReport

# Reason of an error that no server of Clew gave: the connection failed, or something in between.
TRANSPORT = "TRANSPORT"


@dataclass(frozen=True, slots=True)
class Violation:
    """Invalid field of a request."""

    field: str
    """Path of the field, such as `document.text`."""
    description: str
    """Description of what was expected and what came."""


class ClewError(Exception):
    """Failure of a call. The subclasses say what a caller can do about it."""

    message: str
    """Message for a person: what was expected, what came and what to do."""
    reason: str
    """Stable upper-case reason, such as `NOT_FOUND`, for programs to branch on. `TRANSPORT` if no
    server of Clew gave one."""
    code: str
    """Name of the gRPC status code, such as `NOT_FOUND`."""
    violations: tuple[Violation, ...]
    """Each invalid field of the request."""
    retry_after: timedelta | None
    """Time after which the server asks to be called again. `None` if it named none."""

    # Code of errors that this client makes by itself.
    _code: ClassVar[str] = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        reason: str = TRANSPORT,
        code: str | None = None,
        violations: tuple[Violation, ...] = (),
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.code = code or self._code
        self.violations = violations
        self.retry_after = retry_after

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later without any change by the caller."""
        return isinstance(
            self, (AbortedError, DeadlineExceededError, ResourceExhaustedError, UnavailableError)
        )

    def __str__(self) -> str:
        told = self.message
        for each in self.violations:
            # A server's message has the first of them.
            if each.description not in told:
                told += f"; `{each.field}`: {each.description}"
        return f"{told} ({self.reason})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are pickled with their positional arguments only. Worker processes, as of Ray
        # and Spark, send their failures that way.
        return (_unpickled, (type(self), self.message, dict(self.__dict__)))


def _unpickled(kind: type[ClewError], message: str, state: dict[str, Any]) -> ClewError:
    error = kind.__new__(kind, message)
    error.__dict__.update(state)
    return error


class InvalidArgumentError(ClewError, ValueError):
    """The request is invalid, whatever the state of the server. Correct it: see `violations`."""

    _code = "INVALID_ARGUMENT"


class UnauthenticatedError(ClewError):
    """The server asks for an API key or a certificate, and got none that is valid."""

    _code = "UNAUTHENTICATED"


class PermissionDeniedError(ClewError):
    """The key does not open the call, or does not hold an access label that it needs."""

    _code = "PERMISSION_DENIED"


class NotFoundError(ClewError, LookupError):
    """The corpus, document or snapshot does not exist."""

    _code = "NOT_FOUND"


class AlreadyExistsError(ClewError):
    """The corpus, document or snapshot exists already."""

    _code = "ALREADY_EXISTS"


class FailedPreconditionError(ClewError):
    """The state of the server or of the corpus does not permit the call. Change it first."""

    _code = "FAILED_PRECONDITION"


class AbortedError(ClewError):
    """Somebody else changed the same thing meanwhile. Begin again from the step that reads it."""

    _code = "ABORTED"


class ResourceExhaustedError(ClewError):
    """A queue is full or a quota is used up. Call again after `retry_after`."""

    _code = "RESOURCE_EXHAUSTED"


class UnavailableError(ClewError):
    """The server, or a part of it, cannot be reached. Call again later."""

    _code = "UNAVAILABLE"


class DeadlineExceededError(ClewError, TimeoutError):
    """The call took longer than its `timeout`. A write may or may not have been done."""

    _code = "DEADLINE_EXCEEDED"


class UnimplementedError(ClewError):
    """The server does not know the call: it is of an older release."""

    _code = "UNIMPLEMENTED"


class DataLossError(ClewError):
    """Stored data is damaged. Tell an operator; `clew check` shows what is wrong."""

    _code = "DATA_LOSS"


class InternalError(ClewError):
    """The server has a bug, or something in between answered for it."""

    _code = "INTERNAL"


class RefusedError(ClewError):
    """Documents of an ingestion were refused. `report` names them."""

    report: IngestReport
    """Report of the ingestion."""

    # The call itself succeeded.
    _code = "OK"

    def __init__(self, message: str, *, reason: str, report: IngestReport) -> None:
        super().__init__(message, reason=reason)
        self.report = report


_KINDS: tuple[type[ClewError], ...] = (
    InvalidArgumentError,
    UnauthenticatedError,
    PermissionDeniedError,
    NotFoundError,
    AlreadyExistsError,
    FailedPreconditionError,
    AbortedError,
    ResourceExhaustedError,
    UnavailableError,
    DeadlineExceededError,
    UnimplementedError,
    DataLossError,
    InternalError,
)
# A message that is too long is out of range, and a proxy that knows no better says unknown.
KINDS: dict[str, type[ClewError]] = {
    "OUT_OF_RANGE": InvalidArgumentError,
    "UNKNOWN": InternalError,
    **{kind._code: kind for kind in _KINDS},
}


def invalid(field: str, description: str) -> InvalidArgumentError:
    """Returns the error of an argument that is refused before anything is sent."""
    return InvalidArgumentError(
        f"the argument `{field}` is invalid",
        reason="INVALID_INPUT",
        violations=(Violation(field, description),),
    )
