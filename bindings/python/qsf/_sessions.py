"""Sessions: a sequence's tokens with their keys and values, as bytes.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

from typing import Any

from . import _native
from ._batches import Batches, Talk
from ._native import FULL, ffi, lib
from .errors import refuse, shown


def save(batches: Batches, talk: Talk) -> bytes:
    """Between batches: what the conversation has computed."""
    out = bytearray()

    def write(user: Any, data: Any, size: int) -> int:
        out.extend(ffi.buffer(data, size))
        return _native.OK
    call = ffi.callback("qsf_status(void *, const void *, size_t)", write, error=_native.MEMORY)
    with batches.alone():
        batches.seat(talk)
        _native.check(lib.qsf_flat_session_save(talk.handle, call, ffi.NULL), talk.handle)
    return bytes(out)


def load(batches: Batches, talk: Talk, data: Any, uses: list[tuple[int, float]]) -> int:
    """Restores it; invalid bytes change nothing. Returns the number of tokens."""
    try:
        view = memoryview(data).cast("B")
    except TypeError as wrong:
        raise refuse(f"the session is {shown(data)}; it must be bytes") from wrong

    def read(user: Any, at: int, to: Any, size: int) -> int:
        if at + size > len(view):
            return _native.IO
        ffi.buffer(to, size)[:] = view[at : at + size]
        return _native.OK
    call = ffi.callback("qsf_status(void *, uint64_t, void *, size_t)", read, error=_native.IO)
    with batches.alone():
        while True:
            batches.seat(talk)
            batches.adapt(talk, uses)
            status = lib.qsf_flat_session_load(talk.handle, len(view), call, ffi.NULL)
            if status == FULL and batches.evict(talk.handle):
                continue
            _native.check(status, talk.handle)
            talk.text = ""
            return _native.whole(talk.handle, "length")
