"""Converting: GGUF files, Hugging Face folders and QSF files into QSF files.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union

from . import _hub, _native, _options
from ._native import ffi, lib
from ._progress import OnProgress, Progress, Work
from .errors import refuse, shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

log = logging.getLogger("qsf")
Switch = Literal["auto", "off", "on"]


class ConvertOptions(TypedDict, total=False):
    """Options of convert(): those of qsf-convert, which `python -m qsf convert --help` describes."""

    quant_type: Optional[str]           # "auto" (the default), "4bit", "8bit", "mixed", ...
    tensors: Optional[Mapping[str, str]]        # {pattern: type or "type:block"}; the last match applies
    block: Optional[Literal[32, 64, 128, 256]]
    target_size: Optional[float]        # megabytes
    target_kl: Optional[float]
    prefer: Optional[Literal["size", "speed"]]
    outliers: Optional[Switch]
    equalize: Optional[Switch]
    share_embedding: Optional[Switch]
    merge_lora: Optional[list[Union[str, "os.PathLike[str]", "tuple[str, float]"]]]
    i2s_layout: Optional[str]
    calibrate: Optional[str]            # a text file, or "self"
    calibration_file: Optional[str]
    calibration: Optional[str]          # a text file
    effort: Optional[int]               # -1 to 4
    tune_steps: Optional[int]
    tune_codes: Optional[bool]
    compress: Optional[Literal["none", "lz4", "lz4hc", "zstd"]]
    progressive: Optional[bool]
    packing: Optional[Literal[0, 1]]
    head_clusters: Optional[int]
    embedding_clusters: Optional[int]
    threads: Optional[int]
    ram: Optional[float]                # megabytes


@dataclass(frozen=True)
class ConvertedTensor:
    """A tensor of the new file."""

    name: str                   # in the input
    kind: str                   # "attn_q"
    type: str                   # "4bit_s"
    rows: int
    cols: int
    bytes: int
    relative_error: float
    cosine: float


@dataclass(frozen=True)
class Converted:
    """What a conversion wrote."""

    path: str
    architecture: str
    weights: int
    source_bytes: int
    tensor_bytes: int
    file_bytes: int
    seconds: float
    relative_error: float       # of all matrices
    cosine: float
    estimated_kl: float         # nats per token, from the weights' errors; 0: nothing was quantised
    predicted_kl: float         # from measurements; 0: nothing was predicted
    tensors: tuple[ConvertedTensor, ...]


# Members of qsf_convert_options, and how a checked option becomes their value.
_PLAIN = {"block": "block", "packing": "packing", "effort": "effort", "tune_steps": "tune_steps",
          "tune_codes": "tune_codes", "progressive": "progressive", "head_clusters": "head_clusters",
          "embedding_clusters": "embd_clusters", "threads": "n_threads", "target_kl": "target_kl"}
_BYTES = {"target_size": "target_bytes", "ram": "ram_bytes"}
_WORDS = {"outliers": ("outliers", ["auto", "off", "on"]), "equalize": ("equalize", ["auto", "off", "on"]),
          "share_embedding": ("share_embedding", ["auto", "off", "on"]),
          "compress": ("compression", ["none", "lz4", "lz4hc", "zstd"]),
          "prefer": ("prefer", ["size", "speed"])}
_TEXTS = {"calibrate": "calibrate", "calibration_file": "calibration_file", "calibration": "calibration"}
# They say how to work, and leave the weights alone.
_NOT_ABOUT_WEIGHTS = {"calibration", "threads", "ram"}


class _Filled:
    """qsf_convert_options, with what its members point to."""

    def __init__(self, taken: Mapping[str, Any]) -> None:
        self.kept: list[Any] = []
        self.options = o = ffi.new("qsf_convert_options *")
        lib.qsf_convert_defaults_of(o, ffi.sizeof("qsf_convert_options"))
        sized = taken.get("target_size") or taken.get("target_kl")
        o.preset = lib.QSF_CONVERT_4BIT if sized else lib.QSF_CONVERT_BY_LOSS
        self._names(o, taken)
        for name, value in taken.items():
            if name in _PLAIN:
                setattr(o, _PLAIN[name], value)
            elif name in _BYTES:
                setattr(o, _BYTES[name], int(value * 1e6))
            elif name in _WORDS:
                member, words = _WORDS[name]
                setattr(o, member, words.index(value))
            elif name in _TEXTS:
                setattr(o, _TEXTS[name], self._text(value))
        self._rules(o, taken.get("tensors", {}))
        self._adapters(o, taken.get("merge_lora", []))
        o.keep_weights = set(taken) <= _NOT_ABOUT_WEIGHTS

    def _text(self, value: Any) -> Any:
        text = ffi.new("char[]", value if isinstance(value, bytes) else _options.encoded(str(value)))
        self.kept.append(text)
        return text

    def _names(self, o: Any, taken: Mapping[str, Any]) -> None:
        if "quant_type" in taken:
            found = ffi.new("qsf_convert_preset *")
            if not lib.qsf_convert_preset_find(self._text(taken["quant_type"]), found):
                known = [_native.string(lib.qsf_convert_preset_name(i)) for i in range(10)]
                raise refuse(f"quant_type is {shown(taken['quant_type'])}; it must be one of "
                             f"{', '.join(known)}")
            o.preset = found[0]
        if "i2s_layout" in taken:
            layout = ffi.new("qsf_i2s_layout *")
            if not lib.qsf_i2s_layout_find(self._text(taken["i2s_layout"]), layout):
                raise refuse(f"i2s_layout is {shown(taken['i2s_layout'])}; docs/bitnet-files.md lists them")
            o.i2s_layout = layout[0]

    def _rules(self, o: Any, tensors: Mapping[str, str]) -> None:
        rules = ffi.new("qsf_convert_rule[]", max(1, len(tensors)))
        self.kept.append(rules)
        for i, (pattern, chosen) in enumerate(tensors.items()):
            kind, _, block = chosen.partition(":")
            if block and not block.isdecimal():
                raise refuse(f"tensors[{pattern!r}] is {shown(chosen)}; it must be a type, or TYPE:BLOCK")
            rules[i].pattern, rules[i].type = self._text(pattern), self._text(kind)
            rules[i].block = int(block or 0)
        o.rules, o.n_rules = rules, len(tensors)

    def _adapters(self, o: Any, given: list[Any]) -> None:
        adapters = ffi.new("qsf_convert_adapter[]", max(1, len(given)))
        self.kept.append(adapters)
        for i, one in enumerate(given):
            path, scale = one if isinstance(one, tuple) and len(one) == 2 else (one, 1.0)
            adapters[i].path, adapters[i].scale = self._text(_options.path_of(path)), float(scale)
        o.adapters, o.n_adapters = adapters, len(given)


def _read(path: str, result: Any) -> Converted:
    summary, one = ffi.new("qsf_convert_summary *"), ffi.new("qsf_convert_tensor *")
    summary.size, one.size = ffi.sizeof("qsf_convert_summary"), ffi.sizeof("qsf_convert_tensor")
    lib.qsf_convert_get_summary(result, summary)
    tensors = []
    for i in range(summary.n_tensors):
        lib.qsf_convert_get_tensor(result, i, one)
        name, kind, type_ = (_native.string(text) for text in (one.name, one.kind, one.type))
        tensors.append(ConvertedTensor(name, kind, type_, one.rows, one.cols, one.bytes, one.relative_error,
                                       one.cosine))
    return Converted(
        path=path, architecture=_native.string(summary.arch), weights=summary.n_weights,
        source_bytes=summary.source_bytes, tensor_bytes=summary.tensor_bytes, file_bytes=summary.file_bytes,
        seconds=summary.ns / 1e9, relative_error=summary.relative_error, cosine=summary.cosine,
        estimated_kl=summary.estimated_kl, predicted_kl=summary.predicted_kl, tensors=tuple(tensors))


def convert(source: Union[str, "os.PathLike[str]"], target: Union[str, "os.PathLike[str]"], *,
            progress: OnProgress = None, **options: Unpack[ConvertOptions]) -> Converted:
    """Writes the QSF file target, whole or not at all, from source: a GGUF or QSF file, a Hugging Face
    folder, or the name of a model. progress is called with a Progress now and then, in this thread; an
    exception that it raises ends the conversion."""
    taken = _options.checked("convert", dict(options))
    work, filled = Work(progress), _Filled(taken)
    to = _options.path_of(target)
    path = _options.path_of(_hub.find(source, {"progress": progress}, "the source"))

    def step(user: Any, stage: Any, name: Any, done: int, total: int) -> None:
        work.tell(Progress(_native.string(stage), _native.string(name), done, total))

    def line(user: Any, level: int, text: Any) -> None:
        log.log(logging.WARNING if level <= lib.QSF_LOG_WARN else logging.DEBUG, "%s", _native.string(text))
    calls = [work.callback("void (void *, const char *, const char *, uint64_t, uint64_t)", step),
             work.callback("qsf_log_fn", line)]
    o = filled.options
    o.progress, o.log = calls
    o.cancelled, o.user = lib.qsf_python_raised, work.flag
    out = ffi.new("qsf_convert_result **")
    if lib.qsf_convert_run(path, to, o, out, work.error):
        work.raised()
    try:
        if work.failed is not None:         # after the last step that could be ended
            raise work.failed
        return _read(os.fsdecode(to), out[0])
    finally:
        lib.qsf_convert_result_free(out[0])
