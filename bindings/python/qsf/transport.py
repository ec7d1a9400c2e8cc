"""The HTTP client of the package openai with a model of this process in place of a server, for frameworks
that are built on openai: Haystack, LlamaIndex, Instructor, ... Needs the package openai.
SPDX-License-Identifier: MIT

    from qsf.transport import http_client

    client = openai.OpenAI(api_key="none", http_client=http_client(model))
"""
from __future__ import annotations

import importlib
import importlib.util
import json
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import openai

from ._openai import AsyncOpenAI, OpenAI
from .errors import QsfError
from .model import Model

# openai has changed from httpx to httpx2, and takes clients of both; frameworks may use either.
_BOTH: list[Any] = [importlib.import_module(name) for name in ("httpx2", "httpx")
                    if importlib.util.find_spec(name)]


def _package_of(kind: type) -> Any:
    return importlib.import_module(kind.__module__.split(".")[0])


# Classes that are those of all packages.
_http: Any = types.SimpleNamespace(**{
    name: type(name, tuple(getattr(package, name) for package in _BOTH), {})
    for name in ("SyncByteStream", "AsyncByteStream", "BaseTransport", "AsyncBaseTransport")})
_CALLS: dict[str, Callable[[Any], Any]] = {
    "/chat/completions": lambda client: client.chat.completions.create,
    "/completions": lambda client: client.completions.create,
    "/embeddings": lambda client: client.embeddings.create,
}
_THEIR_FAULT = ("ARGUMENT", "FULL", "NOT_FOUND", "UNSUPPORTED")      # openai repeats others


def _event(value: str) -> bytes:
    return f"data: {value}\n\n".encode()


def _refused(wrong: QsfError) -> dict[str, Any]:
    return {"error": {"message": str(wrong), "type": "invalid_request_error", "param": None,
                      "code": wrong.code.lower()}}


def _failed(request: Any, wrong: QsfError) -> Any:
    status = 400 if wrong.code in _THEIR_FAULT else 500
    return _package_of(type(request)).Response(status, json=_refused(wrong))


def _call_of(client: Any, path: str) -> Callable[..., Any] | None:
    found = next((call for end, call in _CALLS.items() if path.endswith(end)), None)
    return found(client) if found else None


def _asked(request: Any) -> dict[str, Any]:
    return dict(json.loads(request.content or b"{}"))


def _other(client: OpenAI, request: Any) -> Any:
    """The answer to other requests: the model, a list of it, or an error."""
    response = _package_of(type(request)).Response
    if request.method == "GET" and request.url.path.endswith("/models"):
        return response(200, json=client.models.list())
    if request.method == "GET" and "/models/" in request.url.path:
        return response(200, json=client.models.retrieve("any"))
    message = f"a model in this process has no {request.method} {request.url.path}"
    return response(404, json={"error": {"message": message, "type": "invalid_request_error"}})


class _Events(_http.SyncByteStream):
    """A stream of chunks as server-sent events; closing it ends the answer."""

    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._chunks:
                yield _event(chunk.model_dump_json())
            yield _event("[DONE]")
        except QsfError as wrong:
            yield _event(json.dumps(_refused(wrong)))

    def close(self) -> None:
        self._chunks.close()


class _AsyncEvents(_http.AsyncByteStream):
    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield _event(chunk.model_dump_json())
            yield _event("[DONE]")
        except QsfError as wrong:
            yield _event(json.dumps(_refused(wrong)))

    async def aclose(self) -> None:
        await self._chunks.close()


def _response(request: Any, found: Any, events: Any) -> Any:
    response = _package_of(type(request)).Response
    if events is None:
        return response(200, json=found.model_dump())
    return response(200, headers={"Content-Type": "text/event-stream"}, stream=events)


class Transport(_http.BaseTransport):
    """Answers requests for the OpenAI API."""

    def __init__(self, model: Model, name: str | None = None) -> None:
        self._client = OpenAI(model, name)

    def handle_request(self, request: Any) -> Any:
        request.read()
        call = _call_of(self._client, request.url.path)
        if call is None:
            return _other(self._client, request)
        try:
            asked = _asked(request)
            found = call(**asked)
            return _response(request, found, _Events(found) if asked.get("stream") else None)
        except QsfError as wrong:
            return _failed(request, wrong)


class AsyncTransport(_http.AsyncBaseTransport):
    """The same for asyncio."""

    def __init__(self, model: Model, name: str | None = None) -> None:
        self._client, self._plain = AsyncOpenAI(model, name), OpenAI(model, name)

    async def handle_async_request(self, request: Any) -> Any:
        await request.aread()
        call = _call_of(self._client, request.url.path)
        if call is None:
            return _other(self._plain, request)
        try:
            asked = _asked(request)
            found = await call(**asked)
            return _response(request, found, _AsyncEvents(found) if asked.get("stream") else None)
        except QsfError as wrong:
            return _failed(request, wrong)


def http_client(model: Model, name: str | None = None) -> Any:
    """For openai.OpenAI(http_client=...). name: what the model is called in answers."""
    return _package_of(openai.DefaultHttpxClient.__mro__[1]).Client(transport=Transport(model, name))


def async_http_client(model: Model, name: str | None = None) -> Any:
    """For openai.AsyncOpenAI(http_client=...)."""
    package = _package_of(openai.DefaultAsyncHttpxClient.__mro__[1])
    return package.AsyncClient(transport=AsyncTransport(model, name))
