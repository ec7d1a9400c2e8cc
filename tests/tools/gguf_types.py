"""Types of GGUF that the Python package gguf does not know or does not unpack, added to it: after this
import they are members of GGMLQuantizationType and dequantize takes them. Written from the formats'
descriptions.
SPDX-License-Identifier: MIT
"""
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Q, quants

BASE = getattr(quants, "__Quant")


def known(name, number, block, size):
    """The type's member of the package's list, added where it is not there."""
    if name not in Q.__members__:
        member = int.__new__(Q, number)
        member._name_, member._value_ = name, number
        Q._member_map_[name] = Q._value2member_map_[number] = member
        GGML_QUANT_SIZES[member] = (block, size)
        quants.GGML_QUANT_SIZES[member] = (block, size)
    return Q(number)


def halves(blocks):
    return np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)


def add(kind, unpack):
    if kind in quants._type_traits: return

    class Added(BASE, qtype=kind):
        @classmethod
        def dequantize_blocks(cls, blocks): return unpack(blocks)


def q1_0(blocks):
    bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little")
    return np.where(bits == 1, halves(blocks), -halves(blocks))


def q2_0(blocks):
    codes = blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    return halves(blocks) * (codes.reshape(len(blocks), -1).astype(np.float32) - 1)


def q8_k(blocks):
    scale = np.ascontiguousarray(blocks[:, :4]).view(np.float32)
    return scale * blocks[:, 4:260].view(np.int8).astype(np.float32)


def i2_s(blocks):
    """Of Microsoft's fork, in the x86 layout: without the scale, which follows the tensor."""
    codes = blocks[:, None, :] >> np.array([6, 4, 2, 0], np.uint8)[:, None] & 3
    return codes.reshape(len(blocks), -1).astype(np.float32) - 1


def floats(t):
    """The values of a reader's tensor."""
    values = quants.dequantize(t.data, t.tensor_type)
    if t.tensor_type.name != "I2_S": return values
    end = t.data_offset + t.n_bytes
    whole = t.data
    while isinstance(whole.base, np.ndarray): whole = whole.base            # the file
    return values * np.array(whole[end:end + 4]).view(np.float32)


add(known("I2_S", 36, 128, 32), i2_s)
add(known("Q1_0", 41, 128, 18), q1_0)
add(known("Q2_0", 42, 64, 18), q2_0)
add(known("Q8_K", 15, 256, 292), q8_k)
