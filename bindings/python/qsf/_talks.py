"""Which conversation of the engine a call of a model's own uses: one that is free, the one whose last
prompt has most in common with the call's.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import threading

from . import _sessions
from ._batches import Batches, Talk

# Conversations that stay.
MOST = 8


def common(a: str, b: str) -> int:
    """The length of what two strings begin with."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


class Talks:
    def __init__(self, batches: Batches) -> None:
        self._batches, self._lock, self._uses = batches, threading.Lock(), 0
        self._talks: list[Talk] = []
        self.last = Talk()

    def claim(self, text: str) -> Talk:
        """A conversation that is the call's until its busy is False again."""
        with self._lock:
            talk = self._best(text)
            self._uses += 1
            talk.text, talk.used, talk.busy = text, self._uses, True
            self.last = talk
            extra = [one for one in self._talks[: max(0, len(self._talks) - MOST)] if not one.busy]
            for one in extra:
                self._talks.remove(one)
        for one in extra:
            self._batches.later(lambda one=one: self._batches.part(one))       # type: ignore[misc]
        return talk

    def load(self, data: bytes) -> int:
        """Restores a session in a conversation that the next alike call continues."""
        talk = self.claim("")
        try:
            return _sessions.load(self._batches, talk, data, talk.uses)
        finally:
            talk.busy = False

    def _best(self, text: str) -> Talk:
        """One that has half of its prompt in common is continued; others keep what they have, as long as
        there may be more."""
        free = [talk for talk in self._talks if not talk.busy]
        shared = [(common(talk.text, text), talk) for talk in free]
        alike = [(n, talk) for n, talk in shared if 2 * n >= len(talk.text)]
        if alike:
            return max(alike, key=lambda one: one[0])[1]
        if free and len(self._talks) >= MOST:
            return min(free, key=lambda talk: talk.used)
        talk = Talk()
        self._talks.append(talk)
        return talk
