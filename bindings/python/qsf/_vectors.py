"""Embeddings, ranks, logits: what is computed of texts besides answers.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _names, _native
from ._batches import Batches, Talk
from ._native import FULL, PENDING, ffi, lib
from .errors import error

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    Floats = NDArray[numpy.float32]


def numpy_() -> Any:
    try:
        import numpy as module
    except ImportError as missing:
        raise error("UNSUPPORTED", "arrays need numpy: pip install numpy") from missing
    return module


def _begin(batches: Batches, talk: Talk, handle: int, ids: Sequence[int]) -> None:
    given, lens = _native.ids_of(ids), ffi.new("size_t[]", [len(ids)])
    while True:
        batches.seat(talk)
        status = lib.qsf_flat_embedding_begin(handle, given, lens, 1)
        if status == FULL and batches.evict(talk.handle):
            continue
        _native.check(status, handle)
        return


def _step(batches: Batches, handle: int) -> None:
    try:
        while True:
            result = lib.qsf_flat_embedding_step(handle)
            if result & _names.FLAT_WAITING:
                _native.check(lib.qsf_flat_wait(batches.context), batches.context)
            if result & 255 != PENDING:
                _native.check(result & 255, handle)
                return
            batches.check()
    finally:
        lib.qsf_flat_cancel(handle)


def vectors(batches: Batches, talk: Talk, inputs: Sequence[Sequence[int]], uses: list[tuple[int, float]],
            options: list[tuple[str, object]]) -> list[Floats]:
    """For each input, the floats that the engine makes of it."""
    np, found, handle = numpy_(), [], 0
    try:
        for ids in inputs:
            with batches.alone():
                batches.seat(talk)
                batches.adapt(talk, uses)
                if not handle:
                    handle = _native.made(lib.qsf_flat_embedding_new(talk.handle, _native.listed(options)),
                                          talk.handle)
                _begin(batches, talk, handle, ids)
                _step(batches, handle)
                n = lib.qsf_flat_embedding_values(handle, ffi.NULL, 0)
                if n < 0:
                    _native.fail(handle, -n)
                out = np.empty(n, np.float32)
                lib.qsf_flat_embedding_values(handle, ffi.from_buffer("float[]", out), n)
                found.append(out)
    finally:
        if handle:
            batches.later(lambda: lib.qsf_flat_free(handle))
    return found
