"""A model as a client of the OpenAI API's form, for code that was written for the package openai.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import base64
import json
import math
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from typing import Any, TypeVar

from ._answer import Answer, Logprob, Piece, Usage
from ._schema import is_model
from .errors import refuse, shown
from .model import Model, load

T = TypeVar("T")
# What the API has and an engine in the same process does not need.
IGNORED = frozenset(("user", "metadata", "store", "service_tier", "timeout", "extra_headers", "extra_query",
                     "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "verbosity"))
# Members that answers may lack: the objects of openai then have None as their attribute.
OPTIONAL = frozenset((
    "metadata", "moderation", "obfuscation", "service_tier", "system_fingerprint", "shutdown_date", "usage",
    "completion_tokens_details", "prompt_tokens_details", "accepted_prediction_tokens", "audio_tokens",
    "cache_write_tokens", "cached_tokens", "image_tokens", "reasoning_tokens", "rejected_prediction_tokens",
    "text_tokens", "finish_reason", "logprobs", "bytes", "text_offset", "token_logprobs", "tokens",
    "top_logprobs", "role", "content", "refusal", "reasoning_content", "annotations", "audio",
    "function_call", "tool_calls", "parsed", "parsed_arguments", "id", "type", "function", "name",
    "arguments"))


class Object(dict[str, Any]):
    """A dict whose members are also attributes, as the objects of openai have them."""

    def __getattr__(self, name: str) -> Any:
        if name in self or name in OPTIONAL:
            return self.get(name)
        raise AttributeError(f"a response has no {name}; it has {', '.join(self)}")

    def model_dump(self, *, exclude_none: bool = False, **_: Any) -> dict[str, Any]:
        return {key: _dumped(value, exclude_none) for key, value in self.items()
                if not (exclude_none and value is None)}

    to_dict = model_dump

    def model_dump_json(self, *, indent: int | None = None, exclude_none: bool = False, **_: Any) -> str:
        return json.dumps(self.model_dump(exclude_none=exclude_none), indent=indent)

    def to_json(self, *, indent: int | None = 2, **options: Any) -> str:
        return self.model_dump_json(indent=indent, **options)


class Page(Object):
    """A list of the API: its data are what a loop has."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self["data"])


class AsyncPage(Page):
    """The same for asyncio: it can be awaited, and is a loop before and after that."""

    def __await__(self) -> Generator[Any, None, AsyncPage]:
        yield from ()
        return self

    async def __aiter__(self) -> AsyncIterator[Any]:
        for one in self:
            yield one


def _dumped(value: Any, exclude_none: bool) -> Any:
    if isinstance(value, Object):
        return value.model_dump(exclude_none=exclude_none)
    if isinstance(value, list):
        return [_dumped(one, exclude_none) for one in value]
    return value.model_dump() if hasattr(value, "model_dump") else value


def _object(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Object((key, _object(one)) for key, one in value.items())
    return [_object(one) for one in value] if isinstance(value, (list, tuple)) else value


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The API's parameters by our names; what has the same name passes."""
    extra = given.pop("extra_body", None) or {}
    options = {key: value for key, value in {**given, **extra}.items()
               if value is not None and key not in IGNORED and not _is_omitted(value)}
    most = options.pop("max_completion_tokens", None)
    if most is not None:
        options.setdefault("max_tokens", most)
    effort = options.pop("reasoning_effort", None)
    if effort == "none":
        options.setdefault("reasoning_budget", 0)
    if options.get("modalities") == ["text"]:
        del options["modalities"]
    return options


def _is_omitted(value: object) -> bool:
    """openai's marks of parameters that were not given."""
    return type(value).__name__ in ("NotGiven", "Omit")


def _usage(usages: list[Usage]) -> dict[str, Any]:
    prompt, answer = usages[0].prompt_tokens, sum(one.completion_tokens for one in usages)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer,
            "prompt_tokens_details": {"cached_tokens": usages[0].cached_tokens}}


def _token(one: Logprob) -> dict[str, Any]:
    return {"token": one.text, "bytes": list(one.bytes), "logprob": one.logprob}


def _logprob(one: Logprob) -> dict[str, Any]:
    return {**_token(one), "top_logprobs": [_token(other) for other in one.top]}


def _text_logprobs(all_: tuple[Logprob, ...]) -> dict[str, Any]:
    at, offsets = 0, []
    for one in all_:
        offsets.append(at)
        at += len(one.text)
    return {"tokens": [one.text for one in all_], "token_logprobs": [one.logprob for one in all_],
            "top_logprobs": [{t.text: t.logprob for t in one.top} for one in all_], "text_offset": offsets}


def _head(kind: str, name: str, prefix: str) -> dict[str, Any]:
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": name}


def _calls(calls: Any) -> list[dict[str, Any]]:
    return [call.as_dict() for call in calls]


def _choice(answer: Answer, index: int, logprobs: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = _calls(answer.tool_calls)
        message["content"] = answer.text or None
    if answer.parsed is not None:
        message["parsed"] = answer.parsed
    return {"index": index, "finish_reason": answer.finish_reason, "message": message,
            "logprobs": {"content": [_logprob(one) for one in answer.logprobs], "refusal": None}
            if logprobs else None}


class _ChatChunks:
    """What becomes of an answer's pieces in a stream."""

    def __init__(self, name: str, with_usage: bool, logprobs: bool) -> None:
        self._head = _head("chat.completion.chunk", name, "chatcmpl")
        self._with_usage, self._logprobs, self._n_calls = with_usage, logprobs, 0

    def _chunk(self, delta: dict[str, Any], end: str | None = None, logprob: Logprob | None = None) -> Any:
        logprobs = {"content": [_logprob(logprob)], "refusal": None} if self._logprobs and logprob else None
        return _object({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": end,
                                                   "logprobs": logprobs}]})

    def first(self) -> Any:
        return self._chunk({"role": "assistant", "content": ""})

    def of(self, piece: Piece) -> Iterator[Any]:
        delta: dict[str, Any] = {}
        if piece:
            delta["content"] = str(piece)
        if piece.reasoning:
            delta["reasoning_content"] = piece.reasoning
        if piece.tool_calls:
            delta["tool_calls"] = [{"index": self._n_calls + i, **call}
                                   for i, call in enumerate(_calls(piece.tool_calls))]
            self._n_calls += len(piece.tool_calls)
        if delta or (self._logprobs and piece.logprob):
            yield self._chunk(delta, None, piece.logprob)
        if piece.answer:
            yield self._chunk({}, piece.answer.finish_reason)
            if self._with_usage:
                yield _object({**self._head, "choices": [], "usage": _usage([piece.answer.usage])})


class _TextChunks:
    def __init__(self, name: str) -> None:
        self._head = _head("text_completion", name, "cmpl")

    def _chunk(self, text: str, end: str | None) -> Any:
        return _object({**self._head, "choices": [{"index": 0, "text": text, "finish_reason": end,
                                                   "logprobs": None}]})

    def of(self, piece: Piece) -> Iterator[Any]:
        if piece:
            yield self._chunk(str(piece), None)
        if piece.answer:
            yield self._chunk("", piece.answer.finish_reason)


class _Requests:
    """What the sync and the async client share: requests by our names, and responses."""

    def __init__(self, model: Any, name: str | None) -> None:
        self._owns = isinstance(model, (str, os.PathLike))
        if self._owns:
            model = load(model)
        if not isinstance(model, Model):
            raise refuse(f"the model is {shown(model)}; it must be what load() returns, a path or a name")
        self.model, self.name = model, name or model.info.name or "qsf"

    def close(self) -> None:
        if self._owns:
            self.model.close()

    def chat(self, given: dict[str, Any]) -> dict[str, Any]:
        options = _options(given)
        options.setdefault("max_tokens", math.inf)
        return options

    def whole_chat(self, answers: list[Answer], options: dict[str, Any]) -> Any:
        logprobs = bool(options.get("logprobs"))
        return _object({**_head("chat.completion", self.name, "chatcmpl"),
                        "choices": [_choice(one, i, logprobs) for i, one in enumerate(answers)],
                        "usage": _usage([one.usage for one in answers])})

    def text(self, given: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        options = _options(given)
        echo = bool(options.pop("echo", False))
        if options.get("best_of") == options.get("n", 1):       # every answer is one of the best
            del options["best_of"]
        options.setdefault("max_tokens", 16)
        n = options.pop("logprobs", None)
        if n is not None and n is not False:
            options.update(logprobs=True, top_logprobs=0 if n is True else n)
        return options, echo

    def whole_text(self, answers: list[Answer], prompts: list[Any], echo: bool) -> Any:
        each = len(answers) // len(prompts)
        choices = []
        for i, answer in enumerate(answers):
            prompt = prompts[i // each]
            before = (prompt if isinstance(prompt, str) else self.model.detokenize(prompt)) if echo else ""
            choices.append({"index": i, "text": before + answer.text, "finish_reason": answer.finish_reason,
                            "logprobs": _text_logprobs(answer.logprobs) if answer.logprobs else None})
        return _object({**_head("text_completion", self.name, "cmpl"), "choices": choices,
                        "usage": _usage([one.usage for one in answers])})

    def embeddings(self, given: Any, encoding_format: Any, dimensions: Any, others: dict[str, Any]) -> Any:
        if encoding_format is None or _is_omitted(encoding_format):
            encoding_format = "float"
        if not isinstance(encoding_format, str) or encoding_format not in ("float", "base64"):
            raise refuse(f"encoding_format is {shown(encoding_format)}; it must be float or base64")
        if dimensions is not None and not _is_omitted(dimensions):
            raise refuse("dimensions: embeddings have the width of the model's")
        if unknown := set(_options(others)):
            raise refuse(f"no parameter of embeddings.create() is called {min(unknown)}")
        inputs = _several(given)
        ids = self.model._inputs(inputs)
        rows = self.model.embed(ids)
        data = [{"object": "embedding", "index": i, "embedding": base64.b64encode(row.tobytes()).decode()
                 if encoding_format == "base64" else row.tolist()} for i, row in enumerate(rows)]
        n = sum(map(len, ids))
        return _object({"object": "list", "data": data, "model": self.name,
                        "usage": {"prompt_tokens": n, "total_tokens": n}})

    def models(self) -> Any:
        one = Object(id=self.name, object="model", created=0, owned_by="qsf")
        return Page(object="list", data=[one])


def _several(given: Any) -> list[Any]:
    """One string or one list of tokens is a list of one."""
    if isinstance(given, str):
        return [given]
    items = list(given) if isinstance(given, (list, tuple)) else []
    if not items:
        raise refuse(f"the input is {shown(given)}; it must be a string, a list of strings, or of tokens")
    return [items] if all(isinstance(one, int) for one in items) else items


def _number(options: dict[str, Any], stream: bool) -> list[dict[str, Any]]:
    """The options of n answers, each with random numbers of its own."""
    n = options.pop("n", 1)
    if not isinstance(n, int) or n < 1 or (stream and n > 1):
        raise refuse(f"n is {shown(n)}; it must be a whole number from 1, and a stream is one answer")
    seed = options.get("seed")
    if seed is None and n > 1:
        seed = time.time_ns() % 2 ** 48
    return [{**options, "seed": seed, "choice": i} for i in range(n)] if n > 1 else [options]


def _with_usage(options: dict[str, Any]) -> bool:
    asked = options.pop("stream_options", None)
    return bool(asked and asked.get("include_usage"))


def _parsed_into(response_format: Any) -> Any:
    if not is_model(response_format):
        raise refuse(f"response_format is {shown(response_format)}; parse() needs a pydantic model")
    return response_format


class _Completions:
    def __init__(self, requests: _Requests) -> None:
        self._requests = requests


class ChatCompletions(_Completions):
    def create(self, *, messages: Any, model: str | None = None, stream: bool = False, **given: Any) -> Any:
        """A response; with stream, an iterator of chunks."""
        requests, options = self._requests, self._requests.chat(given)
        with_usage = _with_usage(options)
        each = _number(options, bool(stream))
        if stream:
            answer = requests.model.chat(messages, stream=True, **options)
            chunks = _ChatChunks(requests.name, with_usage, bool(options.get("logprobs")))
            return Chunks(answer, chunks.of, chunks.first())
        return requests.whole_chat([requests.model.chat(messages, **one) for one in each], options)

    def parse(self, *, response_format: Any, **given: Any) -> Any:
        """create() with a pydantic model, whose object is message.parsed."""
        return self.create(response_format=_parsed_into(response_format), **given)


class TextCompletions(_Completions):
    def create(self, *, prompt: Any, model: str | None = None, stream: bool = False, **given: Any) -> Any:
        requests, (options, echo) = self._requests, self._requests.text(given)
        _with_usage(options)
        prompts, each = _several(prompt), _number(options, bool(stream))
        if stream:
            if len(prompts) != 1:
                raise refuse("a stream has one prompt")
            chunks = _TextChunks(requests.name)
            return Chunks(requests.model.generate(prompts[0], stream=True, **options), chunks.of, None)
        answers = [requests.model.generate(one, **how) for one in prompts for how in each]
        return requests.whole_text(answers, prompts, echo)


class Chunks(Iterator[Any]):
    """A stream of chunks; close() or the end of a with block ends the answer."""

    def __init__(self, answer: Any, of: Callable[[Piece], Iterator[Any]], first: Any) -> None:
        self._answer, self._of = answer, of
        self._waiting: list[Any] = [] if first is None else [first]

    def __iter__(self) -> Chunks:
        return self

    def __next__(self) -> Any:
        while not self._waiting:
            self._waiting.extend(self._of(next(self._answer)))
        return self._waiting.pop(0)

    def close(self) -> None:
        self._answer.close()

    def __enter__(self) -> Chunks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Embeddings(_Completions):
    def create(self, *, input: Any, model: str | None = None, encoding_format: Any = "float",
               dimensions: Any = None, **others: Any) -> Any:
        return self._requests.embeddings(input, encoding_format, dimensions, others)


class Models(_Completions):
    def list(self) -> Any:
        return self._requests.models()

    def retrieve(self, model: str) -> Any:
        return self._requests.models().data[0]


class _Chat:
    def __init__(self, completions: Any) -> None:
        self.completions = completions


class _Client:
    def __init__(self, requests: _Requests) -> None:
        self._requests = requests

    @property
    def beta(self: T) -> T:
        """Where older code finds chat.completions.parse()."""
        return self

    def with_options(self: T, **_: Any) -> T:
        """Options of connections have no effect here."""
        return self


class OpenAI(_Client):
    """client = qsf.OpenAI(model); then as with the package openai: client.chat.completions.create(...),
    client.completions, client.embeddings, client.models. model: what load() returns, or its path or name.
    name: what the model is called; the parameter model of requests is not looked at."""

    def __init__(self, model: Model | str, name: str | None = None) -> None:
        requests = _Requests(model, name)
        super().__init__(requests)
        self.chat, self.completions = _Chat(ChatCompletions(requests)), TextCompletions(requests)
        self.embeddings, self.models = Embeddings(requests), Models(requests)

    def close(self) -> None:
        """Frees the model if the client has loaded it."""
        self._requests.close()

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- for asyncio ----

class AsyncChunks(AsyncIterator[Any]):
    def __init__(self, answer: Any, of: Callable[[Piece], Iterator[Any]], first: Any) -> None:
        self._answer, self._of = answer, of
        self._waiting: list[Any] = [] if first is None else [first]

    def __aiter__(self) -> AsyncChunks:
        return self

    async def __anext__(self) -> Any:
        while not self._waiting:
            self._waiting.extend(self._of(await self._answer.__anext__()))
        return self._waiting.pop(0)

    async def close(self) -> None:
        await self._answer.aclose()

    async def __aenter__(self) -> AsyncChunks:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _all(answers: list[Awaitable[Answer]]) -> list[Answer]:
    return [await one for one in answers]


class AsyncChatCompletions(_Completions):
    async def create(self, *, messages: Any, model: str | None = None, stream: bool = False,
                     **given: Any) -> Any:
        requests, options = self._requests, self._requests.chat(given)
        with_usage = _with_usage(options)
        each = _number(options, bool(stream))
        if stream:
            chunks = _ChatChunks(requests.name, with_usage, bool(options.get("logprobs")))
            return AsyncChunks(requests.model.achat(messages, **options), chunks.of, chunks.first())
        answers = await _all([requests.model.achat(messages, **one) for one in each])
        return requests.whole_chat(answers, options)

    async def parse(self, *, response_format: Any, **given: Any) -> Any:
        return await self.create(response_format=_parsed_into(response_format), **given)


class AsyncTextCompletions(_Completions):
    async def create(self, *, prompt: Any, model: str | None = None, stream: bool = False,
                     **given: Any) -> Any:
        requests, (options, echo) = self._requests, self._requests.text(given)
        _with_usage(options)
        prompts, each = _several(prompt), _number(options, bool(stream))
        if stream:
            chunks = _TextChunks(requests.name)
            return AsyncChunks(requests.model.agenerate(prompts[0], **options), chunks.of, None)
        answers = await _all([requests.model.agenerate(one, **how) for one in prompts for how in each])
        return requests.whole_text(answers, prompts, echo)


class AsyncEmbeddings(_Completions):
    async def create(self, *, input: Any, model: str | None = None, encoding_format: Any = "float",
                     dimensions: Any = None, **others: Any) -> Any:
        import asyncio
        return await asyncio.get_running_loop().run_in_executor(
            self._requests.model._executor(),
            lambda: self._requests.embeddings(input, encoding_format, dimensions, others))


class AsyncModels(_Completions):
    def list(self) -> Any:
        return AsyncPage(self._requests.models().items())

    async def retrieve(self, model: str) -> Any:
        return self._requests.models().data[0]


class AsyncOpenAI(_Client):
    """The same for asyncio: await client.chat.completions.create(...)."""

    def __init__(self, model: Model | str, name: str | None = None) -> None:
        requests = _Requests(model, name)
        super().__init__(requests)
        self.chat, self.completions = _Chat(AsyncChatCompletions(requests)), AsyncTextCompletions(requests)
        self.embeddings, self.models = AsyncEmbeddings(requests), AsyncModels(requests)

    async def close(self) -> None:
        """Frees the model if the client has loaded it."""
        self._requests.close()

    async def __aenter__(self: T) -> T:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
