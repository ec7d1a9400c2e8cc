"""Language models from QSF and GGUF files, within a memory budget.
SPDX-License-Identifier: MIT

    import qsf

    with qsf.load("model.gguf") as model:
        print(model.chat("Why is the sky blue?"))
"""
from ._answer import Answer, Logprob, Piece, ToolCall, Usage
from ._convert import Converted, ConvertedTensor, convert
from ._hub import CachedModel, cached, pull
from ._info import ModelInfo
from ._native import lib as _lib
from ._native import string as _string
from ._openai import AsyncOpenAI, OpenAI
from ._progress import Progress
from ._stream import AsyncStream, Stream
from .errors import ArgumentError, ContextFullError, NotFoundError, OutOfMemoryError, QsfError
from .conversation import Conversation
from .model import Adapter, Model, load

__version__ = _string(_lib.qsf_version())
__all__ = ["Adapter", "Answer", "ArgumentError", "AsyncOpenAI", "AsyncStream", "CachedModel",
           "ContextFullError", "Conversation", "Converted", "ConvertedTensor", "Logprob", "Model",
           "ModelInfo", "NotFoundError", "OpenAI", "OutOfMemoryError", "Piece", "Progress", "QsfError",
           "Stream", "ToolCall", "Usage", "__version__", "cached", "convert", "load", "pull"]
