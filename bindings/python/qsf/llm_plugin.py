"""A plugin for the command llm: models in this process. `llm qsf add NAME MODEL` makes one known.
SPDX-License-Identifier: MIT

llm finds it by the package's entry point.
"""
from __future__ import annotations

import json
import pathlib
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Optional, get_type_hints

import click
import llm
from llm.parts import StreamEvent
from pydantic import create_model

from ._answer import Answer, Piece
from ._hub import name_of
from ._option_types import ContextOptions, SamplingOptions
from ._options import CALLS
from ._schema import closed
from .model import Model, load

_FILE = "qsf-models.json"
_MODELS: dict[str, Model] = {}      # by file and options: those that are loaded


def _hints(options: Any) -> dict[str, Any]:
    return {name: (kind, None) for name, kind in get_type_hints(options).items()}


# The options after -o: those of load() and of answers, with their types.
_Options: Any = create_model(
    "Options", __base__=llm.Options, max_tokens=(Optional[int], None), stop=(Optional[str], None),
    template=(Optional[str], None), device=(Optional[str], None), **_hints(ContextOptions),
    **_hints(SamplingOptions))


def _known() -> dict[str, str]:
    """Models by name, as the user has added them."""
    path = llm.user_dir() / _FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _keep(known: dict[str, str]) -> None:
    (llm.user_dir() / _FILE).write_text(json.dumps(known, indent=1), encoding="utf-8")


def _text(part: Any) -> str:
    text = getattr(part, "text", None)
    if not isinstance(text, str):
        raise llm.ModelError(f"this model reads no {type(part).__name__}")
    return text


def _messages_of(message: Any) -> Iterator[dict[str, Any]]:
    """One message of llm's in OpenAI's form: of results of tools, one for each."""
    texts, calls, reasoning = [], [], ""
    for part in message.parts:
        kind = type(part).__name__
        if kind == "ToolResultPart":
            yield {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.name,
                   "content": part.exception or part.output}
        elif kind == "ToolCallPart":
            calls.append({"id": part.tool_call_id, "type": "function", "function": {
                "name": part.name, "arguments": json.dumps(part.arguments)}})
        elif kind == "ReasoningPart":
            reasoning += part.text
        else:
            texts.append(_text(part))
    if texts or calls:
        yield {"role": message.role, "content": "\n".join(texts), **({"tool_calls": calls} if calls else {}),
               **({"reasoning_content": reasoning} if reasoning else {})}


class _Shared:
    """What the model for asyncio and the other one have in common."""

    can_stream = supports_tools = supports_schema = True
    Options = _Options

    def __init__(self, model_id: str, place: str) -> None:
        self.model_id, self._place = model_id, place

    def _asked(self, prompt: Any) -> tuple[Model, list[dict[str, Any]], dict[str, Any]]:
        given = {name: value for name, value in prompt.options if value is not None}
        loading = {name: given.pop(name) for name in list(given) if name in CALLS["load"]}
        key = json.dumps([self._place, loading], sort_keys=True)
        if key not in _MODELS:
            _MODELS[key] = load(self._place, **loading)
        tools = [{"type": "function", "function": {"name": tool.name, "description": tool.description or "",
                                                   "parameters": tool.input_schema}} for tool in prompt.tools]
        if tools:
            given["tools"] = tools
        if prompt.schema:
            given["response_format"] = {"type": "json_schema", "json_schema": {
                "schema": closed(prompt.schema)}}
        given.setdefault("max_tokens", float("inf"))
        return _MODELS[key], [one for message in prompt.messages for one in _messages_of(message)], given


def _events(piece: Piece, response: Any) -> Iterator[StreamEvent]:
    if piece.reasoning:
        yield StreamEvent(type="reasoning", chunk=piece.reasoning)
    if piece:
        yield StreamEvent(type="text", chunk=str(piece))
    for call in piece.tool_calls:
        yield StreamEvent(type="tool_call_name", chunk=call.name, tool_call_id=call.id)
        yield StreamEvent(type="tool_call_args", chunk=call.arguments, tool_call_id=call.id)
        response.add_tool_call(llm.ToolCall(name=call.name, arguments=json.loads(call.arguments or "{}"),
                                            tool_call_id=call.id))
    if piece.answer:
        _tell(piece.answer, response)


def _tell(answer: Answer, response: Any) -> None:
    usage = answer.usage
    response.set_usage(input=usage.prompt_tokens, output=usage.completion_tokens,
                       details={"cached_tokens": usage.cached_tokens} if usage.cached_tokens else None)
    response.response_json = {"finish_reason": answer.finish_reason}


class QsfModel(_Shared, llm.Model):
    """A model of llm."""

    def execute(self, prompt: Any, stream: bool, response: Any,
                conversation: Any = None) -> Iterator[StreamEvent]:
        model, messages, options = self._asked(prompt)
        with model.chat(messages, stream=True, **options) as answer:
            for piece in answer:
                yield from _events(piece, response)


class AsyncQsfModel(_Shared, llm.AsyncModel):
    """The same for asyncio."""

    async def execute(self, prompt: Any, stream: bool, response: Any,
                      conversation: Any = None) -> AsyncGenerator[StreamEvent, None]:
        model, messages, options = self._asked(prompt)
        async with model.achat(messages, **options) as answer:
            async for piece in answer:
                for event in _events(piece, response):
                    yield event


@llm.hookimpl
def register_models(register: Any) -> None:
    for name, place in _known().items():
        register(QsfModel(name, place), AsyncQsfModel(name, place))


@llm.hookimpl
def register_commands(cli: Any) -> None:
    @cli.group(name="qsf")
    def group() -> None:
        """Models that run in this process (libqsf)"""

    @group.command()
    @click.argument("name")
    @click.argument("model")
    def add(name: str, model: str) -> None:
        """Call a MODEL (a QSF or GGUF file, or OWNER/REPO of Hugging Face's hub) NAME"""
        place = pathlib.Path(model).expanduser()
        if not place.exists() and not name_of(model):
            raise click.ClickException(f"{model}: no such file")
        _keep({**_known(), name: str(place.resolve()) if place.exists() else model})

    @group.command()
    @click.argument("name")
    def remove(name: str) -> None:
        """Forget NAME; its file stays"""
        known = _known()
        if known.pop(name, None) is None:
            raise click.ClickException(f"no model is called {name}")
        _keep(known)

    @group.command(name="list")
    def list_() -> None:
        """The models that were added"""
        for name, place in sorted(_known().items()):
            click.echo(f"{name}  {place}")
