"""Language models from QSF and GGUF files, within a memory budget.
SPDX-License-Identifier: MIT

    import qsf

    with qsf.load("model.gguf") as model:
        print(model.chat("Why is the sky blue?"))
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._answer import Answer, Logprob, Piece, ToolCall, Usage
from ._hub import CachedModel, cached, pull
from ._info import ModelInfo
from ._native import lib as _lib
from ._native import string as _string
from ._progress import Progress
from ._stream import AsyncStream, Stream
from .errors import ArgumentError, ContextFullError, NotFoundError, OutOfMemoryError, QsfError
from .conversation import Conversation
from .model import Adapter, Model, load

if TYPE_CHECKING:
    from ._convert import Converted, ConvertedTensor, convert
    from ._openai import AsyncOpenAI, OpenAI

__version__ = _string(_lib.qsf_version())
__all__ = ["Adapter", "Answer", "ArgumentError", "AsyncOpenAI", "AsyncStream", "CachedModel",
           "ContextFullError", "Conversation", "Converted", "ConvertedTensor", "Logprob", "Model",
           "ModelInfo", "NotFoundError", "OpenAI", "OutOfMemoryError", "Piece", "Progress", "QsfError",
           "Stream", "ToolCall", "Usage", "__version__", "cached", "convert", "load", "pull"]

# Imported when they are first used.
_LATER = {"Converted": "_convert", "ConvertedTensor": "_convert", "convert": "_convert",
          "AsyncOpenAI": "_openai", "OpenAI": "_openai"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'qsf' has no attribute {name!r}")
    import importlib
    value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
