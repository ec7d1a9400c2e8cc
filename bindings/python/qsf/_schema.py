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


def _inner_model(model: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The same inside of another schema: references count from that one's root, so what they refer to moves
    to its defs, under other names if these are taken."""
    schema = schema_of_model(model)
    own = schema.pop("$defs", {})
    if any(defs.get(name, one) != one for name, one in own.items()):
        before = f"{len(defs)}."
        schema = dict(closed(model.model_json_schema(ref_template=f"#/$defs/{before}{{model}}")))
        own = {before + name: one for name, one in schema.pop("$defs").items()}
    defs.update(own)
    return schema


def _values(kinds: Any) -> dict[str, Any]:
    return {"enum": [one.value if isinstance(one, enum.Enum) else one for one in kinds]}


def schema_of(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a type annotation, inside of one that has defs as its $defs."""
    if isinstance(kind, type) and kind in BASIC:
        return {"type": BASIC[kind]}
    if kind is None:
        return {"type": "null"}
    if kind is Any or kind is inspect.Parameter.empty:
        return {}
    if is_model(kind):
        return _inner_model(kind, defs)
    if hasattr(kind, "__supertype__"):                  # a NewType
        return schema_of(kind.__supertype__, defs)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is typing.Annotated:
        texts = (one if isinstance(one, str) else getattr(one, "description", None) for one in arguments[1:])
        described = next((one for one in texts if isinstance(one, str)), None)
        return {**schema_of(arguments[0], defs), **({"description": described} if described else {})}
    if origin is Literal:
        return _values(arguments)
    if origin in _UNIONS:
        return {"anyOf": [schema_of(one, defs) for one in arguments]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _values(kind)
    if _is_typed_dict(kind):
        return _object(typing.get_type_hints(kind, include_extras=True), kind.__required_keys__, defs)
    base = origin or kind
    if _is_array(base):
        items = [one for one in arguments if one is not ...]
        return {"type": "array", **({"items": schema_of(items[0], defs)} if items else {})}
    if _is_mapping(base):
        values = {"additionalProperties": schema_of(arguments[1], defs)} if len(arguments) == 2 else {}
        return {"type": "object", **values}
    raise refuse(f"the type {shown(kind)} has no JSON schema; use str, int, float, bool, list, dict, "
                 "Literal, an Enum, a TypedDict or a pydantic model")


def _is_typed_dict(kind: Any) -> bool:
    return typing.is_typeddict(kind) if hasattr(typing, "is_typeddict") else False


def _is_array(base: Any) -> bool:
    return base in (list, tuple, set, frozenset) or getattr(base, "__name__", "") in ("Sequence", "Iterable")


def _is_mapping(base: Any) -> bool:
    return base is dict or getattr(base, "__name__", "") == "Mapping"


def _object(hints: Mapping[str, Any], required: Any, defs: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema_of(kind, defs) for name, kind in hints.items()},
            "required": [name for name in hints if name in required], "additionalProperties": False}


_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?):?\s*$"
                      r"|^\s*:(param|return)", re.M)
# "name: text", "name (type): text", ":param type name: text"; and numpy's "name : type".
_LINE = re.compile(r"\s*(?::param\s+)?(?:\w+\s+)?(\w+)\s*(?:\([^)]*\))?:[ \t]+(\S.*)$")
_NUMPY_LINE = re.compile(r"\s*(\w+)(?:\s*:.*)?()$")


def _documented(text: str, names: Any) -> tuple[str, dict[str, str]]:
    """A docstring's description, and those of the parameters with these names. Lines after a
    parameter's that are indented more belong to it."""
    is_numpy = re.search(r"^\s*Parameters\s*\n\s*-{3,}\s*$", text, re.M)
    found: dict[str, str] = {}
    name, depth = "", 0
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        begin = (_NUMPY_LINE if is_numpy else _LINE).match(line)
        if begin and begin[1] in names and begin[1] not in found:
            name, depth = begin[1], indent
            found[name] = begin[2]
        elif name and line.strip() and indent > depth:
            found[name] = f"{found[name]} {line.strip()}".strip()
        else:
            name = ""
    ends = _SECTION.search(text)
    return (text[: ends.start()] if ends else text).strip(), {one: of for one, of in found.items() if of}


def tool_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A Python function as a tool: its name, signature and docstring."""
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError) as wrong:
        raise refuse(f"the tool {shown(function)} has no signature that can be read: {wrong}") from wrong
    description, documented = _documented(inspect.getdoc(function) or "", signature.parameters)
    properties, required = {}, []
    defs: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise refuse(f"the tool {function.__name__} has the parameter {parameter}; tools are called with "
                         "named arguments")
        try:
            schema = schema_of(hints.get(name, parameter.annotation), defs)
        except RecursionError as wrong:
            raise refuse(f"the tool {function.__name__}: the type of {name} contains itself; use a pydantic "
                         "model") from wrong
        if name in documented:
            schema.setdefault("description", documented[name])
        properties[name] = schema
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "function", "function": {
        "name": function.__name__, "description": description,
        "parameters": {"type": "object", "properties": properties, "required": required,
                       "additionalProperties": False, **({"$defs": defs} if defs else {})}}}


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
    hints = typing.get_type_hints(function)
    return function(**{name: _of_type(hints.get(name), value)
                       for name, value in json.loads(arguments or "{}").items()})


def _of_type(kind: Any, value: Any) -> Any:
    """A value from JSON as the type that an annotation asks for: JSON's 2.0 is an integer, too."""
    origin, arguments = get_origin(kind), get_args(kind)
    base = origin or kind
    if hasattr(kind, "__supertype__"):
        return _of_type(kind.__supertype__, value)
    if is_model(kind):
        return kind.model_validate(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if origin is Literal:
        return next((one for one in arguments if isinstance(one, enum.Enum) and one.value == value), value)
    if origin in _UNIONS:
        return _of_union(arguments, value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if _is_array(base) and isinstance(value, list):
        items = [one for one in arguments if one is not ...]
        made = [_of_type(items[min(i, len(items) - 1)] if items else Any, one) for i, one in enumerate(value)]
        return base(made) if base in (tuple, set, frozenset) else made
    if _is_mapping(base) and isinstance(value, dict) and len(arguments) == 2:
        return {name: _of_type(arguments[1], one) for name, one in value.items()}
    if _is_typed_dict(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        return {name: _of_type(hints.get(name), one) for name, one in value.items()}
    return value


def _of_union(kinds: tuple[Any, ...], value: Any) -> Any:
    """As the first type that the value fits."""
    if type(value) in kinds:
        return value
    for kind in kinds:
        try:
            made = _of_type(kind, value)
        except (ValueError, TypeError):
            continue
        if made is not value or get_origin(kind) is not None:
            return made
    return value


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
