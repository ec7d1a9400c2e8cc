"""A chat model and embeddings for LangChain, in this process. Needs the package langchain-core.
SPDX-License-Identifier: MIT

    from qsf.langchain import ChatQsf

    model = ChatQsf(model="model.gguf", temperature=0)
    print(model.invoke("Why is the sky blue?").content)
"""
from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import Field, PrivateAttr, model_validator

from ._answer import Answer, Piece, ToolCall
from ._openai import _choice
from ._options import CALLS, hint
from ._schema import closed, is_model
from .errors import refuse
from .model import Model, load


def _model_of(model: Any, options: Mapping[str, Any]) -> Model:
    if isinstance(model, Model):
        if options:
            raise refuse(f"{min(options)} is an option of load(), and the model is loaded")
        return model
    return load(model, **options)


def _parts(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as LangChain has them; what is not an object in JSON is an invalid call."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError as wrong:
        return {"invalid_tool_calls": [{"type": "invalid_tool_call", "id": call.id, "name": call.name,
                                        "args": call.arguments, "error": str(wrong)}]}
    return {"tool_calls": [{"type": "tool_call", "id": call.id, "name": call.name, "args": arguments}]}


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens, "input_token_details": {"cache_read": usage.cached_tokens}}


def _about(answer: Answer, name: str) -> dict[str, Any]:
    about: dict[str, Any] = {"finish_reason": answer.finish_reason, "model_name": name}
    if answer.logprobs:
        about["logprobs"] = _choice(answer, 0, True)["logprobs"]
    return about


def _message(answer: Answer, name: str) -> AIMessage:
    calls: dict[str, list[Any]] = {"tool_calls": [], "invalid_tool_calls": []}
    for call in answer.tool_calls:
        for kind, found in _parts(call).items():
            calls[kind] += found
    more = {"reasoning_content": answer.reasoning} if answer.reasoning else {}
    return AIMessage(content=answer.text, additional_kwargs=more, usage_metadata=_usage(answer),
                     response_metadata=_about(answer, name), **calls)


class _Chunks:
    """What becomes of an answer's pieces in a stream."""

    def __init__(self, name: str) -> None:
        self._name, self._n_calls = name, 0

    def of(self, piece: Piece) -> ChatGenerationChunk | None:
        calls = [{"type": "tool_call_chunk", "index": self._n_calls + i, "id": call.id, "name": call.name,
                  "args": call.arguments} for i, call in enumerate(piece.tool_calls)]
        self._n_calls += len(calls)
        if not (piece or piece.reasoning or calls or piece.answer):
            return None
        more: dict[str, Any] = {"tool_call_chunks": calls}
        if piece.reasoning:
            more["additional_kwargs"] = {"reasoning_content": piece.reasoning}
        if piece.answer:
            more.update(usage_metadata=_usage(piece.answer), chunk_position="last",
                        response_metadata=_about(piece.answer, self._name))
        return ChatGenerationChunk(message=AIMessageChunk(content=str(piece), **more))


class ChatQsf(BaseChatModel):
    """A chat model. model: what load() takes, or a Model; further arguments are options of load() and of
    chat(). Without max_tokens an answer ends when the model ends it."""

    model: Any
    load_options: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    _loaded: Model = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, given: Any) -> Any:
        """Options of ours out of the arguments."""
        rest: dict[str, Any] = {}
        kinds = {"load_options": dict(given.get("load_options") or {}),
                 "options": dict(given.get("options") or {})}
        for name, value in given.items():
            if name in cls.model_fields:
                rest[name] = value
            elif name in CALLS["load"]:
                kinds["load_options"][name] = value
            elif name in CALLS["chat"]:
                kinds["options"][name] = value
            else:
                raise refuse(f"no option is called {name}; {hint(name, 'chat')}")
        return {**rest, **kinds}

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._loaded = _model_of(self.model, self.load_options)

    @property
    def _llm_type(self) -> str:
        return "qsf"

    @property
    def _name(self) -> str:
        return self._loaded.info.name or "qsf"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": str(self._loaded.path), **self.load_options, **self.options}

    def close(self) -> None:
        """Frees the model."""
        self._loaded.close()

    def _asked(self, messages: list[BaseMessage], stop: list[str] | None,
               given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        options = {"max_tokens": math.inf, **self.options, **given}
        if stop is not None:
            options["stop"] = stop
        return list(convert_to_openai_messages(messages)), options

    def _result(self, answer: Answer) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_message(answer, self._name))])

    def _generate(self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None,
                  **given: Any) -> ChatResult:
        said, options = self._asked(messages, stop, given)
        return self._result(self._loaded.chat(said, **options))

    async def _agenerate(self, messages: list[BaseMessage], stop: list[str] | None = None,
                         run_manager: Any = None, **given: Any) -> ChatResult:
        said, options = self._asked(messages, stop, given)
        return self._result(await self._loaded.achat(said, **options))

    def _stream(self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None,
                **given: Any) -> Iterator[ChatGenerationChunk]:
        said, options = self._asked(messages, stop, given)
        chunks = _Chunks(self._name)
        with self._loaded.chat(said, stream=True, **options) as answer:
            for piece in answer:
                chunk = chunks.of(piece)
                if chunk is None:
                    continue
                if run_manager:
                    run_manager.on_llm_new_token(str(piece), chunk=chunk)
                yield chunk

    async def _astream(self, messages: list[BaseMessage], stop: list[str] | None = None,
                       run_manager: Any = None, **given: Any) -> AsyncIterator[ChatGenerationChunk]:
        said, options = self._asked(messages, stop, given)
        chunks = _Chunks(self._name)
        async with self._loaded.achat(said, **options) as answer:
            async for piece in answer:
                chunk = chunks.of(piece)
                if chunk is None:
                    continue
                if run_manager:
                    await run_manager.on_llm_new_token(str(piece), chunk=chunk)
                yield chunk

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, strict: bool | None = None,
                   **given: Any) -> Runnable[Any, Any]:
        """The model with tools: functions, LangChain's tools, pydantic models or dicts. tool_choice: "auto",
        "none", "any", or a tool's name. Calls are always as the tools' schemas say, also without strict."""
        if tool_choice in ("any", True):
            tool_choice = "required"
        if tool_choice:
            given["tool_choice"] = tool_choice
        return super().bind(tools=[convert_to_openai_tool(tool) for tool in tools], **given)

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, method: str = "json_schema",
                               **given: Any) -> Runnable[Any, Any]:
        """Answers as objects of a schema. method: "json_schema" (a grammar keeps the answer to the schema),
        "function_calling" or "json_mode"."""
        if method == "function_calling":
            return super().with_structured_output(schema, include_raw=include_raw, **given)
        given.pop("strict", None)
        if given or method not in ("json_schema", "json_mode"):
            raise refuse(f"with_structured_output() has no {min(given, default=f'method {method}')}; its "
                         "methods are json_schema, function_calling and json_mode")
        form = {"type": "json_object"} if method == "json_mode" else closed(convert_to_json_schema(schema))
        asked = super().bind(response_format=form, ls_structured_output_format={
            "kwargs": {"method": method}, "schema": schema})
        parser: Any = PydanticOutputParser(pydantic_object=schema) if is_model(schema) else JsonOutputParser()
        if not include_raw:
            return asked | parser
        read = RunnablePassthrough.assign(parsed=_raw | parser, parsing_error=_none)
        return RunnableMap(raw=asked) | read.with_fallbacks([RunnablePassthrough.assign(parsed=_none)],
                                                            exception_key="parsing_error")

    def get_token_ids(self, text: str) -> list[int]:
        return self._loaded.tokenize(text)


def _raw(found: Mapping[str, Any]) -> Any:
    return found["raw"]


def _none(found: Any) -> None:
    return None


class QsfEmbeddings(Embeddings):
    """Embeddings. model: what load() takes, or a Model; further arguments are options of load()."""

    def __init__(self, model: Any, **options: Any) -> None:
        self.model = _model_of(model, options)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [row.tolist() for row in self.model.embed(texts)]

    def embed_query(self, text: str) -> list[float]:
        return list(self.model.embed(text).tolist())
