"""Errors with stable codes.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations


class QsfError(Exception):
    """What the library reports. code is stable: "ARGUMENT", "MEMORY", "IO", "CORRUPT", "UNSUPPORTED",
    "BUDGET", "FULL", "CANCELLED", "NOT_FOUND" (those of qsf.h), "CLOSED" (used after close()), "BUSY"
    (another answer of the conversation is not finished) or "FORKED" (loaded in another process)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return error, (self.code, str(self))


class ArgumentError(QsfError, ValueError):
    """A value is invalid: the message names it and describes the valid ones."""


class NotFoundError(QsfError, FileNotFoundError):
    """No such file."""

    def __str__(self) -> str:       # OSError's own is about errno
        return str(self.args[0])


class OutOfMemoryError(QsfError, MemoryError):
    """Out of memory, or the memory budget is too small."""


class ContextFullError(QsfError, ValueError):
    """What was given does not fit in the context."""


CLASSES: dict[str, type[QsfError]] = {
    "ARGUMENT": ArgumentError, "NOT_FOUND": NotFoundError, "MEMORY": OutOfMemoryError,
    "BUDGET": OutOfMemoryError, "FULL": ContextFullError,
}


def error(code: str, message: str) -> QsfError:
    """The error of a code."""
    return CLASSES.get(code, QsfError)(code, message)


def refuse(message: str) -> ArgumentError:
    """The caller's value is invalid."""
    return ArgumentError("ARGUMENT", message)


def shown(value: object) -> str:
    """A value as messages show it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
