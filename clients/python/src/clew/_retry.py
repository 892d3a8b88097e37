"""When a call is made again."""

from __future__ import annotations

import random
import time

from clew._errors import TRANSPORT, ClewError, DeadlineExceededError, UnavailableError

# Times that a call is made if the server is away or busy.
_ATTEMPTS = 4
_FIRST_PAUSE = 0.2


class Deadline:
    """The instant after which nobody waits for a call."""

    def __init__(self, timeout: float) -> None:
        self._at = time.monotonic() + timeout

    def left(self) -> float:
        """Returns the seconds that are left, 0 if none are."""
        return max(0.0, self._at - time.monotonic())

    def check(self) -> None:
        """Raises `DeadlineExceededError` if no time is left."""
        if self.left() == 0.0:
            raise DeadlineExceededError("the call did not end in time; pass a longer `timeout`")


class Retry:
    """Decides whether one call is made again, and when."""

    def __init__(self, deadline: Deadline, may_repeat: bool) -> None:
        self._deadline = deadline
        self._left = _ATTEMPTS - 1 if may_repeat else 0
        self._pause = _FIRST_PAUSE

    def pause(self, error: ClewError) -> float | None:
        """Returns the seconds to wait before the next attempt, or `None` if there is none."""
        if self._left == 0 or not passes(error):
            return None
        self._left -= 1
        pause = pause_after(error, self._pause)
        self._pause *= 2
        # The error says more than running out of time would.
        return pause if pause < self._deadline.left() else None


def passes(error: ClewError) -> bool:
    """Returns whether an error passes by itself: the server says when, or cannot be reached."""
    is_away = isinstance(error, UnavailableError) and error.reason == TRANSPORT
    return is_away or error.retry_after is not None


def pause_after(error: ClewError, pause: float) -> float:
    """Returns a pause with jitter, at least as long as the server asks for."""
    jittered = pause * random.uniform(0.5, 1.5)
    return jittered if error.retry_after is None else error.retry_after.total_seconds() + jittered
