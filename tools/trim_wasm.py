#!/usr/bin/env python3
"""Makes a linked WebAssembly module compress better, by about one percent, without a change to what it does.
SPDX-License-Identifier: MIT

    tools/trim_wasm.py MODULE.wasm        replaces the file

In each function, variables are renumbered: by type, and those that are used most often first, so that
functions have more bytes in common.  Each load and store states the natural alignment of its type: that is a
hint without effect, and compilers state what they happen to know.  A function with an instruction that this
script does not know keeps its bytes.
"""
import os
import sys

I32, I64, F32, F64, V128 = 0x7f, 0x7e, 0x7d, 0x7c, 0x7b
TYPES = (I32, I64, F32, F64, V128)
# log2 of the natural alignment: of loads and stores (from 0x28), those of vectors, those of lanes
ALIGN = dict(zip(range(0x28, 0x3f), (2, 3, 2, 3, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 3, 2, 3, 0, 1, 0, 1, 2)))
ALIGN_VECTOR = dict(zip((*range(12), 92, 93), (4, 3, 3, 3, 3, 3, 3, 0, 1, 2, 3, 4, 2, 3)))
ALIGN_LANE = dict(zip(range(84, 92), (0, 1, 2, 3, 0, 1, 2, 3)))
# operands: this many numbers in LEB128
ONE_NUMBER = {0x02, 0x03, 0x04, 0x0c, 0x0d, 0x10, 0x23, 0x24, 0x25, 0x26, 0x3f, 0x40, 0x41, 0x42, 0xd0, 0xd2}
NO_OPERAND = {0x00, 0x01, 0x05, 0x0b, 0x0f, 0x1a, 0x1b, 0xd1, *range(0x45, 0xc5)}
NUMBERS_FC = dict(enumerate((0,) * 8 + (2, 1, 2, 1, 2, 1, 2, 1, 1, 1)))


class Unknown(Exception):
    """An instruction that this script does not know."""


def number(data, at):
    """An unsigned number in LEB128, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def after(data, at, n=1):
    """Where n numbers end."""
    for _ in range(n):
        while data[at] >= 128:
            at += 1
        at += 1
    return at


def coded(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def after_prefixed(data, at, prefix, code):
    """Where the operands of an instruction of two bytes or more end; those with alignments are elsewhere."""
    if prefix == 0xfc and code in NUMBERS_FC:
        return after(data, at, NUMBERS_FC[code])
    if prefix == 0xfd and code <= 0x114:
        return at + (16 if code in (12, 13) else 1 if 21 <= code <= 34 else 0)
    if prefix == 0xfe and code <= 0x4e:
        return at + 1 if code == 3 else after(data, at, 2)
    raise Unknown


def instructions(data, at):
    """Of each instruction: begin, end, variable or None, natural alignment or None, its place."""
    while at < len(data):
        begin, code = at, data[at]
        variable, align, align_at, lane = None, None, 0, 0
        at += 1
        if 0x20 <= code <= 0x22:
            variable, at = number(data, at)
        elif code in ALIGN:
            align, align_at = ALIGN[code], at
        elif code in ONE_NUMBER:
            at = after(data, at)
        elif code in NO_OPERAND:
            pass
        elif code == 0x11:
            at = after(data, at, 2)
        elif code == 0x0e:
            n, at = number(data, at)
            at = after(data, at, n + 1)
        elif code in (0x43, 0x44):
            at += 4 if code == 0x43 else 8
        elif code in (0xfc, 0xfd, 0xfe):
            prefix = code
            code, at = number(data, at)
            if prefix == 0xfd and code in ALIGN_VECTOR:
                align, align_at = ALIGN_VECTOR[code], at
            elif prefix == 0xfd and code in ALIGN_LANE:
                align, align_at, lane = ALIGN_LANE[code], at, 1
            else:
                at = after_prefixed(data, at, prefix, code)
        else:
            raise Unknown
        if align is not None:
            stated, at = number(data, align_at)
            if stated > align:
                raise Unknown                   # more memories than one, or what this script does not know
            at = after(data, at) + lane
        yield begin, at, variable, align, align_at


def trimmed(body, n_params):
    """A function's body with its variables in another order."""
    n, at = number(body, 0)
    types = []
    for _ in range(n):
        count, at = number(body, at)
        types += [body[at]] * count
        at += 1
    if any(t not in TYPES for t in types):
        raise Unknown
    code = list(instructions(body, at))
    if code[-1][1] != len(body):
        raise Unknown
    uses = [0] * len(types)
    for _, _, variable, _, _ in code:
        if variable is not None and variable >= n_params:
            uses[variable - n_params] += 1
    used = [i for i in range(len(types)) if uses[i]]
    order = sorted(used, key=lambda i: (TYPES.index(types[i]), -uses[i], i))
    place = {old + n_params: new + n_params for new, old in enumerate(order)}
    groups = []
    for t in TYPES:
        count = sum(types[i] == t for i in order)
        if count:
            groups.append(coded(count) + bytes([t]))
    out = bytearray(coded(len(groups)) + b"".join(groups))
    for begin, end, variable, align, align_at in code:
        if variable is not None:
            out += body[begin:begin + 1] + coded(place.get(variable, variable))
        elif align is not None:
            out += body[begin:align_at] + coded(align) + body[after(body, align_at):end]
        else:
            out += body[begin:end]
    return bytes(out)


def parameters(section):
    """How many parameters each function type has."""
    n, at = number(section, 0)
    counts = []
    for _ in range(n):
        if section[at] != 0x60:
            raise SystemExit("trim_wasm.py: a type that is not a function's")
        count, at = number(section, at + 1)
        counts.append(count)
        count, at = number(section, at + count)
        at += count
    return counts


def trim(module):
    if module[:8] != b"\0asm\1\0\0\0":
        raise SystemExit("trim_wasm.py: not a module")
    out, at, counts, of = bytearray(module[:8]), 8, [], []
    while at < len(module):
        kind = module[at]
        size, at = number(module, at + 1)
        section = module[at:at + size]
        at += size
        if kind == 1:
            counts = parameters(section)
        elif kind == 3:
            n, place = number(section, 0)
            for _ in range(n):
                which, place = number(section, place)
                of.append(counts[which])
        elif kind == 10:
            n, place = number(section, 0)
            bodies = bytearray(coded(n))
            for i in range(n):
                size, place = number(section, place)
                body = section[place:place + size]
                place += size
                try:
                    body = trimmed(body, of[i])
                except Unknown:
                    pass
                bodies += coded(len(body)) + body
            section = bytes(bodies)
        out += bytes([kind]) + coded(len(section)) + section
    return bytes(out)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    path = sys.argv[1]
    with open(path, "rb") as file:
        module = file.read()
    with open(path + ".part", "wb") as file:
        file.write(trim(module))
    os.replace(path + ".part", path)


if __name__ == "__main__":
    main()
