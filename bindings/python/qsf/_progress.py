"""Long work in the library: what it tells on its way, and how it is ended.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Optional

from . import _native
from ._native import ffi
from .errors import refuse, shown


@dataclass(frozen=True)
class Progress:
    """How far a download or a conversion is."""

    stage: str                  # "download", or one of a conversion: "calibrate", "convert", "write", ...
    name: str                   # of the file or the tensor; ""
    done: int                   # bytes of a download; of a conversion without a unit
    total: int
    part: int = 1               # of a split file
    parts: int = 1

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 0.0


OnProgress = Optional[Callable[[Progress], Any]]


def checked(progress: object) -> None:
    if progress is not None and not callable(progress):
        raise refuse(f"progress is {shown(progress)}; it must be a function")


class Work:
    """Calls of the library into Python. An exception of a callback, such as KeyboardInterrupt, ends the work;
    then raised() raises it again."""

    def __init__(self, progress: OnProgress) -> None:
        checked(progress)
        self._progress = progress
        self.failed: BaseException | None = None
        self.flag = ffi.new("unsigned char *")
        self.error = ffi.new("qsf_error *")

    def fail(self, kind: Any, value: BaseException | None, trace: Any) -> None:
        """cffi's onerror."""
        if self.failed is None:
            self.failed = value
        self.flag[0] = 1

    def tell(self, progress: Progress) -> None:
        if self._progress and self.failed is None:
            self._progress(progress)

    def callback(self, kind: str, function: Callable[..., Any], default: Any = None) -> Any:
        more = {} if default is None else {"error": default}
        return ffi.callback(kind, function, onerror=self.fail, **more)

    def raised(self) -> NoReturn:
        """Raises what ended it, or else the library's error."""
        if self.failed is not None:
            raise self.failed
        _native.raise_error(self.error)
