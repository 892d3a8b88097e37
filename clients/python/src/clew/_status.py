"""Makes errors of the statuses that calls end with."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, cast
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError

from clew._errors import KINDS, TRANSPORT, ClewError, DeadlineExceededError, Violation
from clew._proto import status_pb2

_DETAILS = "grpc-status-details-bin"
# The server's transport counts the time of a call as well. If it is the first to notice that it is
# over, it says so in these words.
_LATE = ("CANCELLED", "Timeout expired")


def error_of(call: grpc.RpcError, endpoint: str) -> ClewError:
    """Returns the error of a call that failed.

    The words of a server of Clew are kept. The words of the transport are replaced by what to do.
    """
    code = call.code().name
    message = call.details() or ""
    reason = TRANSPORT
    violations: tuple[Violation, ...] = ()
    retry_after = None
    for name, detail in _details(call):
        if name == "google.rpc.ErrorInfo":
            reason = status_pb2.ErrorInfo.FromString(detail).reason or reason
        elif name == "google.rpc.BadRequest":
            violations = _violations(status_pb2.BadRequest.FromString(detail))
        elif name == "google.rpc.RetryInfo":
            delay = status_pb2.RetryInfo.FromString(detail).retry_delay
            retry_after = timedelta(seconds=delay.seconds, microseconds=delay.nanos // 1000)
    # Some releases of gRPC leave the words as they were on the wire.
    if (code, unquote(message)) == _LATE:
        code = "DEADLINE_EXCEEDED"
    if reason == TRANSPORT:
        message = _problem(code, message, endpoint)
    kind = KINDS.get(code, ClewError)
    return kind(message, reason=reason, code=code, violations=violations, retry_after=retry_after)


class BrokenStreamError(Exception):
    """A stream of documents ended before everything was answered.

    It is no `ClewError`, because those may also come from the caller's own code, which an ingestion
    runs: from the iterable of documents, say, if it reads them from another server.
    """

    def __init__(self, error: ClewError) -> None:
        super().__init__(str(error))
        self.error = error


def silent(patience: float) -> BrokenStreamError:
    """Returns the end of a stream on which the server does nothing for `patience` seconds."""
    message = f"the server took and answered nothing for {patience:g} s"
    return BrokenStreamError(DeadlineExceededError(message))


def _details(call: grpc.RpcError) -> list[tuple[str, bytes]]:
    """Returns the details of a status, each with the name of its message."""
    # Pairs in both kinds of channels, though the stubs do not say so.
    metadata: Iterable[tuple[str, bytes]] = cast(Any, call.trailing_metadata() or ())
    packed = [value for key, value in metadata if key == _DETAILS]
    try:
        status = status_pb2.Status.FromString(b"".join(packed))
    except DecodeError:
        # Whatever stands between here and the server made it. The code still tells what to do.
        return []
    return [(detail.type_url.rpartition("/")[2], detail.value) for detail in status.details]


def _violations(request: status_pb2.BadRequest) -> tuple[Violation, ...]:
    return tuple(Violation(each.field, each.description) for each in request.field_violations)


def _problem(code: str, message: str, endpoint: str) -> str:
    """Returns a message for a status that did not come from a server of Clew."""
    if code == "UNAVAILABLE":
        return (
            f"no server answers at `{endpoint}`; see that it runs there and can be reached from "
            f"here ({message})"
        )
    if code == "DEADLINE_EXCEEDED":
        return "the server did not answer in time; try again later or pass a longer `timeout`"
    if code == "UNIMPLEMENTED":
        return "the server does not know this call; use a server of at least this client's release"
    return message or f"the server gave no reason: {code}"
