"""The shared library: its functions, handles, texts, numbers and errors.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from . import _abi, _names
from .errors import error

OK, PENDING, MEMORY, IO, FULL = map(_names.STATUS.index, ("OK", "PENDING", "MEMORY", "IO", "FULL"))

ffi: Any = _abi.ffi


def _path() -> str:
    """That of the package; QSF_LIBRARY names another one, such as a build with sanitizers."""
    if os.environ.get("QSF_LIBRARY"):
        return os.environ["QSF_LIBRARY"]
    name = {"win32": "qsf_flat.dll", "darwin": "libqsf_flat.dylib"}.get(sys.platform, "libqsf_flat.so")
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


try:
    lib: Any = ffi.dlopen(_path())
except OSError as missing:
    raise ImportError(f"{_path()} cannot be loaded: {missing}; install a wheel, or name a libqsf_python with "
                      "the environment variable QSF_LIBRARY") from missing

try:
    lib.qsf_python_run
except (AttributeError, ffi.error):
    raise ImportError(f"{_path()} is not a libqsf_python of this version (CMake's target qsf_python_shared); "
                      "the environment variable QSF_LIBRARY must name one") from None

_numbers = {name: lib.qsf_flat_find(name.encode(), 0) for group, names in vars(_names).items()
            if group.startswith("NUMBERS_OF_") for name in names}
_texts = {name: lib.qsf_flat_find(name.encode(), 1) for group, names in vars(_names).items()
          if group.startswith("TEXTS_OF_") for name in names}

_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def forks() -> int:
    """How many forks lie between the first process and this one. The library's threads do not pass
    a fork."""
    return _forks


def number(handle: int, name: str, i: int = 0) -> float:
    return float(lib.qsf_flat_number(handle, _numbers[name], i))


def whole(handle: int, name: str, i: int = 0) -> int:
    return int(lib.qsf_flat_number(handle, _numbers[name], i))


def text(handle: int, name: str, i: int = 0) -> str | None:
    """None: not set, or i is past the last."""
    found = text_bytes(lambda dst, cap: lib.qsf_flat_text(handle, _texts[name], i, dst, cap))
    return None if found is None else found.decode("utf-8", "replace")


def text_bytes(copy: Callable[[Any, int], int], cap: int = 256) -> bytes | None:
    """What copy(dst, cap) copies; None if it reports an error."""
    while True:
        dst = ffi.new("char[]", cap)
        n = copy(dst, cap)
        if n < 0:
            return None
        if n < cap:
            return bytes(ffi.buffer(dst, n))
        cap = n + 1


def fail(handle: int, status: int) -> None:
    """Raises the error of a status, with the text of the handle's last error."""
    code = _names.STATUS[status] if 0 <= status < len(_names.STATUS) else "ARGUMENT"
    raise error(code, text(handle, "error") or f"the library reports {code}")


def raise_error(error_: Any) -> NoReturn:
    """Raises what a call wrote to a qsf_error."""
    code = _names.STATUS[error_.status] if 0 < error_.status < len(_names.STATUS) else "ARGUMENT"
    raise error(code, string(error_.text) or f"the library reports {code}")


def check(status: int, handle: int) -> None:
    if status != OK:
        fail(handle, status)


def made(handle: int, parent: int) -> int:
    """A handle that was just created, without an error."""
    if not handle:
        raise error("MEMORY", text(parent, "error") or "out of memory")
    status = lib.qsf_flat_status(handle)
    if status != OK:
        try:
            fail(handle, status)
        finally:
            lib.qsf_flat_free(handle)
    return handle


def encoded(text: str) -> bytes:
    """UTF-8; halves of surrogate pairs become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def listed(options: Iterable[tuple[str, object]]) -> bytes:
    """A list of options; those that are None are left out."""
    out = bytearray()
    for name, value in options:
        if value is None:
            continue
        word = ("true" if value else "false") if isinstance(value, bool) else str(value)
        out += name.encode() + b"\0" + encoded(word) + b"\0"
    return bytes(out) + b"\0"


def token_bytes(model: int, token: int, special: bool = True) -> bytes:
    return text_bytes(lambda dst, cap: lib.qsf_flat_token_text(model, token, special, dst, cap), 64) or b""


def ids_of(ids: Sequence[int]) -> Any:
    return ffi.new("int32_t[]", list(ids))


def copied_ids(handle: int, guess: int, copy: Callable[[Any, int], int]) -> list[int]:
    """What copy(dst, cap) copies."""
    while True:
        dst = ffi.new("int32_t[]", guess)
        n = copy(dst, guess)
        if n < 0:
            fail(handle, -n)
        if n <= guess:
            return list(dst[0:n])
        guess = n


def rows_of(which: str) -> list[Any]:
    """The rows of one of the engine's lists of options: "context", "sampler" or "turn"."""
    rows: list[Any] = []
    find = getattr(lib, f"qsf_{which}_option")
    while (row := find(len(rows))) != ffi.NULL:
        rows.append(row)
    return rows


def string(of: Any) -> str:
    """A terminated string of the library's."""
    return "" if of == ffi.NULL else bytes(ffi.string(of)).decode()


def warn(text: str, *values: object) -> None:
    """A warning of the logger "qsf"."""
    import logging                      # takes as long to import as half of this package
    logging.getLogger("qsf").warning(text, *values, stacklevel=2)
