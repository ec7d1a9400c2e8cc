#!/usr/bin/env python3
"""Writes i2s_golden.h: ternary matrices as the code of microsoft/BitNet stores them, and 2-bit ones in
the other layouts of I2_S.
SPDX-License-Identifier: MIT

    make_i2s.py BITNET > i2s_golden.h

BITNET is a checkout of microsoft/BitNet.  Its quantize_i2_s is compiled three times, for the machines
it has code for, and the packing functions of its converters run as they are; both of them write I2_S as
the code for x86 does, which is checked here.
"""
import ast, ctypes, os, pathlib, re, subprocess, sys, tempfile
import numpy as np

bitnet = pathlib.Path(sys.argv[1]).resolve()
rng = np.random.default_rng(36)
CC = os.environ.get("CXX", "g++")


def quantizer(work, name, defines, group):
    """quantize_i2_s of src/ggml-bitnet-mad.cpp under other macros than this machine's"""
    source = (bitnet / "src/ggml-bitnet-mad.cpp").read_text()
    body = source[source.index("size_t quantize_i2_s("):]
    body = body[:re.search(r"\n}\n", body).end()]
    machine = ("__AVX__", "__AVX2__", "__AVX512F__", "__SSSE3__", "__ARM_NEON")
    flags = "".join(f"#undef {m}\n" for m in machine)
    (work / f"{name}.cpp").write_text(
        "#include <cassert>\n#include <cmath>\n#include <cstdint>\n#include <cstdlib>\n#include <cstring>\n"
        + flags + "".join(f"#define {d}\n" for d in defines) +
        f"#define QK_I2_S {group}\nenum {{ GGML_TYPE_I2_S = 36 }};\n"
        "static size_t ggml_row_size(int, int64_t n) { return n; }\nextern \"C\" " + body)
    subprocess.run([CC, "-shared", "-fPIC", "-O1", "-w", "-o", work / f"{name}.so", work / f"{name}.cpp"],
                   check=True)
    call = ctypes.CDLL(str(work / f"{name}.so")).quantize_i2_s
    call.restype = ctypes.c_size_t
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]

    def run(w):
        out = np.zeros(w.size // 4 + 64, np.uint8)
        n = call(w.ctypes.data, out.ctypes.data, *w.shape, None)
        return out[:n]
    return run


def converter(file="convert-hf-to-gguf-bitnet.py"):
    """The packing functions of a file of utils/, without the rest of it"""
    tree = ast.parse((bitnet / "utils" / file).read_text())
    wanted = ("process_tl1", "preprocess_weights_tl1", "preprocess_two_weights_tl2",
              "preprocess_three_weights_tl2", "preprocess_weights_tl2", "quantize_to_i2_s")
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    names = {"np": np, "Tuple": tuple}
    exec(compile("from __future__ import annotations\n" + ast.unparse(tree), "converter", "exec"), names)
    return names


def ternary(rows, cols):
    return rng.integers(-1, 2, (rows, cols)).astype(np.float32)


def array(name, type, values):
    print(f"static const {type} {name}[] = {{")
    flat = [str(v) for v in np.asarray(values).ravel()]
    for i in range(0, len(flat), 26):
        print("    " + ",".join(flat[i:i + 26]) + ",")
    print("};")


# shapes of kernels: model, TL1 (bm, bk, bmm) and TL2
KERNELS = {
    (1536, 4096): ((256, 128, 32), (256, 96, 32)), (1536, 1536): ((128, 64, 64), (128, 192, 32)),
    (4096, 1536): ((256, 128, 32), (256, 96, 32)),
    (3200, 8640): ((160, 64, 32), (160, 96, 32)), (3200, 3200): ((320, 128, 64), (320, 96, 32)),
    (8640, 3200): ((320, 64, 32), (320, 96, 32)), (1024, 4096): (None, (256, 96, 32)),
}


def sparse(pack, m, k, kernel):
    """What some weights change in a matrix of zeros: (row, col, value), (byte, its value)"""
    os.makedirs("include", exist_ok=True)
    pathlib.Path("include/kernel_config.ini").write_text(
        "[K]\nm = %d\nk = %d\nbm = %d\nbk = %d\nbmm = %d\n" % (m, k, *kernel))
    w = np.zeros((m, k), np.float32)
    zeros = pack(w)
    places = {(int(rng.integers(m)), int(rng.integers(k))) for _ in range(40)}
    places |= {(0, 0), (m - 1, k - 1), (0, k - 1), (m - 1, 0), (m - 1, k - 32), (17, k - 33)}
    for r, c in places: w[r, c] = rng.choice((-1, 1))
    packed = pack(w)
    at = np.flatnonzero(packed != zeros)
    places = [(r, c, int(w[r, c])) for r, c in sorted(places)]
    runs = np.flatnonzero(np.diff(zeros)) + 1          # zeros' own bytes: few runs
    base = [(0, int(zeros[0]))] + [(int(i), int(zeros[i])) for i in runs]
    return places, base, [(int(i), int(packed[i])) for i in at], len(packed)


print("/* Matrices of 2-bit weights as other programs store them; made by make_i2s.py.")
print(" * SPDX-License-Identifier: MIT */\n#include <stdint.h>")
convert, embedding = converter(), converter("convert-bitnet-embedding-to-gguf.py")
with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    os.chdir(work)
    x86 = quantizer(work, "x86", ("__AVX__", "ACT_PARALLEL"), 128)
    arm = quantizer(work, "arm", ("__ARM_NEON",), 64)
    rows4 = quantizer(work, "rows4", ("__AVX__",), 128)
    for n, (rows, cols) in enumerate(((20, 256), (16, 104))):       # the second in groups across rows
        w = ternary(rows, cols)
        assert np.array_equal(x86(0.75 * w)[:w.size // 4],
                              convert["quantize_to_i2_s"](w, 0.75)[:w.size // 4])
        assert np.array_equal(x86(w)[:w.size // 4], embedding["quantize_to_i2_s"](w)[:w.size // 4])
        array(f"i2s_values_{n}", "int8_t", w.astype(int))
        for name, code in ("x86", x86), ("arm", arm), ("rows4", rows4):
            array(f"i2s_{name}_{n}", "uint8_t", code(0.75 * w))
    print("typedef struct i2s_place { uint32_t at, value; } i2s_place;")
    print("typedef struct i2s_weight { uint32_t row, col; int value; } i2s_weight;")
    cases = []
    for (m, k), kernels in KERNELS.items():
        for tl, kernel in enumerate(kernels):
            if not kernel: continue
            name = f"tl{tl + 1}_{m}_{k}"
            pack = lambda w: convert[f"preprocess_weights_tl{tl + 1}"](w).ravel()
            weights, base, changes, size = sparse(pack, m, k, kernel)
            for what, type, values in (("weights", "i2s_weight", weights), ("base", "i2s_place", base),
                                       ("changes", "i2s_place", changes)):
                print(f"static const {type} {name}_{what}[] = {{")
                for i in range(0, len(values), 5):
                    print("    " + " ".join("{ %s }," % ", ".join(map(str, v)) for v in values[i:i + 5]))
                print("};")
            cases.append(f"    {{ {tl + 1}, {m}, {k}, {size}, {name}_weights, {len(weights)},\n"
                         f"      {name}_base, {len(base)}, {name}_changes, {len(changes)} }},")
print("static const struct {\n    int tl;\n    uint32_t rows, cols, bytes;\n    const i2s_weight *weights;\n"
      "    uint32_t n_weights;\n    const i2s_place *base;\n    uint32_t n_base;\n"
      "    const i2s_place *changes;\n"
      "    uint32_t n_changes;\n} tl_golden[] = {")
print("\n".join(cases))
print("};")
