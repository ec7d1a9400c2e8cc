"""What a model is, and what its context takes.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

from dataclasses import dataclass

from . import _names, _native
from ._device import Device


@dataclass(frozen=True)
class ModelInfo:
    """A description of a model and of its context."""

    name: str
    architecture: str
    format: str                 # "QSF" or "GGUF"
    chat_template: str          # the template that is used
    template_source: str        # the file's, in Jinja; "": none
    parameters: int
    weight_bytes: int
    vocabulary: int
    layers: int
    embedding: int              # floats of a hidden state
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    trained_context: int
    bos: int                    # -1: none
    eos: int
    encoder: bool               # embeddings only
    classes: int                # scores of the file's classifier
    context_length: int         # positions of all conversations together
    memory_bytes: int           # of the plan
    least_bytes: int            # the smallest budget that works
    resident: bool              # all layers stay in memory
    batch_size: int
    threads: int
    max_parallel: int
    device: Device              # what computes the layers
    isa: str                    # the kernels' instruction set
    io: str                     # how the file is read
    plan: tuple[tuple[str, int], ...]           # parts of the memory, with their bytes
    reductions: tuple[str, ...]                 # to stay within the budget
    warnings: tuple[str, ...]                   # those that may change answers
    version: str                # of the library


def _texts(handle: int, name: str) -> tuple[str, ...]:
    found: list[str] = []
    while (text := _native.text(handle, name, len(found))) is not None:
        found.append(text)
    return tuple(found)


def info_of(context: int, parallel: int, device: Device) -> ModelInfo:
    def text(name: str) -> str:
        return _native.text(context, name) or ""

    def n(name: str) -> int:
        return _native.whole(context, name)
    items = _texts(context, "item")
    return ModelInfo(
        name=text("name"), architecture=text("architecture"), format=text("format"),
        chat_template=text("chat-template"), template_source=text("template-source"),
        parameters=n("parameters"), weight_bytes=n("weight-bytes"), vocabulary=n("vocabulary"),
        layers=n("layers"), embedding=n("embedding"), heads=n("heads"), kv_heads=n("kv-heads"),
        head_dim=n("head-dim"), feed_forward=n("feed-forward"), trained_context=n("trained-context"),
        bos=n("bos"), eos=n("eos"), encoder=bool(n("encoder")), classes=n("classes"),
        context_length=n("context-length"), memory_bytes=n("plan-bytes"), least_bytes=n("least-bytes"),
        resident=bool(n("resident")), batch_size=n("batch"), threads=n("threads"), max_parallel=parallel,
        device=device,
        isa=text("isa"), io=text("io"),
        plan=tuple((item, _native.whole(context, "item-bytes", i)) for i, item in enumerate(items)),
        reductions=_texts(context, "reduction"), warnings=tuple(text("warnings").splitlines()),
        version=text("version"))


def stats_of(handle: int) -> dict[str, float]:
    """The numbers of docs/flat.md that a context counts, with "_" for "-"."""
    return {name.replace("-", "_"): _native.number(handle, name) for name in _names.NUMBERS_OF_STATS}
