"""Schemas: tools from Python functions, and the forms of answers.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from . import _names
from ._messages import json_of
from .errors import refuse, shown

BASIC = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_UNIONS = (Union, getattr(types, "UnionType", Union))


def is_model(kind: object) -> bool:
    """Whether it is a pydantic model's class."""
    return isinstance(kind, type) and hasattr(kind, "model_json_schema")


def closed(schema: Any) -> Any:
    """A schema whose objects have the properties that it names and no others, as pydantic reads them."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


def schema_of_model(model: Any) -> dict[str, Any]:
    """That of a pydantic model's class."""
    return dict(closed(model.model_json_schema()))


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type annotation."""
    if kind in BASIC:
        return {"type": BASIC[kind]}
    if kind is Any or kind is inspect.Parameter.empty:
        return {}
    if is_model(kind):
        return schema_of_model(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        described = next((one for one in arguments[1:] if isinstance(one, str)), None)
        return {**schema_of(arguments[0]), **({"description": described} if described else {})}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in _UNIONS:
        return {"anyOf": [schema_of(one) for one in arguments]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [one.value for one in kind]}
    if typing.is_typeddict(kind) if hasattr(typing, "is_typeddict") else False:
        return _object(typing.get_type_hints(kind, include_extras=True), kind.__required_keys__)
    base = origin or kind
    if base in (list, tuple, set, frozenset) or getattr(base, "__name__", "") in ("Sequence", "Iterable"):
        items = [one for one in arguments if one is not ...]
        return {"type": "array", **({"items": schema_of(items[0])} if items else {})}
    if base is dict or getattr(base, "__name__", "") == "Mapping":
        values = {"additionalProperties": schema_of(arguments[1])} if len(arguments) == 2 else {}
        return {"type": "object", **values}
    raise refuse(f"the type {shown(kind)} has no JSON schema; use str, int, float, bool, list, dict, "
                 "Literal, an Enum, a TypedDict or a pydantic model")


def _object(hints: Mapping[str, Any], required: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema_of(kind) for name, kind in hints.items()},
            "required": [name for name in hints if name in required], "additionalProperties": False}


def _documented(text: str) -> tuple[str, dict[str, str]]:
    """A docstring's description, and those of parameters: "name: text", "name (type): text" and
    ":param name: text"."""
    found = dict(re.findall(r"^\s*(?::param\s+)?(?:\w+\s+)?(\w+)\s*(?:\([^)]*\))?:[ \t]+(\S.*)$", text, re.M))
    ends = re.search(r"^\s*(Args|Arguments|Parameters|Returns|Raises):?\s*$|^\s*:(param|return)", text, re.M)
    return (text[: ends.start()] if ends else text).strip(), found


def tool_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A Python function as a tool: its name, signature and docstring."""
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError) as wrong:
        raise refuse(f"the tool {shown(function)} has no signature that can be read: {wrong}") from wrong
    description, documented = _documented(inspect.getdoc(function) or "")
    properties, required = {}, []
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise refuse(f"the tool {function.__name__} has the parameter {parameter}; tools are called with "
                         "named arguments")
        schema = schema_of(hints.get(name, parameter.annotation))
        if name in documented:
            schema.setdefault("description", documented[name])
        properties[name] = schema
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "function", "function": {
        "name": function.__name__, "description": description,
        "parameters": {"type": "object", "properties": properties, "required": required,
                       "additionalProperties": False}}}


def tools_of(given: list[Any]) -> tuple[str, dict[str, Callable[..., Any]]]:
    """Tools in JSON, and the functions among them by name."""
    tools, functions = [], {}
    for one in given:
        if callable(one) and not isinstance(one, type):
            tool = tool_of(one)
            functions[tool["function"]["name"]] = one
        elif is_model(one):
            tool = {"type": "function", "function": {"name": one.__name__, "description": one.__doc__ or "",
                                                     "parameters": schema_of_model(one)}}
        elif isinstance(one, Mapping):
            tool = dict(one)
        else:
            raise refuse(f"the tool {shown(one)} is neither a function nor a dict")
        tools.append(tool)
    return json_of(tools, "tools"), functions


def called(function: Callable[..., Any], arguments: str) -> Any:
    """Calls a tool's function; arguments are those of a call, in JSON."""
    given = json.loads(arguments or "{}")
    hints = typing.get_type_hints(function)
    for name, value in given.items():
        kind = hints.get(name)
        if is_model(kind):
            given[name] = typing.cast(Any, kind).model_validate(value)
        elif isinstance(kind, type) and issubclass(kind, enum.Enum):
            given[name] = kind(value)
    return function(**given)


def result_text(value: object) -> str:
    """What a function returned, as a message's content."""
    return value if isinstance(value, str) else json_of(value, "the result of a tool")


def tool_choice_of(given: str | Mapping[str, Any]) -> str:
    if isinstance(given, str):
        return given
    function = given.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if given.get("type") != "function" or not isinstance(name, str) or not name:
        raise refuse(f'tool_choice is {shown(given)}; it must be "auto", "none", "required", a tool\'s '
                     'name, or {"type": "function", "function": {"name": ...}}')
    return name


_SCHEMA_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def _schema_in(form: Mapping[str, Any]) -> tuple[Any, bool]:
    around = form.get("json_schema", form)
    if not isinstance(around, Mapping) or not isinstance(around.get("schema"), (Mapping, bool)):
        raise refuse("the schema of response_format must be at json_schema.schema or at schema")
    return around["schema"], around.get("strict") is not True


def _member(form: Mapping[str, Any], name: str, kind: type) -> Any:
    if not isinstance(form.get(name), kind):
        raise refuse(f"response_format.{name} is {shown(form.get(name))}; it must be a {kind.__name__}")
    return form[name]


def shape_of(given: Any) -> tuple[int, str, bool] | None:
    """response_format: the kind of a grammar, its text, and whether keywords of a schema may be ignored;
    None: no constraint."""
    if is_model(given):
        return _names.GRAMMAR_JSON_SCHEMA, json_of(schema_of_model(given), "response_format"), True
    if isinstance(given, re.Pattern):
        return _names.GRAMMAR_REGEX, given.pattern, False
    if not isinstance(given, Mapping):
        raise refuse(f"response_format is {shown(given)}; it must be a dict, a pydantic model or a compiled "
                     "regular expression")
    kind = given.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return _names.GRAMMAR_JSON_SCHEMA, '{"type":"object"}', False
    if kind == "json_schema":
        schema, loose = _schema_in(given)
        return _names.GRAMMAR_JSON_SCHEMA, json_of(schema, "response_format"), loose
    if kind == "regex":
        return _names.GRAMMAR_REGEX, _member(given, "regex", str), False
    if kind == "grammar":
        return _names.GRAMMAR_GBNF, _member(given, "grammar", str), False
    if kind == "choices":
        return _names.GRAMMAR_CHOICES, json_of(_member(given, "choices", list), "response_format"), False
    if kind in _SCHEMA_TYPES or isinstance(kind, list) or any(k in given for k in ("anyOf", "enum", "$ref")):
        return _names.GRAMMAR_JSON_SCHEMA, json_of(given, "response_format"), True
    raise refuse(f"response_format.type is {shown(kind)}; it must be one of text, json_object, json_schema, "
                 "regex, grammar, choices, or the type of a JSON Schema")
