"""The options of each call and their checks: an invalid value is an error that names the option, shows
the value and describes the valid ones.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from . import _native
from ._native import encoded
from ._peers import PEERS
from .errors import refuse, shown

__all__ = ["checked", "encoded", "engine_texts", "ids_of", "path_of", "text_of"]

# What Python calls options whose name is not the engine's with "_" for "-".
RENAMED = {"ctx-size": "context_length"}
# Options that load() sets by itself.
NOT_LOADED = {"seqs", "logits", "device-layers"}


class Kind:
    """Of a value: take(value) returns what the call uses, or None for an invalid value."""

    def __init__(self, take: Callable[[Any], Any], possible: str, engine: str | None = None) -> None:
        self.take, self.possible, self.engine = take, possible, engine


def as_whole(value: Any) -> int | None:
    """None: not a whole number."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError):
        return None


def whole(least: float, most: float, engine: str | None = None) -> Kind:
    def take(value: Any) -> int | None:
        n = as_whole(value)
        return n if n is not None and least <= n <= most else None
    return Kind(take, f"it must be a whole number from {int(least)} to {int(most)}", engine)


def real(least: float, most: float, engine: str | None = None) -> Kind:
    def take(value: Any) -> float | None:
        if isinstance(value, (bool, str, bytes)):
            return None
        try:
            x = float(value)
        except (TypeError, ValueError, OverflowError):
            return None
        return x if least <= x <= most else None
    return Kind(take, f"it must be a number from {least:g} to {most:g}", engine)


def flag(engine: str | None = None) -> Kind:
    return Kind(lambda v: v if isinstance(v, bool) else None, "it must be True or False", engine)


def word(words: list[str], engine: str | None = None) -> Kind:
    return Kind(lambda v: v if isinstance(v, str) and v in words else None,
                "it must be one of " + ", ".join(words), engine)


def among(numbers: list[int]) -> Kind:
    def take(value: Any) -> int | None:
        n = as_whole(value)
        return n if n in numbers else None
    return Kind(take, "it must be one of " + ", ".join(map(str, numbers)))


def name(what: str, engine: str | None = None) -> Kind:
    return Kind(lambda v: v if isinstance(v, str) and v and "\0" not in v else None, f"it must be {what}",
                engine)


def listing(of: type | tuple[type, ...], what: str) -> Kind:
    def take(value: Any) -> list[Any] | None:
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            return None
        items = list(value)
        return items if all(isinstance(item, of) for item in items) else None
    return Kind(take, f"it must be a list of {what}")


def texts() -> Kind:
    inner = listing(str, "strings")

    def take(value: Any) -> list[str] | None:
        items = [value] if isinstance(value, str) else inner.take(value)
        return items if items is not None and all(items) else None
    return Kind(take, "it must be a string or a list of strings, none of them empty")


def _most_tokens(value: Any) -> int | None:
    if isinstance(value, float):
        if value == math.inf:
            return -1
        value = int(value) if value.is_integer() else None
    n = as_whole(value)
    return n if n is not None and -1 <= n <= 2 ** 53 else None


BIAS = real(-math.inf, sys.float_info.max)


def _biases(value: Any) -> list[tuple[int, float]] | None:
    if not isinstance(value, Mapping):
        return None
    pairs = []
    for token, bias in value.items():
        number = int(token) if isinstance(token, str) and token.isdecimal() else token
        number = as_whole(number)
        weight = BIAS.take(bias)
        if number is None or not 0 <= number < 2 ** 31 or weight is None:
            return None
        pairs.append((number, weight))
    return pairs


def _engine_rows(which: str) -> dict[str, Kind]:
    """The rows of one of the engine's lists, by our names."""
    makers: dict[int, Callable[[Any, str], Kind]] = {
        0: lambda row, engine: flag(engine),
        1: lambda row, engine: whole(row.least, row.most, engine),
        2: lambda row, engine: real(row.least, row.most, engine),
        3: lambda row, engine: word(_native.string(row.choices).split("|"), engine),
        4: lambda row, engine: name("a string", engine),
    }
    found = {}
    for row in _native.rows_of(which):
        engine = _native.string(row.name)
        found[RENAMED.get(engine, engine.replace("-", "_"))] = makers[int(row.kind)](row, engine)
    return found


def _context() -> dict[str, Kind]:
    return {ours: kind for ours, kind in _engine_rows("context").items() if kind.engine not in NOT_LOADED}


ADAPTERS = Kind(lambda v: list(v) if isinstance(v, (list, tuple)) else None,
                "it must be a list of adapters, or of pairs (adapter, scale)")
GIVEN = Kind(lambda v: v, "")
GENERATE: dict[str, Kind] = {
    "max_tokens": Kind(_most_tokens, "it must be a whole number, or math.inf"),
    **_engine_rows("sampler"),
    **{ours: kind for ours, kind in _engine_rows("turn").items()
       if ours in ("min_tokens", "ignore_end", "reasoning_budget")},
    "choice": whole(0, 2 ** 32, "choice"),
    "stop": texts(), "banned_texts": texts(), "dry_sequence_breakers": texts(),
    "logit_bias": Kind(_biases, "it must be a dict {token id: bias}"),
    "logprobs": flag(), "top_logprobs": whole(0, 100),
    "response_format": GIVEN,
    "json_blanks": whole(-1, 2 ** 31),
    "adapters": ADAPTERS,
}
TEMPLATE: dict[str, Kind] = {
    "template": name("a template's name, or its text", "chat-template"),
    "tools": Kind(lambda v: list(v) if isinstance(v, (list, tuple)) else None,
                  "it must be a list of functions, or of tools in OpenAI's form"),
    "documents": listing(Mapping, "documents, each a dict"),
    "chat_template_kwargs": Kind(lambda v: v if isinstance(v, Mapping) else None, "it must be a dict"),
    "continue_final_message": flag("continue-final-message"),
}
HUB: dict[str, Kind] = {
    "progress": Kind(lambda v: v if callable(v) else None, "it must be a function"),
    "hub": name("an address, such as https://huggingface.co"), "offline": flag(),
}
SWITCH = ["auto", "off", "on"]
CONVERT: dict[str, Kind] = {
    "quant_type": name("the name of a type"),
    "tensors": Kind(lambda v: v if isinstance(v, Mapping) and all(
        isinstance(one, str) for pair in v.items() for one in pair) else None,
        "it must be a dict {pattern: type}"),
    "block": among([32, 64, 128, 256]), "packing": among([0, 1]),
    "target_size": real(0, 1e9), "target_kl": real(0, 1e3), "ram": real(0, 1e9),
    "prefer": word(["size", "speed"]), "outliers": word(SWITCH), "equalize": word(SWITCH),
    "share_embedding": word(SWITCH), "compress": word(["none", "lz4", "lz4hc", "zstd"]),
    "merge_lora": Kind(lambda v: list(v) if isinstance(v, (list, tuple)) else None,
                       "it must be a list of paths, or of pairs (path, scale)"),
    "i2s_layout": name("the name of a layout"), "calibrate": name('the path of a text, or "self"'),
    "calibration_file": name("a path"), "calibration": name("the path of a text"),
    "effort": whole(-1, 4), "tune_steps": whole(0, 10 ** 6), "tune_codes": flag(), "progressive": flag(),
    "head_clusters": whole(0, 65536), "embedding_clusters": whole(0, 65536), "threads": whole(0, 256),
}
CALLS: dict[str, dict[str, Kind]] = {
    "load": {**_context(), "max_parallel": whole(0, 256), "draft_mtp": flag(),
             "device": word(["cpu", "gpu"]), "gpu_layers": whole(1, 2 ** 24), "gpu_memory": real(0, 1e7),
             "vocab_only": flag(), "i2s_layout": name("the name of a layout"), **HUB},
    "pull": {**HUB, "ram_budget": real(0, 1e9)},
    "convert": CONVERT,
    "generate": GENERATE,
    "chat": {**GENERATE, **TEMPLATE,
             "tool_choice": Kind(lambda v: v if isinstance(v, (str, Mapping)) else None,
                                 'it must be "auto", "none", "required" or a tool\'s name'),
             "parallel_tool_calls": flag("parallel-tool-calls"), "max_tool_rounds": whole(1, 10 ** 6)},
    "render": TEMPLATE,
    "tokenize": {"add_special": flag(), "parse_special": flag()},
    "detokenize": {"special": flag()},
    "stream": {"stream": flag()},
    "logits": {"every": flag()},
    "embed": {"pooling": word(["auto", "mean", "cls", "last", "rank", "none"]), "normalize": flag(),
              "adapters": ADAPTERS},
    "rerank": {"top_n": whole(1, 2 ** 53), "adapters": ADAPTERS},
    "load_adapter": {"scale": real(-1e6, 1e6)},
}
# Names that no option replaces.
WORDS = {
    "model": "load() chooses the model", "modelpath": "the path is load()'s first argument",
    "n": "an answer is one: ask several times, each with its own choice: 0, 1, ...",
    "dosample": "temperature=0 takes the most likely token",
    "system": "the system's words are a message with the role system",
    "systemprompt": "the system's words are a message with the role system",
    "messages": "messages are chat()'s first argument", "prompt": "the prompt is the first argument",
    "verbose": "the library prints nothing", "flashattn": "attention is always computed in that way",
    "usemmap": "the library reads files by itself", "usemlock": "the library reads files by itself",
}


def _plain(called: str) -> str:
    return called.lower().replace("_", "").replace("-", "")


def hint(called: str, call: str) -> str:
    """What to do about an unknown option of a call."""
    given, known = _plain(called), CALLS[call]
    ours = [one for one, others in PEERS.items() if given in others.split() or given == _plain(one)]
    here = next((one for one in [*known, *ours] if one in known and (_plain(one) == given or one in ours)),
                None)
    if here:
        return f"its name here is {here}"
    for other, options in CALLS.items():
        if other == "stream":
            continue
        there = next((one for one in options if _plain(one) == given or one in ours), None)
        if there:
            return f"{there} is an option of {other}()"
    if given in WORDS:
        return WORDS[given]
    import difflib
    near = difflib.get_close_matches(called, known, 1)
    return f"did you mean {near[0]}?" if near else "there are " + ", ".join(known)


def checked(call: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, as calls use them; None is the default."""
    table, all_ = CALLS[call], {}
    for called, value in options.items():
        if called not in table:
            raise refuse(f"no option of {call}() is called {called}; {hint(called, call)}")
        if value is None:
            continue
        taken = table[called].take(value)
        if taken is None:
            raise refuse(f"{called} is {shown(value)}; {table[called].possible}")
        all_[called] = taken
    if all_.get("top_logprobs") and not all_.get("logprobs"):
        raise refuse("top_logprobs comes with the log probability of each token: it needs logprobs=True")
    return all_


def engine_texts(call: str, options: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Those that the engine has itself, by its names."""
    table = CALLS[call]
    return [(engine, value) for called, value in options.items() if (engine := table[called].engine)]


def text_of(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise refuse(f"the {what} is {shown(value)}; it must be a string")
    return value


def ids_of(value: Any, vocabulary: int, what: str = "tokens") -> list[int]:
    """A checked copy of a list of token ids."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise refuse(f"the {what} are {shown(value)}; they must be a list of token ids")
    ids = []
    for i, one in enumerate(value):
        token = as_whole(one)
        if token is None or not 0 <= token < vocabulary:
            raise refuse(f"token {i} is {shown(one)}; the model's are whole numbers from 0 to "
                         f"{vocabulary - 1}")
        ids.append(token)
    return ids


def path_of(value: object) -> bytes:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise refuse(f"the path is {shown(value)}; it must be a string or a path")
    path = os.path.expanduser(os.fspath(value))
    if "\0" in str(path):
        raise refuse("the path has a zero byte")
    try:
        return os.fsencode(path)
    except UnicodeEncodeError as wrong:
        raise refuse(f"the path is {shown(value)}, which no file can have: {wrong}") from wrong
