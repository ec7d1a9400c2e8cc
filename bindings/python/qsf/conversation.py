"""Conversations with messages and computed tokens of their own.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _options, _sessions
from ._answer import Answer
from ._batches import Talk
from ._messages import Messages, messages_of
from ._stream import AsyncStream, Stream
from .errors import error, refuse, shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import ChatOptions, GenerateOptions, Model, Tokens


class Conversation:
    """A conversation: a call computes only what is new. Answers of several conversations, in as many threads,
    are computed together. Conversations that do not fit in memory together leave it and come back."""

    def __init__(self, model: Model, system: str | None, messages: Messages | None,
                 options: Mapping[str, Any]) -> None:
        if system is not None and not isinstance(system, str):
            raise refuse(f"system is {shown(system)}; it must be a string")
        self._model, self._talk, self._options = model, Talk(), options
        self._first = [{"role": "system", "content": system}] if system else []
        self._messages = messages_of(messages) if messages is not None else []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        """A copy of its messages. Answers that were not read to their end are not among them."""
        return copy.deepcopy([*self._first, *self._messages])

    @overload
    def chat(self, what: Messages, *, stream: Literal[False] = False,
             **options: Unpack[ChatOptions]) -> Answer: ...
    @overload
    def chat(self, what: Messages, *, stream: Literal[True], **options: Unpack[ChatOptions]) -> Stream: ...
    @overload
    def chat(self, what: Messages, *, stream: bool, **options: Unpack[ChatOptions]) -> Answer | Stream: ...

    def chat(self, what: Messages, *, stream: bool = False,
             **options: Unpack[ChatOptions]) -> Answer | Stream:
        """Says something to the model and appends both messages; or, with a list, replaces the messages after
        system with it. The conversation's options apply unless they are given here."""
        _options.checked("stream", {"stream": stream})
        answer = self._chat(what, dict(options)).start()
        return answer if stream else answer.read()

    def achat(self, what: Messages, **options: Unpack[ChatOptions]) -> AsyncStream:
        """The same for asyncio."""
        return AsyncStream(lambda: self._chat(what, dict(options)), self._model._executor)

    def _chat(self, what: Messages, options: dict[str, Any]) -> Stream:
        after = [*self._messages, *messages_of(what)] if isinstance(what, str) else messages_of(what)
        given = {**self._options, **options}
        if given.get("continue_final_message"):
            kept = after[:-1]
        else:
            kept = after

        def done(answer: Answer) -> None:
            self._messages = [*kept, *map(dict, answer.messages)]
        return self._model._chat([*self._first, *after], given, self._claim, done)

    def generate(self, prompt: str | Tokens, **options: Unpack[GenerateOptions]) -> Answer:
        """As Model.generate(); the messages stay, and the conversation's options do not apply."""
        return self._model._generate(prompt, dict(options), self._claim).start().read()

    def _claim(self, text: str = "") -> Talk:
        with self._lock:
            if self._closed:
                raise error("CLOSED", "the conversation is closed")
            if self._talk.busy:
                raise error("BUSY", "the conversation's answer is not finished: read it to its end, or "
                            "close() it")
            self._talk.busy = True
            return self._talk

    def save(self) -> bytes:
        """The tokens that are computed, with their keys and values, to resume from them later without
        computing them again. The messages are not in it."""
        talk = self._claim()
        try:
            return _sessions.save(self._model._batches, talk)
        finally:
            talk.busy = False

    def load(self, data: bytes) -> int:
        """Resumes from save(), with the same model and kv_type: a prompt that begins in the same way is
        computed from where they differ. Returns the number of tokens."""
        talk = self._claim()
        try:
            return _sessions.load(self._model._batches, talk, data, self._model._uses(dict(self._options)))
        finally:
            talk.busy = False

    def close(self) -> None:
        """Frees its memory. An answer under way ends."""
        batches = self._model._batches
        self._closed = True
        if not batches.closed and not batches.is_foreign:
            with batches.alone():
                batches.part(self._talk)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:          # may run inside of any call: no locks
        talk = getattr(self, "_talk", None)
        if talk and talk.handle:
            batches = self._model._batches
            batches.later(lambda: batches.part(talk))

    def __reduce__(self) -> Any:
        raise TypeError("a conversation cannot be pickled; save() has what it has computed")
