"""Who the server takes the caller for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of a tenant."""

    metered: Literal["unspecified", "requests", "bytes", "tokens"]
    """What it counts."""
    per_second: float
    """Units that it gains in a second."""
    burst: float
    """Units that it holds at most."""
    left: float
    """Units that are left now, 0 to `burst`."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who the server takes the caller for, and what the caller's key permits."""

    has_key: bool
    """Whether the caller was identified by a key. If not, the server asks for no keys, and the
    caller holds all scopes and all labels."""
    key: str
    """Name of the key, as the server's file of keys calls it. Empty without a key."""
    tenant: str
    """Tenant whose corpora the caller reaches. Empty for an operator."""
    scopes: tuple[Literal["unspecified", "read", "write", "admin"], ...]
    """Scopes that the caller has."""
    labels: tuple[str, ...]
    """Access labels that the caller holds. Empty if the caller holds all."""
    holds_all_labels: bool
    """Whether the caller holds every label there is."""
    expires_at: datetime | None
    """Time at which the key expires. `None` if it never does."""
    quotas: tuple[Quota, ...]
    """Quotas of the tenant, over all its keys. What is not listed is unlimited."""
