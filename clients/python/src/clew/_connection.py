"""Where a server is and what is shown to it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import grpc

from clew._errors import invalid

Pathlike = str | os.PathLike[str]

_EXAMPLE = "http://127.0.0.1:7421"
# Largest response in bytes. A page of 1000 passages may be larger than gRPC's 4 MiB.
_LARGEST_RESPONSE = 64 << 20

OPTIONS = (
    ("grpc.max_receive_message_length", _LARGEST_RESPONSE),
    # A child process must not share the connections of its parent.
    ("grpc.use_local_subchannel_pool", 1),
    # Calls are repeated in one place: see `call.py`.
    ("grpc.enable_retries", 0),
    # A connection that died in silence is noticed.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A server that comes back is reached soon: by default gRPC waits for up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates of an encrypted connection, in PEM."""

    authority: bytes | None
    """Authority that certifies the server. `None` for those that gRPC trusts."""
    chain: bytes | None
    """Certificate to show. `None` if there is none."""
    key: bytes | None = field(repr=False)
    """Private key of that certificate."""

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns what a channel takes."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.chain)


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a server is and what is shown to it, as the caller or the environment says."""

    endpoint: str
    """Address as it was given, for messages."""
    target: str
    """Host and port."""
    certificates: Certificates | None
    """Certificates. `None` for an unencrypted connection."""
    metadata: tuple[tuple[str, str], ...] = field(repr=False)
    """Headers of each call: the API key."""
    timeout: float
    """Seconds that a call may take unless it says otherwise."""


class Connected(Protocol):
    """A client of either kind."""

    @property
    def _connection(self) -> Connection: ...


def connection_of(
    endpoint: str | None,
    api_key: str | None,
    ca: Pathlike | None,
    client_certificate: Pathlike | None,
    client_key: Pathlike | None,
    timeout: float,
) -> Connection:
    """Returns the connection that arguments describe, or else the variables that the program `clew`
    reads as well.

    Raises `InvalidArgumentError` if the address is invalid or a file cannot be read.
    """
    endpoint = endpoint or os.environ.get("CLEW_ENDPOINT")
    if not endpoint:
        expected = (
            f"expected an address like {_EXAMPLE} as argument or in `CLEW_ENDPOINT`, got none"
        )
        raise invalid("endpoint", expected)
    address = urlsplit(endpoint)
    try:
        host, port = address.hostname, address.port or _default_port(address.scheme)
    except ValueError:
        host, port = None, 0
    if address.scheme not in ("http", "https") or not host or address.path not in ("", "/"):
        raise invalid("endpoint", f"expected an address like {_EXAMPLE}, got `{endpoint}`")
    api_key = api_key or os.environ.get("CLEW_API_KEY")
    if api_key and not (api_key.isascii() and api_key.isprintable()):
        raise invalid("api_key", "expected a key as `clew key` prints it, got other characters")
    certificates = None
    if address.scheme == "https":
        certificates = Certificates(
            authority=_read("ca", ca, "CLEW_CA"),
            chain=_read("client_certificate", client_certificate, "CLEW_CLIENT_CERTIFICATE"),
            key=_read("client_key", client_key, "CLEW_CLIENT_KEY"),
        )
        if (certificates.chain is None) != (certificates.key is None):
            raise invalid(
                "client_key", "expected a client certificate with its key, got one of them"
            )
    return Connection(
        endpoint=endpoint,
        target=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        certificates=certificates,
        metadata=(("authorization", f"Bearer {api_key}"),) if api_key else (),
        timeout=timeout,
    )


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def _read(argument: str, path: Pathlike | None, variable: str) -> bytes | None:
    path = path or os.environ.get(variable)
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise invalid(argument, f"expected a file in PEM, got {error}") from error
