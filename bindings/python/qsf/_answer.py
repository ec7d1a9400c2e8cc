"""Answers: what the engine is asked, the pieces that come, and the whole.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _names, _native, _pieces
from ._batches import Batches, Talk
from ._native import FULL, OK, ffi, lib
from ._options import encoded, engine_texts
from .errors import error, refuse

FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True)
class ToolCall:
    """A call as the model made it; arguments is a JSON string."""

    id: str
    name: str
    arguments: str

    def as_dict(self) -> dict[str, Any]:
        """In OpenAI's form."""
        return {"id": self.id, "type": "function",
                "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True)
class Logprob:
    """A token and the natural logarithm of its probability, from the model's own logits."""

    token: int
    text: str
    bytes: bytes
    logprob: float
    top: tuple[Logprob, ...] = ()


@dataclass(frozen=True)
class Usage:
    """Tokens and time of an answer; cached_tokens of the prompt were not computed again."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    prompt_seconds: float
    answer_seconds: float

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def tokens_per_second(self) -> float:
        """Of the tokens after the first one."""
        return (self.completion_tokens - 1) / self.answer_seconds if self.answer_seconds > 0 else 0.0


@dataclass(frozen=True)
class Answer:
    """A whole answer; str() is its text."""

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage
    # Why it ended: "end" (a token of the model's), "stop" (a string of stop), "length"
    # (max_tokens) or "full" (the context).
    end: str
    # The answer as a message, to append to the conversation.
    message: Mapping[str, Any]
    # All messages to append: with Python functions as tools, calls and results come before it.
    messages: tuple[Mapping[str, Any], ...]
    logprobs: tuple[Logprob, ...] = ()
    # With a pydantic model as response_format: an object of it, unless the answer is cut off.
    parsed: Any = None

    def __str__(self) -> str:
        return self.text


class Piece(str):
    """A piece of an answer: its text, as a string. The last piece has the whole answer."""

    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    logprob: Logprob | None
    token: int | None
    answer: Answer | None

    def __new__(cls, text: str, reasoning: str = "", tool_calls: tuple[ToolCall, ...] = (),
                logprob: Logprob | None = None, token: int | None = None,
                answer: Answer | None = None) -> Piece:
        piece = super().__new__(cls, text)
        piece.reasoning, piece.tool_calls, piece.logprob = reasoning, tool_calls, logprob
        piece.token, piece.answer = token, answer
        return piece

    @property
    def text(self) -> str:
        return str(self)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.reasoning, self.tool_calls, self.logprob, self.token, self.answer


@dataclass
class Asked:
    """What an answer is asked for: its prompt is messages in JSON, a string or tokens."""

    prompt: str | list[int]
    is_chat: bool
    options: dict[str, Any]
    tools: str | None = None                    # JSON
    tool_choice: str | None = None
    shape: tuple[int, str, bool] | None = None  # kind of grammar, its text, whether keywords may be ignored
    documents: str | None = None                # JSON
    kwargs: str | None = None                   # JSON
    uses: list[tuple[int, float]] = field(default_factory=list)

    @property
    def call(self) -> str:
        return "chat" if self.is_chat else "generate"

    def chat_options(self) -> bytes:
        now = int(time.time()) + time.localtime().tm_gmtoff
        return _native.listed([
            ("chat-template", self.options.get("template")), ("tools", self.tools),
            ("documents", self.documents), ("template-kwargs", self.kwargs),
            ("continue-final-message", self.options.get("continue_final_message")), ("now", now)])


@dataclass
class Part:
    """What a batch has added to an answer."""

    text: str = ""
    reasoning: str = ""
    calls: Sequence[ToolCall] = ()
    token: int | None = None
    logprob: Logprob | None = None
    end: str = ""
    tokens: int = 1                             # 2 and more: several that were joined


class EngineAnswer:
    """An answer in the engine, of a conversation that is this answer's until it ends."""

    def __init__(self, batches: Batches, talk: Talk, asked: Asked) -> None:
        self.talk, self.handle, self.ended = talk, 0, False
        self.pieces: deque[Part] = deque()
        self.failed: BaseException | None = None
        self._batches, self._asked = batches, asked
        self.whole, self.n_taken = False, 0
        self.flags = _pieces.LOGPROBS if asked.options.get("logprobs") else 0
        self._n_calls, self._taking, self._taken = 0, -1, -1
        self.prompt_tokens = self.cached_tokens = 0
        self.message: dict[str, Any] = {}

    # ---- its beginning, while alone ----

    def begin(self) -> None:
        batches, talk, asked = self._batches, self.talk, self._asked
        batches.seat(talk)
        self._set_prompt()
        batches.adapt(talk, asked.uses)
        self._make()
        self._constrain()
        while True:
            status = lib.qsf_flat_answer_begin(self.handle)
            if status != FULL or _native.whole(talk.handle, "prompt") > _native.whole(
                    talk.handle, "context-length") or not batches.evict(talk.handle):
                break
        _native.check(status, self.handle)
        self.prompt_tokens = _native.whole(talk.handle, "prompt")
        batches.begin(self)

    def _set_prompt(self) -> None:
        asked, handle = self._asked, self.talk.handle
        _native.check(lib.qsf_flat_conversation_chat(handle, asked.chat_options()), handle)
        if isinstance(asked.prompt, str):
            given = encoded(asked.prompt)
            take = lib.qsf_flat_conversation_json if asked.is_chat else lib.qsf_flat_conversation_text
            _native.check(take(handle, given, len(given)), handle)
        else:
            ids = _native.ids_of(asked.prompt)
            _native.check(lib.qsf_flat_conversation_ids(handle, ids, len(asked.prompt)), handle)

    def _make(self) -> None:
        options = self._asked.options
        logprobs = options.get("top_logprobs", 0) if options.get("logprobs") else -1
        sampler = [(name, value) for name, value in engine_texts(self._asked.call, options)
                   if name not in ("chat-template", "continue-final-message", "parallel-tool-calls")]
        given = _native.listed([*sampler, ("max-tokens", options.get("max_tokens", 256)),
                                ("logprobs", logprobs)])
        self.handle = _native.made(lib.qsf_flat_answer_new(self.talk.handle, given), self.talk.handle)
        for token, bias in options.get("logit_bias", []):
            self._given("logit_bias", lib.qsf_flat_answer_bias(self.handle, token, bias))
        breakers = options.get("dry_sequence_breakers")
        for name, texts, take in (
                ("banned_texts", options.get("banned_texts", []), lib.qsf_flat_answer_ban),
                ("dry_sequence_breakers", ["", *breakers] if breakers else [], lib.qsf_flat_answer_breaker),
                ("stop", options.get("stop", []), lib.qsf_flat_answer_stop)):
            for text in map(encoded, texts):
                self._given(name, take(self.handle, text, len(text)))

    def _given(self, option: str, status: int) -> None:
        """An error in the caller's value is about the option, whatever part of the engine finds it."""
        if status == OK:
            return
        text = _native.text(self.handle, "error") or ""
        if _names.STATUS[status] == "MEMORY":
            _native.fail(self.handle, status)
        raise refuse(text if text.startswith(f"{option}:") else f"{option}: {text}")

    def _constrain(self) -> None:
        """The answer's grammar, and how it is split into parts."""
        asked = self._asked
        if not asked.is_chat and not asked.shape:
            return
        kind, text, loose = asked.shape or (0, None, False)
        status, why = self._try(kind, text, False)
        of_tools = text is None or why.startswith("tools:")
        if status != OK and loose and not of_tools:
            refused = why
            status, why = self._try(kind, text, True)
            if status == OK:
                _native.warn("not kept of response_format: %s", refused)
        if status != OK:
            if _names.STATUS[status] == "MEMORY":
                _native.fail(self.talk.handle, status)
            name = "tools" if of_tools else "response_format"
            raise refuse(why if why.startswith(f"{name}:") else f"{name}: {why}")
        loosened = _native.text(self.talk.handle, "loosened")
        if loosened:
            _native.warn("not kept of the tools' schemas: %s", loosened)

    def _try(self, kind: int, text: str | None, loose: bool) -> tuple[int, str]:
        asked, options = self._asked, self._asked.options
        given = _native.listed([
            ("tool-choice", asked.tool_choice), ("parallel-tool-calls", options.get("parallel_tool_calls")),
            ("json-loose", loose), ("json-blanks", options.get("json_blanks"))])
        shape = ffi.NULL if text is None else encoded(text)
        size = 0 if text is None else len(shape)
        if asked.is_chat:
            handle = self.talk.handle
            status = lib.qsf_flat_conversation_split(handle, given, kind, shape, size)
        else:
            handle = self.handle
            status = lib.qsf_flat_answer_grammar(handle, given, kind, shape, size)
        return status, (_native.text(handle, "error") or "") if status else ""

    # ---- its pieces, after a batch ----

    def take(self, news: list[_pieces.New], number: int) -> None:
        if self._taken == number:
            return
        if self._taking == number:
            raise error("CANCELLED", "an interrupt came while a piece of the answer was read")
        self._taking = number
        for one in news:
            _native.check(one.status, self.handle)
            part = Part(one.text, one.reasoning, end=_names.ENDS[one.end], tokens=one.n_tokens)
            if one.n_calls:
                part.calls = self._calls(one.n_calls)
            if not part.end:
                part.token = one.token
                if one.logprobs:
                    part.logprob = self._logprob(one.logprobs)
            if part.end or not self.n_taken:
                self.cached_tokens = _native.whole(self.talk.handle, "kept")
            if part.end:
                self.message = self._message()
            self.n_taken += 1
            self.pieces.append(part)
            if part.end:
                self.ended = True           # only now: a reader that finds it ended finds all its pieces
        self._taken = number

    def _calls(self, n: int) -> list[ToolCall]:
        """The next n calls."""
        begin, self._n_calls = self._n_calls, self._n_calls + n
        return [ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in self._message()["tool_calls"][begin : begin + n]]

    def _message(self) -> dict[str, Any]:
        text = _native.text(self.handle, "message")
        return json.loads(text) if text else {}

    def _logprob(self, values: Sequence[tuple[int, float]]) -> Logprob:
        """Of the token itself, and of others."""
        all_ = []
        for token, value in values:
            raw = _native.token_bytes(self._batches.model, token)
            all_.append(Logprob(token, raw.decode("utf-8", "replace"), raw, value))
        own = all_[0]
        return Logprob(own.token, own.text, own.bytes, own.logprob, tuple(all_[1:]))

    def end(self) -> None:
        """While alone."""
        self._batches.end(self)
