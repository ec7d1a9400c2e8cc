"""Layers on a GPU.
SPDX-License-Identifier: MIT
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _names, _native
from ._native import OK, ffi, lib
from .errors import error

ALL = 2 ** 32 - 1


@dataclass(frozen=True)
class Device:
    """What computes the layers."""

    kind: str                   # "cpu" or "gpu"
    name: str = ""
    layers: int = 0             # on the GPU: the last ones
    head: bool = False
    bytes: int = 0              # of the GPU's memory
    reason: str = ""            # why other layers are on the CPU
    stream: str = ""            # for which batches the weights of others pass through the GPU


def _about(context: Any) -> Device:
    use = ffi.new("qsf_device_use *")
    use.size = ffi.sizeof("qsf_device_use")
    if lib.qsf_context_device(context, use) != OK or not use.n_layers:
        return Device("cpu")
    return Device("gpu", _native.string(use.name), use.n_layers, bool(use.head),
                  use.weights + use.kv + use.batch + use.slots, _native.string(use.left),
                  _native.string(use.stream))


def use_gpu(handle: int, options: dict[str, Any]) -> Device:
    """Before the context of this handle computes. A GPU that fails is a warning, as the answer is the same
    without it; none at all is an error."""
    if options.get("device", "cpu") != "gpu":
        return Device("cpu")
    found, failed = ffi.new("qsf_devices **"), ffi.new("qsf_error *")
    status = lib.qsf_devices_open(ffi.NULL, ffi.NULL, found, failed)
    if status != OK:
        raise error(_names.STATUS[status], f'device="gpu": {_native.string(failed.text)}')
    context = lib.qsf_flat_context(handle)
    status = lib.qsf_context_use_device(context, found[0], 0, options.get("gpu_layers", ALL),
                                        int(options.get("gpu_memory", 0) * 1e6))
    lib.qsf_devices_close(found[0])
    if status == OK:
        return _about(context)
    said = _native.string(lib.qsf_last_error(context))
    if _names.STATUS[status] not in ("CORRUPT", "MEMORY", "IO"):
        raise error(_names.STATUS[status], f'device="gpu": {said}')
    _native.warn("device=\"gpu\": %s; all layers stay on the CPU", said)
    return Device("cpu", reason=said)
