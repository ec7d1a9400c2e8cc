"""Models by name: the cache of Hugging Face's hub, and downloads (docs/hub.md).
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from . import _native, _options
from ._native import ffi, lib
from ._progress import OnProgress, Progress, Work
from .errors import QsfError, error, refuse, shown

# OWNER/REPO without "hf:" may be a path, too: a file in a folder has an ending.
_PLAIN = re.compile(r"[\w-][\w.-]*/(?!.*\.(?:gguf|qsf)$)[\w-][\w.-]*(?:[:@][^\s/\\]+)?", re.A | re.I)


@dataclass(frozen=True)
class CachedModel:
    """A model in the cache."""

    name: str                   # "hf:OWNER/REPO/FILE", which load() takes, or a URL
    path: str
    bytes: int


def name_of(given: object) -> str | None:
    """The name that a model is given by; None: it is a path."""
    if not isinstance(given, str):
        return None
    if _PLAIN.fullmatch(given) and not os.path.exists(os.path.expanduser(given)):
        return f"hf:{given}"
    return given if lib.qsf_python_is_name(_options.encoded(given)) else None


def _found(name: str, progress: OnProgress, hub: str | None, offline: bool, memory: int) -> str:
    work, last = Work(progress), [-1]

    def told(text: Any, done: int, total: int, part: int, parts: int) -> None:
        if done in (0, total) or done < last[0] or done - last[0] >= total // 1000:     # they come often
            last[0] = done
            work.tell(Progress("download", _native.string(text), done, total, max(part, 1), max(parts, 1)))

    def event(user: Any, kind: int, text: Any, done: int, total: int, part: int, parts: int) -> bool:
        if kind == lib.QSF_PYTHON_NOTE:
            _native.warn("%s", _native.string(text))
        elif kind != lib.QSF_PYTHON_ASKS:
            told(text, done, total, part, parts)
        return work.failed is not None
    called = work.callback("qsf_python_event", event, True)
    path = lib.qsf_python_find(_options.encoded(name), ffi.NULL if hub is None else _options.encoded(hub),
                               offline, memory, called, ffi.NULL, work.error)
    if path == ffi.NULL:
        work.raised()
    try:
        return os.fsdecode(ffi.string(path))
    finally:
        lib.qsf_python_free(path)


def find(given: Any, options: dict[str, Any], what: str = "the model") -> Any:
    """The path of what load() is given. options: checked ones, of which those about names are taken out."""
    progress, hub = options.pop("progress", None), options.pop("hub", None)
    offline = options.pop("offline", False)
    name = name_of(given)
    if name is None:
        return given
    if "\0" in name:
        raise refuse(f"{what} is {shown(given)}; a name has no zero byte")
    try:
        return _found(name, progress, hub, offline, int(1e6 * options.get("ram_budget", 0)))
    except QsfError as wrong:
        if name == given:
            raise
        raise error(wrong.code, f"{wrong}; no file {given} exists either") from None


def pull(name: str, *, progress: OnProgress = None, hub: str | None = None, offline: bool = False,
         ram_budget: float | None = None) -> str:
    """Downloads a model by its name unless the cache has it, and returns its path: "OWNER/REPO",
    "hf:OWNER/REPO:Q4_K_M", "hf:OWNER/REPO/FILE.gguf@REVISION" or a URL. progress is called with a Progress.
    hub: another address than HF_ENDPOINT; offline: only the cache is used; ram_budget: without a quantisation
    in the name, the model has to fit in this many megabytes."""
    taken = _options.checked("pull", {"progress": progress, "hub": hub, "offline": offline,
                                      "ram_budget": ram_budget})
    if name_of(name) is None:
        raise refuse(f"{shown(name)} is not the name of a model: OWNER/REPO, hf:OWNER/REPO:QUANTISATION, "
                     "hf:OWNER/REPO/FILE, or a URL")
    return str(find(name, taken))


def cached() -> list[CachedModel]:
    """The models in the cache, ordered by name; other programs' downloads are among them."""
    models: list[CachedModel] = []
    work = Work(None)

    def entry(user: Any, name: Any, path: Any, size: int) -> None:
        models.append(CachedModel(_native.string(name), os.fsdecode(ffi.string(path)), size))
    called = work.callback("void (void *, const char *, const char *, uint64_t)", entry)
    if lib.qsf_python_cached(called, ffi.NULL, work.error) or work.failed:
        work.raised()
    return models
