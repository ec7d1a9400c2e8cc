"""Logits of tokens, computed in a sequence that no conversation uses.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _names, _native
from ._batches import Batches, Talk
from ._native import FULL, OK, PENDING, ffi, lib
from ._vectors import numpy_
from .errors import error

if TYPE_CHECKING:
    from ._vectors import Floats


def _check(status: int, context: Any) -> None:
    if status != OK:
        raise error(_names.STATUS[status], _native.string(lib.qsf_last_error(context)))


@contextmanager
def _sequence(batches: Batches) -> Iterator[tuple[Any, int]]:
    """An empty sequence, while alone."""
    talk = Talk()
    batches.seat(talk)
    try:
        yield lib.qsf_flat_context(batches.context), lib.qsf_flat_conversation_sequence(talk.handle)
    finally:
        batches.part(talk)              # which empties it


def _compute(batches: Batches, context: Any, rows: Any, n: int) -> None:
    while (status := lib.qsf_batch_begin(context, rows, n)) == FULL and batches.evict(0):
        pass
    _check(status, context)
    waiting = ffi.new("bool *")
    while (status := lib.qsf_step(context, waiting)) == PENDING:
        if waiting[0]:
            _check(lib.qsf_wait(context), context)
        batches.check()
    _check(status, context)


def each(batches: Batches, ids: Sequence[int], first: int, most_rows: int, width: int,
         use: Callable[[int, Floats], None]) -> None:
    """Calls use(i, logits) for the tokens from the i-th one on: float32[width], valid during the call."""
    np = numpy_()
    with batches.alone(), _sequence(batches) as (context, sequence):
        at = 0
        while at < len(ids):
            wanted = at >= first
            n = min(batches.parallel if wanted else most_rows, (len(ids) if wanted else first) - at)
            rows = ffi.new("qsf_row[]", [(sequence, token, wanted) for token in ids[at : at + n]])
            _compute(batches, context, rows, n)
            for i in range(n if wanted else 0):
                row = lib.qsf_logits(context, i)
                if row == ffi.NULL:
                    _check(_names.STATUS.index("IO"), context)
                use(at + i, np.frombuffer(ffi.buffer(row, 4 * width), np.float32))
            at += n
