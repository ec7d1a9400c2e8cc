"""What the library reports of batches: pieces of answers, many in a call.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _native
from ._native import OK, ffi, lib
from .errors import QsfError

WHOLE, LOGPROBS = 1, 2                  # QSF_PYTHON_WHOLE, QSF_PYTHON_LOGPROBS
_PIECE = struct.Struct("@IiiiIIIII")    # qsf_python_piece
_LOGPROB = struct.Struct("@if")         # qsf_python_logprob


@dataclass
class New:
    """A piece as the library reports it: qsf_python_piece."""

    status: int
    token: int
    end: int
    n_tokens: int
    n_calls: int
    text: str
    reasoning: str
    logprobs: Sequence[tuple[int, float]]


def _bytes(of: Any) -> bytes:
    return bytes(ffi.buffer(of.at, of.len)) if of.len else b""


class News:
    """What has come of batches and was not taken: qsf_python_pieces. An interrupt at any point loses none of
    it."""

    def __init__(self) -> None:
        self._own = ffi.new("qsf_python_pieces *")
        self.number = 0                 # of what is there: an answer takes it once

    def run(self, context: int, answers: list[tuple[int, int]], more: int) -> int:
        """The status of a batch: qsf_python_run."""
        own = self._own
        return int(lib.qsf_python_run(own, context, ffi.new("qsf_python_answer[]", answers), len(answers),
                                      more))

    def __bool__(self) -> bool:
        return bool(self._own.pieces.len or self._own.status)

    def by_answer(self) -> dict[int, list[New]]:
        own, found = self._own, dict[int, "list[New]"]()
        text, reasoning = _bytes(own.text), _bytes(own.reasoning)
        logprobs = list(_LOGPROB.iter_unpack(_bytes(own.logprobs)))
        t = r = p = 0
        for answer, status, token, end, n, calls, n_text, n_reasoning, n_logprobs in _PIECE.iter_unpack(
                _bytes(own.pieces)):
            found.setdefault(answer, []).append(New(
                status, token, end, n, calls, text[t : t + n_text].decode("utf-8", "replace"),
                reasoning[r : r + n_reasoning].decode("utf-8", "replace"), logprobs[p : p + n_logprobs]))
            t, r, p = t + n_text, r + n_reasoning, p + n_logprobs
        return found

    def failed(self, context: int) -> QsfError | None:
        """The error with which the last batch has ended."""
        if self._own.status == OK:
            return None
        try:
            _native.fail(context, self._own.status)
        except QsfError as failed:
            return failed
        return None

    def clear(self) -> None:
        self.number += 1
        self._own.status = 0
        self._own.pieces.len = 0

    def hurry(self, on: bool) -> None:
        """Another thread waits: no further batch begins in a call."""
        self._own.hurry = on

    def free(self) -> None:
        lib.qsf_python_pieces_free(self._own)
