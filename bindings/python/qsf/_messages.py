"""Conversations as the engine takes them: messages in JSON.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Union

from ._answer import Answer
from .errors import refuse, shown

# A string is what the user says. A message is a dict with a role and a content, an answer, or an
# object of another package with model_dump(), as those of openai have.
Message = Mapping[str, Any]
Messages = Union[str, Iterable[Union[Message, Answer, Any]]]


def _plain(value: object) -> object:
    """For json: what it does not know by itself."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(exclude_none=True)
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def json_of(value: object, what: str) -> str:
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise refuse(f"{what} cannot be written as JSON: {wrong}") from wrong


def _check(message: dict[str, Any], i: int) -> None:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        raise refuse(f"the role of message {i} is {shown(role)}; it must be a string")
    if content is None and message.get("tool_calls"):
        return
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        text = part.get("text", "") if isinstance(part, Mapping) and part is not content else part
        if not isinstance(text, str):
            raise refuse(f"the content of message {i} is {shown(text)}; it must be a string, or a list of "
                         "parts")
        if "\0" in text:
            raise refuse(f"the content of message {i} has a zero byte, which no template accepts")


def messages_of(given: Messages) -> list[dict[str, Any]]:
    """A checked copy of a conversation."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if isinstance(given, (bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise refuse(f"the messages are {shown(given)}; they must be a string, or a list of dicts with role "
                     "and content")
    messages = []
    for i, one in enumerate(given):
        raw = one.message if isinstance(one, Answer) else one
        if not isinstance(raw, Mapping):
            try:
                raw = _plain(raw)
            except TypeError:
                raw = None
        if not isinstance(raw, Mapping):
            raise refuse(f"message {i} is {shown(one)}; it must be a dict with role and content")
        message = json.loads(json_of(dict(raw), f"message {i}"))
        _check(message, i)
        messages.append(message)
    return messages
